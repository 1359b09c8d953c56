// @ts-check
// How long the line waits, and when a person is told that it is stuck.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { reply, world } from './sim.js';
import { nextKick } from './waits.js';

/** @param {any} w */
const bodies = (w) => w.server.effects.map((/** @type {any} */ e) => e.body);
/** @param {any} w */
const states = (w) => w.entries().map((/** @type {any} */ e) => `${e.key}:${e.state}`);

test('scenario 15, W17: after 8 answers of somebody else, and a pong beside the last, the person is told; nobody is let past', async () => {
  const w = world();
  const a = w.program();
  w.net = 'firewall';
  const t = a.tap('1');
  await w.clock.go(10);
  for (let i = 0; i < 6; i++) {
    void a.outbox.flush(true);
    await w.clock.go(100);
  }
  assert.deepEqual([w.entries()[0].odd, w.entries()[0].state], [7, 'waiting']);
  void a.outbox.flush(true);
  await w.clock.go(100);
  assert.deepEqual(states(w), [`${t.key}:stuck`]);
  const later = a.tap('2');
  await w.clock.go(100);
  assert.equal(later.result.kind, 'queued');
  w.net = 'ok';
  assert.equal(w.server.requests.length, 0);
  await a.decide.retry(t.key);
  void a.outbox.flush(true);
  await w.clock.go(100);
  assert.deepEqual(bodies(w), ['1', '2']);
});

test('B131: behind a captive portal nothing is called stuck: no pong comes', async () => {
  const w = world();
  const a = w.program();
  w.net = 'portal';
  w.portal = true;
  a.tap('1');
  for (let i = 0; i < 20; i++) {
    void a.outbox.flush(true);
    await w.clock.go(100);
  }
  assert.deepEqual([w.entries()[0].odd > 8, w.entries()[0].state], [true, 'waiting']);
});

for (const { how, net, portal, says } of [
  { how: 'where somebody else answers and our server too, the developer is told, once', net: 'firewall', portal: false, says: 1 },
  { how: 'a captive portal is no fault of the developer’s', net: 'portal', portal: true, says: 0 },
  { how: 'nor is a deploy', net: '502', portal: false, says: 0 },
]) {
  test(`a forgotten Edge: ${how}`, async () => {
    const w = world();
    const a = w.program();
    w.net = net;
    w.portal = portal;
    /** @type {string[]} */
    const said = [];
    const error = console.error;
    console.error = (x) => said.push(x);
    a.tap('1');
    a.tap('2');
    for (let i = 0; i < 5; i++) {
      void a.outbox.flush(true);
      await w.clock.go(10_000);
    }
    console.error = error;
    assert.equal(said.length, says, said.join());
    if (says) assert.match(said[0], /^outbox: POST \S+ got 403 without a word of the guard, and waits: is outbox\.Edge outermost/);
    assert.equal(w.entries().length, 2);
  });
}

test('a deploy never counts as stuck, however long it takes', async () => {
  const w = world();
  const a = w.program();
  w.net = '502';
  a.tap('1');
  for (let i = 0; i < 50; i++) {
    void a.outbox.flush(true);
    await w.clock.go(10_000);
  }
  assert.deepEqual([w.entries()[0].odd, w.entries()[0].state], [0, 'waiting']);
});

test('W17: a handler that fails for ever is told of, and is tried on', async () => {
  const w = world();
  const a = w.program();
  w.net = '500';
  a.tap('1');
  for (let i = 0; i < 8; i++) {
    void a.outbox.flush(true);
    await w.clock.go(10_000);
  }
  assert.equal(w.entries()[0].state, 'stuck');
  w.net = 'ok';
  void a.outbox.flush(true);
  await w.clock.go(10);
  assert.deepEqual([bodies(w), w.entries()], [['1'], []]);
});

