// @ts-check
// Which requests are the outbox's: the announced ones. Decided from the request
// alone, because a worker must decide at once. Pure; the key's and the fragment's
// forms are in ../vectors/.

import { changes } from './paths.js';

/**
 * An Idempotency-Key header's value as the key it names, or null: "k1" with
 * quotes (RFC 9651 section 3.3.3) and k1 without are one key. The same rules as
 * onceward.ParseKey.
 *
 * @param {string | null} value
 */
export function parseKey(value) {
  let v = (value ?? '').replace(/^[ \t]+|[ \t]+$/g, '');
  const quoted = /^"((?:[ !#-[\]-~]|\\["\\])*)"$/.exec(v);
  if (quoted) v = quoted[1].replace(/\\(.)/g, '$1');
  else if (!/^[!#-+\--~]+$/.test(v)) return null;
  return v.trim() && v.length <= 255 ? v : null;
}

/** @param {string | null | undefined} text */
function decode(text) {
  try {
    return decodeURIComponent(text ?? '');
  } catch {
    return '';
  }
}

/** @param {string} hash */
export function parseFragment(hash) {
  const told = /^#outbox=(.+)$/.exec(hash)?.[1].split('.') ?? [];
  const [key, owner, back, label, el, coalesce] = told.map(decode);
  return told.length > 2 && key && parseKey(key) === key && owner ? { key, owner, back, label: label ?? '', el: el ?? '', coalesce: coalesce ?? '' } : null;
}

/**
 * @param {{url: string, method: string, mode?: string, headers: {get(name: string): string | null}}} request
 * @param {{origin: string, deny: RegExp}} site
 * @returns {import('./types.js').Announcement | null} null: the browser goes its own way
 */
export function announced(request, { origin, deny }) {
  const { pathname, search, hash, origin: to } = new URL(request.url);
  if (!changes(request.method) || to !== origin || deny.test(pathname)) return null;
  const url = origin + pathname + search;
  if (request.mode === 'navigate') {
    // Another site's form would be sent on as if it were this one's. Only Chromium
    // shows a worker where a form comes from; elsewhere the owner, which cannot be
    // guessed, tells.
    const from = request.headers.get('Origin');
    if (from && from !== origin) return null;
    const told = parseFragment(hash);
    return told && { ...told, url, nav: true, swap: '' };
  }
  const get = (/** @type {string} */ name) => request.headers.get(name);
  // An engine's own send, from a page: it is what was kept, on its way to the server.
  if (get('Outbox-Attempt')) return null;
  const key = parseKey(get('Idempotency-Key'));
  const owner = get('Outbox-Owner');
  const [label, el, swap, coalesce] = ['Label', 'El', 'Swap', 'Coalesce'].map((n) => decode(get(`Outbox-${n}`)));
  return key && owner ? { key, owner, url, nav: false, back: '', label, el, swap, coalesce } : null;
}

const kept = /^(hx-|accept|content-type|prefer|if-|x-requested-with|x-(csrf|xsrf)-?token)/i;

/**
 * The headers of a request that its entry keeps. Never credentials: a later send
 * goes with those of its own time.
 *
 * @param {Iterable<[string, string]>} all
 * @returns {Record<string, string>}
 */
export const keptHeaders = (all) => Object.fromEntries([...all].filter(([name]) => kept.test(name)).map(([name, value]) => [name.toLowerCase(), value]));
