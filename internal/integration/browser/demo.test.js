// @ts-check
// `make demo` shows what it says that it shows.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { psql } from './demo.js';
import { root } from './processes.js';

test('a table is printed as psql prints it', () => {
  assert.equal(
    psql(['title', 'is_completed'], [{ is_completed: true, title: 'Физика: задачи 12–15' }]),
    ['        title         | is_completed ', '----------------------+--------------', ' Физика: задачи 12–15 | t', '(1 row)'].map(l => l.trimEnd()).join('\n'),
  );
});

test('the demo loses a tap and doubles a training without Onceward, and neither with it', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, [join(root, 'internal/integration/browser/demo.js')], { timeout: 300_000 });
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
