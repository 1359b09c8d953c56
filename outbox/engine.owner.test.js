// @ts-check
// Whose line it is: sessions that end, people who change, clocks that are set.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { world } from './sim.js';

/** @param {any} w */
const bodies = (w) => w.server.effects.map((/** @type {any} */ e) => e.body);
/** @param {any} w */
const states = (w) => w.entries().map((/** @type {any} */ e) => `${e.key}:${e.state}`);

test('scenario 12, W3, R25: the session is over: the line waits for a login, which is told by a page loaded after it', async () => {
  const w = world();
  const a = w.program();
  await a.outbox.greet({ owner: 'A', since: w.clock.now() });
  w.server.session = '';
  const t1 = a.tap('1');
  await w.clock.go(10);
  const t2 = a.tap('2');
  await w.clock.go(10);
  assert.deepEqual([t1.result.kind, t2.result.kind], ['queued', 'queued']);
  assert.deepEqual(states(w), [`${t1.key}:login`, `${t2.key}:waiting`]);
  const n = w.server.requests.length;
  const old = w.clock.now() - 60_000;
  for (let i = 0; i < 20; i++) {
    void a.outbox.flush(true);
    await a.outbox.greet({ owner: 'A', since: old });
    await w.clock.go(5_000);
  }
  assert.equal(w.server.requests.length, n, 'an old page cannot end the wait');
  await a.outbox.forget();
  w.server.session = 'A';
  await a.outbox.greet({ owner: 'A', since: w.clock.now() + 1 });
  void a.outbox.flush(true);
  await w.clock.go(100);
  assert.deepEqual([bodies(w), w.entries()], [['1', '2'], []]);
});

test('W11, R24, B161, scenario 13: A\'s entries are not sent as B; A sends them at the next login', async () => {
  const w = world();
  const a = w.program();
  await a.outbox.greet({ owner: 'A', since: w.clock.now() });
  w.net = 'refuse';
  a.tap('1');
  a.tap('2');
  await w.clock.go(1_000);
  w.net = 'ok';
  await a.outbox.forget();
  w.server.session = 'B';
  void a.outbox.flush(true);
  await w.clock.go(1_000);
  await a.outbox.greet({ owner: 'B', since: w.clock.now() });
  void a.outbox.flush(true);
  await w.clock.go(1_000);
  assert.equal(w.server.requests.length, 0);
  const t = a.tap('B\'s', { owner: 'B' });
  await w.clock.go(1_000);
  assert.equal(t.result.kind, 'answer', 'A\'s line does not hold up B\'s');
  w.server.session = 'A';
  await a.outbox.forget();
  await w.clock.go(1_000);
  await a.outbox.greet({ owner: 'A', since: w.clock.now() });
  void a.outbox.flush(true);
  await w.clock.go(1_000);
  assert.deepEqual(bodies(w), ['B\'s', '1', '2']);
  for (const e of w.server.effects) assert.equal(e.owner, e.session);
});

test('B163, scenario 14: a flush stops when the person changes in its middle; the server refuses what was on its way', async () => {
  const w = world();
  const a = w.program();
  await a.outbox.greet({ owner: 'A', since: w.clock.now() });
  w.net = 'refuse';
  for (let i = 1; i <= 5; i++) a.tap(String(i));
  await w.clock.go(10);
  let n = 0;
  w.net = () => {
    if (++n === 3) w.server.session = 'B'; // in another tab, unseen by any worker
    return 'ok';
  };
  void a.outbox.flush(true);
  await w.clock.go(10);
  assert.deepEqual(bodies(w), ['1', '2']);
  assert.equal(w.server.requests.length, 3);
  assert.equal(w.entries()[0].state, 'parked');
  assert.equal(w.disk.meta.owner, 'B');
  const old = w.clock.now() - 1_000;
  for (let i = 0; i < 5; i++) {
    await a.outbox.greet({ owner: 'A', since: old });
    void a.outbox.flush(true);
    await w.clock.go(5_000);
  }
  assert.equal(w.server.requests.length, 3, 'the old page of A cannot undo it');
  w.server.session = 'A';
  await a.outbox.greet({ owner: 'A', since: w.clock.now() });
  void a.outbox.flush(true);
  await w.clock.go(10);
  assert.deepEqual(bodies(w), ['1', '2', '3', '4', '5']);
});

test('R25: a page that was loaded before the session ended does not end the wait for a login, though it speaks for the first time', async () => {
  const w = world();
  const a = w.program();
  await a.outbox.greet({ owner: 'A', since: w.clock.now() });
  await w.clock.go(1_000);
  const loaded = w.clock.now();
  await w.clock.go(1_000);
  w.server.session = '';
  const t = a.tap('1');
  await w.clock.go(10);
  await a.outbox.greet({ owner: 'A', since: loaded });
  void a.outbox.flush(true);
  await w.clock.go(10);
  assert.deepEqual([states(w), w.server.requests.length], [[`${t.key}:login`], 1]);
});

test('R25: "log in" that comes after the login does not hold the line: it answers a request of before', async () => {
  for (const session of ['', 'B']) {
    const w = world();
    const a = w.program();
    await a.outbox.greet({ owner: 'A', since: w.clock.now() });
    w.server.session = session;
    const handle = w.server.handle;
    w.server.handle = (u, i) => handle(u, i, { session });
    w.net = 'late';
    w.server.handle = ((before) => async (u, i) => (w.server.requests.length ? handle(u, i) : before(u, i)))(w.server.handle);
    a.tap('1');
    await w.clock.go(500);
    w.server.session = 'A';
    await a.outbox.greet({ owner: 'A', since: w.clock.now() });
    await w.clock.go(5_000);
    assert.deepEqual([bodies(w), w.entries(), w.server.requests.length], [['1'], [], 2], session);
  }
});

