// @ts-check
// What the network does to the line.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { world } from './sim.js';

/** @param {any} w */
const bodies = (w) => w.server.effects.map((/** @type {any} */ e) => e.body);
/** @param {any} w */
const states = (w) => w.entries().map((/** @type {any} */ e) => `${e.key}:${e.state}`);

test('online: one request, the answer goes to the page, nothing stays', async () => {
  const w = world();
  const a = w.program();
  w.watch = (_, init) => assert.deepEqual([init.redirect, init.mode, init.credentials, init.cache], ['manual', 'same-origin', 'same-origin', 'no-store']);
  const t = a.tap('done');
  await w.clock.go(0);
  assert.equal(t.result.kind, 'answer');
  assert.equal(new TextDecoder().decode(t.result.answer.body), '<li>done</li>');
  assert.deepEqual([w.server.requests.length, w.entries().length, w.disk.bodies.size], [1, 0, 0]);
  const r = w.server.requests[0];
  assert.deepEqual([r.key, r.owner, r.attempt, r.age], [t.key, 'A', '1', null]);
});

test('I1, I3: entry, body and firstSentAt are committed before the first byte (R20, W8)', async () => {
  const w = world();
  const seen = /** @type {any[]} */ ([]);
  w.net = () => {
    const [e] = w.entries();
    seen.push([e.state, e.firstSentAt, w.disk.bodies.has(e.key)]);
    return 'ok';
  };
  w.program().tap('x');
  await w.clock.go(0);
  assert.deepEqual(seen, [['sending', w.clock.now(), true]]);
});

test('W1, R21: a 502 while the network is up is sent again by a kick, without any online event', async () => {
  const w = world();
  const a = w.program();
  w.net = '502';
  const t = a.tap('done');
  await w.clock.go(0);
  assert.equal(t.result.kind, 'queued');
  assert.deepEqual(states(w), [`${t.key}:waiting`]);
  await w.clock.go(5_000);
  w.net = 'ok';
  void a.outbox.flush();
  await w.clock.go(0);
  assert.deepEqual(bodies(w), ['done']);
  assert.deepEqual(w.entries(), []);
});

test('W2, R23, B151, scenario 4: a new request does not overtake an older one that waits', async () => {
  const w = world();
  const a = w.program();
  w.net = '502';
  a.tap('done');
  await w.clock.go(0);
  w.net = 'ok';
  const t = a.tap('undo');
  await w.clock.go(0);
  assert.deepEqual(bodies(w), ['done', 'undo']);
  assert.equal(t.result.kind, 'queued', 'behind one in back-off it is said at once that it waits');
});

test('4.7: what is put behind one that waits is told to the pages at once, though that one is under way', async () => {
  const w = world();
  const a = w.program();
  w.net = '502';
  a.tap('1');
  await w.clock.go(0);
  w.net = 'slow';
  void a.outbox.flush(true);
  await w.clock.go(100);
  const t = a.tap('2');
  await w.clock.go(0);
  assert.equal(t.result.kind, 'queued');
  assert.ok(w.told.at(-1).entries.some((/** @type {any} */ e) => e.key === t.key), 'its row would not be marked');
});

test('4.5: behind an older one in its first send, a tap waits its own soft limit and is answered truly', async () => {
  const w = world();
  const a = w.program();
  w.net = () => (w.server.requests.length ? 'ok' : 'slow');
  const first = a.tap('1');
  await w.clock.go(1_000);
  const second = a.tap('2');
  await w.clock.go(1_000);
  assert.ok(!second.result, 'no false "it waits" on a slow link');
  await w.clock.go(3_500);
  assert.deepEqual([first.result.kind, second.result.kind], ['answer', 'answer']);
  assert.deepEqual(bodies(w), ['1', '2']);
  assert.deepEqual(w.server.requests.map((r) => r.attempt), ['1', '1']);
});

