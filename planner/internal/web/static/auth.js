// @ts-check
// The pages for those who are not signed in. Logging in means something only now:
// it is never kept for later, it has 8 seconds, and what went wrong is said.

const form = /** @type {HTMLFormElement | null} */ (document.querySelector('form.auth'));
const error = document.getElementById('error');

// Who is here is not signed in: what the worker kept of somebody's pages goes.
if ('caches' in window) {
  caches.keys().then((names) => names.filter((n) => n.startsWith('planner-pages-')).forEach((n) => caches.delete(n)));
}

const zone = /** @type {HTMLInputElement | null} */ (form?.elements.namedItem('tz') ?? null);
if (zone) zone.value = Intl.DateTimeFormat().resolvedOptions().timeZone ?? '';

/** @param {string} words */
function complain(words) {
  if (!error) return;
  error.textContent = words;
  error.hidden = !words;
}

form?.addEventListener('submit', async (event) => {
  event.preventDefault();
  const button = /** @type {HTMLButtonElement} */ (form.querySelector('button.is-main'));
  if (button.disabled) return;
  const words = button.textContent;
  button.disabled = true;
  button.textContent = form.dataset.busy ?? words;
  complain('');
  try {
    const answer = await fetch(form.action, {
      method: 'POST',
      body: new URLSearchParams(/** @type {any} */ (new FormData(form))),
      headers: { 'HX-Request': 'true' },
      signal: AbortSignal.timeout(8000),
    });
    const to = answer.headers.get('HX-Redirect');
    if (answer.ok && to) {
      location.assign(to);
      return; // the button stays as it is until the page has changed
    }
    const text = (await answer.text()).trim();
    complain(text && !text.startsWith('<') ? text : (form.dataset.offline ?? ''));
  } catch {
    complain(form.dataset.offline ?? '');
  }
  button.disabled = false;
  button.textContent = words;
});
