// @ts-check
// The outbox in a page: registers the worker, names and announces what the page
// sends, keeps the worker going, and knows what waits.
//
//   import { outbox } from '/outbox/page.js';
//   outbox.addEventListener('change', () => show(outbox.snapshot));
//
// From the element that asked bubble: outbox:queued {key}, outbox:delivered
// {key, status, html}, outbox:refused {key, status, text}, outbox:unsaved {key}.

import { createAsker, wishRow } from './ask.js';
import { watchForms } from './forms.js';
import { put, watchHtmx } from './htmx.js';
import { createIntents } from './intent.js';
import { headers as announce } from './announce.js';
import { inLine, summary } from './summary.js';

const meta = (/** @type {string} */ name) => document.querySelector(`meta[name="${name}"]`)?.getAttribute('content');
const said = JSON.parse(meta('outbox-config') || '{}');
const cfg = { prefix: '/outbox/', worker: '', scope: '/', softLimit: 8_000, maxBody: 1 << 20, keyField: '_key', queuedHeader: 'X-Outbox-Queued', kickEvery: 5_000, ...said };
// Absent: the page says nothing of who is signed in; empty: nobody is.
const owner = meta('outbox-owner');
// The page that was loaded last knows best who that is.
const since = Date.now();

// randomUUID is missing on plain http, as in a school's own network.
const newKey = () =>
  crypto.randomUUID?.() ??
  [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, '0')).join('');

const workers = navigator.serviceWorker;
const controlled = () => !!workers?.controller;
const able = !!navigator.locks && !!globalThis.indexedDB;

const intents = createIntents({ newKey, keyField: cfg.keyField });
const asker = createAsker({ owner: owner ?? '', cfg, intents });

/** Who asked, by key. @type {Map<string, import('./ask.js').Asked>} */
const asked = new Map();
/** Requests of this page that its own code waits for. @type {Set<string>} */
const inFlight = new Set();
/** @type {Promise<ReturnType<typeof import('./local.js').startLocal>> | null} */
let here = null;
/** @type {any[]} */
let entries = [];

class Outbox extends EventTarget {
  snapshot = { ...summary([], owner ?? '', since, cfg), stored: true, controlled: controlled() };

  /** Sends it now. @param {string} key @returns {Promise<string>} what it is then: waiting, sending, gone */
  retry(key) {
    return call('retry', key);
  }

  /** Gives it up. @param {string} key @returns {Promise<string>} discarded; sending: it is on its way already; gone */
  discard(key) {
    return call('discard', key);
  }

  /** Does it again under a new name, even if it was done before. @param {string} key @returns {Promise<string>} */
  resend(key) {
    return call('resend', key);
  }

  /** Asks the server what became of it. @param {string} key @returns {Promise<string>} done, refused, ask, … */
  look(key) {
    return call('look', key);
  }

  /** Sends what may be sent now. */
  flush() {
    kick(true);
  }

  /**
   * fetch for a changing request that must not be lost. A request that is kept
   * for later is answered 202 with X-Outbox-Queued and {"outbox":"queued"}.
   *
   * @param {string | URL} url
   * @param {RequestInit & {label?: string, el?: string}} [init] label: what a
   *   person calls it; el: the id of the row that shows it; an Idempotency-Key
   *   among the headers is taken as the intent's name
   * @returns {Promise<Response>}
   */
  async fetch(url, init = {}) {
    const { label = '', el = '', ...rest } = init;
    const plain = new Headers(rest.headers);
    const key = plain.get('Idempotency-Key') ?? newKey();
    const row = (el && document.getElementById(el)) || document.documentElement;
    const may = !!owner && /^(POST|PUT|PATCH|DELETE)$/i.test(rest.method ?? '') && (controlled() || able);
    if (!may) return fetch(url, rest);
    asked.set(key, { wish: { key, method: '', url: '', pairs: null, ids: {}, closed: false }, el: row, row: el, label, swap: '', announce: true });
    for (const [name, value] of Object.entries(announce({ key, owner, label, el }))) plain.set(name, value);
    const send = controlled() ? fetch : fetchHere;
    inFlight.add(key);
    try {
      const r = await send(String(url), { ...rest, headers: plain });
      if (r.headers.get(cfg.queuedHeader)) page.queued(key);
      else if (r.headers.get('X-Outbox-Unsaved')) page.unsaved(key);
      else page.answered(key, r.status, r.headers.get('Idempotency-Status'));
      return r;
    } catch (error) {
      inFlight.delete(key);
      if (!early.has(key) && !(await find(key))) throw error;
      page.queued(key);
      return new Response(JSON.stringify({ outbox: 'queued', key }), { status: 202, headers: { 'Content-Type': 'application/json', [cfg.queuedHeader]: '1' } });
    }
  }
}

