// @ts-check
// htmx 2 and 4: naming and announcing what they send, marking what waits, and
// putting a late answer where it belongs.

/** @typedef {import('./page.js').Page} Page */

const styles = /^(innerHTML|outerHTML|beforebegin|afterbegin|beforeend|afterend|textContent|innerMorph|outerMorph)$/;

/** @returns {any} */
const htmx = () => /** @type {any} */ (globalThis).htmx;

/** @param {Element} el */
function swapOf(el) {
  const owner = el.closest('[hx-swap],[data-hx-swap],[hx-swap\\:inherited]');
  const said = owner?.getAttribute('hx-swap') ?? owner?.getAttribute('data-hx-swap') ?? owner?.getAttribute('hx-swap:inherited');
  return (said ?? htmx()?.config?.defaultSwapStyle ?? htmx()?.config?.defaultSwap ?? 'innerHTML').split(/\s/)[0];
}

/** @param {Page} page */
export function watchHtmx(page) {
  /**
   * @param {Element} el
   * @param {{method: string, url: string, data: FormData, headers: Record<string, string>, target: Element | null, set: (name: string, value: string) => void}} r
   */
  function name(el, r) {
    const form = el instanceof HTMLFormElement ? el : (/** @type {any} */ (el).form ?? el.closest('form'));
    const encoding = el.closest('[hx-encoding],[data-hx-encoding]');
    const multipart =
      (encoding?.getAttribute('hx-encoding') ?? encoding?.getAttribute('data-hx-encoding') ?? (el === form ? form.getAttribute('enctype') : '')) === 'multipart/form-data';
    const asked = page.ask({ el, form, method: r.method.toUpperCase(), url: r.url, data: r.data, multipart, target: r.target, swap: swapOf(el) });
    if (!asked) return;
    const { key, ids } = asked.wish;
    if (r.data.has(page.cfg.keyField)) r.set(page.cfg.keyField, key);
    for (const [field, value] of Object.entries(ids)) if (r.data.has(field)) r.set(field, value);
    if (form && form.querySelector(`input[name="${page.cfg.keyField}"]`)) page.fill(form, asked.wish);
    const announce = asked.announce && (page.controlled() || page.local());
    Object.assign(r.headers, announce ? page.headers(asked) : { 'Idempotency-Key': key });
    if (announce) page.began(asked);
  }

  /** @param {Record<string, string> | undefined} h */
  const keyOf = (h) => h?.['Idempotency-Key'] ?? '';
  /** The key, if the request was announced. @param {Record<string, string> | undefined} h */
  const told = (h) => (h?.['Outbox-Owner'] ? keyOf(h) : '');

  /** An answer of the outbox's own is no success: no swap, no form cleared. @param {Event} event @param {string} key @param {(name: string) => string | null} get */
  function own(event, key, get) {
    const kind = get(page.cfg.queuedHeader) ? 'queued' : get('X-Outbox-Unsaved') ? 'unsaved' : '';
    if (!kind) return false;
    event.preventDefault();
    page[kind === 'queued' ? 'queued' : 'unsaved'](key);
    return true;
  }

  /** @param {string} type @param {(detail: any, event: Event) => void} fn */
  const on = (type, fn) => addEventListener(type, (event) => fn(/** @type {CustomEvent} */ (event).detail, event));

  // htmx 2: XMLHttpRequest.
  on('htmx:configRequest', (d) => name(d.elt, { method: d.verb, url: d.path, data: d.formData, headers: d.headers, target: d.target, set: (n, v) => (d.parameters[n] = v) }));
  on('htmx:beforeSend', (d) => {
    const { headers } = d.requestConfig;
    if (told(headers) && !page.controlled()) playInto(d.xhr, (body) => page.fetchHere(d.pathInfo.finalRequestPath, { method: d.requestConfig.verb.toUpperCase(), headers, body }));
  });
  on('htmx:beforeOnLoad', (d, event) => {
    const key = keyOf(d.requestConfig.headers);
    const get = (/** @type {string} */ n) => d.xhr.getResponseHeader(n);
    if (key && !own(event, key, get)) page.answered(key, d.xhr.status, get('Idempotency-Status'));
  });
  for (const type of ['sendError', 'sendAbort', 'timeout']) on(`htmx:${type}`, (d) => page.rejected(told(d.requestConfig?.headers)));

  // htmx 4: fetch.
  const sent = new Set();
  on('htmx:config:request', ({ ctx }) => {
    const r = ctx.request;
    if (r.body instanceof FormData) name(ctx.sourceElement, { method: r.method, url: r.action, data: r.body, headers: r.headers, target: ctx.target, set: (n, v) => r.body.set(n, v) });
  });
  on('htmx:before:request', ({ ctx }) => {
    if (!told(ctx.request.headers)) return;
    sent.add(ctx);
    if (!page.controlled()) ctx.fetch = page.fetchHere;
  });
  on('htmx:before:response', ({ ctx }, event) => {
    const key = keyOf(ctx.request.headers);
    const get = (/** @type {string} */ n) => ctx.response.headers.get(n);
    if (!key) return;
    if (own(event, key, get)) ctx.hx = {};
    else page.answered(key, ctx.response.status, get('Idempotency-Status'));
  });
  on('htmx:finally:request', ({ ctx }) => {
    if (sent.delete(ctx) && !ctx.response) page.rejected(told(ctx.request.headers));
  });
}

