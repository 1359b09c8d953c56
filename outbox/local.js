// @ts-check
// What a page needs now and then, loaded beside the rest: the same engine for a
// page that no worker controls (the first load, a forced reload, private windows,
// browsers inside apps), a person's decisions, and a late answer's way into the
// page.

import { createDecisions } from './decide.js';
import { createOutbox } from './engine.js';
import { announced } from './heard.js';
import { idbStore } from './idb.js';
import { defaults } from './line.js';
import { deny, either } from './paths.js';
import { respond } from './respond.js';

/**
 * @param {Partial<import('./types.js').Config> & {deny?: string}} given
 * @param {() => string} newKey
 * @param {(message: any) => void} tell
 */
export function startLocal(given, newKey, tell) {
  const config = { ...defaults, ...given };
  const store = idbStore(config.name);
  addEventListener('pagehide', store.sleep);
  addEventListener('pageshow', store.wake);
  const parts = {
    store,
    fetch: (/** @type {string} */ url, /** @type {RequestInit} */ init) => fetch(url, init),
    locks: navigator.locks,
    config,
    newKey,
  };
  const outbox = createOutbox({ ...parts, visible: () => document.visibilityState === 'visible', tell });

  /**
   * As the worker would answer it.
   *
   * @param {string} url
   * @param {RequestInit} init
   */
  async function fetchHere(url, init) {
    const r = new Request(url, { ...init, signal: null });
    const a = announced(r, { origin: location.origin, deny: either(deny, given.deny) });
    if (!a) return fetch(url, init);
    const { answer } = outbox.capture({ ...a, method: r.method, headers: [...r.headers], body: r.arrayBuffer(), referrer: location.href });
    const response = respond(await answer, a, r.headers.get('Accept'), config);
    const to = response.status >= 300 && response.status < 400 && response.headers.get('Location');
    // A fetch would have followed it; so does this.
    return to ? fetch(to, { headers: init.headers }) : response;
  }

  /**
   * Answers an XMLHttpRequest that htmx was about to send.
   *
   * @param {any} xhr
   * @param {Promise<Response>} answer
   */
  async function play(xhr, answer) {
    try {
      const r = await answer;
      const text = await r.text();
      const own = { readyState: 4, status: r.status, response: text, responseText: text, responseURL: r.url };
      for (const [name, value] of Object.entries(own)) Object.defineProperty(xhr, name, { value });
      xhr.getResponseHeader = (/** @type {string} */ name) => r.headers.get(name);
      xhr.getAllResponseHeaders = () => [...r.headers].map(([n, v]) => `${n}: ${v}\r\n`).join('');
    } catch {
      return xhr.onerror();
    }
    xhr.onload();
  }

  return { outbox, decide: createDecisions(parts), fetchHere, play, put };
}

const styles = /^(innerHTML|outerHTML|beforebegin|afterbegin|beforeend|afterend|textContent|innerMorph|outerMorph)$/;

/**
 * Puts an answer that came after its request was told "it waits". Redirects and
 * refreshes that it asks for are not followed: the person is elsewhere by now.
 *
 * @param {{swap: string, html: string | null, trigger: string | null}} event
 * @param {Element} [source] the element that asked
 * @returns {Element | null} where it was put
 */
function put(event, source) {
  const [style, selector] = event.swap.split(' ');
  const lib = /** @type {any} */ (globalThis).htmx;
  let target = selector ? document.querySelector(selector) : null;
  if (event.trigger) fire(event.trigger, target ?? source ?? document.body);
  if (!lib?.swap || !target || event.html == null || !styles.test(style)) return null;
  const first = new DOMParser().parseFromString(`<body><template>${event.html}</template>`, 'text/html').querySelector('template')?.content.firstElementChild;
  // The page may have been loaded after the work was done: then what is to be
  // added is there already.
  const there = first?.id && document.getElementById(first.id);
  const swapStyle = there ? 'outerHTML' : style;
  if (there) target = there;
  if (String(lib.version).startsWith('4')) lib.swap({ text: event.html, target, swap: swapStyle, sourceElement: source?.isConnected ? source : target });
  else lib.swap(target, event.html, { swapStyle, swapDelay: 0, settleDelay: 20 });
  return target;
}

/** HX-Trigger: a list of names, or an object with their details. @param {string} header @param {Element} on */
function fire(header, on) {
  /** @type {Record<string, any>} */
  let events;
  try {
    events = header.trim().startsWith('{') ? JSON.parse(header) : Object.fromEntries(header.split(',').map((n) => [n.trim(), null]));
  } catch {
    return;
  }
  for (const [name, detail] of Object.entries(events)) {
    on.dispatchEvent(new CustomEvent(name, { bubbles: true, detail: detail && typeof detail === 'object' ? detail : { value: detail } }));
  }
}
