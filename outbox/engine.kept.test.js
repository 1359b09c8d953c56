// @ts-check
// What is kept, and for how long: ages and clocks, programs that end in the
// middle, stores that fail, and what the person decides.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { reply, world } from './sim.js';

/** @param {any} w */
const bodies = (w) => w.server.effects.map((/** @type {any} */ e) => e.body);
/** @param {any} w */
const states = (w) => w.entries().map((/** @type {any} */ e) => `${e.key}:${e.state}`);

test('W18, R39, scenario 17, B076: sent once and older than the retention: the person is asked, never a silent second time', async () => {
  const w = world();
  const a = w.program();
  w.net = 'cut';
  const t = a.tap('_key=k-1&text=x');
  await w.clock.go(0);
  w.net = 'ok';
  await w.clock.go(86_400_001);
  void a.outbox.flush(true);
  await w.clock.go(0);
  const [e] = w.entries();
  assert.deepEqual([e.state, e.reason, w.server.requests.length], ['ask', 'expired', 1]);
  assert.equal(await a.decide.look(t.key), 'ask');
  assert.equal(await a.decide.resend(t.key), 'waiting');
  void a.outbox.flush(true);
  await w.clock.go(0);
  assert.deepEqual([w.server.requests[1].key, w.server.requests[1].body, w.server.requests[1].age], ['new-2', '_key=new-2&text=x', null]);
  assert.deepEqual(w.entries(), []);
});

test('a guard that never forgets: however late, it is sent under its name, and nobody is asked', async () => {
  const w = world({ config: { retention: -1 } });
  const a = w.program();
  w.net = 'cut';
  const t = a.tap('1');
  await w.clock.go(400 * 86_400_000);
  w.net = 'ok';
  void a.outbox.flush(true);
  await w.clock.go(0);
  assert.deepEqual([bodies(w), w.entries(), w.server.requests.map((r) => r.key)], [['1'], [], [t.key, t.key]]);
});

test('scenario 17: "retry" of what may have been done takes a new name: under the old one it would seem to be the first time again', async () => {
  const w = world();
  const a = w.program();
  w.net = 'cut';
  const t = a.tap('1');
  await w.clock.go(86_400_001);
  void a.outbox.flush(true);
  await w.clock.go(0);
  assert.deepEqual(states(w), [`${t.key}:ask`]);
  w.net = 'ok';
  assert.equal(await a.decide.retry(t.key), 'waiting');
  void a.outbox.flush(true);
  await w.clock.go(0);
  assert.deepEqual([w.server.requests.map((r) => [r.key, r.attempt, r.age]), w.entries()], [[[t.key, '1', null], ['new-2', '1', null]], []]);
});

test('scenario 18: never sent and older than the retention: sent; older than maxAge: asked', async () => {
  const w = world({ config: { maxAge: 2 * 86_400_000 } });
  const a = w.program();
  await a.outbox.greet({ owner: 'A', since: w.clock.now() });
  await a.outbox.forget();
  a.tap('1');
  await w.clock.go(86_400_000 + 3_600_000);
  assert.equal(w.server.requests.length, 0);
  await a.outbox.greet({ owner: 'A', since: w.clock.now() });
  void a.outbox.flush(true);
  await w.clock.go(0);
  assert.deepEqual(bodies(w), ['1']);
  await w.clock.go(1);
  await a.outbox.forget();
  const t = a.tap('2');
  await w.clock.go(2 * 86_400_000 + 1);
  await a.outbox.greet({ owner: 'A', since: w.clock.now() });
  void a.outbox.flush(true);
  await w.clock.go(0);
  assert.deepEqual([w.entries()[0].state, w.entries()[0].reason], ['ask', 'old']);
  await a.decide.retry(t.key);
  void a.outbox.flush(true);
  await w.clock.go(0);
  assert.deepEqual(bodies(w), ['1', '2']);
  assert.equal(w.server.requests.at(-1)?.key, t.key, 'never sent: its own name will do');
});

