// @ts-check
import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { createFlights } from './flight.js';

const drain = async () => {
  for (let i = 0; i < 20; i++) await Promise.resolve();
};

/** A page with a worker that does what it is told to. */
function make() {
  const p = {
    said: /** @type {string[]} */ ([]),
    put: /** @type {string[]} */ ([]),
    sent: /** @type {string[]} */ ([]),
    closed: /** @type {string[]} */ ([]),
    expected: 0,
    stored: new Map(),
    /** @type {(url: string) => Promise<Response>} */
    net: async () => new Response('ok'),
    flights: /** @type {ReturnType<typeof createFlights>} */ (/** @type {any} */ (null)),
    /** @param {string} key */
    async begin(key) {
      p.flights.begin({ key, el: `row-${key}`, asker: /** @type {any} */ ({}), swap: 'outerHTML #x' });
      await p.flights.turn(key, `/${key}`, {});
    },
    /** @param {string} key @param {number} status @param {Record<string, string>} [headers] */
    heard: (key, status, headers = {}) => p.flights.heard(key, status, (n) => new Headers(headers).get(n)),
  };
  p.flights = createFlights({
    cfg: { softLimit: 1_000, queuedHeader: 'X-Outbox-Queued' },
    send: async (url) => {
      p.sent.push(url);
      return p.net(url);
    },
    find: async (key) => p.stored.get(key),
    say: (kind, who, { key }) => p.said.push(`${kind} ${key ? who.el : 'of nothing'}`),
    put: async (event) => {
      p.put.push(event.html);
      return null;
    },
    answered: (key) => p.closed.push(key),
    expect: () => p.expected++,
  });
  return p;
}
const delivered = (/** @type {any} */ more) => ({ kind: 'delivered', el: 'row-k', key: 'k', html: '<li>', status: 200, ...more });

test('an answer at once: nothing is said, nothing is put, whichever comes first', async () => {
  for (const first of ['answer', 'message']) {
    const p = make();
    await p.begin('k');
    if (first === 'message') p.flights.tell(delivered({ live: true }));
    assert.equal(p.heard('k', 200, { 'Idempotency-Status': 'executed' }), false);
    if (first === 'answer') p.flights.tell(delivered({ live: true }));
    await drain();
    assert.deepEqual([p.said, p.put, p.closed.includes('k')], [[], [], true], first);
  }
});

test('queued, then delivered: said twice, put once', async () => {
  const p = make();
  await p.begin('k');
  assert.equal(p.heard('k', 202, { 'X-Outbox-Queued': '1' }), true);
  p.flights.tell(delivered({ live: false }));
  await drain();
  assert.deepEqual([p.said, p.put], [['queued row-k', 'delivered row-k'], ['<li>']]);
});

test('what another page asked for, or this one before it was reloaded, is put when it comes late, not when it was answered at once', async () => {
  const p = make();
  p.flights.tell(delivered({ live: false }));
  p.flights.tell(delivered({ live: true }));
  p.flights.tell({ kind: 'unsaved', key: 'k' });
  await drain();
  assert.deepEqual([p.said, p.put], [['delivered row-k'], ['<li>']]);
});

test('what the page before asked for is late here, and not what this one asked for too, under the same name or before the clock was set back', async () => {
  const p = make();
  p.flights.tell(delivered({ live: true, createdAt: 1 }), true);
  p.flights.tell(delivered({ live: true, nav: true }), true);
  await drain();
  assert.deepEqual([p.said, p.put], [['delivered row-k'], ['']]);
  for (const first of ['answer', 'message']) {
    const q = make();
    await q.begin('k');
    if (first === 'message') q.flights.tell(delivered({ live: true }), true);
    q.heard('k', 200, { 'Idempotency-Status': 'executed' });
    if (first === 'answer') q.flights.tell(delivered({ live: true }), true);
    await drain();
    assert.deepEqual([q.said, q.closed.includes('k')], [[], true], first);
  }
});

test('what is told of a form of a page that was left does not close its wish, should the page come back: sent unchanged it is the same', async () => {
  const p = make();
  p.flights.begin({ key: 'k', el: 'row-k', asker: /** @type {any} */ ({}), swap: '' }, true);
  p.flights.tell(delivered({ live: false }));
  await drain();
  assert.deepEqual([p.closed, p.said], [[], []]);
});

test('a refusal is said to the element, at once or late', async () => {
  for (const live of [true, false]) {
    const p = make();
    await p.begin('k');
    p.heard('k', live ? 422 : 202, live ? { 'Idempotency-Status': 'executed' } : { 'X-Outbox-Queued': '1' });
    p.flights.tell({ kind: 'refused', key: 'k', el: 'row-k', status: 422, text: 'no', live });
    await drain();
    assert.equal(p.said.at(-1), 'refused row-k');
    assert.deepEqual(p.put, []);
  }
});

