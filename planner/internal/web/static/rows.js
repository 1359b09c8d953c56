// @ts-check
// What a tap on a row shows: at once what was wished, whatever the network does;
// a way back for a while; and in the end what the server says.
import { outbox } from '../outbox/page.js';
import { keepRows, leave, place, refresh, rowOf, rows, tidy } from './lists.js';

/** How long "undo" is offered. */
const OFFER = 8000;

/**
 * @typedef {object} Wish what a request asks of a task
 * @property {string} task
 * @property {'completed' | 'deleted'} field
 * @property {boolean} value
 * @property {number} order
 * @property {boolean} waits it was answered with "kept, will be sent"
 * @property {boolean} seen the outbox's list has had it
 */

/** @type {Map<string, Wish>} requests under way, by their key */
const wishes = new Map();
let order = 0;

/**
 * What the entries of the outbox and the requests under way wish of a task: the
 * last one counts.
 *
 * @param {string} task
 * @param {'completed' | 'deleted'} field
 * @returns {boolean | undefined} undefined: nothing
 */
function wished(task, field) {
  /** @type {boolean | undefined} */
  let value;
  const listed = new Set();
  for (const e of entries()) {
    listed.add(e.key);
    const w = wishOf(e.url, e.bodyText ?? '');
    if (w?.task === task && w.field === field) value = w.value;
  }
  let last = -1;
  for (const [key, w] of wishes) {
    if (w.task !== task || w.field !== field || listed.has(key) || w.order < last) continue;
    value = w.value;
    last = w.order;
  }
  return value;
}

/** The outbox's entries that will still be done, in the line's order. */
const entries = () => (outbox.snapshot.entries ?? []).filter((e) => e.state !== 'refused' && e.state !== 'parked');

/**
 * @param {string} url
 * @param {string} body
 * @returns {{task: string, field: 'completed' | 'deleted', value: boolean} | null}
 */
function wishOf(url, body) {
  const m = /^\/tasks\/([\w-]+)\/(state|trash)$/.exec(new URL(url, location.href).pathname);
  if (!m) return null;
  const field = m[2] === 'state' ? 'completed' : 'deleted';
  const value = new URLSearchParams(body).get(field);
  return value === null ? null : { task: m[1], field, value: value === 'true' };
}

/**
 * The title that a waiting change gives a task.
 *
 * @param {string} task
 * @returns {string | undefined}
 */
function retitled(task) {
  let title;
  for (const e of entries()) {
    if (new URL(e.url, location.href).pathname === `/tasks/${task}/fields`) title = new URLSearchParams(e.bodyText ?? '').get('title') ?? title;
  }
  return title;
}

/**
 * Draws a row as it is wished to be. The control always sends the opposite of
 * what is shown, so that a tap on a row that waits takes the wish back.
 *
 * @param {HTMLElement} row
 */
function paint(row) {
  const task = row.dataset.task ?? '';
  const circle = row.querySelector('.circle');
  if (circle) {
    const done = wished(task, 'completed') ?? row.classList.contains('is-done');
    if (circle.getAttribute('aria-pressed') !== String(done)) circle.setAttribute('aria-pressed', String(done));
    set(row, '.tick input[name=completed]', !done);
  }
  const words = row.querySelector('.row-title');
  const title = retitled(task);
  if (words && (title ?? words.textContent) !== words.textContent) {
    row.dataset.title ??= words.textContent ?? '';
    words.textContent = title ?? '';
  } else if (words && title === undefined && row.dataset.title !== undefined) {
    words.textContent = row.dataset.title;
    delete row.dataset.title;
  }
  const gone = wished(task, 'deleted') ?? row.classList.contains('is-deleted');
  set(row, 'input[name=deleted]', !gone);
  // On the page of the trash it is the other way round: what was restored goes.
  const away = gone !== (main()?.dataset.refresh === '/trash') && (wished(task, 'deleted') !== undefined || leaving.has(task));
  if (row.hidden !== away) {
    row.hidden = away;
    tidy();
  }
}

/** @param {HTMLElement} row @param {string} selector @param {boolean} value */
function set(row, selector, value) {
  const input = /** @type {HTMLInputElement | null} */ (row.querySelector(selector));
  if (input && input.value !== String(value)) input.value = String(value);
}

const main = () => document.querySelector('main');

function paintAll() {
  for (const row of rows()) paint(row);
}

// --- The way of a request ---

/** @param {any} event @returns {string} */
const keyOf = (event) => event.detail.requestConfig?.headers?.['Idempotency-Key'] ?? `none-${order}`;

document.addEventListener('htmx:beforeRequest', (event) => {
  const config = /** @type {any} */ (event).detail.requestConfig;
  const body = new URLSearchParams([...(config.formData ?? [])].map(([k, v]) => [k, String(v)])).toString();
  const wish = wishOf(config.path, body);
  if (!wish) return;
  wishes.set(keyOf(event), { ...wish, order: ++order, waits: false, seen: false });
  const row = rowOf(wish.task);
  if (!row) return;
  paint(row);
  if (wish.field === 'completed') navigator.vibrate?.(wish.value ? 12 : 6);
  const form = /** @type {Element} */ (event.target).closest('form');
  if (wish.value && form) offer(wish.task, wish.field, form);
  else withdraw(wish.task);
});

document.addEventListener('htmx:afterRequest', (event) => {
  const { xhr } = /** @type {any} */ (event).detail;
  const key = keyOf(event);
  const wish = wishes.get(key);
  if (!wish) return;
  // No answer at all is no refusal: the request may lie in the outbox, which says
  // so in a moment, or says that it does not.
  if (xhr.getResponseHeader('X-Outbox-Queued') || (!xhr.status && !key.startsWith('none'))) {
    wish.waits = true;
    return;
  }
  wishes.delete(key);
  const row = rowOf(wish.task);
  if (row) paint(row);
});

