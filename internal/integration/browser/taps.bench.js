// @ts-check
// What the outbox costs a tap online: an announced request against the same path
// left alone, in turn, in one page. Prints lines as `go test -bench` does, which
// cmd/bench reads; nobody asserts them.
//
//	node internal/integration/browser/taps.bench.js [--engines chromium,firefox,webkit] [--taps 300]
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { open } from './engines.js';
import { sleep, startServer, until } from './processes.js';

const { values } = parseArgs({
  options: { engines: { type: 'string', default: 'chromium,firefox,webkit' }, taps: { type: 'string', default: '300' } },
});
const taps = Number(values.taps);

/** @param {number[]} list */
function median(list) {
  const sorted = list.toSorted((a, b) => a - b);
  return (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2;
}

/**
 * Runs in the page. A clock of some browsers tells whole milliseconds only, so a
 * sample is five taps in a row.
 * @param {number} n taps of each kind
 * @returns {Promise<{announced: number[], excluded: number[]}>} ms of one tap
 */
async function measure(n) {
  const { outbox } = await import(/** @type {string} */ ('/outbox/page.js'));
  const init = () => ({ method: 'POST', headers: { 'Idempotency-Key': crypto.randomUUID() }, body: 'completed=true' });
  /** @type {Record<string, () => Promise<Response>>} */
  const ways = {
    announced: () => outbox.fetch('/tap', init()),
    excluded: () => fetch('/tap', init()), // the worker hears of it and lets it go
  };
  const each = 5;
  const sample = async (/** @type {string} */ way) => {
    const from = performance.now();
    for (let i = 0; i < each; i++) {
      const r = await ways[way]();
      if ((await r.text()) !== 'ok') throw new Error(`${way}: ${r.status}`);
    }
    return (performance.now() - from) / each;
  };
  /** @type {any} */
  const found = { announced: [], excluded: [] };
  for (const way of Object.keys(ways)) for (let i = 0; i < 4; i++) await sample(way); // warm
  for (let i = 0; i * each < n; i++) {
    // Whoever goes first may find what the other has left behind.
    for (const way of i % 2 ? ['excluded', 'announced'] : ['announced', 'excluded']) found[way].push(await sample(way));
  }
  return found;
}

/** One announced tap, alone. @returns {Promise<number>} ms */
async function once() {
  const { outbox } = await import(/** @type {string} */ ('/outbox/page.js'));
  const from = performance.now();
  const r = await outbox.fetch('/tap', { method: 'POST', body: 'x' });
  await r.text();
  return performance.now() - from;
}

// A worker of Firefox that was idle for this long is ended.
const idle = 1000;

/** @param {import('./engines.js').Engine} engine @param {string} url */
async function bench(engine, url) {
  const browser = await open(engine, { prefs: { 'dom.serviceWorkers.idle_timeout': idle, 'dom.serviceWorkers.idle_extended_timeout': idle, 'privacy.reduceTimerPrecision': false } });
  try {
    const tab = await browser.newTab();
    await tab.goto(`${url}/`);
    await tab.controlled();
    await tab.goto(`${url}/`);
    await tab.controlled();
    await until('the outbox runs', () => tab.exists('#outbox-strip'));
    await sleep(5000); // the page has fetched what it needs later
    const { announced, excluded } = await tab.eval(measure, taps);
    const cold = [];
    for (let i = 0; i < 5 && engine !== 'webkit'; i++) {
      if (engine === 'chromium') await /** @type {import('./chromium.js').Chromium} */ (browser).stopWorkers();
      else await sleep(3 * idle);
      cold.push(await tab.eval(once));
    }
    const units = [
      [median(announced) - median(excluded), 'more-ms'],
      [median(announced), 'announced-ms'],
      [median(excluded), 'excluded-ms'],
      // WebKit's worker lives in the page's own process, as long as a page does.
      ...(cold.length ? [[median(cold), 'cold-ms']] : []),
    ];
    console.log(`BenchmarkOutboxTap/${engine}-${availableParallelism()} ${2 * taps} ${units.map(([n, unit]) => `${Number(n).toFixed(2)} ${unit}`).join(' ')}`);
  } finally {
    await browser.close();
  }
}

const shelf = await startServer('shelf', []);
try {
  for (const engine of values.engines.split(',')) await bench(/** @type {import('./engines.js').Engine} */ (engine), shelf.url);
} finally {
  await shelf.kill();
}
process.exit();
