// @ts-check
// The store on IndexedDB: the only file that knows it. Entries and bodies lie
// apart, so that reading the line reads no bodies. What it promises is in
// store.contract.js.

const stores = ['entries', 'bodies', 'meta'];

/**
 * @param {string} name of the database
 * @param {IDBFactory} [idb]
 * @returns {import('./engine.js').Store & {close(): void}}
 */
export function idbStore(name, idb = indexedDB) {
  /** @type {Promise<IDBDatabase> | null} */
  let opening = null;

  function open() {
    opening ??= new Promise((ok, no) => {
      const request = idb.open(name, 1);
      request.onupgradeneeded = () => {
        const db = request.result;
        db.createObjectStore('entries', { keyPath: 'key' });
        db.createObjectStore('bodies');
        db.createObjectStore('meta');
      };
      request.onsuccess = () => {
        const db = request.result;
        // A newer version of this file wants to change the stores: make room.
        db.onversionchange = () => {
          db.close();
          opening = null;
        };
        db.onclose = () => (opening = null);
        ok(db);
      };
      request.onerror = () => no(request.error);
    });
    opening.catch(() => (opening = null));
    return opening;
  }

  /**
   * One transaction. Success is its completion, not that of its requests.
   *
   * @template T
   * @param {IDBTransactionMode} mode
   * @param {boolean} strict
   * @param {(tx: IDBTransaction, result: (value: T) => void, attempt: (fn: () => void) => () => void) => void} fn
   * @returns {Promise<T>}
   */
  async function transact(mode, strict, fn) {
    const db = await open();
    return new Promise((ok, no) => {
      const tx = db.transaction(stores, mode, { durability: strict ? 'strict' : 'relaxed' });
      /** @type {any} */
      let value;
      /** @type {unknown} */
      let failed = null;
      // What a callback throws would be lost in the event loop.
      const attempt = (/** @type {() => void} */ f) => () => {
        try {
          f();
        } catch (e) {
          failed = e;
          tx.abort();
        }
      };
      tx.oncomplete = () => ok(value);
      tx.onabort = () => no(failed ?? tx.error ?? new DOMException('aborted', 'AbortError'));
      attempt(() => fn(tx, (v) => (value = v), attempt))();
    });
  }

  /**
   * A connection can be dead without a word (iOS, after a page was suspended):
   * once more with a new one. Nothing was committed on the first.
   *
   * @type {typeof transact}
   */
  async function again(mode, strict, fn) {
    try {
      return await transact(mode, strict, fn);
    } catch (e) {
      const { name } = /** @type {any} */ (e);
      if (name !== 'InvalidStateError' && name !== 'UnknownError') throw e;
      opening = null;
      return transact(mode, strict, fn);
    }
  }

  /** @param {IDBTransaction} tx @param {(stored: import('./line.js').Stored) => void} fn @param {(fn: () => void) => () => void} attempt */
  function all(tx, fn, attempt) {
    const entries = tx.objectStore('entries').getAll();
    const meta = tx.objectStore('meta').get('meta');
    meta.onsuccess = attempt(() => fn({ entries: entries.result.sort((a, b) => a.seq - b.seq), meta: meta.result ?? {} }));
  }

  return {
    change: (fn, opts = {}) =>
      again('readwrite', !!opts.strict, (tx, result, attempt) =>
        all(
          tx,
          (stored) => {
            const change = fn(stored);
            const [entries, bodies, meta] = stores.map((s) => tx.objectStore(s));
            for (const key of change.del ?? []) {
              entries.delete(key);
              bodies.delete(key);
            }
            for (const entry of change.put ?? []) entries.put(entry);
            for (const [key, body] of change.bodies ?? []) bodies.put(body, key);
            if (change.meta) meta.put(change.meta, 'meta');
            result(change.value);
            tx.commit?.();
          },
          attempt,
        ),
      ),
    read: () => again('readonly', false, (tx, result, attempt) => all(tx, result, attempt)),
    body: (key) =>
      again('readonly', false, (tx, result, attempt) => {
        const request = tx.objectStore('bodies').get(key);
        request.onsuccess = attempt(() => result(request.result ?? null));
      }),
    close: () => void opening?.then((db) => db.close()),
  };
}
