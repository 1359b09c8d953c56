// @ts-check
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fragment, headers } from './announce.js';
import { createAsker } from './ask.js';
import { createIntents } from './intent.js';
import { announced, keptHeaders, parseFragment, parseKey } from './heard.js';
import { auth, deny, either } from './paths.js';

const vectors = (/** @type {string} */ name) =>
  JSON.parse(readFileSync(new URL(`../vectors/${name}.json`, import.meta.url), 'utf8'));
const site = { origin: 'https://app.test', deny };
/** @param {any} r */
const request = (r) => ({
  url: 'https://app.test/tasks',
  method: 'POST',
  mode: 'cors',
  ...r,
  headers: new Headers(r.headers ?? {}),
});

for (const c of vectors('keys').cases) {
  test(`key: ${c.name} (B068)`, () => assert.equal(parseKey(c.value), c.key));
}
test('key: no header is no key', () => assert.equal(parseKey(null), null));

for (const c of vectors('fragments').cases) {
  test(`fragment: ${c.name}`, () => {
    assert.equal(fragment(c.announcement), c.fragment);
    assert.deepEqual(parseFragment(c.fragment), { label: '', el: '', coalesce: '', ...c.announcement });
  });
}
test('fragment: others announce nothing', () => {
  for (const f of vectors('fragments').not) assert.equal(parseFragment(f), null, f);
});

test('a request with a key and an owner is ours (R27, R33)', () => {
  const a = announced(request({ headers: headers({ key: 'k1', owner: 'u1', label: 'Хлеб', el: 'task-5', swap: 'outerHTML #task-5', coalesce: 'group 5' }) }), site);
  assert.deepEqual(a, { key: 'k1', owner: 'u1', url: 'https://app.test/tasks', nav: false, back: '', label: 'Хлеб', el: 'task-5', swap: 'outerHTML #task-5', coalesce: 'group 5' });
});

test('a form navigation with the fragment is ours, and its URL is the bare one', () => {
  const url = 'https://app.test/tasks?x=1' + fragment({ key: 'k1', owner: 'u1', back: '/today' });
  const a = announced(request({ url, mode: 'navigate' }), site);
  assert.equal(a?.url, 'https://app.test/tasks?x=1');
  assert.equal(a?.nav, true);
  assert.equal(a?.back, '/today');
});

test('nobody else is ever given a 202 (W9, W14, R28): what is not announced goes its own way', () => {
  const both = { 'Idempotency-Key': 'k1', 'Outbox-Owner': 'u1' };
  const hash = fragment({ key: 'k1', owner: 'u1', back: '/' });
  for (const r of [
    { headers: {} },
    { headers: { 'Idempotency-Key': 'k1' } },
    { headers: { 'Outbox-Owner': 'u1' } },
    { headers: { ...both, 'Idempotency-Key': 'a, b' } },
    { method: 'GET', headers: both },
    { method: 'HEAD', headers: both },
    { url: 'https://cdn.test/tasks', headers: both },
    { url: 'https://app.test/auth/login', headers: both },
    { url: 'https://app.test/auth', headers: both },
    { url: 'https://app.test/api/billing/pay', headers: both },
    // From a page that works the line off itself: the worker would keep it a second time.
    { headers: { ...both, 'Outbox-Attempt': '2' } },
    { mode: 'navigate' },
    { mode: 'navigate', headers: both },
    { mode: 'navigate', method: 'GET', url: 'https://app.test/tasks' + hash },
    { mode: 'navigate', url: 'https://app.test/auth/login' + hash },
    { mode: 'cors', url: 'https://app.test/tasks' + hash },
  ]) {
    assert.equal(announced(request(r), site), null, JSON.stringify(r));
  }
});

test('the deny-list ends at a path segment: /authors is no /auth (R33)', () => {
  for (const p of ['/authors', '/author/1', '/api/billings', '/api']) assert.ok(!deny.test(p), p);
  for (const p of ['/auth', '/auth/login', '/api/billing', '/miniapp/auth/x']) assert.ok(deny.test(p), p);
  for (const p of ['/login', '/auth/logout', '/register']) assert.ok(auth.test(p), p);
  for (const p of ['/logins', '/tasks/login']) assert.ok(!auth.test(p), p);
  for (const more of ['^/pay', /^\/pay/]) {
    const both = either(deny, more);
    assert.deepEqual(['/pay/1', '/auth', '/tasks'].map((p) => both.test(p)), [true, true, false]);
  }
});

test('an entry keeps the headers that shape the answer and no credentials (W10, R34)', () => {
  const h = new Headers({
    'HX-Request': 'true', 'HX-Target': 'task-5', 'HX-Trigger': 'b', 'HX-Boosted': 'true', 'HX-Prompt': 'x',
    Accept: 'text/html', 'X-CSRF-Token': 't', 'X-Requested-With': 'XMLHttpRequest', 'Content-Type': 'application/json',
    'If-Match': '"v1"', Prefer: 'wait=10', Cookie: 's=1',
    Authorization: 'Bearer s', 'X-Api-Key': 's', 'Outbox-El': 'x', 'Idempotency-Key': 'k',
  });
  assert.deepEqual(Object.keys(keptHeaders(h)).sort(), [
    'accept', 'content-type', 'hx-boosted', 'hx-prompt', 'hx-request', 'hx-target', 'hx-trigger', 'if-match', 'prefer', 'x-csrf-token', 'x-requested-with',
  ]);
});