test('4.5.6, 0.1: rejected, and the entry is there: it waits, and nobody is shown an error', async () => {
  const p = make();
  await p.begin('k');
  p.stored.set('k', { state: 'sending' });
  const r = await p.flights.rejected('k');
  assert.equal(r?.status, 202);
  assert.deepEqual([p.said, p.sent], [['queued row-k'], []]);
  p.flights.tell(delivered({ live: true }));
  await drain();
  assert.deepEqual([p.said.at(-1), p.put], ['delivered row-k', ['<li>']]);
});

test('rejected, and what is stored has left the line: nobody is told that it waits', async () => {
  for (const state of ['refused', 'ask']) {
    const p = make();
    await p.begin('k');
    p.stored.set('k', { state });
    assert.equal((await p.flights.rejected('k'))?.status, 202);
    assert.deepEqual([p.said, p.sent], [[], []], state);
    p.flights.tell({ kind: 'refused', key: 'k', el: 'row-k', status: 422, text: 'no', live: true });
    await drain();
    assert.deepEqual(p.said, ['refused row-k'], state);
  }
});

test('rejected, and the answer was told already', async () => {
  const p = make();
  await p.begin('k');
  p.flights.tell(delivered({ live: true }));
  assert.equal((await p.flights.rejected('k'))?.status, 202);
  assert.deepEqual([p.said, p.put, p.sent], [['delivered row-k'], ['<li>'], []]);
});

test('rejected, and nothing has it: it goes once more under its name', async () => {
  const p = make();
  await p.begin('k');
  p.net = async () => new Response('<li>again', { headers: { 'Content-Type': 'text/html' } });
  const r = await p.flights.rejected('k');
  assert.equal(await r?.text(), '<li>again');
  assert.deepEqual([p.sent, p.said, p.put], [['/k'], ['delivered row-k'], ['<li>again']]);
  p.flights.tell(delivered({ live: true }));
  await drain();
  assert.equal(p.put.length, 1);
});

test('rejected, goes once more, and waits then', async () => {
  const p = make();
  await p.begin('k');
  p.net = async () => new Response('', { status: 202, headers: { 'X-Outbox-Queued': '1' } });
  assert.equal((await p.flights.rejected('k'))?.status, 202);
  assert.deepEqual(p.said, ['queued row-k']);
});

test('rejected for good: the person is told that it is not kept', async () => {
  const p = make();
  await p.begin('k');
  p.net = () => Promise.reject(new TypeError('Failed to fetch'));
  assert.equal(await p.flights.rejected('k'), null);
  assert.deepEqual([p.said, p.sent.length], [['unsaved row-k'], 3]);
  assert.equal(await p.flights.rejected('k'), undefined, 'once');
});

test('unsaved is said once, by the answer or by the message', async () => {
  for (const first of ['answer', 'message']) {
    const p = make();
    await p.begin('k');
    if (first === 'message') p.flights.tell({ kind: 'unsaved', key: 'k' });
    assert.equal(p.heard('k', 507, { 'X-Outbox-Unsaved': '1' }), true);
    if (first === 'answer') p.flights.tell({ kind: 'unsaved', key: 'k' });
    await drain();
    assert.deepEqual(p.said, ['unsaved row-k'], first);
    assert.deepEqual(p.closed, [], 'it may have been done: pressed again, it is the same wish');
  }
});

test('one goes out when the one before it is put down, answered, or lost for good', async () => {
  for (const how of ['placed', 'answered', 'lost']) {
    const p = make();
    await p.begin('k');
    let out = false;
    const second = p.begin('l').then(() => (out = true));
    await drain();
    assert.equal(out, false, how);
    if (how === 'placed') p.flights.placed('k');
    if (how === 'answered') p.heard('k', 200);
    if (how === 'lost') {
      p.stored.set('k', { state: 'waiting' });
      await p.flights.rejected('k');
    }
    await second;
  }
});

test('a page says "it waits" by itself when the worker has ended, and only of what is stored', async () => {
  mock.timers.enable({ apis: ['setTimeout'] });
  try {
    const p = make();
    for (const key of ['k', 'l', 'm']) p.flights.begin({ key, el: `row-${key}`, asker: /** @type {any} */ ({}) });
    p.stored.set('k', { state: 'sending' });
    p.stored.set('m', { state: 'sending' });
    p.heard('m', 200);
    mock.timers.tick(1_200);
    await drain();
    assert.deepEqual(p.said, ['queued row-k']);
    // The answer comes after all: it is shown by who waited for it.
    assert.equal(p.heard('k', 200, { 'Idempotency-Status': 'executed' }), false);
    p.flights.tell(delivered({ live: true }));
    await drain();
    assert.deepEqual([p.said, p.put], [['queued row-k', 'delivered row-k'], []]);
  } finally {
    mock.timers.reset();
  }
});

