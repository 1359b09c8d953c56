// @ts-check
// What happens seldom: a store that fills up in the middle, a clock that was
// wrong, keys that are given by the application, a body in other words.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { test } from 'node:test';
import { createDecisions } from './decide.js';
import { fakeLocks, reply, world } from './sim.js';

/** @param {any} w */
const bodies = (w) => w.server.effects.map((/** @type {any} */ e) => e.body);
/** @param {any} w what is new is not taken any more; what is there can be changed */
const fill = (w) => (/** @type {any} */ a) => {
  const { change } = a.store;
  a.store.change = (/** @type {any} */ fn, /** @type {any} */ opts) =>
    change((/** @type {any} */ s) => {
      const c = fn(s);
      if (c.put?.some((/** @type {any} */ e) => !w.disk.entries.has(e.key))) throw new DOMException('full', 'QuotaExceededError');
      return c;
    }, opts);
};

test('W2, W24, scenario 23: a disk that is full in the middle lets nobody past the line: it is said that it is not kept', async () => {
  const w = world();
  const a = w.program();
  w.net = 'refuse';
  a.tap('done');
  await w.clock.go(0);
  fill(w)(a);
  w.net = 'ok';
  w.disk.entries.get('k-1').notBefore = w.clock.now() + 60_000;
  const t = a.tap('undo');
  await w.clock.go(0);
  assert.deepEqual([t.result.kind, bodies(w)], ['unsaved', []]);
  await w.clock.go(60_000);
  void a.outbox.flush(true);
  await w.clock.go(0);
  assert.deepEqual(bodies(w), ['done']);
});

test('I6: what there is no room for is not sent while another is signed in', async () => {
  for (const how of ['entries', 'disk']) {
    const w = world({ config: how === 'entries' ? { maxEntries: 0 } : {} });
    const a = w.program();
    await a.outbox.greet({ owner: 'B', since: w.clock.now() });
    if (how === 'disk') fill(w)(a);
    const t = a.tap('of A');
    await w.clock.go(0);
    assert.deepEqual([t.result.kind, w.server.requests], ['unsaved', []], how);
  }
});

test('a later wish that there is no room for does not go before the one whose place it would have taken', async () => {
  const w = world({ config: { maxBody: 8 } });
  const a = w.program();
  const other = w.program();
  void (/** @type {any} */ (w.locks.for(other))).request('outbox', {}, () => new Promise((ok) => w.clock.later(() => ok(0), 5_000)));
  await w.clock.go(0);
  a.tap('done', { coalesce: 'g' });
  const t = a.tap('undone, and why', { coalesce: 'g' });
  await w.clock.go(10_000);
  assert.deepEqual([t.result.kind, bodies(w)], ['unsaved', ['done']]);
});

test('the secret of the tags was changed: what waits under the old tag is sent in its turn as the same person, and shown to them', async () => {
  const w = world();
  const a = w.program();
  await a.outbox.greet({ owner: 'old', since: w.clock.now() });
  w.net = 'refuse';
  a.tap('1', { owner: 'old' });
  a.tap('of B', { owner: 'B' });
  w.server.session = 'new';
  await w.clock.go(1_000);
  w.net = 'ok';
  await a.outbox.greet({ owner: 'new', former: ['older', 'old'], since: w.clock.now() });
  a.tap('2', { owner: 'new' });
  await w.clock.go(1_000);
  void a.outbox.flush(true);
  await w.clock.go(1_000);
  assert.deepEqual([bodies(w), w.entries().map((e) => e.owner)], [['1', '2'], ['B']]);
});

test('scenario 32: a page that was loaded while the clock was ahead makes no storm of requests of a session that is over', async () => {
  const w = world();
  const a = w.program();
  w.clock.set(3 * 86_400_000);
  await a.outbox.greet({ owner: 'A', since: w.clock.now() });
  w.clock.set(-3 * 86_400_000);
  w.server.session = '';
  const { handle } = w.server;
  w.server.handle = async (u, i, h) => (w.server.requests.length > 20 ? new Promise(() => {}) : handle(u, i, h));
  a.tap('1');
  await w.clock.go(0);
  assert.equal(w.server.requests.length, 1);
  assert.equal(w.entries()[0].state, 'login');
  w.server.session = 'A';
  await a.outbox.greet({ owner: 'A', since: w.clock.now() + 500 });
  void a.outbox.flush();
  await w.clock.go(0);
  assert.deepEqual(bodies(w), ['1']);
});

