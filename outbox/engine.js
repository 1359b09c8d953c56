// @ts-check
// The engine: keeps each announced request until it is proven delivered, in
// order, under one name, as the person who made it. Worker and page run the same
// one. All that it touches is given to it, so that node can test it with a clock,
// a network and a store of its own.
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
import { checksum, lost, readable, said } from './body.js';
import { keptHeaders } from './heard.js';
import { defaults, hello, place, settle, take } from './line.js';
import { inLine, waiting } from './waits.js';

/** @typedef {import('./types.js').Entry} Entry */
/** @typedef {import('./types.js').Result} Result */

/** @param {import('./types.js').Parts} parts */
export function createOutbox({
  store,
  fetch,
  locks,
  tell,
  visible = () => true,
  now = Date.now,
  random = Math.random,
  later = (fn, ms) => setTimeout(fn, ms),
  never = (id) => clearTimeout(id),
  config,
}) {
  /** @type {import('./types.js').Config} */
  const cfg = { ...defaults, ...config };

  /**
   * Pages that wait for an answer. order: when it was put down, among those of
   * this program; Infinity: not yet.
   *
   * @typedef {{key: string, extra: [string, string][], order: number, close: (r: Result) => void}} Live
   * @type {Set<Live>}
   */
  const lives = new Set();
  let order = 0;
  // Requests are put down in the order in which they came; one whose body cannot be
  // read for long loses its place.
  let placing = Promise.resolve();
  /** @type {Promise<void> | null} */
  let waiter = null;
  let resetAsked = false;
  let smallAsked = false;
  // A login or logout is under way; known here at once, and to others through
  // the store.
  let paused = false;

  /**
   * @template T
   * @param {Promise<T>} promise
   * @param {number} ms
   * @param {() => void} [late]
   */
  async function within(promise, ms, late) {
    /** @type {any} */
    let timer;
    const end = new Promise((_, no) => {
      timer = later(() => {
        no(new Error('too late'));
        late?.();
      }, ms);
    });
    try {
      return /** @type {T} */ (await Promise.race([promise, end]));
    } finally {
      never(timer);
    }
  }

  /** Those that were put down by then wait: say so. @param {number} upTo */
  function release(upTo) {
    let some = false;
    for (const live of [...lives]) {
      if (live.order > upTo) continue;
      live.close({ kind: 'queued' });
      some = true;
    }
    return some;
  }

  /** @param {any[]} [events] */
  async function announce(events) {
    tell(await state(events));
  }

  /** What pages are told; the names are the first implementation's. @param {any[]} [events] */
  async function state(events = []) {
    const read = await store.read().catch(() => null);
    const { entries, meta } = read ?? { entries: [], meta: {} };
    const line = entries.filter((e) => e.owner === meta.owner && inLine(e));
    return { type: 'outbox', pending: waiting(line, now(), cfg.softLimit), owner: meta.owner ?? '', entries, events, stored: !!read };
  }

  /**
   * Keeps the request, then sends it, or what stands before it.
   *
   * @param {import('./types.js').Asked} req
   * @returns {{answer: Promise<Result>, done: Promise<void>}} done: nothing of this is left to do
   */
  function capture(req) {
    /** @type {any} */
    let live;
    const answer = new Promise((/** @type {(r: Result) => void} */ ok) => {
      // Only what is put down may be called kept.
      const end = () => live.close({ kind: live.order < Infinity ? 'queued' : 'unsaved' });
      const timer = later(() => {
        end();
        void announce();
      }, cfg.softLimit);
      live = {
        key: req.key,
        extra: req.headers,
        order: Infinity,
        end,
        close(/** @type {Result} */ result) {
          lives.delete(live);
          never(timer);
          ok(result);
        },
      };
    });
    lives.add(live);
    return { answer, done: keep(req, live).catch(live.end) };
  }

  /** @param {import('./types.js').Asked} req @param {Live} live */
  async function keep(req, live) {
    const before = placing;
    let placed = () => {};
    placing = new Promise((ok) => (placed = ok));
    try {
      const bytes = await req.body;
      const body = bytes?.byteLength ? bytes : null;
      await within(before, cfg.softLimit / 2).catch(() => {});
      const entry = newEntry(req, body);
      const over = await locks.request(cfg.name, { ifAvailable: true }, async (lock) => {
        const by = { at: now(), lock: !!lock && !paused, cfg };
        let late = false; // it must not be kept after the person was told that it is not
        /** @type {any} */
        let spot = null;
        const put = store.change((s) => {
          if (late || !lives.has(live)) throw 0;
          const change = place(s, entry, body, by);
          spot = change.value;
          return change;
        }, { strict: true });
        const stored = await within(put, cfg.storeLimit, () => (late = true)).then(() => true, () => false);
        if (!stored && !lives.has(live)) return true;
        const kept = stored && /ed$/.test(spot.kind);
        if (kept) {
          live.order = ++order;
          tell({ type: 'outbox-placed', key: entry.key });
        }
        placed();
        if (!kept) return unprotected(entry, body, live, spot);
        const { over } = spot;
        for (const l of [...lives]) if (l.key === over) l.close({ kind: 'queued' });
        if (spot.atOnce) live.close({ kind: 'queued' });
        // Its row is to say so, whatever stands before it.
        if (spot.atOnce || over) void announce(over ? [{ ...about(entry), key: over, kind: 'superseded' }] : []);
        if (!lock) return false;
        if (!spot.go || (await deliver(spot.entry, body, spot.headers))) await run(true);
        return true;
      });
      if (!over) await flush(true);
    } finally {
      placed();
    }
  }

  /**
   * Nothing keeps it: it is sent all the same, and a failure is told as one.
   *
   * @param {Entry} entry
   * @param {ArrayBuffer | null} body
   * @param {Live} live
   * @param {{kind: string, behind: boolean, headers?: Record<string, string>} | null} spot null: the store cannot be read either
   */
  async function unprotected(entry, body, live, spot) {
    // A line that there is no room in must not be overtaken either.
    const clash = spot?.kind === 'clash';
    if (clash || !spot?.behind) {
      const answer = clash ? invalid(422, 'key-reused') : await attempt({ ...entry, attempts: 1 }, body, [...Object.entries(spot?.headers ?? {}), ...live.extra]);
      if (isFinal(verdict(answer, cfg.ack, entry.key))) {
        live.close({ kind: 'answer', answer });
        return true;
      }
    }
    live.close({ kind: 'unsaved' });
    await announce([{ ...about(entry), kind: 'unsaved' }]);
    return true;
  }

  /** @param {import('./types.js').Asked} req @param {ArrayBuffer | null} body @returns {Entry} */
  function newEntry({ key, owner, method, url, headers, referrer = '', nav = false, back = '', label = '', el = '', swap = '', coalesce = '' }, body) {
    const kept = keptHeaders(headers);
    return {
      seq: 0, key, owner, method, url, headers: kept, referrer, nav, back, label, el, swap, coalesce,
      text: readable(kept['content-type'], body), size: body?.byteLength ?? 0, sum: checksum(body, kept['content-type']),
      createdAt: now(), firstSentAt: null, triedAt: 0, attempts: 0, tries: 0, timeouts: 0, odd: 0, stuck: false,
      told: false, shown: false, nextAt: 0, notBefore: 0, state: 'waiting', reason: '', lastStatus: 0, lastText: '',
    };
  }

  /**
   * One request over the wire. Counts as answered only at the body's clean end.
   *
   * @param {Entry} entry
   * @param {ArrayBuffer | null} body
   * @param {[string, string][]} extra headers of this send alone
   * @returns {Promise<import('./types.js').Answer>}
   */
  async function attempt({ key, owner, method, url, headers: kept, referrer, attempts, firstSentAt, timeouts }, body, extra) {
    const headers = new Headers(kept);
    // An upload that came again has another boundary than the body that is kept.
    for (const [name, value] of extra) if (!/^(outbox-|content-type$)/i.test(name)) headers.set(name, value);
    headers.set('Idempotency-Key', /[ ",]/.test(key) ? `"${key.replace(/["\\]/g, '\\$&')}"` : key);
    headers.set('Outbox-Owner', owner);
    headers.set('Outbox-Attempt', String(attempts));
    const age = Math.floor((now() - (firstSentAt ?? 0)) / 1000);
    if (attempts > 1) headers.set('Outbox-Age', String(Math.max(0, age)));
    const control = new AbortController();
    let late = false;
    const send = async () => {
      const r = await fetch(url, {
        method,
        headers,
        body,
        redirect: 'manual',
        mode: 'same-origin',
        credentials: 'same-origin',
        cache: 'no-store',
        referrer: referrer || undefined,
        signal: control.signal,
      });
      return { status: r.status, type: r.type, redirected: r.redirected, headers: r.headers, body: await r.arrayBuffer() };
    };
    try {
      // Four kilobytes a second are slow, and get there.
      const most = cfg.hardLimitMax + ((body?.byteLength ?? 0) >> 16) * 16_000;
      return await within(send(), Math.min(cfg.hardLimit * 2 ** timeouts, most), () => {
        late = true;
        control.abort();
      });
    } catch {
      return { status: 0, headers: new Headers(), body: new ArrayBuffer(0), late };
    }
  }

  /** Whether our own server answers; a captive portal cannot say pong. */
  const ping = () =>
    within(fetch(cfg.prefix + 'ping', { cache: 'no-store', redirect: 'manual' }), 5_000).then(
      (r) => r.headers.get('Outbox-Status') === 'pong',
      () => false,
    );

  let doubted = false;

  /**
   * Somebody else answered, while our own server answers too: then it is hardly a
   * captive portal, and the person cannot mend it.
   *
   * @param {Entry} entry
   * @param {import('./types.js').Answer} answer
   */
  async function doubt({ method, url }, { status }) {
    if (doubted) return;
    doubted = true;
    doubted = await ping();
    if (doubted) console.error(`outbox: ${method} ${url} got ${status || 'a redirect'} without a word of the guard, and waits: is outbox.Edge outermost?`);
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
    const { key, attempts, odd, stuck } = entry;
    if (attempts > 1) void announce();
    const asking = () => [...lives].filter((l) => l.key === key && l.order < Infinity);
    const answer =
      (body?.byteLength ?? 0) === entry.size
        ? await attempt(entry, body, [...Object.entries(given), ...(asking()[0]?.extra ?? [])])
        // A key names one exact body. Nothing goes under the name without it.
        : invalid(400, 'key-invalid', 'body-lost');
    const get = (/** @type {string} */ name) => answer.headers.get(name);
    const v = verdict(answer, cfg.ack, key);
    const text = isDone(v) ? '' : said(answer);
    const waiting = asking();
    const live = waiting.length > 0;
    const final = isFinal(v);
    // Should this program end before the entry is taken out, it is sent again
    // under its name; the person need not wait for that.
    if (final) for (const l of waiting) l.close({ kind: 'answer', answer });
    const out = {
      verdict: v, status: answer.status, text, live, late: !!answer.late,
      token: statusToken(get('Outbox-Status')) || statusToken(get('Idempotency-Status')),
      retryAfter: retryAfter(get('Retry-After'), now(), cfg.retryAfterMax),
      pong: v === 'odd' && !stuck && odd + 1 >= cfg.oddLimit && (await ping()),
      owner: get('Outbox-Owner'),
    };
    const by = { visible: final || (await visible()), at: now(), random, cfg };
    const mark = order;
    const { goOn } = await store.change((s) => settle(s, key, out, by));
    if (!goOn) release(mark);
    else if (!final) for (const l of asking()) l.close({ kind: 'queued' });
    if (v === 'unguarded') console.error(`outbox: ${entry.method} ${entry.url} is not guarded; a repeat of it does the work again`);
    if (v === 'odd') void doubt(entry, answer);
    const event = { ...about(entry), kind: isDone(v) ? 'delivered' : v, live, status: answer.status, text, html: '', trigger: get('HX-Trigger'), hx: /** @type {any} */ (null) };
    if (entry.headers['hx-request'] && /^(text\/html|$)/i.test(get('Content-Type') ?? '') && answer.body.byteLength <= cfg.maxHTML) {
      event.html = new TextDecoder().decode(answer.body);
      event.hx = Object.fromEntries([...answer.headers].filter(([name]) => /^(hx-|outbox-l)/.test(name)));
    }
    await announce(final ? [event] : []);
    return goOn;
  }

  /** Works the line off from its head. The lock is held. @param {boolean} reset @param {boolean} [small] */
  async function run(reset, small) {
    const until = now() + cfg.slice;
    for (;;) {
      const mark = order;
      const stop = paused || now() > until;
      const { entry, again, headers } = stop ? { entry: null } : await store.change((s) => take(s, { at: now(), reset, small, cfg }), { strict: true });
      if (entry) {
        if (!(await deliver(entry, await store.body(entry.key).catch(lost), headers))) return;
        reset = true; // our server is there
      } else {
        if (again || release(mark)) await announce();
        if (!again) return;
      }
    }
  }

  /**
   * Sends what may be sent now. There is at most one waiter for the lock here:
   * it will see all that is put down until its turn comes.
   *
   * @param {boolean} [reset] do not wait for the back-off to end
   * @param {boolean} [small] a page sends the big ones
   */
  function flush(reset = false, small = false) {
    resetAsked ||= reset;
    smallAsked = small;
    waiter ??= locks
      .request(cfg.name, {}, () => {
        waiter = null;
        reset = resetAsked;
        resetAsked = false;
        return run(reset, smallAsked);
      })
      .catch(() => {
        waiter = null;
      });
    return /** @type {Promise<void>} */ (waiter);
  }

  /**
   * A page tells who is signed in.
   *
   * @param {Parameters<typeof hello>[1]} page
   */
  async function greet(page) {
    if (await store.change((s) => hello(s, page, now()))) paused = false;
  }

  /** Somebody may be logging in or out: nothing is sent until a page says who it is now. */
  async function forget() {
    paused = true;
    await store.change(({ meta }) => ({ meta: { ...meta, owner: '', headers: undefined, since: now() }, value: 0 }));
  }

  return { capture, flush, greet, forget, state, announce };
}

/** @typedef {ReturnType<typeof createOutbox>} Outbox */

/** @param {string} v */
const isDone = (v) => v === 'done' || v === 'unguarded';
/** @param {string} v */
const isFinal = (v) => isDone(v) || v === 'refused';
/**
 * What the guard would say of a key that stands for something else.
 *
 * @param {number} status
 * @param {string} word
 * @param {string} [why]
 * @returns {import('./types.js').Answer}
 */
const invalid = (status, word, why = '') => ({ status, headers: new Headers({ 'Idempotency-Status': word, 'Outbox-Status': why }), body: new ArrayBuffer(0) });
/** @param {Entry} e what an event says of it */
const about = ({ key, el, swap, owner, nav, createdAt }) => ({ key, el, swap, owner, nav, createdAt });
