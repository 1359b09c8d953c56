// @ts-check
// A refused entry's text, put back where it was written. Loaded when something is
// refused.
import { outbox } from './page.js';
import { fields } from './kit-view.js';

/** @typedef {import('./kit-view.js').Entry} Entry */

/** @type {Map<HTMLFormElement, string>} forms that hold a refused entry's text */
const editing = new Map();

/**
 * The fields of a form that a person fills in and an entry speaks of, each with
 * all that the entry has under its name.
 *
 * @param {HTMLFormElement} form
 * @param {Entry} e
 */
function fieldsIn(form, e) {
  const said = fields(e.bodyText);
  const all = /** @type {NodeListOf<HTMLInputElement>} */ (document.querySelectorAll('input:not([type=hidden],[type=file]),textarea,select'));
  return [...all]
    .filter((field) => field.form === form)
    .map((field) => ({ field, values: said.filter(([name]) => name === field.name).map(([, value]) => value) }))
    // A box that is not ticked is not sent at all.
    .filter(({ field, values }) => values.length || (said.length && field.type === 'checkbox'));
}

/** @param {Entry} e */
function formOf(e) {
  const path = new URL(e.url, location.href).pathname;
  return [...document.forms].find((form) => {
    const to = ['hx-post', 'hx-put', 'hx-patch', 'action'].map((name) => form.getAttribute(name)).find(Boolean) ?? '';
    return Object.assign(document.createElement('a'), { href: to }).pathname === path && fieldsIn(form, e).length > 0;
  });
}

/**
 * @param {Entry} e
 * @param {Element | null} asker
 */
export const editable = (e, asker) => !!(asker?.closest('[data-outbox-edit]') || formOf(e));

/**
 * The entry stays until the form is submitted again: until then it is the only
 * copy that outlives the page.
 *
 * @param {Entry} e
 * @param {Element | null} asker
 */
export function edit(e, asker) {
  const event = new CustomEvent('outbox:edit', { bubbles: true, cancelable: true, detail: { key: e.key, entry: e } });
  const form = formOf(e);
  if (!(asker ?? document).dispatchEvent(event) || !form) return;
  const all = fieldsIn(form, e);
  const places = new Map();
  for (const { field, values } of all) {
    const i = places.get(field.name) ?? 0;
    places.set(field.name, i + 1);
    if (/^(checkbox|radio)$/.test(field.type)) field.checked = values.includes(field.value);
    else if (field instanceof HTMLSelectElement) for (const o of field.options) o.selected = values.includes(o.value);
    // What somebody is typing there stays.
    else field.value = [values[i], /^text/.test(field.type) && field.value !== field.defaultValue && field.value].filter(Boolean).join(' ');
    field.dispatchEvent(new Event('input', { bubbles: true }));
  }
  editing.set(form, e.key);
  all[0].field.focus();
}

document.addEventListener('submit', ({ target }) => {
  const form = /** @type {HTMLFormElement} */ (target);
  const key = editing.get(form);
  editing.delete(form);
  if (key) void outbox.discard(key);
}, true);
