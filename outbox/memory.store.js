// @ts-check
// A store in memory, for tests. What it promises is in store.contract.js.

/** @typedef {import('./types.js').Stored} Stored */

/**
 * What outlives the program that uses it: several stores may share one.
 *
 * @returns {{entries: Map<string, any>, bodies: Map<string, ArrayBuffer>, meta: any}}
 */
export const memory = () => ({ entries: new Map(), bodies: new Map(), meta: {} });

/**
 * @param {ReturnType<typeof memory>} disk
 * @returns {import('./types.js').Store & {close(): void}}
 */
export function memoryStore(disk = memory()) {
  const copy = (/** @type {any} */ x) => structuredClone(x);
  /** @returns {Stored} */
  const all = () => ({
    entries: [...disk.entries.values()].map(copy).sort((a, b) => a.seq - b.seq),
    meta: copy(disk.meta),
  });
  return {
    async change(fn) {
      const c = copy(fn(all()));
      for (const key of c.del ?? []) {
        disk.entries.delete(key);
        disk.bodies.delete(key);
      }
      for (const e of c.put ?? []) disk.entries.set(e.key, e);
      for (const [key, body] of c.bodies ?? []) disk.bodies.set(key, body);
      if (c.meta) disk.meta = c.meta;
      return c.value;
    },
    async read() {
      return all();
    },
    async body(key) {
      return copy(disk.bodies.get(key) ?? null);
    },
    close() {},
  };
}
