// @ts-check
// How a page announces a request to the worker; heard.js is the other half. The
// fragment's form is in ../vectors/fragments.json.

/** @param {string} text a text that was cut may end in half a character, which has no code */
const encode = (text) => encodeURIComponent(text.replace(/\p{Cs}/gu, ''));

/**
 * What a form's action ends with when its submission is announced. A fragment is
 * seen by the worker and never leaves the browser.
 *
 * @param {{key: string, owner: string, back: string, label?: string, el?: string, coalesce?: string}} a
 */
export function fragment({ key, owner, back, label = '', el = '', coalesce = '' }) {
  const more = coalesce ? [label, el, coalesce] : label || el ? [label, el] : [];
  // Dots stand between the parts.
  return '#outbox=' + [key, owner, back, ...more].map((part) => encode(part).replace(/\./g, '%2E')).join('.');
}

/**
 * The headers that announce a request made by a script. Of these only the key
 * and the owner go on to the server.
 *
 * @param {{key: string, owner: string, label?: string, el?: string, swap?: string, coalesce?: string}} a
 */
export function headers({ key, owner, ...rest }) {
  /** @type {Record<string, string>} */
  const h = { 'Idempotency-Key': key, 'Outbox-Owner': owner };
  for (const [name, value] of Object.entries(rest)) if (value) h[`Outbox-${name}`] = encode(value);
  return h;
}
