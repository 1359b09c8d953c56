// @ts-check
// A thread of model.test.js. Apart from the test, because time and chance are the
// simulated browser's here, and because the test runner makes promises slow.

import { parentPort } from 'node:worker_threads';
import { takeOverTime } from './sim.browser.js';
import { run, schedule, shrink } from './sim.schedule.js';

run.clock = takeOverTime();

/**
 * @typedef {object} Job
 * @property {number[]} [seeds] lives to be lived
 * @property {string} [mutant] what is taken out
 * @property {boolean} [whole] a life that fails is not made shorter
 * @property {import('./sim.schedule.js').Step[]} [steps] in the place of the seeds' own
 * @property {import('./sim.schedule.js').Step[]} [deaths] in this, the worker is
 *   ended at its first step, at its second, … until it outlives the whole of it
 * @property {string[]} [kinds] the engines for that, in turn
 */

/** @param {Job} job */
async function work({ seeds = [], mutant = '', whole, steps, deaths, kinds = [] }) {
  /** @type {Record<string, number>} */
  const sum = { lives: 0 };
  /** @type {{seed: number, error: string, steps: any[]} | null} */
  let failure = null;
  /** @param {import('./sim.schedule.js').Step[]} list @param {number} seed */
  const live = async (list, seed) => {
    const { error, sum: more } = await run(list, { seed, mutant });
    sum.lives++;
    for (const [name, n] of Object.entries(more)) sum[name] = (sum[name] ?? 0) + n;
    if (error) failure = { seed, error, steps: whole ? list : await shrink(list, { seed, mutant }) };
    return more.deaths;
  };
  for (const seed of seeds) if (!failure) await live(steps ?? schedule(seed), seed);
  for (const [i, kind] of kinds.entries()) {
    for (let n = i, died = 1; deaths && died && !failure; n += kinds.length) {
      died = await live([{ do: 'browser', kind }, { do: 'die', after: n }, ...deaths], 1);
    }
  }
  return { failure, sum };
}

parentPort?.on('message', async (/** @type {Job} */ job) => parentPort?.postMessage(await work(job)));
