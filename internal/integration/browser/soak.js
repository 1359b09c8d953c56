// @ts-check
// The soak: two people with two phones and three tabs tap for minutes over a
// network that does to every third request what networks do. One phone changes
// hands twice. In the end the database, and what was done on the way there, must
// be what the people meant.
import { join } from 'node:path';
import { deck, generator, met } from './deck.js';
import { BadNetwork } from './fault.js';
import { judgeEffects } from './effects.js';
import { IntentLog } from './intents.js';
import { sleep, startServer, tempFolder, until } from './processes.js';
import { Scene, Site } from './scene.js';
import { Screen } from './screen.js';
import { Upstream } from './upstream.js';
import { handedOver, watch } from './watch.js';

/**
 * @typedef {object} Task what the driver knows of a task
 * @property {string} id
 * @property {string} title
 * @property {string} person
 * @property {string} device where it was made; it is tapped there alone, for between two devices the last arrival wins
 * @property {'plain' | 'twin' | 'weekly'} kind twin: others have its very title
 * @property {boolean} done as last wished
 * @property {boolean} deleted
 * @property {number} at when it was tapped
 * @property {string} tab where
 */

/**
 * @typedef {object} Place a tab, and who is there
 * @property {string} name
 * @property {string} device
 * @property {import('./screen.js').Screen} screen
 * @property {string} person
 */

/**
 * @typedef {object} Result
 * @property {number} taps
 * @property {number} wishes
 * @property {number} slips presses that came down beside their row, which had moved
 * @property {number} flips presses on a row that said something else a moment before
 * @property {number} requests changing ones
 * @property {Record<string, number>} faults changing requests that met each kind
 * @property {number} drained ms from the good network to the last delivery
 * @property {import('./intents.js').Verdict} database
 * @property {import('./intents.js').Verdict} effects
 * @property {number} executed
 */

const subjects = ['Алгебра', 'Физика', 'Химия', 'История', 'Литература', 'География', 'Биология', 'Английский'];
const twins = /** @type {Record<string, string>} */ ({ anna: 'Купить тетрадь', boris: 'Купить ручку' });

/**
 * @typedef {object} Options
 * @property {number} seed
 * @property {number} taps at least so many; more, until each fault was met often enough
 * @property {Record<string, number>} [limits] of the outbox, where its own make a run long
 * @property {number} [atLeast] so often; by default the network is good
 * @property {(planner: import('./processes.js').Server) => Promise<void>} [meanwhile] what is done to the planner again
 *   and again while people tap; they stay on their phones then
 * @property {'on' | 'guard off' | 'outbox off'} [onceward] guard off: every request loses its name on the way to the
 *   planner. outbox off: the browser has neither workers nor locks, so nothing can be kept
 */

/**
 * @param {import('./chromium.js').Chromium} browser
 * @param {Options} options
 * @returns {Promise<Result>}
 */
export async function soak(browser, options) {
  const data = tempFolder('onceward-soak-');
  const planner = await startServer('planner', ['-data', data, ...(options.limits ? ['-outbox', JSON.stringify(options.limits)] : [])]);
  const upstream = await Upstream.before(planner.url, { nameless: options.onceward === 'guard off' });
  const network = await BadNetwork.before(upstream.url, { seed: options.seed });
  const site = new Site(planner, network, join(data, 'planner.db'), upstream);
  const scene = new Scene(site, browser);
  const run = new Soak(scene, upstream, planner, options);
  try {
    return await run.run();
  } catch (error) {
    console.log(planner.output().split('\n').filter(line => /level=(ERROR|WARN)/.test(line)).slice(-20).join('\n'));
    throw error;
  } finally {
    await scene.clear().catch(() => {});
    for (const phone of run.phones) await phone.close().catch(() => {});
    await site.stop();
  }
}

export class Soak {
  log = new IntentLog();
  /** @type {Map<string, Task>} by id */
  tasks = new Map();
  /** @type {{place: Place, task: Task, from: number}[]} what somebody is about to take back */
  undos = [];
  taps = 0;
  slips = 0;
  flips = 0;
  /** Presses from which the driver did not come back. */
  stuck = 0;
  /** @type {Place[]} */
  places = [];
  /** @type {import('./engines.js').Context[]} */
  phones = [];
  /** @type {import('./scene.js').Person[]} */
  people = [];
  /** @type {Place | undefined} the one in front */
  front;