document.addEventListener('htmx:afterSwap', () => {
  paintAll();
  for (const row of rows()) if (row.dataset.v) place(row);
  settled();
});

/** @type {ReturnType<typeof setTimeout> | undefined} */
let settling;

/** Something was accepted: the lists may have got a next task, or lost one. */
function settled() {
  clearTimeout(settling);
  settling = setTimeout(refresh, 400);
}

for (const type of ['outbox:delivered', 'outbox:refused', 'outbox:unsaved']) {
  document.addEventListener(type, (event) => {
    wishes.delete(/** @type {CustomEvent} */ (event).detail?.key);
    paintAll();
    if (type !== 'outbox:unsaved') settled();
  });
}

let waiting = 0;
outbox.addEventListener('change', () => {
  const keys = new Set(entries().map((e) => e.key));
  for (const [key, wish] of wishes) {
    if (keys.has(key)) wish.seen = true;
    else if (wish.waits && wish.seen) wishes.delete(key);
  }
  paintAll();
  const all = outbox.snapshot.entries?.length ?? 0;
  if (all < waiting) settled();
  waiting = all;
});

// Each refusal has words, and the row goes back to the truth.
for (const type of ['htmx:responseError', 'htmx:sendError', 'htmx:timeout']) {
  document.addEventListener(type, (event) => {
    const { xhr, elt } = /** @type {any} */ (event).detail;
    if (elt?.closest('.is-waiting-new')) return; // add.js tells of it
    const text = xhr?.status ? String(xhr.responseText ?? '').trim() : '';
    const words = text && !text.startsWith('<') && text.length < 200 ? text : '';
    settled();
    if (type !== 'htmx:responseError') {
      // Of what the outbox has, the outbox tells.
      if (keyOf(event).startsWith('none')) say(bar?.dataset.failed ?? '');
      return;
    }
    // Where the row has the outbox's caption, that says it.
    const row = elt?.closest('[data-outbox-row]');
    setTimeout(() => {
      if (!row?.dataset.outboxState) say(`${bar?.dataset.refused}${words ? `: ${words}` : ''}`);
      else hush();
    }, 300);
  });
}

// --- The way back ---

const bar = document.getElementById('snackbar');
/** @type {Map<string, ReturnType<typeof setTimeout>>} tasks that leave their list when the offer is over */
const leaving = new Map();
/** @type {ReturnType<typeof setTimeout> | undefined} */
let saying;

keepRows((row) => leaving.has(row.dataset.task ?? '') || pending(row));

/** @param {HTMLElement} row whether something of it is not answered yet */
function pending(row) {
  const task = row.dataset.task ?? '';
  return wished(task, 'completed') !== undefined || wished(task, 'deleted') !== undefined || !!row.dataset.outboxState || !!row.querySelector('.htmx-request');
}

/**
 * @param {string} text
 * @param {{words: string, action: () => void}} [button]
 */
export function say(text, button) {
  if (!bar) return;
  const p = document.createElement('p');
  p.textContent = text;
  bar.replaceChildren(p);
  if (button) {
    const b = document.createElement('button');
    b.type = 'button';
    b.className = 'text-button';
    b.textContent = button.words;
    b.onclick = button.action;
    bar.append(b);
  }
  bar.hidden = false;
  clearTimeout(saying);
  saying = setTimeout(hush, OFFER);
}

export function hush() {
  if (bar) bar.hidden = true;
}

/**
 * Offers to take back what was just asked for, by the row's own control.
 *
 * @param {string} task
 * @param {'completed' | 'deleted'} field
 * @param {Element} form
 */
function offer(task, field, form) {
  const label = form.getAttribute('data-label') ?? '';
  const words = (field === 'completed' ? bar?.dataset.done : bar?.dataset.deleted) ?? '';
  say(label ? `${words}: ${label}` : words, {
    words: bar?.dataset.undo ?? '',
    action: () => {
      hush();
      const now = /** @type {HTMLFormElement | null} */ (document.getElementById(form.id));
      now?.querySelector('button')?.click();
    },
  });
  clearTimeout(leaving.get(task));
  const end = () => {
    leaving.delete(task);
    const row = rowOf(task);
    if (!row) return;
    if (pending(row)) {
      // It waits for the network: it stays, so that the person sees it.
      leaving.set(task, setTimeout(end, 1000));
      return;
    }
    if (row.classList.contains('is-done') || row.classList.contains('is-deleted')) leave(row);
    else refresh();
  };
  leaving.set(task, setTimeout(end, OFFER));
}

/** @param {string} task */
function withdraw(task) {
  clearTimeout(leaving.get(task));
  leaving.delete(task);
  hush();
}

document.addEventListener('planner:fresh', paintAll);

// One menu is open at a time, and a tap elsewhere or Escape closes it.
/** @param {Element | null} [but] */
const closeMenus = (but) => {
  for (const menu of document.querySelectorAll('.menu[open]')) if (menu !== but) menu.removeAttribute('open');
};
// The last row's would open behind what stands at the bottom.
document.addEventListener('toggle', ({ target }) => /** @type {Element} */ (target).matches('.menu[open]') && /** @type {Element} */ (target).scrollIntoView({ block: 'nearest' }), true);
document.addEventListener('click', (event) => closeMenus(/** @type {Element} */ (event.target).closest('.menu')));
document.addEventListener('keydown', (event) => {
  if (event.key !== 'Escape') return;
  const open = document.activeElement?.closest('.menu[open]');
  closeMenus();
  /** @type {HTMLElement | null | undefined} */ (open?.querySelector('summary'))?.focus();
});

paintAll();
