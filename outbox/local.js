// @ts-check
// What a page needs now and then, loaded beside the rest: the same engine for a
// page that no worker controls (the first load, a forced reload, private windows,
// browsers inside apps), a person's decisions, and a late answer's way into the
// page.

import { createDecisions } from './decide.js';
import { createOutbox } from './engine.js';
import { announced } from './heard.js';
import { here, placeAt } from './htmx.js';
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

// "none" is for what names its own place.
const styles = /^(innerHTML|outerHTML|beforebegin|afterbegin|beforeend|afterend|textContent|innerMorph|outerMorph|delete|none)$/;
const oob = '[hx-swap-oob],[data-hx-swap-oob],hx-partial,template';

/** The ids in an element. @param {Element} e */
const inside = (e) => [e, ...e.querySelectorAll('[id]')].filter((x) => x.id);

/** Those that it brings: what names its own place is put there. @param {Element} e */
const idsOf = (e) => inside(e).filter((x) => !x.closest(oob)).map((x) => x.id);

/** Whether an id of it would stand twice, for one is where nothing is replaced. @param {Element} e @param {(there: Element) => boolean} [replaced] */
const clashes = (e, replaced = () => false) =>
  idsOf(e).some((id) => {
    const there = document.getElementById(id);
    return there && !replaced(there);
  });

/**
 * Puts an answer that came after its request was told "it waits" where htmx would
 * have put it, by htmx. Where that is not known, in another page by now or in one
 * that was loaded after the work was done, what has an id goes to its own place.
 * Redirects and refreshes are not followed: the person is elsewhere by now.
 *
 * @param {{el: string, swap: string, status: number, html: string, trigger: string | null, hx?: Record<string, string> | null}} event
 * @param {import('./types.js').Who} [who] absent: this page did not ask
 * @returns {Element | null} where it was put
 */
function put({ el, swap, status, html, trigger, hx = html ? {} : null }, who) {
  const [place, page = here(), select] = swap.split('\n');
  const [said, ...rest] = place.split(' ');
  let [style] = (hx?.['hx-reswap'] ?? said).split(/\s/);
  const to = hx?.['hx-retarget'];
  const asked = who?.target?.isConnected && !to ? who.target : placeAt(to || rest.join(' ') || '_', document.getElementById(el));
  let target = (page === here() && asked) || null;
  let at = target;
  if (trigger) fire(trigger, target ?? who?.asker ?? document.body);
  const lib = /** @type {any} */ (globalThis).htmx;
  if (!lib?.swap || !hx || status === 204 || !styles.test(style) || Object.keys(hx).some((n) => /-(location|redirect|refresh)$/.test(n))) return null;

  const box = document.createElement('template');
  box.innerHTML = html;
  const { content } = box;
  const chosen = hx['hx-reselect'] ?? select;
  if (chosen) content.replaceChildren(...[...content.querySelectorAll(`${chosen},${oob}`)].filter((e) => !e.parentElement?.closest(`${chosen},${oob}`)));
  let whole = !chosen;
  const drop = (/** @type {Element} */ e) => {
    e.remove();
    whole = false;
  };
  /** @param {Element} on @param {string} text @param {string} swapStyle */
  const swapIn = (on, text, swapStyle) => {
    if (String(lib.version).startsWith('4')) lib.swap({ text, target: on, swap: swapStyle, sourceElement: who?.asker.isConnected ? who.asker : on });
    // What is swapped in is htmx's own only when it has settled: until then a press
    // there would be a plain form's.
    else lib.swap(on, text, { swapStyle, swapDelay: 0, settleDelay: 0 });
  };

  const adds = /^(before|after)/.test(style);
  // A page that did not ask may have been loaded with it.
  const doubtful = (/** @type {Element} */ e) => !who && !idsOf(e).length;
  for (const e of content.querySelectorAll(oob)) {
    const own = e.getAttribute('hx-swap-oob') ?? e.getAttribute('data-hx-swap-oob') ?? e.getAttribute('hx-swap') ?? '';
    const parts = [...(e instanceof HTMLTemplateElement ? e.content : e).children];
    if (/^(before|after)/.test(own) && parts.some((part) => inside(part).some((x) => document.getElementById(x.id)) || (!who && !inside(part).length))) drop(e);
  }
  const main = [...content.children].filter((e) => !e.matches(oob));
  const replaced = (/** @type {Element} */ x) => !adds && !!target?.contains(x) && (x !== target || !/^(inner|text)/.test(style));
  if (style !== 'none' && style !== 'delete' && (!target || adds || main.some((e) => clashes(e, replaced)))) {
    if (target && !adds) target = null;
    for (const e of main) {
      const there = document.getElementById(e.id);
      if (there && !clashes(e, (x) => there.contains(x))) {
        swapIn(there, e.outerHTML, 'outerHTML');
        at = there;
      } else if (target && !clashes(e) && !doubtful(e)) continue;
      drop(e);
    }
    if (!target) style = 'none';
  }
  if (style !== 'none' || content.querySelector(oob)) {
    if (target || style === 'none') swapIn(target ?? document.body, whole ? html : box.innerHTML, style);
  }
  return at && (at.isConnected ? at : document.getElementById(at.id));
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
