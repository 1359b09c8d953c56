// @ts-check
// What a bad network does to the next requests, drawn from a seed.

/**
 * What the network does, and by which of its faults. Each kind comes equally
 * often.
 * @type {Record<string, string[]>}
 */
export const kinds = {
  refuse: ['refuse'],
  'half-request': ['half-request'],
  'cut-after-forward': ['cut-after-forward'],
  // Within the time after which a tap is told that it waits, and (of eight seconds) beyond.
  blackhole: ['blackhole:1500ms', 'blackhole:1500ms', 'blackhole:9s'],
  500: ['500'],
  502: ['502'],
  503: ['503', '503:ra=1'],
  504: ['504'],
  '500-after': ['500-after'],
  '502-after': ['502-after'],
  '503-after': ['503-after'],
  '504-after': ['504-after'],
  slow: ['slow:700ms'],
  duplicate: ['duplicate', 'duplicate-concurrent'],
};

/** How many of a hundred requests meet a fault. */
export const share = 30;

/** @typedef {ReturnType<typeof generator>} Random */

/** The same numbers for the same seed. @param {number} seed */
export function generator(seed) {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
  return {
    next,
    /** @param {number} n */
    below: n => Math.floor(next() * n),
    /** @template T @param {T[]} list @returns {T} */
    one: list => list[Math.floor(next() * list.length)],
  };
}

/**
 * The faults of the next n requests: in each hand of cards every kind once, and
 * so many good ones that the share is right; shuffled.
 * @param {Random} random
 * @param {number} n
 * @param {number} [percent] of them that meet a fault
 */
export function deck(random, n, percent = share) {
  const names = Object.keys(kinds);
  const size = Math.round((names.length * 100) / percent);
  const turn = new Map(names.map(name => [name, 0]));
  /** @type {string[]} */
  const cards = [];
  while (cards.length < n) {
    const hand = Array.from({ length: size }, (_, i) => {
      const name = names[i];
      if (!name) return 'pass';
      const t = turn.get(name) ?? 0;
      turn.set(name, t + 1);
      return kinds[name][t % kinds[name].length];
    });
    for (let i = hand.length - 1; i > 0; i--) {
      const j = random.below(i + 1);
      [hand[i], hand[j]] = [hand[j], hand[i]];
    }
    cards.push(...hand);
  }
  return cards;
}

/** How many changing requests met each kind. @param {import('./fault.js').State} state */
export function met(state) {
  /** @type {Record<string, number>} */
  const counts = {};
  for (const name of Object.keys(kinds)) {
    const modes = new Set(kinds[name].map(fault => fault.split(':')[0]));
    counts[name] = [...modes].reduce((sum, mode) => sum + (state.changing[mode] ?? 0), 0);
  }
  return counts;
}
