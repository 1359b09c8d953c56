// @ts-check
// Plain forms, and the second tap. A form's submission is named by its hidden
// field and announced by its action's fragment, both set at the last moment.

import { fragment } from './announce.js';
import { wishRow } from './ask.js';

/** @typedef {import('./page.js').Page} Page */

const hx = ['post', 'put', 'patch', 'delete'].flatMap((v) => [`[hx-${v}]`, `[data-hx-${v}]`]).join();
const pressed = ['submit', 'image', 'button', 'checkbox', 'radio'].map((t) => `[type=${t}]`).join();

/** @param {Element} form */
const isPost = (form) => form.getAttribute('method')?.toLowerCase() === 'post' || form.matches(hx);

/** Survives the control's being replaced by the answer. @param {Element} el */
function nameOf(el) {
  const row = el.closest('[data-outbox-row]') ?? el.closest('[id]');
  const does = el.matches(hx) ? [...el.attributes].find((a) => /^(data-)?hx-(post|put|patch|delete)$/.test(a.name)) : null;
  return [row?.getAttribute('id'), el.tagName, el.getAttribute('name'), does?.value ?? el.closest('form')?.getAttribute('action')].join('|');
}

/** @param {Page} page */
export function watchForms(page) {
  /** @param {Event} event @param {Element} el */
  function once(event, el) {
    if (el.closest('[data-outbox="off"]') || !page.intents.second(event.type, el, nameOf(el))) return true;
    event.preventDefault();
    event.stopImmediatePropagation();
    return false;
  }

  addEventListener(
    'click',
    (event) => {
      const el = event.target instanceof Element ? event.target.closest(`button,input,select,textarea,${hx}`) : null;
      if (!el || el.matches(`form,select,textarea,input:not(${pressed})`)) return;
      const form = /** @type {any} */ (el).form;
      const submits = el.matches('button:not([type]),[type=submit],[type=image]') && form && isPost(form);
      if (submits || el.matches(hx)) once(event, el);
    },
    true,
  );

  addEventListener(
    'submit',
    (event) => {
      const form = /** @type {HTMLFormElement} */ (event.target);
      if (!isPost(form) || !once(event, form) || form.matches(hx)) return;
      name(event, form);
    },
    true,
  );

  /** @param {SubmitEvent} event @param {HTMLFormElement} form */
  function name(event, form) {
    const submitter = /** @type {HTMLButtonElement | null} */ (event.submitter);
    const own = (/** @type {string} */ name) => submitter?.getAttribute('form' + name) ?? form.getAttribute(name) ?? '';
    if (own('method').toLowerCase() !== 'post') return;
    const action = submitter?.hasAttribute('formaction') ? submitter : form;
    const attribute = action === form ? 'action' : 'formaction';
    const before = action.getAttribute(attribute);
    const enctype = own('enctype').toLowerCase();
    const asked = page.ask({
      el: form,
      by: submitter,
      form,
      method: 'POST',
      url: before || location.href,
      data: new FormData(form, submitter),
      multipart: enctype === 'multipart/form-data',
    });
    if (!asked) return;
    page.fill(form, asked.wish);
    const here = /^(_self)?$/i.test(own('target'));
    // htmx sends a boosted form by itself, and so may others; the fragment is
    // only there while the browser looks.
    if (!asked.announce || !page.controlled() || !here || enctype === 'text/plain') return;
    const url = new URL(before || location.href, document.baseURI);
    url.hash = fragment({ key: asked.wish.key, owner: page.owner, back: location.pathname + location.search, label: asked.label, el: asked.row });
    action.setAttribute(attribute, url.href);
    setTimeout(() => {
      if (before === null) action.removeAttribute(attribute);
      else action.setAttribute(attribute, before);
      if (!event.defaultPrevented) page.left(asked.wish.key, asked);
    });
  }

  // A new content is a new wish. Form fields only: a checkbox with hx-post is a
  // control and says what it wants by its value.
  for (const type of ['input', 'reset']) {
    addEventListener(
      type,
      (event) => {
        const form = event.target instanceof HTMLFormElement ? event.target : /** @type {any} */ (event.target)?.form;
        if (form) page.intents[type === 'input' ? 'typed' : 'close'](wishRow(form, form));
      },
      true,
    );
  }
}
