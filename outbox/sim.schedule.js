// @ts-check
// Random lives of a browser, as data: a seed makes a list of steps, the steps are
// run, and what the server did is held against what was tapped and what people
// were told. A list that fails is made shorter while it still fails.

import { createBrowser } from './sim.browser.js';
import { faults, random } from './sim.js';
import { inLine } from './waits.js';

/** @typedef {{do: string, [name: string]: any}} Step */
/** @typedef {ReturnType<typeof createBrowser>} Browser */

const kinds = /** @type {const} */ (['chromium', 'firefox', 'webkit']);
const once = Object.keys(faults).filter((f) => f !== 'ok');
const outages = ['502', '503', 'refuse', 'blackhole', 'portal', 'firewall', 'redirect', '504', '500', 'very slow'];

/** @param {number} seed @returns {Step[]} */
export function schedule(seed) {
  const rnd = random(seed * 104_729);
  const below = (/** @type {number} */ n) => Math.floor(rnd() * n);
  const pick = (/** @type {readonly any[]} */ list) => list[below(list.length)];
  const wait = () => ({ do: 'wait', ms: Math.floor(rnd() ** 3 * pick([300, 3_000, 15_000, 40_000])) });
  /** @type {Step[]} */
  const steps = [{ do: 'browser', kind: pick(kinds), few: rnd() < 0.05 ? 3 : 0 }];
  // How often what happens, in this life.
  const times = rnd() < 0.9 ? 'near' : pick(['nights', 'clock']);
  const grouped = pick([0, 0, 0.5, 0.9]);
  const calm = { tap: 10, wait: 6, fault: 4, net: 2, die: 3, open: 1, close: 0.5, show: 1, hide: 0.7, online: 0.5, sync: 0.5, decide: 0.5, kick: 0.3 };
  const rare = { login: pick([0, 0, 2]), expire: pick([0, 0, 1]), logout: pick([0, 0, 0.5]), kill: pick([0, 0.5]), update: pick([0, 0, 1]), store: pick([0, 0, 0, 1]), night: 0, clock: 0 };
  if (times === 'nights') rare.night = 1;
  if (times === 'clock') rare.clock = 1;
  const weights = Object.entries({ ...calm, ...rare });
  const sum = weights.reduce((n, [, w]) => n + w, 0);
  const length = 4 + below(22);
  while (steps.length < length) {
    let r = rnd() * sum;
    const what = /** @type {[string, number]} */ (weights.find(([, w]) => (r -= w) < 0) ?? weights[0])[0];
    const tab = below(3);
    if (what === 'wait') steps.push(wait());
    else if (what === 'tap') {
      steps.push({ do: 'tap', tab, nav: rnd() < 0.3, bad: rnd() < 0.1, again: rnd() < 0.1, big: rnd() < 0.15, group: rnd() < grouped ? pick(['g', 'h']) : '' });
      if (rnd() < 0.5) steps.push(wait());
    } else if (what === 'fault') steps.push({ do: 'fault', how: Array.from({ length: 1 + below(3) }, () => pick(once)) });
    else if (what === 'net') {
      steps.push({ do: 'net', how: rnd() < 0.4 ? 'ok' : pick(outages) });
      // Wishes that lie side by side, for one to take the place of another.
      for (let n = grouped && rnd() < 0.6 ? 2 + below(3) : 0; n > 0; n--) {
        if (rnd() < 0.3) steps.push({ do: 'die', after: below(40) });
        steps.push({ do: 'tap', tab, nav: rnd() < 0.2, group: rnd() < grouped ? 'g' : '' });
      }
      steps.push({ do: 'wait', ms: below(pick([2_000, 20_000, 120_000])) });
    }
    else if (what === 'die') steps.push({ do: 'die', after: below(pick([6, 25, 60])) });
    else if (what === 'open') steps.push({ do: 'open', controlled: rnd() < 0.7 });
    else if (what === 'login') steps.push({ do: 'login', tab, who: pick(['A', 'B']), unseen: rnd() < 0.3 }, { do: 'wait', ms: below(400) });
    else if (what === 'store') steps.push({ do: 'store', how: pick(['fail', 'quota', 'slow', '', '']) });
    else if (what === 'update') steps.push({ do: 'update', db: rnd() < 0.4 });
    else if (what === 'night') steps.push({ do: 'night', ms: pick([3_600_000, 10 * 3_600_000, 26 * 3_600_000]) });
    else if (what === 'clock') steps.push({ do: 'clock', ms: pick([30_000, -30_000, 600_000, -600_000, 3 * 86_400_000, -3 * 86_400_000]) });
    else if (what === 'decide') steps.push({ do: 'decide', tab, what: pick(['retry', 'discard']), n: below(4) });
    else steps.push({ do: what, tab });
  }
  return steps;
}