export const outbox = new Outbox();

function local() {
  here ??= import('./local.js').then((m) => m.startLocal(said, hear));
  return here;
}

/** @param {string} url @param {RequestInit} init */
async function fetchHere(url, init) {
  const l = await local();
  if (owner != null) await l.outbox.greet({ owner, since }).catch(() => {});
  return l.fetchHere(url, init);
}

/** @param {'retry' | 'discard' | 'resend' | 'look' | 'state'} op @param {string} [key] @returns {Promise<any>} */
async function call(op, key = '') {
  const worker = workers?.controller;
  if (!worker) {
    if (!able) return op === 'state' ? null : 'gone';
    const { outbox: o } = await local();
    return op === 'state' ? o.state() : o[op](key);
  }
  return new Promise((ok, no) => {
    setTimeout(() => no(new Error('the worker does not answer')), 5_000);
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = (event) => ok(event.data);
    worker.postMessage({ type: 'outbox-do', op, key }, [port2]);
  });
}

/** @param {boolean} [reset] do not wait for the back-off */
function kick(reset = false) {
  arm();
  const message = { type: 'flush', owner, since, headers: cfg.headers, reset };
  if (controlled()) return workers.controller?.postMessage(message);
  if (!able || !owner) return;
  void local().then(async ({ outbox: o }) => {
    await o.greet({ owner, since, headers: cfg.headers });
    void o.flush(reset);
    hear(await o.state());
  }, () => {});
}

/** @type {any} */
let timer;
/** A worker that was stopped does not wake by itself: while anything is unsent, every page that is seen kicks it. */
function arm() {
  clearTimeout(timer);
  const line = entries.filter((e) => e.owner === owner && inLine(e));
  if (!line.length || document.visibilityState !== 'visible') return;
  const wait = line[0].state === 'sending' ? cfg.kickEvery : line[0].nextAt - Date.now();
  timer = setTimeout(() => kick(), Math.min(cfg.kickEvery, wait > 0 ? wait + 10 : 1_000));
}

let shown = '';
/** @param {any} m what the worker tells */
function hear(m) {
  if (m?.type !== 'outbox') return;
  entries = m.entries;
  const mine = entries.filter((e) => e.owner === owner).map((e) => ({ ...e, bodyText: e.text }));
  intents.restore(mine);
  const next = { ...summary(entries, owner ?? '', Date.now(), cfg), stored: m.stored, controlled: controlled() };
  outbox.snapshot = next;
  for (const event of m.events ?? []) if (event.owner === owner) tell(event);
  const text = JSON.stringify(next);
  if (text !== shown) {
    shown = text;
    if (next.pending) void navigator.storage?.persist?.().catch(() => {});
    outbox.dispatchEvent(new CustomEvent('change', { detail: next }));
  }
  arm();
}

/** Keys that this page was told to wait for. @type {Set<string>} */
const waiting = new Set();
/** What was told of a request before its own answer came. @type {Map<string, any>} */
const early = new Map();

/** @param {any} event */
function tell(event) {
  const { key, kind } = event;
  const own = asked.get(key);
  if (inFlight.has(key)) {
    early.set(key, event);
    return;
  }
  early.delete(key);
  if (kind === 'unsaved') {
    if (own) page.unsaved(key);
    return;
  }
  intents.answered(key);
  asked.delete(key);
  // Whoever was answered at once has shown it; a refusal is said to the element.
  const shown = event.live && !waiting.delete(key);
  if (shown && (!own || kind === 'delivered')) return;
  let el = own?.el ?? null;
  // What replaces a row would undo the sight of its later wish; what is added
  // beside others hides nothing.
  const later = !/^(before|after)/.test(event.swap) && entries.some((e) => e.owner === owner && e.el && e.el === event.el && inLine(e));
  if (kind === 'delivered' && !later) el = put(event, el) ?? el;
  say(el, own?.row || event.el, kind, event);
}

/**
 * @param {Element | null | undefined} el who asked
 * @param {string | undefined} row
 * @param {string} kind
 * @param {any} detail
 */
function say(el, row, kind, { key, status, html, text }) {
  const on = (el?.isConnected && el) || document.getElementById(row ?? '') || document;
  on.dispatchEvent(new CustomEvent(`outbox:${kind}`, { bubbles: true, detail: { key, status, html, text } }));
}

