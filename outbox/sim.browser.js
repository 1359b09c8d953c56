// @ts-check
// A browser in memory: tabs, a service worker that is ended and started again, a
// disk, cookies, and what each of the three engines was seen to do to a request
// whose worker ended. Worker, engine and flights in it are the shipped ones; the
// tab is page.js without a document.

import { headers as announce, fragment } from './announce.js';
import { createDecisions } from './decide.js';
import { createOutbox } from './engine.js';
import { createFlights } from './flight.js';
import { announced } from './heard.js';
import { defaults } from './line.js';
import { memory, memoryStore } from './memory.store.js';
import { deny } from './paths.js';
import { respond } from './respond.js';
import { fakeClock, fakeLocks, fakeServer, faults, random, reply } from './sim.js';
import { headOf, inLine, nextKick } from './waits.js';
import { attach } from './worker.js';

const origin = 'https://app.test';
const never = () => new Promise(() => {});
/** @param {string} name */
const broken = (name) => new DOMException('the store', name);

/**
 * All time and chance of this thread come from one simulated browser at a time.
 * Only for a thread of its own.
 */
export function takeOverTime() {
  /** @type {{clock: ReturnType<typeof fakeClock>, rnd: () => number}} */
  let now = { clock: fakeClock(), rnd: random(1) };
  let ids = 0;
  const g = /** @type {any} */ (globalThis);
  g.setTimeout = (/** @type {any} */ fn, /** @type {number} */ ms) => now.clock.later(fn, ms);
  g.clearTimeout = (/** @type {any} */ id) => now.clock.never(id);
  Date.now = () => now.clock.now();
  Math.random = () => now.rnd();
  // node's own is slow to make.
  g.AbortController = class {
    /** @type {() => void} */
    end = () => {};
    signal = { addEventListener: (/** @type {string} */ _type, /** @type {() => void} */ fn) => (this.end = fn) };
    abort() {
      this.end();
    }
  };
  crypto.randomUUID = () => `0-0-0-0-${++ids}`;
  console.error = () => {};
  return (/** @type {typeof now} */ b) => (now = b);
}

/**
 * @typedef {object} Tap what a person did, and what they were told of it
 * @property {string} key
 * @property {string} owner
 * @property {string} body
 * @property {boolean} nav
 * @property {boolean} bad the server refuses it
 * @property {number} at on the clock that nobody sets
 * @property {any} tab
 * @property {{kind: string, at: number, status?: number}[]} told
 * @property {boolean} odd it went a way on which the line's order does not hold
 * @property {string} group
 * @property {boolean} again it came once more, as another request
 */

/**
 * @param {{kind: 'chromium' | 'firefox' | 'webkit', seed: number, mutant?: string, config?: any, judge?: any}} options
 */
