// @ts-check
// The two checks that the project grew from, typed as they were printed: two
// equal requests under one name, and a tap without a network. The last word has
// the database, never the screen.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';
import { root, tempFolder } from './processes.js';
import { Scene } from './scene.js';

const title = 'Физика: задачи 12–15';

/** @type {Scene} */
let scene;
before(async () => {
  scene = await Scene.open('chromium');
});
after(() => scene?.close());
afterEach(() => scene.clear());

/** What the page itself is told, in its own words. @param {import('./screen.js').Screen} screen */
const listen = async screen => {
  // A new row is there before the answer to it is.
  await screen.tab.waitFor('no request is under way', () => document.querySelector('.htmx-request') === null);
  await screen.tab.eval(() => {
    const said = /** @type {any} */ (window);
    said.answers = [];
    said.online = 0;
    document.addEventListener('htmx:beforeOnLoad', event => {
      const { xhr, pathInfo } = /** @type {any} */ (event).detail;
      said.answers.push(`${xhr.status} ${pathInfo.requestPath}`);
    });
    addEventListener('online', () => said.online++);
  });
};
/** @param {import('./screen.js').Screen} screen @returns {Promise<string[]>} */
const answers = screen => screen.tab.eval(() => /** @type {any} */ (window).answers);
/** @param {import('./screen.js').Screen} screen @returns {Promise<number>} */
const onlineEvents = screen => screen.tab.eval(() => /** @type {any} */ (window).online);
/** @param {string} path */
const short = path => path.replace(/\/tasks\/(\w{8})\w*/, '/tasks/$1…');

// Requirements 18, 19, 51.
describe('two equal POST /tasks under the key key-abc-123', () => {
  test('have equal bodies, the second is a replay, and the database has one row', async () => {
    const anna = await scene.person();
    const post = () =>
      anna.screen.tab.eval(async () => {
        const answer = await fetch('/tasks', {
          method: 'POST',
          headers: { 'Idempotency-Key': 'key-abc-123', 'HX-Request': 'true' },
          body: new URLSearchParams({ text: 'Купить тетрадь' }),
        });
        return { status: answer.status, replayed: answer.headers.get('Idempotency-Replayed'), body: await answer.text() };
      });
    const first = await post();
    const second = await post();
    assert.equal((await anna.rows('Купить тетрадь')).length, 1);
    assert.equal(first.status, 201);
    assert.equal(first.replayed, null);
    assert.equal(second.status, 201);
    assert.equal(second.replayed, '1');
    assert.match(first.body, /Купить тетрадь/);
    assert.equal(second.body, first.body);
    const sent = await scene.sent(/^\/tasks$/);
    assert.deepEqual(sent.map(e => [e.key, e.status, e.forwarded]), [['key-abc-123', 201, 1], ['key-abc-123', 201, 1]]);
  });
});

