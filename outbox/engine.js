// @ts-check
// The engine: keeps each announced request until it is proven delivered, in
// order, under one name, as the person who made it. Worker and page run the same
// one. Everything that it touches is given to it, so that node can test it with
// a clock, a network and a store of its own.
//
// What holds at every point, also when this program is ended in the middle:
//   1 nothing is sent that is not committed, unless storing failed and the
//     person was told
//   2 a key names one exact body
//   3 firstSentAt is committed before the first byte
//   4 there is one sender at a time (a Web Lock)
//   5 nothing leaves the store without an acknowledgement or a person's decision
//   6 nothing is sent under another owner
//   7 first sends happen in the line's order

import { retryAfter, statusToken, verdict } from './answer.js';
import { keptHeaders } from './announce.js';
import { checksum, readable, rename, said } from './body.js';
import { defaults, hello, place, settle, take } from './line.js';
import { inLine, summary } from './summary.js';

/** @typedef {import('./line.js').Entry} Entry */
/** @typedef {import('./line.js').Config} Config */
/** @typedef {import('./line.js').Stored} Stored */

/**
 * @typedef {object} Store
 * @property {<T>(fn: (stored: Stored) => import('./line.js').Change<T>, opts?: {strict?: boolean}) => Promise<T>} change
 *   one transaction: reads all, calls fn at once, writes what it returns; all or
 *   nothing. Resolves when it is committed (strict: on the disk).
 * @property {() => Promise<Stored>} read
 * @property {(key: string) => Promise<ArrayBuffer | null>} body
 */

/**
 * @typedef {object} Request an announced request, taken apart
 * @property {string} key
 * @property {string} owner
 * @property {string} method
 * @property {string} url
 * @property {[string, string][]} headers all of them
 * @property {Promise<ArrayBuffer | null> | ArrayBuffer | null} body
 * @property {string} [referrer]
 * @property {boolean} [nav]
 * @property {string} [back]
 * @property {string} [label]
 * @property {string} [el]
 * @property {string} [swap]
 */

/**
 * @typedef {object} Answer
 * @property {number} status 0: none came
 * @property {string} [type]
 * @property {boolean} [redirected]
 * @property {Headers} headers
 * @property {ArrayBuffer} body
 * @property {boolean} [late]
 */

/**
 * @typedef {{kind: 'answer', answer: Answer} | {kind: 'queued'} | {kind: 'unsaved'}} Result
 *
 * answer: the server's own; queued: it is kept and will be sent; unsaved: it is
 * neither known to be delivered nor kept
 */

/**
 * @typedef {object} Parts
 * @property {Store} store
 * @property {(url: string, init: any) => Promise<any>} fetch
 * @property {{request: (name: string, options: any, fn: (lock: any) => Promise<any>) => Promise<any>}} locks
 * @property {(message: any) => void} tell to all pages
 * @property {() => boolean | Promise<boolean>} [visible] whether a page is seen
 * @property {() => number} [now]
 * @property {() => number} [random]
 * @property {() => string} [newKey]
 * @property {(fn: () => void, ms: number) => any} [later]
 * @property {(id: any) => void} [never]
 * @property {Partial<Config>} [config]
 */

