// @ts-check
// A change of mind while the first request is still under way: the second wish
// is another request behind the first, and neither is dropped.
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { sleep } from './processes.js';
import { Scene } from './scene.js';

/** @type {Scene} */
let scene;
before(async () => {
  scene = await Scene.open('chromium');
});
after(() => scene?.close());
afterEach(() => scene.clear());

/** @param {string} title */
async function withTask(title) {
  const anna = await scene.person();
  await anna.screen.add(title);
  await anna.database('the task is there', tasks => tasks.length === 1);
  const { id } = await anna.screen.shows(title, { state: '' });
  return { anna, screen: anna.screen, id };
}

// R30; outbox.md 5, scenario 29.
describe('while the answer is on its way', () => {
  for (const delay of ['slow:1200ms', 'slow-after:1200ms']) {
    test(`a deleted task that is taken back is there (${delay})`, async () => {
      const { anna, screen, id } = await withTask('Купить тетрадь');
      await scene.network.script(`POST /tasks/* -> ${delay}`);
      await screen.tab.click(`#task-${id} .menu summary`);
      await screen.tab.click(`#trash-${id} button`);
      await sleep(700); // within half a second it would be the same tap
      await screen.tab.click('#snackbar button');
      await screen.drained();
      await screen.shows('Купить тетрадь', { state: '' });
      assert.deepEqual((await anna.tasks()).map(t => t.deleted), [0]);
      const sent = await scene.sent(/\/trash$/);
      assert.deepEqual(sent.map(e => e.status), [200, 200]);
      assert.equal(new Set(sent.map(e => e.key)).size, 2);
    });

    test(`a task that is moved to tomorrow and then to another day is there (${delay})`, async () => {
      const { anna, screen, id } = await withTask('Сдать реферат');
      await scene.network.script(`POST /tasks/* -> ${delay}`);
      await screen.tab.click(`#task-${id} .menu summary`);
      const days = await screen.tab.eval(i => [.../** @type {NodeListOf<HTMLButtonElement>} */ (document.querySelectorAll(`#task-${i} .menu button[name=date]`))].map(b => b.value), id);
      for (const day of days.slice(0, 2)) {
        await screen.tab.eval(i => void /** @type {HTMLDetailsElement} */ (document.querySelector(`#task-${i} .menu`)).setAttribute('open', ''), id);
        await screen.tab.click(`#task-${id} .menu button[name=date][value="${day}"]`);
        await sleep(700);
      }
      await anna.database('both days were sent', tasks => tasks[0].due_date === days[1]);
      await screen.drained();
    });
  }
});