// Requirements 46, 47, 52, 53; R21.
describe(`a tap on «${title}»`, () => {
  test('without a network is shown, kept, and done when the network is back', async () => {
    const anna = await scene.person();
    const { screen } = anna;
    const transcript = ['воркер управляет страницей: ' + (await screen.tab.eval(() => navigator.serviceWorker.controller !== null))];
    await screen.add(title);
    await anna.database('the task is there', tasks => tasks.length === 1);
    await screen.shows(title, { done: false, state: '' });
    await listen(screen);

    await anna.chromium().setOffline(true);
    transcript.push('— сеть выключена —');
    await screen.tap(title);
    const row = await screen.shows(title, { state: 'waiting' });
    assert.equal(row.done, true);
    assert.equal(row.caption, 'сохранится, когда появится сеть');
    await screen.stripSays('Одно изменение ждёт сети');
    const kept = await screen.keeps(1);
    transcript.push(...(await answers(screen)).map(a => `  [ответ] ${short(a)}`));
    transcript.push(`значок очереди виден: ${await screen.tab.visible('#outbox-strip')} | ${await screen.strip()}`);
    transcript.push(`в очереди: ${JSON.stringify(kept.map(e => `${e.method} ${short(new URL(e.url).pathname)}`))}`);
    assert.deepEqual((await anna.rows(title)).map(t => t.is_completed), [0]);

    await anna.chromium().setOffline(false);
    transcript.push('— сеть включена —');
    await screen.drained();
    transcript.push(`осталось в очереди: ${(await screen.queue()).length}`);

    const found = await anna.rows(title);
    assert.deepEqual(found.map(t => [t.title, t.is_completed]), [[title, 1]]);
    await screen.shows(title, { state: '', done: true });
    await screen.stripSays(null);
    transcript.push('', '        title         | is_completed', '----------------------+--------------');
    transcript.push(...found.map(t => ` ${t.title} | ${t.is_completed ? 't' : 'f'}`));
    console.log(transcript.join('\n'));
    assert.deepEqual(transcript.filter(line => /ответ|значок|осталось/.test(line)), [
      `  [ответ] ${short(`202 /tasks/${row.id}/state`)}`,
      'значок очереди виден: true | Одно изменение ждёт сети',
      'осталось в очереди: 0',
    ]);
  });

  test('while every answer is 502 is kept, and done without any online event', async () => {
    const anna = await scene.person();
    const { screen } = anna;
    await screen.add(title);
    await anna.database('the task is there', tasks => tasks.length === 1);
    await screen.shows(title, { done: false, state: '' });
    await listen(screen);

    await scene.network.mode('502');
    await screen.tap(title);
    const row = await screen.shows(title, { state: 'waiting' });
    assert.equal(row.caption, 'сохранится, когда появится сеть');
    await screen.stripSays('Одно изменение ждёт сети');
    await screen.keeps(1);
    assert.deepEqual((await anna.rows(title)).map(t => t.is_completed), [0]);
    const met = await scene.sent(/\/state$/);
    assert.ok(met.length >= 1 && met.every(e => e.status === 502 && e.forwarded === 0), JSON.stringify(met));

    await scene.network.good();
    await screen.drained();
    assert.deepEqual((await anna.rows(title)).map(t => t.is_completed), [1]);
    const sent = await scene.sent(/\/state$/);
    assert.equal(new Set(sent.map(e => e.key)).size, 1);
    assert.equal(sent.filter(e => e.forwarded > 0).length, 1);
    assert.equal(await onlineEvents(screen), 0);
    await screen.shows(title, { done: true, state: '' });
    await screen.stripSays(null);
  });
});

test('the picture for the first page of the documentation can be taken', async () => {
  const anna = await scene.person();
  const { screen } = anna;
  await screen.tab.resize(390, 720);
  for (const line of ['Алгебра №345, 347 завтра', 'Купить тетрадь в клетку завтра', `${title} завтра`]) {
    await screen.add(line);
    await screen.shows(line.replace(' завтра', ''), { state: '' });
  }
  await anna.database('three tasks', tasks => tasks.length === 3);
  await screen.tab.eval(() => /** @type {HTMLElement} */ (document.activeElement).blur());
  await anna.chromium().setOffline(true);
  await screen.tap(title);
  await screen.shows(title, { done: true, state: 'waiting' });
  await screen.stripSays('Одно изменение ждёт сети');
  // What says "done, undo?" goes by itself; the strip stays.
  await screen.tab.waitFor('the offer to undo is over', () => !document.getElementById('snackbar')?.checkVisibility());
  const boxes = await screen.tab.eval(() =>
    ['#outbox-strip', '[data-outbox-state=waiting]', '[data-outbox-state=waiting] .outbox-caption'].map(s => {
      const b = /** @type {Element} */ (document.querySelector(s)).getBoundingClientRect();
      return b.width > 0 && b.left >= 0 && b.right <= innerWidth && b.top >= 0 && b.bottom <= innerHeight;
    }),
  );
  assert.deepEqual(boxes, [true, true, true]);
  const file = process.env.UPDATE === '1' ? join(root, 'docs', 'waiting.png') : join(tempFolder(), 'waiting.png');
  await screen.tab.screenshot(file);
  const picture = await screen.tab.raw.screenshot();
  assert.equal(picture.subarray(1, 4).toString(), 'PNG');
  assert.deepEqual([picture.readUInt32BE(16), picture.readUInt32BE(20)], [390, 720]);
});
