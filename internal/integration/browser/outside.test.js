// @ts-check
// What is not the outbox's business: other sites, reads, logging in, and requests
// that nobody announced. It answers none of them and keeps none of them.
import assert from 'node:assert/strict';
import { createServer, request } from 'node:http';
import { join } from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';
import { open } from './engines.js';
import { BadNetwork } from './fault.js';
import { freePort, startServer, tempFolder, until } from './processes.js';
import { Scene, Site, startSite } from './scene.js';
import { password } from './screen.js';
import { Upstream } from './upstream.js';

/** @type {import('./chromium.js').Chromium} */
let browser;
before(async () => {
  browser = /** @type {import('./chromium.js').Chromium} */ (await open('chromium'));
});
after(() => browser?.close());

/** @param {import('./scene.js').Person} person Playwright's own page, which sees the browser's side of requests */
const pageOf = person => person.chromium().context.pages()[0];

/**
 * Everything that scripts can keep: each store of each database, the caches, and
 * both storages; bytes as text.
 * @param {import('./screen.js').Screen} screen
 * @returns {Promise<{databases: string[], stores: number, text: string}>}
 */
function everythingKept(screen) {
  return screen.tab.eval(async () => {
    const bytes = (/** @type {ArrayBuffer} */ b) => new TextDecoder().decode(b);
    const plain = (/** @type {any} */ v) =>
      JSON.stringify(v, (_, x) => (x instanceof ArrayBuffer ? bytes(x) : ArrayBuffer.isView(x) ? bytes(/** @type {any} */ (x.buffer)) : x instanceof Headers ? [...x] : x));
    const ready = (/** @type {IDBRequest} */ r) =>
      new Promise((resolve, reject) => {
        r.onsuccess = () => resolve(r.result);
        r.onerror = () => reject(r.error);
      });
    const said = [plain({ ...localStorage }), plain({ ...sessionStorage })];
    const databases = [];
    let stores = 0;
    for (const { name } of await indexedDB.databases()) {
      databases.push(name ?? '');
      /** @type {IDBDatabase} */
      const db = await ready(indexedDB.open(name ?? ''));
      for (const store of db.objectStoreNames) {
        stores++;
        const s = db.transaction(store).objectStore(store);
        said.push(plain(await Promise.all([ready(s.getAllKeys()), ready(s.getAll())])));
      }
      db.close();
    }
    for (const name of await caches.keys()) {
      const cache = await caches.open(name);
      for (const r of await cache.keys()) {
        // A page that carries a field named "password" is no password.
        said.push(r.url, plain([...r.headers]), (await (await cache.match(r))?.text()) ?? '');
      }
    }
    return { databases, stores, text: said.join('\n') };
  });
}

/** Counts how often the tab gets another document. @param {import('playwright-core').Page} page */
function countDocuments(page) {
  const seen = { n: 0 };
  page.on('framenavigated', frame => frame === page.mainFrame() && seen.n++);
  return seen;
}

/** A round trip of the outbox: what was sent before it has been decided. @param {import('./screen.js').Screen} screen */
const flushed = screen =>
  screen.tab.eval(async () => {
    const { outbox } = await import(/** @type {string} */ ('/outbox/page.js'));
    outbox.flush();
    await new Promise(resolve => {
      navigator.serviceWorker.addEventListener('message', e => e.data?.type === 'outbox' && resolve(0));
      navigator.serviceWorker.controller?.postMessage({ type: 'flush', tell: true });
      setTimeout(resolve, 3000);
    });
  });

