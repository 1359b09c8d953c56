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
 * As structuredClone, which is a hundred times slower where nearly all is flat.
 *
 * @param {any} x
 */
function flat(x) {
  const own = { ...x };
  for (const name in own) {
    const v = own[name];
    if (typeof v === 'object' || typeof v === 'function') own[name] = v && Object.getPrototypeOf(v) === Object.prototype ? flat(v) : structuredClone(v);
  }
  return own;
}

/**
 * @param {ReturnType<typeof memory>} disk
 * @returns {import('./types.js').Store & {close(): void}}
 */
export function memoryStore(disk = memory()) {
  /** @returns {Stored} */
  const all = () => ({
    entries: [...disk.entries.values()].map(flat).sort((a, b) => a.seq - b.seq),
    meta: flat(disk.meta),
  });
  return {
    async change(fn) {
      const { put = [], bodies = [], meta, ...c } = fn(all());
      // All is copied before anything is written: a change is whole or none.
      const [entries, texts, next] = [put.map(flat), structuredClone(bodies), meta && flat(meta)];
      for (const key of c.del ?? []) {
        disk.entries.delete(key);
        disk.bodies.delete(key);
      }
      for (const e of entries) disk.entries.set(e.key, e);
      for (const [key, body] of texts) disk.bodies.set(key, body);
      if (next) disk.meta = next;
      return c.value;
    },
    async read() {
      return all();
    },
    async body(key) {
      return disk.bodies.get(key)?.slice(0) ?? null;
    },
    close() {},
  };
}
