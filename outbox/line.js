// @ts-check
// The line's rules: what may be sent next, and what an answer does to an entry.
// Pure functions over what one transaction has read; each returns what that
// transaction is to write. engine.js runs them.

import { headOf, inLine, waiting } from './waits.js';

/** @typedef {import('./types.js').Entry} Entry */
/** @typedef {import('./types.js').Stored} Stored */
/** @typedef {import('./types.js').Config} Config */
/**
 * @template T
 * @typedef {import('./types.js').Change<T>} Change
 */

/** Times in milliseconds, sizes in bytes. */
export const defaults = {
  prefix: '/outbox/',
  name: 'outbox', // of the database and the lock
  softLimit: 8_000, // then the page is told "it waits" while the request goes on
  hardLimit: 25_000, // then the request is given up; doubles with each time-out
  hardLimitMax: 120_000,
  slice: 20_000, // then a flush begins no further request: a worker's life is short
  storeLimit: 3_000, // a database that does not answer by then counts as broken
  backoff: 1_000,
  backoffVisible: 60_000, // the most, while a page is seen
  backoffHidden: 900_000,
  retryAfterMax: 600_000,
  retention: 86_400_000, // the guard's; negative: for ever
  maxAge: 0, // of an entry that was never sent; 0: none
  oddLimit: 8,
  maxBody: 1 << 20,
  bigBody: 64 << 10, // over it, a page sends it again where there is one: it lives for longer than a worker
  maxEntries: 200,
  maxBytes: 20 << 20,
  maxHTML: 64 << 10, // of a delivered answer that pages are shown
  keyField: '_key',
  queuedHeader: 'X-Outbox-Queued',
  status: '', // of guard.Status, to which the key is added
  /** @type {import('./types.js').Acknowledge | undefined} */
  ack: undefined,
};

// A clock that was set back makes an age negative. Small corrections happen all
// the time; beyond a minute nobody knows how old the entry is.
const clockSlack = 60_000;

// The server refuses another's entries by itself, should the word be wrong.
const forgetFor = 60_000;

/**
 * Why an entry may not be sent without asking, or ''. A key that was sent may be
 * sent again only while the guard remembers it.
 *
 * @param {Entry} e
 * @param {number} at
 * @param {Config} cfg
 */
export function tooOld(e, at, cfg) {
  if (e.firstSentAt != null) {
    if (cfg.retention < 0) return '';
    if (at < e.firstSentAt - clockSlack) return 'clock';
    return at - e.firstSentAt > cfg.retention ? 'expired' : '';
  }
  return cfg.maxAge > 0 && at - e.createdAt > cfg.maxAge ? 'old' : '';
}

/** @param {Entry[]} entries in order */
export const nextSeq = (entries) => (entries.at(-1)?.seq ?? 0) + 1;

/**
 * @param {Entry} e
 * @param {number} at
 * @returns {Entry} as it is while it is sent
 */
const sending = (e, at) => ({ ...e, state: 'sending', attempts: e.attempts + 1, firstSentAt: e.firstSentAt ?? at, triedAt: at });

/**
 * Puts a new entry at the end of the line. With the lock held and nobody before
 * it, the entry is marked as being sent in the same transaction. It takes the
 * place of its neighbour of the same group, if not a byte of that was ever sent.
 *
 * @param {Stored} stored
 * @param {Entry} fresh
 * @param {ArrayBuffer | null} body
 * @param {{at: number, lock: boolean, cfg: Config}} by
 * @returns {Change<{kind: 'placed' | 'joined' | 'clash' | 'full', entry: Entry, go: boolean, atOnce: boolean, behind: boolean, over: string, headers?: Record<string, string>}>}
 *   clash: another request waits under the key; go: send it now; atOnce: it is known
 *   to wait; behind: it may not be sent now, kept or not; over: the key of a wish that a later one has taken the place of; headers: for every send
 */
