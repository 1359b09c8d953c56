// @ts-check
// The worker's wiring, in a scope that is none. Browsers are tested elsewhere.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { mock, test } from 'node:test';
import { fragment, headers } from './announce.js';
import { fakeLocks, reply } from './sim.js';
import { memory, memoryStore } from './memory.store.js';
import { keepScripts } from './scripts.js';
import { attach } from './worker.js';

const origin = 'https://app.test';
const drain = () => new Promise((ok) => setTimeout(ok, 5));

/** @param {any} [options] @param {string} [search] */
function scope(options = {}, search = '') {
  /** @type {Record<string, ((e: any) => void)[]>} */
  const listeners = {};
  const me = { alive: true };
  const w = {
    disk: memory(),
    /** @type {string[]} */
    sent: [],
    /** @type {any[]} */
    referrers: [],
    /** @type {any[]} */
    told: [],
    /** @type {string[]} */
    tags: [],
    calls: /** @type {string[]} */ ([]),
    pages: [{ visibilityState: 'visible', postMessage: (/** @type {any} */ m) => w.told.push(m) }],
    others: /** @type {any[]} */ ([]),
    /** @type {(url: string) => Promise<any>} */
    net: async () => reply(200, { 'Idempotency-Status': 'executed' }, 'ok'),
    cached: /** @type {any} */ (undefined),
    self: {
      location: { href: `${origin}/outbox/sw.js${search}`, origin },
      navigator: { locks: fakeLocks().for(me) },
      registration: { sync: { register: async (/** @type {string} */ t) => w.tags.push(t) }, unregister: async () => w.calls.push('unregister') },
      clients: {
        // Pages that no worker controls are there for whoever asks for them.
        matchAll: async (/** @type {any} */ which) => (which?.includeUncontrolled ? [...w.pages, ...w.others] : w.pages),
        claim: async () => w.calls.push('claim'),
      },
      caches: {
        open: async () => ({ add: async (/** @type {Request} */ r) => w.calls.push(`cache ${r}`) }),
        match: async () => w.cached,
      },
      skipWaiting: () => w.calls.push('skipWaiting'),
      fetch: (/** @type {any} */ url, /** @type {any} */ init) => {
        w.sent.push(String(url.url ?? url));
        w.referrers.push(init?.referrer);
        return w.net(String(url));
      },
      addEventListener: (/** @type {string} */ type, /** @type {(e: any) => void} */ fn) => (listeners[type] ??= []).push(fn),
    },
    /** @param {string} type @param {any} [event] */
    fire(type, event = {}) {
      const e = {
        ...event,
        /** @type {any} */
        answer: undefined,
        /** @type {Promise<any>[]} */
        work: [],
        settled: false,
        respondWith: (/** @type {any} */ p) => (e.answer = p),
        waitUntil: (/** @type {any} */ p) => {
          assert.equal(e.settled, false, 'waitUntil after the handler');
          e.work.push(p);
        },
      };
      for (const fn of listeners[type] ?? []) fn(e);
      e.settled = true;
      return e;
    },
    /** @param {any} r */
    fetch: (r) =>
      w.fire('fetch', {
        request: { method: 'POST', mode: 'cors', url: `${origin}/tasks`, referrer: `${origin}/today`, arrayBuffer: async () => new TextEncoder().encode('x').buffer, ...r, headers: new Headers(r.headers) },
      }),
  };
  const outbox = attach(w.self, { store: memoryStore(w.disk), hardLimit: 100, softLimit: 100, ...options });
  return Object.assign(w, { outbox });
}
const mine = { headers: headers({ key: 'k', owner: 'A' }) };

test('an announced request is answered by the worker, which lives until it is done', async () => {
  const w = scope();
  const e = w.fetch(mine);
  assert.equal(e.work.length, 1, 'waitUntil in the handler itself');
  assert.equal(await (await e.answer).text(), 'ok');
  await Promise.all(e.work);
  assert.deepEqual([w.sent, w.disk.entries.size, w.tags], [[`${origin}/tasks`], 0, []]);
});

