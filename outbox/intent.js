// @ts-check
// One intent, one name. A key belongs to one wish for one row (or one form): the
// same wish again, while the first is unanswered, is the first; any other wish,
// or one typed anew, is a new one. Pure.

/** @typedef {[string, string][]} Pairs a form's fields, in order */
/** @typedef {import('./types.js').Wish} Wish */

export const secondTap = 500;

/**
 * @param {{newKey: () => string, newId?: () => string, keyField: string, now?: () => number}} parts
 */
export function createIntents({ newKey, newId = newKey, keyField, now = Date.now }) {
  /** The newest unanswered wish of each row; a row without an id stands for itself. @type {Map<any, Wish>} */
  const wishes = new Map();
  /** @type {{at: number, type: string, el: any, name: string, by: string}[]} */
  let taps = [];

  /** @param {Pairs} pairs @param {string[]} idFields */
  const content = (pairs, idFields) =>
    JSON.stringify(pairs.filter(([name]) => name !== keyField && !idFields.includes(name)));

  const at = (/** @type {string} */ method, /** @type {string} */ url) => `${method} ${url}`;

  return {
    /**
     * The wish that a request stands for. Its ids are for the named fields, which
     * hold an id made by the client and are new whenever the key is.
     *
     * @param {any} row
     * @param {{method: string, url: string, pairs: Pairs, idFields?: string[]}} asked
     * @returns {Wish}
     */
    choose(row, { method, url, pairs, idFields = [] }) {
      // A form without an id, come back to, is known by where it leads.
      const nameless = typeof row !== 'string' && content(pairs, idFields) !== '[]';
      const last = wishes.get(row) ?? (nameless ? wishes.get(at(method, url)) : undefined);
      if (last?.pairs && !last.closed && last.method === method && last.url === url && content(last.pairs, idFields) === content(pairs, idFields)) {
        const before = last.pairs;
        for (const f of idFields) last.ids[f] ??= before.find(([name]) => name === f)?.[1] ?? newId();
        return last;
      }
      const ids = Object.fromEntries(idFields.map((f) => [f, newId()]));
      const wish = { key: newKey(), method, url, pairs, ids, closed: false };
      wishes.set(row, wish);
      return wish;
    },
    /** It was cleared. @param {any} row */
    close(row) {
      wishes.set(row, { ...(wishes.get(row) ?? { key: '', method: '', url: '', pairs: null, ids: {} }), closed: true });
    },
    /** Somebody typed in it: what is activated next is no second tap. @param {any} row */
    typed(row) {
      this.close(row);
      taps = [];
    },
    /** It is found again as it was sent, and stays this wish whatever was done meanwhile. @param {any} row */
    keep(row) {
      Object.assign(wishes.get(row) ?? {}, { kept: true });
    },
    /** The answer is known. @param {string} key @param {number} [at] told to a page that was not there then */
    answered(key, at) {
      for (const [row, wish] of wishes) if (wish.key === key && !(at && wish.kept)) wishes.delete(row);
    },
    /**
     * After a reload: the waiting entries, the newest of each row.
     *
     * @param {{key: string, el: string, method: string, url: string, bodyText: string, state: string}[]} entries
     */
    restore(entries) {
      const line = entries.filter((e) => e.state !== 'refused' && e.state !== 'ask');
      for (const e of line) {
        const row = e.el || at(e.method, e.url);
        const known = wishes.get(row);
        // A wish of this page that is not down there yet is newer than all that is.
        if (known && (known.key === e.key || !line.some((x) => x.key === known.key))) continue;
        const pairs = e.bodyText ? /** @type {Pairs} */ ([...new URLSearchParams(e.bodyText)]) : null;
        wishes.set(row, { key: e.key, method: e.method, url: e.url, pairs, ids: {}, closed: false });
      }
    },
    /**
     * Whether this is the same control's second activation within half a second,
     * which is part of the first. The control may have been replaced by the
     * answer meanwhile: then its name tells.
     *
     * @param {string} type click and submit of one activation are no second
     * @param {any} el
     * @param {string} name
     * @param {string} [by] which button of a form; none: a script, on behalf of one
     */
    second(type, el, name, by = '') {
      const at = now();
      taps = taps.filter((t) => at - t.at < secondTap && at >= t.at);
      if (taps.some((t) => t.type === type && (!by || !t.by || t.by === by) && (t.el === el || (t.name === name && t.el.isConnected === false)))) return true;
      taps.push({ at, type, el, name, by });
      return false;
    },
  };
}
