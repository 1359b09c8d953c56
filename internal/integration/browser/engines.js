// @ts-check
// The three engines behind one interface.
import { accessSync, constants, existsSync, readdirSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { bounded } from './processes.js';

/** @typedef {'chromium' | 'firefox' | 'webkit'} Engine */

/**
 * @typedef {object} Options
 * @property {string} locale such as ru-RU: what the person's browser asks pages for. WebKit follows the machine's
 *   locale, which is seldom installed, and is left at English
 * @property {string} [profile] a folder to keep; by default a new one. WebKit has none
 * @property {string[]} [args] Chromium's command line
 * @property {Record<string, any>} [prefs] Firefox's preferences
 */

/**
 * Cookies and storage of one person.
 * @typedef {object} Context
 * @property {() => Promise<import('./tab.js').Tab>} newTab
 * @property {() => Promise<{name: string, value: string}[]>} cookies of the pages that are open
 * @property {(cookie: {name: string, value: string, url: string}) => Promise<void>} setCookie one that no script of a
 *   page can read, as servers set it. WebKit takes it for the page that is open
 * @property {() => Promise<void>} clearCookies
 * @property {() => Promise<void>} close
 */

/**
 * @typedef {object} BrowserOwn
 * @property {Engine} engine
 * @property {string | undefined} profile
 * @property {number} pid
 * @property {() => Promise<Context>} newContext another person's, with nothing in it
 * @property {() => Promise<void>} kill SIGKILL, as when the battery is empty
 */

/** @typedef {Context & BrowserOwn} Browser */

/**
 * Starts an engine.
 * @param {Engine} engine
 * @param {Partial<Options>} [options]
 * @returns {Promise<Browser>}
 */
export async function open(engine, options = {}) {
  return bounded(engine, await start(engine, { locale: 'ru-RU', ...options }));
}

/** @param {Engine} engine @param {Options} given @returns {Promise<Browser>} */
async function start(engine, given) {
  switch (engine) {
    case 'chromium':
      return (await import('./chromium.js')).openChromium(given);
    case 'firefox':
      return (await import('./firefox.js')).openFirefox(given);
    case 'webkit':
      return (await import('./webkit.js')).openWebKit();
  }
}

/**
 * The first of these programs that is on the path.
 * @param {...string} names
 */
export function onPath(...names) {
  for (const name of names) {
    for (const folder of (process.env.PATH ?? '').split(delimiter)) {
      const file = join(folder, name);
      try {
        accessSync(file, constants.X_OK);
        return file;
      } catch {
        // the next one
      }
    }
  }
  throw new Error(`none of ${names.join(', ')} is on the path: make install`);
}

/**
 * Files that match a pattern with one star standing for one folder.
 * @param {string} pattern
 */
export function globOne(pattern) {
  const [before, after] = pattern.split('*');
  const folder = dirname(before + 'x');
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .map(name => join(folder, name, after))
    .filter(file => existsSync(file));
}
