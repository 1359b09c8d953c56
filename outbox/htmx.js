// @ts-check
// htmx 2 and 4: naming and announcing what they send, and telling what waits from
// what was answered.

/** @typedef {import('./page.js').Page} Page */

/** An attribute of htmx, with or without data-, as it is inherited. @param {Element} el @param {string} name */
export function inherited(el, name) {
  const names = [`hx-${name}`, `data-hx-${name}`, `hx-${name}:inherited`];
  const at = el.closest(names.map((n) => `[${CSS.escape(n)}]`).join());
  return names.map((n) => at?.getAttribute(n)).find((v) => v != null);
}

/**
 * How and where htmx will put the answer, for when it comes after this page has
 * been loaded again: style and target, what of it, and in which page.
 *
 * @param {Element} el
 * @param {Element | null} target
 * @param {{swap?: string, select?: string}} said
 */
function placeOf(el, target, { swap, select = inherited(el, 'select') }) {
  const { config } = /** @type {any} */ (globalThis).htmx;
  swap ||= inherited(el, 'swap') || config.defaultSwapStyle || config.defaultSwap || 'innerHTML';
  const id = target?.getAttribute('id');
  const to = id ? '#' + CSS.escape(id) : target === document.body ? 'body' : inherited(el, 'target');
  // What a row is not known by, it cannot be found by later.
  const row = el.closest('[data-outbox-row]') ?? el;
  return [`${swap?.split(/\s/)[0]} ${to && target && placeAt(to, row) === target ? to : ''}`, here(), select ?? ''].join('\n');
}

export const here = () => location.pathname + location.search;

/** @param {string} selector @param {Element | null} row that "closest" starts from */
export function placeAt(selector, row) {
  try {
    const [, up] = /^closest (.+)/.exec(selector) ?? [];
    return up ? row?.closest(up) : document.querySelector(selector);
  } catch {
    return null;
  }
}

/** @param {Page} page */
export function watchHtmx(page) {
  const { keyField } = page.cfg;
  /** @param {string} type @param {(detail: any, event: Event) => void} fn */
  const on = (type, fn) => addEventListener(`htmx:${type}`, (event) => fn(/** @type {CustomEvent} */ (event).detail, event));

  /**
   * @param {Element} el
   * @param {string} method
   * @param {string} url
   * @param {FormData} data
   * @param {Record<string, string>} headers
   * @param {Element | null} target
   * @param {(name: string, value: string) => void} set
   * @param {{swap?: string, select?: string}} [said]
   */
  function name(el, method, url, data, headers, target, set, said = {}) {
    const form = el instanceof HTMLFormElement ? el : (/** @type {any} */ (el).form ?? el.closest('form'));
    const encoding = inherited(el, 'encoding') ?? (el === form && form.getAttribute('enctype'));
    const asked = page.ask({ el, form, method: method.toUpperCase(), url, data, multipart: encoding === 'multipart/form-data', target, swap: placeOf(el, target, said) });
    if (!asked) return;
    const { key, wish } = asked;
    for (const [field, value] of Object.entries({ ...wish.ids, [keyField]: key })) if (data.has(field)) set(field, value);
    if (form?.querySelector(`input[name="${keyField}"]`)) page.fill(form, wish);
    Object.assign(headers, asked.announce ? page.begin(asked) : { 'Idempotency-Key': key });
  }

  /** The key, if the request was announced. @param {Record<string, string>} [h] */
  const told = (h) => (h?.['Outbox-Owner'] ? h['Idempotency-Key'] : '');
  /**
   * @param {Event} event
   * @param {Record<string, string>} h
   * @param {number} status
   * @param {(name: string) => string | null} get
   */
  const answered = (event, h, status, get) => {
    const key = h['Idempotency-Key'];
    // No swap and no "successful", at which pages clear their forms.
    if (!key || !page.flights.heard(key, status, get)) return false;
    event.preventDefault();
    return true;
  };

  // htmx 2: XMLHttpRequest.
  on('configRequest', (d) => name(d.elt, d.verb, d.path, d.formData, d.headers, d.target, (n, v) => (d.parameters[n] = v)));
  on('beforeSend', ({ xhr, pathInfo, requestConfig: { headers, verb } }) => {
    const key = told(headers);
    if (!key) return;
    // This one object and no other.
    xhr.send = async (/** @type {any} */ body) => {
      const init = { method: verb.toUpperCase(), headers, body };
      const url = pathInfo.finalRequestPath;
      await page.flights.turn(key, url, init);
      delete xhr.send;
      if (page.controlled()) xhr.send(body);
      else (await page.local()).play(xhr, page.send(url, init));
    };
  });
  on('beforeOnLoad', ({ xhr, requestConfig }, event) => answered(event, requestConfig.headers, xhr.status, (n) => xhr.getResponseHeader(n)));
  for (const type of ['sendError', 'sendAbort', 'timeout']) on(type, (d) => page.flights.rejected(told(d.requestConfig?.headers)));

  // htmx 4: fetch.
  const sent = new Set();
  on('config:request', ({ ctx: { request: r, sourceElement, target, swap, select } }) => {
    if (r.body instanceof FormData) name(sourceElement, r.method, r.action, r.body, r.headers, target, (n, v) => r.body.set(n, v), { swap, select });
  });
  on('before:request', ({ ctx }) => {
    const key = told(ctx.request.headers);
    if (!key) return;
    sent.add(ctx);
    ctx.fetch = async (/** @type {string} */ url, /** @type {any} */ { signal, ...init }) => {
      await page.flights.turn(key, url, init);
      return page.send(url, { ...init, signal });
    };
  });
  on('before:response', ({ ctx }, event) => {
    if (answered(event, ctx.request.headers, ctx.response.status, (n) => ctx.response.headers.get(n))) ctx.hx = {};
  });
  on('finally:request', ({ ctx }) => {
    if (sent.delete(ctx) && !ctx.response) void page.flights.rejected(told(ctx.request.headers));
  });
}
