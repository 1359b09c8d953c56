// @ts-check
// One tab, the same on every engine. What differs between engines is the few
// primitives of RawTab; everything else is built on them here, so that a
// scenario means the same wherever it runs. Input is real input: the driver
// moves the pointer and presses keys, and the page gets trusted events.
import { writeFile } from 'node:fs/promises';
import { bounded, sleep, until } from './processes.js';

/**
 * What an engine has to be able to do.
 * @typedef {object} RawTab
 * @property {(expression: string) => Promise<any>} evaluate evaluates in the page's main world; a promise is
 *   awaited; the result is JSON
 * @property {(url: string, timeout: number) => Promise<void>} goto resolves at the load event
 * @property {(timeout: number) => Promise<void>} reload
 * @property {(x: number, y: number, pauses: number[]) => Promise<void>} press presses the main button at a point of
 *   the viewport, and once more after each pause (ms)
 * @property {(text: string) => Promise<void>} keys types into what has the focus
 * @property {(name: 'Enter' | 'Escape' | 'Tab' | 'Space' | 'Backspace') => Promise<void>} key
 * @property {() => Promise<Buffer>} screenshot PNG of the viewport
 * @property {(width: number, height: number) => Promise<void>} resize
 * @property {() => Promise<void>} front makes it the visible tab
 * @property {() => Promise<void>} close
 */

/**
 * Runs a statement that leaves the document, and waits until another one is
 * there and complete.
 * @param {Pick<RawTab, 'evaluate'>} raw
 * @param {string} statement
 * @param {number} timeout
 */
export async function leave(raw, statement, timeout) {
  const mark = `left ${Math.random()}`;
  await raw.evaluate(`(window.rigMark = ${JSON.stringify(mark)}, setTimeout(() => { ${statement} }), '')`);
  const where = await until(
    `another document after ${statement}`,
    () => raw.evaluate(`window.rigMark !== ${JSON.stringify(mark)} && document.readyState === 'complete' && document.documentURI`),
    { timeout },
  );
  if (where.startsWith('about:neterror')) throw new Error(`${statement} ended at ${where}`);
}

export class Tab {
  /** @type {string[]} what the page wrote to its console, where the engine tells */
  console = [];

  /** @param {RawTab} raw */
  constructor(raw) {
    this.raw = bounded('tab', raw);
  }

  /**
   * Runs a function in the page. It must not use anything from around it;
   * arguments and result are JSON.
   * @template {any[]} A
   * @template T
   * @param {(...args: A) => T | Promise<T>} fn
   * @param {A} args
   * @returns {Promise<T>}
   */
  async eval(fn, ...args) {
    const given = args.map(a => (a === undefined ? 'undefined' : JSON.stringify(a))).join(', ');
    const text = await this.raw.evaluate(`(async () => JSON.stringify({ value: await (${fn})(${given}) }))()`);
    return JSON.parse(text).value;
  }

  /** @param {string} url @param {{timeout?: number}} [options] */
  async goto(url, { timeout = 20_000 } = {}) {
    await this.raw.goto(url, timeout);
  }

  async reload({ timeout = 20_000 } = {}) {
    await this.raw.reload(timeout);
  }

  /**
   * One step back in the history, to another document. The engines' own command
   * waits for a load event, which a page out of the back-forward cache has not.
   */
  async back({ timeout = 20_000 } = {}) {
    await leave(this.raw, 'history.back()', timeout);
  }

  url() {
    return this.eval(() => location.href);
  }

  /** @param {string} selector */
  exists(selector) {
    return this.eval(s => document.querySelector(s) !== null, selector);
  }

  /** @param {string} selector */
  count(selector) {
    return this.eval(s => document.querySelectorAll(s).length, selector);
  }

  /**
   * Whether a person can see it: it has a box, and neither it nor anything
   * around it is hidden. Computed style decides, not an attribute.
   * @param {string} selector
   */
  visible(selector) {
    return this.eval(s => {
      const element = document.querySelector(s);
      if (!element) return false;
      const box = element.getBoundingClientRect();
      return box.width > 0 && box.height > 0 && element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
    }, selector);
  }

  /** @param {string} selector the text as it is rendered, blanks folded; null if there is no such element */
  text(selector) {
    return this.eval(s => {
      const element = /** @type {HTMLElement | null} */ (document.querySelector(s));
      return element && element.innerText.replace(/\s+/g, ' ').trim();
    }, selector);
  }

  /** @param {string} selector */
  texts(selector) {
    return this.eval(
      s => [...document.querySelectorAll(s)].map(e => /** @type {HTMLElement} */ (e).innerText.replace(/\s+/g, ' ').trim()),
      selector,
    );
  }

  /** @param {string} selector @param {string} name */
  attribute(selector, name) {
    return this.eval((s, n) => document.querySelector(s)?.getAttribute(n) ?? null, selector, name);
  }

