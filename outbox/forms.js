// @ts-check
// Plain forms, and the second tap. A form's submission is named by its hidden
// field and announced by its action's fragment, both set at the last moment.

import { fragment } from './announce.js';
import { wishRow } from './ask.js';
import { inherited } from './htmx.js';

/** @typedef {import('./page.js').Page} Page */

const hx = ['post', 'put', 'patch', 'delete'].flatMap((v) => [`[hx-${v}]`, `[data-hx-${v}]`]).join();
// What stands in them is pressed for other ends.
const quiet = ':is([hx-trigger],[data-hx-trigger]):not([hx-trigger*=click],[data-hx-trigger*=click],button,input)';
const submit = '[type=submit],[type=image],button:not([type])';

/** @param {Element} form */
const isPost = (form) => form.getAttribute('method')?.toLowerCase() === 'post' || form.matches(hx);

/** Survives the control's being replaced by the answer. @param {Element} el */
function nameOf(el) {
  // The attribute: a form's property may be one of its fields, named "attributes".
  const name = el.getAttributeNames().find((n) => /hx-(post|put|patch|delete)$/.test(n));
  const to = name ? el.getAttribute(name) : el.closest('form')?.getAttribute('action');
  const row = el.closest('[data-outbox-row]') ?? el.closest('[id]');
  return [row?.getAttribute('id'), el.tagName, el.getAttribute('name'), to].join('|');
}

/** @param {Page} page */
export function watchForms(page) {
  const { intents } = page;
  /** @param {string} type @param {(event: any, target: any) => void} fn */
  const on = (type, fn) => addEventListener(type, (event) => event.target instanceof Element && fn(event, event.target), true);

  /** @param {Event} event @param {Element} el @param {any} [by] its button */
  function isFirst(event, el, by) {
    if (el.closest('[data-outbox="off"]') || !intents.second(event.type, el, nameOf(el), by && [by.name, by.value, by.formAction].join())) return true;
    event.preventDefault();
    event.stopImmediatePropagation();
    return false;
  }

  on('click', (event, target) => {
    const el = target.closest(`button,input,select,textarea,${hx}`);
    if (!el || el.matches('form,select,textarea,input:not([type=submit],[type=image],[type=button],[type=checkbox],[type=radio])') || el.matches(quiet)) return;
    if (el.matches(hx) || (el.matches(submit) && el.form && isPost(el.form))) isFirst(event, el);
  });

  on('submit', (event, form) => {
    const { submitter } = event;
    const own = (/** @type {string} */ name) => submitter?.getAttribute('form' + name) ?? form.getAttribute(name) ?? '';
    const script = form.matches(hx);
    if (!(script || /^post$/i.test(own('method'))) || !isFirst(event, form, submitter) || script) return;
    const enctype = own('enctype');
    const url = new URL(own('action') || location.href, document.baseURI);
    const multipart = enctype === 'multipart/form-data';
    const asked = page.ask({ el: form, by: submitter, form, method: 'POST', url: url.href, data: new FormData(form, submitter), multipart });
    if (!asked) return;
    page.fill(form, asked.wish);
    const data = new FormData(form, submitter);
    // Only this page's own navigation, and only where a worker hears of it.
    const target = own('target') || document.querySelector('base[target]')?.getAttribute('target') || '';
    const announce = asked.announce && page.controlled() && /^(_self)?$/i.test(target) && enctype !== 'text/plain';
    const [at, name] = submitter?.hasAttribute('formaction') ? [submitter, 'formaction'] : [form, 'action'];
    const before = at.getAttribute(name);
    if (announce) {
      url.hash = fragment({ ...asked, owner: page.owner, back: location.pathname + location.search });
      at.setAttribute(name, url.href);
    }
    // The browser has looked by then.
    setTimeout(() => {
      if (announce && before === null) at.removeAttribute(name);
      else if (announce) at.setAttribute(name, before);
      // htmx sends a boosted form by itself, and asks again. Of what others send
      // the answer is not heard here: their next press is a new wish.
      if (event.defaultPrevented && /^(false)?$/.test(inherited(form, 'boost') ?? '')) intents.close(wishRow(form));
      if (event.defaultPrevented || !announce) return;
      // As the browser writes it, for the name stands for these very bytes.
      const body = multipart ? data : new URLSearchParams([...data].map(([n, v]) => [n, String(v).replace(/\r?\n|\r/g, '\r\n')]));
      page.left(asked, url.href, { method: 'POST', body });
    });
  });

  // A new content is a new wish.
  on('input', (_, { form }) => form && intents.typed(wishRow(form)));
  on('reset', (_, form) => intents.close(wishRow(form)));
}
