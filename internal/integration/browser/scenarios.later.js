// @ts-check
// The scenarios from 17 on: ages, several tabs, plain forms, stores that fail, and
// what a person takes back.
import assert from 'node:assert/strict';
import { sleep, until } from './processes.js';
import { wayOf } from './ways.js';
import { air, caption, changesMeet, has, long, physics, usual } from './steps.js';

/** @type {import('./scenarios.js').Scenario[]} */
export const later = [
  {
    n: 17,
    name: 'done, the answer lost, and then no network for longer than the guard remembers: the person is asked',
    limits: { ...usual, retention: 4000 },
    async run(scene, anna) {
      const { screen } = anna;
      await has(anna, physics);
      await scene.network.set({ plan: 'POST /tasks/* -> cut-after-forward=1', mode: 'plan' });
      await screen.tap(physics);
      await screen.shows(physics, { state: 'waiting' });
      await scene.network.mode('offline');
      // Scenario 18's other half: one that was never sent is no such question, however old.
      await screen.add('Алгебра');
      const [, second] = await screen.keeps(2);
      await screen.shows(physics, { state: 'ask' }, 60_000);
      await until('the second is as old', () => Date.now() > second.createdAt + 4_100);
      await scene.network.good();
      await anna.database('the second is there', tasks => tasks.length === 2, 60_000);
      await screen.keeps(1);
      await screen.stripSays('Неизвестно, сохранилось ли одно изменение');
      await screen.openList();
      assert.deepEqual((await screen.list()).map(i => i.actions), [['check', 'resend', 'copy', 'discard']]);
      const before = (await scene.sent(/state$/)).length;
      const nothingMore = async () => {
        await sleep(1_500);
        assert.equal((await scene.sent(/state$/)).length, before);
        assert.deepEqual(await scene.did(anna), [`create ${physics}`, `done ${physics}`, 'create Алгебра']);
      };
      await screen.act('check');
      // Nothing is sent a second time without a word.
      await nothingMore();
      await screen.act('discard');
      await screen.act('sure');
      await screen.drained();
      await nothingMore();
      assert.equal((await anna.rows(physics))[0].is_completed, 1);
    },
  },
  {
    n: 18,
    name: 'an entry that was never sent and is too old is sent only when the person says so',
    limits: { ...usual, maxAge: 4000 },
    async run(scene, anna) {
      const { screen } = anna;
      await has(anna, physics);
      await changesMeet(scene, '502');
      await screen.tap(physics);
      await screen.shows(physics, { state: 'waiting' });
      await screen.add('Алгебра'); // behind it: never sent
      const [, second] = await screen.keeps(2);
      await until('it is too old', () => Date.now() > second.createdAt + 4100);
      await scene.network.good();
      await anna.database('the first is done', tasks => tasks[0].is_completed === 1);
      await screen.shows('Алгебра', { state: 'old' });
      assert.equal((await anna.tasks()).length, 1);
      await screen.openList();
      await screen.act('send');
      await screen.drained();
      assert.deepEqual((await scene.did(anna)).slice(1), [`done ${physics}`, 'create Алгебра']);
    },
  },
  {
    n: 19,
    name: 'three tabs, ten entries, and the network back in all at once: each once, in order, and nobody\'s typing is lost',
    async run(scene, anna) {
      const { screen } = anna;
      const second = await anna.openTab();
      const third = await anna.openTab();
      const tabs = [screen, second, third];
      await second.tab.type('#add-text', 'недописанное');
      for (const s of tabs) await s.tab.eval(() => void (/** @type {any} */ (window).same = true));
      await screen.tab.front();
      const network = air(scene, anna, 19);
      await network.off();
      const ten = Array.from({ length: 10 }, (_, i) => `Дело ${i + 1}`);
      for (const title of ten) await screen.add(title);
      await screen.keeps(10);
      for (const s of tabs) {
        await s.tab.front();
        await s.stripSays('10 изменений ждут сети');
      }
      await network.on();
      await screen.drained();
      assert.deepEqual(await scene.did(anna), ten.map(title => `create ${title}`));
      assert.equal((await scene.sent()).reduce((sum, e) => sum + e.forwarded, 0), 10);
      for (const s of tabs) {
        await s.tab.front();
        await s.stripSays(null);
        assert.equal(await s.tab.eval(() => /** @type {any} */ (window).same), true, 'a tab was loaded again');
      }
      assert.equal(await second.tab.value('#add-text'), 'недописанное');
    },
  },
  {
    n: 21,
    name: 'a plain form without a network ends on no blank page, comes back, and is sent',
    everywhere: true,
    async run(scene, anna) {
      const { screen } = anna;
      await has(anna, physics);
      const [{ id }] = await anna.tasks();
      await screen.tab.goto(`${screen.url}/tasks/${id}`);
      await screen.ready();
      await changesMeet(scene, 'refuse');
      await screen.tab.type('#title', 'Физика: задачи 16–20', { clear: true });
      await screen.tab.click('form[action$="/fields"] button');
      // By way of the outbox's own page, back to where the form was.
      await screen.tab.waitFor('the form\'s page is back', path => location.pathname === path && document.querySelector('#title') !== null && document.querySelector('#outbox-strip') !== null, `/tasks/${id}`);
      await screen.stripSays('Одно изменение ждёт сети');
      assert.ok(!(await screen.tab.url()).includes('#outbox'), await screen.tab.url());
      assert.equal((await anna.tasks())[0].title, physics);
      const [kept] = await screen.keeps(1);
      assert.equal(kept.nav, true);
      await scene.network.good();
      await screen.drained();
      assert.equal((await anna.tasks())[0].title, 'Физика: задачи 16–20');
      const sent = await scene.sent(/fields$/);
      assert.equal(sent.filter(e => e.forwarded > 0).length, 1);
      assert.ok(sent.every(e => e.key === kept.key && (!e.forwarded || e._key === kept.key)), JSON.stringify(sent));
      await screen.stripSays(null);
    },
  },
  {
    n: 22,
    name: 'outbox.fetch without a network gets 202 in JSON; a plain fetch beside it is left alone',
    async run(scene, anna) {
      const { screen } = anna;
      await has(anna, physics);
      const [{ id }] = await anna.tasks();
      await screen.tab.eval(() => void (/** @type {any} */ (window).same = true));
      await changesMeet(scene, 'refuse');
      const got = await screen.tab.eval(async path => {
        const { outbox } = await import(/** @type {string} */ ('/outbox/page.js'));
        const body = new URLSearchParams({ completed: 'true' });
        const answer = await outbox.fetch(path, { method: 'POST', headers: { Accept: 'application/json' }, body });
        const plain = await fetch(path, { method: 'POST', body: new URLSearchParams({ completed: 'false' }) }).then(r => `answered ${r.status}`, () => 'failed');
        return { status: answer.status, mark: answer.headers.get('X-Outbox-Queued'), body: await answer.json(), plain };
      }, `/tasks/${id}/state`);
      assert.equal(got.status, 202);
      assert.equal(got.mark, '1');
      assert.equal(got.body.outbox, 'queued');
      assert.equal(got.plain, 'failed');
      const [kept, ...more] = await screen.queue();
      assert.equal(more.length, 0);
      assert.equal(kept.text, 'completed=true');
      await scene.network.good();
      await screen.drained();
      assert.equal((await anna.tasks())[0].is_completed, 1);
      assert.equal(await screen.tab.eval(() => /** @type {any} */ (window).same), true, 'the page was loaded again');
    },
  },
  {
    n: 23,
    name: 'no room on this device: it is said, the text stays, and nothing is marked as kept',
    limits: { ...usual, maxEntries: 1 },
    async run(scene, anna) {
      const { screen } = anna;
      await has(anna, physics);
      await scene.network.mode('offline');
      await screen.tap(physics);
      await screen.shows(physics, { state: 'waiting' });
      await screen.add('Алгебра');
      await screen.stripSays(/Не сохранено на этом устройстве/);
      await until('the text is back', async () => (await screen.tab.value('#add-text')) === 'Алгебра');
      assert.equal(await screen.row('Алгебра'), undefined);
      assert.equal((await screen.queue()).length, 1);
      await scene.network.good();
      await screen.drained();
      assert.deepEqual(await scene.did(anna), [`create ${physics}`, `done ${physics}`]);
      // It is typed still; sent again, and not as the other half of a double tap, it is one.
      await sleep(600);
      await screen.tab.click('#add .add-button');
      await anna.database('it is there', tasks => tasks.length === 2);
    },
  },
  {
    n: 24,
    name: '503 with Retry-After 2, then 429 with Retry-After 3: waits for at least so long',
    async run(scene, anna) {
      const { screen } = anna;
      await has(anna, physics);
      await scene.network.set({ script: 'POST /tasks* -> 503:ra=2, 429:ra=3' });
      await screen.tap(physics);
      await screen.shows(physics, { state: 'waiting' });
      await screen.drained();
      assert.deepEqual(await scene.did(anna), [`create ${physics}`, `done ${physics}`]);
      const [first, second, third, ...more] = await scene.sent(/state$/);
      assert.deepEqual([first.status, second.status, third.status, more.length], [503, 429, 200, 0]);
      const at = (/** @type {import('./fault.js').Entry} */ e) => Date.parse(e.time);
      assert.ok(at(second) - at(first) >= 2000, `after ${at(second) - at(first)} ms`);
      assert.ok(at(third) - at(second) >= 3000, `after ${at(third) - at(second)} ms`);
    },
  },
  {
    n: 25,
    name: 'done, undone, done without a network: three changes wait, three are made, done in the end',
    async run(scene, anna) {
      const { screen } = anna;
      await has(anna, physics);
      await scene.network.mode('offline');
      for (const [i, done] of [true, false, true].entries()) {
        await screen.tap(physics);
        await screen.keeps(i + 1);
        await screen.shows(physics, { done, state: 'waiting' });
      }
      await screen.stripSays('3 изменения ждут сети');
      await scene.network.good();
      await screen.drained();
      assert.deepEqual((await scene.did(anna)).slice(1), [`done ${physics}`, `undone ${physics}`, `done ${physics}`]);
      assert.equal((await anna.rows(physics))[0].is_completed, 1);
      await screen.shows(physics, { done: true, state: '' });
    },
  },
  {
    n: 26,
    name: 'a new task and its "done" wait, and the new task is refused: so is what was to be done with it',
    async run(scene, anna) {
      const { screen } = anna;
      await scene.network.mode('offline');
      await screen.paste(long);
      const { id } = await screen.shows(long, { state: 'waiting' });
      // It is put off to another day, and then done.
      await screen.tab.click(`#task-${id} .menu summary`);
      await screen.tab.click(`#task-${id} .menu form[action$="/due"] button[name=date]`);
      await screen.keeps(2);
      await screen.tap(long);
      await screen.stripSays('3 изменения ждут сети');
      await scene.network.good();
      await screen.stripSays('3 изменения не приняты');
      assert.deepEqual(await anna.tasks(), []);
      const sent = await scene.sent();
      const paths = ['/tasks', `/tasks/${id}/due`, `/tasks/${id}/state`];
      assert.deepEqual(sent.filter(e => e.status).map(e => [e.path, e.status]), paths.map((path, i) => [path, i ? 404 : 422]));
      await screen.openList();
      const list = await screen.list();
      assert.deepEqual(list.map(i => /не принято/i.test(i.meta)), [true, true, true]);
      assert.match(list[0].meta, /Слишком длинно: не больше 500 знаков/i);
    },
  },
  {
    n: 27,
    name: 'done without a network, the page loaded again without a network: the mark is there again',
    everywhere: true,
    async run(scene, anna) {
      const { screen } = anna;
      await has(anna, physics);
      await screen.tab.reload();
      await screen.ready();
      await screen.tab.waitFor('the page is kept for reading', async () => {
        for (const name of await caches.keys()) {
          const kept = name.startsWith('planner-pages-') && (await (await caches.open(name)).match('/today'));
          if (kept) return (await kept.text()).includes('задачи 12–15');
        }
        return false;
      });
      const network = air(scene, anna, 27);
      await network.off();
      await screen.tap(physics);
      await screen.shows(physics, { state: 'waiting' });
      await screen.tab.reload();
      const row = await screen.shows(physics, { done: true, state: 'waiting' });
      assert.equal(row.caption, caption);
      await screen.stripSays('Одно изменение ждёт сети');
      await network.on();
      await screen.drained();
      assert.deepEqual(await scene.did(anna), [`create ${physics}`, `done ${physics}`]);
      await screen.stripSays(null);
    },
  },
  {
    n: 29,
    name: 'a second tap while the first is under way takes its place on the page, not on the wire: both, in order',
    limits: { ...usual, softLimit: 6000 },
    async run(scene, anna) {
      const { screen } = anna;
      await has(anna, physics);
      await screen.tab.eval(() => {
        /** @type {any} */ (window).rigAborts = 0;
        document.addEventListener('htmx:sendAbort', () => /** @type {any} */ (window).rigAborts++);
      });
      assert.equal(await screen.tab.attribute('#lists form.tick', 'hx-sync'), 'this:replace');
      await changesMeet(scene, 'slow=1:3s, pass');
      await screen.tap(physics);
      await until('it is on its way', async () => (await scene.sent(/state$/)).length > 0, { every: 20 });
      await screen.tap(physics);
      await screen.shows(physics, { done: false });
      assert.equal(await screen.tab.eval(() => /** @type {any} */ (window).rigAborts), 1);
      await until('both are done', async () => (await scene.did(anna)).length === 3);
      await scene.network.good();
      await screen.drained();
      assert.deepEqual((await scene.did(anna)).slice(1), [`done ${physics}`, `undone ${physics}`]);
      assert.equal((await anna.rows(physics))[0].is_completed, 0);
      await screen.shows(physics, { done: false, state: '' });
    },
  },
  {
    n: 30,
    name: 'one waits, the person goes elsewhere, and it is sent meanwhile: back on the page nothing is marked',
    async run(scene, anna) {
      const { screen } = anna;
      await has(anna, physics);
      const network = air(scene, anna, 30);
      await network.off();
      await screen.tap(physics);
      await screen.shows(physics, { state: 'waiting' });
      await screen.tab.goto('about:blank');
      // Nothing of the planner is open. Chromium itself wakes the worker.
      await network.on();
      if (wayOf(30, scene.engine) === 'sync') await anna.database('it is done', tasks => tasks[0].is_completed === 1);
      await screen.tab.back();
      await screen.ready();
      await screen.drained();
      await anna.database('it is done', tasks => tasks[0].is_completed === 1);
      await screen.stripSays(null);
      await until('no row is marked', async () => !(await screen.rows()).some(r => r.state));
      assert.deepEqual(await scene.did(anna), [`create ${physics}`, `done ${physics}`]);
    },
  },
  {
    n: 31,
    name: 'what is on its way cannot be taken back, and that is said',
    async run(scene, anna) {
      const { screen } = anna;
      await has(anna, physics);
      await changesMeet(scene, 'blackhole');
      await screen.tap(physics);
      await screen.shows(physics, { state: 'waiting' });
      await screen.openList();
      await screen.act('discard');
      await screen.act('sure');
      await screen.tab.waitFor('it is said', () => document.querySelector('.outbox-note')?.textContent === 'Уже отправляется, отменить нельзя');
      assert.equal((await screen.queue()).length, 1);
      await scene.network.good();
      await screen.drained();
      assert.deepEqual(await scene.did(anna), [`create ${physics}`, `done ${physics}`]);
    },
  },
];
