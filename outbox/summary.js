// @ts-check
// What a person is told of the line. Pure, and small, for every page has it.

/** @typedef {import('./line.js').Entry} Entry */
/** @typedef {import('./line.js').State} State */

/** @param {{state: State}} e whether it still stands in its owner's line */
export const inLine = (e) => e.state !== 'refused' && e.state !== 'ask';

/**
 * What a person is told. Entries of others are counted, never shown.
 *
 * @param {Entry[]} entries
 * @param {string} owner '': nobody is signed in
 * @param {number} at
 * @param {{softLimit: number}} cfg
 */
export function summary(entries, owner, at, cfg) {
  const own = entries.filter((e) => owner && e.owner === owner);
  const line = own.filter(inLine);
  const count = (/** @type {State} */ s) => own.filter((e) => e.state === s).length;
  // A tap that is being answered right now does not wait for anything; once one
  // entry is known to wait, all behind it do.
  const first = line.findIndex((e) => e.tries > 0 || e.attempts > 1 || e.state === 'login' || e.state === 'parked' || e.state === 'stuck' || at - e.createdAt >= cfg.softLimit);
  const foreign = entries.filter((e) => e.owner !== owner && inLine(e)).length;
  return {
    pending: first < 0 ? 0 : line.length - first,
    sending: count('sending') > 0,
    login: owner ? (count('login') ? line.length : 0) : foreign,
    refused: count('refused'),
    stuck: count('stuck'),
    ask: count('ask'),
    foreign,
    entries: own.map((e) => ({
      key: e.key,
      state: e.state,
      label: e.label,
      el: e.el,
      method: e.method,
      url: e.url,
      createdAt: e.createdAt,
      firstSentAt: e.firstSentAt,
      attempts: e.attempts,
      nextAt: e.nextAt,
      reason: e.reason,
      lastStatus: e.lastStatus,
      lastText: e.lastText,
      bodyText: e.text,
    })),
  };
}