describe('a page with a script of another site that is down', () => {
  /** @type {Scene} */
  let scene;
  /** @type {import('node:http').Server} */
  let spoiler;
  let dead = '';
  before(async () => {
    dead = `http://127.0.0.1:${await freePort()}`;
    const data = tempFolder('onceward-planner-');
    const planner = await startServer('planner', ['-data', data]);
    // Somebody adds a widget to each page, and to the policy what it needs.
    spoiler = createServer((req, res) => {
      const { hostname, port } = new URL(planner.url);
      const up = request({ hostname, port, method: req.method, path: req.url, headers: { ...req.headers, 'accept-encoding': 'identity' }, agent: false }, answer => {
        const headers = { ...answer.headers };
        const policy = headers['content-security-policy'];
        if (policy) headers['content-security-policy'] = `${policy}; script-src 'self' ${dead}; connect-src 'self' ${dead}; img-src 'self' ${dead}`;
        if (!String(headers['content-type']).startsWith('text/html')) {
          res.writeHead(answer.statusCode ?? 502, headers);
          answer.pipe(res);
          return;
        }
        /** @type {Buffer[]} */
        const body = [];
        answer.on('data', d => body.push(d));
        answer.on('end', () => {
          delete headers['content-length'];
          res.writeHead(answer.statusCode ?? 502, headers);
          res.end(Buffer.concat(body).toString().replace('<head>', `<head>\n<script src="${dead}/x.js"></script>`));
        });
      });
      up.on('error', () => res.destroy());
      req.on('error', () => up.destroy());
      req.pipe(up);
    });
    await new Promise(resolve => spoiler.listen(0, '127.0.0.1', () => resolve(undefined)));
    const { port } = /** @type {import('node:net').AddressInfo} */ (spoiler.address());
    const upstream = await Upstream.before(`http://127.0.0.1:${port}`);
    const network = await BadNetwork.before(upstream.url);
    scene = new Scene(new Site(planner, network, join(data, 'planner.db'), upstream), browser);
  });
  after(async () => {
    await scene?.site.stop();
    spoiler?.closeAllConnections();
    spoiler?.close();
  });
  afterEach(() => scene.clear());

  test('S49, S50: the worker answers nothing for it, the browser reports its own error, and every button works', async () => {
    const anna = await scene.person();
    const { screen } = anna;
    const page = pageOf(anna);
    /** @type {string[]} */
    const answered = [];
    /** @type {string[]} */
    const failed = [];
    const theirs = (/** @type {string} */ url) => url.startsWith(dead);
    anna.chromium().context.on('response', r => theirs(r.url()) && answered.push(`${r.status()} ${r.url()}`));
    page.on('requestfailed', r => theirs(r.url()) && failed.push(`${r.failure()?.errorText} ${r.url()}`));
    await screen.today(); // now by the worker
    assert.equal(await screen.tab.count(`script[src="${dead}/x.js"]`), 1);

    await screen.add('Тренировка каждый понедельник');
    await anna.database('it is there', tasks => tasks.some(t => t.title === 'Тренировка'));
    await screen.drained();
    await screen.shows('Тренировка', { state: '' });
    await screen.tap('Тренировка');
    await anna.database('it is done', tasks => tasks.some(t => t.is_completed === 1));
    await screen.drained();
    assert.deepEqual((await anna.rows('Тренировка')).map(t => t.is_completed), [1, 0]);
    assert.deepEqual(await scene.did(anna), ['create Тренировка', 'done Тренировка']);
    await screen.stripSays(null);
    assert.deepEqual(await screen.errors(), []);
    assert.deepEqual(failed, [`net::ERR_CONNECTION_REFUSED ${dead}/x.js`]);

    // Nor does it answer or keep a read, a change, or a change with our own marks.
    const got = await screen.tab.eval(async url => {
      const said = (/** @type {Promise<Response>} */ p) => p.then(r => `answered ${r.status} ${r.type}`, e => e.name);
      const owner = document.querySelector('meta[name=outbox-owner]')?.getAttribute('content') ?? '';
      return [
        owner !== '',
        await said(fetch(`${url}/read`, { mode: 'no-cors' })),
        await said(fetch(`${url}/change`, { method: 'POST', mode: 'no-cors', body: 'a=1' })),
        await said(fetch(`${url}/marked`, { method: 'POST', headers: { 'Idempotency-Key': 'k1', 'Outbox-Owner': owner }, body: 'a=1' })),
      ];
    }, dead);
    assert.deepEqual(got, [true, 'TypeError', 'TypeError', 'TypeError']);
    assert.deepEqual(answered, []);
    assert.deepEqual(await screen.queue(), []);
    const kept = await everythingKept(screen);
    assert.ok(!kept.text.includes(`${dead}/read`) && !kept.text.includes('/marked'), 'something of another site was kept');
  });
});

