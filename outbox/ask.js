// @ts-check
// How a page asks: which of its requests are announced, under which name, and
// which row shows them.

import { changes, deny, either } from './paths.js';

/** @typedef {import('./types.js').Wish} Wish */

/**
 * The attribute: a form's property may be one of its fields, named "id".
 *
 * @param {Element | null | undefined} el
 */
const idOf = (el) => el?.getAttribute('id') ?? '';

/** @param {HTMLFormElement | null} form @returns {HTMLInputElement[]} the fields that hold an id made by the client */
const idFields = (form) => [...(form?.querySelectorAll('input[data-outbox-id]') ?? [])].map((i) => /** @type {any} */ (i));

/**
 * What an intent is an intent for: a row, else a form or a control. A wish is
 * known again after a reload if that has an id.
 *
 * @param {Element} el
 * @param {Element | null} [form]
 */
export const wishRow = (el, form = el) => idOf(el.closest('[data-outbox-row]')) || idOf(form ?? el) || form || el;

/**
 * What a person calls it: as the page says, or by what is written on it.
 *
 * @param {Element} el
 * @param {HTMLFormElement | null} form
 */
function labelOf(el, form) {
  const said = (el.closest('[data-outbox-label]') ?? form?.closest('[data-outbox-label]'))?.getAttribute('data-outbox-label');
  const submit = '[type=submit],button:not([type])';
  const on = /** @type {any} */ (el === form ? el.querySelector(submit) : el);
  const field = on?.matches(submit) && /** @type {any} */ (form)?.querySelector('textarea,input[type=text],input[type=search],input:not([type])');
  const own = [on?.getAttribute('aria-label') ?? on?.title ?? '', field?.value].map((s) => String(s || '').trim().replace(/\s+/g, ' '));
  own[0] ||= (on?.textContent || on?.value || '').trim().replace(/\s+/g, ' ');
  return said || own.filter(Boolean).join(': ').slice(0, 120);
}

/**
 * @param {{
 *   owner: string,
 *   cfg: {maxBody: number, keyField: string, deny?: RegExp | string},
 *   intents: ReturnType<typeof import('./intent.js').createIntents>,
 * }} page
 */
export function createAsker({ owner, cfg, intents }) {
  const denied = either(deny, cfg.deny);
  /** Where it goes, if that may be taken. @param {string} method @param {string | URL} url */
  function takes(method, url) {
    const to = new URL(url, document.baseURI);
    return changes(method) && to.origin === location.origin && !denied.test(to.pathname) && to;
  }

  return {
    takes,
    /**
     * Null: the request is none of ours, and gets no key either.
     *
     * @param {import('./types.js').Asking} a
     * @returns {(import('./types.js').Who & {wish: Wish, announce: boolean}) | null}
     */
    ask({ el, form, by, method, url, data, multipart, target, swap = '' }) {
      const to = takes(method, url);
      const marked = el.closest('[data-outbox]')?.getAttribute('data-outbox');
      if (!to || marked === 'off') return null;
      let size = 0;
      const pairs = [...data].map(([name, v]) => {
        const text = typeof v === 'string' ? v : `\0${v.name}/${v.size}/${v.lastModified}`;
        size += name.length + (typeof v === 'string' ? 3 * v.length : v.size);
        return /** @type {[string, string]} */ ([name, text]);
      });
      const wish = intents.choose(wishRow(el, form), { method, url: to.origin + to.pathname + to.search, pairs, idFields: idFields(form).map((i) => i.name) });
      // A password that is shown is one, and so is what stands beside its form.
      const secrets = 'input[type=password],[autocomplete*=password i],[autocomplete*="cc-" i]';
      const secret = form && [.../** @type {any} */ (form.getRootNode()).querySelectorAll(secrets)].some((field) => field.form === form);
      return {
        key: wish.key,
        wish,
        asker: el,
        el: idOf(el.closest('[data-outbox-row]') ?? target ?? el),
        label: labelOf(by ?? el, form),
        coalesce: el.closest('[data-outbox-coalesce]')?.getAttribute('data-outbox-coalesce') ?? '',
        swap,
        target,
        announce: !!owner && !secret && (!multipart || marked === 'on') && size <= cfg.maxBody,
      };
    },
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
      for (const i of idFields(form)) i.value = wish.ids[i.name] ?? i.value;
    },
  };
}
