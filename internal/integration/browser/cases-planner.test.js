// @ts-check
// Cases of docs/cases.md about the planner's pages that no other test here shows:
// what a press does at once, what two presses do, and what is said when it fails.
import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import { sleep, until } from './processes.js';
import { Scene } from './scene.js';
import { caption, has, usual } from './steps.js';

/** @type {Scene} */
let scene;
before(async () => {
  scene = await Scene.open('chromium', { limits: usual });
});
after(() => scene?.close());
afterEach(() => scene.clear());

/** @param {import('./scene.js').Person} anna @param {string} title */
const idOf = async (anna, title) => (await anna.rows(title))[0].id;

// Without a clock: what the very next frame shows is there in time.
test('B004, S2: the frame after a press already shows it, on a network that answers nothing: the circle is filled, the new row is there', async () => {
  const anna = await scene.person();
  const { screen } = anna;
  await has(anna, 'Физика');
  await scene.network.mode('blackhole');
  const circle = await screen.circle('Физика');
  await screen.tab.eval(selector => {
    const w = /** @type {any} */ (window);
    w.frames = [];
    const see = (/** @type {Element} */ on) => {
      const what = on.closest(selector) ? 'circle' : on.closest('#add .add-button') ? 'add' : '';
      if (!what) return;
      requestAnimationFrame(() => {
        const filled = document.querySelector(selector)?.getAttribute('aria-pressed');
        w.frames.push({ what, filled, rows: [...document.querySelectorAll('#lists .row-title')].map(e => e.textContent) });
      });
    };
    addEventListener('click', event => see(/** @type {Element} */ (event.target)), true);
  }, circle);
  await screen.tap('Физика');
  await screen.tab.type('#add-text', 'Алгебра', { enter: true });
  const [first, second] = await screen.tab.waitFor('both presses have had their frame', () => {
    const { frames } = /** @type {any} */ (window);
    return frames.length === 2 && frames;
  });
  assert.deepEqual([first.what, first.filled, second.what], ['circle', 'true', 'add']);
  assert.ok(second.rows.includes('Алгебра'), JSON.stringify(second));
  assert.deepEqual((await scene.sent()).filter(e => e.status).map(e => e.path), ['/tasks'], 'it was answered already');
});

/** Every control that sends a task's change, and what it is pressed on. */
const controls = [
  { name: 'the circle', path: /state$/, page: '/today', press: (/** @type {string} */ id) => `#circle-${id}` },
  { name: 'the circle of what is done', path: /state$/, page: '/done', press: (/** @type {string} */ id) => `#circle-${id}` },
  { name: 'another day', path: /due$/, page: '/today', press: (/** @type {string} */ id) => `#task-${id} form[action$="/due"] button[name=date]`, menu: true },
  { name: '"delete"', path: /trash$/, page: '/today', press: (/** @type {string} */ id) => `#trash-${id} button`, menu: true },
  { name: '"restore"', path: /trash$/, page: '/trash', press: (/** @type {string} */ id) => `#trash-${id} button` },
  { name: 'the task\'s text', path: /fields$/, page: '/tasks/', press: () => 'form[action$="/fields"] button' },
  { name: '"done" on the task\'s page', path: /state$/, page: '/tasks/', press: () => 'form[action$="/state"] button' },
  { name: '"delete" on the task\'s page', path: /trash$/, page: '/tasks/', press: () => 'form[action$="/trash"] button' },
];

// No control is ever switched off while its request is under way: a person may
// take the wish back. What keeps the second press out is that it is part of the first.
test('B178, B182: each control of a task, pressed twice: one request and one effect, and none is disabled for that', async () => {
  const anna = await scene.person();
  const { screen } = anna;
  await has(anna, 'Физика');
  const id = await idOf(anna, 'Физика');
  for (const { name, path, page, press, menu } of controls) {
    await screen.tab.goto(screen.url + (page === '/tasks/' ? `/tasks/${id}` : page));
    await screen.ready();
    const selector = press(id);
    if (menu) await screen.tab.click(`#task-${id} .menu summary`);
    const sent = (await scene.sent(path)).length;
    const effects = (await scene.did(anna)).length;
    assert.equal(await screen.tab.eval(s => document.querySelector(s)?.closest('[hx-disabled-elt]') === null, selector), true, name);
    await screen.tab.click(selector, { double: true, gap: 40 });
    await until(`${name} has done something`, async () => (await scene.did(anna)).length > effects, { timeout: 20_000 });
    await screen.drained();
    await sleep(100);
    assert.equal((await scene.did(anna)).length - effects, 1, `${name}: ${await scene.did(anna)}`);
    assert.equal((await scene.sent(path)).length - sent, 1, `${name}: ${JSON.stringify(await scene.sent(path))}`);
    // For the next control the task is as it was.
    if (name === '"done" on the task\'s page') await undo(anna, id, 'state', 'completed');
    if (name === '"delete" on the task\'s page') await undo(anna, id, 'trash', 'deleted');
  }
  // Two submissions that no press is behind.
  await screen.today();
  const before = (await scene.did(anna)).length;
  await screen.tab.eval(s => {
    const form = /** @type {HTMLFormElement} */ (document.querySelector(s)?.closest('form'));
    form.requestSubmit();
    form.requestSubmit();
  }, `#circle-${id}`);
  await until('it is done', async () => (await scene.did(anna)).length > before);
  await screen.drained();
  assert.equal((await scene.did(anna)).length, before + 1);
});

