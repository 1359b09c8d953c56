// @ts-check
// The planner's service worker. Sending is the outbox's business; what is here is
// for reading without a network: the files of the pages, and the last pages of
// the one person who is signed in. It answers nothing of another origin, and no
// GET is ever kept for sending.
import { attach } from '../outbox/worker.js';

const worker = /** @type {any} */ (self);
attach(worker);

const FILES = 'planner-files';
const PAGES = 'planner-pages-'; // with the owner's tag: there is one at a time
const MOST = 12; // pages
const PATIENCE = 4_000; // how long the network may take when something is kept
// One tap away from anywhere: there without having been opened.
const MAIN = ['/today', '/done', '/trash', '/settings', '/waiting'];
const FRESH = 600_000; // a page that is younger is not asked for again
// In place of a page that is not kept; one for each language.
const OFFLINE = ['/offline?lang=ru', '/offline?lang=en'];

const origin = worker.location.origin;
/** Pages that are shown from what is kept and have not been told so. @type {Set<string>} */
const old = new Set();
/** How often somebody may have logged in or out: an answer from before is not kept. */
let logins = 0;

worker.addEventListener('install', (/** @type {any} */ event) => {
  // Without it the installation is still worth having.
  event.waitUntil(keepOffline().catch(() => {}));
});

worker.addEventListener('fetch', (/** @type {any} */ event) => {
  const request = /** @type {Request} */ (event.request);
  const url = new URL(request.url);
  if (url.origin !== origin) return;
  if (request.method !== 'GET') {
    // Who is signed in may change: nobody is to read the last one's pages.
    if (/^\/auth\//.test(url.pathname)) {
      logins++;
      event.waitUntil(forgetPages());
    }
    return;
  }
  // The page on which a waiting form lands asks, by a fetch, whether the way back
  // is open; it is, if the page before is kept.
  const asks = request.referrer.startsWith(`${origin}/outbox/queued`);
  if ((request.mode === 'navigate' || asks) && isPage(url.pathname)) return event.respondWith(page(event, url));
  if (request.mode === 'navigate') {
    if (!isOthers(url.pathname)) event.respondWith(fetch(request).catch(standIn));
    return;
  }
  if (isFile(url)) event.respondWith(url.searchParams.has('v') ? versioned(request) : module(request));
});

worker.addEventListener('message', (/** @type {any} */ event) => {
  // A page that was loaded before the worker was there tells what it is made of.
  if (event.data?.type !== 'planner:loaded') return;
  if (old.delete(event.source?.id)) event.source.postMessage({ type: 'planner:kept' });
  event.waitUntil(learn(event.data.urls, event.data.page));
});

/** @param {string} path */
const isPage = (path) => /^\/(today|done|trash|settings|waiting|tasks\/[\w-]+)$/.test(path);

/**
 * Not ours to answer: the outbox's own pages; and a file that is saved, for it comes
 * without a worker that may stop on the way, and no page is to be saved in its place.
 *
 * @param {string} path
 */
const isOthers = (path) => /^\/(outbox|exports)\/./.test(path);

/** @param {URL} url */
const isFile = (url) => url.pathname.startsWith('/static/') || /^\/outbox\/[\w.-]+\.(js|css)$/.test(url.pathname);

/** @param {Response} r */
const isGood = (r) => r.status === 200 && r.type === 'basic' && !r.redirected;

/** A full device keeps nothing; what came over the network is shown all the same. */
const full = () => {};

// --- Files ---

/** An address with a version means the same bytes for ever. @param {Request} request */
async function versioned(request) {
  const kept = await caches.match(request.url, { cacheName: FILES });
  if (kept) return kept;
  const fresh = await fetch(request);
  if (isGood(fresh)) await keepFile(request.url, fresh.clone()).catch(full);
  return fresh;
}

/** A module is named without a version: the newest there is. @param {Request} request */
async function module(request) {
  const kept = await caches.match(request.url, { cacheName: FILES });
  const fresh = fetch(request).then(async (r) => {
    if (isGood(r)) await keepFile(request.url, r.clone()).catch(full);
    return r;
  });
  return kept ? first(fresh, kept) : fresh;
}

