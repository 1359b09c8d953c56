// @ts-check
// Cases of docs/cases.md, group G12, that no other test here shows: what is lost
// or corrupted on the way.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { test } from 'node:test';
import { headers } from './announce.js';
import { createOutbox } from './engine.js';
import { strip } from './kit-view.js';
import { memory, memoryStore } from './memory.store.js';
import { fakeLocks, reply, world } from './sim.js';
import { summary } from './summary.js';
import { speaker } from './texts.js';
import { words } from './words.ru.js';
import { attach } from './worker.js';

/** @param {any} w */
const bodies = (w) => w.server.effects.map((/** @type {any} */ e) => e.body);

/**
 * What the strip says to A, as the kit puts it together.
 *
 * @param {any} w
 */
function says(w) {
  const snapshot = summary(w.entries(), 'A', w.clock.now(), 8_000);
  const { say } = speaker('ru', words);
  return strip(snapshot, { now: w.clock.now(), queued: () => false, login: !!snapshot.login, soft: 8_000 })
    .map(({ name, n }) => say(name, n))
    .join(', ');
}

test('B131: whatever a captive portal answers, nothing counts as sent, and the strip says that it waits for the network', async () => {
  for (const portal of [
    () => reply(200, { 'Content-Type': 'text/html' }, '<form>log in to the cafe</form>'),
    () => reply(0, {}, '', { type: 'opaqueredirect' }), // a 302 to another site, which is not followed
    () => reply(511, { 'Content-Type': 'text/html' }, 'Network Authentication Required'),
    () => reply(201, { 'Idempotency-Key': 'k-1', 'X-Outbox-Queued': '1' }, 'an echo of our own words'),
  ]) {
    const w = world();
    const a = w.program();
    w.portal = true;
    w.watch = (_, init) => assert.equal(init.redirect, 'manual');
    const handle = w.server.handle;
    w.server.handle = async () => portal();
    const t = a.tap('done');
    await w.clock.go(10);
    assert.deepEqual([t.result.kind, w.entries().length], ['queued', 1]);
    assert.equal(says(w), 'Одно изменение ждёт сети');
    w.server.handle = handle;
    void a.outbox.flush(true);
    await w.clock.go(10);
    assert.deepEqual([bodies(w), w.entries(), says(w)], [['done'], [], '']);
  }
});

test('B145: "synchronise" without a network: nothing is called sent, and the strip says how many wait', async () => {
  const w = world();
  const a = w.program();
  w.net = 'refuse';
  a.tap('1');
  a.tap('2');
  await w.clock.go(10);
  w.told.length = 0;
  await a.outbox.flush(true);
  await w.clock.go(10);
  assert.ok(w.told.length > 0);
  for (const m of w.told) assert.deepEqual([m.pending, m.events.filter((/** @type {any} */ e) => e.kind === 'delivered')], [2, []]);
  assert.equal(says(w), '2 изменения ждут сети');
});

test('B139: two hundred photos without a network are two hundred records of their own; the next is told as not kept, and the line shrinks', async () => {
  const w = world();
  const a = w.program();
  w.net = 'refuse';
  const photos = Array.from({ length: 200 }, (_, i) => a.tap(`photo ${i} ${'x'.repeat(2_000)}`));
  await w.clock.go(10);
  assert.deepEqual([...new Set(photos.map((t) => t.result.kind))], ['queued']);
  assert.deepEqual([w.disk.entries.size, w.disk.bodies.size], [200, 200]);
  for (const e of w.entries()) assert.ok(JSON.stringify({ ...e, text: '' }).length < 2_000, 'the photo lies in the record of the line');
  const over = a.tap('one too many', { el: 'camera' });
  await w.clock.go(10);
  const [event] = w.told.at(-1).events;
  assert.deepEqual([over.result.kind, event.kind, event.el, w.disk.entries.size], ['unsaved', 'unsaved', 'camera', 200]);

  w.net = 'ok';
  for (let i = 0; i < 20; i++) {
    void a.outbox.flush(true);
    await w.clock.go(5_000);
  }
  assert.deepEqual(bodies(w), photos.map((t) => t.body));
  assert.deepEqual([w.disk.entries.size, w.disk.bodies.size], [0, 0]);
});