  /**
   * @param {Scene} scene
   * @param {Upstream} upstream
   * @param {import('./processes.js').Server} planner
   * @param {Options} options
   */
  constructor(scene, upstream, planner, options) {
    this.scene = scene;
    this.network = scene.network;
    this.upstream = upstream;
    this.planner = planner;
    this.options = options;
    this.onceward = options.onceward ?? 'on';
    this.random = generator(options.seed);
  }

  async run() {
    const { network, options } = this;
    await this.open();
    if (options.atLeast !== undefined) await this.badNetwork(4 * options.taps + 1000);
    let tapping = true;
    const meanwhile = (async () => {
      while (tapping && options.meanwhile) await options.meanwhile(this.planner);
    })();
    try {
      await Promise.race([this.tap(), meanwhile.then(() => new Promise(() => {}))]);
    } finally {
      tapping = false;
    }
    await meanwhile;

    const state = await network.state();
    await network.good();
    const drained = this.onceward === 'outbox off' ? await this.quiet() : await this.drain();
    const executed = this.upstream.done.filter(Upstream.effective);
    const intents = /** @type {import('./effects.js').Meant[]} */ (this.log.read());
    return {
      taps: this.taps,
      wishes: intents.length,
      slips: this.slips,
      flips: this.flips,
      requests: Object.values(state.changing).reduce((a, b) => a + b, 0),
      faults: met(state),
      drained,
      database: this.log.compare(await this.found()),
      effects: judgeEffects(intents, executed),
      executed: executed.length,
    };
  }

  /**
   * What the next changing requests meet.
   * @param {number} n
   * @param {number} [percent] of them that meet a fault
   */
  async badNetwork(n, percent) {
    const long = (this.options.limits?.softLimit ?? 8000) + 1000;
    const faults = deck(this.random, n, percent).join(', ').replaceAll('blackhole:9s', `blackhole:${long}ms`);
    await this.network.set({ script: `POST /tasks* -> ${faults}`, mode: 'plan' });
  }

  async tap() {
    const { random, network, options } = this;
    const { atLeast = 0 } = options;
    // The phone changes hands, and comes back.
    let handOver = this.onceward === 'on' && !options.meanwhile ? 67 : Infinity;
    for (let turn = 1; ; turn++) {
      if (this.taps >= handOver && this.taps < options.taps) {
        await this.handOver();
        handOver += 67;
      }
      await this.turn();
      if (turn % 10 === 0 && this.taps >= options.taps) {
        const counts = Object.values(met(await network.state()));
        if (counts.every(n => n >= atLeast)) return;
        if (this.taps > 10 * options.taps) throw new Error(`after ${this.taps} taps: ${JSON.stringify(counts)}`);
      }
      await sleep(20 + random.below(140));
    }
  }

  /** Anna's phone with two tabs, and Boris's with one. */
  async open() {
    const { scene } = this;
    if (this.onceward !== 'outbox off') {
      const anna = await scene.person('anna');
      const boris = await scene.person('boris');
      this.people = [anna, boris];
      this.places = [
        { name: 'A1', device: 'A', screen: anna.screen, person: anna.login },
        { name: 'A2', device: 'A', screen: await anna.openTab(), person: anna.login },
        { name: 'B1', device: 'B', screen: boris.screen, person: boris.login },
      ];
    } else {
      this.places = [await this.bare('anna-0')];
    }
    for (const place of this.places) await watch(place.screen.tab);
  }

  /** A phone whose browser can keep nothing, signed in. @param {string} login @returns {Promise<Place>} */
  async bare(login) {
    const { site, browser } = this.scene;
    const cookie = await site.register(login);
    const phone = await /** @type {import('./chromium.js').Chromium} */ (browser).newContext();
    this.phones.push(phone);
    await phone.setCookie({ ...cookie, url: site.url });
    await phone.context.addInitScript(() => {
      for (const power of ['serviceWorker', 'locks']) Object.defineProperty(Navigator.prototype, power, { value: undefined });
    });
    const screen = new Screen(await phone.newTab(), site.url);
    await screen.tab.goto(`${site.url}/today`);
    await screen.tab.waitFor('the planner’s own scripts run', () => 'htmx' in window && document.querySelector('#outbox-strip') !== null);
    return { name: 'A1', device: 'A', screen, person: login };
  }