test('W7, R32, scenario 5: at 8 s the tap is answered "it waits" and the very fetch goes on', async () => {
  const w = world();
  const a = w.program();
  w.net = 'very slow';
  const t = a.tap('done');
  await w.clock.go(7_999);
  assert.ok(!t.result);
  await w.clock.go(1);
  assert.equal(t.result.kind, 'queued');
  assert.equal(t.at, 8_000);
  assert.equal(w.server.requests.length, 1);
  assert.equal(w.told.at(-1).pending, 1);
});

test('scenario 7: a slow first send is delivered by itself, and the key is not sent again before 25 s', async () => {
  const w = world();
  const a = w.program();
  w.net = () => 'slow';
  w.server.handle = ((h) => (/** @type {string} */ u, /** @type {any} */ i) => h(u, i, { ms: 19_000 }))(w.server.handle);
  a.tap('done');
  for (let i = 0; i < 24; i++) {
    await w.clock.go(1_000);
    void a.outbox.flush(true);
  }
  assert.equal(w.server.requests.length, 1);
  assert.deepEqual([bodies(w), w.entries()], [['done'], []]);
});

test('W6, scenario 6: a replay that hangs is given up at the hard limit, which doubles up to 120 s', async () => {
  const w = world();
  const a = w.program();
  w.net = 'blackhole';
  a.tap('done');
  await w.clock.go(0);
  const gaps = [];
  for (let i = 0; i < 5; i++) {
    const n = w.entries()[0].attempts;
    let ms = 0;
    while (w.entries()[0].attempts === n && w.entries()[0].state === 'sending') {
      await w.clock.go(1_000);
      ms += 1_000;
    }
    gaps.push(ms);
    void a.outbox.flush(true);
    await w.clock.go(0);
  }
  assert.deepEqual(gaps, [25_000, 50_000, 100_000, 120_000, 120_000]);
  assert.deepEqual([w.mostInFlight, w.inFlight], [1, 1], 'what was given up is under way still, beside the next try');
  w.net = 'ok';
  await w.clock.go(120_000);
  void a.outbox.flush(true);
  await w.clock.go(0);
  assert.deepEqual(bodies(w), ['done']);
});

test('scenario 6: "retry" while a send hangs makes no second one', async () => {
  const w = world();
  const a = w.program();
  w.net = 'lost';
  const t = a.tap('done');
  await w.clock.go(9_000);
  await a.decide.retry(t.key);
  void a.outbox.flush(true);
  await w.clock.go(1_000);
  assert.equal(w.server.requests.length, 1);
  w.net = 'ok';
  await w.clock.go(16_000);
  assert.deepEqual(bodies(w), ['done']);
  assert.deepEqual(w.server.requests.map((r) => r.attempt), ['1', '2']);
});

for (const [mode, why] of [
  ['redirect', 'W3, R25, B132: an expired session hidden behind a redirect is no success'],
  ['portal', 'B131: a captive portal answers 200'],
  ['firewall', 'W4: a 403 of somebody else is no refusal'],
  ['500', 'W17, B130: a 500 is no success'],
  ['429', 'W4: 429 is no refusal'],
  ['503', 'W28: 503'],
  ['cut', 'B136: the answer is cut off'],
  ['cut in the body', 'B136, W16: an answer counts at its clean end only'],
  ['refuse', 'offline'],
]) {
  test(`${why}: the entry stays and is sent again under its name (B070)`, async () => {
    const w = world();
    const a = w.program();
    w.net = mode;
    const t = a.tap('done');
    await w.clock.go(0);
    assert.equal(t.result.kind, 'queued');
    assert.deepEqual(states(w), [`${t.key}:waiting`]);
    w.net = 'ok';
    await w.clock.go(6_000);
    void a.outbox.flush();
    await w.clock.go(0);
    assert.deepEqual(bodies(w), ['done']);
    assert.deepEqual(new Set(w.server.requests.map((r) => r.key)), new Set([t.key]));
    assert.deepEqual(w.entries(), []);
  });
}