/** @param {string} address @param {Response} r */
async function keepFile(address, r) {
  const files = await caches.open(FILES);
  const path = new URL(address).pathname;
  let newer = false;
  for (const old of await files.keys()) {
    if (new URL(old.url).pathname === path && old.url !== address) newer = await files.delete(old);
  }
  await files.put(address, r);
  // The page that stands in for others is made of the old files.
  if (newer) await keepOffline().catch(() => {});
}

/**
 * It is everybody's: asked for as nobody, or it would carry the account of whoever
 * was there at the time to whoever sees it.
 */
async function keepOffline() {
  const files = await caches.open(FILES);
  for (const path of OFFLINE) {
    const r = await fetch(path, { credentials: 'omit', cache: 'reload' });
    if (isGood(r)) await files.put(path, r);
  }
  await files.delete('/offline'); // of the worker before
}

/**
 * The network's answer if it comes in time and is one, else what is kept.
 *
 * @param {Promise<Response>} fresh
 * @param {Response} kept
 * @param {() => void} [told] called if it is what is kept
 * @returns {Promise<Response>}
 */
function first(fresh, kept, told = () => {}) {
  return new Promise((resolve) => {
    const give = () => {
      told();
      resolve(kept);
    };
    const timer = setTimeout(give, PATIENCE);
    fresh.then(
      (r) => {
        clearTimeout(timer);
        if (r.status === 502 || r.status === 503 || r.status === 504) give();
        else resolve(r);
      },
      () => {
        clearTimeout(timer);
        give();
      },
    );
  });
}

// --- Pages ---

/** @param {any} event @param {URL} url */
async function page(event, url) {
  const address = origin + url.pathname;
  const kept = await keptPage(address);
  const at = logins;
  const fresh = fetch(event.request).then(async (r) => {
    await keepPage(address, r, at);
    return r;
  });
  event.waitUntil(fresh.catch(() => {}));
  if (kept) return first(fresh, kept, () => old.add(event.resultingClientId));
  return fresh.catch(standIn);
}

/** In the place of a page that does not come; in the language of those that are kept. */
async function standIn() {
  const like = (await keptPage(origin + MAIN[0]))?.headers.get('Content-Language') ?? worker.navigator.language ?? '';
  return (await caches.match(OFFLINE[/^ru/i.test(like) ? 0 : 1], { cacheName: FILES })) ?? Response.error();
}

/** @param {string} address */
async function keptPage(address) {
  for (const name of await caches.keys()) {
    if (name.startsWith(PAGES)) return caches.match(address, { cacheName: name });
  }
}

/**
 * Only a whole page of somebody who is signed in, and still was when it came.
 *
 * @param {string} address
 * @param {Response} r
 * @param {number} at what logins was when it was asked for
 */
async function keepPage(address, r, at) {
  const owner = r.headers.get('Planner-Owner');
  if (!isGood(r) || !owner || at !== logins) return;
  const copy = r.clone();
  await forgetPages(PAGES + owner);
  const pages = await caches.open(PAGES + owner);
  await pages.delete(address); // so that the order is that of the last visits
  await pages.put(address, copy).catch(full);
  const all = await pages.keys();
  const others = all.filter((/** @type {Request} */ p) => !MAIN.includes(new URL(p.url).pathname));
  for (const old of others.slice(0, Math.max(0, all.length - MOST))) await pages.delete(old);
}

/** @param {string} [but] */
async function forgetPages(but) {
  for (const name of await caches.keys()) if (name.startsWith(PAGES) && name !== but) await caches.delete(name);
}

/** @param {string[]} urls @param {string} address */
async function learn(urls, address) {
  for (const u of urls) {
    const url = new URL(u, origin);
    if (url.origin !== origin || !isFile(url) || (await caches.match(url.href, { cacheName: FILES }))) continue;
    const r = await fetch(url.href).catch(() => null);
    if (r && isGood(r)) await keepFile(url.href, r).catch(full);
  }
  const at = logins;
  for (const path of new Set([new URL(address, origin).pathname, ...MAIN])) {
    if (!isPage(path)) continue;
    const kept = await keptPage(origin + path);
    if (kept && !(MAIN.includes(path) && Date.now() - Date.parse(kept.headers.get('Date') ?? '') > FRESH)) continue;
    const r = await fetch(path, { redirect: 'manual', headers: { Accept: 'text/html' }, signal: AbortSignal.timeout(10_000) }).catch(() => null);
    if (!r || at !== logins) return;
    await keepPage(origin + path, r, at);
  }
}