export function place({ entries, meta }, fresh, body, { at, lock, cfg }) {
  const { key, owner, size } = fresh;
  const { over = [], sent = [] } = meta;
  // Its worker ended after it was done, before it was told: it comes again, and is
  // none of those that were never sent.
  if (sent.includes(key)) fresh = { ...fresh, coalesce: '' };
  let older = entries.filter((e) => e.owner === owner && e.key !== key && inLine(e));
  const same = entries.find((e) => e.key === key);
  const known = meta.owner ?? owner;
  // "It waits" is said at once only behind an entry that is known to wait.
  const atOnce = known !== owner || waiting(older, 0, Infinity) > 0;
  const entry = same ?? { ...fresh, seq: nextSeq(entries), told: atOnce };
  const value = { kind: /** @type {any} */ (same ? 'joined' : 'placed'), entry, go: false, atOnce, behind: known !== owner || older.length > 0, over: '', headers: meta.headers };
  if (same) {
    const other = ['sum', 'url', 'method'].some((x) => same[/** @type {'sum'} */ (x)] !== fresh[/** @type {'sum'} */ (x)]);
    // Another's, or one that is done with, is nothing that the server must mind.
    if (same.owner !== owner || (other && !inLine(same))) value.kind = 'full';
    else if (other) value.kind = 'clash';
    else if (!inLine(same)) return { put: [{ ...same, state: 'waiting', seq: nextSeq(entries), nextAt: 0, tries: 0 }], value };
    else value.atOnce = false;
    return { value };
  }
  // Its worker ended before it was told: a wish that a later one took the place of
  // must not come back behind that one.
  if (over.includes(key)) return { value: { ...value, atOnce: true, behind: true, over: key } };
  const last = older.at(-1);
  const del = fresh.coalesce && last?.coalesce === fresh.coalesce && last.firstSentAt == null ? [last] : [];
  older = older.filter((e) => !del.includes(e));
  const kept = entries.filter((e) => !del.includes(e));
  const bytes = kept.reduce((n, e) => n + e.size, size);
  if (size > cfg.maxBody || kept.length >= cfg.maxEntries || bytes > cfg.maxBytes) {
    return { value: { ...value, kind: 'full' } };
  }
  value.over = del[0]?.key ?? '';
  value.go = lock && known === owner && !older.length;
  if (value.go) value.entry = sending(entry, at);
  else if (known && known !== owner) entry.state = 'parked';
  return {
    put: [value.entry],
    bodies: body ? [[key, body]] : [],
    del: del.map((e) => e.key),
    meta: { ...meta, owner: known, over: [...over, ...del.map((e) => e.key)].slice(-20) },
    value,
  };
}

/**
 * Takes the head of the line for sending, if it may be sent now. Whoever calls
 * holds the lock, so an entry found in "sending" is an orphan: its sender died.
 *
 * @param {Stored} stored
 * @param {{at: number, reset: boolean, small?: boolean, cfg: Config}} by reset: do
 *   not wait for the back-off; small: leave big ones to somebody else
 * @returns {Change<{entry: Entry | null, again?: boolean, headers?: Record<string, string>}>}
 *   again: the head has left the line; look at the next
 */
export function take({ entries, meta }, { at, reset, small, cfg }) {
  const head = meta.owner && headOf(entries, meta.owner);
  if (!head || /login|parked/.test(head.state) || (small && head.size > cfg.bigBody)) return { value: { entry: null } };
  const entry = reset ? { ...head, tries: 0, nextAt: head.notBefore } : head;
  // Further ahead than any wait of ours means that the clock was set back.
  const ahead = entry.nextAt - at;
  if (ahead > 0 && ahead <= Math.max(cfg.backoffHidden, cfg.retryAfterMax)) return { value: { entry: null } };
  const reason = tooOld(entry, at, cfg);
  if (reason) return { put: [{ ...entry, state: 'ask', reason }], value: { entry: null, again: true } };
  const sent = sending(entry, at);
  return { put: [sent], value: { entry: sent, headers: meta.headers } };
}

/**
 * @param {Stored} stored
 * @param {string} key
 * @param {import('./types.js').Outcome} out
 * @param {{at: number, visible: boolean, random: () => number, cfg: Config}} by
 * @returns {Change<{goOn: boolean}>} goOn: the line moves
 */