test('B139, B140: a store that takes nothing new any more still gives up what was delivered', async () => {
  const w = world();
  const disk = memory();
  const base = memoryStore(disk);
  let full = false;
  /** @type {any[]} */
  const told = [];
  const server = w.server;
  const outbox = createOutbox({
    store: {
      ...base,
      // What is there may be written anew and deleted; a new record has no room.
      change: (fn, opts) =>
        base.change((s) => {
          const c = fn(s);
          if (full && (c.bodies?.length || c.put?.some((e) => !disk.entries.has(e.key)))) throw new DOMException('full', 'QuotaExceededError');
          return c;
        }, opts),
    },
    fetch: (url, init) => (w.net === 'refuse' ? Promise.reject(new TypeError('Failed to fetch')) : server.handle(url, init)),
    locks: /** @type {any} */ (fakeLocks().for({ alive: true })),
    tell: (m) => told.push(m),
    now: w.clock.now,
    later: w.clock.later,
    never: w.clock.never,
  });
  const tap = (/** @type {string} */ key) => outbox.capture({ key, owner: 'A', method: 'POST', url: 'https://app.test/photos', headers: [], body: new TextEncoder().encode(key).buffer }).answer;
  w.net = 'refuse';
  for (const key of ['1', '2', '3']) void tap(key);
  await w.clock.go(10);
  full = true;
  const lost = tap('4');
  await w.clock.go(10);
  assert.equal((await lost).kind, 'unsaved');
  assert.ok(told.some((m) => m.events?.some((/** @type {any} */ e) => e.kind === 'unsaved' && e.key === '4')));
  assert.deepEqual([...disk.entries.keys()], ['1', '2', '3']);
  w.net = 'ok';
  void outbox.flush(true);
  await w.clock.go(10);
  assert.deepEqual([bodies(w), disk.entries.size, disk.bodies.size], [['1', '2', '3'], 0, 0]);
});

/**
 * A worker on a phone that says this about its network.
 *
 * @param {boolean} onLine
 * @param {any} more of its scope
 */
function workerThatIs(onLine, more) {
  /** @type {Record<string, (e: any) => void>} */
  const listeners = {};
  const disk = memory();
  const outbox = attach(
    {
      location: { href: 'https://app.test/outbox/sw.js', origin: 'https://app.test' },
      navigator: { locks: fakeLocks().for({ alive: true }), onLine },
      registration: {},
      clients: { matchAll: async () => [] },
      addEventListener: (/** @type {string} */ type, /** @type {(e: any) => void} */ fn) => (listeners[type] = fn),
      ...more,
    },
    { store: memoryStore(disk) },
  );
  /** @returns {Promise<Response>} */
  const tap = () => {
    /** @type {any} */
    let answer;
    listeners.fetch({
      request: { method: 'POST', mode: 'cors', url: 'https://app.test/tasks', referrer: '', headers: new Headers(headers({ key: 'k', owner: 'A' })), arrayBuffer: async () => new ArrayBuffer(1) },
      respondWith: (/** @type {any} */ p) => (answer = p),
      waitUntil: (/** @type {any} */ p) => p.catch(() => {}),
    });
    return answer;
  };
  return { disk, outbox, tap };
}

test('B158: onLine true without a network is no success; onLine false with one stops no try', async () => {
  let network = false;
  const net = { fetch: async () => (network ? reply(200, { 'Idempotency-Status': 'executed' }, 'saved') : Promise.reject(new TypeError('Failed to fetch'))) };
  const pretends = workerThatIs(true, net);
  assert.equal((await pretends.tap()).status, 202);
  assert.equal((await pretends.outbox.state()).pending, 1);

  network = true;
  const denies = workerThatIs(false, net);
  assert.equal(await (await denies.tap()).text(), 'saved');
  assert.equal(denies.disk.entries.size, 0);
});

test('B158: no script that ships asks the browser whether it is online', () => {
  const here = new URL('.', import.meta.url);
  const shipped = readdirSync(here).filter((f) => f.endsWith('.js') && !/\.test\.js$|^sim|\.store\.js$|\.contract\.js$/.test(f));
  assert.ok(shipped.length > 20, String(shipped));
  for (const f of shipped) assert.ok(!/onLine/.test(readFileSync(new URL(f, here), 'utf8')), f);
});

test('B155: the work was done and its answer may not be read, which a script sees as "no network": kept under its key, done once', async () => {
  const w = world();
  const a = w.program();
  // As fetch reports a 500 that lacks the headers for other origins. Ours are sent
  // to the page's own origin only, where no answer is kept from them.
  w.net = 'cut';
  w.watch = (_, init) => assert.equal(init.mode, 'same-origin');
  const t = a.tap('done');
  await w.clock.go(10);
  assert.deepEqual([t.result.kind, bodies(w), w.entries().map((e) => e.key)], ['queued', ['done'], [t.key]]);
  w.net = 'ok';
  void a.outbox.flush(true);
  await w.clock.go(10);
  assert.deepEqual([bodies(w), w.entries(), w.server.requests.map((r) => r.key)], [['done'], [], [t.key, t.key]]);
});