test('B137: the body is whole at every try', async () => {
  const w = world();
  const a = w.program();
  w.net = 'cut in the body';
  const raw = new Uint8Array([0x00, 0xff, 0x80, 0xc8, 0x0a]);
  a.tap('', { body: raw.buffer.slice(0), headers: [['content-type', 'multipart/form-data; boundary=x']] });
  await w.clock.go(0);
  for (let i = 0; i < 3; i++) {
    void a.outbox.flush(true);
    await w.clock.go(0);
  }
  w.net = 'ok';
  void a.outbox.flush(true);
  await w.clock.go(0);
  assert.equal(w.server.requests.length, 5);
  for (const r of w.server.requests) assert.deepEqual([...Buffer.from(r.body, 'latin1')], [...raw]);
});

test('W10: what shapes the answer is sent again too; credentials are not kept', async () => {
  const w = world();
  const a = w.program();
  w.net = 'refuse';
  a.tap('x', { headers: [['hx-request', 'true'], ['hx-target', 'task-5'], ['accept', 'text/html'], ['authorization', 'Bearer s'], ['outbox-el', 'row']] });
  await w.clock.go(0);
  assert.equal(JSON.stringify(w.entries()).includes('Bearer'), false);
  w.net = 'ok';
  void a.outbox.flush(true);
  await w.clock.go(0);
  const h = w.server.requests[0].headers;
  assert.deepEqual([h.get('hx-target'), h.get('accept'), h.get('authorization'), h.get('outbox-el')], ['task-5', 'text/html', null, null]);
});

test('4.1: a first send has all headers that the page gave it, but for those of the announcement', async () => {
  const w = world();
  w.program().tap('x', { headers: [['authorization', 'Bearer s'], ['outbox-label', 'milk'], ['outbox-owner', 'B'], ['Outbox-El', 'row']] });
  await w.clock.go(0);
  const h = w.server.requests[0].headers;
  assert.deepEqual([h.get('authorization'), h.get('outbox-owner'), h.get('outbox-label'), h.get('outbox-el')], ['Bearer s', 'A', null, null]);
});

test('3: each send says which page it comes from, as the page\'s own would', async () => {
  const w = world();
  const a = w.program();
  const seen = /** @type {string[]} */ ([]);
  w.watch = (_, init) => seen.push(init.referrer);
  w.net = 'refuse';
  a.tap('x', { referrer: 'https://app.test/today' });
  await w.clock.go(0);
  void a.outbox.flush(true);
  await w.clock.go(0);
  assert.deepEqual(seen, ['https://app.test/today', 'https://app.test/today']);
  // What is not known is left to the browser; an empty one would hide it.
  const u = world();
  u.watch = (_, init) => assert.equal(init.referrer, undefined);
  u.program().tap('x');
  await u.clock.go(0);
  assert.equal(u.server.requests.length, 1);
});

test('a long answer is not carried to every page', async () => {
  const w = world({ config: { maxHTML: 20 } });
  const a = w.program();
  for (const body of ['short', 'x'.repeat(30)]) a.tap(body);
  await w.clock.go(0);
  const events = w.told.flatMap((m) => m.events).filter((e) => e.kind === 'delivered');
  assert.deepEqual(events.map((e) => e.html), ['<li>short</li>', '']);
});

test('W28: after a 504 that had acted, 409 in-progress waits for its Retry-After and the line goes on', async () => {
  const w = world();
  const a = w.program();
  let n = 0;
  w.net = () => ['very slow', 'ok', 'ok', 'ok'][n++] ?? 'ok';
  a.tap('done');
  await w.clock.go(25_000);
  assert.equal(w.entries()[0].state, 'waiting');
  for (let i = 0; i < 25; i++) {
    await w.clock.go(1_000);
    void a.outbox.flush(true);
  }
  assert.deepEqual([bodies(w), w.entries()], [['done'], []]);
});