test('a form on its way: "not kept" is said at once, what was done is known when the page still stands', async () => {
  const p = make();
  for (const key of ['k', 'l']) p.flights.begin({ key, el: `row-${key}`, asker: /** @type {any} */ ({}) }, true);
  p.flights.tell({ kind: 'unsaved', key: 'k' });
  p.flights.tell(delivered({ key: 'l', el: 'row-l', live: false, html: '' }));
  await drain();
  assert.deepEqual(p.said, ['unsaved row-k']);
  assert.equal(await p.flights.rejected('k'), undefined);
  assert.equal((await p.flights.rejected('l'))?.status, 202);
});

test('a proxy\'s answer and "still in progress" leave the intent open', async () => {
  const p = make();
  for (const [status, word] of /** @type {[number, string][]} */ ([[502, ''], [409, 'in-progress;key="k"'], [503, 'unavailable']])) {
    await p.begin('k');
    p.heard('k', status, { 'Idempotency-Status': word });
  }
  assert.deepEqual(p.closed, []);
});

test('two requests of one name that fail together have one answer; one that fails after the other was told "it waits" waits too', async () => {
  const p = make();
  await p.begin('k');
  p.stored.set('k', { state: 'waiting' });
  const both = await Promise.all([p.flights.rejected('k'), p.flights.rejected('k')]);
  assert.deepEqual(await Promise.all(both.map((r) => r?.json())), [{ outbox: 'queued', key: 'k' }, { outbox: 'queued', key: 'k' }]);
  assert.deepEqual(p.said, ['queued row-k']);

  const q = make();
  await q.begin('k');
  q.stored.set('k', { state: 'waiting' });
  q.heard('k', 202, { 'X-Outbox-Queued': '1' });
  assert.equal((await q.flights.rejected('k'))?.status, 202);
  assert.deepEqual([q.said, q.expected > 0], [['queued row-k'], true]);

  const r = make();
  await r.begin('k');
  r.net = async () => new Response('done');
  const texts = await Promise.all([r.flights.rejected('k'), r.flights.rejected('k')].map(async (p) => (await p)?.text()));
  assert.deepEqual([texts, r.sent], [['done', 'done'], ['/k']], 'it went once more for each');
});

test('what follows a form, which goes out at once, does not overtake what that one did not wait for', async () => {
  const p = make();
  const out = /** @type {string[]} */ ([]);
  for (const key of ['a', 'b', 'form', 'c']) {
    p.flights.begin({ key, el: '', asker: /** @type {any} */ ({}) }, key === 'form');
    void p.flights.turn(key, '/', {}).then(() => out.push(key));
  }
  p.flights.placed('form');
  await new Promise((ok) => setImmediate(ok));
  assert.deepEqual(out, ['a']);
  p.flights.placed('a');
  await new Promise((ok) => setImmediate(ok));
  p.flights.placed('b');
  await new Promise((ok) => setImmediate(ok));
  assert.deepEqual(out, ['a', 'b', 'form', 'c']);
  for (const key of ['a', 'b', 'form', 'c']) p.heard(key, 200);
});

test('W15: a form that was answered, by a download or with 204, keeps its page: nothing has it sent again, loaded anew or stopped', async () => {
  const p = make();
  p.flights.begin({ key: 'k', el: 'row-k', asker: /** @type {any} */ ({}) }, true);
  void p.flights.turn('k', '/k', {});
  p.flights.tell(delivered({ live: true, status: 204, html: '' }));
  await drain();
  assert.deepEqual([await p.flights.rejected('k'), p.sent, p.said, p.closed], [undefined, [], [], ['k']]);
});

test('the same intent once more, before a slow worker has put the first down, holds nobody up', async () => {
  const p = make();
  const out = /** @type {string[]} */ ([]);
  for (const [i, key] of ['k', 'k', 'l'].entries()) {
    p.flights.begin({ key, el: '', asker: /** @type {any} */ ({}) });
    void p.flights.turn(key, '/', {}).then(() => out.push(key + i));
  }
  await drain();
  assert.deepEqual(out, ['k0', 'k1']);
  p.flights.placed('k');
  await drain();
  assert.deepEqual(out, ['k0', 'k1', 'l2']);
});
