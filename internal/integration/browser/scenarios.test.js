// @ts-check
// The scenarios on three engines. Chromium runs all of them; Firefox and WebKit
// run ten each, and all that they can with ONCEWARD_BROWSERS=all.
import { after, afterEach, before, describe, test } from 'node:test';
import { open } from './engines.js';
import { Scene, startSite } from './scene.js';
import { scenarios } from './scenarios.js';
import { usual } from './steps.js';

const all = process.env.ONCEWARD_BROWSERS === 'all';
/** For whoever looks for one fault: ONCEWARD_ENGINE=webkit ONCEWARD_SCENARIO=12,13. */
const only = { engine: process.env.ONCEWARD_ENGINE, numbers: process.env.ONCEWARD_SCENARIO?.split(',').map(Number) };

// The engines side by side, since most of a scenario is waiting; each by itself
// takes one after another.
describe('scenarios', { concurrency: true }, () => {
  for (const engine of /** @type {const} */ (['chromium', 'firefox', 'webkit'])) {
    if (!only.engine || only.engine === engine) describe(engine, { concurrency: 1 }, () => on(engine));
  }
});

/** @param {import('./engines.js').Engine} engine */
function on(engine) {
  const these = scenarios.filter(s => (!s.only || s.only.includes(engine)) && (all || engine === 'chromium' || s.everywhere));
  /** @type {import('./engines.js').Browser} */
  let browser;
  /** Planners by their limits. @type {Map<string, Scene>} */
  const scenes = new Map();
  /** @type {Scene | undefined} */
  let scene;

  before(async () => {
    browser = await open(engine);
  });
  after(async () => {
    await browser?.close();
    for (const s of scenes.values()) await s.site.stop();
  });
  afterEach(() => scene?.clear());

  for (const { n, name, limits = usual, run } of these) {
    if (only.numbers && !only.numbers.includes(n)) continue;
    test(`${n}. ${name}`, async () => {
      const wanted = JSON.stringify(limits);
      scene = scenes.get(wanted) ?? new Scene(await startSite({ limits }), browser);
      scenes.set(wanted, scene);
      const anna = await scene.person();
      try {
        await run(scene, anna);
      } catch (error) {
        console.log(await scene.tell(anna).catch(String));
        throw error;
      }
    });
  }
}