class Broken extends Error {}
/** @param {any} ok @param {string} what @returns {asserts ok} */
function must(ok, what) {
  if (!ok) throw new Broken(what);
}

/** What must hold while it runs. Failures inside of programs would be swallowed by them: they are noted. */
function judge() {
  let count = 0;
  const first = new Map();
  const found = /** @type {string[]} */ ([]);
  const seqs = new Map();
  const left = new Set();
  const over = new Set();
  const note = (/** @type {any} */ ok, /** @type {string} */ what) => void (ok || found.push(what));
  return {
    found,
    seqs,
    left,
    over,
    /** @param {Browser} b @param {any} s @param {any} c */
    commit(b, s, c) {
      const owner = (c.meta ?? s.meta).owner;
      for (const e of c.put ?? []) {
        const old = s.entries.find((/** @type {any} */ x) => x.key === e.key);
        // Numbers begin anew in an empty store; what comes again after it was done has its old place.
        const known = b.server.acknowledged.has(`${e.owner}\n${e.key}`) && seqs.has(e.key);
        if (!known && old?.seq !== e.seq) seqs.set(e.key, ++count);
        if (e.state === 'ask' || e.state === 'refused') left.add(e.key);
        if (e.state !== 'sending' || e.attempts === old?.attempts) continue;
        note(e.firstSentAt != null, `I3: ${e.key} is sent without a time`);
        note(!over.has(e.key), `${e.key} is sent, though a later wish has taken its place`);
        note(owner === e.owner, `I6: ${e.key} of ${e.owner} is sent while ${owner} is signed in`);
        if (e.attempts > 1 || known) continue;
        note(!s.entries.some((/** @type {any} */ x) => x.owner === e.owner && x.seq < e.seq && inLine(x) && !c.del?.includes(x.key)), `I7: ${e.key} is sent though an older one waits`);
        note(seqs.get(e.key) > (first.get(e.owner) ?? 0), `I7: the first send of ${e.key} is out of order`);
        first.set(e.owner, seqs.get(e.key));
      }
      for (const key of c.del ?? []) {
        const e = s.entries.find((/** @type {any} */ x) => x.key === key);
        // The same group, the same owner, and nothing of it was ever sent.
        const next = e?.firstSentAt == null && c.put?.find((/** @type {any} */ x) => e?.coalesce && x.coalesce === e.coalesce && x.owner === e.owner);
        if (next) over.add(key);
        const known = next || !e || b.server.acknowledged.has(`${e.owner}\n${key}`) || b.decided.has(key);
        note(known, `I5: ${key} is deleted without an acknowledgement`);
      }
    },
    /** @param {Browser} b @param {any} init @param {any} me @returns {boolean} whether it is kept on the disk */
    send(b, init, me) {
      const key = init.headers.get('Idempotency-Key');
      const e = b.disk.entries.get(key);
      const full = b.disk.entries.size >= b.cfg.maxEntries;
      if (b.trouble || b.clock.real() - b.lastTrouble < 10_000 || b.disk.version > me.version || (full && !e)) {
        for (const t of b.taps) if (t.key === key) t.odd = true;
        return false;
      }
      note(e?.state === 'sending' && e.firstSentAt != null, `I1, I3: ${key} is sent before it is kept`);
      const body = b.disk.bodies.get(key);
      note(!e || (body && Buffer.from(body).equals(Buffer.from(init.body))), `I2: ${key} is sent with another body`);
      return true;
    },
    /** @param {Browser} b @param {any} tap @param {string} kind @param {number} [status] */
    told(b, tap, kind, status = 0) {
      const { key } = tap;
      const done = b.server.effects.some((e) => e.key === key);
      const kept = b.disk.entries.get(key);
      if (kind === 'delivered' || (kind === 'answer' && status < 400)) note(done, `${key}: "done" is said before it is`);
      if (kind === 'queued') note(kept || over.has(key) || b.server.acknowledged.has(`${tap.owner}\n${key}`) || b.decided.has(key), `${key}: "it waits" is said, but it is not kept`);
      // A store that cannot be read may hold what was put there before.
      const unread = b.trouble || b.clock.real() - b.lastTrouble < 10_000;
      if ((kind === 'unsaved' || kind === 'failed') && !unread) note(!kept || !inLine(kept), `${key}: "not saved" is said, but it is kept and will be sent`);
    },
  };
}