/** Whether the entry is there, in the line or out of it. @param {string} key */
async function find(key) {
  const m = await call('state').catch(() => null);
  if (m) hear(m);
  return m?.entries.find((/** @type {any} */ e) => e.key === key) ?? null;
}

const page = {
  cfg,
  owner: owner ?? '',
  intents,
  controlled,
  ...asker,
  local: () => able,
  fetchHere,
  /** @param {import('./ask.js').Asked} a */
  began(a) {
    asked.set(a.wish.key, a);
    inFlight.add(a.wish.key);
  },
  /** A plain form is on its way, and this page with it. @param {import('./ask.js').Asked} a */
  left(a) {
    const { key } = a.wish;
    asked.set(key, a);
    // The worker answers by its soft limit. A page that still stands after that
    // has lost its worker, and the browser would wait for ever.
    leaving = setTimeout(async () => {
      kick(true);
      if (await find(key)) return location.assign(location.href.split('#')[0]);
      stop();
      page.unsaved(key);
    }, cfg.softLimit + 2_000);
  },
  /** @param {string} key */
  queued(key) {
    inFlight.delete(key);
    waiting.add(key);
    const a = asked.get(key);
    say(a?.el, a?.row, 'queued', { key });
    if (early.has(key)) tell(early.get(key));
  },
  /** @param {string} key */
  unsaved(key) {
    inFlight.delete(key);
    early.delete(key);
    const a = asked.get(key);
    say(a?.el, a?.row, 'unsaved', { key });
  },
  /** @param {string} key @param {number} status @param {string | null} idempotency */
  answered(key, status, idempotency) {
    inFlight.delete(key);
    // A proxy's answer, or "still in progress", leaves the intent open.
    if (status < 500 && !/^(in-progress|unavailable|quota)/.test(idempotency ?? '')) intents.answered(key);
    if (early.has(key)) tell(early.get(key));
  },
  /** The request failed in this page; it may lie safely in the store all the same. @param {string} key */
  async rejected(key) {
    if (!key) return;
    inFlight.delete(key);
    waiting.add(key);
    if (early.has(key)) return tell(early.get(key));
    for (const ms of [0, 1_000]) {
      await new Promise((ok) => setTimeout(ok, ms));
      const e = await find(key);
      if (e) return inLine(e) ? page.queued(key) : undefined;
      if (!waiting.has(key)) return; // told meanwhile
    }
    waiting.delete(key);
    page.unsaved(key);
  },
};

/** @typedef {typeof page} Page */

/** @type {any} */
let leaving;

watchForms(page);
watchHtmx(page);

// The announcement has done its work. A page that answers a form keeps it: to
// reload that is to send the form again, under its name.
const [navigation] = /** @type {PerformanceNavigationTiming[]} */ (performance.getEntriesByType('navigation'));
if (location.href.endsWith('#') || (location.hash.startsWith('#outbox=') && navigation?.redirectCount)) {
  history.replaceState(history.state, '', location.pathname + location.search);
}

addEventListener('pageshow', (event) => {
  if (!event.persisted) return;
  kick(true);
  // Going back to a form with something typed in it and sending it unchanged is
  // the same wish. A mere button says what it says anew.
  for (const form of document.querySelectorAll('form')) {
    if (!form.querySelector('textarea,select,input:not([type=hidden],[type=submit],[type=image],[type=button])')) intents.close(wishRow(form, form));
  }
});
addEventListener('pagehide', () => clearTimeout(leaving));
addEventListener('online', () => kick(true));
addEventListener('focus', () => kick());
document.addEventListener('resume', () => kick(true));
document.addEventListener('visibilitychange', () => {
  if (document.visibilityState === 'visible') kick(true);
});

if (workers) {
  workers.addEventListener('message', (event) => hear(event.data));
  workers.addEventListener('controllerchange', () => kick(true));
  workers.startMessages();
  if (cfg.worker) {
    const { texts, login, worker, ...limits } = said;
    const url = new URL(worker, document.baseURI);
    url.searchParams.set('outbox', JSON.stringify(limits));
    workers.register(url, { type: cfg.workerType ?? 'module', scope: cfg.scope, updateViaCache: 'none' }).catch(() => {
      // No modules in workers, a private window: the page does the work.
    });
  }
}
// On a first visit the worker is about to take over.
if (controlled() || !workers || !cfg.worker) kick(true);
else setTimeout(() => controlled() || kick(true), 2_000);
