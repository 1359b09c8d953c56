// @ts-check
// What a person is told of the line. Pure.

import { inLine, waiting } from './waits.js';

/** @typedef {import('./types.js').Entry} Entry */

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
  const count = (/** @type {import('./types.js').State} */ s) => own.filter((e) => e.state === s).length;
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
