// @ts-check
// Cases of docs/cases.md that no other test here shows.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { headers } from './announce.js';
import { createDecisions } from './decide.js';
import { createOutbox } from './engine.js';
import { idbStore } from './idb.js';
import { startLocal } from './local.js';
import { memory, memoryStore } from './memory.store.js';
import { fakeLocks, reply, world } from './sim.js';
import { attach } from './worker.js';

/** @param {any} w */
const bodies = (w) => w.server.effects.map((/** @type {any} */ e) => e.body);
/** @param {any} w */
const states = (w) => w.entries().map((/** @type {any} */ e) => `${e.key}:${e.state}`);

test('R2: an application\'s own 409 leaves the line; only the guard\'s "in progress" holds it, and for a while', async () => {
  const w = world();
  const a = w.program();
  w.server.refusals.set('conflict', 409);
  w.net = 'refuse';
  for (const b of ['conflict', '2', '3']) a.tap(b, { key: b });
  await w.clock.go(0);
  const handle = w.server.handle;
  let busy = true;
  w.server.handle = async (u, i, h) =>
    busy && i.headers.get('Idempotency-Key') === '2' ? reply(409, { 'Idempotency-Status': 'in-progress', 'Retry-After': '2' }) : handle(u, i, h);
  w.net = 'ok';
  void a.outbox.flush(true);
  await w.clock.go(10_000);
  assert.deepEqual([states(w), bodies(w)], [['conflict:refused', '2:waiting', '3:waiting'], []]);
  busy = false;
  void a.outbox.flush();
  await w.clock.go(10_000);
  assert.deepEqual([states(w), bodies(w)], [['conflict:refused'], ['2', '3']]);
});

for (const status of [401, 403, 408, 411, 413, 425, 429, 431]) {
  test(`W4: a ${status} of nobody we know deletes nothing; it goes again under its name`, async () => {
    const w = world();
    const a = w.program();
    const handle = w.server.handle;
    w.server.handle = async () => reply(status, {}, 'no');
    const t = a.tap('done');
    await w.clock.go(10);
    assert.deepEqual([t.result.kind, states(w)], ['queued', [`${t.key}:waiting`]]);
    w.server.handle = handle;
    void a.outbox.flush(true);
    await w.clock.go(10);
    assert.deepEqual([bodies(w), w.entries(), w.server.requests.map((r) => r.key)], [['done'], [], [t.key]]);
  });
}

test('W4: what our server itself says with these numbers waits, asks for a login, or stays with its content', async () => {
  for (const [status, token, state] of /** @type {[number, string, string][]} */ ([
    [408, 'released', 'waiting'], [425, 'released', 'waiting'], [429, 'released', 'waiting'], [429, 'quota', 'waiting'],
    [401, 'released', 'login'], [403, 'released', 'refused'], [413, 'too-large', 'refused'],
  ])) {
    const w = world();
    const a = w.program();
    w.server.handle = async () => reply(status, { 'Idempotency-Status': token });
    const t = a.tap('text=homework');
    await w.clock.go(10);
    const [e] = w.entries();
    assert.deepEqual([e.key, e.state, e.text, w.disk.bodies.has(t.key)], [t.key, state, 'text=homework', true], `${status} ${token}`);
  }
});

for (const mode of ['500', '502', '503', '504']) {
  test(`43, 47: after a ${mode} the line stops and keeps all, and goes on by a kick alone`, async () => {
    const w = world();
    const a = w.program();
    const tried = /** @type {string[]} */ ([]);
    w.watch = (key) => tried.push(key);
    w.net = mode;
    const [t1, t2] = [a.tap('1'), a.tap('2')];
    await w.clock.go(10);
    assert.deepEqual([t1.result.kind, t2.result.kind, states(w)], ['queued', 'queued', [`${t1.key}:waiting`, `${t2.key}:waiting`]]);
    assert.deepEqual([...new Set(tried)], [t1.key], 'nothing is sent past the one that waits');
    w.net = 'ok';
    for (let s = 0; s < 60; s += 5) {
      await w.clock.go(5_000);
      void a.outbox.flush();
    }
    await w.clock.go(10);
    assert.deepEqual([bodies(w), w.entries()], [['1', '2'], []]);
  });
}

