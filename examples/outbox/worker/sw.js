// The app's own worker: no module, with a cache and a fetch listener.
// docs: worker: an own worker
importScripts('/outbox/classic.js');
onceward.attach(self); // before the app's own fetch listener

self.addEventListener('fetch', (event) => {
  const request = event.request;
  if (request.method !== 'GET') return; // changes are the outbox's, or nobody's
  const kept = new URL(request.url).pathname.startsWith('/outbox/') || request.mode === 'navigate';
  if (kept && !request.url.includes('/outbox/queued')) event.respondWith(freshOrKept(request));
});

// From the network; without one, what was there the last time.
async function freshOrKept(request) {
  const cache = await caches.open('app-1');
  try {
    const fresh = await fetch(request);
    if (fresh.ok) await cache.put(request, fresh.clone());
    return fresh;
  } catch (error) {
    const old = await cache.match(request);
    if (old) return old;
    throw error;
  }
}
// docs: end