test('scenario 32: a clock set forward or back never runs a sent one again by itself', async () => {
  for (const jump of [3 * 86_400_000, -3 * 86_400_000]) {
    const w = world();
    const a = w.program();
    w.net = 'cut';
    a.tap('1');
    await w.clock.go(0);
    w.net = 'ok';
    w.clock.set(jump);
    await w.clock.go(1_000);
    void a.outbox.flush(true);
    await w.clock.go(0);
    assert.deepEqual([bodies(w).length, w.entries()[0]?.state], [1, 'ask'], String(jump));
  }
});

test('scenario 32: a login is known as one by a clock that was set back since', async () => {
  const w = world();
  const a = w.program();
  await a.outbox.greet({ owner: 'A', since: w.clock.now() });
  w.server.session = '';
  a.tap('1');
  await w.clock.go(10);
  assert.equal(w.entries()[0].state, 'login');
  w.clock.set(-3 * 86_400_000);
  w.disk.entries.get('k-1').firstSentAt = w.clock.now();
  w.server.session = 'A';
  await a.outbox.greet({ owner: 'A', since: w.clock.now() });
  void a.outbox.flush(true);
  await w.clock.go(10);
  assert.deepEqual([bodies(w), w.entries()], [['1'], []]);
});

test('a small correction of the clock asks nobody', async () => {
  const w = world();
  const a = w.program();
  w.net = 'cut';
  a.tap('1');
  await w.clock.go(0);
  w.net = 'ok';
  w.clock.set(-30_000);
  void a.outbox.flush(true);
  await w.clock.go(0);
  assert.deepEqual([w.entries(), w.server.requests[1].age], [[], '0']);
});

test('a back-off does not outlive a clock that was set back', async () => {
  const w = world();
  const a = w.program();
  await a.outbox.greet({ owner: 'A', since: w.clock.now() });
  w.net = 'refuse';
  a.tap('1');
  await w.clock.go(0);
  w.disk.entries.get('k-1').firstSentAt = null;
  w.disk.entries.get('k-1').nextAt = w.clock.now() + 900_000;
  w.clock.set(-3 * 86_400_000);
  w.net = 'ok';
  void a.outbox.flush();
  await w.clock.go(0);
  assert.deepEqual(bodies(w), ['1']);
});

test('a client\'s age goes along with every send but the first', async () => {
  const w = world();
  const a = w.program();
  w.net = 'cut';
  a.tap('1');
  await w.clock.go(90_500);
  w.net = 'ok';
  void a.outbox.flush(true);
  await w.clock.go(0);
  assert.deepEqual(w.server.requests.map((r) => [r.attempt, r.age]), [['1', null], ['2', '90']]);
});

test('B143, W8, R20, scenario 11: ended in mid-send; another program finds the orphan and sends it at once', async () => {
  const w = world();
  const a = w.program();
  w.net = 'blackhole';
  const t = a.tap('1');
  await w.clock.go(3_000);
  a.end();
  w.net = 'ok';
  assert.deepEqual(states(w), [`${t.key}:sending`]);
  const b = w.program();
  void b.outbox.flush();
  await w.clock.go(0);
  assert.deepEqual([bodies(w), w.entries()], [['1'], []]);
});

test('scenario 8: the browser gives the same request to the next worker: one entry, one effect, one answer', async () => {
  const w = world();
  const a = w.program();
  w.net = 'lost';
  a.tap('1', { key: 'k' });
  await w.clock.go(100);
  a.end();
  w.net = 'ok';
  const t = w.program().tap('1', { key: 'k' });
  await w.clock.go(0);
  assert.equal(t.result.kind, 'answer');
  assert.deepEqual([bodies(w), w.entries(), w.server.requests.map((r) => r.attempt)], [['1'], [], ['1', '2']]);
});

test('B071, R19: the same intent again while it is under way joins it; both are answered', async () => {
  const w = world();
  const a = w.program();
  w.net = 'slow';
  const t1 = a.tap('1', { key: 'k' });
  await w.clock.go(600);
  const t2 = a.tap('1', { key: 'k' });
  await w.clock.go(6_000);
  assert.deepEqual([t1.result.kind, t2.result.kind, w.server.requests.length], ['answer', 'answer', 1]);
});

