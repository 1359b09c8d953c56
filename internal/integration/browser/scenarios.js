// @ts-check
// The adversarial scenarios, one file for three engines: what the network does,
// what a person then does, what they see, and what must be in the database. Their
// numbers are those of the project's list. ways.js says which run where and how.
import assert from 'node:assert/strict';
import { until } from './processes.js';
import { caption, changesMeet, counted, has, hears, long, physics, stopWorker, usual } from './steps.js';
import { later } from './scenarios.later.js';
import { more } from './scenarios.more.js';
import { wayOf } from './ways.js';

/**
 * @typedef {object} Scenario
 * @property {number} n
 * @property {string} name
 * @property {boolean} [everywhere] one of those that every run takes on every engine
 * @property {Record<string, number>} [limits] of the outbox, where they are not the usual ones of these scenarios
 * @property {'parcels'} [app] in place of the planner
 * @property {(engine: import('./engines.js').Engine) => import('./upstream.js').Patch | undefined} [patch] what is wrong
 *   with the site's files
 * @property {(engine: import('./engines.js').Engine) => Partial<import('./engines.js').Options> | undefined} [browser]
 *   how the browser has to be started
 * @property {(context: import('./engines.js').Context, scene: import('./scene.js').Scene) => Promise<void>} [prepare]
 *   what is done to the phone before the first page
 * @property {(scene: import('./scene.js').Scene, anna: import('./scene.js').Person) => Promise<void>} run anna: a new
 *   person at the planner's page "today"; elsewhere somebody without an account
 */