/**
 * Past the page: a person's other device.
 * @param {import('./scene.js').Person} anna
 * @param {string} id
 * @param {string} what
 * @param {string} field
 * @param {string} [value]
 */
async function undo(anna, id, what, field, value = 'false') {
  const cookie = (await anna.context.cookies()).map(c => `${c.name}=${c.value}`).join('; ');
  const r = await fetch(`${scene.site.upstream?.url}/tasks/${id}/${what}`, {
    method: 'POST',
    redirect: 'manual',
    headers: { Cookie: cookie, 'Idempotency-Key': crypto.randomUUID() },
    body: new URLSearchParams({ [field]: value }),
  });
  assert.ok(r.status < 400, `${r.status}`);
}

test('B152: a task is made and changed three times without a network, the answer to its making is lost, the page is loaded again: all four land on the one task', async () => {
  const anna = await scene.person();
  const { screen } = anna;
  await scene.network.set({ plan: 'POST /tasks* -> refuse=1', mode: 'plan' });
  await screen.add('Сочинение');
  await screen.shows('Сочинение', { state: 'waiting' });
  for (const [i, done] of [true, false, true].entries()) {
    await screen.tap('Сочинение');
    await screen.keeps(i + 2);
    await screen.shows('Сочинение', { done, state: 'waiting' });
  }
  // The task is made, and nobody hears of it.
  await scene.network.set({ plan: 'POST /tasks -> cut-after-forward=1; POST /tasks/* -> refuse=1', mode: 'plan' });
  await anna.database('it was made', tasks => tasks.length === 1);
  await screen.tab.reload();
  await screen.ready();
  assert.equal((await screen.queue()).length, 4);
  await scene.network.good();
  await screen.drained();
  assert.deepEqual(await scene.did(anna), ['create Сочинение', 'done Сочинение', 'undone Сочинение', 'done Сочинение']);
  assert.deepEqual((await anna.tasks()).map(t => [t.title, t.is_completed]), [['Сочинение', 1]]);
  await screen.stripSays(null);
});

test('B179: buttons of one row that exclude each other, pressed in the same moment: done in that order, and what the first has made impossible is refused in words', async () => {
  const anna = await scene.person();
  const { screen } = anna;
  await has(anna, 'Первая');
  await has(anna, 'Вторая');
  const pressAll = (/** @type {string[]} */ selectors) =>
    screen.tab.eval(list => {
      for (const s of list) /** @type {HTMLElement} */ (document.querySelector(s)).click();
    }, selectors);

  const first = await idOf(anna, 'Первая');
  await pressAll([`#circle-${first}`, `#trash-${first} button`]);
  await anna.database('it lies in the trash', tasks => tasks.some(t => t.id === first && t.deleted === 1));
  await screen.drained();
  assert.deepEqual((await scene.did(anna)).filter(d => d.endsWith('Первая')), ['create Первая', 'done Первая', 'trash Первая']);

  const second = await idOf(anna, 'Вторая');
  await pressAll([`#trash-${second} button`, `#circle-${second}`]);
  await screen.stripSays(/не принят/);
  assert.deepEqual((await scene.did(anna)).filter(d => d.endsWith('Вторая')), ['create Вторая', 'trash Вторая']);
  const [row] = await anna.rows('Вторая');
  assert.deepEqual([row.is_completed, row.deleted], [0, 1]);
});

test('B184: whatever "done" is answered, a person can read it, and in the end the circle shows what is true', async () => {
  const anna = await scene.person();
  const { screen } = anna;
  // Answers of somebody else, or none: nothing is lost, and the row says so.
  for (const [i, fault] of ['401', '403', '409', '422', '500', 'refuse'].entries()) {
    const title = `Задача ${i + 1}`;
    await has(anna, title);
    await scene.network.set({ plan: `POST /tasks/* -> ${fault}=1`, mode: 'plan' });
    // Done rows leave the list, and the others move up under the pointer.
    await screen.press(await screen.circle(title));
    const row = await screen.shows(title, { state: 'waiting' });
    assert.equal(row.caption, caption, fault);
    await screen.stripSays('Одно изменение ждёт сети');
    await scene.network.good();
    await anna.database(`${title} is done`, tasks => tasks.some(t => t.title === title && t.is_completed === 1));
    await screen.drained();
    await screen.stripSays(null);
  }
  // The planner's own refusal: another device has deleted the task meanwhile.
  await has(anna, 'Последняя');
  const id = await idOf(anna, 'Последняя');
  await scene.network.set({ plan: 'GET /* -> refuse=1', mode: 'plan' });
  await undo(anna, id, 'trash', 'deleted', 'true');
  await screen.press(await screen.circle('Последняя'));
  const row = await screen.shows('Последняя', { state: 'refused', done: false });
  assert.match(row.caption, /\S/);
  await screen.stripSays(/не принят/);
  assert.equal((await anna.rows('Последняя'))[0].is_completed, 0);
});