describe('the planner', () => {
  /** @type {Scene} */
  let scene;
  before(async () => {
    scene = new Scene(await startSite(), browser);
  });
  after(() => scene?.site.stop());
  afterEach(() => scene.clear());

  test('S54: a read without a network is never queued, not even one with our marks, and is not sent later', async () => {
    const anna = await scene.person();
    const { screen } = anna;
    const before = await anna.tasks();
    await scene.network.mode('offline');
    const got = await screen.tab.eval(async () => {
      const said = (/** @type {Promise<Response>} */ p) => p.then(r => `answered ${r.status}`, e => e.name);
      const owner = document.querySelector('meta[name=outbox-owner]')?.getAttribute('content') ?? '';
      const marks = { 'Idempotency-Key': 'read-1', 'Outbox-Owner': owner };
      const { outbox } = await import(/** @type {string} */ ('/outbox/page.js'));
      return [
        await said(fetch('/read-1')),
        await said(fetch('/read-2', { headers: marks })),
        await said(outbox.fetch('/read-3')),
        await said(fetch('/read-4', { method: 'HEAD', headers: marks })),
      ];
    });
    assert.deepEqual(got, ['TypeError', 'TypeError', 'TypeError', 'TypeError']);
    // A link of htmx, which names all that it sends.
    await screen.tab.eval(async () => {
      const failed = new Promise(resolve => document.addEventListener('htmx:sendError', resolve, { once: true }));
      void (/** @type {any} */ (window).htmx.ajax('GET', '/read-5', { source: '#main', swap: 'none' }));
      await failed;
    });
    await flushed(screen);
    assert.deepEqual(await screen.queue(), []);
    assert.equal(await screen.strip(), null);

    // The line runs, and nothing of the reads is in it.
    const seen = (await scene.network.log()).at(-1)?.n ?? 0;
    await scene.network.good();
    await screen.add('Алгебра');
    await anna.database('the change is there', tasks => tasks.length === before.length + 1);
    await screen.drained();
    assert.deepEqual((await scene.network.log(seen)).filter(e => e.path.startsWith('/read-')), []);
  });

  for (const how of /** @type {const} */ (['without a network', 'while every answer is 502'])) {
    test(`S55: logging in ${how} is a clear error; nothing is queued, and the password is kept nowhere`, async () => {
      const anna = await scene.person();
      const { screen } = anna;
      // What is kept for sending would be found.
      await scene.network.mode('502');
      await screen.add('Алгебра');
      await screen.keeps(1);
      const body = new URLSearchParams({ text: 'Алгебра' }).toString();
      assert.ok((await everythingKept(screen)).text.includes(body), 'the body of a waiting task was not found');
      await scene.network.good();
      await anna.database('a task is there', tasks => tasks.length === 1);
      await screen.drained();
      await scene.site.endSessions(anna.login);
      const sessions = () => scene.site.sql('select count(*) as n from sessions join users on users.id = user_id where login = ?', anna.login);
      assert.deepEqual(await sessions(), [{ n: 0 }]);
      await screen.tab.goto(`${screen.url}/auth/login`);
      await screen.tab.controlled();
      const documents = countDocuments(pageOf(anna));

      if (how === 'without a network') await anna.chromium().setOffline(true);
      else await scene.network.mode('502');
      await screen.tab.type('#login', anna.login, { clear: true });
      await screen.tab.type('#password', password, { enter: true });
      await screen.tab.waitFor('the error is said', () => document.querySelector('#error')?.checkVisibility());
      assert.equal(await screen.tab.text('#error'), 'Нет сети. Войти можно, когда она появится.');

      assert.deepEqual(await sessions(), [{ n: 0 }]);
      assert.deepEqual(await screen.queue(), []);
      const kept = await everythingKept(screen);
      assert.ok(kept.databases.includes('outbox') && kept.stores > 0, `no store was looked at: ${kept.databases}`);
      for (const form of [password, encodeURIComponent(password), new URLSearchParams({ p: password }).toString().slice(2)]) {
        assert.ok(!kept.text.includes(form), `«${form}» is kept`);
      }
      assert.equal(documents.n, 0, 'the page of the login was left');
      assert.equal(await screen.tab.value('#login'), anna.login);

      // The network is back: nobody logs in by themselves, and the person can.
      await anna.chromium().setOffline(false);
      await scene.network.good();
      await flushed(screen);
      assert.deepEqual(await sessions(), [{ n: 0 }]);
      await screen.tab.click('form.auth button.is-main');
      await screen.tab.waitFor('the page "today"', () => location.pathname === '/today' && document.readyState === 'complete');
      assert.deepEqual(await sessions(), [{ n: 1 }]);
      await screen.ready();
      await screen.shows('Алгебра', { state: '' });
    });
  }

  for (const how of /** @type {const} */ (['without a network', 'while every answer is 502'])) {
    test(`R27, R28, W9, W14: ${how} a request that nobody announced gets no 202, nothing is queued, and no page is loaded again and again`, async () => {
      const anna = await scene.person();
      const { screen } = anna;
      await screen.add('Алгебра');
      await anna.database('a task is there', tasks => tasks.length === 1);
      await screen.drained();
      const [{ id }] = await anna.tasks();
      // The page tells the device's zone on each load until that has worked, and
      // the account has another one: what once ended in a loop.
      await screen.tab.eval(() => fetch('/settings/zone', { method: 'POST', body: new URLSearchParams({ tz: 'Asia/Omsk' }) }).then(() => sessionStorage.clear()));
      const zone = () => scene.site.sql('select tz from users where login = ?', anna.login);
      assert.deepEqual(await zone(), [{ tz: 'Asia/Omsk' }]);
      await scene.network.set({ plan: 'POST /settings/zone -> 502=1', mode: 'plan' });
      await screen.today();
      await screen.tab.waitFor('the page is kept for reading', async () => {
        for (const name of await caches.keys()) {
          const kept = name.startsWith('planner-pages-') && (await (await caches.open(name)).match('/today'));
          if (kept) return (await kept.text()).includes('data-zone="Asia/Omsk" data-zone-auto');
        }
        return false;
      });
      const seen = (await scene.network.log()).at(-1)?.n ?? 0;
      if (how === 'without a network') await anna.chromium().setOffline(true);
      else await scene.network.set({ plan: 'POST /* -> 502=1', mode: 'plan' });
      const page = pageOf(anna);
      const documents = countDocuments(page);
      /** @type {string[]} */
      const zones = [];
      page.on('request', r => r.url().endsWith('/settings/zone') && zones.push(r.method()));
      /** @type {string[]} */
      const accepted = [];
      page.on('response', r => r.status() === 202 && accepted.push(r.url()));
      await screen.tab.reload();
      await screen.tab.waitFor('the outbox runs', () => document.querySelector('#outbox-strip') !== null);

      const got = await screen.tab.eval(async path => {
        const said = (/** @type {Promise<Response>} */ p) => p.then(r => `answered ${r.status} ${r.headers.get('X-Outbox-Queued')}`, e => e.name);
        const body = new URLSearchParams({ completed: 'true' });
        const xhr = new XMLHttpRequest();
        const old = new Promise(resolve => (xhr.onloadend = () => resolve(xhr.status)));
        xhr.open('POST', path);
        xhr.setRequestHeader('Idempotency-Key', 'without-an-owner-1');
        xhr.send(body);
        return [
          await said(fetch(path, { method: 'POST', body })),
          await said(fetch(path, { method: 'POST', body, headers: { 'Idempotency-Key': 'without-an-owner-2' } })),
          await said(fetch('/settings/zone', { method: 'POST', body: new URLSearchParams({ tz: 'Asia/Tokyo' }) })),
          await old,
        ];
      }, `/tasks/${id}/state`);
      assert.deepEqual((await anna.tasks()).map(t => t.is_completed), [0]);
      assert.deepEqual(got, how === 'without a network' ? ['TypeError', 'TypeError', 'TypeError', 0] : ['answered 502 null', 'answered 502 null', 'answered 502 null', 502]);
      await until('the page has told the zone', () => zones.length >= 2);
      await flushed(screen);
      assert.deepEqual(await screen.queue(), []);
      assert.deepEqual(accepted, []);
      assert.equal(await screen.strip(), null);
      // The page's own telling of the zone failed, and that is all that came of it.
      assert.equal(documents.n, 1, `the page was loaded ${documents.n} times`);
      assert.equal(zones.length, 2, 'the page tells the zone once, and this test did');

      await anna.chromium().setOffline(false);
      await scene.network.good();
      await flushed(screen);
      await screen.add('Химия');
      await anna.database('the line goes on', tasks => tasks.length === 2);
      await screen.drained();
      assert.deepEqual((await anna.tasks()).map(t => [t.title, t.is_completed]), [['Алгебра', 0], ['Химия', 0]]);
      assert.deepEqual((await scene.network.log(seen)).filter(e => /state$/.test(e.path) && e.forwarded > 0), []);
      assert.deepEqual(await zone(), [{ tz: 'Asia/Omsk' }]);
    });
  }
});