test('I2: a key that comes with another body is not stored over the first; the server says what it is', async () => {
  const w = world();
  const a = w.program();
  w.net = 'cut';
  a.tap('1', { key: 'k' });
  await w.clock.go(0);
  w.net = 'ok';
  const t = a.tap('2', { key: 'k' });
  await w.clock.go(0);
  assert.equal(t.result.answer.headers.get('Idempotency-Status'), 'key-reused');
  void a.outbox.flush(true);
  await w.clock.go(0);
  assert.deepEqual(bodies(w), ['1']);
});

test('a body that the store has lost is not sent as an empty one (B133, B134)', async () => {
  const w = world();
  const a = w.program();
  w.net = 'refuse';
  a.tap('1');
  await w.clock.go(0);
  w.disk.bodies.clear();
  w.net = 'ok';
  void a.outbox.flush(true);
  await w.clock.go(0);
  assert.deepEqual([w.server.requests.length, w.entries()[0].state, w.entries()[0].reason], [0, 'refused', 'body-lost']);
});

test('I4, W6, R37, B146, B148, scenario 19: three programs kick at once: ten entries, each once, in order, one at a time', async () => {
  const w = world();
  const programs = [w.program(), w.program(), w.program()];
  w.net = 'refuse';
  for (let i = 0; i < 10; i++) programs[i % 3].tap(String(i));
  await w.clock.go(1_000);
  w.net = 'late';
  for (const p of programs) for (let i = 0; i < 5; i++) void p.outbox.flush(true);
  for (let i = 0; i < 30; i++) {
    await w.clock.go(1_000);
    for (const p of programs) void p.outbox.flush();
  }
  await w.clock.go(30_000);
  assert.equal(w.server.effects.length, 10);
  assert.equal(w.mostInFlight, 1);
  assert.ok(w.locks.mostWaiting() <= 1, 'at most one waiter in each program');
  // Each program's own taps are in order; those of several programs have no order of their own.
  for (let p = 0; p < 3; p++) {
    const own = bodies(w).map(Number).filter((/** @type {number} */ n) => n % 3 === p);
    assert.deepEqual(own, own.toSorted((/** @type {number} */ x, /** @type {number} */ y) => x - y));
  }
});

test('B149: what is added while the line is worked off comes last', async () => {
  const w = world();
  const a = w.program();
  w.net = 'refuse';
  a.tap('1');
  a.tap('2');
  await w.clock.go(1_000);
  let n = 0;
  w.net = () => (++n === 1 ? '502' : 'late');
  void a.outbox.flush(true);
  a.tap('3');
  await w.clock.go(60_000);
  void a.outbox.flush(true);
  await w.clock.go(60_000);
  assert.deepEqual(bodies(w), ['1', '2', '3']);
});

test('requests keep their order however long the reading of a body takes', async () => {
  const w = world();
  const a = w.program();
  const slow = new Promise((ok) => w.clock.later(() => ok(new TextEncoder().encode('big').buffer), 200));
  a.tap('', { body: slow });
  a.tap('small');
  await w.clock.go(1_000);
  assert.deepEqual(bodies(w), ['big', 'small']);
});

test('W24, B140, scenario 23: storing fails: the request is sent all the same; if that fails too, the person is told so', async () => {
  const w = world();
  const a = w.program();
  w.breakStore = () => {
    throw new DOMException('full', 'QuotaExceededError');
  };
  const t1 = a.tap('1');
  await w.clock.go(0);
  assert.deepEqual([t1.result.kind, bodies(w)], ['answer', ['1']]);
  w.net = 'refuse';
  const t2 = a.tap('2', { el: 'add' });
  await w.clock.go(0);
  assert.deepEqual([t2.result.kind, w.entries()], ['unsaved', []]);
  const m = w.told.at(-1);
  assert.deepEqual([m.stored, m.events[0].kind, m.events[0].el, m.pending], [false, 'unsaved', 'add', 0]);
});