test('34: an entry has url, method, headers, body and times', async () => {
  const w = world();
  w.net = 'refuse';
  const t = w.program().tap('text=Купить тетрадь', { method: 'PUT', url: 'https://app.test/tasks/5?x=1' });
  await w.clock.go(0);
  const [e] = w.entries();
  assert.deepEqual([e.url, e.method, e.headers['content-type'], e.createdAt, e.firstSentAt], ['https://app.test/tasks/5?x=1', 'PUT', 'application/x-www-form-urlencoded', w.clock.now(), w.clock.now()]);
  assert.equal(new TextDecoder().decode(w.disk.bodies.get(t.key)), 'text=Купить тетрадь');
});

test('R40: an entry of another version\'s form is sent, and keeps what this one does not know of', async () => {
  const w = world();
  const before = w.program();
  w.net = 'refuse';
  const t = before.tap('done');
  await w.clock.go(0);
  before.end();
  const old = w.disk.entries.get(t.key);
  for (const name of ['told', 'shown', 'odd', 'timeouts', 'triedAt', 'notBefore', 'swap', 'lastText']) delete old[name];
  Object.assign(old, { v: 9, coalesce: { row: 'task-5' } });
  const a = w.program();
  w.net = '502';
  void a.outbox.flush(true);
  await w.clock.go(10);
  const [e] = w.entries();
  assert.deepEqual([e.state, e.v, e.coalesce], ['waiting', 9, { row: 'task-5' }]);
  w.net = 'ok';
  void a.outbox.flush(true);
  await w.clock.go(10);
  assert.deepEqual([bodies(w), w.entries(), w.server.requests.at(-1)?.key], [['done'], [], t.key]);
});

test('W23: an entry that could not be deleted stays; it is sent again under its name and done once', async () => {
  const w = world();
  const a = w.program();
  w.net = 'late';
  const t = a.tap('done');
  await w.clock.go(1_000);
  w.breakStore = () => {
    throw new DOMException('no', 'UnknownError');
  };
  await w.clock.go(5_000);
  assert.deepEqual([bodies(w), w.entries().length], [['done'], 1]);
  w.breakStore = null;
  void a.outbox.flush(true);
  await w.clock.go(5_000);
  assert.deepEqual([bodies(w), w.entries(), w.server.requests.map((r) => r.key)], [['done'], [], [t.key, t.key]]);
  assert.equal(t.result.kind, 'answer');
});

/**
 * As much of IndexedDB as idb.js uses, with what a browser does to it: other
 * connections, other versions, transactions that are given up at their end.
 */
