// @ts-check
// The scenarios on three engines. Chromium runs all of them; Firefox and WebKit
// run ten each, and all that they can with ONCEWARD_BROWSERS=all.
import { after, afterEach, before, describe, test } from 'node:test';
import { open } from './engines.js';
import { Scene, startSite } from './scene.js';
import { scenarios } from './scenarios.js';
import { usual } from './steps.js';
import { ways } from './ways.js';

const all = process.env.ONCEWARD_BROWSERS === 'all';
/** For whoever looks for one fault: ONCEWARD_ENGINE=webkit ONCEWARD_SCENARIO=12,13. */
const only = { engine: process.env.ONCEWARD_ENGINE, numbers: process.env.ONCEWARD_SCENARIO?.split(',').map(Number) };

// The engines side by side, since most of a scenario is waiting; each by itself
// takes one after another.
describe('scenarios', { concurrency: true }, () => {
  for (const engine of /** @type {const} */ (['chromium', 'firefox', 'webkit'])) {
    if (only.engine && only.engine !== engine) continue;
    // Chromium, which has by far the most, in two browsers.
    const lanes = engine === 'chromium' ? 2 : 1;
    for (let lane = 0; lane < lanes; lane++) describe(`${engine} ${lane + 1}`, { concurrency: 1 }, () => on(engine, lane, lanes));
  }
});

/**
 * @param {import('./engines.js').Engine} engine
 * @param {number} lane
 * @param {number} lanes
 */
function on(engine, lane, lanes) {
  const these = scenarios
    .filter(s => (!ways[s.n] || ways[s.n][engine]) && (all || engine === 'chromium' || s.everywhere))
    .filter(s => !only.numbers || only.numbers.includes(s.n))
    .filter((_, i) => i % lanes === lane);
  if (these.length === 0) return;
  /** Browsers by their options, and planners by theirs: most scenarios share one. @type {Map<string, import('./engines.js').Browser>} */
  const browsers = new Map();
  /** @type {Map<string, Scene>} */
  const scenes = new Map();
  /** @type {Scene | undefined} */
  let scene;

  /** @param {Partial<import('./engines.js').Options>} [options] */
  async function browserWith(options = {}) {
    const wanted = JSON.stringify(options);
    const browser = browsers.get(wanted) ?? (await open(engine, options));
    browsers.set(wanted, browser);
    return browser;
  }
  before(() => browserWith());
  after(async () => {
    for (const b of browsers.values()) await b.close();
    for (const s of scenes.values()) await s.site.stop();
  });
  afterEach(() => scene?.clear());

  for (const { n, name, limits = usual, app, patch, browser, prepare, run } of these) {
    test(`${n}. ${name}`, async () => {
      const wanted = JSON.stringify([limits, app, browser?.(engine), patch?.(engine) ? n : 0]);
      scene = scenes.get(wanted) ?? new Scene(await startSite({ limits, app, patch: patch?.(engine) }), await browserWith(browser?.(engine)));
      scenes.set(wanted, scene);
      const here = scene;
      const anna = app ? await scene.visitor() : await scene.person('anna', prepare && (context => prepare(context, here)));
      try {
        await run(scene, anna);
        await scene.audit();
      } catch (error) {
        console.log(await scene.tell(anna).catch(String));
        throw error;
      }
    });
  }
}
