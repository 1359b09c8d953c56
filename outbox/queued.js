// @ts-check
// On the page that a form lands on while its request waits: says what waits, and
// goes back to where the form was as soon as that page loads; a link that leads to
// the browser's error page would be no way back. The worker can only be asked from
// a page, so this one asks it to go on as any other would.

const asked = new URLSearchParams(location.search);
const wanted = asked.get('back') || '/';
// A path, which may begin with two slashes. What leads nowhere has no origin.
const back = Object.assign(document.createElement('a'), { href: location.origin + wanted });
const home = () => (back.href = '/');
const link = /** @type {HTMLAnchorElement} */ (document.getElementById('outbox-back'));
const workers = navigator.serviceWorker;

let waits = true;
let gone = () => {};

/** @param {boolean} [reset] do not wait for the back-off */
const flush = (reset) => workers?.controller?.postMessage({ type: 'flush', reset });

async function goBack() {
  flush();
  const r = await fetch(back.href, { signal: AbortSignal.timeout(3_000) }).catch(() => null);
  if (r) flush(true);
  // A page that was the answer to a form, or is no more.
  if (/^(404|405|410)$/.test(String(r?.status))) home();
  // Its answer may be a login.
  const there = r?.ok || r?.status === 401;
  // The page shows it if it is drawn after it was done.
  if (there && waits) await Promise.race([new Promise((ok) => (gone = () => ok(0))), new Promise((ok) => setTimeout(ok, 2_000))]);
  if (there) location.replace(back.href);
  return there;
}

if (back.origin !== location.origin) home();
link.href = back.href;
link.addEventListener('click', async (event) => {
  if (link.origin !== location.origin || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const status = /** @type {HTMLElement} */ (document.getElementById('outbox-status'));
  if (!(await goBack())) status.textContent = link.dataset.away ?? '';
});
workers?.addEventListener('message', ({ data }) => {
  if (data?.type !== 'outbox') return;
  const e = data.entries.find((/** @type {any} */ e) => e.key === asked.get('key') && e.owner === data.owner);
  waits = !!e && /^(waiting|sending)$/.test(e.state);
  if (!waits) gone();
  if (e) /** @type {HTMLElement} */ (document.getElementById('outbox-what')).textContent = e.label;
});
workers?.startMessages();
if (location.hash) history.replaceState(null, '', location.pathname + location.search);
void goBack();
setInterval(() => document.visibilityState === 'visible' && void goBack(), 5_000);
addEventListener('online', () => void goBack());
