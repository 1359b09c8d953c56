// @ts-check
// The outbox in a page: registers the worker, names and announces what the page
// sends, keeps the worker going, and knows what waits.
// What bubbles from the element that asked is in types.d.ts.

import { headers as announce } from './announce.js';
import { createAsker, wishRow } from './ask.js';
import { createFlights } from './flight.js';
import { watchForms } from './forms.js';
import { watchHtmx } from './htmx.js';
import { createIntents } from './intent.js';
import { summary } from './summary.js';
import { headOf, inLine, nextKick } from './waits.js';

const meta = (/** @type {string} */ name) => document.querySelector(`meta[name="${name}"]`)?.getAttribute('content');
const said = JSON.parse(meta('outbox-config') || '{}');
const cfg = { prefix: '/outbox/', scope: '/', softLimit: 8_000, maxBody: 1 << 20, bigBody: 64 << 10, keyField: '_key', queuedHeader: 'X-Outbox-Queued', kickEvery: 5_000, ...said };
// Absent: the page does not know who is signed in; empty: nobody is.
const owner = meta('outbox-owner');
// Whose line is shown: where the page does not know, the worker's.
let whose = owner ?? '';
// What was asked for earlier, another page asked for.
let since = Date.now();
const [navigation] = /** @type {PerformanceNavigationTiming[]} */ (performance.getEntriesByType('navigation'));
// It may have been drawn without what was done since.
let born = since - performance.now() + (navigation?.fetchStart ?? 0);
// The page that was loaded last knows best who that is.
const told = { owner, since, headers: cfg.headers, former: cfg.former };

// randomUUID is missing on plain http.
const newId = () =>
  crypto.randomUUID?.() ?? [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, '0')).join('');
// What this page's own engine tells it has heard already.
const by = Math.random();
// A form that no worker takes, or that the browser sends again by itself, says
// nowhere else whose it is.
const newKey = () => newId() + (/^[\w-]{1,99}$/.test(owner ?? '') ? '~' + owner : '');

const workers = navigator.serviceWorker;
const controlled = () => !!workers?.controller;
const able = !!navigator.locks && !!globalThis.indexedDB;
const after = (/** @type {number} */ ms) => new Promise((ok) => setTimeout(ok, ms));

const intents = createIntents({ newKey, newId, keyField: cfg.keyField });
const asker = createAsker({ owner: owner ?? '', cfg, intents });
const flights = createFlights({ cfg, send, find, say, put, answered: intents.answered, expect });

/** @type {any[]} */
let entries = [];
/** What there was when this page was left, to which somebody comes back. @type {any[]} */
let left = [];
let stored = true;
let hearing = Promise.resolve();
let shown = '';
let heard = () => {};
/** @type {any} */
let timer;
/** @type {any} */
let leaving;
/** @type {any} */
let here;
/** @type {any} */
let lasting;
let tries = 0;
let asked = false;
// Nothing is said to the worker by the clock until then: a new one is to take over.
let quiet = 0;
// The worker takes nothing any more.
let off = false;

const now = () => ({ ...summary(entries, whose, Date.now(), cfg.softLimit), stored, controlled: controlled() });

class Outbox extends EventTarget {
  snapshot = now();

  /** Sends it now. @param {string} key @returns what it is then: waiting, sending, gone */
  retry = (key) => decide('retry', key);
  /** Gives it up. @param {string} key @returns discarded; sending: it is on its way already; gone */
  discard = (key) => decide('discard', key);
  /** Does it again under a new name, even if it was done before. @param {string} key @returns as retry; unreadable: its body cannot be had now */
  resend = (key) => decide('resend', key);
  /** Asks the server what became of it. @param {string} key @returns done, refused, waiting, ask, … */
  look = (key) => decide('look', key);
  /** Sends what may be sent now. */
  flush = () => void kick(true);

  /**
   * fetch for a changing request that must not be lost. A request that is kept
   * for later is answered 202 with X-Outbox-Queued and {"outbox":"queued"}.
   *
   * @param {string | URL} url
   * @param {RequestInit & {label?: string, el?: string, coalesce?: string}} [init] label: what a
   *   person calls it; el: the id of the row that shows it; coalesce:
   *   the group of wishes of which only the last one counts; an Idempotency-Key
   *   among the headers is taken as the intent's name
   * @returns {Promise<Response>}
   */
  async fetch(url, { label = '', el = '', coalesce, ...init } = {}) {
    const method = (init.method ?? '').toUpperCase();
    if (!owner || off || !asker.takes(method, url) || !(controlled() || able)) return fetch(url, init);
    const headers = new Headers(init.headers);
    const given = headers.get('Idempotency-Key');
    const key = given?.startsWith('"') ? JSON.parse(given) : given ?? newKey();
    const fields = /** @type {any} */ (init.body);
    if (fields?.has?.(cfg.keyField)) fields.set(cfg.keyField, key); // a form's
    const who = { key, label, el, coalesce, asker: document.getElementById(el) ?? document.documentElement };
    for (const [name, value] of Object.entries(page.begin(who))) headers.set(name, value);
    if (given) headers.set('Idempotency-Key', given);
    Object.assign(init, { method, headers });
    await flights.turn(key, String(url), init);
    try {
      const r = await send(String(url), init);
      flights.heard(key, r.status, (name) => r.headers.get(name));
      return r;
    } catch (error) {
      return (await flights.rejected(key)) ?? Promise.reject(error);
    }
  }
}

