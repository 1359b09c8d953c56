// @ts-check
// Who stands in the line, and who of them waits.

/** @typedef {import('./types.js').Entry} Entry */

/** @param {{state: import('./types.js').State}} e whether it still stands in its owner's line */
export const inLine = (e) => e.state !== 'refused' && e.state !== 'ask';

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

/**
 * Whose turn it is.
 *
 * @template {{owner: string, state: import('./types.js').State}} E
 * @param {E[]} entries in order
 * @param {string} owner
 */
export const headOf = (entries, owner) => entries.find((e) => e.owner === owner && inLine(e));

/**
 * In how many milliseconds a page that is seen is to kick the worker, which does
 * not wake by itself; null: nothing of this owner is unsent, as far as is known.
 *
 * @param {Pick<Entry, 'owner' | 'state' | 'nextAt'>[]} entries
 * @param {string} owner
 * @param {number} at
 * @param {number} every at the latest
 * @param {boolean} asked the last kick is not answered: a worker that ended at it says nothing
 */
export function nextKick(entries, owner, at, every, asked) {
  const head = headOf(entries, owner);
  if (!head) return asked ? every : null;
  const wait = /waiting|stuck/.test(head.state) ? head.nextAt - at : every;
  return Math.min(every, wait > 0 ? wait + 10 : 1_000);
}