/** @param {Parts} parts */
export function createOutbox(parts) {
  const { store, fetch, locks, tell } = parts;
  const {
    now = Date.now,
    random = Math.random,
    newKey = () => crypto.randomUUID(),
    visible = () => true,
    later = (fn, ms) => setTimeout(fn, ms),
    never = (id) => clearTimeout(id),
  } = parts;
  /** @type {Config} */
  const cfg = { ...defaults, ...parts.config };

  /**
   * Pages that wait for an answer.
   *
   * @typedef {{key: string, extra: [string, string][], order: number, resolve: (r: Result) => void, open: boolean, timer: any}} Live
   * @type {Set<Live>}
   */
  const lives = new Set();
  let order = 0;
  // Requests are put down in the order in which they came, however long the
  // reading of each one's body takes.
  let placing = Promise.resolve();
  /** @type {Promise<void> | null} */
  let waiter = null;
  let resetAsked = false;
  // A login or logout is under way; known here at once, and to others through
  // the store.
  let paused = false;

  /** @param {Promise<any>} promise @param {number} ms */
  function within(promise, ms) {
    /** @type {any} */
    let timer;
    const end = new Promise((_, reject) => {
      timer = later(() => reject(new Error('the store does not answer')), ms);
    });
    return Promise.race([promise, end]).finally(() => never(timer));
  }

  /** @param {Live} live @param {Result} result */
  function close(live, result) {
    if (!live.open) return;
    live.open = false;
    lives.delete(live);
    never(live.timer);
    live.resolve(result);
  }

  /** @param {string} key @param {Result} result */
  function answerLives(key, result) {
    for (const live of [...lives]) if (live.key === key) close(live, result);
  }

  /** Those that were put down by then wait: say so. @param {number} upTo */
  function release(upTo) {
    let some = false;
    for (const live of [...lives]) {
      if (live.order > upTo) continue;
      close(live, { kind: 'queued' });
      some = true;
    }
    return some;
  }

  /** @param {any[]} [events] */
  async function announce(events = []) {
    tell(await state(events));
  }

  /** What pages are told; the names are the first implementation's. @param {any[]} [events] */
  async function state(events = []) {
    try {
      const { entries, meta } = await store.read();
      const owner = meta.owner ?? '';
      return { type: 'outbox', pending: summary(entries, owner, now(), cfg).pending, owner, entries, events, stored: true };
    } catch {
      return { type: 'outbox', pending: 0, owner: '', entries: [], events, stored: false };
    }
  }

  /**
   * Keeps the request, then sends it, or what stands before it.
   *
   * @param {Request} req
   * @returns {{answer: Promise<Result>, done: Promise<void>}} done: nothing of this is left to do
   */
  function capture(req) {
    /** @type {(r: Result) => void} */
    let resolve = () => {};
    const answer = new Promise((/** @type {(r: Result) => void} */ ok) => (resolve = ok));
    /** @type {Live} */
    const live = { key: req.key, extra: req.headers, order: Infinity, resolve, open: true, timer: null };
    lives.add(live);
    live.timer = later(() => {
      // Only what is put down may be called kept.
      close(live, { kind: live.order < Infinity ? 'queued' : 'unsaved' });
      void announce();
    }, cfg.softLimit);
    const done = keep(req, live).catch(() => close(live, { kind: live.order < Infinity ? 'queued' : 'unsaved' }));
    return { answer, done };
  }

  /** @param {Request} req @param {Live} live */
  async function keep(req, live) {
    const before = placing;
    let placed = () => {};
    placing = new Promise((ok) => (placed = () => ok(undefined)));
    try {
      const bytes = await req.body;
      const body = bytes?.byteLength ? bytes : null;
      await before;
      const entry = newEntry(req, body, now());
      const over = await locks.request(cfg.name, { ifAvailable: true }, async (lock) => {
        const spot = await put(entry, body, !!lock && !paused);
        const kept = spot?.kind === 'placed' || spot?.kind === 'joined';
        if (kept) live.order = ++order;
        placed();
        if (!kept) return unprotected(entry, body, live, spot);
        if (spot.atOnce) close(live, { kind: 'queued' });
        if (!lock) return false;
        if (!spot.go || (await deliver(spot.entry, body))) await run(true);
        return true;
      });
      if (!over) await flush(true);
    } finally {
      placed();
    }
  }

  /**
   * @param {Entry} entry
   * @param {ArrayBuffer | null} body
   * @param {boolean} lock
   */
  const put = (entry, body, lock) =>
    within(store.change((s) => place(s, entry, body, { at: now(), lock, cfg }), { strict: true }), cfg.storeLimit).catch(() => null);

  /**
   * Nothing keeps it: it is sent all the same, and a failure is told as one.
   *
   * @param {Entry} entry
   * @param {ArrayBuffer | null} body
   * @param {Live} live
   * @param {Awaited<ReturnType<typeof put>>} spot null: storing failed
   */
  async function unprotected(entry, body, live, spot) {
    // A line that there is no room in must not be overtaken either.
    if (spot?.kind !== 'full' || !spot.atOnce) {
      const answer = await attempt({ ...entry, attempts: 1 }, body, live.extra);
      const v = verdict(answer, cfg.ack);
      if (spot?.kind === 'clash' || v === 'done' || v === 'unguarded' || v === 'refused') {
        close(live, { kind: 'answer', answer });
        return true;
      }
    }
    close(live, { kind: 'unsaved' });
    await announce([{ kind: 'unsaved', key: entry.key, el: entry.el, owner: entry.owner }]);
    return true;
  }

  /** @param {Request} req @param {ArrayBuffer | null} body @param {number} at @returns {Entry} */
  function newEntry(req, body, at) {
    const headers = keptHeaders(req.headers);
    return {
      v: 1, seq: 0, key: req.key, owner: req.owner, method: req.method, url: req.url, headers,
      referrer: req.referrer ?? '', nav: !!req.nav, back: req.back ?? '',
      label: req.label ?? '', el: req.el ?? '', swap: req.swap ?? '',
      text: readable(headers['content-type'], body), size: body?.byteLength ?? 0, sum: checksum(body),
      createdAt: at, firstSentAt: null, triedAt: 0, attempts: 0, tries: 0, timeouts: 0, odd: 0,
      stuck: false, agreed: false, shown: false, nextAt: 0, notBefore: 0,
      state: 'waiting', reason: '', lastStatus: 0, lastText: '',
    };
  }

  /**
   * One request over the wire. Counts as answered only at the body's clean end.
   *
   * @param {Entry} entry
   * @param {ArrayBuffer | null} body
   * @param {Iterable<[string, string]>} extra headers of this send alone
   * @returns {Promise<Answer>}
   */
  async function attempt(entry, body, extra) {
    const headers = new Headers(entry.headers);
    for (const [name, value] of extra) if (!/^outbox-/i.test(name)) headers.set(name, value);
    headers.set('Idempotency-Key', entry.key);
    headers.set('Outbox-Owner', entry.owner);
    headers.set('Outbox-Attempt', String(entry.attempts));
    if (entry.attempts > 1 && entry.firstSentAt != null) {
      headers.set('Outbox-Age', String(Math.max(0, Math.floor((now() - entry.firstSentAt) / 1000))));
    }
    const control = new AbortController();
    let late = false;
    /** @type {any} */
    let timer;
    const end = new Promise((_, reject) => {
      timer = later(() => {
        late = true;
        reject(new Error('too late'));
        control.abort();
      }, Math.min(cfg.hardLimit * 2 ** Math.min(entry.timeouts, 8), cfg.hardLimitMax));
    });
    const send = async () => {
      const r = await fetch(entry.url, {
        method: entry.method,
        headers,
        body,
        redirect: 'manual',
        mode: 'same-origin',
        credentials: 'same-origin',
        cache: 'no-store',
        referrer: entry.referrer || undefined,
        signal: control.signal,
      });
      return { status: r.status, type: r.type, redirected: r.redirected, headers: r.headers, body: await r.arrayBuffer() };
    };
    try {
      return await Promise.race([send(), end]);
    } catch {
      return { status: 0, headers: new Headers(), body: new ArrayBuffer(0), late };
    } finally {
      never(timer);
    }
  }

  /** Whether our own server answers; a captive portal cannot say pong. */
  async function ping() {
    try {
      const r = await within(fetch(cfg.prefix + 'ping', { cache: 'no-store', redirect: 'manual' }), 5_000);
      return r.headers.get('Outbox-Status') === 'pong';
    } catch {
      return false;
    }
  }

  /**
   * Sends one entry that is marked as being sent, and does what the answer says.
   * The lock is held.
   *
   * @param {Entry} entry
   * @param {ArrayBuffer | null} body
   * @param {Record<string, string>} [given] headers that a page gives for every send
   * @returns {Promise<boolean>} whether the line moves
   */
  async function deliver(entry, body, given = {}) {
    if (entry.attempts > 1) void announce();
    const asking = [...lives].find((l) => l.key === entry.key);
    // A key names one exact body: without it, nothing may go under the name.
    if ((body?.byteLength ?? 0) !== entry.size) return lost(entry);
    const answer = await attempt(entry, body, [...Object.entries(given), ...(asking?.extra ?? [])]);
    const v = verdict(answer, cfg.ack);
    const live = [...lives].some((l) => l.key === entry.key);
    const final = v === 'done' || v === 'unguarded' || v === 'refused';
    // Should this program end before the entry is taken out, it is sent again
    // under its name; the person need not wait for that.
    if (final) answerLives(entry.key, { kind: 'answer', answer });
    const get = (/** @type {string} */ name) => answer.headers.get(name);
    const out = {
      verdict: v,
      status: answer.status,
      token: statusToken(get('Idempotency-Status')) || statusToken(get('Outbox-Status')),
      text: v === 'done' ? '' : said(answer),
      retryAfter: retryAfter(get('Retry-After'), now(), cfg.retryAfterMax),
      late: !!answer.late,
      pong: v === 'odd' && !entry.stuck && entry.odd + 1 >= cfg.oddLimit && (await ping()),
      live,
      owner: get('Outbox-Owner'),
    };
    const seen = await visible();
    const mark = order;
    const { goOn } = await store.change((s) => settle(s, entry.key, out, { at: now(), visible: seen, random, cfg }));
    if (!goOn) release(mark);
    else if (!final) answerLives(entry.key, { kind: 'queued' });
    if (v === 'unguarded') console.error(`outbox: ${entry.method} ${entry.url} is not guarded; a repeat of it does the work again`);
    await announce(final ? [{ ...report(entry, answer, v), live }] : []);
    return goOn;
  }

  /** The store has lost the body: the person is told. @param {Entry} entry */
  async function lost(entry) {
    await store.change(() => ({ put: [{ ...entry, state: 'refused', reason: 'body-lost' }], value: true }));
    answerLives(entry.key, { kind: 'unsaved' });
    await announce([{ kind: 'refused', key: entry.key, el: entry.el, owner: entry.owner, status: 0, text: '' }]);
    return true;
  }

  /** @param {Entry} entry @param {Answer} answer @param {string} v */
  function report(entry, answer, v) {
    const { key, el, swap, owner } = entry;
    const status = answer.status;
    if (v === 'refused') return { kind: 'refused', key, el, owner, status, text: said(answer) };
    const html =
      entry.headers['hx-request'] && /^text\/html/i.test(answer.headers.get('Content-Type') ?? '') && answer.body.byteLength <= cfg.maxHTML
        ? new TextDecoder().decode(answer.body)
        : null;
    return { kind: 'delivered', key, el, swap, owner, status, html, trigger: answer.headers.get('HX-Trigger') };
  }

  /** Works the line off from its head. The lock is held. @param {boolean} reset */
  async function run(reset) {
    const until = now() + cfg.slice;
    for (;;) {
      const mark = order;
      if (paused || now() > until) {
        if (release(mark)) await announce();
        return;
      }
      const turn = await store.change((s) => take(s, { at: now(), reset, cfg }), { strict: true });
      if (turn.entry) {
        if (!(await deliver(turn.entry, await store.body(turn.entry.key), turn.headers))) return;
        reset = true; // our server is there
      } else if (turn.again) {
        await announce();
      } else {
        if (release(mark)) await announce();
        return;
      }
    }
  }

  /**
   * Sends what may be sent now. There is at most one waiter for the lock here:
   * it will see all that is put down until its turn comes.
   *
   * @param {boolean} [reset] do not wait for the back-off to end
   */
  function flush(reset = false) {
    resetAsked ||= reset;
    waiter ??= locks
      .request(cfg.name, {}, async () => {
        waiter = null;
        const r = resetAsked;
        resetAsked = false;
        await run(r);
      })
      .catch(() => {
        waiter = null;
      });
    return /** @type {Promise<void>} */ (waiter);
  }

  /**
   * A page tells who is signed in.
   *
   * @param {{owner: string, since: number, headers?: Record<string, string>}} page
   */
  async function greet(page) {
    if (hello(await store.read(), page, now()).value === false) return false;
    const news = await store.change((s) => hello(s, page, now()));
    if (news) paused = false;
    return news;
  }

  /** Somebody may be logging in or out: nothing is sent until a page says who it is now. */
  async function forget() {
    paused = true;
    await store.change(({ meta }) => ({ meta: { ...meta, owner: '', since: now() }, value: undefined }));
  }

  /**
   * Changes one entry that is not under way.
   *
   * @param {string} key
   * @param {(e: Entry, s: Stored) => import('./line.js').Change<string>} fn
   * @returns {Promise<string>} what fn says, or 'gone', or 'sending'
   */
  async function decide(key, fn) {
    const result = await locks.request(cfg.name, { ifAvailable: true }, (lock) =>
      store.change((s) => {
        const e = s.entries.find((x) => x.key === key);
        if (!e) return { value: 'gone' };
        // Without the lock, somebody may really be sending it; with it, nobody is.
        if (e.state === 'sending' && !lock) return { value: 'sending' };
        return fn(e, s);
      }, { strict: true }),
    );
    await announce();
    return result;
  }

  /** @param {Entry} e @param {Stored} s @returns {Entry} at the end of the line, as if it were new */
  const anew = (e, s) => ({
    ...e, seq: (s.entries.at(-1)?.seq ?? 0) + 1, state: 'waiting', reason: '', tries: 0, timeouts: 0, odd: 0,
    stuck: false, shown: false, nextAt: 0, notBefore: 0, lastStatus: 0, lastText: '',
  });

  /**
   * The person says: now. A request that the server has answered for good, or
   * that may be done already, needs a new name for that.
   *
   * @param {string} key
   */
  async function retry(key) {
    const result = await decide(key, (e, s) => {
      if (inLine(e)) return { put: [{ ...e, state: 'waiting', tries: 0, nextAt: 0, notBefore: 0 }], value: 'waiting' };
      if (e.reason === 'old') return { put: [{ ...anew(e, s), agreed: true }], value: 'waiting' };
      if (e.state === 'refused' && e.reason === 'released') return { put: [anew(e, s)], value: 'waiting' };
      return { value: 'rename' };
    });
    if (result === 'rename') return resend(key);
    void flush(true);
    return result;
  }

  /**
   * The same wish under a new name: done again, even if it was done before.
   *
   * @param {string} key
   */
  async function resend(key) {
    const body = await store.body(key);
    const name = newKey();
    const renamed = body && rename(body, key, name);
    const result = await decide(key, (e, s) => ({
      del: [key],
      put: [{ ...anew(e, s), key: name, sum: checksum(renamed), size: renamed?.byteLength ?? 0, text: e.text.replaceAll(key, name), createdAt: now(), firstSentAt: null, triedAt: 0, attempts: 0, agreed: false }],
      bodies: renamed ? [[name, renamed]] : [],
      value: 'waiting',
    }));
    void flush(true);
    return result;
  }

  /**
   * The person gives it up.
   *
   * @param {string} key
   */
  const discard = (key) => decide(key, () => ({ del: [key], value: 'discarded' }));

  /**
   * Asks what became of it. With guard.Status that runs nothing; without, only a
   * key that the server will not run again is asked about by sending it.
   *
   * @param {string} key
   */
  async function look(key) {
    const e = (await store.read()).entries.find((x) => x.key === key);
    if (!e) return 'gone';
    if (e.state !== 'ask') return e.state;
    if (e.reason === 'outcome-unknown' || e.reason === 'key-expired') {
      const result = await decide(key, (x) => ({ put: [{ ...x, state: 'waiting', tries: 0, nextAt: 0 }], value: 'waiting' }));
      await flush(true);
      return (await store.read()).entries.find((x) => x.key === key)?.state ?? (result === 'waiting' ? 'done' : result);
    }
    if (!cfg.status) return 'ask';
    const r = await within(fetch(cfg.status + encodeURIComponent(key), { cache: 'no-store', redirect: 'manual', headers: { Accept: 'application/json' } }), 10_000).catch(() => null);
    const found = r?.ok ? await r.json().catch(() => null) : null;
    if (found?.state !== 'complete') return found?.state ?? 'ask';
    return decide(key, (x) =>
      found.status >= 400
        ? { put: [{ ...x, state: 'refused', reason: 'executed', lastStatus: found.status }], value: 'refused' }
        : { del: [key], value: 'done' },
    );
  }

  /** How many of the one who is signed in still stand in the line. */
  async function left() {
    const { entries, meta } = await store.read();
    return entries.filter((e) => e.owner === meta.owner && inLine(e)).length;
  }

  return { capture, flush, greet, forget, retry, resend, discard, look, left, state, announce };
}

/** @typedef {ReturnType<typeof createOutbox>} Outbox */
