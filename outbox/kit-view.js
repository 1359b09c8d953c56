// @ts-check
// What the kit shows, worked out from a snapshot. Pure, so that node can test it.

/**
 * @typedef {object} Entry an entry as the page's snapshot has it
 * @property {string} key
 * @property {string} state waiting | sending | refused | login | parked | ask | stuck
 * @property {string} [label]
 * @property {string} [el]
 * @property {string} method
 * @property {string} url
 * @property {number} createdAt
 * @property {number|null} [firstSentAt]
 * @property {number} attempts
 * @property {number} [lastStatus]
 * @property {string} [lastText]
 * @property {string} [bodyText]
 */

/**
 * @typedef {object} Seen
 * @property {number} now
 * @property {(key: string) => boolean} queued whether the page was told "it waits"
 */

// A tap that is done within a second is shown nowhere: nothing was wrong.
const QUIET = 1000;
// From here on a request counts as waiting even while it is under way; by then
// the tap was answered so (the outbox's soft limit).
const SOFT = 8000;

/** @param {Entry} e */
const pending = (e) => e.state === 'waiting' || e.state === 'sending';

/**
 * Whether a pending entry is known to wait: it was tried and came back, or the
 * page was told so, or it has been under way for too long.
 *
 * @param {Entry} e
 * @param {Seen} seen
 */
function waits(e, seen) {
  return (
    seen.queued(e.key) ||
    e.attempts > 1 ||
    (e.state === 'waiting' && (e.attempts > 0 || !!e.lastStatus)) ||
    seen.now - e.createdAt > SOFT
  );
}

/**
 * The parts of the strip's text, the most urgent first; none: there is no strip.
 * Each has a name in texts.js and a number.
 *
 * @param {{entries: Entry[], foreign?: number}} snapshot
 * @param {Seen} seen
 * @returns {{name: string, n?: number}[]}
 */
export function strip(snapshot, seen) {
  const entries = snapshot.entries;
  /** @param {string} state */
  const count = (state) => entries.filter((e) => e.state === state).length;
  const line = entries.filter(pending);
  const login = count('login');
  /** @type {{name: string, n?: number}[]} */
  const parts = [];
  if (login) {
    // The whole line waits behind the one that met the login page.
    parts.push({ name: 'login', n: login + line.length });
  } else if (line.some((e) => waits(e, seen))) {
    parts.push({ name: 'waiting', n: line.length });
  } else if (line.some((e) => seen.now - e.createdAt >= QUIET)) {
    parts.push({ name: 'sending' });
  }
  for (const name of ['ask', 'refused', 'stuck']) {
    const n = count(name);
    if (n) parts.push({ name, n });
  }
  if (!parts.length && snapshot.foreign) parts.push({ name: 'foreign', n: snapshot.foreign });
  return parts;
}

/**
 * When the strip or a row may look different without any news, in ms from now;
 * 0: never.
 *
 * @param {Entry[]} entries
 * @param {Seen} seen
 */
export function nextLook(entries, seen) {
  let next = 0;
  for (const e of entries) {
    if (!pending(e) || waits(e, seen)) continue;
    const age = seen.now - e.createdAt;
    const left = (age < QUIET ? QUIET : SOFT + 1) - age;
    if (!next || left < next) next = Math.max(left, 20);
  }
  return next;
}

const urgency = ['refused', 'ask', 'stuck', 'login', 'waiting'];

/**
 * The mark of a row with these entries: the most urgent of them, or null while
 * nothing is wrong.
 *
 * @param {Entry[]} entries
 * @param {Seen} seen
 * @returns {{state: string, entry: Entry} | null}
 */
export function mark(entries, seen) {
  /** @type {{state: string, entry: Entry} | null} */
  let best = null;
  for (const entry of entries) {
    const state = !pending(entry) ? entry.state : waits(entry, seen) ? 'waiting' : '';
    const rank = urgency.indexOf(state);
    if (rank >= 0 && (!best || rank < urgency.indexOf(best.state))) best = { state, entry };
  }
  return best;
}

/**
 * Why an entry was refused: the server's own words if they are fit to show, else
 * what its status means. The result is text, or a name in texts.js.
 *
 * @param {Entry} e
 * @returns {{text: string} | {name: string, n?: number} | null}
 */
export function reason(e) {
  const text = (e.lastText ?? '').replace(/\s+/g, ' ').trim();
  // Markup and JSON are for programs.
  if (text && !/^[<{[]/.test(text)) return { text: text.length > 200 ? `${text.slice(0, 199)}…` : text };
  const s = e.lastStatus ?? 0;
  if (s === 404 || s === 410) return { name: 'why.gone' };
  if (s === 403) return { name: 'why.denied' };
  if (s === 413) return { name: 'why.large' };
  if (s >= 500) return { name: 'why.server' };
  return s >= 400 ? { name: 'why.status', n: s } : null;
}

/**
 * The fields of a form's body that a person filled in: no keys, no ids.
 *
 * @param {string} [body]
 * @returns {[string, string][]}
 */
export function fields(body) {
  if (!body || !/^[^\s{<[]*=/.test(body)) return [];
  return [...new URLSearchParams(body)].filter(([name]) => name[0] !== '_' && name !== 'id');
}

/**
 * An entry's text for the clipboard.
 *
 * @param {Entry} e
 */
export function readable(e) {
  const all = fields(e.bodyText).filter(([, v]) => v.trim());
  if (!all.length) return e.bodyText || e.label || '';
  return all.length === 1 ? all[0][1] : all.map(([k, v]) => `${k}: ${v}`).join('\n');
}
