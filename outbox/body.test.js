// @ts-check
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { said } from './body.js';

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
