// @ts-check
// A tab of the browser in memory: page.js without a document, over the shipped
// engine and flights, and what each of the three browsers was seen to do to a
// request whose worker ended.

import { headers as announce, fragment } from './announce.js';
import { createDecisions } from './decide.js';
import { createOutbox } from './engine.js';
import { createFlights } from './flight.js';
import { announced } from './heard.js';
import { deny } from './paths.js';
import { respond } from './respond.js';
import { headOf, nextKick } from './waits.js';

export const origin = 'https://app.test';
export const never = () => new Promise(() => {});

/**
 * @typedef {object} Tap what a person did, and what they were told of it
 * @property {string} key
 * @property {string} owner
 * @property {string} body
 * @property {boolean} nav
 * @property {boolean} bad the server refuses it
 * @property {number} at on the clock that nobody sets
 * @property {any} tab
 * @property {{kind: string, at: number, status?: number}[]} told
 * @property {boolean} odd it went a way on which the line's order does not hold
 * @property {string} group
 * @property {boolean} again it came once more, as another request
 */

/** @param {string} url @param {any} init @param {string} mode @param {string} referrer */
export const request = (url, init, mode, referrer) => ({
  url, mode, referrer, method: init.method, headers: new Headers(init.headers),
  arrayBuffer: async () => new TextEncoder().encode(init.body ?? '').buffer,
});

/**
 * @param {{
 *   b: any,
 *   mutant: string,
 *   judge: any,
 *   config: any,
 *   program: () => any,
 *   worker: () => any,
 *   over: (url: string, init: any) => Promise<any>,
 * }} browser over: over the wire, past the worker
 */
