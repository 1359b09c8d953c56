// @ts-check
// The page's scripts when they cannot be loaded: a page that comes without them
// would send a form that nobody keeps. For our own worker; an application's own
// keeps what it likes.

// A file that is missing here is not kept; worker.test.js has the list from files.go.
const names = 'announce answer ask body decide engine flight forms heard htmx idb intent kit kit-edit kit-leave kit-view line local page paths respond summary texts waits words.en words.ru';
const files = names.split(' ').map((name) => name + '.js').concat('kit.css');

/** @param {any} worker the service worker's global scope, whose script lies beside the others */
export function keepScripts({ caches, fetch, location, addEventListener }) {
  const { href: at } = new URL('./', location.href);
  const open = () => caches.open('outbox');

  addEventListener('install', () => {
    // Not waited for: the worker is wanted more. A site that bundles has none of them.
    void open().then((/** @type {any} */ cache) => files.map((name) => cache.add(new Request(at + name, { cache: 'no-cache' })).catch(() => {})), () => {});
  });

  addEventListener('fetch', (/** @type {any} */ event) => {
    const url = event.request.url.split('?')[0];
    if (event.request.method === 'GET' && url.startsWith(at) && files.includes(url.slice(at.length))) event.respondWith(give(event.request, url));
  });

  /** From the network; what is kept, if that does not give it in time. @param {Request} request @param {string} url */
  async function give(request, url) {
    const cache = await open().catch(() => {});
    const kept = await cache?.match(url);
    const fresh = fetch(request).then((/** @type {Response} */ r) => {
      // A captive portal answers everything.
      const good = r.ok && /javascript|css/.test(r.headers.get('Content-Type') ?? '');
      if (good) cache?.put(url, r.clone()).catch(() => {});
      return good || !kept ? r : kept;
    });
    return kept ? Promise.race([fresh.catch(() => kept), new Promise((ok) => setTimeout(ok, 3_000, kept))]) : fresh;
  }
}