/** @type {Scenario[]} */
const first = [
  {
    n: 1,
    name: 'the answer is cut after the work was done: the row waits, then is plain; done once, with one next task',
    everywhere: true,
    async run(scene, anna) {
      const { screen } = anna;
      await has(anna, 'Тренировка каждый понедельник', 'Тренировка');
      await changesMeet(scene, 'cut-after-forward');
      await screen.tap('Тренировка');
      const row = await screen.shows('Тренировка', { done: true, state: 'waiting' });
      assert.equal(row.caption, caption);
      await screen.stripSays('Одно изменение ждёт сети');
      await scene.network.good();
      await screen.drained();

      assert.deepEqual(await scene.did(anna), ['create Тренировка', 'done Тренировка']);
      assert.deepEqual((await anna.rows('Тренировка')).map(t => t.is_completed), [1, 0]);
      const sent = await scene.sent(/state$/);
      assert.equal(new Set(sent.map(e => e.key)).size, 1);
      assert.ok(sent.length > 1, 'it was sent once only');
      await screen.shows('Тренировка', { done: false, state: '' });
      await screen.stripSays(null);
    },
  },
  {
    n: 2,
    name: 'two new tasks while every answer is cut, then a double click on "add": three tasks',
    everywhere: true,
    async run(scene, anna) {
      const { screen } = anna;
      await changesMeet(scene, 'cut-after-forward');
      await screen.add('Алгебра');
      await screen.shows('Алгебра', { state: 'waiting' });
      await screen.add('Химия');
      await screen.shows('Химия', { state: 'waiting' });
      await screen.stripSays('2 изменения ждут сети');
      await scene.network.good();
      await screen.drained();
      assert.deepEqual((await anna.tasks()).map(t => t.title), ['Алгебра', 'Химия']);
      await screen.shows('Алгебра', { state: '' });
      await screen.shows('Химия', { state: '' });

      await screen.tab.type('#add-text', 'История');
      await screen.tab.click('#add .add-button', { double: true, gap: 80 });
      await anna.database('the third is there', tasks => tasks.some(t => t.title === 'История'));
      await screen.drained();
      assert.deepEqual(await scene.did(anna), ['create Алгебра', 'create Химия', 'create История']);
      await screen.shows('История', { state: '' });
      assert.equal((await screen.rows()).filter(r => r.title === 'История').length, 1);
    },
  },
  {
    n: 3,
    name: '502 for a while with the network up: the strip goes by itself',
    async run(scene, anna) {
      const { screen } = anna;
      await has(anna, physics);
      await screen.tab.eval(() => {
        /** @type {any} */ (window).online = 0;
        addEventListener('online', () => /** @type {any} */ (window).online++);
      });
      await scene.network.mode('502');
      await screen.tap(physics);
      await screen.shows(physics, { state: 'waiting' });
      await until('it was refused five times', async () => (await scene.sent(/state$/)).length >= 5, { timeout: 60_000 });
      await scene.network.good();
      await screen.drained();
      assert.deepEqual(await scene.did(anna), [`create ${physics}`, `done ${physics}`]);
      assert.equal((await anna.rows(physics))[0].is_completed, 1);
      await screen.stripSays(null);
      assert.equal(await screen.tab.eval(() => /** @type {any} */ (window).online), 0);
    },
  },
  {
    n: 4,
    name: '"done" waits, the network comes back, "undo" at once: not done, in that order',
    everywhere: true,
    async run(scene, anna) {
      const { screen } = anna;
      await has(anna, physics);
      await scene.network.mode('502');
      await screen.tap(physics);
      await screen.shows(physics, { done: true, state: 'waiting' });
      await screen.rest(physics);
      await scene.network.good();
      await screen.tap(physics);
      await anna.database('both are done', tasks => tasks[0].is_completed === 0);
      await screen.drained();
      assert.deepEqual(await scene.did(anna), [`create ${physics}`, `done ${physics}`, `undone ${physics}`]);
      assert.equal((await anna.rows(physics))[0].is_completed, 0);
      await screen.shows(physics, { done: false, state: '' });
    },
  },
  {
    n: 5,
    name: 'a black hole: by the soft limit it is said that it waits, and the page can be used',
    everywhere: true,
    async run(scene, anna) {
      const { screen } = anna;
      await has(anna, physics);
      await scene.network.mode('blackhole');
      await screen.tap(physics);
      await screen.shows(physics, { done: true, state: 'waiting' });
      await screen.stripSays('Одно изменение ждёт сети');
      await screen.add('Алгебра');
      await screen.shows('Алгебра', { state: 'waiting' });
      assert.deepEqual((await anna.tasks()).map(t => t.is_completed), [0]);
      await scene.network.good();
      await screen.drained();
      assert.deepEqual(await scene.did(anna), [`create ${physics}`, `done ${physics}`, 'create Алгебра']);
      assert.equal((await anna.rows(physics))[0].is_completed, 1);
    },
  },
  {
    n: 6,
    name: 'a black hole in the middle of a second try: the hard limit ends it, and nothing is stuck',
    limits: { ...usual, hardLimit: 3000 },
    async run(scene, anna) {
      const { screen } = anna;
      await has(anna, physics);
      await changesMeet(scene, '502');
      await screen.tap(physics);
      await screen.shows(physics, { state: 'waiting' });
      await scene.network.set({ script: 'POST /tasks* -> blackhole:600s' });
      await until('a try hangs', async () => (await scene.sent(/state$/)).some(e => e.mode.startsWith('blackhole')));
      await scene.network.good(); // it goes on hanging, whatever the network is now
      await screen.openList();
      const [item, ...more] = await screen.list();
      assert.deepEqual([item.actions, more], [['copy', 'discard'], []], 'what is under way can be sent once more');
      // Nor by whoever asks for it all the same.
      await screen.tab.eval(async () => {
        const { outbox } = await import(/** @type {string} */ ('/outbox/page.js'));
        await outbox.retry(outbox.snapshot.entries[0]?.key);
      });
      await screen.drained();
      assert.deepEqual(await scene.did(anna), [`create ${physics}`, `done ${physics}`]);
      const sent = await scene.sent(/state$/);
      const hung = sent.findIndex(e => e.mode.startsWith('blackhole'));
      assert.equal(sent[hung].fate, 'left', 'the hanging try was not given up');
      const gap = Date.parse(sent[hung + 1].time) - Date.parse(sent[hung].time);
      assert.ok(gap >= 2000, `the next try went out ${gap} ms after the one that hung, before that had been given up`);
    },
  },
  {
    n: 7,
    name: 'slow, and the page goes elsewhere and comes back: delivered, sent once',
    async run(scene, anna) {
      const { screen } = anna;
      await has(anna, physics);
      await scene.network.set({ script: 'POST /tasks* -> slow:5s' });
      await screen.tap(physics);
      await screen.shows(physics, { state: 'waiting' });
      await screen.tab.goto(`${screen.url}/done`);
      await screen.today();
      await screen.drained();
      assert.equal((await anna.rows(physics))[0].is_completed, 1);
      assert.deepEqual((await scene.sent(/state$/)).map(e => e.forwarded), [1]);
      await screen.stripSays(null);
      assert.ok(!(await screen.rows()).some(r => r.state), 'a row is still marked');
    },
  },
  {
    n: 8,
    name: 'the worker is stopped in the middle of a first send: one answer, one effect',
    limits: { ...usual, kickEvery: 4000 },
    browser: idle,
    async run(scene, anna) {
      const { screen } = anna;
      await has(anna, physics);
      // Long enough to be stopped in the middle; Firefox's worker ends by itself.
      await scene.network.set({ script: `POST /tasks/* -> slow:${wayOf(8, scene.engine) === 'idle limits' ? 15 : 4}s` });
      await screen.tap(physics);
      await until('it is on its way', async () => (await scene.sent(/state$/)).length > 0, { every: 20 });
      await stopWorker(scene, anna, 8);
      await anna.database('it is done', tasks => tasks[0].is_completed === 1);
      await screen.drained();
      assert.deepEqual(await scene.did(anna), [`create ${physics}`, `done ${physics}`]);
      const sent = await scene.sent(/state$/);
      assert.equal(new Set(sent.map(e => e.key)).size, 1);
      assert.ok(sent.length > 1, 'the browser did not ask the worker again');
      await until('the first try was given up', async () => (await scene.sent(/state$/))[0].fate === 'left');
      // It may have left the list by now, as done ones do.
      await until('no row says otherwise', async () => (await screen.rows()).every(r => r.done && r.state === ''));
      await screen.stripSays(null);
      assert.deepEqual(await screen.errors(), []);
    },
  },
  {
    n: 9,
    name: 'the worker is stopped three times while it sends five: five, in order',
    limits: { ...usual, kickEvery: 4000 },
    browser: idle,
    async run(scene, anna) {
      const { screen } = anna;
      const five = ['Первая', 'Вторая', 'Третья', 'Четвёртая', 'Пятая'];
      await scene.network.mode('offline');
      for (const title of five) {
        await screen.add(title);
        await screen.shows(title, { state: 'waiting' });
      }
      await screen.stripSays('5 изменений ждут сети');
      const heard = await hears(screen);
      if (wayOf(9, scene.engine) === 'idle limits') {
        await scene.network.set({ mode: 'plan', plan: 'pass', script: 'POST /tasks -> slow:15s, pass, slow:15s, pass, slow:15s, pass' });
        for (let i = 1; i <= 3; i++) await until('it was ended', async () => (await scene.sent()).filter(e => e.fate === 'left').length >= i, { timeout: 30_000 });
      } else {
        // Long enough for the third stop to come before the fifth has arrived.
        await changesMeet(scene, 'slow=1:1500ms, pass');
        for (let i = 1; i <= 3; i++) {
          const seen = (await scene.sent()).filter(e => e.forwarded > 0).length;
          await until('one more has arrived', async () => (await scene.sent()).filter(e => e.forwarded > 0).length > seen, { every: 20, timeout: 30_000 });
          await stopWorker(scene, anna, 9);
        }
      }
      await screen.drained();
      assert.deepEqual(await scene.did(anna), five.map(title => `create ${title}`));
      await screen.stripSays(null);
      const numbers = counted(await heard());
      assert.deepEqual(numbers, [...new Set(numbers)].sort((a, b) => b - a), 'the strip counts up, or says a number twice');
    },
  },
  {
    n: 10,
    name: 'the tab is closed just after the tap: the work is done once',
    everywhere: true,
    async run(scene, anna) {
      const { screen } = anna;
      await has(anna, physics);
      const second = await anna.newTab();
      await screen.tab.front();
      await scene.network.set({ script: 'POST /tasks* -> slow:1s' });
      await screen.tap(physics);
      await until('it is on its way', async () => (await scene.sent(/state$/)).length > 0, { every: 20 });
      await screen.tab.close();
      await second.tab.front();
      await second.today();
      await anna.database('it is done', tasks => tasks[0].is_completed === 1);
      await second.drained();
      assert.deepEqual(await scene.did(anna), [`create ${physics}`, `done ${physics}`]);
      await second.stripSays(null);
    },
  },
  {
    n: 12,
    name: 'the session ends while two wait: nothing is dropped, "log in", and then both are done',
    everywhere: true,
    async run(scene, anna) {
      const { screen } = anna;
      await has(anna, physics);
      await has(anna, 'Алгебра');
      await changesMeet(scene, '502');
      await screen.tap(physics);
      await screen.shows(physics, { state: 'waiting' });
      await screen.tap('Алгебра');
      await screen.stripSays('2 изменения ждут сети');
      await scene.site.endSessions(anna.login);
      await scene.network.good();
      await screen.stripSays('Войдите снова, чтобы сохранить 2 изменения');
      assert.equal((await screen.queue()).length, 2);
      assert.deepEqual((await anna.tasks()).map(t => t.is_completed), [0, 0]);

      await screen.tab.click('#outbox-strip a');
      await screen.tab.waitFor('the page of the login', () => location.pathname === '/auth/login' && document.querySelector('form.auth') !== null);
      await screen.logIn(anna.login);
      await screen.ready();
      await screen.drained();
      assert.deepEqual((await scene.did(anna)).slice(2), [`done ${physics}`, 'done Алгебра']);
      assert.deepEqual((await anna.tasks()).map(t => t.is_completed), [1, 1]);
      await screen.stripSays(null);
    },
  },
  {
    n: 13,
    name: 'another person logs in in the same browser: sees nothing of the first, sends nothing for them',
    everywhere: true,
    async run(scene, anna) {
      const { screen } = anna;
      await has(anna, physics);
      await changesMeet(scene, '502');
      await screen.tap(physics);
      await screen.shows(physics, { state: 'waiting' });
      const boris = await scene.account('boris', anna.context);
      await scene.site.endSessions(anna.login);
      await anna.logIn(screen, boris.login);
      await scene.network.good();
      await screen.stripSays('Здесь ждут изменения из другого аккаунта');
      const seen = await screen.tab.eval(() => document.documentElement.outerHTML);
      assert.ok(!seen.includes('Физика: задачи'), 'the second person sees what the first one has');
      // What the second person does arrives past the first one's.
      await screen.add('Своё');
      await boris.database('their own is there', tasks => tasks.length === 1);
      assert.deepEqual(await scene.did(boris), ['create Своё']);
      assert.equal((await anna.rows(physics))[0].is_completed, 0);
      assert.equal((await screen.queue()).length, 1);

      await anna.logIn();
      await screen.drained();
      assert.deepEqual((await scene.did(anna)).slice(1), [`done ${physics}`]);
      assert.equal((await boris.tasks()).length, 1);
      await screen.stripSays(null);
    },
  },
  {
    n: 14,
    name: 'another person logs in in a second tab while the first one\'s changes are being sent',
    async run(scene, anna) {
      const { screen } = anna;
      const three = ['Первая', 'Вторая', 'Третья'];
      for (const title of three) await has(anna, title);
      await scene.network.mode('offline');
      for (const title of three) {
        await screen.tap(title);
        await screen.shows(title, { state: 'waiting' });
      }
      const boris = await scene.account('boris', anna.context);
      const second = await anna.newTab();
      // The first is under way, slowly, when the session changes under it; the others
      // have not been sent by then.
      await scene.network.set({ mode: 'plan', script: 'POST /tasks* -> slow-after:5s, refuse*1000' });
      await screen.tab.front();
      await until('the first is on its way', async () => (await scene.sent(/state$/)).some(e => e.forwarded > 0), { every: 20 });
      await second.tab.front();
      await anna.logIn(second, boris.login);
      await scene.network.good();
      await until('nothing of the first is under way', async () => (await second.queue()).every(e => e.state !== 'sending'));
      await second.stripSays('Здесь ждут изменения из другого аккаунта');
      assert.deepEqual(await boris.tasks(), []);
      assert.deepEqual(await scene.did(boris), []);

      await anna.logIn(second);
      await second.drained();
      assert.deepEqual((await scene.did(anna)).slice(3), three.map(t => `done ${t}`));
      assert.deepEqual(await boris.tasks(), []);

      // Once more, by a way that no worker hears of: then it is the server that says no.
      const two = ['Четвёртая', 'Пятая'];
      const before = (await scene.sent()).length;
      const after = async () => (await scene.sent()).slice(before);
      await scene.network.set({ mode: 'plan', script: 'POST /tasks -> slow-after:5s' });
      for (const title of two) await second.add(title);
      await until('the second stands behind the first', async () => (await second.queue()).length === 2, { every: 20 });
      await until('the first is on its way', async () => (await after())[0]?.forwarded > 0, { every: 20 });
      await anna.context.setCookie({ ...(await scene.site.session(boris.login)), url: scene.site.url });
      const [first, refused] = await until('the second is refused', async () => {
        const sent = await after();
        return sent[1]?.status ? sent : Promise.reject(new Error(JSON.stringify(sent)));
      });
      assert.deepEqual([first.status, refused.status], [201, 412]);
      await second.today();
      await second.stripSays('Здесь ждут изменения из другого аккаунта');
      assert.deepEqual((await second.queue()).map(e => e.key), [refused.key]);
      assert.deepEqual(await boris.tasks(), []);
      assert.deepEqual(await scene.did(boris), []);

      await anna.logIn(second);
      await second.drained();
      assert.deepEqual((await scene.did(anna)).slice(6), two.map(t => `create ${t}`));
      assert.deepEqual(await boris.tasks(), []);
    },
  },
  {
    n: 15,
    name: 'a firewall answers in our place: waits, after eight times says so, and is sent in the end',
    async run(scene, anna) {
      const { screen } = anna;
      await has(anna, physics);
      await changesMeet(scene, 'waf-403');
      await screen.tap(physics);
      await screen.shows(physics, { done: true, state: 'waiting' });
      await screen.stripSays('Одно изменение никак не отправляется', 60_000);
      await screen.shows(physics, { state: 'stuck' });
      assert.ok((await scene.sent(/state$/)).length >= 8);
      assert.equal((await anna.rows(physics))[0].is_completed, 0);
      // A portal's login page is no better proof.
      await changesMeet(scene, 'login-200');
      const before = (await scene.sent(/state$/)).length;
      await screen.openList();
      await screen.act('send');
      await until('it is tried at once', async () => (await scene.sent(/state$/)).length > before);
      assert.equal((await screen.queue()).length, 1);

      await scene.network.good();
      await screen.drained();
      assert.deepEqual(await scene.did(anna), [`create ${physics}`, `done ${physics}`]);
      await screen.stripSays(null);
    },
  },
  {
    n: 16,
    name: 'the second of three is refused by the planner: the others are done, it is shown with its reason and can be mended',
    everywhere: true,
    async run(scene, anna) {
      const { screen } = anna;
      await scene.network.mode('offline');
      await screen.add('Первая');
      await screen.shows('Первая', { state: 'waiting' });
      await screen.paste(long);
      await screen.shows(long, { state: 'waiting' });
      await screen.add('Третья');
      await screen.shows('Третья', { state: 'waiting' });
      await screen.stripSays('3 изменения ждут сети');
      await scene.network.good();
      await screen.stripSays('Одно изменение не принято');
      assert.deepEqual((await anna.tasks()).map(t => t.title), ['Первая', 'Третья']);
      await screen.openList();
      const [item, ...more] = await screen.list();
      assert.equal(more.length, 0);
      assert.match(item.label, /подробно/);
      assert.match(item.meta, /не принято: Слишком длинно: не больше 500 знаков/i);

      await screen.act('edit');
      await until('the text is back in its line', async () => (await screen.tab.value('#add-text')) === long);
      await screen.tab.type('#add-text', 'Коротко', { clear: true, enter: true });
      await anna.database('the mended one is there', tasks => tasks.some(t => t.title === 'Коротко'));
      await screen.drained();
      await screen.stripSays(null);
      assert.deepEqual(await scene.did(anna), ['create Первая', 'create Третья', 'create Коротко']);
      const titles = async () => (await screen.rows()).map(r => r.title).sort();
      await until('the list has what was taken, and no more', async () => (await titles()).join() === 'Коротко,Первая,Третья' || Promise.reject(new Error((await titles()).join())));
    },
  },
];

/** In the order of their numbers. */
export const scenarios = [...first, ...later, ...more].sort((a, b) => a.n - b.n);

/**
 * Firefox ends a worker that nobody asks for anything soon, also in the middle of
 * what it does.
 *
 * @param {import('./engines.js').Engine} engine
 */
function idle(engine) {
  return engine === 'firefox' ? { prefs: { 'dom.serviceWorkers.idle_timeout': 1000, 'dom.serviceWorkers.idle_extended_timeout': 1000 } } : undefined;
}
