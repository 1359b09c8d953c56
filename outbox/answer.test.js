// @ts-check
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { retryAfter, statusToken, verdict } from './answer.js';

const table = JSON.parse(readFileSync(new URL('../vectors/answers.json', import.meta.url), 'utf8'));

for (const c of table.cases) {
  test(`answer: ${c.name} ⇒ ${c.verdict}`, () => {
    const headers = new Headers();
    if (c.idempotencyStatus != null) headers.set('Idempotency-Status', c.idempotencyStatus);
    if (c.outboxStatus != null) headers.set('Outbox-Status', c.outboxStatus);
    if (c.outboxLocation) headers.set('Outbox-Location', c.outboxLocation);
    if (c.outboxRedirectStatus) headers.set('Outbox-Redirect-Status', String(c.outboxRedirectStatus));
    assert.equal(verdict({ status: c.status, type: c.type, redirected: c.redirected, headers }), c.verdict);
  });
}

test('answer: every verdict of the table has a case', () => {
  assert.deepEqual(new Set(table.cases.map((/** @type {any} */ c) => c.verdict)), new Set(table.verdicts));
});

test('answer: another server can name its own acknowledgement', () => {
  const own = { header: 'X-Saved', values: ['yes'] };
  const head = (/** @type {any} */ h) => ({ status: 200, headers: new Headers(h) });
  assert.equal(verdict(head({ 'X-Saved': 'yes' }), own), 'done');
  assert.equal(verdict(head({ 'X-Saved': 'no' }), own), 'odd');
  assert.equal(verdict(head({}), own), 'odd');
  assert.equal(verdict(head({ 'X-Saved': 'whatever' }), { header: 'X-Saved' }), 'done');
  assert.equal(verdict({ status: 404, headers: new Headers({ 'X-Saved': 'yes' }) }, own), 'refused');
  assert.equal(verdict(head({ 'Idempotency-Status': 'executed' }), own), 'done');
});

test('answer: the word stands before the parameters', () => {
  assert.equal(statusToken('executed;key="a;b"'), 'executed');
  assert.equal(statusToken(null), '');
});

test('answer: Retry-After is seconds or a date, and never more than ten minutes', () => {
  const now = Date.parse('2026-11-29T17:00:00Z');
  assert.equal(retryAfter('3', now, 600_000), 3000);
  assert.equal(retryAfter(' 120 ', now, 600_000), 120_000);
  assert.equal(retryAfter('Sun, 29 Nov 2026 17:00:05 GMT', now, 600_000), 5000);
  assert.equal(retryAfter('Sun, 29 Nov 2026 16:00:05 GMT', now, 600_000), 0);
  assert.equal(retryAfter('86400', now, 600_000), 600_000);
  for (const v of [null, '', '0', '-3', 'soon', '1.5e3x']) assert.equal(retryAfter(v, now, 600_000), 0);
});