test('B154, R22: back-off with full jitter up to 60 s before a person, 15 min without, however often it is kicked', async () => {
  for (const [visible, least] of /** @type {[boolean, number][]} */ ([[true, 20], [false, 6]])) {
    const w = world({ seed: 7 });
    const a = w.program();
    w.visible = visible;
    w.net = '502';
    let tries = 0;
    w.net = () => (tries++, '502');
    a.tap('1');
    const gaps = [];
    for (let s = 0; s < 3_600; s++) {
      void a.outbox.flush();
      await w.clock.go(1_000);
      gaps.push(w.entries()[0].nextAt - w.clock.now());
    }
    assert.ok(tries >= least && tries < 200, `${tries} tries in an hour`);
    assert.ok(Math.max(...gaps) <= (visible ? 60_000 : 900_000));
    assert.ok(Math.max(...gaps) > (visible ? 30_000 : 300_000), 'it does not grow as far');
  }
});

test('scenario 24: Retry-After is kept, in spite of taps and kicks; up to ten minutes', async () => {
  const w = world();
  const a = w.program();
  const times = /** @type {number[]} */ ([]);
  let n = 0;
  w.net = () => {
    times.push(w.clock.now());
    return ['503', '429', 'ok', 'ok'][n++];
  };
  a.tap('1');
  await w.clock.go(500);
  a.tap('2');
  for (let i = 0; i < 100; i++) {
    void a.outbox.flush(true);
    await w.clock.go(100);
  }
  assert.ok(times[1] - times[0] >= 3_000, `${times[1] - times[0]}`);
  assert.ok(times[2] - times[1] >= 5_000, `${times[2] - times[1]}`);
  assert.deepEqual(bodies(w), ['1', '2']);
});

test('a tap ends the back-off; a kick does not', async () => {
  const w = world();
  const a = w.program();
  let tries = 0;
  w.net = () => (tries++, 'refuse');
  a.tap('1');
  await w.clock.go(0);
  w.disk.entries.get('k-1').nextAt = w.clock.now() + 50_000;
  void a.outbox.flush();
  await w.clock.go(0);
  assert.equal(tries, 1);
  a.tap('2');
  await w.clock.go(0);
  assert.equal(tries, 2);
  // And begins it anew: the pause after it is the first again.
  for (let i = 3; i < 8; i++) {
    w.disk.entries.get('k-1').tries = 9;
    a.tap(String(i));
    await w.clock.go(0);
    assert.ok(w.entries()[0].nextAt - w.clock.now() <= 1_000, `${w.entries()[0].nextAt - w.clock.now()} ms`);
  }
});

test('what a tap asked for is not forgotten for the kick that follows it before its turn', async () => {
  const w = world();
  const a = w.program();
  w.net = 'refuse';
  a.tap('1');
  await w.clock.go(0);
  w.disk.entries.get('k-1').nextAt = w.clock.now() + 50_000;
  w.net = 'ok';
  void w.locks.for(w.program()).request('outbox', {}, () => new Promise((ok) => w.clock.later(() => ok(0), 1_000)));
  void a.outbox.flush(true);
  void a.outbox.flush();
  await w.clock.go(1_000);
  assert.deepEqual(bodies(w), ['1']);
});

test('who presses "send" does not wait for what Retry-After asked of the line', async () => {
  const w = world();
  const a = w.program();
  w.net = '503';
  const t = a.tap('1');
  await w.clock.go(0);
  w.net = 'ok';
  void a.outbox.flush(true);
  await w.clock.go(0);
  assert.deepEqual(bodies(w), []);
  assert.equal(await a.decide.retry(t.key), 'waiting');
  void a.outbox.flush(true);
  await w.clock.go(0);
  assert.deepEqual([bodies(w), w.entries()], [['1'], []]);
});

