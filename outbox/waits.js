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