function fakeIDB() {
  /** @type {Record<string, Map<string, any>>} */
  let kept = {};
  let version = 0;
  /** @type {Promise<any>} */
  let last = Promise.resolve();
  /** @type {Set<any>} */
  const connections = new Set();
  const soon = (/** @type {() => void} */ fn) => setTimeout(fn, 0);
  const f = {
    /** the error of the next transaction, or of all from now on */
    abort: /** @type {string | null} */ (null),
    broken: false,
    /** closes every connection without a word, as iOS does to a page that it suspended */
    cut: () => connections.clear(),
    /** how many times it cannot be opened */
    refuses: 0,
    /** and no new one works either */
    dead: false,
    /** of the last transaction that writes: whether its end means that it is on the disk itself */
    durability: '',
    open: (/** @type {string} */ _name, /** @type {number} */ wanted) => {
      /** @type {any} */
      const request = { result: null, error: null };
      let asked = false;
      const go = () => {
        if (f.refuses-- > 0) {
          request.error = new DOMException('not now', 'AbortError');
          return request.onerror?.();
        }
        if (wanted < version) {
          request.error = new DOMException('older than the database', 'VersionError');
          return request.onerror?.();
        }
        if (wanted > version) {
          if (!asked) for (const c of [...connections]) c.onversionchange?.();
          asked = true;
          if (connections.size) return soon(go); // blocked, however long it takes
        }
        const db = connection();
        request.result = db;
        if (wanted > version) {
          version = wanted;
          request.onupgradeneeded?.();
        }
        connections.add(db);
        request.onsuccess?.();
      };
      soon(go);
      return request;
    },
    entries: () => [...(kept.entries?.keys() ?? [])],
  };
  function connection() {
    const db = {
      onversionchange: /** @type {(() => void) | null} */ (null),
      onclose: null,
      close: () => connections.delete(db),
      createObjectStore: (/** @type {string} */ name) => (kept[name] = new Map()),
      transaction: (/** @type {string[]} */ names, /** @type {string} */ mode, /** @type {any} */ options) => {
        if (mode === 'readwrite') f.durability = options?.durability ?? 'default';
        if (f.dead) throw new DOMException('Connection to Indexed Database server lost', 'UnknownError');
        if (!connections.has(db)) throw new DOMException('closed', 'InvalidStateError');
        /** @type {any} */
        const tx = { error: null, oncomplete: null, onabort: null };
        // One after another, each on what the one before has left.
        /** @type {Record<string, Map<string, any>>} */
        let draft = {};
        const begun = last.then(() => (draft = Object.fromEntries(names.map((n) => [n, new Map(kept[n])]))));
        let ended = () => {};
        last = new Promise((ok) => (ended = () => ok(0)));
        let open = 0;
        let over = false;
        tx.abort = () => {
          if (over) return;
          over = true;
          ended();
          tx.error = null;
          tx.onabort?.();
        };
        const ask = (/** @type {() => any} */ what) => {
          /** @type {any} */
          const request = {};
          open++;
          void begun.then(() =>
            soon(() => {
              if (over) return;
              request.result = structuredClone(what());
              request.onsuccess?.();
              // It ends when its last request has been answered and asks for no more.
              if (--open === 0) end();
            }),
          );
          return request;
        };
        const end = () => {
          over = true;
          ended();
          if (f.abort) {
            tx.error = new DOMException('given up', f.abort);
            if (!f.broken) f.abort = null;
            return tx.onabort?.();
          }
          kept = { ...kept, ...draft };
          tx.oncomplete?.();
        };
        tx.objectStore = (/** @type {string} */ n) => ({
          get: (/** @type {string} */ k) => ask(() => draft[n].get(k)),
          getAll: () => ask(() => [...draft[n].values()]),
          put: (/** @type {any} */ v, /** @type {string} */ k) => ask(() => void draft[n].set(k ?? v.key, structuredClone(v))),
          delete: (/** @type {string} */ k) => ask(() => void draft[n].delete(k)),
        });
        return tx;
      },
    };
    return db;
  }
  return f;
}

/** @param {any} idb @returns {ReturnType<typeof idbStore>} */
const on = (idb) => idbStore('outbox', idb);
const entry = /** @type {any} */ ({ key: 'k', seq: 1, owner: 'A' });

test('W23: a change that the database gives up at its end is no success, though each of its requests was one', async () => {
  const idb = fakeIDB();
  const store = on(idb);
  await store.change(() => ({ put: [entry], bodies: [['k', new Uint8Array([1]).buffer]], value: 0 }));
  idb.abort = 'QuotaExceededError';
  await assert.rejects(store.change(() => ({ del: ['k'], value: 'deleted' })), { name: 'QuotaExceededError' });
  assert.deepEqual((await store.read()).entries.map((e) => e.key), ['k']);
  assert.equal(await store.change(() => ({ del: ['k'], value: 'deleted' })), 'deleted');
  assert.deepEqual(idb.entries(), []);
});

test('W22, R37, R40: a newer version\'s upgrade is let through at once; the older one then keeps nothing and loses nothing', async () => {
  const idb = fakeIDB();
  const [old, other] = [on(idb), on(idb)];
  await old.change(() => ({ put: [entry], value: 0 }));
  assert.equal((await other.read()).entries.length, 1);
  await new Promise((ok, no) => {
    const request = idb.open('outbox', 2);
    request.onsuccess = ok;
    request.onerror = no;
    setTimeout(() => no(new Error('the upgrade is blocked')), 2_000).unref();
  });
  await assert.rejects(old.change(() => ({ put: [{ ...entry, key: 'lost' }], value: 0 })), { name: 'VersionError' });
  assert.deepEqual(idb.entries(), ['k'], 'what waited is the new version\'s to send');
});

