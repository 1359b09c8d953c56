// @ts-check
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checksum, readable, said } from './body.js';
import { reply, world } from './sim.js';

const answer = (/** @type {string} */ type, /** @type {string} */ text) =>
  said({ status: 409, headers: new Headers({ 'Content-Type': type }), body: /** @type {ArrayBuffer} */ (new TextEncoder().encode(text).buffer) });
const json = (/** @type {any} */ v, type = 'application/json') => answer(type, JSON.stringify(v));

test('a refusal in JSON is shown in the words that servers use for it', () => {
  const why = 'tea was bought by Bob';
  for (const v of [{ error: why }, { message: why }, { detail: why }, { title: why }, { error: { message: why } }, { title: 'Conflict', detail: why }, { error: 'Conflict', message: why }, { error: '', title: why }]) {
    assert.equal(json(v), why, JSON.stringify(v));
  }
  assert.equal(json({ title: why }, 'application/problem+json; charset=utf-8'), why);
  // A list of fields, a number, no object, no JSON: the status says more.
  for (const v of [{ detail: [{ loc: ['body'], msg: 'x' }] }, { error: 409 }, {}, null, 'text', []]) assert.equal(json(v), '', JSON.stringify(v));
  assert.equal(answer('application/json', 'not'), '');
  assert.equal(json({ error: 'x'.repeat(900) }).length, 500);
});

test('a refusal as text or as a page is shown without what is no text', () => {
  assert.equal(answer('text/plain', 'too late\n'), 'too late');
  assert.equal(answer('text/html', '<title>409</title><style>p{}</style><p>too <b>late</b></p>'), 'too late');
  assert.equal(answer('image/png', 'x'), '');
});

test('a refusal as a page is shown in its characters, and one as text as it is', () => {
  assert.equal(answer('text/html; charset=utf-8', '<p>It isn&#39;t &quot;new&quot; &amp; it&#x27;s &lt;b&gt;&nbsp;late&lt;/b&gt;, &amp;lt; &unknown;</p>'), `It isn't "new" & it's <b> late</b>, &lt; &unknown;`);
  assert.equal(answer('text/plain', 'use <name>, a < b && c > d, &amp;'), 'use <name>, a < b && c > d, &amp;');
});

test('a refusal that nobody can make sense of is one all the same, and holds nobody up', async () => {
  for (const [type, text] of [['text/html', '<p>&#1114112; &#x110000; &#99999999999999999999; &#xd800;</p>'], ['application/json', 'null'], ['application/json', '{"error":null,"detail":{"a":1}}'], ['application/json', '{']]) {
    const w = world();
    const a = w.program();
    const { handle } = w.server;
    w.server.handle = async () => reply(422, { 'Idempotency-Status': 'executed', 'Content-Type': type }, text);
    a.tap('1');
    await w.clock.go(0);
    assert.deepEqual(w.entries().map((e) => e.state), ['refused'], text);
    w.server.handle = handle;
    a.tap('2');
    await w.clock.go(0);
    assert.deepEqual(w.server.effects.map((/** @type {any} */ e) => e.body), ['2'], text);
  }
});

/** @param {string} boundary @param {string} text @param {string} [file] */
const form = (boundary, text, file = 'a,b') => ({
  type: `multipart/form-data; boundary=${boundary}`,
  body: /** @type {ArrayBuffer} */ (new TextEncoder().encode(
    [['name="photo"; filename="a \"b\".csv"\r\nContent-Type: text/csv', file], ['name="text"', text], ['name="a %22b%22"', '1']]
      .map(([head, value]) => `--${boundary}\r\nContent-Disposition: form-data; ${head}\r\n\r\n${value}\r\n`).join('') + `--${boundary}--\r\n`).buffer),
});

test('what was typed beside a file can be read, copied and put back as any text', () => {
  const text = 'Домашка:\r\n\r\n2 + 2 = 4 & name="text"';
  for (const file of ['a,b', 'x'.repeat(9_000), '']) {
    const { type, body } = form('----WebKitFormBoundaryx', text, file);
    assert.deepEqual([...new URLSearchParams(readable(type, body))], [['text', text], ['a "b"', '1']]);
  }
  const { type, body } = form('b', 'x'.repeat(20_000));
  assert.ok(readable(type, body).length <= 8192);
  assert.equal(readable('multipart/form-data', body), '');
  assert.equal(readable('image/png', body), '');
});

test('I2: a form with a file is the same body in the second press, for which the browser makes another boundary', async () => {
  const [one, two, other] = [form('--one-', 'x'), form('----WebKitTwo', 'x'), form('----WebKitTwo', 'y')];
  assert.equal(checksum(one.body, one.type), checksum(two.body, two.type));
  assert.notEqual(checksum(one.body, one.type), checksum(other.body, other.type));
  const w = world();
  const a = w.program();
  /** @param {ReturnType<typeof form>} f */
  const press = ({ type, body }) => a.tap('', { key: 'k', body: body.slice(0), headers: [['content-type', type]] });
  w.net = '502';
  press(one);
  await w.clock.go(0);
  const again = press(two);
  await w.clock.go(100);
  assert.deepEqual([again.result?.kind, w.entries().length], ['queued', 1]);
  w.net = 'ok';
  press(two);
  await w.clock.go(60_000);
  assert.deepEqual(w.server.effects.map((/** @type {any} */ e) => e.body), [new TextDecoder().decode(one.body)]);
  // Never the one's bytes under the other's boundary.
  for (const r of w.server.requests) assert.equal(r.headers.get('content-type'), one.type);
});
