// @ts-check
// Firefox, driven by Puppeteer over WebDriver BiDi.
import puppeteer from 'puppeteer-core';
import { onPath } from './engines.js';
import { bounded, sleep, tempFolder } from './processes.js';
import { Tab, leave } from './tab.js';

/**
 * @param {import('./engines.js').Options} options
 * @returns {Promise<import('./engines.js').Browser>}
 */
export async function openFirefox(options) {
  const profile = options.profile ?? tempFolder('onceward-firefox-');
  const browser = await puppeteer.launch({
    browser: 'firefox',
    executablePath: onPath('firefox-esr'),
    headless: true,
    userDataDir: profile,
    defaultViewport: null,
    timeout: 60_000,
    protocolTimeout: 120_000,
    args: ['--width=1000', '--height=900'],
    extraPrefsFirefox: {
      'intl.accept_languages': options.locale,
      'network.captive-portal-service.enabled': false,
      'network.connectivity-service.enabled': false,
      ...options.prefs,
    },
  });
  const process = browser.process();
  if (!process?.pid) throw new Error('Firefox has no process');
  const main = browser.defaultBrowserContext();
  return {
    engine: 'firefox',
    profile,
    pid: process.pid,
    newTab: () => newTab(main),
    ...cookies(main),
    async newContext() {
      const context = await browser.createBrowserContext();
      return bounded('firefox context', { newTab: () => newTab(context), ...cookies(context), close: () => context.close() });
    },
    async kill() {
      const ended = new Promise(resolve => process.once('exit', resolve));
      if (process.exitCode === null && process.signalCode === null) {
        process.kill('SIGKILL');
        await ended;
      }
    },
    async close() {
      await Promise.race([browser.close(), sleep(10_000)]);
      if (process.exitCode === null && process.signalCode === null) process.kill('SIGKILL');
    },
  };
}

/** @param {import('puppeteer-core').BrowserContext} context */
function cookies(context) {
  return {
    cookies: async () => (await context.cookies()).map(c => ({ name: c.name, value: c.value })),
    /** @param {{name: string, value: string, url: string}} cookie */
    setCookie: ({ name, value, url }) =>
      context.setCookie({ name, value, domain: new URL(url).hostname, path: '/', httpOnly: true, sameSite: 'Lax' }),
    clearCookies: async () => {
      await context.deleteCookie(...(await context.cookies()));
    },
  };
}

/** @param {import('puppeteer-core').BrowserContext} context */
async function newTab(context) {
  const page = await context.newPage();
  /** @type {import('./tab.js').RawTab} */
  const raw = {
    evaluate: expression => page.evaluate(expression),
    // Puppeteer's own goto waits for ever when the page before came out of the
    // back-forward cache.
    goto: (url, timeout) => leave(raw, `location.assign(${JSON.stringify(url)})`, timeout),
    reload: async timeout => void (await page.reload({ timeout, waitUntil: 'load' })),
    async press(x, y, pauses) {
      await page.mouse.move(x, y);
      await page.mouse.down();
      await page.mouse.up();
      for (const pause of pauses) {
        await sleep(pause);
        await page.mouse.down();
        await page.mouse.up();
      }
    },
    keys: text => page.keyboard.type(text),
    key: name => page.keyboard.press(name),
    screenshot: async () => Buffer.from(await page.screenshot()),
    resize: (width, height) => page.setViewport({ width, height }),
    front: () => page.bringToFront(),
    close: () => page.close(),
  };
  const tab = new Tab(raw);
  page.on('console', message => tab.console.push(`${message.type()}: ${message.text()}`));
  page.on('pageerror', error => tab.console.push(`uncaught: ${error instanceof Error ? error.stack : error}`));
  return tab;
}