  /** @param {string} selector */
  value(selector) {
    return this.eval(s => /** @type {HTMLInputElement | null} */ (document.querySelector(s))?.value ?? null, selector);
  }

  /**
   * Presses the middle of an element, once it is there and nothing covers it.
   * @param {string} selector the first match is meant
   * @param {{double?: boolean, gap?: number, timeout?: number}} [options] double: twice, gap ms apart
   */
  async click(selector, { double = false, gap = 60, timeout = 10_000 } = {}) {
    const at = await until(`${selector} can be pressed`, () => this.point(selector), { timeout });
    await this.raw.press(at.x, at.y, double ? [gap] : []);
  }

  /**
   * The middle of an element in the viewport, or null while a person could not
   * press it.
   * @param {string} selector
   */
  point(selector) {
    return this.eval(async s => {
      const element = document.querySelector(s);
      if (!element || !element.checkVisibility({ visibilityProperty: true })) return null;
      element.scrollIntoView({ block: 'center', inline: 'center', behavior: 'instant' });
      const middle = () => {
        const box = element.getBoundingClientRect();
        return { x: Math.round(box.left + box.width / 2), y: Math.round(box.top + box.height / 2), size: box.width * box.height };
      };
      const before = middle();
      // A page that nobody sees draws nothing, and would be waited for without an end.
      await new Promise(resolve => (requestAnimationFrame(resolve), setTimeout(resolve, 200)));
      const now = middle();
      if (!element.isConnected || now.size === 0 || now.x !== before.x || now.y !== before.y) return null; // it moves
      const hit = document.elementFromPoint(now.x, now.y);
      const label = element.closest('label');
      return hit && (element.contains(hit) || hit.contains(element) || label?.contains(hit)) ? now : null;
    }, selector);
  }

  /**
   * Types into a field, after what stands in it.
   * @param {string} selector
   * @param {string} text
   * @param {{enter?: boolean, clear?: boolean}} [options]
   */
  async type(selector, text, { enter = false, clear = false } = {}) {
    await this.click(selector);
    await until(`${selector} has the focus`, () => this.eval(s => document.activeElement === document.querySelector(s), selector));
    if (clear) {
      await this.eval(s => /** @type {HTMLInputElement} */ (document.querySelector(s)).select(), selector);
      await this.raw.key('Backspace');
    }
    await this.raw.keys(text);
    if (enter) await this.raw.key('Enter');
  }

  /**
   * Puts files into a file input, as if they had been chosen.
   * @param {string} selector
   * @param {{name: string, type: string, bytes: Uint8Array}[]} files
   */
  async files(selector, files) {
    const given = files.map(f => ({ name: f.name, type: f.type, base64: Buffer.from(f.bytes).toString('base64') }));
    await this.eval(
      (s, list) => {
        const transfer = new DataTransfer();
        for (const f of list) {
          transfer.items.add(new File([Uint8Array.from(atob(f.base64), c => c.charCodeAt(0))], f.name, { type: f.type }));
        }
        const input = /** @type {HTMLInputElement} */ (document.querySelector(s));
        input.files = transfer.files;
        input.dispatchEvent(new Event('input', { bubbles: true }));
        input.dispatchEvent(new Event('change', { bubbles: true }));
      },
      selector,
      given,
    );
  }

  /**
   * Waits until a function of the page gives something truthy, and returns it.
   * Navigations on the way do not matter.
   * @template {any[]} A
   * @template T
   * @param {string} what
   * @param {(...args: A) => T | Promise<T>} fn
   * @param {A} args
   * @returns {Promise<NonNullable<T>>}
   */
  waitFor(what, fn, ...args) {
    return this.waitForWithin(15_000, what, fn, ...args);
  }

  /**
   * @template {any[]} A
   * @template T
   * @param {number} timeout
   * @param {string} what
   * @param {(...args: A) => T | Promise<T>} fn
   * @param {A} args
   * @returns {Promise<NonNullable<T>>}
   */
  waitForWithin(timeout, what, fn, ...args) {
    return until(what, () => this.eval(fn, ...args), { timeout });
  }

  /** Waits until a worker controls the page. */
  controlled() {
    return this.waitFor('a worker controls the page', async () => {
      // It waits without an end for a worker that ended while it was installed.
      await Promise.race([navigator.serviceWorker.ready, new Promise(resolve => setTimeout(resolve, 2000))]);
      return navigator.serviceWorker.controller !== null;
    });
  }

  /** @param {string} path */
  async screenshot(path) {
    await writeFile(path, await this.raw.screenshot());
  }

  /** @param {number} width @param {number} height */
  async resize(width, height) {
    await this.raw.resize(width, height);
    await sleep(100);
  }

  async front() {
    await this.raw.front();
  }

  async close() {
    await this.raw.close();
  }
}
