// @ts-check
// What the planner's worker keeps for reading without a network, in a scope that
// is none. What it looks like is tested in browsers.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

const origin = 'https://planner.test';

/** @type {Map<string, Map<string, Response>>} */
const disk = new Map();
const urlOf = (/** @type {any} */ r) => new URL(r.url ?? r, origin).href;
/** @param {string} name */
function cache(name) {
  const kept = disk.get(name) ?? new Map();
  disk.set(name, kept);
  return {
    keys: async () => [...kept.keys()].map((url) => ({ url })),
    match: async (/** @type {any} */ r) => kept.get(urlOf(r))?.clone(),
    put: async (/** @type {any} */ r, /** @type {Response} */ answer) => {
      if (full) throw new DOMException('There is no room.', 'QuotaExceededError');
      kept.set(urlOf(r), answer);
    },
    delete: async (/** @type {any} */ r) => kept.delete(urlOf(r)),
  };
}

let full = false;
/** What the server says. @type {(url: any) => Promise<Response>} */
let server;
let asked = 0;
/** How each address was asked for. @type {Map<string, any>} */
const how = new Map();
const net = (/** @type {any} */ r, /** @type {any} */ init) => {
  asked++;
  const { pathname, search } = new URL(urlOf(r));
  how.set(pathname + search, init);
  return server(pathname);
};

/** @type {Record<string, ((e: any) => void)[]>} */
const listeners = {};
const scope = {
  location: { href: `${origin}/sw.js`, origin },
  navigator: { locks: { request: async () => {} } },
  registration: {},
  clients: { matchAll: async () => [] },
  caches: {
    open: async (/** @type {string} */ name) => cache(name),
    keys: async () => [...disk.keys()],
    delete: async (/** @type {string} */ name) => disk.delete(name),
    match: async (/** @type {any} */ r, /** @type {any} */ { cacheName }) => disk.get(cacheName)?.get(urlOf(r))?.clone(),
  },
  fetch: net,
  skipWaiting() {},
  addEventListener: (/** @type {string} */ type, /** @type {(e: any) => void} */ fn) => (listeners[type] ??= []).push(fn),
};
// A database that never answers: nothing is sent here.
Object.assign(globalThis, { self: scope, caches: scope.caches, fetch: net, indexedDB: { open: () => ({}) } });
// Served, the two scripts' folders stand side by side.
const outbox = new URL('../../../outbox/worker.js', import.meta.url).href;
const source = readFileSync(new URL('static/sw.js', import.meta.url), 'utf8');
assert.ok(source.includes("'../outbox/worker.js'"));
await import('data:text/javascript,' + encodeURIComponent(source.replace('../outbox/worker.js', outbox)));

/** @param {number} status @param {string} body @param {Record<string, string>} [headers] */
const answer = (status, body, headers = {}) =>
  // What came over the network from our own origin.
  Object.defineProperty(new Response(body, { status, headers: { 'Content-Type': 'text/html', ...headers } }), 'type', { value: 'basic' });

/**
 * What the page gets; undefined: the worker leaves it to the browser.
 *
 * @param {string} path
 * @param {any} [more]
 */
async function ask(path, more) {
  /** @type {any} */
  let given;
  const work = [];
  for (const fn of listeners.fetch) {
    fn({
      request: { method: 'GET', mode: 'navigate', url: new URL(path, origin).href, referrer: '', headers: new Headers(), ...more },
      respondWith: (/** @type {any} */ p) => (given = p),
      waitUntil: (/** @type {any} */ p) => work.push(p),
    });
  }
  const r = await given;
  const text = await r?.text();
  await new Promise((ok) => setTimeout(ok, 10));
  return text;
}
const offline = () => Promise.reject(new TypeError('Failed to fetch'));
const as = (/** @type {string} */ owner) => async (/** @type {string} */ path) => answer(200, `${owner} at ${path}`, { 'Planner-Owner': owner });
const pagesKept = () => [...disk].filter(([name]) => name.startsWith('planner-pages-')).flatMap(([, kept]) => [...kept.keys()]);
const fresh = async () => {
  disk.clear();
  server = async () => answer(200, 'no network');
  how.clear();
  await install();
};

