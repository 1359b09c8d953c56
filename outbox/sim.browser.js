// @ts-check
// A browser in memory: tabs, a service worker that is ended and started again, a
// disk, cookies and a network. The worker in it is the shipped one.

import { defaults } from './line.js';
import { memory, memoryStore } from './memory.store.js';
import { fakeClock, fakeLocks, fakeServer, faults, random, reply } from './sim.js';
import { createTabs, never, origin, request } from './sim.tab.js';
import { inLine } from './waits.js';
import { attach } from './worker.js';

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
  let version = 1;
  let idleSince = 0;
  /** @type {ReturnType<typeof startWorker> | null} */
  let active = null;
  /** @type {ReturnType<typeof startWorker> | null} a newer version that waits for the old one's work */
  let installed = null;

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
    /** @type {import('./sim.tab.js').Tap[]} */
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
    openTab: (/** @type {{controlled?: boolean, visible?: boolean}} */ how = {}) => openTab(how),
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
    const me = Object.assign(program(), { ready: false, skipped: 0, parked: kind === 'chromium' && rnd() < 0.3 });
    /** @type {Record<string, (e: any) => void>} */
    const listeners = {};
    attach(
      {
        location: { href: `${origin}/outbox/sw.js`, origin },
        navigator: { locks: me.locks },
        registration: {
          ...(kind === 'chromium' && { sync: { register: async (/** @type {string} */ t) => me.alive && b.tags.add(t) } }),
          get active() {
            return active;
          },
          get waiting() {
            return installed?.ready ? installed : null;
          },
        },
        clients: { matchAll: async () => (me.step() ? windows(me) : never()), claim: async () => {} },
        caches: { open: async () => ({ add: async () => {} }), match: async () => new Response('') },
        skipWaiting() {
          me.skipped++;
          takeTurn();
        },
        fetch: me.fetch,
        addEventListener: (/** @type {string} */ type, /** @type {any} */ fn) => (listeners[type] = fn),
      },
      /** @type {any} */ ({ ...config, store: me.store }),
    );
    let pending = 0;
    return Object.assign(me, {
      postMessage: (/** @type {any} */ data) => void Promise.resolve().then(() => me.alive && installed === me && installed.fire('message', { data })),
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
          takeTurn();
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

  /**
   * A new version: it takes over when it is installed and the old one has nothing to
   * do. Chromium leaves it waiting, now and then, until it asks for it once more, or
   * the old one is ended.
   *
   * @param {boolean} [db] it changes the database
   */
  function update(db) {
    if (db) version++;
    installed?.end();
    const next = (installed = startWorker());
    void Promise.allSettled(next.fire('install').work).then(() => {
      next.ready = true;
      takeTurn();
    });
  }

  function takeTurn() {
    const next = installed;
    if (!next?.ready || !next.skipped || (active?.alive && (active.busy() || (next.parked && next.skipped < 2)))) return;
    activate();
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

  const openTab = createTabs({ b, mutant, judge, config, program, worker, over });
  return b;
}