export function settle({ entries, meta }, key, out, { at, visible, random, cfg }) {
  const old = entries.find((e) => e.key === key);
  if (!old) return { value: { goOn: true } };
  const { verdict, status, live, late, pong, retryAfter } = out;
  const entry = { ...old, lastStatus: status, lastText: out.text, reason: out.token };
  /** @param {import('./types.js').State} state @param {boolean} goOn */
  const to = (state, goOn) => {
    const put = [{ ...entry, state, told: true }];
    // Where the line stops, all behind wait.
    if (!goOn) put.push(...entries.filter((e) => e.owner === old.owner && e !== old && inLine(e) && !e.told).map((e) => ({ ...e, told: true })));
    return { put, value: { goOn } };
  };
  if (verdict === 'done' || verdict === 'unguarded') {
    // The corrected form was accepted: its refused forerunners, which the same
    // page has seen refused, are settled with it.
    const forerunner = (/** @type {Entry} */ e) =>
      e.shown && e.state === 'refused' && e.owner === old.owner && e.el === old.el && e.url === old.url && e.method === old.method;
    const { sent = [] } = meta;
    return {
      del: [key, ...entries.filter(forerunner).map((e) => e.key)],
      ...(old.coalesce && { meta: { ...meta, sent: [...sent, key].slice(-20) } }),
      value: { goOn: true },
    };
  }
  if (verdict === 'refused') {
    // A form's page is the refusal itself, for the person to see.
    if (live && old.nav) return { del: [key], value: { goOn: true } };
    entry.shown = live;
    return to('refused', true);
  }
  if (verdict === 'ask') return to('ask', true);
  // Somebody has signed in since it was sent: what it says of the person is old.
  // (A time yet to come is no time: the clock was set back.)
  const { since = 0 } = meta;
  if (/login|parked/.test(verdict) && meta.owner && since > old.triedAt && since <= at) return to('waiting', true);
  if (verdict === 'login') return to('login', false);
  if (verdict === 'parked') return { ...to('parked', false), meta: { ...meta, owner: out.owner ?? '' } };
  // A handler that fails for ever is not a deploy: the person is told.
  const broken = verdict === 'wait' && status === 500;
  if (verdict === 'odd' || broken) entry.odd += 1;
  if (pong || (broken && entry.odd >= cfg.oddLimit)) entry.stuck = true;
  entry.timeouts = late ? old.timeouts + 1 : status ? 0 : old.timeouts;
  const most = Math.min(visible ? cfg.backoffVisible : cfg.backoffHidden, cfg.backoff * 2 ** old.tries);
  entry.tries += 1;
  entry.notBefore = retryAfter && at + retryAfter;
  entry.nextAt = Math.max(at + random() * most, entry.notBefore);
  return to(entry.stuck ? 'stuck' : 'waiting', false);
}

/**
 * A page says who is signed in. The page that was loaded last knows best: one
 * from before a login does not, however often it says so. What waits under the
 * same account's former tags, made with secrets that have been changed since, is
 * its own.
 *
 * @param {Stored} stored
 * @param {{owner: string, since: number, headers?: Record<string, string>, former?: string[]}} page
 * @param {number} at
 * @returns {Change<boolean>} whether it was news
 */
export function hello({ entries, meta }, page, at) {
  const since = meta.since ?? 0;
  // A time yet to come is of a clock that has been set back since.
  const ahead = (/** @type {number} */ t) => t > at + 1_000;
  const known = meta.owner != null && (ahead(page.since) || (page.since <= since && !ahead(since)));
  // A login that led nowhere (offline, and the person went back) must not leave
  // the line without an owner for ever: after a while any page's word counts.
  const forgotten = meta.owner === '' && page.owner && at - since > forgetFor;
  if (known && !forgotten) return { value: false };
  const held = (/** @type {Entry} */ e) => /login|parked/.test(e.state) && (e.triedAt < page.since || ahead(e.triedAt));
  const put = entries
    .filter((e) => page.former?.includes(e.owner) || (e.owner === page.owner && held(e)))
    .map((e) => ({ ...e, owner: page.owner, ...(held(e) && { state: /** @type {const} */ ('waiting'), tries: 0, nextAt: e.notBefore }) }));
  return { put, meta: { ...meta, owner: page.owner, since: page.since, headers: page.headers }, value: true };
}