/** @param {string} boundary @param {string} [file] */
const multipart = (boundary, file = 'x') => ({
  headers: [['content-type', `multipart/form-data; boundary=${boundary}`]],
  body: new TextEncoder().encode(`--${boundary}\r\nContent-Disposition: form-data; name="a"\r\n\r\n${file}\r\n--${boundary}--\r\n`).buffer,
});

test('4.3: an upload that comes again has another boundary, and is the same: it waits in its place, and is sent with its own', async () => {
  const w = world();
  const a = w.program();
  w.net = 'refuse';
  a.tap('first');
  const t = a.tap('', { key: 'up', ...multipart('----b1') });
  await w.clock.go(0);
  const again = a.tap('', { key: 'up', ...multipart('----b22') });
  const other = a.tap('', { key: 'up', ...multipart('----b3', 'y') });
  await w.clock.go(0);
  assert.deepEqual([t.result.kind, again.result.kind, w.entries().length], ['queued', 'queued', 2]);
  assert.equal(other.result.kind, 'answer', 'another file under its name is another wish');
  w.net = 'ok';
  const third = a.tap('', { key: 'up', ...multipart('----b4') });
  await w.clock.go(0);
  assert.equal(third.result.kind, 'answer');
  assert.deepEqual(w.server.effects.map((e) => e.key), ['k-1', 'up']);
  assert.match(w.server.effects[1].body, /^------b1\r\n/);
  assert.match(w.server.requests.at(-1)?.headers.get('Content-Type') ?? '', /b1$/);
});

test('I2: a key of the application under which another request waits already: no loss, no false "it waits", nothing is overtaken', async () => {
  for (const more of [{ url: 'https://app.test/other' }, { method: 'DELETE' }, { body: new TextEncoder().encode('else').buffer }]) {
    for (const net of ['refuse', 'ok']) {
      const w = world();
      const a = w.program();
      w.net = 'refuse';
      a.tap('before');
      a.tap('1', { key: 'own' });
      await w.clock.go(0);
      w.net = net;
      const t = a.tap('1', { key: 'own', ...more });
      await w.clock.go(0);
      const { kind, answer } = t.result;
      assert.deepEqual([kind, answer?.status, answer?.headers.get('Idempotency-Status')], ['answer', 422, 'key-reused'], JSON.stringify(more) + net);
      w.net = 'ok';
      void a.outbox.flush(true);
      await w.clock.go(0);
      assert.deepEqual(bodies(w), ['before', '1']);
    }
  }
});

test('I6: a key of the application under which another person\'s request waits: nobody is told that it waits, each is done as who asked', async () => {
  const w = world();
  const a = w.program();
  await a.outbox.greet({ owner: 'A', since: w.clock.now() });
  w.net = 'refuse';
  a.tap('1', { key: 'own' });
  await w.clock.go(1_000);
  w.net = 'ok';
  w.server.session = 'B';
  await a.outbox.greet({ owner: 'B', since: w.clock.now() });
  const t = a.tap('1', { key: 'own', owner: 'B' });
  await w.clock.go(0);
  assert.equal(t.result.kind, 'answer');
  assert.deepEqual(w.entries().map((e) => [e.key, e.owner]), [['own', 'A']]);
  w.server.session = 'A';
  await w.clock.go(1_000);
  await a.outbox.greet({ owner: 'A', since: w.clock.now() });
  void a.outbox.flush(true);
  await w.clock.go(0);
  assert.deepEqual([w.server.effects.map((e) => [e.session, e.key]), w.entries()], [[['B', 'own'], ['A', 'own']], []]);
});

test('a key of the application that was refused comes again: unchanged it goes again, changed the server says what that is', async () => {
  for (const [body, left] of /** @type {[string, string[]][]} */ ([['1', []], ['2', ['own:refused']]])) {
    const w = world();
    const a = w.program();
    const { handle } = w.server;
    w.server.handle = async () => reply(403, { 'Idempotency-Status': 'released' });
    a.tap('1', { key: 'own' });
    await w.clock.go(0);
    assert.equal(w.entries()[0].state, 'refused');
    w.server.handle = handle;
    const t = a.tap(body, { key: 'own' });
    await w.clock.go(0);
    assert.deepEqual([t.result?.kind, t.result?.answer?.status, bodies(w)], ['answer', 200, [body]], body);
    assert.deepEqual(w.entries().map((e) => `${e.key}:${e.state}`), left, body);
  }
});

