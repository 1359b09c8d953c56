// @ts-check
// The planner as one tab shows it: what a person does there, and what they see.
import { sleep, until } from './processes.js';

/** Everybody's; accounts live as long as a test. */
export const password = 'correct horse battery';

/**
 * @typedef {object} Shown how a row looks
 * @property {string} id of the task
 * @property {string} title
 * @property {boolean} done the circle is filled
 * @property {string} state what the outbox says of it: waiting, login, refused, ask, stuck, or nothing
 * @property {string} caption as it can be read on the row
 */

/** @typedef {{key: string, seq: number, method: string, url: string, state: string, owner: string, attempts: number, text: string, nav: boolean, size: number, createdAt: number}} Entry */

export class Screen {
  /** @type {Map<string, number>} */
  #tapped = new Map();

  /**
   * @param {import('./tab.js').Tab} tab
   * @param {string} url of the site
   */
  constructor(tab, url) {
    this.tab = tab;
    this.url = url;
  }

  /** Goes to the page "today", and waits until a worker has it and the outbox runs. */
  async today() {
    await this.tab.goto(`${this.url}/today`);
    await this.ready();
  }

  /** Until the planner's page is a worker's, and the outbox runs. */
  async ready() {
    await this.running();
    await this.tab.waitFor('the planner’s own scripts run', () => 'htmx' in window);
  }

  /** Until the page is a worker's, and the outbox runs. */
  async running() {
    // A page that was under way while its worker took over the others is served
    // by its own copy of the engine until the next one. The scenarios want the
    // worker.
    await this.tab.controlled().catch(() => this.tab.reload());
    await this.tab.controlled();
    await this.tab.waitFor('the outbox runs', () => document.querySelector('#outbox-strip') !== null);
  }

  /**
   * On the page of the login.
   * @param {string} login
   */
  async logIn(login) {
    const { tab } = this;
    await tab.waitForWithin(40_000, 'the page of the login', () => document.querySelector('form.auth button.is-main'));
    await tab.eval(
      (l, p) => {
        const form = /** @type {HTMLFormElement} */ (document.querySelector('form.auth'));
        /** @type {HTMLInputElement} */ (form.elements.namedItem('login')).value = l;
        /** @type {HTMLInputElement} */ (form.elements.namedItem('password')).value = p;
      },
      login,
      password,
    );
    await tab.click('form.auth button.is-main');
    await tab.waitForWithin(40_000, 'the login leads to the page "today"', () => location.pathname === '/today' && document.readyState === 'complete');
  }

  /** Types a new task and sends it with Enter. @param {string} text */
  async add(text) {
    await this.tab.type('#add-text', text, { enter: true });
  }