/**
 * @param {Step[]} steps
 * @param {{seed: number, mutant?: string}} how
 * @returns {Promise<{error: string, sum: Record<string, number>}>} error: '' if all held
 */
export async function run(steps, { seed, mutant = '' }) {
  const set = steps.find((s) => s.do === 'browser') ?? { kind: 'chromium', few: 0 };
  const j = judge();
  const b = createBrowser({ kind: set.kind, seed, mutant, judge: j, config: set.few ? { maxEntries: set.few } : {} });
  run.clock?.(b);
  const sum = { superseded: 0, taps: 0, effects: 0, requests: 0, deaths: 0, steps: 0, odd: 0 };
  try {
    b.openTab();
    await b.clock.go(1);
    for (const s of steps) {
      await step(b, s);
      must(!j.found.length, j.found[0]);
    }
    await end(b, j);
    must(!j.found.length, j.found[0]);
    verdict(b, j);
  } catch (e) {
    if (!(e instanceof Broken)) throw e;
    return { error: e.message, sum };
  } finally {
    b.kill();
  }
  Object.assign(sum, { superseded: j.over.size, taps: b.taps.length, effects: b.server.effects.length, requests: b.server.requests.length, deaths: b.deaths, steps: b.steps, odd: b.taps.filter((t) => t.odd).length });
  return { error: '', sum };
}
/** @type {((b: Browser) => void) | undefined} */
run.clock = undefined;

/** @param {Browser} b @param {Step} s */
async function step(b, s) {
  const tab = b.tabs.length ? b.tabs[(s.tab ?? 0) % b.tabs.length] : null;
  switch (s.do) {
    case 'wait':
      return b.clock.go(s.ms);
    case 'tap':
      void tab?.tap(s);
      return b.clock.go(1);
    case 'fault':
      b.next.push(...s.how);
      return;
    case 'net':
      b.net = s.how;
      return;
    case 'die':
      b.fuse = s.after;
      return;
    case 'open':
      if (b.tabs.length < 4) b.openTab({ controlled: s.controlled });
      return b.clock.go(1);
    case 'close':
      return tab?.end();
    case 'show':
    case 'hide':
      if (!tab || tab.visible === (s.do === 'show')) return;
      tab.visible = !tab.visible;
      if (tab.visible) void tab.kick(true);
      return;
    case 'online':
      for (const t of b.tabs) void t.kick(true);
      return;
    case 'kick':
      void tab?.kick();
      return;
    case 'sync':
      return b.sync();
    case 'login':
    case 'logout':
      if (tab) b.login(tab, s.who ?? '', s.unseen);
      return;
    case 'expire':
      b.cookie = { ...b.cookie, valid: false };
      return;
    case 'kill':
      b.kill();
      await b.clock.go(50);
      b.openTab();
      return b.clock.go(1);
    case 'night':
      b.kill();
      await b.clock.go(s.ms);
      b.openTab();
      return;
    case 'clock':
      b.clock.set(s.ms);
      return;
    case 'update':
      return b.update(s.db);
    case 'store':
      b.lastTrouble = b.clock.real();
      b.trouble = s.how;
      return;
    case 'decide': {
      const key = b.entries().filter((e) => e.owner === tab?.owner)[s.n]?.key;
      if (!key) return;
      if (s.what === 'discard' || !inLine(/** @type {any} */ (b.disk.entries.get(key)))) b.decided.add(key);
      void tab.decide[s.what](key).then(() => tab.kick(true, true), () => {});
      return b.clock.go(1);
    }
  }
}

/**
 * All is well again, and somebody who looks at a page waits. Nothing is touched:
 * no page is loaded that is there, no button pressed.
 *
 * @param {Browser} b
 * @param {ReturnType<typeof judge>} j
 */
async function end(b, j) {
  b.net = 'ok';
  b.next = [];
  b.fuse = null;
  if (b.trouble) b.lastTrouble = b.clock.real();
  b.trouble = '';
  await b.clock.go(200);
  const first = b.cookie.valid && b.cookie.who ? b.cookie.who : 'A';
  for (const who of [first, first === 'A' ? 'B' : 'A']) {
    const seen = () => b.tabs.find((t) => t.visible && t.controlled && t.owner === who);
    if (b.cookie.who !== who || !b.cookie.valid) {
      const tab = b.tabs.find((t) => t.visible && t.controlled) ?? b.openTab();
      b.login(tab, who);
      await b.clock.go(200);
    } else if (!seen()) {
      b.openTab();
    }
    const waits = () => b.entries().filter((e) => e.owner === who && inLine(e));
    let ms = 0;
    for (; ms < 1_300_000 && (waits().length || ms < 12_000); ms += 1_000) {
      await b.clock.go(1_000);
      must(!j.found.length, j.found[0]);
    }
    must(!waits().length, `stuck: ${waits().map((e) => `${e.key} ${e.state} ${e.reason}`)} of ${who} after ${ms / 1000} s of a good network before a page`);
  }
  await b.clock.go(61_000);
}