test('49, 50, W9, W14, R27, R28: everything else goes its own way', async () => {
  const w = scope();
  for (const r of [
    { headers: {} },
    { headers: { 'Idempotency-Key': 'k' } },
    { method: 'GET', headers: {} },
    { method: 'GET', mode: 'navigate', url: `${origin}/today` },
    { method: 'GET', url: 'https://cdn.test/htmx.js' },
    { ...mine, url: 'https://cdn.test/tasks' },
    { ...mine, url: `${origin}/auth/login` },
  ]) {
    assert.equal(w.fetch(r).answer, undefined, JSON.stringify(r));
  }
  await drain();
  assert.deepEqual([w.sent, w.disk.entries.size], [[], 0]);
  // Another site's login is nobody's here.
  assert.deepEqual(w.fetch({ url: 'https://cdn.test/login', headers: {} }).work, []);
});

test('a form\'s navigation is answered with a redirect', async () => {
  const w = scope();
  w.net = async () => reply(200, { 'Idempotency-Status': 'executed', 'Outbox-Location': '/today' });
  const e = w.fetch({ mode: 'navigate', url: `${origin}/tasks${fragment({ key: 'k', owner: 'A', back: '/today' })}` });
  const r = await e.answer;
  assert.deepEqual([r.status, r.headers.get('Location'), w.sent], [303, `${origin}/today#outbox-`, [`${origin}/tasks`]]);
});

test('3, 4.1: the referrer is the page\'s own; where the browser does not tell it of a form, the page that the announcement names; never another site', async () => {
  const w = scope();
  const form = `${origin}/tasks${fragment({ key: 'k', owner: 'A', back: '/today?x' })}`;
  for (const [i, referrer] of ['', 'https://other.test/', `${origin}/list`].entries()) {
    await w.fetch({ mode: 'navigate', url: form.replace('=k.', `=k${i}.`), referrer }).answer;
  }
  assert.deepEqual(w.referrers, ['/today?x', '/today?x', `${origin}/list`]);
});

test('W22, R22, 0.4: a sync event fails while anything is left, and each reminder has a tag of its own', async () => {
  const w = scope();
  w.net = async () => reply(502);
  for (const key of ['k1', 'k2']) {
    const e = w.fetch({ headers: headers({ key, owner: 'A' }) });
    assert.equal((await e.answer).status, 202);
    await Promise.all(e.work);
  }
  assert.equal(new Set(w.tags).size, 2);
  const e = w.fire('sync', { tag: w.tags[0], lastChance: false });
  await assert.rejects(e.work[0]);
  assert.equal(w.tags.length, 2);
  const last = w.fire('sync', { tag: w.tags[0], lastChance: true });
  await assert.rejects(last.work[0]);
  await drain();
  assert.equal(w.tags.length, 3, 'the browser will not come again by itself');
  w.net = async () => reply(200, { 'Idempotency-Status': 'executed' });
  await w.fire('sync', { tag: w.tags[0] }).work[0];
  assert.equal(w.disk.entries.size, 0);
  assert.equal(w.fire('sync', { tag: 'app-tag' }).work.length, 0, 'an application\'s own');
});

test('45: without Background Sync a page\'s {type: "flush"} does it', async () => {
  const w = scope();
  delete (/** @type {any} */ (w.self.registration).sync);
  w.net = async () => reply(502);
  const e = w.fetch(mine);
  await Promise.all(e.work);
  w.net = async () => reply(200, { 'Idempotency-Status': 'executed' });
  const page = { postMessage: (/** @type {any} */ m) => w.told.push(m) };
  w.told.length = 0;
  await Promise.all(w.fire('message', { data: { type: 'flush', reset: true }, source: page }).work);
  await drain();
  assert.deepEqual([w.told[0].type, w.told[0].pending, w.told.at(-1).pending], ['outbox', 1, 0]);
  assert.equal(w.fire('message', { data: { type: 'other' }, source: page }).work.length, 0);
  assert.equal(w.fire('message', { data: null, source: page }).work.length, 0);
});

test('W25: a page that sends by itself has the others told, and the worker send nothing', async () => {
  const w = scope();
  w.net = async () => reply(502);
  await Promise.all(w.fetch(mine).work);
  await drain();
  w.told.length = w.sent.length = 0;
  await Promise.all(w.fire('message', { data: { type: 'flush', reset: true, tell: 'only' } }).work);
  await drain();
  assert.deepEqual([w.told.map((m) => m.pending), w.sent], [[1], []]);
  // The first page of a visit, and one that was forced to load anew, are among them.
  w.others.push({ visibilityState: 'visible', postMessage: (/** @type {any} */ m) => w.told.push(m) });
  const events = [{ key: 'l', kind: 'delivered' }];
  await Promise.all(w.fire('message', { data: { type: 'flush', reset: true, tell: 'only', events } }).work);
  await drain();
  assert.deepEqual(w.told.map((m) => m.events), [[], events, events]);
});

