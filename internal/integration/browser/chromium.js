// @ts-check
// Chromium, started by ourselves and driven by Playwright over the debugging
// protocol: so the process is ours to kill, and a profile can be opened again.
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { onPath } from './engines.js';
import { bounded, sleep, startProgram, tempFolder, until } from './processes.js';
import { Tab } from './tab.js';

/**
 * @param {import('./engines.js').Options} options
 * @returns {Promise<Chromium>}
 */
export async function openChromium(options) {
  const profile = options.profile ?? tempFolder('onceward-chromium-');
  const portFile = join(profile, 'DevToolsActivePort');
  rmSync(portFile, { force: true });
  const program = startProgram(onPath('chromium', 'chromium-browser'), [
    '--headless',
    '--no-sandbox',
    '--disable-gpu',
    '--disable-quic',
    '--no-first-run',
    '--no-default-browser-check',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
    '--disable-default-apps',
    '--disable-dev-shm-usage',
    '--disable-breakpad',
    '--disable-search-engine-choice-screen',
    // A tab that is not in front must behave as on a desk with two windows:
    // its page timers are part of what is tested.
    '--disable-background-timer-throttling',
    '--disable-renderer-backgrounding',
    '--disable-backgrounding-occluded-windows',
    '--disable-features=Translate,OptimizationHints,MediaRouter,HttpsUpgrades',
    '--password-store=basic',
    '--use-mock-keychain',
    '--window-size=1000,900',
    `--lang=${options.locale}`,
    `--accept-lang=${options.locale}`,
    `--user-data-dir=${profile}`,
    '--remote-debugging-port=0',
    ...(options.args ?? []),
    'about:blank',
  ]);
  const address = await until('Chromium opens its debugging port', () => {
    if (!program.running()) throw new Error(`it ended:\n${program.output()}`);
    const [port, path] = existsSync(portFile) ? readFileSync(portFile, 'utf8').split('\n') : [];
    return path && `ws://127.0.0.1:${port}${path}`;
  }, { timeout: 40_000 });
  const browser = await chromium.connectOverCDP(address, { timeout: 40_000 });
  const main = browser.contexts()[0];

  return {
    engine: 'chromium',
    profile,
    pid: program.pid,
    ...powers(main),
    async newContext() {
      const context = await browser.newContext({ locale: options.locale, viewport: null });
      return bounded('chromium context', { ...powers(context), close: () => context.close() });
    },
    async kill() {
      await program.kill();
      await browser.close().catch(() => {});
    },
    async close() {
      await Promise.race([browser.close().catch(() => {}), sleep(3000)]);
      await program.stop('SIGTERM', 10_000).catch(() => program.kill());
    },
  };
}

/**
 * What Chromium can do beyond the other engines.
 * @typedef {object} ChromiumPowers
 * @property {import('playwright-core').BrowserContext} context Playwright's own, for routes and cookies
 * @property {(offline: boolean) => Promise<void>} setOffline for pages and workers
 * @property {() => Promise<void>} stopWorkers stops every service worker of the browser at once
 * @property {(url: string, bytes?: number) => Promise<void>} setQuota how much the site may keep; by default what the
 *   disk has
 */
/**
 * @typedef {import('./engines.js').Context & ChromiumPowers} ChromiumContext
 * @typedef {Omit<import('./engines.js').Browser, 'newContext'> & ChromiumPowers & {newContext: () => Promise<ChromiumContext>}} Chromium
 */

/** @param {import('playwright-core').BrowserContext} context */
function powers(context) {
  return {
    context,
    newTab: async () => newTab(context),
    setOffline: (/** @type {boolean} */ offline) => context.setOffline(offline),
    async stopWorkers() {
      const page = context.pages()[0];
      const session = await context.newCDPSession(page);
      try {
        await session.send('ServiceWorker.enable');
        await session.send('ServiceWorker.stopAllWorkers');
      } finally {
        await session.detach().catch(() => {});
      }
    },
    async setQuota(/** @type {string} */ url, /** @type {number | undefined} */ bytes) {
      // It lasts as long as the session, which ends with the page.
      const session = await context.newCDPSession(context.pages()[0]);
      await session.send('Storage.overrideQuotaForOrigin', { origin: new URL(url).origin, quotaSize: bytes });
    },
    cookies: async () => (await context.cookies()).map(c => ({ name: c.name, value: c.value })),
    setCookie: (/** @type {{name: string, value: string, url: string}} */ cookie) =>
      context.addCookies([{ ...cookie, httpOnly: true, sameSite: 'Lax' }]),
    clearCookies: () => context.clearCookies(),
  };
}

/** @param {import('playwright-core').BrowserContext} context */
async function newTab(context) {
  const page = await context.newPage();
  /** @type {import('./tab.js').RawTab} */
  const raw = {
    evaluate: expression => page.evaluate(expression),
    goto: async (url, timeout) => void (await page.goto(url, { timeout, waitUntil: 'load' })),
    reload: async timeout => void (await page.reload({ timeout, waitUntil: 'load' })),
    async press(x, y, pauses) {
      await page.mouse.move(x, y);
      await page.mouse.down({ clickCount: 1 });
      await page.mouse.up({ clickCount: 1 });
      for (const [i, pause] of pauses.entries()) {
        await sleep(pause);
        await page.mouse.down({ clickCount: i + 2 });
        await page.mouse.up({ clickCount: i + 2 });
      }
    },
    keys: text => page.keyboard.type(text),
    key: name => page.keyboard.press(name),
    screenshot: () => page.screenshot({ animations: 'disabled', caret: 'hide' }),
    resize: (width, height) => page.setViewportSize({ width, height }),
    front: () => page.bringToFront(),
    close: () => page.close(),
  };
  const tab = new Tab(raw);
  page.on('console', message => tab.console.push(`${message.type()}: ${message.text()}`));
  page.on('pageerror', error => tab.console.push(`uncaught: ${error.stack ?? error}`));
  return tab;
}