test('scenario 25: data-outbox-coalesce on what asks, or around it, is the group of its wish', () => {
  const g = /** @type {any} */ (globalThis);
  const before = [g.location, g.document];
  Object.assign(g, { location: { origin: 'https://app.test' }, document: { baseURI: 'https://app.test/today' } });
  try {
    const asker = createAsker({ owner: 'u1', cfg: { maxBody: 100, keyField: '_key' }, intents: createIntents({ newKey: () => 'k1', keyField: '_key' }) });
    const button = (/** @type {string | null} */ group) => /** @type {any} */ ({
      getAttribute: (/** @type {string} */ name) => (name === 'id' ? 'b' : null),
      closest: (/** @type {string} */ what) => (what === '[data-outbox-coalesce]' && group !== null ? { getAttribute: () => group } : null),
      matches: () => true,
      textContent: 'Done',
    });
    const ask = (/** @type {string | null} */ group) =>
      asker.ask({ el: button(group), form: null, method: 'POST', url: '/tasks/5', data: /** @type {any} */ ([]), multipart: false });
    assert.deepEqual(['task-5', '', null].map((group) => ask(group)?.coalesce), ['task-5', '', '']);
    const asked = /** @type {NonNullable<ReturnType<typeof ask>>} */ (ask('task-5'));
    const told = announced(request({ headers: headers({ key: asked.key, owner: 'u1', coalesce: asked.coalesce }) }), site);
    assert.equal(told?.coalesce, 'task-5');
  } finally {
    [g.location, g.document] = before;
  }
});

test('4.1: what a page announces: nothing marked "off", no upload that is not marked "on", nothing over the limit; each of these but the first has its name all the same (R33)', () => {
  const g = /** @type {any} */ (globalThis);
  const before = [g.location, g.document];
  Object.assign(g, { location: { origin: 'https://app.test' }, document: { baseURI: 'https://app.test/today' } });
  try {
    let n = 0;
    const asker = createAsker({ owner: 'u1', cfg: { maxBody: 100, keyField: '_key', deny: '^/pay/' }, intents: createIntents({ newKey: () => `k${++n}`, keyField: '_key' }) });
    /** @param {any} more @param {string} [marked] */
    const asked = ({ url = '/notes', method = 'POST', data = [['text', 'x']], multipart = false }, marked) => {
      const el = /** @type {any} */ ({
        getAttribute: () => null,
        closest: (/** @type {string} */ what) => (what === '[data-outbox]' && marked ? { getAttribute: () => marked } : null),
        matches: () => true,
        textContent: 'Send',
      });
      const a = asker.ask({ el, form: null, method, url, data, multipart });
      return a && (a.announce ? 'announced' : a.key && 'named');
    };
    const file = new File(['x'.repeat(60)], 'photo');
    const text = [['text', 'x'.repeat(20)]];
    for (const [how, more, marked] of /** @type {[string | null, any, string?][]} */ ([
      ['announced', {}],
      ['announced', {}, 'on'],
      [null, {}, 'off'],
      [null, { multipart: true, data: [['file', file]] }, 'off'],
      ['named', { multipart: true, data: [['file', file]] }],
      ['announced', { multipart: true, data: [['file', file]] }, 'on'],
      // A character may take three bytes.
      ['announced', { multipart: true, data: [['f', file], ['text', 'x'.repeat(11)]] }, 'on'],
      ['named', { multipart: true, data: [['f', file], ['text', 'x'.repeat(12)]] }, 'on'],
      ['announced', { data: text }],
      ['named', { data: [...text, ['more', 'x'.repeat(11)]] }],
      [null, { url: '/pay/1' }],
      [null, { url: '/auth/login' }],
      [null, { url: 'https://cdn.test/notes' }],
      [null, { method: 'GET' }],
    ])) assert.equal(asked(more, marked), how, JSON.stringify([more, marked]));
  } finally {
    [g.location, g.document] = before;
  }
});

test('a form of another site is none of ours, whatever it announces: sent on from here it would pass for this one\'s', () => {
  const url = `${site.origin}/tasks${fragment({ key: 'k1', owner: 'u1', back: '/' })}`;
  const from = (/** @type {string | null} */ Origin) => announced(request({ url, mode: 'navigate', headers: Origin === null ? {} : { Origin } }), site)?.key;
  assert.deepEqual([null, site.origin, 'https://evil.test', `${site.origin}.evil.test`, 'null'].map(from), ['k1', 'k1', undefined, undefined, undefined]);
});

test('a label that was cut in the middle of a character is announced without the half', () => {
  const a = { key: 'k1', owner: 'u1', back: '/', label: 'Хлеб \ud83d' };
  assert.equal(parseFragment(fragment(a))?.label, 'Хлеб ');
  assert.equal(decodeURIComponent(headers(a)['Outbox-label']), 'Хлеб ');
});