test('4.5: a page that sends the big ones itself says so', async () => {
  const w = scope({ bigBody: 0 });
  w.net = async () => reply(502);
  await Promise.all(w.fetch(mine).work);
  w.net = async () => reply(200, { 'Idempotency-Status': 'executed' });
  for (const [small, left] of /** @type {[boolean, number][]} */ ([[true, 1], [false, 0]])) {
    await Promise.all(w.fire('message', { data: { type: 'flush', reset: true, small } }).work);
    assert.equal(w.disk.entries.size, left);
  }
});

test('4.5: the page is told as soon as its request is put down, for its next one waits for that; of what is not kept it is told nothing of the kind', async () => {
  const w = scope({ maxBody: 1 });
  w.net = () => new Promise(() => {});
  w.fetch(mine);
  w.fetch({ headers: headers({ key: 'large', owner: 'A' }), arrayBuffer: async () => new ArrayBuffer(2) });
  await drain();
  assert.deepEqual(w.told.filter((m) => m.type === 'outbox-placed'), [{ type: 'outbox-placed', key: 'k' }]);
});

test('R24: a POST to a login stops the line until a page says who it is', async () => {
  const w = scope();
  await Promise.all(w.fire('message', { data: { type: 'flush', owner: 'A', since: 1 } }).work);
  await Promise.all(w.fetch({ url: `${origin}/auth/login`, mode: 'navigate', headers: {} }).work);
  const e = w.fetch(mine);
  assert.equal((await e.answer).status, 202);
  await Promise.all(e.work);
  assert.equal(w.sent.length, 0);
  await Promise.all(w.fire('message', { data: { type: 'flush', owner: 'A', since: Date.now() + 1 } }).work);
  assert.equal(w.sent.length, 1);
});

test('a look at a login page, which a link checker takes with HEAD, signs nobody out', async () => {
  const w = scope();
  await Promise.all(w.fire('message', { data: { type: 'flush', owner: 'A', since: 1 } }).work);
  for (const method of ['GET', 'HEAD', 'OPTIONS']) await Promise.all(w.fetch({ method, url: `${origin}/login`, headers: {} }).work);
  await w.fetch(mine).answer;
  assert.equal(w.sent.length, 1);
});

test('a page that was on its way is told what was done meanwhile; not what a clock that was set back says will be done, for it would load itself anew for that without end', async () => {
  const w = scope();
  mock.timers.enable({ apis: ['Date'], now: 100_000 });
  try {
    await Promise.all(w.fetch(mine).work);
    const told = async (/** @type {number} */ born) => {
      /** @type {any[]} */
      const heard = [];
      await Promise.all(w.fire('message', { data: { type: 'flush', born }, source: { postMessage: (/** @type {any} */ m) => heard.push(m) } }).work);
      return heard[0].events.map((/** @type {any} */ e) => [e.key, e.kind]);
    };
    assert.deepEqual([await told(99_000), await told(100_000), await told(0)], [[['k', 'delivered']], [], []]);
    mock.timers.setTime(40_000);
    assert.deepEqual(await told(39_000), []);
  } finally {
    mock.timers.reset();
  }
});

test('the page for waiting forms is kept at installation and answered without a network', async () => {
  const w = scope();
  await Promise.all(w.fire('install').work);
  assert.ok(w.calls.some((c) => c.startsWith('cache')) && w.calls.includes('skipWaiting'));
  const asks = () => w.fetch({ method: 'GET', mode: 'navigate', url: `${origin}/outbox/queued?back=%2F&key=k`, headers: {} }).answer;
  w.cached = new Response('kept');
  assert.equal(await (await asks()).text(), 'kept');
  w.cached = undefined;
  w.net = async () => new Response('fresh');
  assert.equal(await (await asks()).text(), 'fresh');
});

