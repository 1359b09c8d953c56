// @ts-check
// Releases and crashes under real clicks: the planner is stopped and killed in
// turn while two people tap. What a deploy looks like to a client is a network
// that refuses; the one difference is that here a request may die within the
// planner. internal/integration/deploys does the same with many more requests.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { open } from './engines.js';
import { sleep } from './processes.js';
import { soak, sum, table } from './soak.js';

const none = { lost: [], doubled: [], reordered: [], foreign: [] };

/** @type {import('./chromium.js').Chromium} */
let browser;
before(async () => {
  browser = /** @type {any} */ (await open('chromium'));
});
after(() => browser?.close());

// Requirements 47 and 48; R1, R21.
test('sixty taps while the planner is restarted and killed have exactly their effects', async () => {
  const turns = { stopped: 0, killed: 0 };
  const result = await soak(browser, {
    seed: 48,
    taps: 60,
    async meanwhile(planner) {
      await sleep(900);
      if (turns.stopped > turns.killed) {
        await planner.kill();
        turns.killed++;
      } else {
        await planner.stop();
        turns.stopped++;
      }
      await sleep(300); // so that somebody taps into the gap
      await planner.start();
    },
  });
  console.log(`${turns.stopped} restarts, ${turns.killed} kills: ${table(result)}\n${sum('the database', result.database)}\n${sum('what was done', result.effects)}`);
  assert.deepEqual(result.database, none);
  assert.deepEqual({ ...result.effects, lost: [] }, none);
  assert.ok(turns.stopped >= 2 && turns.killed >= 2, JSON.stringify(turns));
});
