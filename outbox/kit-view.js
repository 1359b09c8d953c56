// @ts-check
// What the kit shows, worked out from a snapshot. Pure, so that node can test it.

/** @typedef {import('./types.js').Shown} Entry */
/** @typedef {import('./types.js').Seen} Seen */

// A tap that is done within a second is shown nowhere: nothing was wrong.
const QUIET = 1000;

/** @param {Entry} e */
const inLine = (e) => e.state !== 'refused' && e.state !== 'ask';

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
    pending(e) &&
    (seen.queued(e.key) || e.attempts > 1 || (e.state === 'waiting' && e.attempts > 0) || seen.now - e.createdAt > seen.soft)
  );
}

/**
 * The parts of the strip's text, the most urgent first; none: there is no strip.
 * Each has a name in texts.js and a number.
 *
 * @param {{entries: Entry[], pending?: number, login?: number, foreign?: number}} snapshot
 * @param {Seen} seen
 * @returns {{name: string, n?: number}[]}
 */
export function strip(snapshot, seen) {
  const line = snapshot.entries.filter(inLine);
  /** @param {string} state */
  const count = (state) => snapshot.entries.filter((e) => e.state === state).length;
  const stuck = count('stuck');
  // The whole line waits behind one that met a login page, or the session of
  // somebody else.
  const login = count('parked') ? line.length : (snapshot.login ?? 0);
  /** @type {{name: string, n?: number}[]} */
  const parts = [];
  if (login) {
    parts.push({ name: 'login', n: login });
  } else if (line.some((e) => waits(e, seen))) {
    parts.push({ name: 'waiting', n: (snapshot.pending || line.length) - stuck });
  } else if (line.some((e) => e.state !== 'stuck' && seen.now - e.createdAt >= QUIET)) {
    parts.push({ name: 'sending' });
  }
  for (const name of ['ask', 'refused']) {
    const n = count(name);
    if (n) parts.push({ name, n });
  }
  if (stuck && !login) parts.push({ name: 'stuck', n: stuck });
  if (!parts.length && snapshot.foreign) parts.push({ name: 'foreign' });
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
    const left = (age < QUIET ? QUIET : seen.soft + 1) - age;
    if (!next || left < next) next = Math.max(left, 20);
  }
  return next;
}

const urgency = ['refused', 'ask', 'old', 'stuck', 'login', 'waiting'];

/**
 * The state in the words of texts.js: behind one that waits for a login all do,
 * and so does one that met somebody else's session; one that was never sent and
 * is old is no doubtful one.
 *
 * @param {Entry} e
 * @param {boolean} [login] whether the line waits for a login
 */
export function stateName(e, login) {
  if (e.state === 'parked' || (login && pending(e))) return 'login';
  return e.state === 'ask' && e.reason === 'old' ? 'old' : e.state;
}

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
    const state = seen.login || !pending(entry) ? stateName(entry, seen.login) : waits(entry, seen) ? 'waiting' : '';
    const rank = urgency.indexOf(state);
    if (rank >= 0 && (!best || rank < urgency.indexOf(best.state))) best = { state, entry };
  }
  return best;
}

/**
 * Why an entry was refused: the server's own words, or what its status means. The
 * result is text, or a name in texts.js.
 *
 * @param {Entry} e
 * @returns {{text: string} | {name: string, n?: number} | null}
 */
export function reason(e) {
  const text = e.lastText?.trim();
  if (text) return { text: text.length > 200 ? `${text.slice(0, 199)}…` : text };
  const status = e.lastStatus ?? 0;
  if (status === 404 || status === 410) return { name: 'why.gone' };
  return status >= 400 ? { name: 'why.status', n: status } : null;
}

/**
 * The fields of a form's body that a person filled in: no keys, no ids.
 *
 * @param {string} [body]
 * @returns {[string, string][]}
 */
export function fields(body) {
  if (!body || !/^[\w.%+-]+=/.test(body)) return [];
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
