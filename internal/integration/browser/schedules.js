// @ts-check
// Random schedules: a short life of one phone, drawn from a seed. Two tabs, two
// people; taps over a bad network, the worker killed, pages loaded again, tabs
// closed, somebody else logged in. In the end the database, and what was done on
// the way there, must be what the people meant.
import { judgeEffects, wishOf } from './effects.js';
import { sleep, until } from './processes.js';
import { Scene, startSite } from './scene.js';
import { Soak } from './soak.js';
import { Upstream } from './upstream.js';
import { unsaved, watch } from './watch.js';

/**
 * So that a schedule takes seconds. No request is given up before the longest black
 * hole ends; and a busy machine has time to keep a tap before it says that it could not.
 */
export const limits = { softLimit: 4000, hardLimit: 10_000, backoff: 200, backoffVisible: 1000, kickEvery: 500 };

/** Preferences under which Firefox ends a worker in the middle of what it does, by itself, again and again. */
export const mortal = { 'dom.serviceWorkers.idle_timeout': 700, 'dom.serviceWorkers.idle_extended_timeout': 700 };

/**
 * @typedef {object} Lived
 * @property {number} seed
 * @property {number} wishes
 * @property {Record<string, number>} did how often each thing was done
 * @property {import('./intents.js').Verdict} database
 * @property {import('./intents.js').Verdict} effects
 * @property {string} [story] of one that went wrong
 */

/** What is wrong with a life in which nothing is. */
export const none = 'lost=0 doubled=0 reordered=0 foreign=0';

/**
 * One site and one browser for many schedules.
 * @param {import('./engines.js').Browser} browser
 */
export async function openSchedules(browser) {
  // Each kick lets a worker that is to end by itself live on.
  const own = browser.engine === 'firefox' ? { ...limits, kickEvery: 3000 } : limits;
  const scene = new Scene(await startSite({ limits: own }), browser);
  /** @type {Schedule | undefined} */
  let phone;
  let lived = 0;
  return {
    /** @param {number} seed @returns {Promise<Lived>} */
    async live(seed) {
      // A phone of its own now and then: most of them begin with what was before.
      if (phone && lived++ % 10 === 9) {
        await scene.clear();
        phone = undefined;
      }
      const next = new Schedule(scene, seed);
      try {
        const life = await next.live(phone);
        return total([life]) === none ? life : { ...life, story: next.story() };
      } catch (error) {
        if (error instanceof Error) error.stack += `\n${next.story()}`;
        await scene.clear().catch(() => {});
        phone = undefined;
        throw error;
      } finally {
        if (next.ended) phone = next;
      }
    },
    close: () => scene.site.stop(),
  };
}

class Schedule extends Soak {
  ended = false;
  /** When each step was taken. @type {{at: number, what: string}[]} */
  diary = [];
  /** @type {Record<string, number>} */
  did = {};

  /**
   * @param {Scene} scene
   * @param {number} seed
   */
  constructor(scene, seed) {
    super(scene, /** @type {import('./upstream.js').Upstream} */ (scene.site.upstream), scene.site.planner, { seed, taps: 0, limits });
    this.seed = seed;
    this.from = 0;
  }

  /**
   * @param {Schedule} [before] whose phone it is now
   * @returns {Promise<Lived>}
   */
  async live(before) {
    const { random, network, scene } = this;
    this.from = this.upstream.done.length;
    await this.begin(before);
    await this.badNetwork(200, 30 + random.below(41));
    let handOver = random.next() < 0.4 ? 3 + random.below(8) : Infinity;
    const steps = 8 + random.below(9);
    for (let i = 0; i < steps; i++) {
      if (i === handOver) {
        handOver = Infinity;
        this.count('login');
        await this.handOver();
      }
      await this.step();
      await sleep(random.below(random.next() < 0.2 ? 1500 : 250));
    }
    await network.good();
    // What is not put down yet is not in the store, which is to be empty.
    for (const place of this.places) await this.taken(place);
    await this.empty();
    const people = new Set(this.people.map(p => p.login));
    const executed = this.upstream.done.slice(this.from).filter(d => Upstream.effective(d) && people.has(d.person));
    await this.toldUnsaved(new Set(executed.map(d => d.key)));
    const intents = /** @type {import('./effects.js').Meant[]} */ (this.log.read());
    const found = (await this.found()).filter(f => people.has(f.person) || f.person === 'nobody');
    await scene.audit();
    this.ended = true;
    return { seed: this.seed, wishes: intents.length, did: this.did, database: this.log.compare(found), effects: judgeEffects(intents, executed) };
  }

  /** @param {string} what */
  count(what) {
    this.did[what] = (this.did[what] ?? 0) + 1;
    this.diary.push({ at: Date.now(), what });
  }

