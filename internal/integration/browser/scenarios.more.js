// @ts-check
// The scenarios for which the site itself is another: another release of it, a
// form with a file, a store that fails, a token that changes.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { until } from './processes.js';
import { counted, has, hears, physics } from './steps.js';
import { wayOf } from './ways.js';

/** Every byte there is, again and again, never in the same order. */
const binary = Uint8Array.from({ length: 3000 }, (_, i) => (i * 7 + (i >> 8) * 13) & 255);

/**
 * Fills in the form of cmd/parcels and sends it, and waits for the way back to it.
 * @param {import('./scene.js').Person} visitor
 * @param {string} note
 * @param {string} [name] of the file
 */
async function sends({ screen }, note, name = 'x.bin') {
  const { tab } = screen;
  await tab.type('#note', note, { clear: true });
  await tab.files('#file', [{ name, type: 'application/octet-stream', bytes: binary }]);
  await tab.eval(() => void (/** @type {any} */ (window).rigSame = true));
  await tab.click('#go');
  // By way of the outbox's own page, back to where the form was.
  await tab.waitFor('the form’s page is back', () => !(/** @type {any} */ (window).rigSame) && location.pathname === '/' && document.querySelector('#go') !== null && document.querySelector('#outbox-strip') !== null);
}

/** Those that arrived with this note. @param {import('./scene.js').Scene} scene @param {string} note */
const parcels = (scene, note) => scene.site.sql('select key, note, name, type, size, sha256 from parcels where note = ? order by id', note);