test('4.6: while anything of the person is unsent, a page that is seen kicks at nextAt and at least every 5 s; also when nobody answered its last kick', () => {
  const entry = (/** @type {any} */ more) => ({ owner: 'A', state: /** @type {const} */ ('waiting'), nextAt: 1_000, ...more });
  for (const [entries, at, asked, ms] of /** @type {[any[], number, boolean, number | null][]} */ ([
    [[], 0, false, null],
    [[], 0, true, 5_000],
    [[entry({ owner: 'B' })], 0, false, null],
    [[entry({ state: 'refused' }), entry({ state: 'ask' })], 0, false, null],
    [[entry({})], 0, false, 1_010],
    [[entry({})], 0, true, 1_010],
    [[entry({ nextAt: 60_000 })], 0, false, 5_000],
    [[entry({ state: 'sending' })], 2_000, false, 5_000],
    [[entry({ state: 'login' })], 2_000, false, 5_000],
    [[entry({ state: 'parked' })], 2_000, false, 5_000],
    [[entry({ state: 'stuck' })], 2_000, false, 1_000],
    [[entry({})], 2_000, false, 1_000],
    [[entry({ nextAt: 60_000 }), entry({})], 0, false, 5_000],
  ])) {
    assert.equal(nextKick(entries, 'A', at, 5_000, asked), ms, JSON.stringify([entries, at, asked]));
  }
});

test('4.6: an acknowledged answer ends the back-off of those behind it', async () => {
  const w = world();
  const a = w.program();
  w.net = 'refuse';
  a.tap('1');
  a.tap('2');
  await w.clock.go(0);
  // As one that was the head before: a person had the first sent again.
  Object.assign(w.disk.entries.get('k-2'), { tries: 6, nextAt: w.clock.now() + 50_000 });
  w.net = 'ok';
  await w.clock.go(2_000); // the first one's own is over
  void a.outbox.flush();
  await w.clock.go(0);
  assert.deepEqual(bodies(w), ['1', '2']);
});

test('an answer that nobody can tell the meaning of is told to its page at once, however long the next one takes', async () => {
  const w = world();
  const a = w.program();
  const handle = w.server.handle;
  w.server.handle = async (u, i, h) => (i.headers.get('Idempotency-Key') === 'k' ? reply(409, { 'Idempotency-Status': 'outcome-unknown' }) : handle(u, i, { ...h, ms: 7_000 }));
  w.net = 'late';
  const t = a.tap('1', { key: 'k' });
  a.tap('2');
  await w.clock.go(2_000);
  assert.equal(t.result?.kind, 'queued');
  await w.clock.go(20_000);
  assert.deepEqual(bodies(w), ['2']);
});

test('a deploy that our own server tells of, with 503, never counts as stuck either', async () => {
  for (const token of ['unavailable', 'released']) {
    const w = world();
    const a = w.program();
    w.server.handle = async () => reply(503, { 'Idempotency-Status': token });
    a.tap('1');
    for (let i = 0; i < 20; i++) {
      void a.outbox.flush(true);
      await w.clock.go(61_000);
    }
    assert.deepEqual(states(w), ['k-1:waiting'], token);
  }
});

test('W6: the hard limit is the first again after an answer, whatever it said', async () => {
  const w = world();
  const a = w.program();
  const hangs = async () => {
    const from = w.clock.now();
    void a.outbox.flush(true);
    do await w.clock.go(1_000);
    while (w.entries()[0].state === 'sending');
    return w.clock.now() - from;
  };
  w.net = 'blackhole';
  a.tap('1');
  assert.deepEqual([await hangs(), await hangs()], [25_000, 50_000]);
  w.net = '502';
  void a.outbox.flush(true);
  await w.clock.go(0);
  w.net = 'blackhole';
  assert.equal(await hangs(), 25_000);
});

test('4.5, I7: a body that cannot be read holds up the next tap for no longer than half the soft limit, and comes behind it when it is there', async () => {
  const w = world();
  const a = w.program();
  await a.outbox.greet({ owner: 'A', since: w.clock.now() });
  /** @type {any} */
  let read;
  const slow = a.tap('', { body: new Promise((ok) => (read = ok)) });
  const next = a.tap('2');
  const third = a.tap('3');
  await w.clock.go(3_900);
  assert.deepEqual([bodies(w), next.result], [[], null], 'they wait for their place');
  await w.clock.go(300);
  assert.deepEqual([bodies(w), next.result?.kind, third.result?.kind], [['2', '3'], 'answer', 'answer']);
  read(new TextEncoder().encode('1').buffer);
  await w.clock.go(300);
  assert.deepEqual([bodies(w), slow.result?.kind], [['2', '3', '1'], 'answer']);
});