test('W22: a release\'s worker has the pages be quiet before it takes over, and one that was left waiting is asked once more when they are; a first one, and one that is to wait, asks for nothing', async () => {
  mock.timers.enable({ apis: ['setTimeout'] });
  const settle = async () => {
    for (let i = 0; i < 50; i++) await Promise.resolve();
  };
  const one = (/** @type {any} */ registration, options = {}) => {
    const w = scope(options);
    const waits = { asked: 0, postMessage: (/** @type {any} */ m) => (waits.asked += m.type === 'outbox-over' ? 1 : 0) };
    Object.assign(w.self.registration, registration, registration.waiting && { waiting: waits });
    /** For how long pages are quiet, how often the waiting one is asked, and whether this one takes over. */
    const seen = () => [w.told.filter((/** @type {any} */ m) => m.type === 'outbox-hush').map((/** @type {any} */ m) => m.ms), waits.asked, w.calls.filter((c) => c === 'skipWaiting').length];
    return Object.assign(w, {
      /** That before a second is over, and after it. @param {string} type @param {any} [event] */
      async both(type, event) {
        const { work } = w.fire(type, event);
        await settle();
        const early = seen();
        mock.timers.tick(1_000);
        await Promise.all(work);
        return [early, seen()];
      },
    });
  };
  const flush = { data: { type: 'flush' } };
  const over = { data: { type: 'outbox-over' } };
  const nothing = [[[], 0, 0], [[], 0, 0]];
  try {
    assert.deepEqual(await one({}).both('install'), [[[], 0, 1], [[], 0, 1]], 'the first');
    assert.deepEqual(await one({ active: {} }).both('install'), [[[5_000], 0, 0], [[5_000], 0, 1]], 'another release\'s');
    assert.deepEqual(await one({ active: {} }, { takeOver: false }).both('install'), nothing);
    const old = one({ active: {}, waiting: true });
    assert.deepEqual(await old.both('message', flush), [[[35_000], 0, 0], [[35_000], 1, 0]], 'the old one, spoken to');
    assert.deepEqual(await old.both('message', flush), [[[35_000], 1, 0], [[35_000], 1, 0]], 'and again');
    assert.deepEqual(await one({ active: {} }).both('message', flush), nothing);
    assert.deepEqual(await one({ active: {}, waiting: true }, { takeOver: false }).both('message', flush), nothing);
    assert.deepEqual(await one({ active: {} }).both('message', over), [[[], 0, 1], [[], 0, 1]], 'the one left waiting');
    assert.deepEqual(await one({ active: {} }, { takeOver: false }).both('message', over), nothing);
    const blind = one({ active: {} });
    blind.self.clients.matchAll = async () => Promise.reject(new Error('no'));
    assert.deepEqual(await blind.both('install'), [[[], 0, 1], [[], 0, 1]], 'pages that cannot be asked for hold nothing up');
    const deaf = one({ active: {}, waiting: true });
    deaf.self.clients.matchAll = async () => Promise.reject(new Error('no'));
    assert.deepEqual(await deaf.both('message', flush), [[[], 1, 0], [[], 1, 0]]);
  } finally {
    mock.timers.reset();
  }
});

test('an activation takes the pages over and holds no request back', async () => {
  const w = scope();
  w.net = () => new Promise(() => {});
  const e = w.fire('activate');
  await Promise.all(e.work);
  assert.ok(w.calls.includes('claim'));
  const calm = scope({ takeOver: false });
  calm.fire('install');
  assert.deepEqual([calm.fire('activate').work.length, calm.calls.includes('skipWaiting')], [0, false]);
});

test('the page\'s configuration comes with the script\'s address', async () => {
  const w = scope({}, '?outbox=' + encodeURIComponent(JSON.stringify({ keyField: 'k', queuedHeader: 'X-Later', deny: '^/pay/' })));
  w.net = () => new Promise(() => {});
  assert.equal((await w.fetch(mine).answer).headers.get('X-Later'), '1');
  assert.equal(w.fetch({ ...mine, url: `${origin}/pay/1` }).answer, undefined);
});