/** @type {import('./scenarios.js').Scenario[]} */
export const more = [
  {
    n: 20,
    name: 'another release takes over while ten are being sent, and its pages change the store: ten, in order',
    async run(scene, anna) {
      const { screen } = anna;
      const { upstream } = scene.site;
      assert.ok(upstream);
      const second = await anna.openTab();
      for (const s of [screen, second]) {
        await s.tab.eval(() => {
          /** @type {any} */ (window).rigTaken = 0;
          navigator.serviceWorker.addEventListener('controllerchange', () => /** @type {any} */ (window).rigTaken++);
        });
      }
      await screen.tab.front();
      await scene.network.mode('offline');
      const ten = Array.from({ length: 10 }, (_, i) => `Дело ${i + 1}`);
      for (const title of ten) await screen.add(title);
      await screen.keeps(10);
      await screen.stripSays('10 изменений ждут сети');
      const arrived = async () => (await scene.sent(/^\/tasks$/)).filter(e => e.forwarded > 0).length;
      await scene.network.set({ mode: 'plan', plan: 'POST /tasks* -> slow=1:500ms' });
      await until('two have arrived', async () => (await arrived()) >= 2, { every: 20 });
      // The rest takes longer than any page takes to open.
      await scene.network.set({ mode: 'plan', plan: 'POST /tasks* -> slow=1:5s' });

      upstream.patch = {
        '/sw.js': text => `${text}\n// Another release.\n`,
        '/outbox/idb.js': text =>
          text.replace(/\.open\(name, (\d+)\)/, (_, n) => `.open(name, ${Number(n) + 1})`).replace('const db = request.result;', '$& if (db.objectStoreNames.length) return void db.createObjectStore("another");'),
      };
      const version = () => second.tab.eval(async () => (await indexedDB.databases()).find(d => d.name === 'outbox')?.version);
      const before = Number(await version());
      // A page of the new release is opened, and opens the store, under the hands of
      // the worker of the old one.
      await second.tab.front();
      await second.tab.reload();
      await second.tab.eval(async () => {
        const { outbox } = await import(/** @type {string} */ ('/outbox/page.js'));
        await outbox.look('nobody');
      });
      assert.equal(await version(), before + 1);
      assert.ok((await arrived()) < 10, 'all had been sent before');
      await scene.network.good();

      await screen.tab.front();
      await screen.drained();
      assert.deepEqual(await scene.did(anna), ten.map(title => `create ${title}`));
      const keys = (await scene.sent(/^\/tasks$/)).map(e => e.key);
      assert.equal(new Set(keys).size, 10);
      await screen.tab.waitFor('the worker of the new release has the page', () => /** @type {any} */ (window).rigTaken > 0);
      for (const s of [second, screen]) {
        await s.tab.front();
        await s.stripSays(null);
        assert.deepEqual(await s.errors(), []);
      }
      // And it does its work.
      await scene.network.mode('offline');
      await screen.add('Дело 11');
      await screen.shows('Дело 11', { state: 'waiting' });
      await scene.network.good();
      await screen.drained();
      assert.deepEqual((await scene.did(anna)).slice(10), ['create Дело 11']);
      upstream.patch = {};
    },
  },
  {
    n: 21,
    name: 'a plain form with a file, without a network: it arrives byte for byte, under its own name',
    app: 'parcels',
    async run(scene, visitor) {
      const { screen } = visitor;
      const name = 'отчёт №1 – «Физика».bin';
      await scene.network.set({ plan: 'POST /parcels -> refuse=1', mode: 'plan' });
      await sends(visitor, 'Лабораторная', name);
      await screen.stripSays('Одно изменение ждёт сети');
      assert.ok(!(await screen.tab.url()).includes('#outbox'), await screen.tab.url());
      const [kept] = await screen.keeps(1);
      assert.equal(kept.nav, true);
      assert.ok(kept.size > binary.length);
      assert.deepEqual(await parcels(scene, 'Лабораторная'), []);

      await scene.network.good();
      await screen.drained();
      const sha256 = createHash('sha256').update(binary).digest('hex');
      assert.deepEqual(await parcels(scene, 'Лабораторная'), [{ key: kept.key, note: 'Лабораторная', name, type: 'application/octet-stream', size: binary.length, sha256 }]);
      const sent = await scene.sent(/^\/parcels$/);
      assert.deepEqual([...new Set(sent.map(e => e.key))], [kept.key]);
      assert.equal(sent.filter(e => e.forwarded > 0).length, 1);
      await screen.stripSays(null);
    },
  },
  {
    n: 23,
    name: 'the device keeps nothing: it is said, the text stays, nothing is marked; and with a network all works',
    patch: engine => (wayOf(23, engine) === 'failing store' ? { '/outbox/idb.js': failing } : undefined),
    // Chromium looks at the room that is left every half minute.
    async prepare(context, scene) {
      if (wayOf(23, scene.engine) === 'quota') await /** @type {import('./chromium.js').ChromiumContext} */ (context).setQuota(scene.site.url, 1);
    },
    async run(scene, anna) {
      const { screen } = anna;
      await has(anna, physics);
      await scene.network.mode('offline');
      await screen.add('Алгебра');
      await screen.stripSays(/Не сохранено на этом устройстве/);
      await until('the text is back', async () => (await screen.tab.value('#add-text')) === 'Алгебра');
      assert.equal(await screen.row('Алгебра'), undefined);
      assert.deepEqual(await screen.queue(), []);
      assert.deepEqual((await screen.rows()).map(r => [r.title, r.state]), [[physics, '']]);
      await screen.tap(physics);
      await screen.shows(physics, { done: false, state: '' });
      assert.deepEqual(await scene.did(anna), [`create ${physics}`]);

      // A full device is no reason for a page not to come, nor for a tap not to count.
      await scene.network.good();
      await screen.tab.reload();
      await screen.ready();
      await screen.shows(physics, { done: false, state: '' });
      await screen.tap(physics);
      await anna.database('it is done', tasks => tasks[0].is_completed === 1);
      await screen.add('Алгебра');
      await anna.database('it is there', tasks => tasks.length === 2);
      await screen.shows('Алгебра', { state: '' });
      assert.deepEqual((await scene.did(anna)).slice(1), [`done ${physics}`, 'create Алгебра']);
      assert.deepEqual(await screen.queue(), []);
    },
  },
  {
    n: 25,
    name: 'the same where the page allows to put such changes together: of those that were never sent the last one is',
    patch: () => ({ '/today': text => text.replaceAll('<form class="tick"', '$& data-outbox-coalesce="done"') }),
    async run(scene, anna) {
      const { screen } = anna;
      await has(anna, physics);
      await screen.today(); // whose rows have the mark
      await scene.network.mode('offline');
      // Before it stands one that was tried; what is behind that is not sent yet.
      await screen.add('Алгебра');
      await screen.shows('Алгебра', { state: 'waiting' });
      for (const done of [true, false, true]) {
        await screen.tap(physics);
        await screen.shows(physics, { done, state: 'waiting' });
        await screen.keeps(2);
      }
      await screen.stripSays('2 изменения ждут сети');
      await scene.network.good();
      await screen.drained();
      assert.deepEqual(await scene.did(anna), [`create ${physics}`, 'create Алгебра', `done ${physics}`]);
      assert.deepEqual((await scene.sent(/state$/)).map(e => e.forwarded), [1]);
      assert.equal((await anna.rows(physics))[0].is_completed, 1);
      await screen.shows(physics, { done: true, state: '' });
      await screen.stripSays(null);
    },
  },
  {
    n: 28,
    name: 'the token against forged requests changes while one waits: it is sent when a page has given the new one',
    app: 'parcels',
    async run(scene, visitor) {
      const { screen } = visitor;
      await scene.network.set({ plan: 'POST /parcels -> refuse=1', mode: 'plan' });
      await sends(visitor, 'Записка');
      await screen.stripSays('Одно изменение ждёт сети');
      const [kept] = await screen.keeps(1);
      const turned = await fetch(`${scene.site.planner.url}/turn`, { method: 'POST' });
      assert.equal(turned.status, 200);
      await scene.network.good();
      await until('it was refused twice', async () => (await scene.sent(/^\/parcels$/)).filter(e => e.status === 403).length >= 2);
      await screen.stripSays('Одно изменение ждёт сети');
      assert.deepEqual(await parcels(scene, 'Записка'), []);
      assert.deepEqual((await screen.queue()).map(e => e.key), [kept.key]);

      await screen.tab.reload();
      await screen.running();
      await screen.drained();
      assert.deepEqual((await parcels(scene, 'Записка')).map(p => [p.key, p.note]), [[kept.key, 'Записка']]);
      const sent = await scene.sent(/^\/parcels$/);
      assert.deepEqual([...new Set(sent.map(e => e.key))], [kept.key]);
      assert.deepEqual(sent.filter(e => e.forwarded > 0).map(e => e.status).filter(status => status !== 403).length, 1);
      await screen.stripSays(null);
    },
  },
  {
    n: 30,
    name: 'the page comes back as it was left, and was not there when its change was sent: it says so no longer',
    app: 'parcels',
    async run(scene, visitor) {
      const { screen } = visitor;
      const { tab } = screen;
      await scene.network.set({ plan: 'POST /parcels -> refuse=1', mode: 'plan' });
      await sends(visitor, 'Письмо');
      await screen.stripSays('Одно изменение ждёт сети');
      await tab.waitFor('the row is marked', () => document.querySelector('#send')?.getAttribute('data-outbox-state') === 'waiting');
      const [kept] = await screen.keeps(1);
      await tab.eval(() => {
        /** @type {any} */ (window).rigSame = true;
        addEventListener('pageshow', e => void (/** @type {any} */ (window).rigPersisted = e.persisted));
      });
      await tab.goto('about:blank');
      await scene.network.good();
      // Another tab has it sent, and is closed: the first hears nothing of it.
      const second = await visitor.openTab('/');
      await second.drained();
      assert.deepEqual((await parcels(scene, 'Письмо')).map(p => p.key), [kept.key]);
      await second.tab.close();
      await tab.front();
      await tab.back();
      const found = await tab.eval(() => ({
        same: /** @type {any} */ (window).rigSame,
        persisted: /** @type {any} */ (window).rigPersisted,
        why: JSON.stringify(/** @type {any} */ (performance.getEntriesByType('navigation')[0]).notRestoredReasons?.reasons),
      }));
      assert.ok(found.same && found.persisted, `the browser had not kept the page: ${found.why}`);
      await screen.stripSays(null);
      await tab.waitFor('the row is not marked', () => !document.querySelector('#send')?.getAttribute('data-outbox-state'));
      assert.deepEqual((await parcels(scene, 'Письмо')).map(p => p.key), [kept.key]);
      assert.equal((await scene.sent(/^\/parcels$/)).filter(e => e.forwarded > 0).length, 1);
    },
  },
  {
    n: 33,
    name: 'each change is announced once, in the words of its number',
    async run(scene, anna) {
      const { screen } = anna;
      await scene.network.mode('offline');
      const heard = await hears(screen);
      /** @type {Record<number, string>} */
      const words = { 1: 'Одно изменение ждёт сети', 21: '21 изменение ждёт сети' };
      for (const n of [2, 3, 4, 22]) words[n] = `${n} изменения ждут сети`;
      const all = Array.from({ length: 22 }, (_, i) => words[i + 1] ?? `${i + 1} изменений ждут сети`);
      await screen.add('Дело 1');
      await screen.stripSays(all[0]);
      for (let i = 1; i < all.length; i++) {
        // The page's own fetch, for a driver types for as long as a person.
        await screen.tab.eval(async n => {
          const { outbox } = await import(/** @type {string} */ ('/outbox/page.js'));
          const id = crypto.randomUUID();
          await outbox.fetch('/tasks', { method: 'POST', body: new URLSearchParams({ text: `Дело ${n}`, id }) });
        }, i + 1);
        await screen.stripSays(all[i]);
      }
      assert.deepEqual(await heard(), all);
      await scene.network.good();
      await screen.drained();
      await screen.stripSays(null);
      await until('the region is empty', async () => (await heard()).at(-1) === '');
      // On the way down no number is said twice, and none goes up.
      const down = counted((await heard()).slice(all.length - 1));
      assert.deepEqual(down, [...new Set(down)].sort((a, b) => b - a));
      assert.equal((await anna.tasks()).length, 22);
    },
  },
];

/** The same store on a disk without room. @param {string} text */
const failing = text => `${text}
IDBObjectStore.prototype.put = () => {
  throw new DOMException('There is no room.', 'QuotaExceededError');
};
`;