test('a store that does not answer counts as broken: no "it waits" for what is not kept', async () => {
  const w = world();
  const a = w.program();
  w.net = 'blackhole';
  const t = a.tap('1', { body: new Promise(() => {}) });
  await w.clock.go(8_000);
  assert.equal(t.result.kind, 'unsaved');
});

test('W24: what the person was told is not saved is not kept afterwards, when a slow store or a slow body comes at last', async () => {
  for (const body of [false, true]) {
    const w = world();
    const a = w.program();
    w.net = 'refuse';
    /** @type {() => void} */
    let go = () => {};
    const slow = new Promise((ok) => (go = () => ok(new TextEncoder().encode('1').buffer)));
    const { change } = a.store;
    if (!body) a.store.change = async (/** @type {any} */ fn, /** @type {any} */ opts) => (await slow, change(fn, opts));
    const t = a.tap('1', body ? { body: slow } : {});
    await w.clock.go(body ? 8_000 : 3_000);
    assert.equal(t.result.kind, 'unsaved');
    w.net = 'ok';
    go();
    a.store.change = change;
    await w.clock.go(1_000);
    void a.outbox.flush(true);
    await w.clock.go(1_000);
    assert.deepEqual([w.entries(), w.server.requests], [[], []], String(body));
  }
});

test('over the limits: clearly not kept, and the line is not overtaken', async () => {
  const w = world({ config: { maxBody: 10, maxEntries: 2 } });
  const a = w.program();
  const big = a.tap('x'.repeat(11));
  await w.clock.go(0);
  assert.equal(big.result.kind, 'answer', 'nothing stands before it: it is sent unprotected');
  w.net = 'refuse';
  a.tap('1');
  await w.clock.go(0);
  w.net = 'ok';
  w.disk.entries.get('k-2').notBefore = w.clock.now() + 500_000;
  const over = a.tap('y'.repeat(11));
  await w.clock.go(0);
  assert.equal(over.result.kind, 'unsaved');
  a.tap('2');
  const third = a.tap('3');
  await w.clock.go(0);
  assert.equal(third.result.kind, 'unsaved');
  assert.deepEqual(bodies(w), ['x'.repeat(11)]);
});

test('scenario 31: discarding what is under way is refused and said', async () => {
  const w = world();
  const a = w.program();
  w.net = 'slow';
  const t = a.tap('1');
  await w.clock.go(1_000);
  assert.equal(await w.program().decide.discard(t.key), 'sending');
  await w.clock.go(5_000);
  assert.deepEqual([bodies(w), w.entries()], [['1'], []]);
  assert.equal(await a.decide.discard(t.key), 'gone');
});

test('an orphan may be discarded: nobody is sending it', async () => {
  const w = world();
  const a = w.program();
  w.net = 'blackhole';
  const t = a.tap('1');
  await w.clock.go(1_000);
  a.end();
  assert.equal(await w.program().decide.discard(t.key), 'discarded');
});

test('retry of a refusal: the same name if the server kept nothing, a new one if it answered for good', async () => {
  const w = world();
  const a = w.program();
  const answers = [reply(403, { 'Idempotency-Status': 'released' }), reply(422, { 'Idempotency-Status': 'executed' })];
  const handle = w.server.handle;
  w.server.handle = async (u, i) => answers.shift() ?? handle(u, i);
  const t = a.tap('1');
  await w.clock.go(0);
  assert.equal(w.entries()[0].state, 'refused');
  await a.decide.retry(t.key);
  void a.outbox.flush(true);
  await w.clock.go(0);
  assert.deepEqual([w.entries()[0].key, w.entries()[0].reason], [t.key, 'executed']);
  await a.decide.retry(t.key);
  void a.outbox.flush(true);
  await w.clock.go(0);
  assert.deepEqual([w.server.requests.map((r) => r.key), w.entries()], [['new-2'], []]);
});