test('an old page of A, however often it speaks, does not make A the one who is signed in', async () => {
  const w = world();
  const a = w.program();
  const old = w.clock.now();
  await a.outbox.greet({ owner: 'A', since: old });
  w.net = 'refuse';
  a.tap('1');
  await w.clock.go(10);
  w.net = 'ok';
  w.server.session = 'B';
  await a.outbox.greet({ owner: 'B', since: w.clock.now() });
  for (let i = 0; i < 3; i++) {
    await a.outbox.greet({ owner: 'A', since: old });
    void a.outbox.flush(true);
    await w.clock.go(5_000);
  }
  assert.deepEqual([w.server.requests.length, w.disk.meta.owner], [0, 'B']);
});

test('a login stops the flush at once, even if the store cannot take note of it', async () => {
  const w = world();
  const a = w.program();
  const before = w.clock.now();
  await a.outbox.greet({ owner: 'A', since: before });
  w.net = 'refuse';
  a.tap('1');
  a.tap('2');
  await w.clock.go(10);
  w.net = 'slow';
  void a.outbox.flush(true);
  await w.clock.go(1_000);
  w.breakStore = () => {
    throw new Error('no');
  };
  await assert.rejects(a.outbox.forget());
  w.breakStore = null;
  await a.outbox.greet({ owner: 'A', since: before }); // the page that was there before
  await w.clock.go(60_000);
  void a.outbox.flush(true);
  await w.clock.go(60_000);
  assert.deepEqual(bodies(w), ['1']);

  // Nor does a tap go out, with nothing before it.
  const u = world();
  const b = u.program();
  u.breakStore = () => {
    throw new Error('no');
  };
  await assert.rejects(b.outbox.forget());
  u.breakStore = null;
  const t = b.tap('1');
  await u.clock.go(0);
  assert.deepEqual([t.result.kind, u.server.requests, u.entries().length], ['queued', [], 1]);
});

test('a login that led nowhere does not stop the line for ever', async () => {
  const w = world();
  const a = w.program();
  const old = w.clock.now();
  await a.outbox.greet({ owner: 'A', since: old });
  await w.clock.go(10);
  await a.outbox.forget();
  const t = a.tap('1');
  for (let i = 0; i < 14; i++) {
    await w.clock.go(5_000);
    await a.outbox.greet({ owner: 'A', since: old });
    void a.outbox.flush();
    if (i === 10) assert.deepEqual([t.result.kind, w.server.requests.length], ['queued', 0]);
  }
  await w.clock.go(10);
  assert.deepEqual(bodies(w), ['1']);
});

test('an intent that comes again keeps its place in the line', async () => {
  const w = world();
  const a = w.program();
  w.net = 'refuse';
  for (const k of ['1', '2', '1']) {
    a.tap(k, { key: k });
    await w.clock.go(10);
  }
  w.net = 'ok';
  void a.outbox.flush(true);
  await w.clock.go(10);
  assert.deepEqual(bodies(w), ['1', '2']);
});

test('a tap on a page of A while B is signed in is kept for A and not sent', async () => {
  const w = world();
  const a = w.program();
  await a.outbox.greet({ owner: 'B', since: w.clock.now() });
  w.server.session = 'B';
  const t = a.tap('A\'s');
  await w.clock.go(10);
  assert.equal(t.result.kind, 'queued');
  assert.deepEqual([states(w), w.server.requests.length], [[`${t.key}:parked`], 0]);
});

test('a clock that was set back does not leave the outbox without an owner', async () => {
  const w = world();
  const a = w.program();
  await a.outbox.greet({ owner: 'A', since: w.clock.now() });
  await w.clock.go(1_000);
  await a.outbox.forget();
  w.clock.set(-3 * 86_400_000);
  await a.outbox.greet({ owner: 'A', since: w.clock.now() });
  const t = a.tap('x');
  await w.clock.go(10);
  assert.equal(t.result.kind, 'answer');
});

test('B163: after a clock was set back, by little too, the page of now is believed, and not the one of before', async () => {
  for (const back of [-30_000, -3 * 86_400_000]) {
    const w = world();
    const a = w.program();
    const old = w.clock.now();
    await a.outbox.greet({ owner: 'A', since: old });
    w.clock.set(back);
    w.server.session = 'B';
    await w.clock.go(5_000);
    const page = { owner: 'B', since: w.clock.now() };
    await a.outbox.greet(page);
    const t = a.tap('B\'s', { owner: 'B' });
    await w.clock.go(10);
    assert.equal(t.result.kind, 'answer', String(back));
    await a.outbox.greet({ owner: 'A', since: old });
    assert.equal(w.disk.meta.owner, 'B', String(back));
  }
});

test('a log-out takes what a page gave for every send, a token against forged requests say, off the device', async () => {
  const w = world();
  const a = w.program();
  await a.outbox.greet({ owner: 'A', since: w.clock.now(), headers: { 'X-CSRF-Token': 'secret' } });
  assert.match(JSON.stringify(w.disk.meta), /secret/);
  await a.outbox.forget();
  assert.doesNotMatch(JSON.stringify(w.disk.meta), /secret/);
});