  /** @returns {Promise<Shown[]>} the rows that a person sees, from the top */
  rows() {
    return this.tab.eval(() =>
      [.../** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll('#lists .row'))]
        .filter(row => row.checkVisibility())
        .map(row => ({
          id: row.dataset.task ?? '',
          title: /** @type {HTMLElement} */ (row.querySelector('.row-title')).innerText.trim(),
          done: row.querySelector('.circle')?.getAttribute('aria-pressed') === 'true',
          state: row.dataset.outboxState ?? '',
          caption: /** @type {HTMLElement | null} */ (row.querySelector('.outbox-caption'))?.innerText.trim() ?? '',
        })),
    );
  }

  /** @param {string} title @returns {Promise<Shown | undefined>} */
  async row(title) {
    return (await this.rows()).find(row => row.title === title);
  }

  /**
   * Waits for a row that looks so.
   * @param {string} title
   * @param {Partial<Shown>} [want]
   * @param {number} [timeout]
   */
  shows(title, want = {}, timeout = 20_000) {
    return until(`a row «${title}» with ${JSON.stringify(want)}`, async () => {
      const rows = await this.rows();
      const found = rows.find(row => row.title === title && Object.entries(want).every(([name, value]) => /** @type {any} */ (row)[name] === value));
      if (!found) throw new Error(JSON.stringify(rows));
      return found;
    }, { timeout, every: 30 });
  }

  /** A new task that is pasted, so that no field's limit stops it. @param {string} text */
  async paste(text) {
    await this.tab.click('#add-text');
    await this.tab.eval(t => {
      const field = /** @type {HTMLInputElement} */ (document.querySelector('#add-text'));
      field.value = t;
      field.dispatchEvent(new Event('input', { bubbles: true }));
    }, text);
    await this.tab.raw.key('Enter');
  }

  /** The circle's selector. @param {string} title */
  async circle(title) {
    const { id } = await this.shows(title);
    return `#circle-${id}`;
  }

  /**
   * Taps a task's circle. A tap of its own: what comes within half a second is the
   * other half of a double tap.
   * @param {string} title
   */
  async tap(title) {
    await this.rest(title);
    await this.tab.click(await this.circle(title));
    this.#tapped.set(title, performance.now());
  }

  /**
   * Presses exactly this element and nothing else. Rows come and go under a
   * driver's pointer; a press that would meet another element does not happen, and
   * the next try follows.
   * @param {string} selector
   * @param {number} [timeout]
   */
  async press(selector, timeout = 15_000) {
    await this.tab.eval(s => {
      const w = /** @type {any} */ (window);
      w.rigHit = false;
      const types = ['pointerdown', 'mousedown', 'pointerup', 'mouseup', 'click'];
      const guard = (/** @type {Event} */ event) => {
        if (/** @type {Element} */ (event.target).closest(s)) {
          // Pressed there and let go elsewhere is no click.
          if (event.type === 'click') w.rigHit = true;
          return;
        }
        event.preventDefault();
        event.stopImmediatePropagation();
      };
      w.rigUnguard?.();
      w.rigUnguard = () => types.forEach(t => removeEventListener(t, guard, true));
      types.forEach(t => addEventListener(t, guard, true));
    }, selector);
    try {
      await until(`${selector} is pressed`, async () => {
        await this.tab.click(selector, { timeout: Math.min(timeout, 5000) });
        return this.tab.eval(() => /** @type {any} */ (window).rigHit);
      }, { timeout });
    } finally {
      await this.tab.eval(() => /** @type {any} */ (window).rigUnguard?.());
    }
  }

  /** Until a tap on this task is a tap of its own again. @param {string} title */
  async rest(title) {
    await sleep(Math.max(0, (this.#tapped.get(title) ?? 0) + 600 - performance.now()));
  }

  /** The strip's words, or null if a person does not see it. */
  async strip() {
    return (await this.tab.visible('#outbox-strip')) ? this.tab.text('#outbox-strip .outbox-text') : null;
  }

  /**
   * @param {string | RegExp | null} want
   * @param {number} [timeout]
   */
  stripSays(want, timeout = 20_000) {
    return until(`the strip says ${want}`, async () => {
      const says = await this.strip();
      if (want instanceof RegExp ? says !== null && want.test(says) : says === want) return true;
      throw new Error(`it says ${says}`);
    }, { timeout, every: 30 });
  }

  /** What the browser keeps, read past the outbox's own scripts. @returns {Promise<Entry[]>} in the line's order */
  async queue() {
    const { entries } = await this.stored();
    return (entries ?? []).map(e => e.value).sort((a, b) => a.seq - b.seq);
  }

  /**
   * Every store of the outbox's database, whole; bodies as text.
   * @returns {Promise<Record<string, {key: any, value: any}[]>>}
   */
  stored() {
    return this.tab.eval(async () => {
      const names = await indexedDB.databases?.();
      if (names && !names.some(d => d.name === 'outbox')) return {};
      /** @type {IDBDatabase} */
      const db = await new Promise((resolve, reject) => {
        const request = indexedDB.open('outbox');
        request.onsuccess = () => resolve(request.result);
        request.onerror = () => reject(request.error);
        request.onupgradeneeded = () => request.transaction?.abort(); // it was not there
      });
      /** @param {IDBRequest} request */
      const all = request => new Promise((resolve, reject) => {
        request.onsuccess = () => resolve(request.result);
        request.onerror = () => reject(request.error);
      });
      /** @type {Record<string, any>} */
      const found = {};
      for (const name of db.objectStoreNames) {
        const store = db.transaction(name).objectStore(name);
        const keys = all(store.getAllKeys());
        const values = await all(store.getAll());
        found[name] = values.map((/** @type {any} */ value, /** @type {number} */ i) => ({ i, value: value instanceof ArrayBuffer ? new TextDecoder().decode(value) : value }));
        for (const f of found[name]) f.key = (await keys)[f.i];
      }
      db.close();
      return found;
    });
  }

  /** Waits until nothing is kept any more. @param {number} [timeout] */
  drained(timeout = 60_000) {
    return until('the queue is empty', async () => {
      const left = await this.queue();
      if (left.length === 0) return true;
      throw new Error(JSON.stringify(left));
    }, { timeout, every: 100 });
  }

  /** Waits until so many entries are kept. @param {number} n @param {number} [timeout] */
  keeps(n, timeout = 20_000) {
    return until(`${n} entries are kept`, async () => {
      const kept = await this.queue();
      if (kept.length === n) return kept;
      throw new Error(JSON.stringify(kept));
    }, { timeout, every: 50 });
  }

  /** Opens the list of what is not saved. */
  async openList() {
    await until('the list is open', async () => {
      if (await this.tab.exists('dialog[open] .outbox-list')) return true;
      // The strip may be drawn anew under the press.
      await this.tab.click('#outbox-strip [data-act=look]', { timeout: 3000 });
      await this.tab.waitForWithin(1000, 'the list opens', () => document.querySelector('dialog[open] .outbox-list') !== null);
    }, { timeout: 20_000 });
  }

  /**
   * The list's items, as far as it is open.
   * @returns {Promise<{label: string, meta: string, actions: string[]}[]>}
   */
  list() {
    return this.tab.eval(() =>
      [...document.querySelectorAll('dialog[open] .outbox-item')].map(item => ({
        label: /** @type {HTMLElement} */ (item.querySelector('.outbox-label')).innerText.trim(),
        meta: /** @type {HTMLElement} */ (item.querySelector('.outbox-meta')).innerText.replace(/\s+/g, ' ').trim(),
        actions: [...item.querySelectorAll('[data-act], a')].map(b => /** @type {HTMLElement} */ (b).dataset.act ?? 'login'),
      })),
    );
  }

  /** Presses a button of the list's first item that has it. @param {string} name */
  async act(name) {
    await this.tab.click(`dialog[open] .outbox-item [data-act=${name}]`);
  }

  /** Every error that is shown: by the page itself, or by the outbox. */
  errors() {
    return this.tab.eval(() =>
      [.../** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll('.error, #snackbar, #outbox-strip'))]
        .filter(e => e.checkVisibility())
        .map(e => e.innerText.replace(/\s+/g, ' ').trim())
        .filter(text => /не принято|не получилось|не сохранено|ошибка/i.test(text)),
    );
  }
}