test('W24: a database that could not be opened once is opened for the next request', async () => {
  const idb = fakeIDB();
  idb.refuses = 1;
  const store = on(idb);
  await assert.rejects(store.read(), { name: 'AbortError' });
  await store.change(() => ({ put: [entry], value: 0 }));
  assert.deepEqual(idb.entries(), ['k']);
});

test('W22: a connection that the browser has closed is opened anew', async () => {
  const idb = fakeIDB();
  const store = on(idb);
  await store.change(() => ({ put: [entry], value: 0 }));
  store.close();
  await new Promise((ok) => setTimeout(ok, 10));
  await store.change(({ entries }) => ({ put: [{ ...entry, key: 'k2', seq: entries.length + 1 }], value: 0 }));
  assert.deepEqual((await store.read()).entries.map((e) => e.key), ['k', 'k2']);
});

test('B160: a page that is put to sleep in the middle of a change holds nobody up, and makes the change when it is woken', async () => {
  const idb = fakeIDB();
  const [page, other] = [on(idb), on(idb)];
  await page.read();
  const half = page.change(() => ({ put: [entry], value: 'made' }));
  await new Promise((ok) => setTimeout(ok));
  page.sleep();
  const begun = page.change(() => ({ put: [{ ...entry, key: 'k2', seq: 2 }], value: 'made' }));
  assert.deepEqual((await other.read()).entries, []);
  await other.change(() => ({ put: [{ ...entry, key: 'other', seq: 3 }], value: 0 }));
  assert.deepEqual(idb.entries(), ['other']);
  page.wake();
  assert.deepEqual([await half, await begun, (await other.read()).entries.map((e) => e.key)], ['made', 'made', ['k', 'k2', 'other']]);
});

test('B142: the connection is dead when the person submits: opened anew, kept, sent; if it stays dead that is told, and what was kept before is not lost', async () => {
  const idb = fakeIDB();
  let online = false;
  /** @type {string[]} */
  const sent = [];
  /** @type {any[]} */
  const told = [];
  const outbox = createOutbox({
    store: on(idb),
    locks: /** @type {any} */ (fakeLocks().for({ alive: true })),
    tell: (m) => told.push(m),
    fetch: async (_, init) => {
      if (!online) throw new TypeError('Failed to fetch');
      sent.push(new TextDecoder().decode(init.body));
      return reply(200, { 'Idempotency-Status': 'executed' });
    },
  });
  const submit = (/** @type {string} */ text) =>
    outbox.capture({ key: text, owner: 'A', method: 'POST', url: 'https://app.test/tasks', headers: [], body: new TextEncoder().encode(text).buffer }).answer;
  assert.equal((await submit('before')).kind, 'queued');
  idb.cut();
  assert.equal((await submit('after')).kind, 'queued');
  idb.cut();
  idb.dead = true;
  assert.equal((await submit('lost')).kind, 'unsaved');
  for (let i = 0; i < 100 && !told.some((m) => m.events?.some((/** @type {any} */ e) => e.kind === 'unsaved')); i++) await new Promise((ok) => setTimeout(ok, 10));
  assert.ok(told.some((m) => m.events?.some((/** @type {any} */ e) => e.kind === 'unsaved' && e.key === 'lost')));
  assert.deepEqual(idb.entries(), ['before', 'after']);
  idb.dead = false;
  online = true;
  await outbox.flush(true);
  assert.deepEqual([sent, idb.entries()], [['before', 'after'], []]);
});

