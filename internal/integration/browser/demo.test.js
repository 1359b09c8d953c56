// @ts-check
// `make demo` shows what it says that it shows.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { language, psql } from './demo.js';
import { root } from './processes.js';

test('a table is printed as psql prints it', () => {
  assert.equal(
    psql(['title', 'is_completed'], [{ is_completed: true, title: 'Физика: задачи 12–15' }]),
    ['        title         | is_completed ', '----------------------+--------------', ' Физика: задачи 12–15 | t', '(1 row)'].map(l => l.trimEnd()).join('\n'),
  );
});

test('the demo speaks as --lang says, or the environment, and else English', () => {
  assert.equal(language([], {}), 'en');
  assert.equal(language([], { LANG: 'ru_RU.UTF-8' }), 'ru');
  assert.equal(language([], { LC_ALL: 'C', LANG: 'ru_RU.UTF-8' }), 'en');
  assert.equal(language([], { LC_ALL: '', LC_MESSAGES: 'ru_RU', LANG: 'de_DE' }), 'ru');
  assert.equal(language(['--lang=en'], { LANG: 'ru_RU.UTF-8' }), 'en');
  assert.equal(language(['--lang=ru'], { LANG: 'C' }), 'ru');
});

/** @param {string} lang */
const run = lang => promisify(execFile)(process.execPath, [join(root, 'internal/integration/browser/demo.js'), `--lang=${lang}`], { timeout: 300_000 });

test('the demo in English loses and doubles the same', async () => {
  const { stdout } = await run('en');
  assert.doesNotMatch(stdout, /[а-яё]/i);
  const [off, on] = stdout.split('=== with Onceward');
  assert.match(off, / Physics: problems 12–15 \| f\n/);
  assert.equal(off.match(/ Training \| \d{4}-\d\d-\d\d \| [tf]\n/g)?.length, 3);
  assert.match(on, /the strip can be seen: true \| One change is waiting for the network\nin the queue: \["POST /);
  assert.match(on, / Physics: problems 12–15 \| t\n/);
  assert.equal(on.match(/ Training \| \d{4}-\d\d-\d\d \| [tf]\n/g)?.length, 2);
  assert.match(on, /taps lost +1 +0\ntrainings the next time +2 +1\n/);
});

test('the demo loses a tap and doubles a training without Onceward, and neither with it', async () => {
  const { stdout } = await run('ru');
  const [off, on] = stdout.split('=== с Onceward');
  assert.match(off, /воркер управляет страницей: false/);
  assert.match(off, / Физика: задачи 12–15 \| f\n/);
  assert.equal(off.match(/ Тренировка \| \d{4}-\d\d-\d\d \| [tf]\n/g)?.length, 3);
  const lines = on.split('\n');
  const at = lines.indexOf('воркер управляет страницей: true');
  assert.match(
    lines.slice(at, at + 12).join('\n'),
    new RegExp(
      [
        '^воркер управляет страницей: true',
        '— сеть выключена —',
        '  \\[ответ\\] 202 /tasks/[0-9a-f]{8}-\\.\\.\\./state',
        'значок очереди виден: true \\| Одно изменение ждёт сети',
        'в очереди: \\["POST /tasks/[0-9a-f]{8}-\\.\\.\\./state"\\]',
        '— сеть включена —',
        'осталось в очереди: 0',
        '',
        '        title         \\| is_completed',
        '----------------------\\+--------------',
        ' Физика: задачи 12–15 \\| t',
        '\\(1 row\\)$',
      ].join('\n'),
    ),
  );
  assert.equal(on.match(/ Тренировка \| \d{4}-\d\d-\d\d \| [tf]\n/g)?.length, 2);
  assert.match(on, /потеряно нажатий +1 +0\nтренировок в следующий раз +2 +1\n/);
});
