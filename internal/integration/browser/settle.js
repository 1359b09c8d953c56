// @ts-check
// A stopwatch in the page: how long each tap looks undecided. It runs in the page
// because a driver's own way there and back is no part of what a person sees.

/**
 * @typedef {object} Settled
 * @property {string} title
 * @property {'shown' | 'waiting' | 'gone'} how the server's row came; or the caption that says it waits; or the row
 *   left the list, as done ones do
 * @property {number} ms of the page's own time, from the press
 */

/**
 * Begins to watch. Whatever the page shows as an error is written down too.
 * @param {import('./screen.js').Screen} screen
 */
export function watchTaps(screen) {
  return screen.tab.eval(() => {
    /** @type {{title: string, version: string, from: number}[]} */
    const open = [];
    /** @type {Settled[]} */
    const settled = [];
    /** @type {string[]} */
    const errors = [];
    /** @type {string[]} what happened, for whoever has to find out why a tap was slow */
    const trace = [];
    // A machine that is busy with other things gives a page no time at all now and
    // then; such a gap is not the outbox's.
    let clock = 0;
    let last = performance.now();
    const tick = () => {
      const now = performance.now();
      clock += Math.min(now - last, 100);
      last = now;
      look();
    };
    const rowOf = (/** @type {string} */ title) =>
      /** @type {HTMLElement | undefined} */ ([...document.querySelectorAll('#lists .row')].find(r => r.querySelector('.row-title')?.textContent?.trim() === title));

    function look() {
      for (const tap of [...open]) {
        const row = rowOf(tap.title);
        /** @type {Settled['how'] | undefined} */
        let how;
        if (!row) how = tap.version ? 'gone' : undefined;
        else if (row.dataset.outboxState === 'waiting' && row.querySelector('.outbox-caption')?.checkVisibility()) how = 'waiting';
        else if (row.dataset.v && row.dataset.v !== tap.version) how = 'shown';
        if (!how) continue;
        open.splice(open.indexOf(tap), 1);
        trace.push(`${Math.round(clock)} settled «${tap.title}» ${how}`);
        settled.push({ title: tap.title, how, ms: Math.round(clock - tap.from) });
      }
      for (const e of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll('.error, #snackbar, #outbox-strip, .outbox-caption'))) {
        const text = e.checkVisibility() ? e.innerText.replace(/\s+/g, ' ').trim() : '';
        if (/не принято|не приняты|не получилось|не сохранено|неизвестно|никак не|не отправляется|ошибк|Войдите/i.test(text) && !errors.includes(text)) errors.push(text);
      }
    }

    const note = (/** @type {string} */ text) => {
      tick();
      trace.push(`${Math.round(clock)} ${text}`);
    };
    navigator.serviceWorker.addEventListener('message', ({ data }) => {
      if (data?.type !== 'outbox') return;
      const list = data.entries.map((/** @type {any} */ e) => `${e.key.slice(0, 4)} ${e.state} ${e.attempts}/${e.tries} «${new URLSearchParams(e.text).get('text') ?? e.label}»`);
      const events = data.events.map((/** @type {any} */ e) => `${e.kind} ${e.key.slice(0, 4)}${e.live ? ' live' : ''}`);
      note(`worker: [${list.join('; ')}] ${events.join(', ')}`);
    });
    for (const type of ['htmx:beforeSend', 'htmx:beforeOnLoad', 'htmx:sendError', 'htmx:sendAbort', 'htmx:afterRequest', 'htmx:afterSwap']) {
      document.addEventListener(type, event => {
        const { requestConfig, xhr } = /** @type {any} */ (event).detail;
        note(`${type} ${requestConfig?.headers?.['Idempotency-Key']?.slice(0, 4)} ${requestConfig?.path} ${xhr?.status}`);
      });
    }
    for (const type of ['outbox:queued', 'outbox:delivered', 'outbox:refused', 'outbox:unsaved', 'planner:fresh']) {
      document.addEventListener(type, event => note(`${type} ${/** @type {any} */ (event).detail?.key?.slice(0, 4) ?? ''}`));
    }
    setInterval(tick, 25);
    new MutationObserver(tick).observe(document.body, { subtree: true, childList: true, attributes: true, characterData: true });
    /** @type {any} */ (window).rigTaps = {
      expect(/** @type {string} */ title, /** @type {string | undefined} */ selector) {
        const begin = () => {
          tick();
          note(`tap «${title}»`);
          open.push({ title, version: rowOf(title)?.dataset.v ?? '', from: clock });
        };
        // Before any of the page's own listeners.
        for (const type of ['click', 'keydown']) removeEventListener(type, /** @type {any} */ (window).rigBegin, true);
        const first = (/** @type {Event} */ event) => {
          const meant = selector ? /** @type {Element} */ (event.target).closest(selector) : /** @type {KeyboardEvent} */ (event).key === 'Enter';
          if (!meant) return; // not this one yet
          removeEventListener(event.type, first, true);
          begin();
        };
        /** @type {any} */ (window).rigBegin = first;
        addEventListener(selector ? 'click' : 'keydown', first, true);
      },
      state: () => ({ open: open.map(t => t.title), settled, errors, trace }),
    };
  });
}

/**
 * The next click on this element, or without one the next Enter, is a tap that is
 * to show on this task.
 * @param {import('./screen.js').Screen} screen
 * @param {string} title
 * @param {string} [selector]
 */
export function expectTap(screen, title, selector) {
  return screen.tab.eval((t, s) => /** @type {any} */ (window).rigTaps.expect(t, s), title, selector);
}

/**
 * @param {import('./screen.js').Screen} screen
 * @returns {Promise<{open: string[], settled: Settled[], errors: string[], trace: string[]}>}
 */
export function taps(screen) {
  return screen.tab.eval(() => /** @type {any} */ (window).rigTaps.state());
}
