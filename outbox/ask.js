// @ts-check
// How a page asks: which of its requests are announced, under which name, and
// which row shows them.

import { headers } from './announce.js';
import { changes, deny, either } from './paths.js';

/** @typedef {import('./intent.js').Wish} Wish */

/**
 * @typedef {object} Asking what is about to be requested
 * @property {Element} el the element that asks
 * @property {HTMLFormElement | null} form
 * @property {Element | null} [by] the button that sent it
 * @property {string} method
 * @property {string} url
 * @property {FormData} data
 * @property {boolean} multipart
 * @property {Element | null} [target] where the answer goes
 * @property {string} [swap] how
 */

/**
 * @typedef {object} Asked
 * @property {Wish} wish
 * @property {Element} el
 * @property {string} row its id
 * @property {string} label
 * @property {string} swap
 * @property {boolean} announce
 */

/**
 * @param {FormData} data
 * @returns {{pairs: [string, string][], size: number}}
 */
function weigh(data) {
  let size = 0;
  const pairs = [...data].map(([name, value]) => {
    const text = typeof value === 'string' ? value : `\0${value.name}/${value.size}/${value.lastModified}`;
    size += name.length + (typeof value === 'string' ? 3 * value.length : value.size);
    return /** @type {[string, string]} */ ([name, text]);
  });
  return { pairs, size };
}

/**
 * The attribute: a form's property may be one of its fields, named "id".
 *
 * @param {Element | null | undefined} el
 */
const idOf = (el) => el?.getAttribute('id') ?? '';

/** @param {Element} el @param {Element | null} [target] */
export function rowOf(el, target) {
  return el.closest('[data-outbox-row]') ?? target ?? el;
}

/**
 * What an intent is an intent for: a row, else a form or a control. A wish is
 * known again after a reload if that has an id.
 *
 * @param {Element} el
 * @param {HTMLFormElement | null} form
 */
export function wishRow(el, form) {
  return idOf(el.closest('[data-outbox-row]')) || idOf(form ?? el) || form || el;
}

/**
 * What a person calls it: as the page says, or by what is written on it.
 *
 * @param {Element} el
 * @param {HTMLFormElement | null} form
 */
function labelOf(el, form) {
  const own = (el.closest('[data-outbox-label]') ?? form?.closest('[data-outbox-label]'))?.getAttribute('data-outbox-label');
  if (own) return own;
  const button = el.matches('form') ? el.querySelector('[type=submit],button:not([type])') : el;
  const name = button && (button.getAttribute('aria-label') ?? button.getAttribute('title') ?? (button.textContent || /** @type {any} */ (button).value));
  const typed = el === form || button?.matches('[type=submit],button:not([type])');
  const field = typed && /** @type {HTMLInputElement | null} */ (form?.querySelector('textarea,input[type=text],input[type=search],input:not([type])'));
  return [name, field && field.value]
    .map((s) => String(s || '').trim().replace(/\s+/g, ' '))
    .filter(Boolean)
    .join(': ')
    .slice(0, 120);
}

/** The fields that hold an id made by the client. @param {HTMLFormElement | null} form */
const idFields = (form) =>
  form ? [.../** @type {NodeListOf<HTMLInputElement>} */ (form.querySelectorAll('input[data-outbox-id]'))].map((i) => i.name) : [];

/**
 * @param {{
 *   owner: string,
 *   cfg: {maxBody: number, keyField: string, deny?: RegExp | string},
 *   intents: ReturnType<typeof import('./intent.js').createIntents>,
 * }} page
 */
export function createAsker({ owner, cfg, intents }) {
  const denied = either(deny, cfg.deny);

  return {
    /**
     * Null: the request is none of ours, and gets no key either.
     *
     * @param {Asking} a
     * @returns {Asked | null}
     */
    ask(a) {
      const url = new URL(a.url, document.baseURI);
      url.hash = '';
      if (!changes(a.method) || url.origin !== location.origin || denied.test(url.pathname)) return null;
      const marked = a.el.closest('[data-outbox]')?.getAttribute('data-outbox');
      if (marked === 'off') return null;
      const secret = a.form?.querySelector('input[type=password],[autocomplete^="cc-"]');
      const { pairs, size } = weigh(a.data);
      const row = rowOf(a.el, a.target);
      const wish = intents.choose(wishRow(a.el, a.form), { method: a.method, url: url.href, pairs, idFields: idFields(a.form) });
      const announce = !!owner && !secret && (!a.multipart || marked === 'on') && size <= cfg.maxBody;
      return {
        wish,
        el: a.el,
        row: idOf(row),
        label: labelOf(a.by ?? a.el, a.form),
        swap: idOf(a.target) && a.swap ? `${a.swap} #${CSS.escape(idOf(a.target))}` : '',
        announce,
      };
    },
    /** @param {Asked} asked */
    headers: (asked) => headers({ key: asked.wish.key, owner, label: asked.label, el: asked.row, swap: asked.swap }),
    /**
     * Puts the name into the form's fields, where a plain submission and a
     * browser that sends again by itself take it from.
     *
     * @param {HTMLFormElement} form
     * @param {Wish} wish
     */
    fill(form, wish) {
      let field = /** @type {HTMLInputElement | null} */ (form.querySelector(`input[name="${cfg.keyField}"]`));
      if (!field) {
        field = document.createElement('input');
        field.type = 'hidden';
        field.name = cfg.keyField;
        form.prepend(field); // the guard reads the first part of a multipart body
      }
      field.value = wish.key;
      for (const [name, value] of Object.entries(wish.ids)) {
        for (const i of /** @type {NodeListOf<HTMLInputElement>} */ (form.querySelectorAll('input[data-outbox-id]'))) if (i.name === name) i.value = value;
      }
    },
  };
}
