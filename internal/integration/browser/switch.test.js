// @ts-check
// Two tabs: of one person, where each shows what was done in the other; and of two
// people, where somebody else has logged in in one of them. The other tab is still
// the first one's, and stays so.
import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import { until } from './processes.js';
import { Scene } from './scene.js';

/** @type {Scene} */
let scene;
before(async () => {
  scene = await Scene.open('chromium');
});
after(() => scene?.close());
afterEach(() => scene.clear());

// R24; outbox.md 5, scenarios 13 and 14.
test('a page does not take in the lists of the account that was signed in beside it', async () => {
  const anna = await scene.person('anna');
  const boris = await scene.person('boris');
  const own = anna.screen;
  await own.add('Дневник Анны');
  await boris.screen.add('Письмо Борису');
  for (const person of [anna, boris]) await person.database('the task is there', tasks => tasks.length === 1);
  await own.shows('Дневник Анны', { state: '' });

  const beside = await anna.openTab();
  await anna.logIn(beside, boris.login);
  await beside.shows('Письмо Борису', { state: '' });
  // The network comes back, which has every page ask for its lists again.
  const before = (await scene.network.state()).requests;
  await anna.chromium().setOffline(true);
  await anna.chromium().setOffline(false);
  await until('both pages have asked for their lists', async () => (await scene.network.log(before)).filter(e => e.path === '/today' && e.fate !== 'open').length >= 2);
  await beside.shows('Письмо Борису', { state: '' });
  assert.deepEqual((await own.rows()).map(row => row.title), ['Дневник Анны']);

  // What is added there is the first one's, whenever it arrives.
  await own.add('Подарок Борису');
  await own.shows('Подарок Борису', { state: 'login', caption: 'сохранится после входа' });
  assert.deepEqual((await boris.tasks()).map(t => t.title), ['Письмо Борису']);
  await anna.logIn(own, anna.login);
  await own.drained();
  await anna.database('it has arrived', tasks => tasks.length === 2);
  assert.deepEqual((await boris.tasks()).map(t => t.title), ['Письмо Борису']);
});

test('what is done in one tab is seen in the other, which nobody has touched', async () => {
  const anna = await scene.person('anna');
  const first = anna.screen;
  await first.add('Физика');
  await anna.database('the task is there', tasks => tasks.length === 1);
  const second = await anna.openTab();
  await second.shows('Физика', { state: '' });
  await first.tap('Физика');
  await anna.database('it is done', tasks => tasks[0].is_completed === 1);
  await until('the other tab knows', async () => !(await second.rows()).some(row => row.title === 'Физика' && !row.done), { timeout: 10_000 });
  await first.add('Химия');
  await second.shows('Химия', { state: '' }, 10_000);
});
