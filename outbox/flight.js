// @ts-check
// The requests of one page, from the tap to the answer. The page's own code waits
// for an answer; the worker tells of it too, earlier or later; the request may
// fail here and lie safely in the store. Whoever asked is told once.

/** @typedef {import('./types.js').Who} Who */
/** @typedef {import('./types.js').Flight} Flight */

/**
 * @param {{
 *   cfg: {softLimit: number, queuedHeader: string},
 *   send: (url: string, init: RequestInit) => Promise<Response>,
 *   find: (key: string) => Promise<any>,
 *   say: (kind: string, who: Partial<Who>, detail: any) => void,
 *   put: (event: any, who?: Who) => Promise<Element | null>,
 *   answered: (key: string, at?: number) => void,
 *   expect: () => void,
 * }} page find: the entry, if it is stored; put: shows a late answer; expect: the
 *   worker is about to tell what there is, if it has not ended; at: when it was
 *   answered, if this page was not there
 */
export function createFlights({ cfg, send, find, say, put, answered, expect }) {
  /** @type {Map<string, Flight>} */
  const flights = new Map();
  // Each waits until the one before it is put down: should the worker end in
  // between, that one goes once more, and would come after it.
  let last = Promise.resolve();

  /** Whoever asked is told that it waits, once. @param {Flight} f */
  function wait(f) {
    f.placed();
    if (!f.waits) say('queued', f.who, { key: f.who.key });
    f.waits = true;
  }

  /** What became of it is known. @param {any} event @param {Flight} [f] */
  async function end(event, f) {
    const { key, kind, live } = event;
    flights.delete(key);
    clearTimeout(f?.timer);
    f?.placed();
    if (kind !== 'unsaved') answered(key, event.at);
    // What was answered at once is shown; a refusal is said to the element.
    const late = !live || f?.waits || f?.lost;
    if (!late && !(f && kind === 'refused')) return;
    if (kind === 'unsaved' && !f) return;
    const asker = f?.who.asker;
    const at = kind === 'delivered' && !f?.shown ? await put(event, f?.who) : null;
    say(kind, { asker: at ?? asker, el: f?.who.el || event.el }, event);
  }

  /** @param {string} key */
  const queued = (key) => Response.json({ outbox: 'queued', key }, { status: 202, headers: { [cfg.queuedHeader]: '1' } });

  /** The request is lost; the entry may be there. @param {Flight} f @returns {Promise<Response | null>} */
  async function seek(f) {
    const { key } = f.who;
    f.open = false;
    f.lost = true;
    for (const ms of [0, 500, 1_000]) {
      await new Promise((ok) => setTimeout(ok, ms));
      if (f.news) await end(f.news, f);
      const e = flights.has(key) && (await find(key));
      if (!flights.has(key)) return queued(key); // told meanwhile
      if (e) {
        if (e.state !== 'refused' && e.state !== 'ask') wait(f);
        return queued(key);
      }
      // The worker ended before it was put down. Under its name it may go again.
      const r = await f.again().catch(() => null);
      if (!r) continue;
      if (flight.heard(key, r.status, (name) => r.headers.get(name))) return r;
      f.shown = false;
      const html = /html/.test(r.headers.get('Content-Type') ?? '') ? await r.clone().text() : '';
      if (flights.has(key)) await end({ ...f.who, kind: r.ok ? 'delivered' : 'refused', status: r.status, html }, f);
      return r;
    }
    await end({ kind: 'unsaved', key }, f);
    return null;
  }

  const flight = {
    /** @param {Who} who @param {boolean} [nav] the page goes with it */
    begin(who, nav = false) {
      /** @type {Flight} */
      const f = { who, nav, open: true, waits: false, lost: false, shown: false, news: null, found: null, placed() {}, again: () => Promise.reject(), timer: 0 };
      flights.get(who.key)?.placed(); // this one repeats it
      flights.set(who.key, f);
      // The worker answers by then. It may have ended, and the browser may wait for
      // longer than a person does.
      f.timer = setTimeout(async () => {
        f.placed();
        if (f.open && (await find(who.key)) && f.open) wait(f);
      }, cfg.softLimit + 200);
    },

    /**
     * Its turn to go out, and how it would go once more.
     *
     * @param {string} key
     * @param {string} url
     * @param {RequestInit} init
     */
    async turn(key, url, init) {
      const f = flights.get(key);
      if (!f) return;
      const before = last;
      const own = new Promise((/** @type {(value: void) => void} */ ok) => (f.placed = ok));
      // A form goes out without waiting; what comes after it waits for all.
      last = before.then(() => own);
      f.again = () => send(url, init);
      await before;
    },

    /** It is put down. @param {string} key */
    placed: (key) => flights.get(key)?.placed(),

    /**
     * An answer came.
     *
     * @param {string} key
     * @param {number} status
     * @param {(name: string) => string | null} get
     * @returns {boolean} whether it is the outbox's own, which is no success
     */
    heard(key, status, get) {
      const f = flights.get(key);
      if (f) f.open = false;
      expect();
      if (get(cfg.queuedHeader)) {
        if (f) wait(f);
      } else if (get('X-Outbox-Unsaved')) {
        void end({ kind: 'unsaved', key }, f);
        return true;
      } else {
        // A proxy's answer, or "still in progress", leaves the intent open.
        if (status < 500 && !/^(in-progress|unavailable|quota)/.test(get('Idempotency-Status') ?? '')) answered(key);
        clearTimeout(f?.timer);
        f?.placed();
        if (f) f.shown = true;
      }
      if (f?.news) void end(f.news, f);
      return !!get(cfg.queuedHeader);
    },

    /**
     * The request failed in the page; it may lie in the store all the same.
     *
     * @param {string} key
     * @returns {Promise<Response | null | undefined>} null: nothing has it; undefined: known
     */
    async rejected(key) {
      const f = flights.get(key);
      // Two requests of one name fail together, and have one answer.
      if (f) f.found ??= seek(f);
      return f && ((await f.found)?.clone() ?? null);
    },

    /**
     * The worker tells what became of it.
     *
     * @param {any} event
     * @param {boolean} [before] it was asked for before this page was there
     */
    tell(event, before) {
      const f = flights.get(event.key);
      // What only a page before asked for is late here.
      if (before && !f && event.live && !event.nav) event = { ...event, live: false, html: '', hx: null, trigger: null };
      // A form's answer is the browser's; a download leaves the page.
      if (f?.open && !(f.nav && (event.live || event.kind === 'unsaved'))) f.news = event;
      else return end(event, f);
    },
  };
  return flight;
}