  /**
   * What a person has just tapped they look at, until the page has handed it over.
   *
   * @param {Place} place
   */
  async taken(place) {
    await sleep(300);
    await this.show(place);
    await handedOver(place.screen.tab);
  }

  /** One tap of somebody somewhere. */
  async turn() {
    const { random } = this;
    const due = this.undos.findIndex(u => performance.now() - u.from > 700);
    if (due >= 0) {
      const [{ place, task }] = this.undos.splice(due, 1);
      await this.undo(place, task);
      return;
    }
    const place = random.one(this.places);
    const kind = random.next();
    const adds = { on: 0.36, 'outbox off': 0.7, 'guard off': 1 }[this.onceward];
    if (kind < adds || !(await this.tapRow(place, kind > 0.93))) await this.add(place);
  }

  /** @param {Place} place */
  async show(place) {
    if (this.front === place) return;
    const { tab } = place.screen;
    // A driver's input may wait without an end for a page that nobody sees.
    await until('the tab is seen', async () => {
      await tab.front();
      return tab.eval(() => document.visibilityState === 'visible');
    }, { timeout: 60_000 });
    this.front = place;
  }

  /** @param {Place} place */
  async add(place) {
    const { random } = this;
    const { tab } = place.screen;
    await this.show(place);
    const n = this.tasks.size + 1;
    const draw = random.next();
    const kind = draw < 0.2 ? 'twin' : draw < 0.3 && this.onceward === 'on' ? 'weekly' : 'plain';
    const title = { twin: twins[place.person.split('-')[0]], weekly: `Тренировка ${n}`, plain: `${random.one(subjects)}: задание ${n}` }[kind];
    // The page scrolls by itself when a new row comes to stand behind the strip.
    await until('the caret is in the line', async () => {
      await tab.click('#add-text');
      return tab.eval(() => document.activeElement?.id === 'add-text');
    });
    // Pasted: to type it letter by letter tests the driver.
    await tab.eval(line => {
      const field = /** @type {HTMLInputElement} */ (document.querySelector('#add-text'));
      field.value = line;
      field.dispatchEvent(new Event('input', { bubbles: true }));
    }, kind === 'weekly' ? `${title} каждый понедельник` : title);
    const id = (await tab.value('#add input[name=id]')) ?? '';
    this.log.write({ person: place.person, wish: 'create', task: title, id, tab: place.name });
    await tab.raw.key('Enter');
    this.taps++;
    this.strayed(place, await this.hits(place));
    this.tasks.set(id, { id, title, person: place.person, device: place.device, kind, done: false, deleted: false, at: performance.now(), tab: place.name });
  }

  /**
   * Taps a row's circle, or puts the row into the trash.
   * @param {Place} place
   * @param {boolean} bin
   * @returns {Promise<boolean>} false if there is no row to tap
   */
  async tapRow(place, bin) {
    const { random } = this;
    await this.show(place);
    const rows = (await place.screen.rows()).flatMap(row => {
      const task = this.tasks.get(row.id);
      // A row that does not show the last wish yet is another tab's business that
      // this one has not heard of: nobody knows what a tap there would mean.
      return task && task.kind !== 'twin' && task.person === place.person && task.device === place.device && row.done === task.done && !task.deleted && performance.now() - task.at > 1000 ? [task] : [];
    });
    const task = random.one(rows.filter(t => !bin || t.kind === 'plain'));
    if (!task) return false;
    if (bin) {
      if (!(await this.pressable(place, `#task-${task.id} .menu summary`))) return false;
      if (!(await this.press(place, task, `#trash-${task.id} button`, 'trash'))) return false;
    } else if (!(await this.press(place, task, `#circle-${task.id}`, task.done ? 'undone' : 'done'))) return false;
    if ((bin || task.done) && random.next() < 0.3) this.undos.push({ place, task, from: performance.now() });
    return true;
  }