test('what nobody knows is asked of the person; the line goes on', async () => {
  const w = world();
  const a = w.program();
  const handle = w.server.handle;
  let unknown = true;
  w.server.handle = async (u, i, h) => (unknown && i.headers.get('Idempotency-Key') === 'k' ? reply(409, { 'Idempotency-Status': 'outcome-unknown' }) : handle(u, i, h));
  const t = a.tap('1', { key: 'k' });
  await w.clock.go(0);
  a.tap('2');
  await w.clock.go(0);
  assert.deepEqual([t.result.kind, states(w), bodies(w)], ['queued', ['k:ask'], ['2']]);
  for (const then of [['k:ask'], []]) {
    assert.equal(await a.decide.look('k'), 'waiting', 'such a key is asked about by sending it: it is not run again');
    void a.outbox.flush(true);
    await w.clock.go(0);
    assert.deepEqual(states(w), then);
    unknown = false;
  }
});

/** One that was sent once, and that the server remembers no more. @param {object} [config] */
async function forgotten(config) {
  const w = world({ config: { status: '/idempotency/', ...config } });
  const a = w.program();
  w.net = 'cut';
  a.tap('1', { key: 'k' });
  await w.clock.go(86_400_001);
  void a.outbox.flush(true);
  await w.clock.go(0);
  return { w, a };
}

test('look gives up where nothing answers, and the question stays open', async () => {
  const { w, a } = await forgotten({ softLimit: 30 });
  w.net = 'blackhole';
  const open = setTimeout(() => {}, 60_000); // a socket keeps a process alive, that signal does not
  assert.equal(await a.decide.look('k'), 'ask');
  clearTimeout(open);
  assert.equal(w.entries()[0].state, 'ask');
});

test('look asks guard.Status where there is one, which runs nothing: done is forgotten, a final no is shown as one, and what nobody knows stays open', async () => {
  for (const [said, found, left] of /** @type {[string, string, string[]][]} */ ([
    ['{"state":"complete","status":201}', 'done', []],
    ['{"state":"complete","status":422}', 'refused', ['k:refused']],
    ['{"state":"unknown"}', 'unknown', ['k:ask']],
  ])) {
    const { w, a } = await forgotten();
    assert.equal(w.entries()[0].state, 'ask');
    w.net = (url) => {
      assert.equal(url, '/idempotency/k');
      return 'status';
    };
    const { faults } = await import('./sim.js');
    faults.status = async () => reply(200, {}, said);
    assert.equal(await a.decide.look('k'), found);
    assert.deepEqual([bodies(w), states(w)], [['1'], left]);
  }
});

test('unguarded: done, and never sent again', async () => {
  const w = world();
  const a = w.program();
  const error = console.error;
  const said = /** @type {string[]} */ ([]);
  console.error = (x) => said.push(x);
  w.server.handle = async () => reply(200, { 'Outbox-Status': 'unguarded' }, 'x');
  const t = a.tap('1');
  await w.clock.go(0);
  console.error = error;
  assert.deepEqual([t.result.kind, w.entries(), said.length], ['answer', [], 1]);
});

