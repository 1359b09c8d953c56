// @ts-check
// What a page of the planner does with its taps, written down in the page itself.
import { until } from './processes.js';

/**
 * Writes down, in a page, what the pointer hits: a row can move under it. Also what
 * is neither answered nor put down yet; and, in the phone's own store, what a page
 * has told to be unsaved.
 *
 * @param {import('./tab.js').Tab} tab
 */
export function watch(tab) {
  return tab.eval(() => {
    const rig = /** @type {any} */ (window);
    if (rig.rigHits) return;
    rig.rigHits = [];
    rig.rigOpen = new Set();
    navigator.serviceWorker?.addEventListener('message', ({ data }) => data?.type === 'outbox-placed' && rig.rigOpen.delete(data.key));
    addEventListener('htmx:configRequest', event => {
      const { path, verb, headers, parameters } = /** @type {CustomEvent} */ (event).detail;
      const key = headers['Idempotency-Key'];
      if (verb !== 'post' || !key) return;
      rig.rigOpen.add(key);
      localStorage.setItem(`rig-sent-${key}`, JSON.stringify({ path, form: Object.fromEntries(Object.entries(parameters)) }));
    });
    addEventListener('htmx:afterRequest', event => rig.rigOpen.delete(/** @type {CustomEvent} */ (event).detail.requestConfig.headers['Idempotency-Key']));
    addEventListener('outbox:unsaved', event => {
      const { key } = /** @type {CustomEvent} */ (event).detail;
      const sent = localStorage.getItem(`rig-sent-${key}`);
      if (sent) localStorage.setItem(`rig-unsaved-${key}`, sent);
    });
    addEventListener('click', event => {
      // A finger that slips onto a title would open it, and come back.
      if (/** @type {Element} */ (event.target).closest('a')) event.preventDefault();
      const button = /** @type {Element} */ (event.target).closest('button');
      const form = button?.closest('form');
      // Nor is it to hit the next date of a weekly task, which the server made: nobody knows of that.
      if (/-[A-Z\d]{26}$/.test(form?.id ?? '')) return event.preventDefault();
      const value = /** @type {HTMLInputElement | null | undefined} */ (form?.querySelector('input[name=completed], input[name=deleted]'));
      if (form?.id && value) rig.rigHits.push({ form: form.id, value: value.value });
    }, true);
  });
}

/**
 * Until the page has handed over all that was tapped there. That takes milliseconds,
 * but not on a busy machine; what a page that is left before then had begun is the
 * browser's to drop.
 *
 * @param {import('./tab.js').Tab} tab
 */
export function handedOver(tab) {
  return until('the taps are answered or put down', () => tab.eval(() => !(/** @type {any} */ (window).rigOpen?.size)), { timeout: 20_000, every: 50 });
}

/**
 * What a page on this phone has told to be unsaved.
 *
 * @param {import('./tab.js').Tab} tab
 * @returns {Promise<{key: string, path: string, form: Record<string, string>}[]>}
 */
export function unsaved(tab) {
  return tab.eval(() =>
    Object.keys(localStorage).flatMap(k => (k.startsWith('rig-unsaved-') ? [{ key: k.slice('rig-unsaved-'.length), ...JSON.parse(/** @type {string} */ (localStorage.getItem(k))) }] : [])));
}
