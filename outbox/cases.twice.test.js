// @ts-check
// Cases of docs/cases.md, groups G6, G13 and G15, that no other test here shows:
// twice, out of order, as the wrong person.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createAsker } from './ask.js';
import { createIntents } from './intent.js';
import { memory, memoryStore } from './memory.store.js';
import { fakeLocks, reply, world } from './sim.js';
import { headers } from './announce.js';
import { attach } from './worker.js';

/** @param {any} w */
const bodies = (w) => w.server.effects.map((/** @type {any} */ e) => e.body);

test('B148: twenty entries of one browser, and three tabs that all begin to send when the network is back: each once, in order', async () => {
  const w = world();
  const worker = w.program();
  w.net = 'refuse';
  const twenty = Array.from({ length: 20 }, (_, i) => String(i));
  for (const n of twenty) worker.tap(n);
  await w.clock.go(1_000);
  w.net = 'late';
  const tabs = [w.program(), w.program(), w.program()];
  for (let i = 0; i < 40; i++) {
    for (const tab of tabs) void tab.outbox.flush(i === 0);
    await w.clock.go(1_000);
  }
  assert.deepEqual(bodies(w), twenty);
  assert.deepEqual([w.entries(), w.server.requests.length, w.mostInFlight], [[], 20, 1]);
});

test('B151: A is held back for a login; B, tapped on the same row, waits behind it, and the end is B', async () => {
  const w = world();
  const a = w.program();
  await a.outbox.greet({ owner: 'A', since: w.clock.now() });
  w.server.session = '';
  a.tap('state=A', { el: 'row' });
  await w.clock.go(10);
  // The session is there again, and no page has said so yet.
  w.server.session = 'A';
  const b = a.tap('state=B', { el: 'row' });
  await w.clock.go(10);
  assert.deepEqual([b.result.kind, bodies(w)], ['queued', []]);
  await a.outbox.greet({ owner: 'A', since: w.clock.now() + 1 });
  void a.outbox.flush(true);
  await w.clock.go(10);
  assert.deepEqual(bodies(w), ['state=A', 'state=B']);
});

test('B154: a server that answers 500 for five minutes is asked less and less often, and at most ten times in any minute', async () => {
  const w = world({ seed: 3 });
  const a = w.program();
  const tries = /** @type {number[]} */ ([]);
  w.net = () => {
    tries.push(w.clock.now());
    return '500';
  };
  a.tap('1');
  for (let s = 0; s < 300; s++) {
    void a.outbox.flush(); // a page kicks every few seconds; here every second
    await w.clock.go(1_000);
  }
  const most = Math.max(...tries.map((from) => tries.filter((t) => t >= from && t < from + 60_000).length));
  const last = tries.filter((t) => t >= w.clock.now() - 120_000).length;
  assert.ok(most <= 10, `${most} tries in one minute`);
  assert.ok(tries.length >= 5 && last <= 8, `${tries.length} tries, ${last} of them in the last two minutes`);
});

test('B154, B146: a sync event that fires at once, as Chromium\'s does with the network up, is one more try and no loop', async () => {
  /** @type {Record<string, (e: any) => void>} */
  const listeners = {};
  const disk = memory();
  let sent = 0;
  let failed = 0;
  const register = async (/** @type {string} */ tag) => {
    setTimeout(() =>
      listeners.sync({
        tag,
        waitUntil: (/** @type {Promise<any>} */ p) => p.catch(() => failed++), // then it backs off for minutes
      }),
    );
  };
  attach(
    {
      location: { href: 'https://app.test/outbox/sw.js', origin: 'https://app.test' },
      navigator: { locks: fakeLocks().for({ alive: true }) },
      registration: { sync: { register } },
      clients: { matchAll: async () => [] },
      fetch: async () => (sent++, reply(502)),
      addEventListener: (/** @type {string} */ type, /** @type {(e: any) => void} */ fn) => (listeners[type] = fn),
    },
    { store: memoryStore(disk) },
  );
  listeners.fetch({
    request: { method: 'POST', mode: 'cors', url: 'https://app.test/tasks', referrer: '', headers: new Headers(headers({ key: 'k', owner: 'A' })), arrayBuffer: async () => new ArrayBuffer(1) },
    respondWith() {},
    waitUntil() {},
  });
  await new Promise((ok) => setTimeout(ok, 200));
  assert.deepEqual([sent, failed, disk.entries.size], [2, 1, 1]);
});

test('B160: headers that a page gives go with every send, the first too', async () => {
  const w = world();
  const a = w.program();
  await a.outbox.greet({ owner: 'A', since: w.clock.now(), headers: { 'X-CSRF-Token': 'of this page' } });
  a.tap('at once');
  await w.clock.go(10);
  w.net = 'refuse';
  a.tap('later');
  await w.clock.go(10);
  w.net = 'ok';
  void a.outbox.flush(true);
  await w.clock.go(10);
  assert.deepEqual(w.server.requests.map((r) => [r.body, r.headers.get('x-csrf-token')]), [['at once', 'of this page'], ['later', 'of this page']]);
});

/** As much of an element as ask.js looks at. */
const button = /** @type {any} */ ({ closest: () => null, getAttribute: () => null, matches: () => false, textContent: 'Done' });

/**
 * A page's requests, as ask.js names them.
 *
 * @param {string} owner of the page; '': nobody is signed in
 */
function pageOf(owner) {
  let n = 0;
  const intents = createIntents({ newKey: () => `${owner}-${Math.random()}-${++n}`, keyField: '_key' });
  const asker = createAsker({ owner, cfg: { maxBody: 1 << 20, keyField: '_key' }, intents });
  return (/** @type {string} */ text) => {
    const data = new FormData();
    data.set('_key', 'as the server printed it');
    data.set('text', text);
    const given = { document: { baseURI: 'https://app.test/today' }, location: { origin: 'https://app.test' } };
    Object.assign(globalThis, given);
    try {
      return asker.ask({ el: button, form: null, method: 'POST', url: '/tasks', data, multipart: false });
    } finally {
      for (const name of Object.keys(given)) delete (/** @type {any} */ (globalThis)[name]);
    }
  };
}

test('B164: where nobody is signed in nothing is announced, so nothing is kept for whoever signs in next', () => {
  const signedOut = pageOf('')('text');
  assert.ok(signedOut?.key, 'it still has a name, which the form carries');
  assert.equal(signedOut?.announce, false);
  assert.equal(pageOf('A')('text')?.announce, true);
});

test('B073: a tab that was duplicated, hidden field and all, has names of its own', () => {
  const [first, second] = [pageOf('A'), pageOf('A')];
  const [a, b] = [first('A'), second('B')];
  assert.ok(a?.key && b?.key);
  assert.notEqual(a?.key, b?.key);
});
