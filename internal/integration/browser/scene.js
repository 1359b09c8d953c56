// @ts-check
// What every scenario stands on: a planner of its own, the bad network in front
// of it, and people with browsers in front of that.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { open } from './engines.js';
import { BadNetwork } from './fault.js';
import { sql, startServer, tempFolder, until } from './processes.js';
import { Screen, password } from './screen.js';
import { Upstream } from './upstream.js';

/** @typedef {{title: string, id: string, is_completed: number, deleted: number, retracted: number, series_id: string | null, occurrence: string | null, due_date: string | null}} Row */

/**
 * @typedef {object} SiteOptions
 * @property {'planner' | 'parcels'} [app] parcels: cmd/parcels, which takes files
 * @property {Record<string, number>} [limits] of the planner's outbox, in ms or bytes, where its own are too long to
 *   wait for
 * @property {string} [plan] what the network does from the beginning
 * @property {number} [seed]
 * @property {import('./upstream.js').Patch} [patch]
 */

/**
 * Starts a planner, the network in front of it, and between them what writes down
 * what the planner did.
 * @param {SiteOptions} [options]
 */
export async function startSite({ app = 'planner', limits, plan, seed, patch } = {}) {
  const data = tempFolder(`onceward-${app}-`);
  const planner = await startServer(app, ['-data', data, ...(limits && app === 'planner' ? ['-outbox', JSON.stringify(limits)] : [])]);
  const upstream = await Upstream.before(planner.url, { patch });
  const network = await BadNetwork.before(upstream.url, { plan, seed });
  return new Site(planner, network, join(data, `${app}.db`), upstream);
}

export class Site {
  /**
   * @param {import('./processes.js').Server} planner
   * @param {BadNetwork} network
   * @param {string} database
   * @param {Upstream} [upstream]
   */
  constructor(planner, network, database, upstream) {
    this.planner = planner;
    this.upstream = upstream;
    this.network = network;
    this.database = database;
    /** What browsers are given. */
    this.url = network.url;
  }

  /**
   * Makes an account, past the network.
   * @param {string} login
   * @returns {Promise<{name: string, value: string}>} the cookie of its first session
   */
  register(login) {
    return this.#enter('/auth/register', login);
  }

  /**
   * Logs in, past the network and past every browser.
   * @param {string} login
   * @returns the new session's cookie
   */
  session(login) {
    return this.#enter('/auth/login', login);
  }

  /**
   * The account's sessions are over, on every device.
   * @param {string} login
   */
  async endSessions(login) {
    const { name, value } = await this.session(login);
    const answer = await fetch(`${this.#direct}/auth/logout`, {
      method: 'POST',
      redirect: 'manual',
      headers: { Cookie: `${name}=${value}` },
      body: new URLSearchParams({ everywhere: 'true' }),
    });
    if (answer.status !== 303) throw new Error(`logging ${login} out: ${answer.status}`);
  }

  /** Past the network. */
  get #direct() {
    return this.upstream?.url ?? this.planner.url;
  }

  /** @param {string} path @param {string} login */
  async #enter(path, login) {
    const answer = await fetch(this.#direct + path, {
      method: 'POST',
      redirect: 'manual',
      headers: { 'Accept-Language': 'ru' },
      // The browser's own zone: to tell another one draws the list anew at some
      // moment of the test, and near midnight with another day.
      body: new URLSearchParams({ login, password, tz: Intl.DateTimeFormat().resolvedOptions().timeZone }),
    });
    const [, name, value] = /^(\w+)=([^;]+)/.exec(answer.headers.getSetCookie()[0] ?? '') ?? [];
    if (answer.status !== 303 || !value) throw new Error(`${path} as ${login}: ${answer.status} ${await answer.text()}`);
    return { name, value };
  }

  /** @param {string} query @param {...(string|number)} args */
  sql(query, ...args) {
    return sql(this.database, query, ...args);
  }

  /**
   * A person's tasks in the order in which they were made.
   * @param {string} login
   * @returns {Promise<Row[]>}
   */
  tasks(login) {
    return /** @type {Promise<any>} */ (
      this.sql(
        `select title, tasks.id, is_completed, deleted_at is not null as deleted, retracted, series_id, occurrence, due_date
           from tasks join users on users.id = tasks.user_id where users.login = ? order by tasks.rowid`,
        login,
      )
    );
  }

  async stop() {
    await this.network.stop();
    await this.upstream?.stop();
    await this.planner.kill();
  }
}