test('W16, R26, scenario 16: a real 422 leaves the line with its words and its content; the line goes on', async () => {
  const w = world();
  const a = w.program();
  w.server.refusals.set('text=2', 422);
  w.net = 'refuse';
  for (const b of ['text=1', 'text=2', 'text=3']) a.tap(b, { label: b });
  await w.clock.go(0);
  w.net = 'ok';
  void a.outbox.flush(true);
  await w.clock.go(0);
  assert.deepEqual(bodies(w), ['text=1', 'text=3']);
  const [e] = w.entries();
  assert.deepEqual([e.state, e.lastStatus, e.lastText, e.text, e.label], ['refused', 422, 'text=2', 'text=2', 'text=2']);
  const event = w.told.flatMap((m) => m.events).find((e) => e.kind === 'refused');
  assert.deepEqual([event.status, event.text, event.live], [422, 'text=2', false]);
});

test('a refusal before the page\'s eyes is settled when the corrected form is accepted', async () => {
  const w = world();
  const a = w.program();
  w.server.refusals.set('bad', 422);
  const t = a.tap('bad', { el: 'add' });
  await w.clock.go(0);
  assert.equal(t.result.answer.status, 422);
  assert.deepEqual(states(w), [`${t.key}:refused`]);
  a.tap('other', { el: 'row' });
  await w.clock.go(0);
  assert.equal(w.entries().length, 1);
  a.tap('good', { el: 'add' });
  await w.clock.go(0);
  assert.deepEqual(w.entries(), []);
});

test('a refusal that came later stays until the person decides, whatever the form does meanwhile (I5)', async () => {
  const w = world();
  const a = w.program();
  w.server.refusals.set('bad', 422);
  w.net = 'refuse';
  const t = a.tap('bad', { el: 'add' });
  await w.clock.go(0);
  w.net = 'ok';
  void a.outbox.flush(true);
  await w.clock.go(0);
  a.tap('good', { el: 'add' });
  await w.clock.go(0);
  assert.deepEqual(states(w), [`${t.key}:refused`]);
  assert.equal(await a.decide.discard(t.key), 'discarded');
  assert.deepEqual([w.entries(), w.disk.bodies.size], [[], 0]);
});

test('a refusal is settled by no other address, and by nobody else (I5, I6)', async () => {
  const w = world();
  const a = w.program();
  w.server.refusals.set('bad', 422);
  const t = a.tap('bad', { el: 'add' });
  await w.clock.go(0);
  for (const more of [{ url: 'https://app.test/notes' }, { method: 'PUT' }]) a.tap('good', { el: 'add', ...more });
  await w.clock.go(0);
  assert.deepEqual(states(w), [`${t.key}:refused`]);
  await a.outbox.greet({ owner: 'B', since: w.clock.now() });
  w.server.session = 'B';
  a.tap('B\'s', { el: 'add', owner: 'B' });
  await w.clock.go(0);
  assert.deepEqual([bodies(w), states(w)], [['good', 'good', 'B\'s'], [`${t.key}:refused`]]);
});

test('a form that is refused when its page is long gone stays, for the person to see (I5)', async () => {
  const w = world();
  const a = w.program();
  w.server.refusals.set('bad', 422);
  w.net = 'refuse';
  const t = a.tap('bad', { nav: true });
  await w.clock.go(0);
  assert.equal(t.result.kind, 'queued');
  w.net = 'ok';
  void a.outbox.flush(true);
  await w.clock.go(0);
  assert.deepEqual(states(w), [`${t.key}:refused`]);
});

test('a form\'s own page is its refusal', async () => {
  const w = world();
  const a = w.program();
  w.server.refusals.set('bad', 422);
  const t = a.tap('bad', { nav: true });
  await w.clock.go(0);
  assert.equal(t.result.answer.status, 422);
  assert.deepEqual(w.entries(), []);
});
