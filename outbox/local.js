// @ts-check
// The same engine in a page that no worker controls: the first load, a forced
// reload, private windows, browsers inside apps. Loaded when it is needed.

import { announced } from './announce.js';
import { createOutbox } from './engine.js';
import { idbStore } from './idb.js';
import { defaults } from './line.js';
import { respond } from './respond.js';

/**
 * @param {Partial<import('./line.js').Config>} given
 * @param {(message: any) => void} tell
 */
export function startLocal(given, tell) {
  const cfg = { ...defaults, ...given };
  const outbox = createOutbox({
    store: idbStore(cfg.name),
    fetch: (url, init) => fetch(url, init),
    locks: navigator.locks,
    config: cfg,
    visible: () => document.visibilityState === 'visible',
    tell,
  });

  /**
   * As the worker would answer it.
   *
   * @param {string} url
   * @param {RequestInit} init
   */
  async function fetchHere(url, init) {
    const r = new Request(url, { ...init, signal: null });
    const a = announced(r, { origin: location.origin });
    if (!a) return fetch(url, init);
    const { answer } = outbox.capture({ ...a, method: r.method, headers: [...r.headers], body: r.arrayBuffer(), referrer: location.href });
    const response = respond(await answer, { ...a, accept: r.headers.get('Accept') }, cfg);
    const to = response.status >= 300 && response.status < 400 && response.headers.get('Location');
    // A fetch would have followed it; so does this.
    return to ? fetch(to, { headers: init.headers, credentials: 'same-origin' }) : response;
  }

  return { outbox, fetchHere };
}
