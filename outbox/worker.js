// @ts-check
// The outbox in a service worker. An application's own module worker takes it in
// with two lines, before its own fetch listener:
//
//   import { attach } from '/outbox/worker.js';
//   attach(self);

import { announced, authPath, deny } from './announce.js';
import { createOutbox } from './engine.js';
import { idbStore } from './idb.js';
import { defaults } from './line.js';
import { respond } from './respond.js';

/**
 * @typedef {object} Options
 * @property {RegExp | string} [deny] paths that are never taken, besides the built-in ones
 * @property {RegExp | string} [auth] paths where a POST may change who is signed in, besides the built-in ones
 * @property {boolean} [takeOver] be installed and take the open pages at once; true unless said otherwise
 * @property {boolean} [kill] take nothing new, send what is left, and be gone
 */

/**
 * @param {any} worker the service worker's global scope
 * @param {Options & Partial<import('./line.js').Config>} [options]
 * @returns {import('./engine.js').Outbox}
 */
export function attach(worker, options = {}) {
  const here = new URL(worker.location.href);
  // The page's configuration comes with the script's address, which is there
  // whenever the worker starts.
  const given = { ...JSON.parse(here.searchParams.get('outbox') ?? '{}'), ...options };
  const cfg = { ...defaults, ...given };
  const denied = either(deny, given.deny);
  const auth = either(authPath, given.auth);
  const clients = () => worker.clients.matchAll({ type: 'window', includeUncontrolled: true });

  let telling = Promise.resolve();
  const outbox = createOutbox({
    store: idbStore(cfg.name),
    fetch: (url, init) => worker.fetch(url, init),
    locks: worker.navigator.locks,
    config: cfg,
    visible: async () => (await clients()).some((/** @type {any} */ c) => c.visibilityState === 'visible'),
    // One after another, so that the last state told is the last there was.
    tell: (message) => {
      telling = telling.then(async () => {
        for (const c of await clients()) c.postMessage(message);
      });
    },
  });

  const on = (/** @type {string} */ type, /** @type {(event: any) => void} */ fn) => worker.addEventListener(type, fn);

  on('install', (event) => {
    if (given.takeOver ?? true) worker.skipWaiting();
    // Without the page the installation is still worth having.
    event.waitUntil(
      worker.caches
        .open(cfg.name)
        .then((/** @type {Cache} */ c) => c.add(new Request(cfg.prefix + 'queued', { cache: 'reload' })))
        .catch(() => {}),
    );
  });

  on('activate', (event) => {
    if (given.kill) {
      void outbox.flush(true).then(() => worker.registration.unregister());
      return;
    }
    if (given.takeOver ?? true) event.waitUntil(worker.clients.claim());
    // Not waited for: requests are held back until the activation is over.
    void outbox.flush(true);
  });

  on('fetch', (event) => {
    const r = /** @type {Request} */ (event.request);
    if (r.method === 'GET') {
      if (r.mode === 'navigate' && new URL(r.url).pathname === cfg.prefix + 'queued') event.respondWith(queuedPage(r));
      return;
    }
    if (given.kill) return;
    const a = announced(r, { origin: here.origin, deny: denied });
    if (!a) {
      const url = new URL(r.url);
      if (url.origin === here.origin && auth.test(url.pathname)) event.waitUntil(outbox.forget());
      return;
    }
    const { answer, done } = outbox.capture({
      ...a,
      method: r.method,
      headers: [...r.headers],
      // Read once, into memory: what is sent is this, never the request itself,
      // whose body some browsers lose.
      body: r.arrayBuffer(),
      referrer: r.referrer.startsWith(here.origin) ? r.referrer : a.back,
    });
    event.respondWith(answer.then((result) => respond(result, { ...a, accept: r.headers.get('Accept') }, cfg)));
    event.waitUntil(done.then(remind));
  });

  on('message', (event) => {
    const m = event.data ?? {};
    if (m.type === 'flush') event.waitUntil(kick(m, event.source));
    if (m.type === 'outbox-do') event.waitUntil(act(m.op, m.key).then((result) => event.ports[0]?.postMessage(result)));
  });

  on('sync', (event) => {
    if (!String(event.tag).startsWith(cfg.name)) return;
    event.waitUntil(
      outbox.flush(true).then(async () => {
        if (!(await outbox.left())) return;
        if (event.lastChance) void remind();
        // Resolving would mean "done" to the browser, and it would not come again.
        throw new Error('not everything is sent yet');
      }),
    );
  });

  /**
   * @param {{owner?: string, since?: number, headers?: Record<string, string>, reset?: boolean}} m
   * @param {any} page
   */
  async function kick(m, page) {
    if (m.owner != null) await outbox.greet({ owner: m.owner, since: m.since ?? 0, headers: m.headers });
    page?.postMessage(await outbox.state());
    await outbox.flush(m.reset);
  }

  /** @param {string} op @param {string} key */
  async function act(op, key) {
    if (op === 'retry' || op === 'resend' || op === 'discard' || op === 'look') return outbox[op](key);
    return outbox.state();
  }

  /**
   * Has the browser wake the worker when the network is back, where it can. A tag
   * that is backing off ignores being registered again, so each time is a new one.
   */
  async function remind() {
    if (!(await outbox.left())) return;
    worker.registration.sync?.register(`${cfg.name}-${crypto.randomUUID()}`).catch(() => {});
  }

  /** @param {Request} request */
  async function queuedPage(request) {
    const kept = await worker.caches.match(cfg.prefix + 'queued', { cacheName: cfg.name });
    return kept ?? worker.fetch(request);
  }

  return outbox;
}

/** @param {RegExp} own @param {RegExp | string} [more] */
function either(own, more) {
  return more ? new RegExp(`${own.source}|${typeof more === 'string' ? more : more.source}`) : own;
}