test('a key with spaces, commas or quotes goes over the wire as it came, in quotes', async () => {
  const w = world();
  const a = w.program();
  for (const key of ['a b', 'a,b', 'say "a\\b"', 'k~1']) a.tap(key, { key });
  await w.clock.go(0);
  assert.deepEqual(w.server.requests.map((r) => r.headers.get('Idempotency-Key')), ['"a b"', '"a,b"', '"say \\"a\\\\b\\""', 'k~1']);
});

/** @param {string} type @param {string} body @param {string} key @param {string} next */
async function renamed(type, body, key, next) {
  const w = world();
  const a = w.program();
  w.server.refusals.set(Buffer.from(body).toString('latin1'), 422);
  a.tap(body, { key, headers: [['content-type', type]] });
  await w.clock.go(0);
  const decide = createDecisions({ store: a.store, locks: /** @type {any} */ (fakeLocks().for(a)), fetch: async () => ({}), newKey: () => next, now: w.clock.now });
  assert.equal(await decide.retry(key), 'waiting');
  void a.outbox.flush();
  await w.clock.go(0);
  const [, r] = w.server.requests;
  assert.equal(r.headers.get('Idempotency-Key'), next);
  return r.body;
}

test('a form under a new name has it in its field too, as a browser writes it there', async () => {
  const [from, to] = ['0-1~Tag_A', '0-2~Tag_A'];
  const form = 'application/x-www-form-urlencoded';
  assert.equal(await renamed(form, '_key=0-1%7ETag_A&title=%D1%8B', from, to), '_key=0-2%7ETag_A&title=%D1%8B');
  assert.equal(await renamed(form, 'title=x&_key=0-1~Tag_A', from, to), 'title=x&_key=0-2%7ETag_A');
  const part = (/** @type {string} */ k) => `--b\r\nContent-Disposition: form-data; name="_key"\r\n\r\n${k}\r\n--b\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\n\x00\xff\r\n--b--\r\n`;
  const w = (/** @type {string} */ s) => Buffer.from(s, 'utf8').toString('latin1');
  assert.equal(await renamed('multipart/form-data; boundary=b', part(from), from, to), w(part(to)));
});

test('a new name changes nothing but the name: what the application wrote elsewhere stays', async () => {
  const form = 'application/x-www-form-urlencoded';
  assert.equal(await renamed(form, 'qty=5&_key=5&my_key=5&_key=55', '5', 'n'), 'qty=5&_key=n&my_key=5&_key=55');
  assert.equal(await renamed('application/json', '{"id":"order-1","_key": "order-1"}', 'order-1', 'n'), '{"id":"order-1","_key": "n"}');
  assert.equal(await renamed('application/json', '{"a":"$&.*"}', '.*', 'n'), '{"a":"$&.*"}');
});

test('B134: a body that was lost is not sent empty under a new name either', async () => {
  const w = world();
  const a = w.program();
  w.net = 'refuse';
  const t = a.tap('all that was typed');
  await w.clock.go(0);
  w.disk.bodies.clear();
  w.net = 'ok';
  void a.outbox.flush(true);
  await w.clock.go(0);
  assert.equal(w.entries()[0].reason, 'body-lost');
  assert.equal(await a.decide.retry(t.key), 'waiting');
  void a.outbox.flush(true);
  await w.clock.go(0);
  assert.deepEqual([w.server.requests, w.entries()[0].reason], [[], 'body-lost']);
});