let people = 0;

/**
 * A site, and one engine to look at it with.
 */
export class Scene {
  /** @type {Person[]} */
  #people = [];
  #from = 0;
  #done0 = 0;

  /**
   * @param {Site} site
   * @param {import('./engines.js').Browser} browser
   */
  constructor(site, browser) {
    this.site = site;
    this.network = site.network;
    this.browser = browser;
    this.engine = browser.engine;
  }

  /**
   * @param {import('./engines.js').Engine} engine
   * @param {SiteOptions & {browser?: Partial<import('./engines.js').Options>}} [options]
   */
  static async open(engine, { browser, ...site } = {}) {
    const [started, opened] = await Promise.all([startSite(site), open(engine, browser)]);
    return new Scene(started, opened);
  }

  /**
   * A new person with a phone of their own, who looks at the page "today".
   * @param {string} [name]
   * @param {(context: import('./engines.js').Context) => Promise<void>} [prepare] what is done to the phone before
   */
  async person(name = 'anna', prepare = async () => {}) {
    const login = `${name}-${++people}`;
    const cookie = await this.site.register(login);
    const context = await this.browser.newContext();
    const person = new Person(this.site, login, context);
    this.#people.push(person);
    person.screen = await person.newTab();
    await prepare(context);
    if (this.engine === 'webkit') await person.screen.tab.goto(`${this.site.url}/healthz`);
    await context.setCookie({ ...cookie, url: this.site.url });
    await person.screen.today();
    return person;
  }

  /**
   * Somebody without an account, who looks at the site's first page.
   */
  async visitor() {
    const context = await this.browser.newContext();
    const person = new Person(this.site, '', context);
    this.#people.push(person);
    person.screen = await person.newTab();
    await person.screen.tab.goto(`${this.site.url}/`);
    await person.screen.running();
    return person;
  }

  /**
   * An account more, of somebody who uses the same browser.
   * @param {string} name
   * @param {import('./engines.js').Context} context
   */
  async account(name, context) {
    const login = `${name}-${++people}`;
    await this.site.register(login);
    return new Person(this.site, login, context);
  }

  /**
   * The changing requests since the last clearing, in the order of arrival.
   * @param {RegExp} [path]
   */
  async sent(path) {
    const all = await this.network.changes(this.#from);
    return all.filter(e => e.path !== '/settings/zone' && (!path || path.test(e.path)));
  }

  /**
   * What holds of every scenario: each change that a browser sent for the outbox
   * went under a name, nothing was done twice under one, and there was never a
   * second try of a name while the first was under way.
   */
  async audit() {
    const { upstream } = this.site;
    const sent = (await this.sent()).filter(e => e.key);
    for (const e of sent) assert.ok(!e._key || e._key === e.key, `${e.path} went under two names: ${JSON.stringify(e)}`);
    /** @type {Map<string, import('./fault.js').Entry>} */
    const last = new Map();
    for (const e of sent) {
      const before = last.get(e.key ?? '');
      last.set(e.key ?? '', e);
      // When a browser that left did so the proxy learns only by writing to it.
      if (!before || before.fate === 'left') continue;
      const [ended, began] = [Date.parse(before.time) + before.ms, Date.parse(e.time)];
      assert.ok(began >= ended - 100, `${e.path}: a second try ${ended - began} ms before the first had ended: ${JSON.stringify([before, e])}`);
    }
    /** @type {Set<string>} */
    const done = new Set();
    for (const d of (upstream?.done ?? []).slice(this.#done0)) {
      if (!d.key || !Upstream.effective(d)) continue;
      assert.ok(!done.has(d.key), `${d.path} was done twice under ${d.key}`);
      done.add(d.key);
    }
    assert.deepEqual(upstream?.wrong, []);
  }

  /**
   * What the planner did for this person, in the order in
   * which it was done: "create Физика", "done Физика", "undone Физика".
   * @param {Person} person
   */
  async did(person) {
    const titles = new Map((await person.tasks()).map(t => [t.id, t.title]));
    return this.#done(person).map(({ path, form }) => {
      const [, id, field] = /^\/tasks\/([\w-]+)\/(\w+)$/.exec(path) ?? [];
      const title = titles.get(id ?? form.id) ?? id ?? form.text;
      if (field === 'state') return `${form.completed === 'true' ? 'done' : 'undone'} ${title}`;
      if (field === 'trash') return `${form.deleted === 'true' ? 'trash' : 'restore'} ${title}`;
      return `${field ?? 'create'} ${title}`;
    });
  }