export function createBrowser({ kind, seed, mutant = '', config = {}, judge = {} }) {
  const clock = fakeClock();
  const rnd = random(seed * 7919 + 1);
  const locks = fakeLocks();
  const disk = Object.assign(memory(), { version: 1 });
  const base = memoryStore(disk);
  const server = fakeServer(clock);
  config = { bigBody: 40, ...config }; // else every life would carry megabytes
  const cfg = { ...defaults, kickEvery: 5_000, ...config };
  server.retention = cfg.retention + 60_000;
  server.guarded = mutant !== 'guard';
  server.owned = mutant !== 'the server’s owner check';
  server.readsKey = mutant !== 'the owner in a form’s key';
  /** @type {Promise<any>} */
  let queue = Promise.resolve();
  let keys = 0;
  let version = 1;
  let idleSince = 0;
  /** @type {ReturnType<typeof startWorker> | null} */
  let active = null;
  /** @type {ReturnType<typeof startWorker> | null} a newer version that waits for the old one's work */
  let installed = null;
  let claimed = false;

  const b = {
    kind,
    clock,
    rnd,
    cfg,
    disk,
    server,
    locks,
    /** how requests go, and the faults of the next ones */
    net: 'ok',
    /** @type {string[]} */
    next: [],
    /** what is wrong with the store: '', fail, quota, slow */
    trouble: '',
    lastTrouble: -Infinity,
    /** sessions are forgotten by the server, cookies are not */
    cookie: { who: 'A', valid: true },
    /** @type {any[]} */
    tabs: [],
    /** @type {Tap[]} */
    taps: [],
    tags: new Set(),
    /** how many steps the worker has yet to live; null: it lives on */
    fuse: /** @type {number | null} */ (null),
    deaths: 0,
    steps: 0,
    flying: 0,
    mostFlying: 0,
    /** keys that the person decided about */
    decided: new Set(),
    entries: () => [...disk.entries.values()].sort((x, y) => x.seq - y.seq),
    openTab,
    killWorker: () => active?.end(),
    update,
    sync,
    login,
    kill,
  };

  /** A program: a worker or a page. What it does ends when it is ended. */
  function program() {
    /** @type {(() => void)[]} */
    const ends = [];
    let flying = 0;
    const me = {
      alive: true,
      version,
      /** @param {() => void} fn */
      atEnd: (fn) => ends.push(fn),
      end() {
        if (!me.alive) return;
        me.alive = false;
        b.flying -= flying;
        locks.end(me);
        for (const fn of ends) fn();
      },
      /** between any two steps it may be ended */
      step() {
        if (me !== active || !me.alive) return me.alive;
        b.steps++;
        if (b.fuse !== null && b.fuse-- <= 0) {
          b.fuse = null;
          b.deaths++;
          me.end();
        }
        return me.alive;
      },
      store: {
        /** @type {any} */
        change: (/** @type {any} */ fn) => transact((live) => base.change((s) => {
          const c = fn(mutant === 'owner check' ? anyOwner(s) : s);
          if (b.trouble === 'quota' && c.bodies?.length) throw broken('QuotaExceededError');
          if (mutant === 'write-ahead' && c.bodies?.length) {
            clock.later(() => live() && void base.change(() => c), 20);
            return { value: c.value };
          }
          judge.commit?.(b, s, c);
          return c;
        })),
        read: () => transact(() => base.read()),
        body: (/** @type {string} */ key) => transact(() => base.body(key)),
      },
      locks: {
        request: (/** @type {string} */ name, /** @type {any} */ options, /** @type {any} */ fn) => {
          if (!me.step()) return never();
          if (mutant === 'lock') return Promise.resolve().then(() => (me.alive ? fn({}) : never()));
          return locks.for(me).request(name, options, (lock) => (me.step() ? fn(lock) : never()));
        },
      },
      /** @param {string} url @param {any} [init] */
      async fetch(url, init = {}) {
        if (!me.step()) return never();
        const mine = !!init.headers?.get?.('Outbox-Attempt');
        const kept = mine && judge.send?.(b, init, me);
        if (kept) {
          b.mostFlying = Math.max(b.mostFlying, ++b.flying);
          flying++;
        }
        try {
          const r = await Promise.race([over(url, init), new Promise((_, no) => init.signal?.addEventListener('abort', () => no(broken('AbortError'))))]);
          if (!me.step()) return never();
          return mutant === 'acknowledgement check' && mine ? believed(r) : { ...r, arrayBuffer: async () => (me.step() ? r.arrayBuffer() : never()) };
        } catch (e) {
          if (!me.step()) return never();
          throw e;
        } finally {
          if (kept && me.alive) {
            b.flying--;
            flying--;
          }
        }
      },
    };
    /**
     * One after another, as the browser does them; what a program had asked for
     * when it was ended is not done.
     *
     * @param {(live: () => boolean) => Promise<any>} what
     */
    function transact(what) {
      if (!me.step()) return never();
      const before = queue;
      /** @type {any} */
      let release;
      queue = new Promise((ok) => (release = ok));
      return (async () => {
        await before;
        try {
          const ms = b.trouble === 'slow' ? 4_000 : rnd() < 0.2 ? 1 + Math.floor(rnd() * 3) : 0;
          if (ms) await new Promise((ok) => clock.later(() => ok(0), ms));
          if (!me.step()) return await gone(release);
          if (disk.version > me.version) throw broken('VersionError');
          disk.version = me.version;
          if (b.trouble === 'fail') throw broken('UnknownError');
          const value = await what(() => me.alive);
          if (!me.step()) return await gone(release);
          return value;
        } finally {
          release();
        }
      })();
    }
    return me;
  }

  /** @param {() => void} release */
  function gone(release) {
    release();
    return never();
  }

  /** @param {import('./types.js').Stored} s what it would be if nobody asked whose an entry is */
  const anyOwner = (s) => ({ ...s, meta: { ...s.meta, owner: s.entries.find(inLine)?.owner ?? s.meta.owner } });

  /** @param {any} r an answer as it seems to those who believe every one */
  function believed(r) {
    const headers = new Headers(r.headers);
    if (!headers.get('Idempotency-Status')) headers.set('Idempotency-Status', 'executed');
    return { ...r, status: r.status || 200, type: 'basic', headers };
  }

  /** Over the wire, with the cookie of this moment. @param {string} url @param {any} init */
  function over(url, init) {
    const session = b.cookie.valid ? b.cookie.who : '';
    if (url.endsWith('/ping')) return /^(ok|slow|late|\d+)$/.test(b.net) ? Promise.resolve(reply(204, { 'Outbox-Status': 'pong' })) : Promise.reject(new TypeError('no'));
    const how = b.next.shift() ?? b.net;
    return faults[how]((more) => server.handle(url, init, { session, ...more }), clock);
  }

  /** @param {ReturnType<typeof program>} me */
  const windows = (me) => b.tabs.map((tab) => ({
    visibilityState: tab.visible ? 'visible' : 'hidden',
    postMessage: (/** @type {any} */ m) => void Promise.resolve().then(() => me.alive && tab.hear(m)),
  }));

  function startWorker() {
    const me = program();
    /** @type {Record<string, (e: any) => void>} */
    const listeners = {};
    attach(
      {
        location: { href: `${origin}/outbox/sw.js`, origin },
        navigator: { locks: me.locks },
        registration: kind === 'chromium' ? { sync: { register: async (/** @type {string} */ t) => me.alive && b.tags.add(t) } } : {},
        clients: { matchAll: async () => (me.step() ? windows(me) : never()), claim: async () => void (claimed = true) },
        caches: { open: async () => ({ add: async () => {} }), match: async () => new Response('') },
        skipWaiting() {},
        fetch: me.fetch,
        addEventListener: (/** @type {string} */ type, /** @type {any} */ fn) => (listeners[type] = fn),
      },
      /** @type {any} */ ({ ...config, store: me.store }),
    );
    let pending = 0;
    return Object.assign(me, {
      busy: () => pending > 0,
      /** @param {string} type @param {any} [more] */
      fire(type, more) {
        const event = {
          /** @type {Promise<any> | null} */
          answer: null,
          /** @type {Promise<any>[]} */
          work: [],
          respondWith: (/** @type {any} */ p) => (event.answer = p),
          waitUntil: (/** @type {any} */ p) => event.work.push(p),
          ...more,
        };
        pending++;
        idleSince = clock.real();
        listeners[type]?.(event);
        void Promise.allSettled([event.answer, ...event.work]).then(() => {
          pending--;
          if (installed && !pending) activate();
        });
        return event;
      },
    });
  }

  /** The worker, started if it is not there. It is stopped when it has been idle, or busy for too long. */
  function worker() {
    if (active?.alive) return active;
    if (installed) return activate();
    const w = (active = startWorker());
    w.atEnd(() => installed && active === w && activate());
    idleSince = clock.real();
    const watch = () => {
      if (!w.alive) return;
      const idle = clock.real() - idleSince;
      if (idle >= (w.busy() ? (kind === 'firefox' ? 60_000 : 300_000) : 30_000)) w.end();
      else clock.later(watch, 10_000);
    };
    clock.later(watch, 10_000);
    return w;
  }

  /** A new version: it is installed at once, and takes over when the old one has nothing to do. @param {boolean} [db] it changes the database */
  function update(db) {
    if (db) version++;
    installed = startWorker();
    installed.fire('install');
    if (!active?.alive || !active.busy()) activate();
  }

  function activate() {
    const next = /** @type {ReturnType<typeof startWorker>} */ (installed);
    installed = null;
    const old = active;
    active = null;
    old?.end();
    active = next;
    idleSince = clock.real();
    next.fire('activate');
    for (const tab of b.tabs) if (tab.controlled) tab.kick(true);
    return next;
  }

  /** The browser itself wakes the worker, where it can. */
  function sync() {
    const [tag] = b.tags;
    if (!tag) return;
    const event = worker().fire('sync', { tag, lastChance: false });
    void Promise.all(event.work).then(() => b.tags.delete(tag), () => {});
  }

  /**
   * Somebody signs in, by a form, in a tab.
   *
   * @param {any} tab
   * @param {string} who '' signs out
   * @param {boolean} [unseen] by a way that no worker hears of, and over a slow page
   */
  function login(tab, who, unseen) {
    if (tab.controlled && !unseen) worker().fire('fetch', { request: request(`${origin}/auth/login`, { method: 'POST' }, 'navigate', '') });
    const { visible, controlled } = tab;
    tab.end();
    clock.later(() => {
      b.cookie = { who, valid: !!who };
      clock.later(() => openTab({ controlled, visible }), unseen ? 3_000 : 30);
    }, 20 + Math.floor(rnd() * 30));
  }

  /** The whole browser is ended; the disk stays. */
  function kill() {
    active?.end();
    installed?.end();
    installed = null;
    for (const tab of [...b.tabs]) tab.end();
  }

  /** @param {string} url @param {any} init @param {string} mode @param {string} referrer */
  const request = (url, init, mode, referrer) => ({
    url, mode, referrer, method: init.method, headers: new Headers(init.headers),
    arrayBuffer: async () => new TextEncoder().encode(init.body ?? '').buffer,
  });

  /**
   * What the browser does with a request of a page.
   *
   * @param {any} tab
   * @param {string} url
   * @param {any} init
   * @param {boolean} [nav]
   * @returns {Promise<any>} rejected: a network error
   */
  async function dispatch(tab, url, init, nav) {
    const r = request(url, init, nav ? 'navigate' : 'cors', `${origin}/today`);
    for (let tries = 0; ; tries++) {
      const w = worker();
      if (tries) await new Promise((ok) => clock.later(() => ok(0), 3));
      if (!w.alive) continue;
      /** @type {any} */
      let died;
      const death = new Promise((ok) => (died = () => ok('died')));
      w.atEnd(died);
      const event = w.fire('fetch', { request: r });
      const got = await Promise.race([event.answer, death]);
      if (got !== 'died') return got;
      for (const t of b.taps) if (r.headers.get('Idempotency-Key') === t.key || url.includes(`=${t.key}.`)) t.again = true;
      if (kind === 'chromium' && nav) return never();
      if (kind === 'chromium' && !tries) continue;
      if (kind === 'firefox' && nav) {
        // By itself, past the worker, and without what the worker would have added.
        await new Promise((ok) => clock.later(() => ok(0), 6));
        for (const t of b.taps) if (url.includes(`=${t.key}.`)) t.odd = true;
        return over(url.split('#')[0], { headers: new Headers({ 'content-type': 'application/x-www-form-urlencoded' }), body: await r.arrayBuffer() });
      }
      throw new TypeError('NetworkError');
    }
  }

  /** A page of the signed-in person, if it can be had. @param {{controlled?: boolean, visible?: boolean}} [how] */
  function openTab({ controlled = true, visible = true } = {}) {
    if (!/^(ok|slow|late)$/.test(b.net)) return null;
    const me = program();
    const owner = b.cookie.valid ? b.cookie.who : '';
    const since = clock.now();
    let born = since;
    const by = Symbol('page');
    const url = `${origin}/tasks`;
    /** @type {any[]} */
    let entries = [];
    let asked = false;
    let heard = () => {};
    /** @type {any} */
    let timer;
    /** @type {any} */
    let leaving;
    /** @type {any} */
    let engine;
    const flights = createFlights({
      cfg, send, find, answered() {}, expect,
      put: async () => null,
      say: (what, _who, d) => me.alive && tell(d.key, what, d.status),
    });

    /** @param {string} key @param {string} what @param {number} [status] */
    function tell(key, what, status) {
      const tap = b.taps.findLast((t) => t.key === key && t.tab === tab);
      if (!tap) return;
      tap.told.push({ kind: what, at: clock.real(), status });
      judge.told?.(b, tap, what, status);
    }

    function decidedKey() {
      const key = newKey();
      b.decided.add(key);
      return key;
    }

    const newKey = () => `k${++keys}~${owner}`;

    const local = () => (engine ??= createOutbox({ store: me.store, locks: me.locks, fetch: me.fetch, config, visible: () => tab.visible, tell: share }));

    /** @param {any} m */
    function share(m) {
      hear(m);
      const events = m.events?.map((/** @type {any} */ e) => ({ ...e, by }));
      if (me.alive && (m.pending || !events || events[0])) worker().fire('message', { data: { type: 'flush', tell: 'only', events }, source: null });
    }

    /** @param {string} to @param {any} init */
    async function send(to, init) {
      if (!me.alive) return never();
      if (tab.controlled) return dispatch(tab, to, init);
      await local().greet({ owner, since }).catch(() => {});
      const r = request(to, init, 'cors', '');
      const a = /** @type {any} */ (announced(r, { origin, deny }));
      const { answer } = local().capture({ ...a, method: 'POST', headers: [...r.headers], body: r.arrayBuffer() });
      return respond(await answer, a, null, cfg);
    }

    /** @param {any} [reset] @param {boolean} [all] */
    async function kick(reset, all) {
      if (!me.alive) return;
      expect();
      if (tab.controlled) {
        const source = { postMessage: (/** @type {any} */ m) => void Promise.resolve().then(() => tab.hear(m)) };
        const small = (headOf(entries, owner)?.size ?? 0) > cfg.bigBody && (await local().state()).stored;
        if (!me.alive) return;
        worker().fire('message', { data: { type: 'flush', owner, since, reset, tell: all, small, born }, source });
        born = 0;
        if (small) void local().flush(reset);
        return;
      }
      await local().greet({ owner, since }).catch(() => {});
      void local().flush(reset);
      hear(await local().state());
    }

    function expect() {
      asked = tab.controlled;
      arm();
    }

    function arm() {
      clock.never(timer);
      const ms = nextKick(entries, owner, clock.now(), cfg.kickEvery, asked);
      if (ms !== null && tab.visible && mutant !== 'page timer') timer = clock.later(() => kick(), ms);
    }

    /** @param {any} m */
    function hear(m) {
      if (!me.alive) return;
      if (m.type === 'outbox-placed') flights.placed(m.key);
      if (m.type !== 'outbox') return;
      ({ entries } = m);
      asked = !m.stored;
      tab.entries = entries;
      tab.stored = m.stored;
      heard();
      for (const e of m.events) if (e.owner === owner && e.by !== by) void flights.tell(e, e.createdAt < since);
      arm();
    }

    /** @param {string} key */
    async function find(key) {
      if (!me.alive) return never();
      const news = new Promise((ok) => (heard = () => ok(0)));
      void kick();
      const after = (/** @type {number} */ ms) => new Promise((ok) => clock.later(() => ok(0), ms));
      await Promise.race([news, after(3_000), after(100).then(() => local().state()).then(hear)]);
      return me.alive ? entries.find((e) => e.key === key) : never();
    }

    /** @param {Tap} tap @param {any} r */
    function answered(tap, r) {
      const kept = ['X-Outbox-Queued', 'X-Outbox-Unsaved'].some((h) => r.headers.get(h));
      if (!kept) tell(tap.key, 'answer', r.status);
      return r;
    }

    /**
     * htmx, or a script's fetch.
     *
     * @param {Tap} tap
     * @param {any} init
     */
    async function byScript(tap, init) {
      await flights.turn(tap.key, url, init);
      try {
        const r = answered(tap, await send(url, init));
        flights.heard(tap.key, r.status, (n) => r.headers.get(n));
      } catch {
        const r = await flights.rejected(tap.key);
        if (r) answered(tap, r);
        else tell(tap.key, 'failed');
      }
    }

    /**
     * A plain form: the page goes with it.
     *
     * @param {Tap} tap
     * @param {any} init
     */
    async function byForm(tap, init) {
      void flights.turn(tap.key, url, init);
      leaving = clock.later(async () => {
        if (me.alive && (await flights.rejected(tap.key)) && me.alive) load();
      }, cfg.softLimit + 2_000);
      try {
        const bare = { method: 'POST', body: init.body };
        const r = await dispatch(tab, url + fragment({ key: tap.key, owner, back: '/', coalesce: tap.group }), bare, true);
        if (!me.alive) return;
        if (r.status === 204) return; // the page stays
        const to = r.headers.get('Location') ?? '';
        if (to.includes('/outbox/queued')) tell(tap.key, 'queued');
        else tell(tap.key, r.headers.get('Idempotency-Status') ? 'answer' : 'page', r.status);
      } catch {
        if (!me.alive) return;
        tell(tap.key, 'page', 0);
      }
      load();
    }

    /** Another page, in this tab; where it cannot be had, it is asked for again. */
    function load() {
      const { controlled, visible } = tab;
      tab.end();
      const again = () => void (openTab({ controlled, visible }) ?? clock.later(again, 5_000));
      again();
    }

    const tab = Object.assign(me, {
      owner,
      controlled,
      visible,
      entries,
      stored: true,
      hear,
      kick,
      load,
      decide: createDecisions({ store: me.store, locks: me.locks, fetch: me.fetch, newKey: decidedKey, config }),
      /** @param {{nav?: boolean, bad?: boolean, again?: boolean, group?: string, big?: boolean}} how */
      tap({ nav = false, bad = false, again = false, group = '', big = false }) {
        const last = again && b.taps.findLast((t) => t.tab === tab && !t.told.length && !t.nav);
        const key = last ? last.key : newKey();
        const body = last ? last.body : `_key=${key}&text=${bad ? 'bad' : 'x'}${big ? 'x'.repeat(cfg.bigBody) : ''}`;
        if (!owner) return; // nothing is announced then
        if (bad) server.refusals.set(body, 422);
        /** @type {Tap} */
        const tap = { key, owner, body, nav: nav && tab.controlled, bad: last ? last.bad : bad, at: clock.real(), tab, told: [], odd: false, again: !!last, group: last ? last.group : group };
        b.taps.push(tap);
        const who = /** @type {any} */ ({ key, el: 'row', asker: null });
        const coalesce = last ? last.group : group;
        flights.begin(who, tap.nav);
        const init = { method: 'POST', body, headers: { ...announce({ key, owner, el: 'row', coalesce }), 'Content-Type': 'application/x-www-form-urlencoded' } };
        if (tap.nav) return byForm(tap, init);
        return byScript(tap, init);
      },
    });
    me.atEnd(() => {
      clock.never(leaving);
      clock.never(timer);
      b.tabs = b.tabs.filter((t) => t !== tab);
    });
    b.tabs.push(tab);
    if (!claimed && tab.controlled) claimed = true;
    void kick(true);
    return tab;
  }

  return b;
}
