// @ts-check
// Which requests are the outbox's: the announced ones, and how they are
// announced. Decided from the request alone, because a worker must decide at
// once. Pure; the fragment and the key are in ../vectors/.

/**
 * @typedef {object} Announcement
 * @property {string} key
 * @property {string} owner
 * @property {string} url without the fragment
 * @property {boolean} nav a form's navigation, which wants a page for an answer
 * @property {string} back the page that a form was on
 * @property {string} label what a person calls it
 * @property {string} el the id of the row that shows it
 * @property {string} swap how and where its answer is put: "outerHTML #task-5"
 */

const changing = /^(POST|PUT|PATCH|DELETE)$/;

// Actions that mean something only now, or that carry secrets. "/authors" is no
// "/auth".
export const deny = /^\/(auth|api\/billing|miniapp\/auth)(\/|$)/;

// A POST here may change who is signed in.
export const authPath = /^\/(auth|login|logout|signin|signout|register)(\/|$)/;

const visible = /^[!-~]+$/;

/**
 * An Idempotency-Key header's value as the key it names, or null: "k1" with
 * quotes (RFC 9651 section 3.3.3) and k1 without are one key. The same rules as
 * onceward.ParseKey.
 *
 * @param {string | null} value
 */
export function parseKey(value) {
  let v = (value ?? '').replace(/^[ \t]+|[ \t]+$/g, '');
  if (v[0] === '"') {
    const quoted = /^"((?:[ !#-[\]-~]|\\["\\])*)"$/.exec(v);
    if (!quoted) return null;
    v = quoted[1].replace(/\\(.)/g, '$1');
    if (!v.trim()) return null;
  } else if (!visible.test(v) || /[,"]/.test(v)) {
    return null;
  }
  return v.length <= 255 ? v : null;
}

/**
 * Dots too, since they stand between the parts.
 *
 * @param {string} text
 */
const encode = (text) => encodeURIComponent(text).replace(/\./g, '%2E');

/** @param {string | null | undefined} text */
function decode(text) {
  try {
    return decodeURIComponent(text ?? '');
  } catch {
    return '';
  }
}

/**
 * What a form's action ends with when its submission is announced. A fragment is
 * seen by the worker and never leaves the browser.
 *
 * @param {{key: string, owner: string, back: string, label?: string, el?: string}} a
 */
export function fragment(a) {
  const parts = [a.key, a.owner, a.back];
  if (a.label || a.el) parts.push(a.label ?? '', a.el ?? '');
  return '#outbox=' + parts.map(encode).join('.');
}

/**
 * @param {string} hash
 * @returns {{key: string, owner: string, back: string, label: string, el: string} | null}
 */
export function parseFragment(hash) {
  if (!hash.startsWith('#outbox=')) return null;
  const parts = hash.slice(8).split('.');
  if (parts.length < 3) return null;
  try {
    const [key, owner, back, label = '', el = ''] = parts.map((p) => decodeURIComponent(p));
    return parseKey(key) === key && owner ? { key, owner, back, label, el } : null;
  } catch {
    return null;
  }
}

/**
 * The headers that announce a request made by a script. They are for the worker;
 * of these only the key and the owner go on to the server.
 *
 * @param {{key: string, owner: string, label?: string, el?: string, swap?: string}} a
 */
export function headers(a) {
  /** @type {Record<string, string>} */
  const h = { 'Idempotency-Key': a.key, 'Outbox-Owner': a.owner };
  if (a.label) h['Outbox-Label'] = encodeURIComponent(a.label);
  if (a.el) h['Outbox-El'] = encodeURIComponent(a.el);
  if (a.swap) h['Outbox-Swap'] = encodeURIComponent(a.swap);
  return h;
}

/**
 * @param {{url: string, method: string, mode?: string, headers: {get(name: string): string | null}}} request
 * @param {{origin: string, deny?: RegExp}} site
 * @returns {Announcement | null} null: the browser goes its own way
 */
export function announced(request, site) {
  if (!changing.test(request.method)) return null;
  const url = new URL(request.url);
  if (url.origin !== site.origin || (site.deny ?? deny).test(url.pathname)) return null;
  const bare = url.origin + url.pathname + url.search;
  if (request.mode === 'navigate') {
    const told = parseFragment(url.hash);
    return told && { ...told, url: bare, nav: true, swap: '' };
  }
  const get = (/** @type {string} */ name) => request.headers.get(name);
  const key = parseKey(get('Idempotency-Key'));
  const owner = get('Outbox-Owner');
  if (!key || !owner) return null;
  return {
    key,
    owner,
    url: bare,
    nav: false,
    back: '',
    label: decode(get('Outbox-Label')),
    el: decode(get('Outbox-El')),
    swap: decode(get('Outbox-Swap')),
  };
}

const kept = /^(hx-.*|accept|accept-language|content-type|prefer|if-match|if-none-match|if-unmodified-since|x-requested-with|x-csrf-?token|x-xsrf-token)$/;

/**
 * The headers of a request that its entry keeps. Never credentials: a later send
 * goes with those of its own time.
 *
 * @param {Iterable<[string, string]>} all
 * @returns {Record<string, string>}
 */
export function keptHeaders(all) {
  /** @type {Record<string, string>} */
  const out = {};
  for (const [name, value] of all) if (kept.test(name.toLowerCase())) out[name.toLowerCase()] = value;
  return out;
}