  /** @param {Person} person */
  #done(person) {
    const { upstream } = this.site;
    if (!upstream) throw new Error('nobody writes down what the planner does');
    return upstream.done.filter(d => d.person === person.login && d.path.startsWith('/tasks') && Upstream.effective(d));
  }

  /**
   * What there is to know when a scenario went wrong.
   * @param {Person} person
   */
  async tell(person) {
    const { screen } = person;
    const sent = (await this.sent()).map(e => `  ${e.n} ${e.time.slice(11, 23)} ${e.path} ${(e.key ?? e._key ?? '').slice(0, 8)} ${e.mode} ${e.fate} ${e.status ?? ''}`);
    return [
      `at ${await screen.tab.url()}`,
      `rows: ${JSON.stringify(await screen.rows())}`,
      `strip: ${await screen.strip()}`,
      `page: ${await screen.tab.eval(async () => {
        const { outbox } = await import(/** @type {string} */ ('/outbox/page.js')).catch(() => ({}));
        return JSON.stringify({ visible: document.visibilityState, now: Date.now(), ...outbox?.snapshot });
      })}`,
      `kept: ${JSON.stringify((await screen.queue()).map(e => ({ key: e.key.slice(0, 8), state: e.state, attempts: e.attempts, url: new URL(e.url).pathname, text: e.text })))}`,
      `database: ${person.login && JSON.stringify((await person.tasks()).map(t => [t.title, t.is_completed]))}`,
      `sent:\n${sent.join('\n')}`,
      `did: ${person.login && (await this.did(person)).join(', ')}`,
      `console: ${screen.tab.console.join('\n')}`,
    ].join('\n');
  }

  /** The network is good again, and nobody is there any more. */
  async clear() {
    await this.network.good();
    for (const person of this.#people.splice(0)) await person.context.close();
    this.#from = (await this.network.state()).requests;
    this.#done0 = this.site.upstream?.done.length ?? 0;
  }

  async close() {
    await this.browser.close();
    await this.site.stop();
  }
}

export class Person {
  /** The first tab. @type {Screen} */
  screen = /** @type {any} */ (undefined);

  /**
   * @param {Site} site
   * @param {string} login
   * @param {import('./engines.js').Context} context
   */
  constructor(site, login, context) {
    this.site = site;
    this.login = login;
    this.context = context;
  }

  /** Another tab, empty yet. */
  async newTab() {
    return new Screen(await this.context.newTab(), this.site.url);
  }

  /** Another tab. @param {string} [path] by default of the planner's page "today" */
  async openTab(path) {
    const screen = await this.newTab();
    if (path) {
      await screen.tab.goto(this.site.url + path);
      await screen.running();
    } else await screen.today();
    return screen;
  }

  /**
   * Logs in by the page, as any account.
   * @param {Screen} [screen]
   * @param {string} [login]
   */
  async logIn(screen = this.screen, login = this.login) {
    await screen.tab.goto(`${this.site.url}/auth/login`);
    await screen.logIn(login);
    await screen.ready();
  }

  /** What only Chromium can do to a person's phone. */
  chromium() {
    if (!('stopWorkers' in this.context)) throw new Error('this person has no Chromium');
    return /** @type {import('./chromium.js').ChromiumContext} */ (this.context);
  }

  /** @returns {Promise<Row[]>} */
  tasks() {
    return this.site.tasks(this.login);
  }

  /** @param {string} title */
  async rows(title) {
    return (await this.tasks()).filter(t => t.title === title);
  }

  /**
   * Waits until the database says so.
   * @param {string} what
   * @param {(tasks: Row[]) => boolean} question
   * @param {number} [timeout]
   */
  database(what, question, timeout = 30_000) {
    return until(`the database of ${this.login}: ${what}`, async () => {
      const tasks = await this.tasks();
      if (question(tasks)) return tasks;
      throw new Error(JSON.stringify(tasks));
    }, { timeout, every: 100 });
  }
}
