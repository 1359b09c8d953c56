// @ts-check
// The store on IndexedDB: the only file that knows it. Entries and bodies lie
// apart, so that reading the line reads no bodies. What it promises is in
// store.contract.js.
//
// A page that its browser puts to sleep, to be shown again by going back, must
// leave no transaction half done: in WebKit it would hold up those of all others,
// for as long as it sleeps.

const stores = ['entries', 'bodies', 'meta'];

/**
 * @param {string} name of the database
 * @param {IDBFactory} [idb]
 * @returns {import('./types.js').Store & {close(): void, sleep(): void, wake(): void}}
 */
export function idbStore(name, idb = indexedDB) {
  /** @type {Promise<IDBDatabase> | null} */
  let opening = null;
  /** @type {Set<IDBTransaction>} */
  const running = new Set();
  let awake = Promise.resolve();
  let wake = () => {};

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
   * One transaction. Success is its completion, not that of its requests. What a
   * callback throws aborts it.
   *
   * @template T
   * @param {IDBTransactionMode} mode
   * @param {(tx: IDBTransaction, result: (value: T) => void) => void} fn
   * @param {boolean} [strict]
   * @param {boolean} [once]
   * @returns {Promise<T>}
   */
  async function transact(mode, fn, strict, once) {
    let began;
    do await (began = awake);
    while (began !== awake);
    try {
      const db = await open();
      if (began !== awake) throw 0;
      const tx = db.transaction(stores, mode, { durability: strict ? 'strict' : 'relaxed' });
      running.add(tx);
      return await new Promise((ok, no) => {
        /** @type {any} */
        let value;
        tx.oncomplete = () => ok(value);
        tx.onabort = () => no(tx.error);
        fn(tx, (v) => (value = v));
      }).finally(() => running.delete(tx));
    } catch (e) {
      // It was put to sleep in the middle: once more when it is woken.
      if (began !== awake) return transact(mode, fn, strict, once);
      // A connection can be dead without a word (iOS, after a page was suspended):
      // once more with a new one. Nothing was committed on the first.
      if (once || !/InvalidState|Unknown/.test(/** @type {any} */ (e)?.name)) throw e;
      opening = null;
      return transact(mode, fn, strict, true);
    }
  }

  /** @param {IDBTransaction} tx @param {(stored: import('./types.js').Stored) => void} fn */
  function all(tx, fn) {
    const entries = tx.objectStore('entries').getAll();
    const meta = tx.objectStore('meta').get('meta');
    meta.onsuccess = () => fn({ entries: entries.result.sort((a, b) => a.seq - b.seq), meta: meta.result ?? {} });
  }

  return {
    change: (fn, { strict } = {}) =>
      transact(
        'readwrite',
        (tx, result) =>
          all(tx, (stored) => {
            const { del = [], put = [], bodies = [], meta, value } = fn(stored);
            const [entriesAt, bodiesAt, metaAt] = stores.map((s) => tx.objectStore(s));
            for (const key of del) {
              entriesAt.delete(key);
              bodiesAt.delete(key);
            }
            for (const entry of put) entriesAt.put(entry);
            for (const [key, body] of bodies) bodiesAt.put(body, key);
            if (meta) metaAt.put(meta, 'meta');
            result(value);
          }),
        strict,
      ),
    read: () => transact('readonly', all),
    body: (key) =>
      transact('readonly', (tx, result) => {
        const request = tx.objectStore('bodies').get(key);
        request.onsuccess = () => result(request.result ?? null);
      }),
    close: () => void opening?.then((db) => db.close()),
    sleep() {
      awake = new Promise((ok) => (wake = ok));
      for (const tx of running) tx.abort();
    },
    wake: () => wake(),
  };
}