/**
 * Lets fetch answer an XMLHttpRequest that htmx is about to send: this one object
 * and no other.
 *
 * @param {any} xhr
 * @param {(body: any) => Promise<Response>} fetch
 */
function playInto(xhr, fetch) {
  xhr.send = async (/** @type {any} */ body) => {
    try {
      const r = await fetch(body);
      const text = await r.text();
      const own = { readyState: 4, status: r.status, response: text, responseText: text, responseURL: r.url };
      for (const [name, value] of Object.entries(own)) Object.defineProperty(xhr, name, { value });
      xhr.getResponseHeader = (/** @type {string} */ name) => r.headers.get(name);
      xhr.getAllResponseHeaders = () => [...r.headers].map(([n, v]) => `${n}: ${v}\r\n`).join('');
    } catch {
      return xhr.onerror();
    }
    xhr.onload();
  };
}

/**
 * Puts an answer that came after its request was told "it waits". Redirects and
 * refreshes that it asks for are not followed: the person is elsewhere by now.
 *
 * @param {{swap: string, html: string | null, trigger: string | null}} event
 * @param {Element | null} source the element that asked
 * @returns {Element | null} where it was put
 */
export function put(event, source) {
  const [style, selector] = event.swap.split(' ');
  const lib = htmx();
  let target = selector ? document.querySelector(selector) : null;
  if (event.trigger) fire(event.trigger, target ?? source ?? document.body);
  if (!lib?.swap || !target || event.html == null || !styles.test(style)) return null;
  const first = new DOMParser().parseFromString(`<body><template>${event.html}</template>`, 'text/html').querySelector('template')?.content.firstElementChild;
  // The page may have been loaded after the work was done: then what is to be
  // added is there already.
  const there = first?.id && document.getElementById(first.id);
  const swapStyle = there ? 'outerHTML' : style;
  if (there) target = there;
  if (String(lib.version).startsWith('4')) lib.swap({ text: event.html, target, swap: swapStyle, sourceElement: source?.isConnected ? source : target });
  else lib.swap(target, event.html, { swapStyle, swapDelay: 0, settleDelay: 20 });
  return target;
}

/** HX-Trigger: a list of names, or an object with their details. @param {string} header @param {Element} on */
function fire(header, on) {
  /** @type {Record<string, any>} */
  let events;
  try {
    events = header.trim().startsWith('{') ? JSON.parse(header) : Object.fromEntries(header.split(',').map((n) => [n.trim(), null]));
  } catch {
    return;
  }
  for (const [name, detail] of Object.entries(events)) {
    on.dispatchEvent(new CustomEvent(name, { bubbles: true, detail: detail && typeof detail === 'object' ? detail : { value: detail } }));
  }
}