export function createTabs({ b, mutant, judge, config, program, worker, over }) {
  const { kind, clock, cfg, server } = b;
  let keys = 0;

  /**
   * What the browser does with a request of a page.
   *
   * @param {any} tab
   * @param {string} url
   * @param {any} init
   * @param {boolean} [nav]
   * @returns {Promise<any>} rejected: a network error
   */
  async function dispatch(tab, url, init, nav) {
    const r = request(url, init, nav ? 'navigate' : 'cors', `${origin}/today`);
    for (let tries = 0; ; tries++) {
      const w = worker();
      if (tries) await new Promise((ok) => clock.later(() => ok(0), 3));
      if (!w.alive) continue;
      /** @type {any} */
      let died;
      const death = new Promise((ok) => (died = () => ok('died')));
      w.atEnd(died);
      const event = w.fire('fetch', { request: r });
      const got = await Promise.race([event.answer, death]);
      if (got !== 'died') return got;
      for (const t of b.taps) if (r.headers.get('Idempotency-Key') === t.key || url.includes(`=${t.key}.`)) t.again = true;
      if (kind === 'chromium' && nav) return never();
      if (kind === 'chromium' && !tries) continue;
      if (kind === 'firefox' && nav) {
        // By itself, past the worker, and without what the worker would have added.
        await new Promise((ok) => clock.later(() => ok(0), 6));
        for (const t of b.taps) if (url.includes(`=${t.key}.`)) t.odd = true;
        return over(url.split('#')[0], { headers: new Headers({ 'content-type': 'application/x-www-form-urlencoded' }), body: await r.arrayBuffer() });
      }
      throw new TypeError('NetworkError');
    }
  }

  /** A page of the signed-in person, if it can be had. @param {{controlled?: boolean, visible?: boolean}} [how] */
  function openTab({ controlled = true, visible = true } = {}) {
    if (!/^(ok|slow|late)$/.test(b.net)) return null;
    const me = program();
    const owner = b.cookie.valid ? b.cookie.who : '';
    const since = clock.now();
    let born = since;
    const by = Symbol('page');
    const url = `${origin}/tasks`;
    /** @type {any[]} */
    let entries = [];
    let asked = false;
    let quiet = 0;
    let heard = () => {};
    /** @type {any} */
    let timer;
    /** @type {any} */
    let leaving;
    /** @type {any} */
    let engine;
    const flights = createFlights({
      cfg, send, find, answered() {}, expect,
      put: async () => null,
      say: (what, _who, d) => me.alive && tell(d.key, what, d.status),
    });

    /** @param {string} key @param {string} what @param {number} [status] */
    function tell(key, what, status) {
      const tap = b.taps.findLast((/** @type {Tap} */ t) => t.key === key && t.tab === tab);
      if (!tap) return;
      tap.told.push({ kind: what, at: clock.real(), status });
      judge.told?.(b, tap, what, status);
    }

    function decidedKey() {
      const key = newKey();
      b.decided.add(key);
      return key;
    }

    const newKey = () => `k${++keys}~${owner}`;

    const local = () => (engine ??= createOutbox({ store: me.store, locks: me.locks, fetch: me.fetch, config, visible: () => tab.visible, tell: share }));

    /** @param {any} m */
    function share(m) {
      hear(m);
      const events = m.events?.map((/** @type {any} */ e) => ({ ...e, by }));
      if (me.alive && (m.pending || !events || events[0])) worker().fire('message', { data: { type: 'flush', tell: 'only', events }, source: null });
    }

    /** @param {string} to @param {any} init */
    async function send(to, init) {
      if (!me.alive) return never();
      if (tab.controlled) return dispatch(tab, to, init);
      await local().greet({ owner, since }).catch(() => {});
      const r = request(to, init, 'cors', '');
      const a = /** @type {any} */ (announced(r, { origin, deny }));
      const { answer } = local().capture({ ...a, method: 'POST', headers: [...r.headers], body: r.arrayBuffer() });
      return respond(await answer, a, null, cfg);
    }

    /** @param {any} [reset] @param {boolean} [all] */
    async function kick(reset, all) {
      if (!me.alive) return;
      quiet = 0;
      expect();
      if (tab.controlled) {
        const source = { postMessage: (/** @type {any} */ m) => void Promise.resolve().then(() => tab.hear(m)) };
        const small = (headOf(entries, owner)?.size ?? 0) > cfg.bigBody && (await local().state()).stored;
        if (!me.alive) return;
        worker().fire('message', { data: { type: 'flush', owner, since, reset, tell: all, small, born }, source });
        born = 0;
        if (small) void local().flush(reset);
        return;
      }
      await local().greet({ owner, since }).catch(() => {});
      void local().flush(reset);
      hear(await local().state());
    }

    function expect() {
      asked = tab.controlled;
      arm();
    }

    function arm() {
      clock.never(timer);
      const ms = nextKick(entries, owner, clock.now(), cfg.kickEvery, asked);
      if (ms !== null && tab.visible && mutant !== 'page timer') timer = clock.later(() => kick(), Math.max(ms, quiet - clock.real()));
    }

    /** @param {any} m */
    function hear(m) {
      if (!me.alive) return;
      if (m.type === 'outbox-placed') flights.placed(m.key);
      if (m.type === 'outbox-hush') {
        quiet = tab.controlled ? clock.real() + m.ms : 0;
        arm();
      }
      if (m.type !== 'outbox') return;
      ({ entries } = m);
      asked = !m.stored;
      tab.entries = entries;
      tab.stored = m.stored;
      heard();
      for (const e of m.events) if (e.owner === owner && e.by !== by) void flights.tell(e, e.createdAt < since);
      arm();
    }

    /** @param {string} key */
    async function find(key) {
      if (!me.alive) return never();
      const news = new Promise((ok) => (heard = () => ok(0)));
      void kick();
      const after = (/** @type {number} */ ms) => new Promise((ok) => clock.later(() => ok(0), ms));
      await Promise.race([news, after(3_000), after(100).then(() => local().state()).then(hear)]);
      return me.alive ? entries.find((e) => e.key === key) : never();
    }

    /** @param {Tap} tap @param {any} r */
    function answered(tap, r) {
      const kept = ['X-Outbox-Queued', 'X-Outbox-Unsaved'].some((h) => r.headers.get(h));
      if (!kept) tell(tap.key, 'answer', r.status);
      return r;
    }

    /**
     * htmx, or a script's fetch.
     *
     * @param {Tap} tap
     * @param {any} init
     */
    async function byScript(tap, init) {
      await flights.turn(tap.key, url, init);
      try {
        const r = answered(tap, await send(url, init));
        flights.heard(tap.key, r.status, (n) => r.headers.get(n));
      } catch {
        const r = await flights.rejected(tap.key);
        if (r) answered(tap, r);
        else tell(tap.key, 'failed');
      }
    }

    /**
     * A plain form: the page goes with it.
     *
     * @param {Tap} tap
     * @param {any} init
     */
    async function byForm(tap, init) {
      void flights.turn(tap.key, url, init);
      leaving = clock.later(async () => {
        if (me.alive && (await flights.rejected(tap.key)) && me.alive) load();
      }, cfg.softLimit + 2_000);
      try {
        const bare = { method: 'POST', body: init.body };
        const r = await dispatch(tab, url + fragment({ key: tap.key, owner, back: '/', coalesce: tap.group }), bare, true);
        if (!me.alive) return;
        if (r.status === 204) return; // the page stays
        const to = r.headers.get('Location') ?? '';
        if (to.includes('/outbox/queued')) tell(tap.key, 'queued');
        else tell(tap.key, r.headers.get('Idempotency-Status') ? 'answer' : 'page', r.status);
      } catch {
        if (!me.alive) return;
        tell(tap.key, 'page', 0);
      }
      load();
    }

    /** Another page, in this tab; where it cannot be had, it is asked for again. */
    function load() {
      const { controlled, visible } = tab;
      tab.end();
      const again = () => void (openTab({ controlled, visible }) ?? clock.later(again, 5_000));
      again();
    }

    const tab = Object.assign(me, {
      owner,
      controlled,
      visible,
      entries,
      stored: true,
      hear,
      kick,
      load,
      decide: createDecisions({ store: me.store, locks: me.locks, fetch: me.fetch, newKey: decidedKey, config }),
      /** @param {{nav?: boolean, bad?: boolean, again?: boolean, group?: string, big?: boolean}} how */
      tap({ nav = false, bad = false, again = false, group = '', big = false }) {
        const last = again && b.taps.findLast((/** @type {Tap} */ t) => t.tab === tab && !t.told.length && !t.nav);
        const key = last ? last.key : newKey();
        const body = last ? last.body : `_key=${key}&text=${bad ? 'bad' : 'x'}${big ? 'x'.repeat(cfg.bigBody) : ''}`;
        if (!owner) return; // nothing is announced then
        if (bad) server.refusals.set(body, 422);
        /** @type {Tap} */
        const tap = { key, owner, body, nav: nav && tab.controlled, bad: last ? last.bad : bad, at: clock.real(), tab, told: [], odd: false, again: !!last, group: last ? last.group : group };
        b.taps.push(tap);
        const who = /** @type {any} */ ({ key, el: 'row', asker: null });
        const coalesce = last ? last.group : group;
        flights.begin(who, tap.nav);
        const init = { method: 'POST', body, headers: { ...announce({ key, owner, el: 'row', coalesce }), 'Content-Type': 'application/x-www-form-urlencoded' } };
        if (tap.nav) return byForm(tap, init);
        return byScript(tap, init);
      },
    });
    me.atEnd(() => {
      clock.never(leaving);
      clock.never(timer);
      b.tabs = b.tabs.filter((/** @type {any} */ t) => t !== tab);
    });
    b.tabs.push(tab);
    void kick(true);
    return tab;
  }

  return openTab;
}
