// @ts-check
// On the page that a form lands on while its request waits: goes back to where
// the form was as soon as that page loads. The worker can only be asked from a
// page, so this one asks it to go on as any other would.

const wanted = new URLSearchParams(location.search).get('back') || '/';
const back = URL.canParse(wanted, location.origin) ? new URL(wanted, location.origin) : null;

async function goBack() {
  navigator.serviceWorker?.controller?.postMessage({ type: 'flush' });
  if (!back || back.origin !== location.origin) return;
  try {
    const r = await fetch(back, { signal: AbortSignal.timeout(3_000) });
    if (r.ok) location.replace(back.href);
  } catch {
    // Not yet.
  }
}

if (back?.origin === location.origin) {
  const link = /** @type {HTMLAnchorElement | null} */ (document.getElementById('outbox-back'));
  if (link) link.href = back.href;
}
if (location.hash) history.replaceState(null, '', location.pathname + location.search);
void goBack();
setInterval(() => document.visibilityState === 'visible' && void goBack(), 5_000);
addEventListener('online', () => void goBack());
