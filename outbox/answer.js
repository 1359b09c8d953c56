// @ts-check
// What an answer means to the entry it answers. The table is
// ../vectors/answers.json, one for Go and JavaScript; this file is its rules.

/** What Outbox-Status, then what Idempotency-Status says. @type {any} */
const words = {
  __proto__: null,
  auth: 'login',
  owner: 'parked',
  expired: 'ask',
  unguarded: 'unguarded',
  'in-progress': 'wait',
  unavailable: 'wait',
  quota: 'wait',
  'key-reused': 'refused',
  'key-invalid': 'refused',
  'key-missing': 'refused',
  'too-large': 'refused',
  'outcome-unknown': 'ask',
  'key-expired': 'ask',
};

/**
 * The word before the parameters: executed;key="…" gives executed.
 *
 * @param {string | null | undefined} value
 */
export const statusToken = (value) => (value ?? '').split(';')[0].trim();

/**
 * The status line alone proves nothing: without one of the marks that only our
 * server makes, an answer was somebody else's. So is one to another key, which a
 * proxy has given to the wrong request.
 *
 * @param {Partial<import('./types.js').Answer>} answer
 * @param {import('./types.js').Acknowledge} [own]
 * @param {string} [key] that was sent
 * @returns {import('./types.js').Verdict}
 */
export function verdict({ status = 0, type, redirected, headers }, own, key) {
  if (type === 'opaqueredirect' || redirected) return 'odd';
  const word = (/** @type {string} */ name) => statusToken(headers?.get(name));
  const ack = own && headers?.get(own.header);
  const mine = ack != null && (!own?.values || own.values.includes(statusToken(ack)));
  const named = /;\s*key="((?:[^"\\]|\\.)*)"/.exec(headers?.get('Idempotency-Status') ?? '')?.[1].replace(/\\(.)/g, '$1');
  const token = mine ? 'executed' : key && named && named !== key ? '' : word('Idempotency-Status');
  if (/^(executed|replayed)$/.test(token)) return status < 400 ? 'done' : 'refused';
  const told = words[word('Outbox-Status')];
  if (told) return told;
  if (token === 'released') return status === 401 ? 'login' : /^(5..|408|425|429)$/.test(`${status}`) ? 'wait' : 'refused';
  return words[token] ?? (/^(0|502|503|504)$/.test(`${status}`) ? 'down' : 'odd');
}

/**
 * How long Retry-After asks to wait, in milliseconds; 0: it does not.
 *
 * @param {string | null | undefined} value seconds or a date (RFC 9110 section 10.2.3)
 * @param {number} now
 * @param {number} most
 */
export function retryAfter(value, now, most) {
  if (!value) return 0;
  const ms = /^\s*\d+\s*$/.test(value) ? Number(value) * 1000 : Date.parse(value) - now;
  return ms > 0 ? Math.min(ms, most) : 0;
}