test('W8: a power cut loses nothing: what is put down, that it goes out, and what a person decides are on the disk itself before anything follows', async () => {
  const idb = fakeIDB();
  const store = on(idb);
  const locks = /** @type {any} */ (fakeLocks().for({ alive: true }));
  /** @type {string[]} */
  const before = [];
  const send = async () => {
    before.push(idb.durability);
    idb.durability = '';
    return reply(502);
  };
  const outbox = createOutbox({ store, locks, fetch: send, tell() {} });
  const tap = (/** @type {string} */ key) => outbox.capture({ key, owner: 'A', method: 'POST', url: 'https://app.test/tasks', headers: [], body: new ArrayBuffer(1) });
  await tap('sent at once').done;
  await outbox.flush(true);
  assert.deepEqual(before, ['strict', 'strict'], 'a first byte without its entry on the disk');
  // Behind another program's send it is answered "it waits" without one of its own.
  void locks.request('outbox', {}, () => new Promise(() => {}));
  idb.durability = '';
  assert.equal((await tap('only kept').answer).kind, 'queued');
  assert.deepEqual([idb.durability, before.length, idb.entries()], ['strict', 2, ['sent at once', 'only kept']]);
  idb.durability = '';
  assert.equal(await createDecisions({ store, locks, fetch: send, newKey: () => 'new' }).discard('only kept'), 'discarded');
  assert.deepEqual([idb.durability, idb.entries()], ['strict', ['sent at once']]);
});

test('36: a browser that refuses Background Sync is none without it: the request is kept and no error is told', async () => {
  /** @type {Record<string, (e: any) => void>} */
  const listeners = {};
  const disk = memory();
  let asked = 0;
  const register = async () => {
    asked++;
    throw new DOMException('not here', 'NotAllowedError');
  };
  attach(
    {
      location: { href: 'https://app.test/outbox/sw.js', origin: 'https://app.test' },
      navigator: { locks: fakeLocks().for({ alive: true }) },
      registration: { sync: { register } },
      clients: { matchAll: async () => [] },
      fetch: async () => reply(502),
      addEventListener: (/** @type {string} */ type, /** @type {(e: any) => void} */ fn) => (listeners[type] = fn),
    },
    { store: memoryStore(disk) },
  );
  /** @type {Promise<any>[]} */
  const work = [];
  /** @type {any} */
  let answer;
  listeners.fetch({
    request: { method: 'POST', mode: 'cors', url: 'https://app.test/tasks', referrer: '', headers: new Headers(headers({ key: 'k', owner: 'A' })), arrayBuffer: async () => new ArrayBuffer(1) },
    respondWith: (/** @type {any} */ p) => (answer = p),
    waitUntil: (/** @type {any} */ p) => work.push(p),
  });
  assert.equal((await answer).status, 202);
  await Promise.all(work);
  assert.deepEqual([asked, [...disk.entries.keys()]], [1, ['k']]);
});

/**
 * A page's surroundings, for as long as fn takes.
 *
 * @param {any} given
 * @param {() => Promise<void>} fn
 */
async function within(given, fn) {
  const before = Object.fromEntries(Object.keys(given).map((name) => [name, Object.getOwnPropertyDescriptor(globalThis, name)]));
  for (const [name, value] of Object.entries(given)) Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
  try {
    await fn();
  } finally {
    for (const [name, was] of Object.entries(before)) {
      if (was) Object.defineProperty(globalThis, name, was);
      else delete (/** @type {any} */ (globalThis)[name]);
    }
  }
}

test('B160: a page without a worker sends by the same engine: with the token that the page gives, and a failure is told to the page', async () => {
  const idb = fakeIDB();
  /** @type {(string | null)[]} */
  const tokens = [];
  let online = false;
  const given = {
    indexedDB: idb,
    navigator: { locks: fakeLocks().for({ alive: true }) },
    location: { origin: 'https://app.test', href: 'https://app.test/today' },
    document: { visibilityState: 'visible' },
    addEventListener() {},
    fetch: async (/** @type {string} */ url, /** @type {any} */ init) => {
      if (url.endsWith('ping')) return reply(204, { 'Outbox-Status': 'pong' });
      if (!online) throw new TypeError('Failed to fetch');
      tokens.push(init.headers.get('X-CSRF-Token'));
      return init.headers.get('X-CSRF-Token') === 'good' ? reply(422, { 'Idempotency-Status': 'executed', 'Content-Type': 'text/plain' }, 'no such task') : reply(403);
    },
  };
  await within(given, async () => {
    /** @type {any[]} */
    const told = [];
    const page = startLocal({}, () => 'new', (m) => told.push(m));
    await page.outbox.greet({ owner: 'A', since: 1, headers: { 'X-CSRF-Token': 'good' } });
    const r = await page.fetchHere('https://app.test/tasks', { method: 'POST', headers: headers({ key: 'k1', owner: 'A', el: 'task-5' }), body: 'x' });
    assert.equal(r.status, 202);
    online = true;
    await page.outbox.flush(true);
    assert.deepEqual(tokens, ['good']);
    const event = told.flatMap((m) => m.events ?? []).find((e) => e.kind === 'refused');
    assert.deepEqual([event?.key, event?.el, event?.status, event?.text], ['k1', 'task-5', 422, 'no such task']);
    const [left] = (await page.outbox.state()).entries;
    assert.deepEqual([left.state, left.lastText], ['refused', 'no such task']);
  });
});