/** @param {string} type @param {any} [event] */
async function happens(type, event) {
  /** @type {Promise<any>[]} */
  const work = [];
  for (const fn of listeners[type]) fn({ waitUntil: (/** @type {any} */ p) => work.push(p), ...event });
  await Promise.all(work);
}
const install = () => happens('install');
/** A page of somebody who is signed in has loaded. @param {string} page */
const loaded = (page) => happens('message', { data: { type: 'planner:loaded', urls: [], page }, source: { id: '1', postMessage() {} } });
const main = ['/today', '/done', '/trash', '/settings', '/waiting'].map((path) => origin + path);

test('the last pages of the one who is signed in are there without a network, others are not', async () => {
  await fresh();
  server = as('anna');
  assert.equal(await ask('/today'), 'anna at /today');
  server = offline;
  assert.equal(await ask('/today'), 'anna at /today');
  assert.equal(await ask('/done'), 'no network');
  for (const status of [502, 503, 504]) {
    server = async () => answer(status, 'a proxy');
    assert.equal(await ask('/today'), 'anna at /today');
  }
});

test('W21, R38: nobody is shown the pages of the person before', async () => {
  await fresh();
  server = as('anna');
  await ask('/today');
  await ask('/tasks/5');
  server = as('boris');
  await ask('/done');
  assert.deepEqual(pagesKept(), [`${origin}/done`], 'the first page of another person takes the others away');
  server = offline;
  assert.equal(await ask('/today'), 'no network');
  assert.equal(await ask('/tasks/5'), 'no network');

  // And before any page of the next person: by the request that may change who it is.
  for (const path of ['/auth/logout', '/auth/login', '/auth/register']) {
    server = as('anna');
    await ask('/today');
    assert.equal(pagesKept().length, 1);
    assert.equal(await ask(path, { method: 'POST' }), undefined);
    assert.deepEqual(pagesKept(), [], path);
  }
});

test('R38: only whole pages of somebody who is signed in are kept; no error, no login page, no piece', async () => {
  await fresh();
  for (const wrong of [
    answer(404, 'nothing', { 'Planner-Owner': 'anna' }),
    answer(500, 'broken', { 'Planner-Owner': 'anna' }),
    answer(403, 'a firewall', { 'Planner-Owner': 'anna' }),
    answer(200, 'log in'),
    Object.defineProperty(answer(200, 'log in', { 'Planner-Owner': 'anna' }), 'redirected', { value: true }),
    new Response('another origin’s', { headers: { 'Planner-Owner': 'anna' } }),
  ]) {
    server = async () => wrong;
    await ask('/today');
    assert.deepEqual(pagesKept(), []);
  }
  server = as('anna');
  // htmx asks for a piece of the very address.
  assert.equal(await ask('/today', { mode: 'cors' }), undefined);
  await ask('/auth/login');
  assert.deepEqual(pagesKept(), []);
});

test('R24: the page that stands in for others is asked for as nobody, and is shown in the language of the kept ones', async () => {
  await fresh();
  for (const lang of ['ru', 'en']) assert.equal(how.get(`/offline?lang=${lang}`).credentials, 'omit');
  disk.get('planner-files')?.set(`${origin}/offline?lang=ru`, answer(200, 'нет сети'));
  server = offline;
  assert.equal(await ask('/done'), 'no network');
  server = async () => answer(200, 'сегодня', { 'Planner-Owner': 'anna', 'Content-Language': 'ru' });
  await ask('/today');
  server = offline;
  assert.equal(await ask('/done'), 'нет сети');
});

test('after a deploy the page that stands in for others is made of the new files', async () => {
  await fresh();
  server = async () => answer(200, 'a{}');
  await ask('/static/planner.css?v=1', { mode: 'no-cors' });
  how.clear();
  await ask('/static/planner.css?v=1', { mode: 'no-cors' });
  assert.equal(how.size, 0);
  await ask('/static/planner.css?v=2', { mode: 'no-cors' });
  assert.ok(how.has('/offline?lang=ru') && how.has('/offline?lang=en'));
});

test('the pages of the bar are kept without being opened, and again when they are old', async () => {
  await fresh();
  server = as('anna');
  await ask('/tasks/5');
  await loaded('/tasks/5');
  assert.deepEqual(pagesKept().sort(), [...main, `${origin}/tasks/5`].sort());
  server = async (path) => answer(200, `new ${path}`, { 'Planner-Owner': 'anna' });
  await loaded('/tasks/5');
  server = offline;
  assert.equal(await ask('/done'), 'anna at /done');
  disk.get('planner-pages-anna')?.set(`${origin}/done`, answer(200, 'old', { 'Planner-Owner': 'anna', Date: new Date(Date.now() - 3_600_000).toUTCString() }));
  server = async (path) => answer(200, `new ${path}`, { 'Planner-Owner': 'anna' });
  await loaded('/today');
  server = offline;
  assert.equal(await ask('/done'), 'new /done');
});

