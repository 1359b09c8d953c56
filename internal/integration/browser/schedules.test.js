// @ts-check
// Random schedules on real engines: 300 on Chromium and 50 on each of the others
// with ONCEWARD_BROWSERS=all; else a few on Chromium, so that they still run.
// A failure names its seed: ONCEWARD_ENGINE=firefox ONCEWARD_SEED=17 shows it again,
// as far as a browser does the same twice. ONCEWARD_SCHEDULES is how many. B130,
// B143, B161; R19, R20, R23, R24.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { open } from './engines.js';
import { mortal, none, openSchedules, total } from './schedules.js';

const { ONCEWARD_BROWSERS, ONCEWARD_ENGINE, ONCEWARD_SEED, ONCEWARD_SCHEDULES } = process.env;
const one = !!ONCEWARD_SEED;
const all = ONCEWARD_BROWSERS === 'all';
const first = Number(ONCEWARD_SEED || 1);

/** @type {Record<import('./engines.js').Engine, number>} */
const counts = { chromium: all ? 300 : 3, firefox: all ? 50 : 0, webkit: all ? 50 : 0 };

describe('random schedules', { concurrency: true }, () => {
  for (const engine of /** @type {const} */ (['chromium', 'firefox', 'webkit'])) {
    const n = Number(ONCEWARD_SCHEDULES || (one ? 1 : counts[engine]));
    if (ONCEWARD_ENGINE ? ONCEWARD_ENGINE !== engine : n === 0) continue;
    test(`${engine}: whatever happens on one phone, what was meant is done, once, in order and as the right person`, async () => {
      const browser = await open(engine, engine === 'firefox' ? { prefs: mortal } : {});
      const schedules = await openSchedules(browser);
      /** @type {import('./schedules.js').Lived[]} */
      const lives = [];
      /** @type {string[]} */
      const wrong = [];
      const begun = performance.now();
      try {
        for (let seed = first; seed < first + n; seed++) {
          try {
            const life = await schedules.live(seed);
            lives.push(life);
            if (life.seed % 10 === 0) console.log(`schedules ${engine}: seed ${seed} after ${Math.round((performance.now() - begun) / 1000)} s`);
            if (total([life]) !== none) wrong.push(`seed ${seed}: ${JSON.stringify({ database: life.database, effects: life.effects })}\n${life.story}`);
          } catch (error) {
            wrong.push(`seed ${seed}: ${error instanceof Error ? error.stack : error}`);
          }
          if (wrong.at(-1)?.startsWith(`seed ${seed}:`)) console.log(wrong.at(-1));
          if (wrong.length >= 5) break; // of what goes wrong each time, five are enough
        }
      } finally {
        await schedules.close();
        await browser.close();
      }
      const did = lives.flatMap(l => Object.entries(l.did)).reduce((/** @type {Record<string, number>} */ sum, [what, k]) => ({ ...sum, [what]: (sum[what] ?? 0) + k }), {});
      const wishes = lives.reduce((sum, l) => sum + l.wishes, 0);
      console.log(
        `schedules ${engine}: ${lives.length} of seeds ${first}–${first + n - 1} in ${Math.round((performance.now() - begun) / 1000)} s, ${wishes} wishes, ` +
          `${Object.entries(did).map(([what, k]) => `${what} ${k}`).join(', ')}: ${total(lives)}`,
      );
      assert.deepEqual(wrong, []);
      assert.equal(lives.length, n);
      assert.equal(total(lives), none);
    });
  }
});
