// @ts-check
// What every store must do, as cases that run under node on the one in memory
// and in browsers on IndexedDB.

/** @typedef {import('./types.js').Store & {close(): void}} Store */

/**
 * @param {boolean} ok
 * @param {string} what
 */
function must(ok, what) {
  if (!ok) throw new Error(what);
}

/** @param {string} key @param {number} seq @returns {any} */
const entry = (key, seq) => ({ v: 1, key, seq, owner: 'u', state: 'waiting', url: 'https://app.test/', label: 'Купить тетрадь' });

/** @param {...number} b */
const bytes = (...b) => new Uint8Array(b).buffer;

/** @param {ArrayBuffer | null} b */
const list = (b) => (b ? [...new Uint8Array(b)].join() : 'null');

/**
 * The cases by name. open(fresh) opens a store: on new ground, or beside the one
 * that was opened last, as another program would.
 *
 * @param {(fresh: boolean) => Promise<Store>} open
 * @returns {Record<string, () => Promise<void>>}
 */
export function storeContract(open) {
  return {
    'a new store is empty': async () => {
      const s = await open(true);
      const { entries, meta } = await s.read();
      must(entries.length === 0 && Object.keys(meta).length === 0, 'it is not empty');
      must((await s.body('k')) === null, 'it has a body');
    },
    'what was changed is read back, entries in their order': async () => {
      const s = await open(true);
      const value = await s.change(() => ({ put: [entry('b', 2), entry('a', 1), entry('c', 10)], meta: { owner: 'u' }, value: 7 }), { strict: true });
      must(value === 7, 'the value is lost');
      const { entries, meta } = await s.read();
      must(entries.map((e) => e.key).join() === 'a,b,c', `the order is ${entries.map((e) => e.key)}`);
      must(entries[0].label === 'Купить тетрадь' && meta.owner === 'u', 'the content differs');
    },
    'a body keeps every byte (W5, R34, B134)': async () => {
      const s = await open(true);
      const body = bytes(0x00, 0xff, 0x80, 0xc8, 0x0a);
      await s.change(() => ({ put: [entry('a', 1)], bodies: [['a', body]], value: 0 }));
      must(list(await s.body('a')) === '0,255,128,200,10', 'bytes differ');
      must(list(await (await open(false)).body('a')) === '0,255,128,200,10', 'bytes differ for another program');
    },
    'a deleted entry takes its body along': async () => {
      const s = await open(true);
      await s.change(() => ({ put: [entry('a', 1), entry('b', 2)], bodies: [['a', bytes(1)], ['b', bytes(2)]], value: 0 }));
      await s.change(() => ({ del: ['a'], value: 0 }));
      must((await s.read()).entries.map((e) => e.key).join() === 'b', 'the entry is there');
      must((await s.body('a')) === null && list(await s.body('b')) === '2', 'bodies differ');
    },
    'an entry is deleted and put in one change (resend)': async () => {
      const s = await open(true);
      await s.change(() => ({ put: [entry('a', 1)], bodies: [['a', bytes(1)]], value: 0 }));
      await s.change(() => ({ del: ['a'], put: [entry('b', 2)], bodies: [['b', bytes(3)]], value: 0 }));
      must((await s.read()).entries.map((e) => e.key).join() === 'b', 'entries differ');
      must(list(await s.body('b')) === '3', 'bodies differ');
    },
    'a change that throws changes nothing and is told': async () => {
      const s = await open(true);
      await s.change(() => ({ put: [entry('a', 1)], value: 0 }));
      let told = false;
      await s.change(() => {
        throw new Error('no');
      }).catch(() => (told = true));
      must(told, 'success was told');
      must((await s.read()).entries.length === 1, 'something changed');
      await s.change(() => ({ put: [entry('b', 2)], value: 0 }));
      must((await s.read()).entries.length === 2, 'it does not go on');
    },
    'what cannot be stored fails the whole change (W24, B140)': async () => {
      const s = await open(true);
      let failed = false;
      await s
        .change(() => ({ put: [entry('a', 1), { ...entry('b', 2), bad: () => 0 }], meta: { owner: 'u' }, value: 0 }))
        .catch(() => (failed = true));
      must(failed, 'success was told');
      const { entries, meta } = await s.read();
      must(entries.length === 0 && !meta.owner, 'a half of it was stored');
    },
    'changes are one after another, from two programs too': async () => {
      const a = await open(true);
      const b = await open(false);
      const add = (/** @type {Store} */ s, /** @type {string} */ key) =>
        s.change(({ entries }) => ({ put: [entry(key, (entries.at(-1)?.seq ?? 0) + 1)], value: 0 }));
      await Promise.all(Array.from({ length: 20 }, (_, i) => add(i % 2 ? a : b, `k${i}`)));
      const seqs = (await a.read()).entries.map((e) => e.seq);
      must(seqs.join() === Array.from({ length: 20 }, (_, i) => i + 1).join(), `seqs: ${seqs}`);
    },
    'what one gets is its own': async () => {
      const s = await open(true);
      await s.change(() => ({ put: [entry('a', 1)], value: 0 }));
      (await s.read()).entries[0].label = 'other';
      must((await s.read()).entries[0].label === 'Купить тетрадь', 'the store was changed from outside');
    },
    'it goes on after its connection was closed from outside (B142)': async () => {
      const s = await open(true);
      await s.change(() => ({ put: [entry('a', 1)], value: 0 }));
      s.close();
      await s.change(() => ({ put: [entry('b', 2)], value: 0 }));
      must((await s.read()).entries.length === 2, 'something is lost');
    },
  };
}
