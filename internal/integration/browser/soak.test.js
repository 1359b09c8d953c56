// @ts-check
// The whole thing at once: what two people tap over a network that lies comes to
// pass exactly once, in order and as the right person. And what it is without
// either half of Onceward, judged by the same judges. A longer one is
// `make soak`.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { open } from './engines.js';
import { deck, generator, kinds, share } from './deck.js';
import { soak, sum, table } from './soak.js';

const none = { lost: [], doubled: [], reordered: [], foreign: [] };
const seed = Number(process.env.SOAK_SEED ?? 20261129);

/** So that a line which stops goes on soon, and the run takes a minute. `make soak` has the real ones. */
const limits = { softLimit: 3000, backoff: 400, backoffVisible: 4000, kickEvery: 2000 };

/** @type {import('./chromium.js').Chromium} */
let browser;
before(async () => {
  browser = /** @type {any} */ (await open('chromium'));
});
after(() => browser?.close());

test('every fault comes equally often, and three requests of ten meet one', () => {
  const cards = deck(generator(seed), 4700);
  const faulty = cards.filter(card => card !== 'pass');
  assert.equal(Math.round((100 * faulty.length) / cards.length), share);
  for (const [name, faults] of Object.entries(kinds)) assert.equal(faulty.filter(card => faults.includes(card)).length, 100, name);
  assert.deepEqual(deck(generator(seed), 4700), cards);
  assert.notDeepEqual(deck(generator(seed + 1), 4700), cards);
});

// Requirements 3 and 6; W2, W11, R20, R23, R24.
test('200 taps of two people in three tabs over a network with thirty percent faults', async () => {
  const result = await soak(browser, { seed, taps: 200, atLeast: 10, limits });
  console.log(`seed ${seed}: ${table(result)}\n${sum('the database', result.database)}\n${sum('what was done', result.effects)}`);
  assert.deepEqual(result.database, none);
  assert.deepEqual(result.effects, none);
  assert.equal(result.executed, result.wishes);
  assert.ok(result.taps >= 200);
  assert.ok(Object.values(result.faults).every(n => n >= 10));
});

test('without the guard, what is sent again is done again', async () => {
  const result = await soak(browser, { seed, taps: 40, atLeast: 0, onceward: 'guard off' });
  console.log(sum('guard off: the database', result.database));
  assert.ok(result.database.doubled.length > 0);
  assert.equal(result.database.lost.length, 0);
});

test('without the outbox, taps are lost', async () => {
  const result = await soak(browser, { seed, taps: 40, atLeast: 0, onceward: 'outbox off' });
  console.log(`${sum('outbox off: the database', result.database)}\n${sum('outbox off: what was done', result.effects)}`);
  assert.ok(result.database.lost.length > 0);
  assert.ok(result.effects.lost.length > 0);
  assert.equal(result.database.doubled.length, 0);
});