/** @param {Browser} b @param {ReturnType<typeof judge>} j */
function verdict(b, j) {
  must(b.mostFlying <= 1, `I4: ${b.mostFlying} requests of the line at once`);
  const { effects, requests } = b.server;
  const bodies = new Map();
  for (const r of requests) {
    must((bodies.get(r.key) ?? r.body) === r.body, `I2: ${r.key} had two bodies`);
    bodies.set(r.key, r.body);
  }
  for (const { key } of effects) {
    must(b.decided.has(key) || effects.filter((x) => x.key === key).length === 1, `doubled: ${key}`);
  }
  const last = new Map();
  for (const e of effects) {
    if (b.decided.has(e.key)) continue;
    const taps = b.taps.filter((t) => t.key === e.key);
    const [tap] = taps;
    must(tap, `${e.key}: nobody asked for it`);
    must(e.session === tap.owner, `foreign: ${e.key} of ${tap.owner} was done as ${e.session}`);
    if (j.left.has(e.key) || taps.some((t) => t.odd)) continue;
    must(j.seqs.get(e.key) > (last.get(e.session) ?? 0), `reordered: ${e.key}`);
    last.set(e.session, j.seqs.get(e.key));
  }
  const placed = new Map();
  for (const tap of b.taps) {
    const { key, told, owner } = tap;
    const n = effects.filter((e) => e.key === key).length;
    if (b.decided.has(key)) continue;
    if (j.over.has(key)) {
      must(n === 0 || tap.odd, `${key} was done, though a later wish had taken its place`);
      continue;
    }
    const kept = b.disk.entries.get(key);
    const said = told.map((t) => t.kind);
    const shown = told.some((t) => t.kind === 'refused' || (t.kind === 'answer' && Number(t.status) >= 400));
    if (said.includes('queued')) must(n > 0 || kept || shown || tap.bad, `lost: ${key}, told ${said}`);
    if (said.includes('delivered')) must(n > 0, `lost: ${key} was called delivered`);
    const later = b.taps.some((t) => t.again && t.key === key && t !== tap);
    if (!told.length && tap.tab.alive && !later) must(b.clock.real() - tap.at < 60_000, `${key}: for a minute nobody was told anything`);
    // A form does not wait for what the page has asked for just before.
    if (b.taps.some((t) => t.key === key && (t.nav || t.again)) || tap.odd || !j.seqs.has(key) || j.left.has(key)) continue;
    const seq = j.seqs.get(key);
    must(seq >= (placed.get(tap.tab) ?? 0), `reordered: ${key} was put down before an older tap of ${owner}`);
    placed.set(tap.tab, seq);
  }
  const line = (/** @type {any[]} */ entries, /** @type {string} */ owner) => entries.filter((e) => e.owner === owner && inLine(e)).map((e) => e.key).join();
  for (const tab of b.tabs) {
    if (!tab.visible || !tab.stored) continue;
    const [shown, kept] = [line(tab.entries, tab.owner), line(b.entries(), tab.owner)];
    must(shown === kept, `a page shows [${shown}], [${kept}] is kept`);
  }
}

/**
 * The fewest of these steps that still fail.
 *
 * @param {Step[]} steps
 * @param {{seed: number, mutant?: string}} how
 */
export async function shrink(steps, how) {
  let list = steps;
  const like = (/** @type {string} */ error) => error.replace(/k\d+.*|\d+.*/s, '');
  const wanted = like((await run(steps, how)).error);
  for (let part = Math.ceil(list.length / 2); part >= 1; ) {
    let some = false;
    for (let i = 0; i < list.length; ) {
      const less = [...list.slice(0, i), ...list.slice(i + part)];
      if (like((await run(less, how)).error || '-') === wanted) {
        list = less;
        some = true;
      } else i += part;
    }
    if (part === 1 && !some) break;
    part = some ? part : Math.ceil(part / 2);
  }
  return list;
}