test('W25: a page that no worker controls keeps its requests itself, says that they wait, and sends them', async () => {
  const idb = fakeIDB();
  const locks = fakeLocks().for({ alive: true });
  /** @type {string[]} */
  const sent = [];
  let online = false;
  let location = '';
  let followed = '';
  const surroundings = {
    indexedDB: idb,
    navigator: { locks },
    location: { origin: 'https://app.test', href: 'https://app.test/today' },
    document: { visibilityState: 'visible' },
    addEventListener() {},
    fetch: async (/** @type {string} */ url, /** @type {any} */ init) => {
      if (!online) throw new TypeError('Failed to fetch');
      if (!init.method) return reply(200, {}, (followed = url));
      sent.push(`${init.headers.get('Idempotency-Key')} ${new TextDecoder().decode(init.body)}`);
      return reply(200, { 'Idempotency-Status': 'executed', ...(location && { 'Outbox-Location': location }) }, 'saved');
    },
  };
  await within(surroundings, async () => {
    /** @type {any[]} */
    const told = [];
    const page = startLocal({}, () => 'new', (m) => told.push(m));
    const tap = (/** @type {string} */ key, /** @type {string} */ body) =>
      page.fetchHere('https://app.test/tasks', { method: 'POST', headers: { ...headers({ key, owner: 'A' }), Accept: 'application/json' }, body });
    const r = await tap('k1', 'text=a');
    assert.deepEqual([r.status, r.headers.get('X-Outbox-Queued'), await r.json()], [202, '1', { outbox: 'queued', key: 'k1' }]);
    const heard = async (/** @type {(m: any) => boolean} */ like) => {
      for (let i = 0; i < 200 && !told.some(like); i++) await new Promise((ok) => setTimeout(ok, 10));
      assert.ok(told.some(like), JSON.stringify(told));
    };
    await heard((m) => m.pending === 1 && m.stored);
    assert.deepEqual(idb.entries(), ['k1']);
    online = true;
    told.length = 0;
    await page.outbox.flush(true);
    await heard((m) => m.pending === 0 && m.events?.some((/** @type {any} */ e) => e.kind === 'delivered' && e.key === 'k1'));
    assert.deepEqual([sent, idb.entries()], [['k1 text=a'], []]);
    assert.equal(await (await tap('k2', 'text=b')).text(), 'saved');
    // A page that gives its request up, for a time-out or another press, has sent it.
    const control = new AbortController();
    const given = page.fetchHere('https://app.test/tasks', { method: 'POST', headers: headers({ key: 'k4', owner: 'A' }), body: 'text=d', signal: control.signal });
    control.abort();
    assert.equal((await given).status, 200);
    await page.outbox.flush();
    assert.deepEqual([sent.at(-1), idb.entries()], ['k4 text=d', []]);
    // A redirect is followed, as a fetch would.
    location = '/there';
    await tap('k5', 'text=e');
    await page.outbox.flush();
    assert.equal(followed, 'https://app.test/there#outbox-');
    location = '';

    // Where nothing can be kept either, a failure is one, and is told.
    online = false;
    Object.assign(idb, { abort: 'QuotaExceededError', broken: true });
    const lost = await tap('k3', 'text=c');
    assert.deepEqual([lost.status, lost.headers.get('X-Outbox-Unsaved')], [507, '1']);
    await heard((m) => m.events?.some((/** @type {any} */ e) => e.kind === 'unsaved' && e.key === 'k3'));
  });
});
