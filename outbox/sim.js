// @ts-check
// A world for tests: a clock that moves only when told, a server with a guard,
// a network with faults, and programs (a worker, a page) that can be ended in
// the middle of anything.

import { createDecisions } from './decide.js';
import { createOutbox } from './engine.js';
import { memory, memoryStore } from './memory.store.js';

/** Lets everything happen that needs no time to pass. */
const drain = () => new Promise((ok) => setImmediate(ok));

/** @param {number} seed */
export function random(seed) {
  let a = seed >>> 0;
  return () => {
    a = (a + 0x6d2b79f5) >>> 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** @param {number} at */
export function fakeClock(at = Date.parse('2026-11-29T17:00:00Z')) {
  /** @type {{at: number, fn: () => void, id: number}[]} */
  let timers = [];
  let id = 0;
  let shift = 0; // of the wall clock: somebody sets it
  const clock = {
    now: () => at + shift,
    /** the time that nobody sets */
    real: () => at,
    set: (/** @type {number} */ ms) => (shift += ms),
    later: (/** @type {() => void} */ fn, /** @type {number} */ ms) => {
      const t = { at: at + Math.max(0, ms || 0), fn, id: ++id };
      let i = timers.length;
      while (i > 0 && timers[i - 1].at > t.at) i--;
      timers.splice(i, 0, t);
      return id;
    },
    never: (/** @type {any} */ x) => void (timers = timers.filter((t) => t.id !== x)),
    async go(/** @type {number} */ ms) {
      const end = at + ms;
      await drain();
      for (;;) {
        if (!timers.length || timers[0].at > end) break;
        const t = /** @type {{at: number, fn: () => void}} */ (timers.shift());
        at = Math.max(at, t.at);
        t.fn();
        await drain();
      }
      at = end;
    },
  };
  return clock;
}

/** Web Locks: first come, first served; a program that ends lets go of its own. */
export function fakeLocks() {
  /** @type {{owner: object, run: () => void}[]} */
  let queue = [];
  /** @type {object | null} */
  let holder = null;
  let waiting = 0;
  const next = () => {
    if (!holder && queue.length) /** @type {any} */ (queue.shift()).run();
  };
  return {
    /** @param {{alive: boolean}} owner */
    for: (owner) => ({
      request(/** @type {string} */ _name, /** @type {any} */ options, /** @type {(lock: any) => Promise<any>} */ fn) {
        if (!owner.alive) return new Promise(() => {});
        return new Promise((ok, no) => {
          const run = () => {
            holder = owner;
            Promise.resolve()
              .then(() => fn({}))
              .then(ok, no)
              .finally(() => {
                if (holder === owner) holder = null;
                next();
              });
          };
          if (holder || queue.length) {
            if (options.ifAvailable) return void Promise.resolve().then(() => fn(null)).then(ok, no);
            queue.push({ owner, run });
            waiting = Math.max(waiting, queue.filter((q) => q.owner === owner).length);
          } else run();
        });
      },
    }),
    /** @param {object} owner */
    end(owner) {
      queue = queue.filter((q) => q.owner !== owner);
      if (holder === owner) holder = null;
      next();
    },
    mostWaiting: () => waiting,
    held: () => !!holder,
  };
}

/**
 * A server with a guard: keys by owner, work done once. Its session says whose
 * requests it takes.
 *
 * @param {ReturnType<typeof fakeClock>} clock
 */
export function fakeServer(clock) {
  /** @type {Map<string, {body: string, state: string, status: number, at: number}>} */
  const records = new Map();
  const server = {
    session: 'A',
    /** how long it remembers a key, from its completion, by a clock that nobody sets */
    retention: Infinity,
    /** without these it is a wrong server, which tests must find out */
    guarded: true,
    owned: true,
    /** whether it reads a form's owner in its key */
    readsKey: true,
    /** every name that was ever answered for good, by owner and key */
    acknowledged: new Set(),
    /** @type {{key: string, owner: string, session: string, body: string, url: string, at: number}[]} */
    effects: [],
    /** @type {{key: string | undefined, owner: string | null, attempt: string | null, age: string | null, body: string, at: number, url: string, headers: Headers}[]} */
    requests: [],
    refusals: new Map(), // body → status, executed
    /**
     * The guard's answer, after the handler's time. A request that no script sent
     * has its key in the body's hidden field, and no owner.
     *
     * @param {string} url
     * @param {any} init
     * @param {{ms?: number, status?: number, session?: string}} [how] session: whose the request's cookie is
     */
    async handle(url, init, how = {}) {
      const h = init.headers;
      const body = init.body ? Buffer.from(init.body).toString('latin1') : '';
      const key = h.get('Idempotency-Key') ?? /(?:^|&)_key=([^&]*)/.exec(body)?.[1];
      const session = how.session ?? server.session;
      const owner = h.get('Outbox-Owner');
      server.requests.push({ key, owner, attempt: h.get('Outbox-Attempt'), age: h.get('Outbox-Age'), body, at: clock.now(), url, headers: h });
      if (!session) return reply(401, { 'Outbox-Status': 'auth' });
      // A form that the browser sends by itself says whose it is in its key alone.
      const whose = owner ?? (h.get('Outbox-Attempt') ? '' : ((server.readsKey && /~(\w+)$/.exec(key ?? '')?.[1]) || session));
      if (server.owned && whose !== session) return reply(412, { 'Outbox-Status': 'owner', 'Outbox-Owner': session });
      if (Number(h.get('Outbox-Age')) * 1000 > server.retention) return reply(410, { 'Outbox-Status': 'expired' });
      const id = session + '\n' + key;
      let known = server.guarded ? records.get(id) : undefined;
      if (known?.state === 'done' && clock.real() - known.at > server.retention) known = undefined;
      if (known && known.body !== body) return reply(422, { 'Idempotency-Status': 'key-reused' });
      if (known?.state === 'running') return reply(409, { 'Idempotency-Status': 'in-progress', 'Retry-After': '2' });
      if (known) return reply(known.status, { 'Idempotency-Status': `replayed;key="${key}"` }, body);
      if (how.status) return reply(how.status, { 'Idempotency-Status': `released;key="${key}"` });
      const record = { body, state: 'running', status: server.refusals.get(body) ?? 200, at: 0 };
      records.set(id, record);
      const done = () => {
        record.state = 'done';
        record.at = clock.real();
        server.acknowledged.add(id);
        if (record.status < 400) server.effects.push({ key: key ?? '', owner: owner ?? session, session, body, url, at: clock.now() });
      };
      if (how.ms) await new Promise((ok) => clock.later(() => (done(), ok(undefined)), /** @type {number} */ (how.ms)));
      else done();
      return reply(record.status, { 'Idempotency-Status': `executed;key="${key}"`, 'Content-Type': 'text/html' }, `<li>${body}</li>`);
    },
  };
  return server;
}

/**
 * @param {number} status
 * @param {Record<string, string>} [headers]
 * @param {string} [body]
 * @param {any} [more]
 */
export function reply(status, headers = {}, body = '', more = {}) {
  const bytes = new TextEncoder().encode(body).buffer;
  return { status, ok: status >= 200 && status < 300, type: 'basic', redirected: false, headers: new Headers(headers), arrayBuffer: async () => bytes, json: async () => JSON.parse(body), ...more };
}

/**
 * The network's ways. Each gets what the server would do.
 *
 * @type {Record<string, (send: (how?: any) => Promise<any>, clock: ReturnType<typeof fakeClock>) => Promise<any>>}
 */
export const faults = {
  ok: (send) => send(),
  refuse: async () => {
    throw new TypeError('Failed to fetch');
  },
  blackhole: () => new Promise(() => {}),
  cut: async (send) => {
    await send();
    throw new TypeError('Failed to fetch');
  },
  'cut in the body': async (send) => ({ ...(await send()), arrayBuffer: () => Promise.reject(new TypeError('network error')) }),
  lost: async (send) => {
    await send();
    return new Promise(() => {});
  },
  502: async () => reply(502, {}, '<h1>Bad Gateway</h1>'),
  503: async () => reply(503, { 'Retry-After': '3' }),
  504: async (send) => {
    await send();
    return reply(504);
  },
  500: (send) => send({ status: 500 }),
  429: async (send) => {
    const r = await send({ status: 429 });
    if (r.status === 429) r.headers.set('Retry-After', '5');
    return r;
  },
  slow: (send) => send({ ms: 5_000 }),
  'very slow': (send) => send({ ms: 40_000 }),
  portal: async () => reply(200, { 'Content-Type': 'text/html' }, '<form>log in to the cafe</form>'),
  redirect: async () => reply(0, {}, '', { type: 'opaqueredirect' }),
  firewall: async () => reply(403, {}, 'blocked'),
  late: (send, clock) => new Promise((ok, no) => clock.later(() => send().then(ok, no), 1_500)),
};

/**
 * One browser: its disk, its locks, its clock, and programs in it.
 *
 * @param {{seed?: number, config?: any}} [opts]
 */
export function world({ seed = 1, config = {} } = {}) {
  const clock = fakeClock();
  const locks = fakeLocks();
  const disk = memory();
  const server = fakeServer(clock);
  const rnd = random(seed);
  const w = {
    clock,
    locks,
    disk,
    server,
    rnd,
    /** @type {any[]} */
    told: [],
    /** how the next request goes; a function is asked for each */
    /** @type {string | ((url: string, init: any) => string)} */
    net: 'ok',
    inFlight: 0,
    mostInFlight: 0,
    portal: false, // ping goes nowhere either
    visible: true,
    /** @type {((op: string) => void) | null} throws as a broken store does */
    breakStore: null,
    keys: 0,
    /** may end the program, between any two of its steps */
    /** @type {((me: {end(): void}) => void) | null} */
    hazard: null,
    /** sees each request as it leaves */
    /** @type {((key: string, init: any) => void) | null} */
    watch: null,
    /** entries as they lie on the disk */
    entries: () => [...disk.entries.values()].sort((a, b) => a.seq - b.seq),
    /** A program: what it does ends when it is ended. */
    program() {
      const me = {
        alive: true,
        flying: 0,
        end() {
          if (!me.alive) return;
          me.alive = false;
          w.inFlight -= me.flying;
          locks.end(me);
        },
      };
      /** @template T @param {Promise<T>} p @returns {Promise<T>} */
      const mortal = (p) =>
        new Promise((ok, no) => {
          p.then(
            (v) => me.alive && ok(v),
            (e) => me.alive && no(e),
          );
        });
      const base = memoryStore(disk);
      const store = {
        /** @type {any} */
        change: (/** @type {any} */ fn, /** @type {any} */ opts) =>
          mortal(
            (async () => {
              await null;
              if (!me.alive) return;
              w.breakStore?.('change');
              w.hazard?.(me);
              if (!me.alive) return;
              const value = await base.change(fn, opts);
              w.hazard?.(me);
              return value;
            })(),
          ),
        read: () =>
          mortal(
            (async () => {
              w.breakStore?.('read');
              return base.read();
            })(),
          ),
        body: (/** @type {string} */ key) => mortal(base.body(key)),
      };
      const common = {
        store,
        locks: /** @type {any} */ (locks.for(me)),
        now: clock.now,
        config,
        fetch: (/** @type {string} */ url, /** @type {any} */ init) => {
          if (!me.alive) return new Promise(() => {});
          w.hazard?.(me);
          if (!me.alive) return new Promise(() => {});
          if (url.endsWith('/ping')) return w.portal || w.net === 'refuse' ? Promise.reject(new TypeError('x')) : Promise.resolve(reply(204, { 'Outbox-Status': 'pong' }));
          w.watch?.(init.headers.get('Idempotency-Key'), init);
          const mode = typeof w.net === 'function' ? w.net(url, init) : w.net;
          w.inFlight++;
          w.mostInFlight = Math.max(w.mostInFlight, w.inFlight);
          me.flying++;
          const over = () => {
            me.flying--;
            w.inFlight--;
          };
          init.signal?.addEventListener('abort', () => p.catch(() => {}));
          const p = Promise.race([
            faults[mode]((how) => server.handle(url, init, how), clock),
            new Promise((_, no) => init.signal?.addEventListener('abort', () => no(new DOMException('aborted', 'AbortError')))),
          ]).finally(() => {
            if (me.alive) over();
            w.hazard?.(me);
          });
          return mortal(p);
        },
      };
      const outbox = createOutbox({
        ...common,
        random: rnd,
        later: (fn, ms) => clock.later(() => me.alive && fn(), ms),
        never: clock.never,
        visible: () => w.visible,
        tell: (m) => me.alive && m.type === 'outbox' && w.told.push(m),
      });
      return Object.assign(me, {
        outbox,
        store,
        decide: createDecisions({ ...common, newKey: () => `new-${++w.keys}` }),
        /**
         * a tap, as the worker gets it
         *
         * @param {string} body
         * @param {any} [more]
         * @returns {{key: string, body: string, result: any, at: number, began: number, done: Promise<void>}}
         */
        tap(body, more = {}) {
          const key = more.key ?? `k-${++w.keys}`;
          const { answer, done } = outbox.capture({
            key,
            owner: 'A',
            method: 'POST',
            url: 'https://app.test/tasks',
            headers: [['content-type', 'application/x-www-form-urlencoded'], ['hx-request', 'true']],
            body: new TextEncoder().encode(body).buffer,
            ...more,
          });
          /** @type {{key: string, body: string, result: any, at: number, began: number, done: Promise<void>}} */
          const t = { key, body, result: null, at: 0, began: clock.now(), done };
          void answer.then((r) => {
            t.result = r;
            t.at = clock.now() - t.began;
          });
          return t;
        },
      });
    },
  };
  return w;
}