test('the kill switch: nothing new, what is left is sent, and pages are told to ask the worker for nothing more', async () => {
  const before = scope();
  before.net = async () => reply(502);
  await Promise.all(before.fetch(mine).work);
  const w = scope({ kill: true, store: memoryStore(before.disk) });
  assert.equal(w.fetch(mine).answer, undefined);
  w.fire('activate');
  await drain();
  await drain();
  // An application's own worker has other work, and stays.
  assert.deepEqual([w.sent, before.disk.entries.size, w.calls.includes('unregister')], [[`${origin}/tasks`], 0, false]);
  const page = { postMessage: (/** @type {any} */ m) => w.told.push(m) };
  w.told.length = 0;
  await Promise.all(w.fire('message', { data: { type: 'flush' }, source: page }).work);
  assert.equal(w.told[0].off, true);
});

test('the scripts of a page are kept, all of them and nothing of the application, and given out when the network gives none', async () => {
  const cache = new Map();
  const w = scope();
  w.self.caches = /** @type {any} */ ({
    open: async () => ({
      add: async (/** @type {Request} */ r) => void cache.set(r.url, new Response(`kept ${r.url}`)),
      match: async (/** @type {string} */ url) => cache.get(url)?.clone(),
      put: async (/** @type {string} */ url, /** @type {Response} */ r) => void cache.set(url, r),
    }),
    match: async () => undefined,
  });
  keepScripts(w.self);
  w.fire('install');
  await drain();
  const shipped = [...readFileSync(new URL('./files.go', import.meta.url), 'utf8').matchAll(/^\/\/go:embed (.*)$/gm)].flatMap((m) => m[1].split(' '));
  const own = ['sw.js', 'kill.js', 'worker.js', 'scripts.js', 'queued.js'];
  const kept = [...cache.keys()].map((url) => url.slice(`${origin}/outbox/`.length)).filter((name) => name !== 'queued');
  assert.deepEqual(kept.sort(), shipped.filter((name) => !own.includes(name)).sort());

  const get = (/** @type {string} */ path) => w.fetch({ method: 'GET', url: origin + path, headers: {} }).answer;
  for (const path of ['/page.js', '/static/outbox/page.js', '/outbox/ping', '/outbox/mine/page.js', '/outbox/sw.js', '/']) assert.equal(get(path), undefined, path);
  const text = async (/** @type {string} */ path) => (await get(path)).text();
  const js = { 'Content-Type': 'text/javascript' };
  w.net = async () => new Response('new', { headers: js });
  assert.equal(await text('/outbox/local.js?3'), 'new');
  await drain();
  for (const net of [async () => Promise.reject(new TypeError()), async () => new Response('gateway', { status: 502 }), async () => new Response('log in to the cafe', { headers: { 'Content-Type': 'text/html' } })]) {
    w.net = net;
    assert.deepEqual([await text('/outbox/local.js?4'), await text('/outbox/kit.css')], ['new', `kept ${origin}/outbox/kit.css`]);
  }
  // Nor does a network that answers nothing hold a page up.
  w.net = () => new Promise(() => {});
  mock.timers.enable({ apis: ['setTimeout'] });
  try {
    const late = text('/outbox/kit.css');
    await new Promise((ok) => setImmediate(ok));
    mock.timers.tick(3_000);
    assert.equal(await late, `kept ${origin}/outbox/kit.css`);
  } finally {
    mock.timers.reset();
  }
  cache.clear();
  await assert.rejects((w.net = async () => Promise.reject(new TypeError()), get('/outbox/page.js')));
  w.net = async () => new Response('gateway', { status: 502 });
  assert.equal(await text('/outbox/page.js'), 'gateway');
});

test('pages that could not be asked for once are told the next time', async () => {
  const w = scope();
  const { matchAll } = w.self.clients;
  w.self.clients.matchAll = () => Promise.reject(new DOMException('not now', 'AbortError'));
  await w.outbox.announce();
  await drain();
  w.self.clients.matchAll = matchAll;
  await w.outbox.announce();
  await drain();
  assert.equal(w.told.length, 1);
});

test('a cache that cannot be read does not take the page for waiting forms away', async () => {
  const w = scope();
  w.self.caches.match = () => Promise.reject(new DOMException('corrupt', 'UnknownError'));
  w.net = async () => reply(200, {}, 'from the network');
  const r = await w.fetch({ method: 'GET', mode: 'navigate', url: `${origin}/outbox/queued?back=%2F`, headers: {} }).answer;
  assert.equal(new TextDecoder().decode(await r.arrayBuffer()), 'from the network');
});
