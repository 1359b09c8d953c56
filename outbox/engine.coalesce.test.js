// @ts-check
// Coalescing: of neighbours of one group that were never sent the last one is kept.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { world } from './sim.js';

/** @param {any} w */
const bodies = (w) => w.server.effects.map((/** @type {any} */ e) => e.body);

/** @param {ReturnType<typeof world>} w @param {any} a @param {string} net */
async function stopped(w, a, net = '502') {
  w.net = net;
  a.tap('first');
  await w.clock.go(10);
}

test('scenario 25: of wishes of one group that wait side by side the last one is sent, and the pages are told of the others', async () => {
  for (const coalesce of ['row', '']) {
    const w = world();
    const a = w.program();
    await stopped(w, a);
    const taps = ['done', 'undo', 'done again'].map((b) => a.tap(b, { coalesce, key: b }));
    await w.clock.go(10);
    assert.deepEqual(taps.map((t) => t.result.kind), ['queued', 'queued', 'queued']);
    assert.equal((await a.outbox.state()).pending, coalesce ? 2 : 4);
    assert.equal(w.disk.bodies.size, coalesce ? 2 : 4);
    assert.deepEqual(w.told.flatMap((m) => m.events).map((e) => `${e.kind} ${e.key}`), coalesce ? ['superseded done', 'superseded undo'] : []);
    w.net = 'ok';
    void a.outbox.flush(true);
    await w.clock.go(10);
    assert.deepEqual([bodies(w), w.entries()], [coalesce ? ['first', 'done again'] : ['first', 'done', 'undo', 'done again'], []]);
  }
});

test('4.8: what was sent once, or is not the neighbour, or is another group\'s or another person\'s, is never given up', async () => {
  const w = world();
  const a = w.program();
  w.net = 'refuse'; // nobody knows whether this one was done
  a.tap('done', { coalesce: 'row' });
  await w.clock.go(10);
  a.tap('undo', { coalesce: 'row' });
  await w.clock.go(10);
  a.tap('other', { coalesce: 'other' });
  a.tap('none');
  a.tap('redo', { coalesce: 'row' });
  await w.clock.go(10);
  await a.outbox.greet({ owner: 'B', since: w.clock.now() });
  a.tap('of B', { coalesce: 'row', owner: 'B' });
  await w.clock.go(10);
  assert.equal(w.entries().length, 6);
});

test('4.8: a wish whose place was taken while its page waited for the answer of the one before it is answered "it waits", not never', async () => {
  const w = world();
  const a = w.program();
  await stopped(w, a, 'slow');
  const t = a.tap('done', { coalesce: 'row' });
  await w.clock.go(1_000);
  assert.ok(!t.result);
  const last = a.tap('undo', { coalesce: 'row' });
  await w.clock.go(10);
  assert.equal(t.result?.kind, 'queued');
  w.net = 'ok';
  await w.clock.go(10_000);
  assert.deepEqual([last.result.kind, bodies(w)], ['answer', ['first', 'undo']]);
});

test('4.8, 0.1: a browser that gives such a request to the next worker does not bring the wish back behind the later one', async () => {
  const w = world();
  const a = w.program();
  await stopped(w, a);
  a.tap('done', { coalesce: 'row', key: 'd' });
  await w.clock.go(10);
  a.tap('undo', { coalesce: 'row', key: 'u' });
  await w.clock.go(10);
  a.end();
  const b = w.program();
  const t = b.tap('done', { coalesce: 'row', key: 'd' });
  await w.clock.go(10);
  assert.equal(t.result.kind, 'queued');
  const last = w.told.flatMap((m) => m.events).at(-1);
  assert.deepEqual([last.kind, last.key], ['superseded', 'd']);
  w.net = 'ok';
  void b.outbox.flush(true);
  await w.clock.go(10);
  assert.deepEqual(bodies(w), ['first', 'undo']);
});