test('a flush is cut into slices: after 20 s it begins nothing more, and what is left waits for the next kick', async () => {
  const w = world();
  const a = w.program();
  w.net = 'refuse';
  for (let i = 0; i < 10; i++) a.tap(String(i));
  await w.clock.go(0);
  w.net = 'slow';
  let over = false;
  void a.outbox.flush(true).then(() => (over = true));
  await w.clock.go(26_000);
  assert.ok(over);
  assert.ok(w.server.effects.length >= 4 && w.server.effects.length < 10, String(w.server.effects.length));
  for (let i = 0; i < 20; i++) {
    void a.outbox.flush();
    await w.clock.go(5_000);
  }
  assert.deepEqual(bodies(w), ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9']);
});

test('4.5: a big one is left to the page that says it sends it, and is sent by any program that is asked without a page', async () => {
  const w = world({ config: { bigBody: 10 } });
  const worker = w.program();
  const page = w.program();
  w.net = 'refuse';
  worker.tap('x'.repeat(11));
  worker.tap('small');
  await w.clock.go(10);
  w.net = 'ok';
  void worker.outbox.flush(true, true);
  await w.clock.go(10);
  assert.deepEqual([w.server.requests.length, w.entries().map((e) => e.state)], [0, ['waiting', 'waiting']], 'nothing is let past it');
  void page.outbox.flush(true);
  await w.clock.go(10);
  assert.deepEqual(bodies(w), ['x'.repeat(11), 'small']);

  w.net = 'refuse';
  worker.tap('y'.repeat(11));
  await w.clock.go(10);
  w.net = 'ok';
  void worker.outbox.flush(true);
  await w.clock.go(10);
  assert.equal(w.entries().length, 0);
});

test('4.4: twenty megabytes in all, and no more', async () => {
  const w = world({ config: { maxBytes: 10 } });
  const a = w.program();
  w.net = 'refuse';
  const kinds = [];
  for (const b of ['123456', '7890', 'x']) {
    const t = a.tap(b);
    await w.clock.go(10);
    kinds.push(t.result.kind);
  }
  assert.deepEqual(kinds, ['queued', 'queued', 'unsaved']);
});

test('scenario 28: a 403 of nobody we know waits, and goes with the header that the page gives anew', async () => {
  const w = world();
  const a = w.program();
  const handle = w.server.handle;
  w.server.handle = async (u, i, h) => (i.headers.get('x-csrf-token') === 'new' ? handle(u, i, h) : reply(403));
  const t = a.tap('1', { headers: [['x-csrf-token', 'old']] });
  await w.clock.go(10);
  assert.deepEqual([t.result.kind, states(w)], ['queued', [`${t.key}:waiting`]]);
  await a.outbox.greet({ owner: 'A', since: w.clock.now(), headers: { 'X-CSRF-Token': 'new' } });
  void a.outbox.flush(true);
  await w.clock.go(10);
  assert.deepEqual([bodies(w), w.entries()], [['1'], []]);
});

test('B145, B158: "sent" is what the server proved; state comes from answers, not from onLine', async () => {
  const w = world();
  const a = w.program();
  w.net = 'refuse';
  a.tap('1');
  await w.clock.go(0);
  void a.outbox.flush(true);
  await w.clock.go(0);
  const last = w.told.at(-1);
  assert.equal(last.pending, 1);
  assert.equal(w.told.flatMap((m) => m.events).some((e) => e.kind === 'delivered'), false);
});

test('the words between worker and page are the first implementation\'s: {type: "outbox", pending}', async () => {
  const w = world();
  const a = w.program();
  w.net = 'refuse';
  a.tap('1');
  a.tap('2');
  await w.clock.go(0);
  const m = await a.outbox.state();
  assert.deepEqual([m.type, m.pending], ['outbox', 2]);
  w.net = 'ok';
  void a.outbox.flush(true);
  await w.clock.go(0);
  const done = w.told.flatMap((x) => x.events).filter((e) => e.kind === 'delivered');
  assert.deepEqual(done.map((e) => [e.key, e.html, e.live]), [['k-1', '<li>1</li>', false], ['k-2', '<li>2</li>', false]]);
  assert.equal(w.told.at(-1).pending, 0);
});

test('what was told to wait is counted until it is sent, also when the line moves again', async () => {
  const w = world();
  const a = w.program();
  w.net = '502';
  for (let i = 0; i < 4; i++) a.tap(String(i));
  await w.clock.go(10);
  assert.equal((await a.outbox.state()).pending, 4);
  w.net = 'slow';
  void a.outbox.flush(true);
  for (const left of [4, 3, 2, 1]) {
    await w.clock.go(500);
    assert.equal((await a.outbox.state()).pending, left);
    await w.clock.go(4_500);
  }
  assert.equal((await a.outbox.state()).pending, 0);
});

test('a tap that is answered at once is never told as waiting', async () => {
  const w = world();
  const a = w.program();
  w.net = 'slow';
  a.tap('1');
  a.tap('2');
  await w.clock.go(1_000);
  assert.equal((await a.outbox.state()).pending, 0);
  await w.clock.go(7_000);
  assert.ok(w.told.every((m) => m.pending <= 1), 'the second alone, after its soft limit');
});