test('the scripts call nothing that a browser of docs/outbox.md’s floor (Chrome 112, Firefox 119, Safari 17) lacks', () => {
  const here = new URL('./', import.meta.url);
  const newer = /URL\.(canParse|parse)\b|AbortSignal\.any\b|withResolvers|Promise\.try\b|\.to(Sorted|Reversed|Spliced)\b|groupBy|fromAsync|isWellFormed|RegExp\.escape|\.(union|difference|intersection)\(|moveBefore|checkVisibility/;
  for (const name of readdirSync(here)) {
    if (!name.endsWith('.js') || /\.test\.js$|^sim|\.store\.js$|contract/.test(name)) continue;
    const text = readFileSync(new URL(name, here), 'utf8');
    assert.equal(newer.exec(text)?.[0], undefined, name);
  }
});

test('B134: a body that the store cannot read any more does not hold up the line: it is shown, and tried again under its own name', async () => {
  const w = world();
  const a = w.program();
  w.net = 'refuse';
  const t = a.tap('photo');
  a.tap('2');
  await w.clock.go(0);
  const { body } = a.store;
  a.store.body = async (/** @type {string} */ key) => {
    if (key === t.key) throw new DOMException('Data lost due to missing file', 'NotReadableError');
    return body(key);
  };
  w.net = 'ok';
  void a.outbox.flush(true);
  await w.clock.go(0);
  assert.deepEqual([bodies(w), w.entries().map((e) => [e.state, e.reason])], [['2'], [['refused', 'body-lost']]]);
  a.store.body = body;
  assert.equal(await a.decide.retry(t.key), 'waiting');
  void a.outbox.flush(true);
  await w.clock.go(0);
  assert.deepEqual([bodies(w), w.server.effects[1].key], [['2', 'photo'], t.key]);
});

test('a proxy that gives the answer to another key does not acknowledge this one; nobody is shown it', async () => {
  const w = world();
  const a = w.program();
  const { handle } = w.server;
  let crossed = true;
  w.server.handle = async (u, i, h) => (crossed ? reply(200, { 'Idempotency-Status': 'executed;key="of \\"B\\""' }, 'hers') : handle(u, i, h));
  const t = a.tap('1', { key: 'k' });
  await w.clock.go(0);
  assert.deepEqual([t.result.kind, w.entries()[0].state], ['queued', 'waiting']);
  crossed = false;
  void a.outbox.flush(true);
  await w.clock.go(0);
  assert.deepEqual([bodies(w), w.entries()], [['1'], []]);
  w.server.handle = async () => reply(200, { 'Idempotency-Status': 'executed;unrecorded;key="of \\"B\\""' });
  const own = a.tap('2', { key: 'of "B"' });
  await w.clock.go(0);
  assert.equal(own.result.kind, 'answer');
});

test('W6: a photo that takes longer than any limit for a tap arrives on a slow line at last, and does not hold up the line for ever', async () => {
  const w = world();
  const a = w.program();
  const { handle } = w.server;
  // 40 kbit/s. What is given up on the way never arrives.
  w.server.handle = (u, i, h) =>
    new Promise((ok) => {
      const id = w.clock.later(() => void handle(u, i, h).then(ok), i.body.byteLength / 5);
      i.signal.addEventListener('abort', () => w.clock.never(id));
    });
  a.tap('', { body: new ArrayBuffer(1 << 20) });
  a.tap('2');
  await w.clock.go(0);
  for (let i = 0; i < 240 && w.entries().length; i++) {
    await w.clock.go(5_000);
    void a.outbox.flush();
  }
  assert.deepEqual([w.server.effects.length, w.entries().length], [2, 0]);
});

test('I2: another request under a key, whose body is still being read when the first is answered, is not told that it is done', async () => {
  const w = world();
  const a = w.program();
  w.net = 'slow';
  a.tap('1', { key: 'own' });
  await w.clock.go(4_999);
  const t = a.tap('', { key: 'own', body: new Promise((ok) => w.clock.later(() => ok(new TextEncoder().encode('2').buffer), 10)) });
  await w.clock.go(6_000);
  assert.equal(t.result.answer.headers.get('Idempotency-Status'), 'key-reused');
});

test('B134: what is to be done anew and cannot be read keeps its name, and the person hears of it', async () => {
  for (const how of ['lost', 'unreadable']) {
    const w = world();
    const a = w.program();
    w.net = 'cut';
    const t = a.tap('photo');
    await w.clock.go(86_400_001);
    void a.outbox.flush(true);
    await w.clock.go(0);
    const { body } = a.store;
    a.store.body = async () => {
      if (how === 'lost') return null;
      throw new DOMException('Data lost due to missing file', 'NotReadableError');
    };
    for (const way of /** @type {const} */ (['resend', 'retry'])) assert.equal(await a.decide[way](t.key), 'unreadable', how);
    assert.deepEqual(w.entries().map((e) => [e.key, e.state]), [[t.key, 'ask']]);
    a.store.body = body;
    w.net = 'ok';
    assert.equal(await a.decide.resend(t.key), 'waiting');
    void a.outbox.flush(true);
    await w.clock.go(0);
    assert.deepEqual([bodies(w), w.entries()], [['photo', 'photo'], []]);
  }
});