  /** Presses what changes nothing, unless a row moves under the finger. @param {Place} place @param {string} selector */
  async pressable(place, selector) {
    const at = await place.screen.tab.point(selector);
    if (at) await place.screen.tab.raw.press(at.x, at.y, []);
    this.strayed(place, await this.hits(place));
    return at !== null;
  }

  /** What the finger has hit in a page since it was last asked. @param {Place} place @returns {Promise<{form: string, value: string}[]>} */
  hits(place) {
    return place.screen.tab.eval(() => /** @type {any} */ (window).rigHits?.splice(0) ?? []);
  }

  /**
   * What was hit and not aimed at is a wish all the same: the page cannot know.
   * @param {Place} place
   * @param {{form: string, value: string}[]} hits
   */
  strayed(place, hits) {
    for (const hit of hits) {
      const task = this.tasks.get(hit.form.slice(hit.form.indexOf('-') + 1));
      if (!task) throw new Error(`the finger came down on ${hit.form}, which nobody made`);
      const wish = hit.form.startsWith('tick') ? (hit.value === 'true' ? 'done' : 'undone') : hit.value === 'true' ? 'trash' : 'restore';
      this.log.write({ person: place.person, wish, task: task.title, id: task.id, tab: place.name });
      this.wished(place, task, wish);
    }
  }

  /**
   * Takes back the last tap, by the bar that offers it.
   * @param {Place} place
   * @param {Task} task
   */
  async undo(place, task) {
    await this.show(place);
    const offered = (await place.screen.tab.text('#snackbar p')) ?? '';
    if (!(await place.screen.tab.visible('#snackbar button')) || !offered.endsWith(task.title)) return;
    if (task.deleted) await this.press(place, task, '#snackbar button', 'restore');
    else if (task.done) await this.press(place, task, '#snackbar button', 'undone');
  }

  /**
   * @param {Place} place
   * @param {Task} task
   * @param {string} selector
   * @param {'done' | 'undone' | 'trash' | 'restore'} wish
   */
  async press(place, task, selector, wish) {
    const { tab } = place.screen;
    if (!(await tab.point(selector))) return false;
    this.strayed(place, await this.hits(place));
    const n = this.log.write({ person: place.person, wish, task: task.title, id: task.id, tab: place.name });
    // Looked for once more, for writing takes its time and rows move.
    const at = await tab.point(selector);
    if (!at) {
      this.log.missed(n);
      return false;
    }
    // A driver that does not come back may have pressed all the same: the page says.
    /** @type {NodeJS.Timeout | undefined} */
    let timer;
    const late = await Promise.race([tab.raw.press(at.x, at.y, []), new Promise(resolve => (timer = setTimeout(resolve, 20_000, true)))]);
    clearTimeout(timer);
    if (late && ++this.stuck > 3) throw new Error('the driver does not come back from its presses');
    const hits = await this.hits(place);
    const value = String(wish === 'done' || wish === 'trash');
    const form = `${wish === 'done' || wish === 'undone' ? 'tick' : 'trash'}-${task.id}`;
    this.taps++;
    const meant = hits.findIndex(hit => hit.form === form && hit.value === value);
    // The row had gone from under the finger, or said something else by now.
    if (meant < 0) {
      if (hits.some(hit => hit.form === form)) this.flips++;
      else this.slips++;
      this.log.missed(n);
    }
    this.strayed(place, hits.slice(0, Math.max(meant, 0)));
    if (meant >= 0) this.wished(place, task, wish);
    this.strayed(place, hits.slice(meant + 1));
    return true;
  }

  /**
   * @param {Place} place
   * @param {Task} task
   * @param {'done' | 'undone' | 'trash' | 'restore'} wish
   */
  wished(place, task, wish) {
    if (wish === 'done' || wish === 'undone') task.done = wish === 'done';
    else task.deleted = wish === 'trash';
    task.at = performance.now();
    task.tab = place.name;
  }