export const outbox = new Outbox();

/** @returns {Promise<ReturnType<typeof import('./local.js').startLocal>>} */
function local() {
  // Firefox keeps a failure by its address.
  here ??= import(`./local.js?${tries++}`).then((m) => m.startLocal(said, newKey, share));
  here.catch(() => (here = null));
  return here;
}

/**
 * A worker's pages know of what this one keeps, and what became of it: should it be closed,
 * they have it sent. The worker sends nothing now, for this page awaits the answers.
 *
 * @param {any} m
 */
function share(m) {
  hear(m);
  const events = m.events?.map((/** @type {any} */ e) => ({ ...e, by }));
  if (m.pending || !events || events[0]) void workers?.getRegistration().then((r) => r?.active?.postMessage({ type: 'flush', tell: 'only', events }), () => {});
}

/** @param {string} url @param {RequestInit} init */
async function send(url, init) {
  if (controlled()) return fetch(url, init);
  const l = await local();
  if (owner != null) await l.outbox.greet({ ...told, owner }).catch(() => {});
  return l.fetchHere(url, init);
}

/**
 * @param {'retry' | 'discard' | 'resend' | 'look'} what
 * @param {string} key
 */
async function decide(what, key) {
  const result = await (await local()).decide[what](key);
  void kick(true, true);
  return result;
}

/**
 * Has the worker send what may be sent, and tell what there is.
 *
 * @param {boolean} [reset] do not wait for the back-off
 * @param {boolean} [tell] all pages
 */
async function kick(reset, tell) {
  quiet = 0;
  expect();
  if (controlled()) {
    // What is big takes longer than some workers live. A page of an older version
    // may find the store closed to it.
    const big = (headOf(entries, whose)?.size ?? 0) > cfg.bigBody && (await local().catch(() => null))?.outbox;
    const small = big && (await big.state()).stored;
    workers.controller?.postMessage({ type: 'flush', ...told, reset, tell, small, born });
    born = 0;
    return small && big.flush(reset);
  }
  if (!able || owner == null) return;
  const l = await local();
  await l.outbox.greet({ ...told, owner });
  void l.outbox.flush(reset);
  hear(await l.outbox.state());
}

/** The worker is to tell what there is; one that was ended does not. */
function expect() {
  asked = controlled();
  arm();
}

/** A worker that was stopped does not wake by itself: while anything is unsent, every page that is seen kicks it. */
function arm() {
  clearTimeout(timer);
  const ms = nextKick(entries, whose, Date.now(), cfg.kickEvery, asked);
  if (ms !== null && document.visibilityState === 'visible') timer = setTimeout(kick, Math.max(ms, quiet - performance.now()));
}

/** @param {any} m what the worker tells */
function hear(m) {
  if (m?.type === 'outbox-placed') flights.placed(m.key);
  if (m?.type === 'outbox-hush') {
    quiet = controlled() ? performance.now() + (m.ms || 0) : 0;
    arm();
  }
  if (m?.type !== 'outbox') return;
  ({ entries, stored } = m);
  if (stored) {
    // A worker that was ended does not tell what is over.
    for (const { key } of left) if (!entries.find((e) => e.key === key)) intents.answered(key, 1);
    left = [];
  }
  off ||= m.off;
  asked = !stored;
  whose = owner ?? m.owner ?? '';
  heard();
  // A row shows its wish until the late answer is in its place.
  const put = Promise.all(m.events.map((/** @type {any} */ e) => e.owner === owner && e.by !== by && flights.tell(e, e.createdAt < since)));
  hearing = hearing.then(() => Promise.race([put, after(1_000)])).then(show, show);
}

function show() {
  const next = (outbox.snapshot = now());
  intents.restore(next.entries);
  const text = JSON.stringify(next);
  if (text !== shown) outbox.dispatchEvent(new CustomEvent('change', { detail: next }));
  if (next.pending) lasting ??= navigator.storage?.persist?.().catch(() => {});
  shown = text;
  arm();
}

/**
 * Shows an answer that came late.
 *
 * @param {any} event
 * @param {import('./types.js').Who} [who] of this page
 */