  /** The life as it went, for whoever has to find out why it went so: taps, what was done to the phone, and what the planner was asked. */
  story() {
    const lines = [...this.log.lines(), ...this.diary, ...this.upstream.done.slice(this.from)];
    return lines.sort((a, b) => a.at - b.at).map(line => JSON.stringify(line)).join('\n');
  }

  /**
   * What a page has told to be unsaved, a person knows and does again: no wish is
   * left of it, unless it was done all the same, when only the answer was lost.
   *
   * @param {Set<string>} done keys
   */
  async toldUnsaved(done) {
    for (const t of await unsaved(this.places[0].screen.tab)) {
      if (done.has(t.key)) continue;
      const asked = wishOf(t);
      const meant = this.log.read().findLast(i => i.id === asked?.id && i.wish === asked?.wish);
      if (!meant) continue;
      this.log.missed(meant.n);
      this.count('told unsaved');
    }
  }

  /** Two new people; the first one has the phone, and both its tabs. @param {Schedule} [before] */
  async begin(before) {
    const { scene } = this;
    const first = before ? await scene.account('anna', before.people[0].context) : await scene.person('anna');
    const { context } = first;
    const people = [first, await scene.account('boris', context)];
    if (before) {
      first.screen = before.places[0].screen;
      await first.screen.tab.front();
      await this.enter(first, first);
    }
    const places = [{ name: 'A1', device: 'A', screen: first.screen, person: first.login }];
    // WebKit's driver shows one tab alone, and has no answer from the others.
    if (scene.engine !== 'webkit') {
      const second = before ? before.places[1].screen : await first.newTab();
      await second.tab.front();
      // A worker that ends by itself may have ended while it gave out a script.
      await second.today().catch(() => second.today());
      places.push({ name: 'A2', device: 'A', screen: second, person: first.login });
    }
    Object.assign(this, { people, places, front: places.at(-1) });
    for (const place of this.places) await watch(place.screen.tab);
  }

  async step() {
    const { random, scene } = this;
    const draw = random.next();
    if (draw < 0.7) {
      this.count('tap');
      return this.turn();
    }
    const place = random.one(this.places);
    if (draw < 0.82) {
      // Firefox's worker ends by itself, WebKit's with the tab alone.
      if (scene.engine !== 'chromium') return this.turn();
      this.count('kill');
      return this.people[0].chromium().stopWorkers();
    }
    await this.taken(place);
    if (draw < 0.92 || this.places.length === 1) {
      this.count('reload');
      await place.screen.tab.reload();
      await place.screen.running().catch(() => place.screen.today());
      return watch(place.screen.tab);
    }
    this.count('close');
    this.undos.push(...this.undos.splice(0).filter(u => u.place !== place));
    const opened = await this.people[0].newTab();
    await place.screen.tab.close();
    place.screen = opened;
    await opened.tab.front();
    Object.assign(this, { front: place });
    await opened.today().catch(() => opened.today());
    await watch(place.screen.tab);
  }

  /**
   * Somebody else logs in, in one tab while the other one's is still open; or in
   * the only one.
   *
   * @override
   */
  async handOver() {
    for (const place of this.places) await this.taken(place);
    if (this.places.length > 1) return super.handOver();
    const [place] = this.places;
    const person = this.stranger();
    this.undos.splice(0);
    await this.enter(person, place);
    place.person = person.login;
    await watch(place.screen.tab);
  }

  /**
   * A worker that ends by itself may have ended while it gave out a script.
   *
   * @override
   * @param {import('./scene.js').Person} person
   * @param {{screen: import('./screen.js').Screen}} place
   */
  enter(person, { screen }) {
    return person.logIn(screen).catch(() => screen.today());
  }

  /** Everything is delivered, with whatever has to be done for that. */
  async empty() {
    const [{ screen }] = this.places;
    await this.show(this.places[0]);
    const left = async () => {
      const { entries = [], meta = [] } = await screen.stored();
      return entries.map(e => e.value).filter(e => e.owner === meta[0]?.value.owner);
    };
    await until('nothing of the one who is there is left', async () => (await left()).length === 0 || Promise.reject(new Error(JSON.stringify(await left()))), { timeout: 60_000, every: 100 });
    if ((await screen.queue()).length > 0) await this.stranger().logIn(screen);
    await screen.drained();
    await screen.stripSays(null);
  }
}

/** @param {Lived[]} lives */
export function total(lives) {
  const sums = { lost: 0, doubled: 0, reordered: 0, foreign: 0 };
  for (const life of lives) {
    for (const kind of /** @type {const} */ (['lost', 'doubled', 'reordered', 'foreign'])) sums[kind] += life.database[kind].length + life.effects[kind].length;
  }
  return Object.entries(sums).map(([kind, n]) => `${kind}=${n}`).join(' ');
}