  /**
   * Somebody else logs in on the first phone, in one tab. In the other, which
   * still shows the first person's page, that one taps twice more.
   */
  async handOver() {
    const person = this.stranger();
    const [first, second] = this.random.next() < 0.5 ? this.places : [this.places[1], this.places[0]];
    this.undos = this.undos.filter(u => u.place.device !== first.device);
    await this.taken(first);
    await this.enter(person, first);
    first.person = person.login;
    await watch(first.screen.tab);
    if (!(await this.tapRow(second, false))) await this.add(second);
    await this.add(second);
    this.undos = this.undos.filter(u => u.place !== second);
    await this.taken(second);
    await second.screen.today();
    second.person = person.login;
    await watch(second.screen.tab);
  }

  /** @param {import('./scene.js').Person} person @param {Place} place */
  enter(person, place) {
    return person.logIn(place.screen);
  }

  /** The one of the two who is not signed in on the first phone. */
  stranger() {
    return /** @type {import('./scene.js').Person} */ (this.people.find(p => p.login !== this.places[0].person));
  }

  /** @returns {Promise<number>} ms until everything was delivered, with whatever has to be done for that */
  async drain() {
    const begun = performance.now();
    for (const place of this.places) await this.taken(place);
    const limit = () => Math.max(1000, 60_000 - (performance.now() - begun));
    const [a, b] = [this.places[0], this.places[2]];
    const left = async () => {
      const { entries = [], meta = [] } = await a.screen.stored();
      return entries.map(e => e.value).filter(e => e.owner === meta[0]?.value.owner);
    };
    await until('the first phone has nothing of its owner left', async () => (await left()).length === 0 || Promise.reject(new Error(JSON.stringify(await left()))), { timeout: limit(), every: 100 });
    // What the other one wished there waits for them to come back.
    if (this.onceward === 'on') {
      await this.show(a);
      await this.stranger().logIn(a.screen);
    }
    await a.screen.drained(limit());
    await b.screen.drained(limit());
    const took = Math.round(performance.now() - begun);
    for (const { screen } of [a, b]) await screen.stripSays(null);
    return took;
  }

  /** Without an outbox nothing is sent any more; what is under way ends. */
  async quiet() {
    const begun = performance.now();
    await until('nothing is under way', async () => (await this.network.state()).open === 0, { timeout: 60_000 });
    return Math.round(performance.now() - begun);
  }

  /**
   * What is in the database. Of a series, one next task belongs to each that is
   * done; another is one too many.
   * @returns {Promise<import('./intents.js').Found[]>}
   */
  async found() {
    const rows = await this.scene.site.sql(
      `select users.login as person, tasks.id, title as task, is_completed as done, deleted_at is not null as deleted, series_id as series
         from tasks join users on users.id = tasks.user_id where retracted = 0 order by tasks.rowid`,
    );
    /** @type {Map<string, number>} */
    const owed = new Map();
    for (const row of rows) if (row.series && this.tasks.has(row.id)) owed.set(row.series, row.done);
    /** @type {import('./intents.js').Found[]} */
    const found = [];
    for (const row of rows) {
      const next = row.series && !this.tasks.has(row.id);
      if (next && owed.get(row.series)) owed.set(row.series, 0);
      else found.push({ person: row.person, task: row.task, done: row.done === 1, deleted: row.deleted === 1 });
    }
    for (const [series, n] of owed) if (n) found.push({ person: 'nobody', task: `the next one of ${rows.find(r => r.series === series)?.task}, which is missing`, done: false });
    return found;
  }
}

/** @param {Result} result */
export function table(result) {
  const total = Object.values(result.faults).reduce((a, b) => a + b, 0);
  const end = `${result.executed} of ${result.wishes} wishes were done, the last ${(result.drained / 1000).toFixed(1)} s after the network was good again; ${result.slips} presses came down beside their row, ${result.flips} rows changed under the finger`;
  if (total === 0) return `${result.taps} taps, ${result.requests} changing requests\n${end}`;
  return [
    `${result.taps} taps, ${result.requests} changing requests, ${total} of them met a fault (${Math.round((100 * total) / result.requests)} %):`,
    ...Object.entries(result.faults).map(([name, n]) => `  ${name.padEnd(18)}${String(n).padStart(4)}`),
    end,
  ].join('\n');
}

/** @param {string} name @param {import('./intents.js').Verdict} verdict */
export const sum = (name, verdict) => `${name.padEnd(27)} ${Object.entries(verdict).map(([kind, list]) => `${kind}=${list.length}`).join(' ')}`;
