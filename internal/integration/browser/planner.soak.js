// @ts-check
// `make soak`: the soak of soak.test.js, longer, and with a new seed each time.
//
//   SOAK_TAPS  taps of each run (1000)
//   SOAK_RUNS  runs (3)
//   SOAK_SEED  the first run's seed, to see a run again
//
// It ends with 1 if anything was lost, doubled, reordered or foreign.
import { open } from './engines.js';
import { soak, sum, table } from './soak.js';

const number = (/** @type {string} */ name, /** @type {number} */ otherwise) => Number(process.env[name] || otherwise);
const taps = number('SOAK_TAPS', 1000);
const runs = number('SOAK_RUNS', 3);
const first = number('SOAK_SEED', Math.floor(Math.random() * 1e9));

const browser = /** @type {import('./chromium.js').Chromium} */ (await open('chromium'));
let harm = 0;
try {
  for (let seed = first; seed < first + runs; seed++) {
    console.log(`SOAK_SEED=${seed} SOAK_TAPS=${taps}`);
    const result = await soak(browser, { seed, taps, atLeast: 10 });
    console.log(`${table(result)}\n${sum('the database', result.database)}\n${sum('what was done', result.effects)}\n`);
    for (const line of [result.database, result.effects].flatMap(v => Object.values(v).flat())) {
      harm++;
      console.log(`  ${line}`);
    }
  }
  const off = await soak(browser, { seed: first, taps: 60, atLeast: 0, onceward: 'guard off' });
  console.log(sum('guard off', off.database));
  const bare = await soak(browser, { seed: first, taps: 60, atLeast: 0, onceward: 'outbox off' });
  console.log(sum('outbox off', bare.database));
  if (off.database.doubled.length === 0 || bare.database.lost.length === 0) {
    harm++;
    console.log('the controls show nothing: the judge is blind');
  }
} finally {
  await browser.close();
}
process.exit(harm ? 1 : 0);
