// @ts-check
// What a person decides about an entry: now, anew, never mind, what became of it?
// Pages do this; sending stays the engine's.

import { checksum, lost, readable } from './body.js';
import { defaults, nextSeq } from './line.js';
import { inLine } from './waits.js';

/** @typedef {import('./types.js').Entry} Entry */
/** @typedef {import('./types.js').Stored} Stored */

/**
 * @param {{
 *   store: import('./types.js').Store,
 *   locks: import('./types.js').Locks,
 *   fetch: (url: string, init: any) => Promise<any>,
 *   newKey: () => string,
 *   now?: () => number,
 *   config?: Partial<import('./types.js').Config>,
 * }} parts
 */
export function createDecisions({ store, locks, fetch, newKey, now = Date.now, config }) {
  const cfg = { ...defaults, ...config };

  /**
   * Changes one entry that is not under way.
   *
   * @param {string} key
   * @param {(e: Entry, s: Stored) => import('./types.js').Change<string>} fn
   * @returns {Promise<string>} what fn says, or 'gone', or 'sending'
   */
  const decide = (key, fn) =>
    locks.request(cfg.name, { ifAvailable: true }, (lock) =>
      store.change((s) => {
        const e = s.entries.find((x) => x.key === key);
        if (!e) return { value: 'gone' };
        // Without the lock, somebody may really be sending it; with it, nobody is.
        if (e.state === 'sending' && !lock) return { value: 'sending' };
        return fn(e, s);
      }, { strict: true }),
    );

  /** @param {Entry} e @param {Stored} s @returns {Entry} at the end of the line, as if it were new */
  const anew = (e, s) => ({
    ...e, seq: nextSeq(s.entries), state: 'waiting', reason: '', tries: 0, timeouts: 0, odd: 0,
    stuck: false, shown: false, nextAt: 0, notBefore: 0, lastStatus: 0, lastText: '', createdAt: now(),
  });

  /** @param {string} key */
  const read = async (key) => (await store.read()).entries.find((x) => x.key === key);

  /**
   * Send it now. A request that the server has answered for good, or that may be
   * done already, needs a new name for that.
   *
   * @param {string} key
   * @returns {Promise<string>} waiting, sending, gone or unreadable
   */
  async function retry(key) {
    const result = await decide(key, (e, s) => {
      if (inLine(e)) return { put: [{ ...e, state: 'waiting', tries: 0, nextAt: 0, notBefore: 0 }], value: 'waiting' };
      // Of what never went out for want of its body the server knows nothing.
      const same = e.state === 'refused' ? /^(released|body-lost)$/.test(e.reason) : e.reason === 'old';
      return same ? { put: [anew(e, s)], value: 'waiting' } : { value: 'rename' };
    });
    return result === 'rename' ? resend(key) : result;
  }

  /**
   * The same wish under a new name: done again, even if it was done before.
   *
   * @param {string} key
   * @returns {Promise<string>} waiting, sending, gone or unreadable
   */
  async function resend(key) {
    const body = await store.body(key).catch(lost);
    const name = newKey();
    const renamed = body && rename(body, cfg.keyField, key, name);
    return decide(key, (e, s) => {
      // The browser may be able to read it another time.
      if (e.size && !body) return { value: 'unreadable' };
      return {
        del: [key],
        put: [{
          ...anew(e, s), key: name, sum: checksum(renamed, e.headers['content-type']), size: renamed?.byteLength ?? 0,
          text: e.text && readable(e.headers['content-type'], renamed),
          firstSentAt: null, triedAt: 0, attempts: 0,
        }],
        bodies: renamed ? [[name, renamed]] : [],
        value: 'waiting',
      };
    });
  }

  /**
   * Gives it up.
   *
   * @param {string} key
   * @returns {Promise<string>} discarded, sending (it is on its way already) or gone
   */
  const discard = (key) => decide(key, () => ({ del: [key], value: 'discarded' }));

  /**
   * What became of it? With guard.Status nothing is run; without, only a key that
   * the server will not run again is asked about by sending it.
   *
   * @param {string} key
   * @returns {Promise<string>} done, refused, waiting (it is asked by sending it), or what guard.Status says
   */
  async function look(key) {
    const e = await read(key);
    if (!e) return 'gone';
    if (e.state !== 'ask') return e.state;
    if (/^(outcome-unknown|key-expired)$/.test(e.reason)) {
      return decide(key, (x) => ({ put: [{ ...x, state: 'waiting', tries: 0, nextAt: 0 }], value: 'waiting' }));
    }
    if (!cfg.status) return 'ask';
    const r = await fetch(cfg.status + encodeURIComponent(key), { cache: 'no-store', redirect: 'manual', headers: { Accept: 'application/json' }, signal: AbortSignal.timeout(cfg.softLimit) }).catch(() => null);
    const found = r?.ok ? await r.json().catch(() => null) : null;
    if (found?.state !== 'complete') return found?.state ?? 'ask';
    return decide(key, (x) =>
      found.status >= 400
        ? { put: [{ ...x, state: 'refused', reason: 'executed', lastStatus: found.status }], value: 'refused' }
        : { del: [key], value: 'done' },
    );
  }

  return { retry, resend, discard, look };
}

/**
 * The key stands in the body too, in a form's hidden field; both say the same.
 * Only there: elsewhere the same characters are the application's.
 *
 * @param {ArrayBuffer} body
 * @param {string} field
 * @param {string} from
 * @param {string} to
 */
export function rename(body, field, from, to) {
  // A byte a character; a regular expression minds no others.
  let text = '';
  for (const b of new Uint8Array(body)) text += String.fromCharCode(b);
  // In a form's line a browser writes %7E for ~, htmx does not.
  const [line, next] = [from, to].map((s) => new URLSearchParams([['', s]]).toString().slice(1));
  const [f, plain, encoded] = [field, from, line].map((s) => s.replace(/\W/g, '\\$&'));
  const at = new RegExp(`((?:^|&)${f}=)(?:${plain}|${encoded})(?=&|$)|(name="${f}"\r\n\r\n|"${f}": *")${plain}(?=\r\n|")`, 'g');
  text = text.replace(at, (_, form, other) => (form ? form + next : other + to));
  return Uint8Array.from(text, (c) => c.charCodeAt(0)).buffer;
}
