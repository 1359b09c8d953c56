// @ts-check
// Which scenario runs where, and how, where the engines cannot all be made to do
// the same: a closed list. What is not in it runs on all three in one way.
// ways.test.js holds the scenarios to it.

/** @typedef {import('./engines.js').Engine} Engine */

/**
 * The ways, by the scenario's number. A missing engine cannot be made to do so.
 * @type {Record<number, Partial<Record<Engine, string>>>}
 */
export const ways = {
  // The worker is stopped. WebKit's shares the tab's process.
  8: { chromium: 'debugging protocol', firefox: 'idle limits' },
  9: { chromium: 'debugging protocol', firefox: 'idle limits' },
  // The browser is killed. WebKit keeps nothing under automation.
  11: { chromium: 'same profile', firefox: 'same profile', webkit: 'drives itself' },
  // No network. Firefox's emulation does not reach the worker, WebKit has none.
  19: { chromium: 'offline', firefox: 'refuse', webkit: 'refuse' },
  27: { chromium: 'offline', firefox: 'refuse', webkit: 'refuse' },
  // No room. Only Chromium can be given a small disk.
  23: { chromium: 'quota', firefox: 'failing store', webkit: 'failing store' },
  // A token that changes: the page gives the header.
  28: { chromium: 'headers of the page', firefox: 'headers of the page', webkit: 'headers of the page' },
  // Nothing is open when the network is back: only Chromium wakes the worker. (And
  // Playwright must not start it, for that turns off the back-forward cache.)
  30: { chromium: 'sync', firefox: 'kick', webkit: 'kick' },
  // A clock that jumps: no browser's can be set.
  32: {},
  // What a screen reader is told: by the changes of the live region; the rest of
  // 33 are the rules of axe, on the kit.
  33: { chromium: 'live region', firefox: 'live region', webkit: 'live region' },
};

/** How many scenarios there are. */
export const scenarioCount = 33;

/** Scenarios that have a file of their own, by its path from the repository's folder. @type {Record<number, string>} */
export const elsewhere = {
  11: 'internal/integration/browser/restart.test.js',
  32: 'outbox/engine.kept.test.js',
};

/**
 * How an engine is made to do what a scenario wants.
 * @param {number} n
 * @param {Engine} engine
 */
export function wayOf(n, engine) {
  const way = ways[n]?.[engine];
  if (!way) throw new Error(`scenario ${n} has no way on ${engine}`);
  return way;
}
