// @ts-check
// What a person is told of the line. Pure.

/** @typedef {import('./line.js').Entry} Entry */
/** @typedef {import('./line.js').State} State */

/** @param {{state: State}} e whether it still stands in its owner's line */
export const inLine = (e) => e.state !== 'refused' && e.state !== 'ask';

/**
 * Entries of others are counted, never shown.
 *
 * @param {Entry[]} entries
 * @param {string} owner '': nobody is signed in
 * @param {number} at
 * @param {number} softLimit
 */
export function summary(entries, owner, at, softLimit) {
  const own = entries.filter((e) => owner && e.owner === owner);
  const line = own.filter(inLine);
  const count = (/** @type {State} */ s) => own.filter((e) => e.state === s).length;
  const foreign = entries.filter((e) => e.owner !== owner && inLine(e)).length;
  return {
    pending: waiting(line, at, softLimit),
    sending: !!count('sending'),
    login: !owner ? foreign : count('login') && line.length,
    refused: count('refused'),
    stuck: count('stuck'),
    ask: count('ask'),
    foreign,
    entries: own.map(({ key, state, label, el, method, url, createdAt, firstSentAt, attempts, nextAt, reason, lastStatus, lastText, text }) => (
      { key, state, label, el, method, url, createdAt, firstSentAt, attempts, nextAt, reason, lastStatus, lastText, bodyText: text })),
  };
}

/**
 * How many of a line wait. A tap that is being answered right now waits for
 * nothing; behind one that is known to wait, all do.
 *
 * @param {Entry[]} line
 * @param {number} at
 * @param {number} softLimit
 */
export function waiting(line, at, softLimit) {
  const first = line.findIndex((e) => e.told || at - e.createdAt >= softLimit);
  return first < 0 ? 0 : line.length - first;
}
