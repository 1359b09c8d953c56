// @ts-check
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { respond } from './respond.js';

const cfg = { prefix: '/outbox/', queuedHeader: 'X-Outbox-Queued' };
const asked = { key: 'k"1', url: 'https://app.test/tasks', nav: false, back: '/today?a=1' };
const nav = { ...asked, nav: true };
/** @param {number} status @param {Record<string, string>} [headers] @param {string} [body] @returns {any} */
const answer = (status, headers, body = '') => ({ kind: 'answer', answer: { status, headers: new Headers(headers), body: new TextEncoder().encode(body).buffer } });

test('queued: 202 by which nothing is swapped and the element is told (R28, 37)', async () => {
  const r = respond({ kind: 'queued' }, asked, 'application/json', cfg);
  assert.deepEqual([r.status, r.headers.get('X-Outbox-Queued'), r.headers.get('HX-Reswap')], [202, '1', 'none']);
  assert.deepEqual(JSON.parse(r.headers.get('HX-Trigger') ?? ''), { 'outbox:queued': { key: 'k"1' } });
  assert.deepEqual(await r.json(), { outbox: 'queued', key: 'k"1' });
  assert.equal(await respond({ kind: 'queued' }, asked, 'text/html', cfg).text(), '');
  // fetch says that it takes anything, or nothing at all.
  for (const accept of ['*/*', '', null]) assert.equal((await respond({ kind: 'queued' }, asked, accept, cfg).json()).outbox, 'queued');
});

test('W13, R31: a form that waits gets a page, never an empty answer', () => {
  const r = respond({ kind: 'queued' }, nav, 'text/html', cfg);
  assert.equal(r.status, 303);
  const to = new URL(r.headers.get('Location') ?? '');
  assert.deepEqual([to.pathname, to.searchParams.get('back'), to.searchParams.get('key'), to.hash], ['/outbox/queued', '/today?a=1', 'k"1', '#outbox-']);
});

test('unsaved: a failure for scripts; a form keeps its page and its text (B140, scenario 23)', () => {
  const r = respond({ kind: 'unsaved' }, asked, null, cfg);
  assert.deepEqual([r.status, r.headers.get('X-Outbox-Unsaved'), r.headers.get('X-Outbox-Queued'), r.headers.get('HX-Reswap')], [507, '1', null, 'none']);
  assert.equal(respond({ kind: 'unsaved' }, nav, null, cfg).status, 204);
});

test('the server\'s answer passes with its status, headers and bytes', async () => {
  const r = respond(answer(201, { 'HX-Trigger': 'saved', 'Content-Type': 'text/html', 'Content-Encoding': 'gzip', 'Content-Length': '9' }, '<li>ы</li>'), asked, null, cfg);
  assert.deepEqual([r.status, r.headers.get('HX-Trigger'), r.headers.get('Content-Encoding'), r.headers.get('Content-Length')], [201, 'saved', null, null]);
  assert.equal(await r.text(), '<li>ы</li>');
  for (const status of [204, 205, 304]) assert.equal(respond(answer(status), asked, null, cfg).status, status);
  assert.equal(respond(answer(0), asked, null, cfg).type, 'error');
});

test('a redirect that Edge has hidden is one again, without the announcement\'s fragment', () => {
  const to = (/** @type {string} */ l, more = {}) => {
    const r = respond(answer(200, { 'Outbox-Location': l, ...more }), nav, null, cfg);
    return [r.status, r.headers.get('Location')];
  };
  assert.deepEqual(to('/today'), [303, 'https://app.test/today#outbox-']);
  assert.deepEqual(to('/today#task-5'), [303, 'https://app.test/today#task-5']);
  assert.deepEqual(to('today?x=1'), [303, 'https://app.test/today?x=1#outbox-']);
  assert.deepEqual(to('/other', { 'Outbox-Redirect-Status': '307' }), [307, 'https://app.test/other#outbox-']);
});
