// @ts-check
// Plain forms, and the second tap. A form's submission is named by its hidden
// field and announced by its action's fragment, both set at the last moment.

import { fragment } from './announce.js';
import { wishRow } from './ask.js';

/** @typedef {import('./page.js').Page} Page */

const hx = ['post', 'put', 'patch', 'delete'].flatMap((v) => [`[hx-${v}]`, `[data-hx-${v}]`]).join();
const submit = '[type=submit],[type=image],button:not([type])';

/** @param {Element} form */
const isPost = (form) => form.getAttribute('method')?.toLowerCase() === 'post' || form.matches(hx);

/** Survives the control's being replaced by the answer. @param {Element} el */
function nameOf(el) {
  const at = [...el.attributes].find(({ name }) => /hx-(post|put|patch|delete)$/.test(name)) ?? el.closest('form')?.getAttributeNode('action');
  const row = el.closest('[data-outbox-row]') ?? el.closest('[id]');
  return [row?.getAttribute('id'), el.tagName, el.getAttribute('name'), at?.value].join('|');
}

/** @param {Page} page */
export function watchForms(page) {
  const { intents } = page;
  /** @param {string} type @param {(event: any, target: any) => void} fn */
  const on = (type, fn) => addEventListener(type, (event) => event.target instanceof Element && fn(event, event.target), true);

  /** @param {Event} event @param {Element} el */
  function isFirst(event, el) {
    if (el.closest('[data-outbox="off"]') || !intents.second(event.type, el, nameOf(el))) return true;
    event.preventDefault();
    event.stopImmediatePropagation();
    return false;
  }

  on('click', (event, target) => {
    const el = target.closest(`button,input,select,textarea,${hx}`);
    if (!el || el.matches('form,select,textarea,input:not([type=submit],[type=image],[type=button],[type=checkbox],[type=radio])')) return;
    if (el.matches(hx) || (el.matches(submit) && el.form && isPost(el.form))) isFirst(event, el);
  });

  on('submit', (event, form) => {
    if (!isPost(form) || !isFirst(event, form) || form.matches(hx)) return;
    const { submitter } = event;
    const own = (/** @type {string} */ name) => submitter?.getAttribute('form' + name) ?? form.getAttribute(name) ?? '';
    if (own('method').toLowerCase() !== 'post') return;
    const enctype = own('enctype');
    const url = new URL(own('action') || location.href, document.baseURI);
    const multipart = enctype === 'multipart/form-data';
    const asked = page.ask({ el: form, by: submitter, form, method: 'POST', url: url.href, data: new FormData(form, submitter), multipart });
    if (!asked) return;
    page.fill(form, asked.wish);
    const data = new FormData(form, submitter);
    // Only this page's own navigation, and only where a worker hears of it.
    if (!asked.announce || !page.controlled() || !/^(_self)?$/i.test(own('target')) || enctype === 'text/plain') return;
    const [at, name] = submitter?.hasAttribute('formaction') ? [submitter, 'formaction'] : [form, 'action'];
    const before = at.getAttribute(name);
    url.hash = fragment({ ...asked, owner: page.owner, back: location.pathname + location.search });
    at.setAttribute(name, url.href);
    // The browser has looked by then. htmx sends a boosted form by itself.
    setTimeout(() => {
      if (before === null) at.removeAttribute(name);
      else at.setAttribute(name, before);
      if (event.defaultPrevented) return;
      // As the browser writes it, for the name stands for these very bytes.
      const body = multipart ? data : new URLSearchParams([...data].map(([n, v]) => [n, String(v).replace(/\r?\n|\r/g, '\r\n')]));
      page.left(asked, url.href, { method: 'POST', body });
    });
  });

  // A new content is a new wish.
  on('input', (_, { form }) => form && intents.typed(wishRow(form)));
  on('reset', (_, form) => intents.close(wishRow(form)));
}
