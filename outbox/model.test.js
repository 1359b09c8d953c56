// @ts-check
// Random lives of a browser: taps, faults, workers ended between any two of their
// steps, tabs, killed browsers, people who change, deploys, upgrades, stores that
// fail. Then the network is good, and what the server did is held against what was
// tapped and what people were told. A failure prints what to run it again with.
//
//   MODEL_LIVES=10000 node --test outbox/model.test.js
//   SEED=17 node --test outbox/model.test.js
//   SEED=17 STEPS='[{"do":"tap"}]' node --test outbox/model.test.js

import assert from 'node:assert/strict';
import { availableParallelism } from 'node:os';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';

// sim.schedule.js is not loaded here: it belongs to a thread whose time is not real.
const mutants = {
  'write-ahead': /./,
  lock: /./,
  'acknowledgement check': /I5|lost|before it is/,
  'owner check': /I6|foreign/,
  'the server’s owner check': /foreign|I5|doubled/,
  'page timer': /stuck/,
  guard: /doubled/,
};
const { SEED, STEPS, MODEL_LIVES } = process.env;
const all = Number(MODEL_LIVES ?? 500);

/** @typedef {{failure: {seed: number, error: string, steps: any[]} | null, sum: Record<string, number>}} Result */

/** @type {{job: import('./sim.thread.js').Job, ok: (r: Result) => void, no: (e: any) => void}[]} */
const jobs = [];
const threads = Math.min(availableParallelism(), 8);

/** One thread, which takes one job after another. */
function work() {
  const next = jobs.shift();
  if (!next) return;
  const w = new Worker(new URL('sim.thread.js', import.meta.url));
  let { job, ok, no } = next;
  w.on('message', (result) => {
    ok(result);
    const more = jobs.shift();
    if (!more) return void w.terminate();
    ({ job, ok, no } = more);
    w.postMessage(job);
  });
  const limit = setTimeout(() => w.terminate(), MODEL_LIVES ? 3_600_000 : 110_000);
  w.on('error', (e) => no(e));
  w.on('exit', () => {
    clearTimeout(limit);
    no(new Error('the thread ended without a result'));
  });
  w.postMessage(job);
}

/** @param {import('./sim.thread.js').Job} job @returns {Promise<Result>} */
const run = (job) => new Promise((ok, no) => jobs.push({ job, ok, no }));

/** @param {Result} result */
function held({ failure }) {
  assert.ok(!failure, failure ? `${failure.error}\n  SEED=${failure.seed} STEPS='${JSON.stringify(failure.steps)}' node --test outbox/model.test.js` : '');
}

/** @param {Record<string, number>[]} sums */
const total = (sums) =>
  sums.reduce((all, one) => {
    for (const [name, n] of Object.entries(one)) all[name] = (all[name] ?? 0) + n;
    return all;
  }, {});

const from1 = (/** @type {number} */ n) => Array.from({ length: n }, (_, i) => i + 1);
const seeds = SEED ? [Number(SEED)] : from1(all);
const parts = Array.from({ length: SEED ? 1 : threads }, (_, n) => run({ seeds: seeds.filter((_, i) => i % threads === n || SEED), steps: STEPS ? JSON.parse(STEPS) : undefined }));

test(`I1–I7 in ${seeds.length} random lives: lost=0 doubled=0 reordered=0 foreign=0`, async (t) => {
  const results = await Promise.all(parts);
  const sum = total(results.map((r) => r.sum));
  t.diagnostic(JSON.stringify(sum));
  results.forEach(held);
  if (SEED) return;
  for (const [what, least] of Object.entries({ taps: 2, deaths: 0.3, requests: 2 })) assert.ok(sum[what] >= least * all, `${sum[what]} ${what} in ${all} lives`);
});