async function put(event, who) {
  const { el, swap, html, hx, trigger } = event;
  // What replaces a row would hide its later wish; what is added beside it does not.
  const later = !/^(before|after)/.test(swap) && entries.some((e) => e.owner === owner && e.el && e.el === el && inLine(e));
  return later || !(html || hx || trigger) ? null : local().then((l) => l.put(event, who), () => null);
}

/**
 * @param {string} kind
 * @param {{asker?: Element, el?: string}} who asked
 * @param {any} detail
 */
function say(kind, { asker, el }, { status, html, text, ...event }) {
  const on = (asker?.isConnected && asker) || document.getElementById(el ?? '') || document;
  on.dispatchEvent(new CustomEvent(`outbox:${kind}`, { bubbles: true, detail: { key: event.key, status, html, text } }));
}

/** The entry as it is now, in the line or out of it. @param {string} key @returns {Promise<any>} */
async function find(key) {
  const news = new Promise((ok) => (heard = () => ok(0)));
  void kick();
  // A worker that is ended again and again says nothing, but the page can look.
  await Promise.race([news, after(3_000), after(100).then(local).then((l) => l.outbox.state()).then(hear, () => news)]);
  return entries.find((e) => e.key === key);
}

/** What forms.js and htmx.js have of the page. */
const page = {
  cfg,
  owner: owner ?? '',
  intents,
  flights,
  controlled,
  local,
  send,
  fill: asker.fill,
  /** @param {import('./types.js').Asking} a */
  ask(a) {
    const asked = asker.ask(a);
    if (asked) asked.announce &&= !off && (controlled() || able);
    return asked;
  },
  /**
   * A request of this page is about to go out.
   *
   * @param {import('./types.js').Who} who
   * @param {boolean} [nav]
   * @returns the headers that announce it
   */
  begin(who, nav) {
    const { key, label, el, swap, coalesce } = who;
    flights.begin(who, nav);
    return announce({ key, owner: owner ?? '', label, el, swap, coalesce });
  },
  /**
   * A plain form is on its way, and this page with it.
   *
   * @param {import('./types.js').Who} who
   * @param {string} url
   * @param {RequestInit} init
   */
  left(who, url, init) {
    clearTimeout(leaving);
    void flights.turn(who.key, url, { ...init, headers: page.begin(who, true) });
    // A page that still stands then has lost its worker, and the browser would
    // wait for ever.
    leaving = setTimeout(async () => {
      const r = await flights.rejected(who.key);
      if (r) location.assign(location.href.split('#')[0]);
      else if (r === null) stop();
    }, cfg.softLimit + 2_000);
  },
};

/** @typedef {typeof page} Page */

watchForms(page);
watchHtmx(page);

// The announcement has done its work. A page that answers a form keeps it: to
// reload that is to send the form again, under its name.
if (location.hash === '#outbox-' || (location.hash.startsWith('#outbox=') && navigation?.redirectCount)) {
  history.replaceState(history.state, '', location.pathname + location.search);
}

addEventListener('pageshow', ({ persisted }) => {
  if (!persisted) return;
  left = entries;
  since = Date.now();
  void kick(true);
  // Going back to a form with something typed in it and sending it unchanged is
  // the same wish. A mere button says what it says anew.
  for (const form of document.forms) {
    intents[form.querySelector('textarea,select,input:not([type=hidden],[type=submit],[type=image],[type=button])') ? 'keep' : 'close'](wishRow(form));
  }
});
addEventListener('pagehide', () => {
  clearTimeout(leaving);
  // Should it come back as it is: it has heard nothing of what was done since.
  born = Date.now();
});
addEventListener('online', () => kick(true));
addEventListener('focus', () => kick());
document.addEventListener('resume', () => kick(true));
document.addEventListener('visibilitychange', () => document.visibilityState === 'visible' && kick(true));

if (workers) {
  workers.addEventListener('message', ({ data }) => hear(data));
  workers.addEventListener('controllerchange', () => kick(true));
  workers.startMessages();
}
if (workers && cfg.worker) {
  const { texts, login, worker, headers, former, ...limits } = said;
  const url = new URL(worker, location.href);
  url.searchParams.set('outbox', JSON.stringify(limits));
  // It fails in a browser without modules in workers, and in some private
  // windows: then the page does the work.
  workers.register(url, { type: cfg.workerType ?? 'module', scope: cfg.scope, updateViaCache: 'none' }).catch(() => {});
}
// A first visit's worker is about to take over.
if (!cfg.worker || !workers || controlled()) void kick(true);
else setTimeout(() => controlled() || kick(true), 2_000);
// Without a network it could not be had any more.
if (owner && able) setTimeout(() => local().catch(() => {}), 4_000);