test('R24: a page that was asked for before a log-out and comes after it is not kept', async () => {
  await fresh();
  /** @type {((r: Response) => void)[]} */
  const come = [];
  server = () => new Promise((ok) => come.push(ok));
  const asks = [loaded('/today'), ask('/done')];
  await new Promise((ok) => setTimeout(ok, 10));
  assert.equal(come.length, 2);
  assert.equal(await ask('/auth/logout', { method: 'POST' }), undefined);
  server = as('anna');
  for (const ok of come) ok(answer(200, 'hers', { 'Planner-Owner': 'anna' }));
  await Promise.all(asks);
  assert.deepEqual(pagesKept(), []);
  // Whoever comes then is kept as ever.
  await loaded('/today');
  assert.equal(pagesKept().length, main.length);
});

test('R38: there is a bound, and the pages seen last are kept', async () => {
  await fresh();
  server = as('anna');
  for (let i = 0; i < 30; i++) {
    await ask(`/tasks/${i}`);
    await ask('/today');
  }
  const kept = pagesKept();
  assert.equal(kept.length, 12);
  assert.ok(kept.includes(`${origin}/today`) && kept.includes(`${origin}/tasks/29`) && !kept.includes(`${origin}/tasks/0`));
});

test('R38: of a file the newest version is kept alone, and a broken answer is none', async () => {
  await fresh();
  server = async () => answer(200, 'a{}');
  const css = (/** @type {string} */ v) => ask(`/static/planner.css?v=${v}`, { mode: 'no-cors' });
  await css('1');
  await css('2');
  const files = () => [.../** @type {any} */ (disk.get('planner-files')).keys()].filter((url) => url.includes('/static/'));
  assert.deepEqual(files(), [`${origin}/static/planner.css?v=2`]);
  server = offline;
  assert.equal(await css('2'), 'a{}');
  server = async () => answer(500, 'broken');
  await ask('/static/other.css?v=1', { mode: 'no-cors' });
  assert.equal(files().length, 1);
});

test('scenario 23: on a full device pages and files come over the network all the same', async () => {
  await fresh();
  server = as('anna');
  full = true;
  try {
    assert.equal(await ask('/today'), 'anna at /today');
    for (const file of ['/static/planner.js?v=1', '/outbox/page.js']) {
      server = async () => answer(200, `the text of ${file}`);
      assert.equal(await ask(file, { mode: 'cors' }), `the text of ${file}`);
    }
    assert.deepEqual(pagesKept(), []);
  } finally {
    full = false;
  }
});

test('49, 54: another origin is left alone, and no GET is kept for sending', async () => {
  await fresh();
  server = as('anna');
  asked = 0;
  for (const url of ['https://cdn.test/htmx.js', 'https://cdn.test/today', `${origin}/healthz`, `${origin}/export`]) {
    for (const mode of ['navigate', 'no-cors', 'cors']) {
      if (mode !== 'navigate' || !url.startsWith(origin)) assert.equal(await ask(url, { mode }), undefined, url);
    }
  }
  assert.deepEqual([asked, pagesKept()], [0, []]);
});

test('whatever page of ours does not come, the one that stands in for it does; what comes is the network’s, and is not kept', async () => {
  await fresh();
  for (const path of ['/', '/exports', '/operations/5', '/auth/login', '/auth/register', '/healthz', '/nowhere']) {
    server = as('anna');
    assert.equal(await ask(path), `anna at ${path}`);
    server = async () => answer(502, 'a proxy');
    assert.equal(await ask(path), 'a proxy');
    server = offline;
    assert.equal(await ask(path), 'no network', path);
  }
  assert.deepEqual(pagesKept(), []);
});

test('a file that is saved comes without the worker: no page is saved in its place', async () => {
  await fresh();
  asked = 0;
  assert.equal(await ask('/exports/5'), undefined);
  assert.equal(asked, 0);
});

test('the outbox’s own page is answered once', async () => {
  await fresh();
  let answered = 0;
  for (const fn of listeners.fetch) {
    fn({
      request: { method: 'GET', mode: 'navigate', url: `${origin}/outbox/queued`, referrer: '', headers: new Headers() },
      respondWith: () => answered++,
      waitUntil() {},
    });
  }
  assert.equal(answered, 1);
});
