// @ts-check
// The planner's pages for those who are signed in. Without it each form still works.
import { open } from '../outbox/kit.js';
import { outbox } from '../outbox/page.js';
import { owner, refresh } from './lists.js';
import { hush, say } from './rows.js';
import { newID } from './add.js';

// --- The person's zone ---

// Told once for each zone that the device is found in, by a request that nobody
// keeps: tomorrow it may be the wrong one. The page is not loaded again.
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
// Another tab has changed something.
const own = new Set();
document.addEventListener('htmx:beforeRequest', (/** @type {any} */ event) => own.add(event.detail.requestConfig?.headers?.['Idempotency-Key']));
navigator.serviceWorker?.addEventListener('message', ({ data }) => {
  if (!data?.events?.some((/** @type {any} */ e) => e.kind === 'delivered' && e.owner === owner && !own.has(e.key))) return;
  if (document.visibilityState === 'hidden') stale = true;
  else refresh();
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

// A page that came before the worker tells it what it is made of.
navigator.serviceWorker?.ready.then(async (registration) => {
  for (const wait of [0, 3_000]) {
    await new Promise((ok) => setTimeout(ok, wait));
    const urls = performance.getEntriesByType('resource').map((r) => r.name);
    registration.active?.postMessage({ type: 'planner:loaded', urls, page: location.pathname });
  }
});

// --- Ordering a file ---

// The form's id names one order. A page that is shown again, by going back or from
// what the worker keeps, has the id of the last one, and the next would be refused.
const order = /** @type {HTMLInputElement | null} */ (document.querySelector('form[action="/exports"] [name=id]'));
if (order) {
  const renew = () => (order.value = newID());
  addEventListener('pageshow', (event) => event.persisted && renew());
  renew();
}

// --- Logging out ---

// A plain form without a network ends on the browser's own error page. The kit has
// asked by now; the worker forgets the pages that it keeps.
document.addEventListener('submit', (event) => {
  const form = /** @type {HTMLFormElement} */ (event.target);
  if (event.defaultPrevented || !form.matches('[action="/auth/logout"]')) return;
  event.preventDefault();
  fetch(form.action, { method: 'POST', body: new URLSearchParams(/** @type {any} */ (new FormData(form))), signal: AbortSignal.timeout(8000) })
    .then((answer) => location.assign(answer.url))
    .catch(() => say(form.dataset.offline ?? ''));
});

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
