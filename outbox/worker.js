// @ts-check
// The outbox in a service worker. An application's own module worker takes it in
// with two lines, before its own fetch listener:
//
//   import { attach } from '/outbox/worker.js';
//   attach(self);

import { createOutbox } from './engine.js';
import { announced } from './heard.js';
import { idbStore } from './idb.js';
import { defaults } from './line.js';
import { auth, changes, deny, either } from './paths.js';
import { respond } from './respond.js';

/**
 * @typedef {object} Options
 * @property {RegExp | string} [deny] paths that are never taken, besides the built-in ones
 * @property {RegExp | string} [auth] paths where a POST may change who is signed in, besides the built-in ones
 * @property {boolean} [takeOver] be installed and take the open pages at once; true unless said otherwise
 * @property {boolean} [kill] take nothing new, and send what is left
 * @property {import('./types.js').Store} [store] in IndexedDB's place, for tests
 */

/**
 * @param {any} worker the service worker's global scope
 * @param {Options & Partial<import('./types.js').Config>} [options]
 * @returns {import('./engine.js').Outbox}
 */
export function attach(worker, options) {
  const { registration, location } = worker;
  // The page's configuration comes with the script's address, which is there
  // whenever the worker starts.
  const told = new URL(location.href).searchParams.get('outbox');
  const cfg = { takeOver: true, ...defaults, ...JSON.parse(told ?? '{}'), ...options };
  const site = { origin: location.origin, deny: either(deny, cfg.deny) };
  const signs = either(auth, cfg.auth);
  const page = cfg.prefix + 'queued';
  /** @returns {Promise<any[]>} */
  const pages = () => worker.clients.matchAll({ type: 'window', includeUncontrolled: true });
  const on = (/** @type {string} */ type, /** @type {(event: any) => void} */ fn) => worker.addEventListener(type, fn);

  /** What became of wishes, for pages that were on their way then; the answer to a form is one. @type {any[]} */
  let news = [];
  let telling = Promise.resolve();
  const outbox = createOutbox({
    store: cfg.store ?? idbStore(cfg.name),
    fetch: (url, init) => worker.fetch(url, init),
    locks: worker.navigator.locks,
    config: cfg,
    visible: async () => (await pages()).some((c) => c.visibilityState === 'visible'),
    // One after another, so that the last state told is the last there was.
    tell(message) {
      // A page that was drawn anew may show the answer already.
      for (const e of message.events ?? []) if (!(e.live && e.nav)) news = [...news.slice(-49), { ...e, live: false, html: '', hx: null, trigger: null, at: Date.now() }];
      telling = telling.then(async () => {
        for (const c of await pages()) c.postMessage(message);
      }).catch(() => {});
    },
  });

  /**
   * A new worker is about to take over. Chromium ends the old one for it; a word of
   * a page in just that moment starts the old one again, and leaves the new one
   * waiting for as long as anybody speaks to the old one, up to five minutes. So
   * pages are to be quiet until they have the new one.
   *
   * @param {number} ms at the most
   */
  async function hush(ms) {
    if (!registration.active) return;
    for (const c of await pages()) c.postMessage({ type: 'outbox-hush', ms });
    await new Promise((ok) => setTimeout(ok, 1_000)); // a page may be busy
  }

  /** The new worker that was asked to take over once more. @type {any} */
  let over;
  /** It waits, for this one was spoken to. */
  async function giveWay() {
    const { waiting } = registration;
    if (!cfg.takeOver || !waiting || waiting === over) return;
    over = waiting;
    // One that nobody speaks to for half a minute is ended.
    await hush(35_000).catch(() => {});
    over.postMessage({ type: 'outbox-over' });
  }

  on('install', (event) => {
    const takeOver = () => worker.skipWaiting();
    if (cfg.takeOver) event.waitUntil(hush(5_000).then(takeOver, takeOver));
    // Without the page the installation is still worth having.
    const keep = async () => (await worker.caches.open(cfg.name)).add(new Request(site.origin + page, { cache: 'reload' }));
    event.waitUntil(keep().catch(() => {}));
  });

  on('activate', (event) => {
    if (cfg.takeOver) event.waitUntil(worker.clients.claim());
    // Not waited for: requests are held back until the activation is over.
    void outbox.flush(true);
  });

  on('fetch', (event) => {
    const r = /** @type {Request} */ (event.request);
    const { origin, pathname } = new URL(r.url);
    if (origin !== site.origin || cfg.kill) return;
    if (!changes(r.method)) {
      if (r.mode === 'navigate' && pathname === page) {
        event.respondWith(worker.caches.match(page, { cacheName: cfg.name }).catch(() => {}).then((/** @type {any} */ kept) => kept ?? worker.fetch(r)));
      }
      return;
    }
    const a = announced(r, site);
    if (!a) {
      if (signs.test(pathname)) event.waitUntil(outbox.forget());
      return;
    }
    const { answer, done } = outbox.capture({
      ...a,
      method: r.method,
      headers: [...r.headers],
      // Read once, into memory: what is sent is this, never the request itself,
      // whose body some browsers lose.
      body: r.arrayBuffer(),
      referrer: r.referrer.startsWith(origin) ? r.referrer : a.back,
    });
    event.respondWith(answer.then((result) => respond(result, a, r.headers.get('Accept'), cfg)));
    event.waitUntil(done.then(remind));
  });

  on('message', (event) => {
    const { type } = event.data ?? {};
    if (type === 'flush') {
      event.waitUntil(kick(event.data, event.source));
      event.waitUntil(giveWay());
    }
    // Chromium listens to it once more, and not again.
    if (type === 'outbox-over' && cfg.takeOver) worker.skipWaiting();
  });

  on('sync', (event) => {
    if (!event.tag.startsWith(cfg.name + '-')) return;
    event.waitUntil(
      outbox.flush(true).then(async () => {
        if (!(await outbox.state()).pending) return;
        if (event.lastChance) void remind();
        // Resolving would mean "done" to the browser, and it would not come again.
        throw new Error('not everything is sent yet');
      }),
    );
  });

  /**
   * @param {{owner?: string, since?: number, headers?: Record<string, string>, former?: string[], reset?: boolean, tell?: boolean | 'only', small?: boolean, born?: number, events?: any[]}} m tell: all
   *   pages; only: and send nothing; small: a page sends the big ones; born: when the page
   *   was asked for, if it has heard nothing yet; events: what a page that sends has to tell
   * @param {any} client
   */
  async function kick({ owner, since = 0, headers, former, reset, tell, small, born, events }, client) {
    if (owner != null) await outbox.greet({ owner, since, headers, former });
    if (tell) await outbox.announce(events);
    else client?.postMessage({ ...(await outbox.state(born ? news.filter(({ at }) => at > born && at <= Date.now()) : [])), off: cfg.kill });
    if (tell !== 'only') await outbox.flush(reset, small);
  }

  /**
   * Has the browser wake the worker when the network is back, where it can. A tag
   * that is backing off ignores being registered again, so each time is a new one.
   */
  async function remind() {
    if ((await outbox.state()).pending) registration.sync?.register(`${cfg.name}-${crypto.randomUUID()}`).catch(() => {});
  }

  return outbox;
}
