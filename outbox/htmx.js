// @ts-check
// htmx 2 and 4: naming and announcing what they send, and telling what waits from
// what was answered.

/** @typedef {import('./page.js').Page} Page */

/** An attribute of htmx, with or without data-, as it is inherited. @param {Element} el @param {string} name */
function inherited(el, name) {
  const names = [`hx-${name}`, `data-hx-${name}`, `hx-${name}:inherited`];
  const at = el.closest(names.map((n) => `[${CSS.escape(n)}]`).join());
  return names.map((n) => at?.getAttribute(n)).find((v) => v != null);
}

/** @param {Element} el */
function swapOf(el) {
  const config = /** @type {any} */ (globalThis).htmx?.config;
  return (inherited(el, 'swap') || config?.defaultSwapStyle || config?.defaultSwap || 'innerHTML').split(/\s/)[0];
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
   */
  function name(el, method, url, data, headers, target, set) {
    const form = el instanceof HTMLFormElement ? el : (/** @type {any} */ (el).form ?? el.closest('form'));
    const encoding = inherited(el, 'encoding') ?? (el === form && form.getAttribute('enctype'));
    const asked = page.ask({ el, form, method: method.toUpperCase(), url, data, multipart: encoding === 'multipart/form-data', target, swap: swapOf(el) });
    if (!asked) return;
    const { key, ids } = asked.wish;
    for (const [field, value] of Object.entries({ ...ids, [keyField]: key })) if (data.has(field)) set(field, value);
    if (form?.querySelector(`input[name="${keyField}"]`)) page.fill(form, asked.wish);
    const announce = asked.announce && (page.controlled() || page.able);
    Object.assign(headers, announce ? page.headers(asked) : { 'Idempotency-Key': key });
    if (announce) page.began(key, asked);
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
    if (!key || !page.heard(key, status, get)) return false;
    event.preventDefault();
    return true;
  };

  // htmx 2: XMLHttpRequest.
  on('configRequest', (d) => name(d.elt, d.verb, d.path, d.formData, d.headers, d.target, (n, v) => (d.parameters[n] = v)));
  on('beforeSend', ({ xhr, pathInfo, requestConfig: { headers, verb } }) => {
    if (!told(headers) || page.controlled()) return;
    // This one object and no other.
    xhr.send = async (/** @type {any} */ body) => (await page.local()).play(xhr, pathInfo.finalRequestPath, { method: verb.toUpperCase(), headers, body });
  });
  on('beforeOnLoad', ({ xhr, requestConfig }, event) => answered(event, requestConfig.headers, xhr.status, (n) => xhr.getResponseHeader(n)));
  for (const type of ['sendError', 'sendAbort', 'timeout']) on(type, (d) => page.rejected(told(d.requestConfig?.headers)));

  // htmx 4: fetch.
  const sent = new Set();
  on('config:request', ({ ctx: { request: r, sourceElement, target } }) => {
    if (r.body instanceof FormData) name(sourceElement, r.method, r.action, r.body, r.headers, target, (n, v) => r.body.set(n, v));
  });
  on('before:request', ({ ctx }) => {
    if (!told(ctx.request.headers)) return;
    sent.add(ctx);
    if (!page.controlled()) ctx.fetch = page.fetchHere;
  });
  on('before:response', ({ ctx }, event) => {
    if (answered(event, ctx.request.headers, ctx.response.status, (n) => ctx.response.headers.get(n))) ctx.hx = {};
  });
  on('finally:request', ({ ctx }) => {
    if (sent.delete(ctx) && !ctx.response) void page.rejected(told(ctx.request.headers));
  });
}