if (!SEED) {
  for (const [mutant, error] of Object.entries(mutants)) {
    const result = run({ seeds: from1(1_000), mutant, whole: true });
    test(`without ${mutant} it is found out within 1,000 lives`, async (t) => {
      const { failure, sum } = await result;
      assert.ok(failure, 'nobody has noticed');
      t.diagnostic(`after ${sum.lives}: ${failure.error}`);
      assert.match(failure.error, error);
    });
  }

  const short = run({ seeds: from1(100), mutant: 'guard' });
  test('a life that fails is made as short as it gets, and fails in the same way', async (t) => {
    const { failure } = await short;
    assert.ok(failure);
    t.diagnostic(JSON.stringify(failure));
    // Without a guard it takes one tap, and one answer that does not come.
    assert.ok(failure.steps.length <= 3 && failure.steps.some((s) => s.do === 'tap'), JSON.stringify(failure.steps));
    assert.match(failure.error, /doubled/);
  });

  // What the lives have found, as short as it became.
  for (const [name, seed, steps] of /** @type {[string, number, any[]][]} */ ([
    ['a page whose first kick ended the worker kicks again', 276, [{ do: 'net', how: 'firewall' }, { do: 'tap', nav: true }, { do: 'wait', ms: 128 }, { do: 'die', after: 3 }, { do: 'net', how: 'ok' }, { do: 'wait', ms: 109_777 }]],
    ['a page that was told "it waits" kicks, though the worker ended before it told the state', 367, [{ do: 'die', after: 16 }, { do: 'fault', how: ['502', 'very slow', 'cut'] }, { do: 'tap', bad: true }]],
    ['a page that was answered kicks, if the worker ended before it took the entry out', 949, [{ do: 'wait', ms: 9_925 }, { do: 'die', after: 10 }, { do: 'tap', tab: 2 }]],
    ['a page goes on asking while the store cannot be read', 2009, [{ do: 'tap', tab: 2 }, { do: 'store', how: 'fail' }, { do: 'wait', ms: 8_120 }]],
    ['what a page without the worker keeps is known to the others when it is closed', 1235, [{ do: 'open', controlled: false }, { do: 'tap', tab: 2, nav: true }, { do: 'net', how: '503' }, { do: 'wait', ms: 292 }, { do: 'tap', tab: 0 }, { do: 'login', tab: 0, who: 'A' }, { do: 'wait', ms: 1_946 }]],
    ['a login is seen by a clock that was set back since', 804, [{ do: 'expire' }, { do: 'tap', tab: 1, nav: true }, { do: 'clock', ms: -259_200_000 }]],
    ['a big one is not left to a page that the upgraded store is closed to', 1499, [{ do: 'fault', how: ['very slow'] }, { do: 'tap', big: true }, { do: 'update', db: true }]],
    ['one that was done, and comes again because its worker ended, is none that a later wish takes the place of', 985, [{ do: 'tap', tab: 1, group: 'h' }, { do: 'tap', tab: 2, nav: true, big: true }, { do: 'update', db: true }, { do: 'tap', tab: 1, group: 'g' }, { do: 'tap', tab: 1, group: 'g' }, { do: 'tap', tab: 1, group: '' }, { do: 'die', after: 30 }, { do: 'tap', tab: 1, group: '' }, { do: 'wait', ms: 30_705 }]],
    ['the same wish once more was answered: "it waits", said of the first, is no delivery', 692, [{ do: 'browser', kind: 'webkit', few: 0 }, { do: 'store', how: 'slow' }, { do: 'tap', tab: 2, big: true, group: 'h' }, { do: 'tap', tab: 1, group: '' }, { do: 'open', controlled: false }, { do: 'tap', tab: 2, bad: true, again: true, big: true, group: '' }, { do: 'wait', ms: 6317 }, { do: 'update', db: false }, { do: 'tap', tab: 1, group: 'h' }]],
    ['what was called "not saved" is not kept later', 1721, [{ do: 'store', how: 'slow' }, { do: 'fault', how: ['500', 'refuse'] }, { do: 'tap', tab: 2, nav: true }, { do: 'wait', ms: 11_811 }]],
  ])) {
    const result = run({ seeds: [seed], steps });
    test(name, async () => held(await result));
  }

  // So seldom by chance that it has a life of its own.
  const resent = [{ do: 'browser', kind: 'firefox' }, { do: 'open' }, { do: 'fault', how: ['blackhole'] }, { do: 'tap', tab: 0, nav: true }, { do: 'login', tab: 1, who: 'B', unseen: true }, { do: 'wait', ms: 100 }, { do: 'die', after: 0 }, { do: 'kick', tab: 0 }, { do: 'wait', ms: 5_000 }];
  const [kept, unread] = ['', 'the owner in a form’s key'].map((mutant) => run({ seeds: from1(5), steps: resent, mutant, whole: true }));
  test('a form that Firefox sends again by itself is not done as whoever has logged in meanwhile; a server that does not read the owner in its key is found out', async () => {
    held(await kept);
    const { failure } = await unread;
    assert.match(failure?.error ?? 'nobody has noticed', /foreign|doubled/);
  });

  const kinds = ['chromium', 'firefox', 'webkit'];
  const after = { do: 'wait', ms: 15_000 };
  const scenarios = {
    'a tap': [{ do: 'tap' }, after],
    'a form': [{ do: 'tap', nav: true }, after],
    'a refusal': [{ do: 'tap', bad: true }, { do: 'tap' }, after],
    'an answer that is cut off': [{ do: 'fault', how: ['cut'] }, { do: 'tap' }, after],
    'a deploy, and three taps': [{ do: 'net', how: '502' }, { do: 'tap' }, { do: 'tap', nav: true }, { do: 'tap' }, { do: 'wait', ms: 3_000 }, { do: 'net', how: 'ok' }, { do: 'online' }, after],
    'a slow answer, and a page without the worker': [{ do: 'open', controlled: false }, { do: 'fault', how: ['slow'] }, { do: 'tap', tab: 0 }, { do: 'tap', tab: 1 }, after],
    'a login in the middle of a flush': [{ do: 'net', how: 'refuse' }, { do: 'tap' }, { do: 'tap' }, { do: 'net', how: 'slow' }, { do: 'open' }, { do: 'wait', ms: 1_000 }, { do: 'login', tab: 1, who: 'B' }, after],
    'a new version in the middle of a flush': [{ do: 'net', how: '502' }, { do: 'tap' }, { do: 'tap' }, { do: 'net', how: 'slow' }, { do: 'online' }, { do: 'wait', ms: 500 }, { do: 'update', db: true }, after],
  };
  for (const [name, steps] of Object.entries(scenarios)) {
    // Each step in one of the engines; in the long run, in each.
    const ended = (MODEL_LIVES ? kinds.map((k) => [k]) : [kinds]).map((kinds) => run({ deaths: steps, kinds }));
    test(`the worker is ended at every one of its steps: ${name}`, async (t) => {
      const results = await Promise.all(ended);
      results.forEach(held);
      const sum = total(results.map((r) => r.sum));
      t.diagnostic(JSON.stringify(sum));
      assert.ok(sum.deaths >= 20, `it was ended ${sum.deaths} times`);
    });
  }
}

for (let i = 0; i < threads; i++) work();
