// @ts-check
// The planner's pages for those who are signed in. Everything here makes the page
// quicker and calmer; without any of it each form still works.
import { open } from '../outbox/kit.js';
import { outbox } from '../outbox/page.js';
import { refresh } from './lists.js';
import { hush, say } from './rows.js';
import './add.js';

// --- The person's zone ---

// Told once for each zone that the device is found in, and by a request that
// nobody keeps: a zone that arrives tomorrow may be the wrong one. Whatever the
// answer, the page is not loaded again.
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
if ('zoneAuto' in document.body.dataset && zone && zone !== document.body.dataset.zone && sessionStorage.getItem('planner-zone') !== zone) {
  fetch('/settings/zone', { method: 'POST', body: new URLSearchParams({ tz: zone }), redirect: 'error', signal: AbortSignal.timeout(8000) })
    .then((answer) => {
      if (answer.status !== 204) return;
      sessionStorage.setItem('planner-zone', zone);
      return refresh();
    })
    .catch(() => {}); // the next page tells it
}

// --- Coming back to the page ---

let seen = Date.now();
let stale = false;
document.addEventListener('visibilitychange', () => {
  if (document.visibilityState === 'hidden') seen = Date.now();
  else if (stale || Date.now() - seen > 30_000) refresh();
  stale = false;
});
// Another tab, or the worker by itself, has changed something of this account.
/** @type {Set<string | undefined>} */
const own = new Set();
let soon = 0;
document.addEventListener('htmx:beforeRequest', (event) => own.add(/** @type {any} */ (event).detail.requestConfig?.headers?.['Idempotency-Key']));
navigator.serviceWorker?.addEventListener('message', ({ data }) => {
  const owner = document.querySelector('meta[name="outbox-owner"]')?.getAttribute('content');
  if (data?.type !== 'outbox' || !data.events.some((/** @type {any} */ e) => e.kind === 'delivered' && e.owner === owner && !own.has(e.key))) return;
  clearTimeout(soon);
  if (document.visibilityState === 'hidden') stale = true;
  else soon = window.setTimeout(refresh, 300);
});
window.addEventListener('pageshow', (event) => event.persisted && refresh());
// The day ends while the page is open.
let day = new Date().toDateString();
setInterval(() => {
  if (new Date().toDateString() === day) return;
  day = new Date().toDateString();
  refresh();
}, 60_000);

// --- Without a network ---

// The worker says when it had to show a page that it kept: then the lists are
// asked for until they come.
navigator.serviceWorker?.addEventListener('message', async (event) => {
  if (event.data?.type !== 'planner:kept') return;
  say(document.getElementById('snackbar')?.dataset.offline ?? '');
  for (let wait = 3_000; !(await refresh()); wait = Math.min(wait * 2, 60_000)) await new Promise((ok) => setTimeout(ok, wait));
  hush();
});
addEventListener('online', () => refresh());

// A page that came before the worker tells it what it is made of, so that the
// next one opens without a network.
navigator.serviceWorker?.ready.then(async (registration) => {
  for (const wait of [0, 3_000]) {
    await new Promise((ok) => setTimeout(ok, wait));
    const urls = performance.getEntriesByType('resource').map((r) => r.name);
    registration.active?.postMessage({ type: 'planner:loaded', urls, page: location.pathname });
  }
});

// --- Logging out ---

// By a script, for a plain form without a network ends on the browser's own error
// page. The kit has asked by now, if something is not saved.
document.addEventListener('submit', (event) => {
  const form = /** @type {HTMLFormElement} */ (event.target);
  if (event.defaultPrevented || !form.matches('[action="/auth/logout"]')) return;
  event.preventDefault();
  forget();
  fetch(form.action, { method: 'POST', body: new URLSearchParams(/** @type {any} */ (new FormData(form))), signal: AbortSignal.timeout(8000) })
    .then((answer) => location.assign(answer.url))
    .catch(() => say(form.dataset.offline ?? ''));
});

/** The pages that the worker keeps for reading without a network. */
async function forget() {
  for (const name of await caches.keys()) if (name.startsWith('planner-pages-')) await caches.delete(name);
}

// --- The page of what waits ---

const waiting = document.getElementById('waiting');
if (waiting) {
  const show = () => {
    const n = (outbox.snapshot.entries ?? []).filter((e) => e.state !== 'parked').length;
    /** @type {HTMLElement} */ (waiting.querySelector('[data-outbox-open]')).hidden = !n;
    /** @type {HTMLElement} */ (waiting.querySelector('.waiting-none')).hidden = !!n;
    return n;
  };
  let first = true;
  outbox.addEventListener('change', () => {
    if (show() && first) open();
    first = false;
  });
  show();
}
