// @ts-check
// What the person sees: the strip, the captions on rows, the list of what waits.
//
// The page takes part by attributes:
//   data-outbox-row      a row; it gets the caption, and data-outbox-state
//                        (waiting, login, refused, ask, stuck) while something
//                        of it is not saved
//   data-outbox-caption  within a row: where its caption goes (else at its end)
//   data-outbox-wish     on a control or form that asks: the word for what it
//                        wishes; its row has data-outbox-wished="word" from the
//                        tap until the answer, for the page's CSS to show
//   data-outbox-open     a button that opens the list
//   data-outbox-edit     on a row: "outbox:edit" there is handled by the page
//   data-outbox-logout   on a form: asks first, while something is not saved
import { outbox } from './page.js';
import { fields, mark, nextLook, readable, reason, stateName, strip } from './kit-view.js';
import { speaker } from './texts.js';

/** @typedef {import('./kit-view.js').Entry} Entry */

const root = document.documentElement;
/** @type {{login?: string, softLimit?: number, texts?: Record<string, string>}} */
const config = JSON.parse(document.querySelector('meta[name=outbox-config]')?.getAttribute('content') || '{}');
const { say, ago } = speaker(root.lang, config.texts);

/**
 * @param {string} tag
 * @param {string} name a class
 * @param {...(Node|string)} children
 */
function make(tag, name, ...children) {
  const el = document.createElement(tag);
  el.className = `outbox-${name}`;
  el.append(...children);
  return el;
}

/**
 * @param {string} name of its words
 * @param {() => unknown} action
 */
function button(name, action, kind = '') {
  const el = /** @type {HTMLButtonElement} */ (make('button', `button ${kind}`, say(name)));
  el.type = 'button';
  el.dataset.act = name;
  el.onclick = action;
  return el;
}

function loginLink() {
  const el = /** @type {HTMLAnchorElement} */ (make('a', 'button', say('enter')));
  el.href = config.login ?? '';
  return el;
}

/** @returns {Entry[]} */
const entries = () => outbox.snapshot.entries ?? [];

/** @type {Map<string, Element>} the elements that were told "it waits", by key */
const asked = new Map();
const seen = () => ({ now: Date.now(), soft: config.softLimit ?? 8000, queued: (/** @type {string} */ key) => asked.has(key) });

// --- The strip ---

const text = make('p', 'text');
text.setAttribute('role', 'status');
text.setAttribute('aria-live', 'polite');
text.setAttribute('aria-atomic', 'true');
const enter = loginLink();
const look = button('look', open);
const bar = make('div', 'strip', text, make('div', 'buttons', enter, look));
bar.id = 'outbox-strip';
bar.hidden = true;

let unsaved = false;
let line = '';
let lineTimer = 0;
let lookTimer = 0;

function drawStrip() {
  // A boosted navigation of htmx replaces the whole body.
  if (!bar.isConnected) document.body.append(bar);
  const parts = strip(/** @type {any} */ (outbox.snapshot), seen());
  // Two sentences are what fits; the list has the rest.
  const all = parts.slice(0, unsaved ? 1 : 2).map((p) => say(p.name, p.n));
  if (unsaved) all.unshift(say('unsaved'));
  const next = all.join('\u00a0· ');
  bar.dataset.state = unsaved ? 'unsaved' : (parts[0]?.name ?? '');
  enter.hidden = !config.login || parts[0]?.name !== 'login';
  look.hidden = !entries().length || parts.every((p) => p.name === 'sending');
  if (next === line) return;
  line = next;
  bar.hidden = !next;
  root.toggleAttribute('data-outbox-strip', !!next);
  // A screen reader speaks of a change in a region that it knows already, so the
  // words come after the strip; and a flush of ten is not ten sentences.
  clearTimeout(lineTimer);
  lineTimer = window.setTimeout(() => (text.textContent = line), next ? 60 : 0);
}

// --- The rows ---

/** @type {Map<Element, string>} what a tap wished, until its entry is known */
const wishes = new Map();

/** @param {Entry} e */
function askerOf(e) {
  const el = asked.get(e.key);
  if (el?.isConnected) return el;
  return e.el ? document.getElementById(e.el.replace(/^#/, '')) : null;
}

function drawRows() {
  /** @type {Map<HTMLElement, Entry[]>} */
  const rows = new Map();
  /** @type {Map<Element, string>} */
  const wished = new Map(wishes);
  for (const e of entries()) {
    const asker = askerOf(e);
    const row = /** @type {HTMLElement|null|undefined} */ (asker?.closest('[data-outbox-row]'));
    if (!row) continue;
    rows.set(row, [...(rows.get(row) ?? []), e]);
    const wish = asker?.closest('[data-outbox-wish]')?.getAttribute('data-outbox-wish');
    if (wish && e.state !== 'refused') wished.set(row, wish);
  }
  for (const el of document.querySelectorAll('[data-outbox-state],[data-outbox-wished]')) {
    const row = /** @type {HTMLElement} */ (el);
    if (!rows.has(row)) unmark(row);
    if (!wished.has(row)) delete row.dataset.outboxWished;
  }
  for (const [row, list] of rows) {
    const m = mark(list, seen());
    if (m) markRow(row, m.state, m.entry);
    else unmark(row);
  }
  for (const [row, wish] of wished) /** @type {HTMLElement} */ (row).dataset.outboxWished = wish;
}

/** @param {HTMLElement} row */
function unmark(row) {
  delete row.dataset.outboxState;
  row.querySelector('.outbox-caption')?.remove();
}

/**
 * @param {HTMLElement} row
 * @param {string} state
 * @param {Entry} entry
 */
function markRow(row, state, entry) {
  row.dataset.outboxState = state;
  let caption = row.querySelector('.outbox-caption');
  if (!caption) {
    caption = make('span', 'caption');
    const place = row.querySelector('[data-outbox-caption]') ?? (row instanceof HTMLTableRowElement && row.cells[row.cells.length - 1]);
    (place || row).append(caption);
  }
  const why = state === 'refused' ? because(entry) : '';
  const words = say(`row.${state}`) + (why && `: ${why}`);
  if (caption.textContent !== words) caption.textContent = words;
}

/** @param {Entry} entry */
function because(entry) {
  const r = reason(entry);
  return !r ? '' : 'text' in r ? r.text : say(r.name, r.n);
}

// --- The list ---

const list = make('ol', 'list');
const none = make('p', 'none', say('none'));
const title = make('h2', 'title', say('title'));
title.id = 'outbox-title';
title.tabIndex = -1;
const sendAll = button('flush', () => outbox.flush());
const dialog = /** @type {HTMLDialogElement} */ (
  make('dialog', 'dialog', title, list, none, make('div', 'actions outbox-foot', sendAll, button('close', () => dialog.close())))
);
dialog.setAttribute('aria-labelledby', title.id);
dialog.onclick = (e) => e.target === dialog && dialog.close();

/**
 * @typedef {object} Item what the list has of an entry
 * @property {HTMLElement} el
 * @property {HTMLElement} label
 * @property {HTMLElement} meta
 * @property {HTMLElement} when
 * @property {HTMLElement} note
 * @property {HTMLElement} actions
 * @property {string} drawn
 * @property {boolean} sure
 */

/** @type {Map<string, Item>} */
const items = new Map();
let ageTimer = 0;
/** @param {Entry} e */
const sendable = (e) => e.state === 'waiting' || e.state === 'stuck';

/** Opens the list of what is not saved. */
export function open() {
  if (!dialog.isConnected) document.body.append(dialog);
  drawList();
  if (!dialog.open) dialog.showModal();
  title.focus();
  clearInterval(ageTimer);
  ageTimer = window.setInterval(() => (dialog.open ? drawList() : clearInterval(ageTimer)), 20_000);
}

function drawList() {
  const shown = entries();
  const keys = new Set(shown.map((e) => e.key));
  for (const [key, item] of items) {
    if (keys.has(key)) continue;
    const had = item.el.contains(document.activeElement);
    item.el.remove();
    items.delete(key);
    if (had) title.focus();
  }
  for (const e of shown) {
    let item = items.get(e.key);
    if (!item) {
      item = newItem();
      items.set(e.key, item);
    }
    const drawn = JSON.stringify([stateName(e), e.label, because(e), item.sure]);
    if (drawn !== item.drawn) {
      item.drawn = drawn;
      drawItem(e, item);
    }
    const words = ago(Date.now() - e.createdAt);
    if (item.when.textContent !== words) item.when.textContent = words;
  }
  none.hidden = !!shown.length;
  sendAll.hidden = !shown.some(sendable);
}

/** @returns {Item} */
function newItem() {
  const [label, meta, note, actions] = [make('p', 'label'), make('p', 'meta'), make('p', 'note'), make('div', 'actions')];
  note.setAttribute('role', 'status');
  const el = make('li', 'item', label, meta, note, actions);
  list.append(el);
  return { el, label, meta, note, actions, when: make('time', 'when'), drawn: '', sure: false };
}

/**
 * @param {Entry} e
 * @param {Item} item
 */
function drawItem(e, item) {
  const active = /** @type {HTMLElement|null} */ (document.activeElement);
  const act = item.actions.contains(active) && active?.dataset.act;
  const ask = (/** @type {boolean} */ sure) => {
    item.sure = sure;
    item.note.textContent = '';
    drawList();
  };
  /** @type {HTMLElement[]} */
  const actions = [];
  if (item.sure) {
    const sure = async () => {
      const result = await outbox.discard(e.key);
      ask(false);
      if (result === 'sending') item.note.textContent = say('away');
    };
    actions.push(button('keep', () => ask(false)), button('sure', sure, 'outbox-danger'));
  } else {
    const state = stateName(e);
    if (state === 'login' && config.login) actions.push(loginLink());
    if (e.state === 'refused') actions.push(button('retry', () => outbox.retry(e.key)));
    if (sendable(e) || state === 'old') actions.push(button('send', () => outbox.retry(e.key)));
    if (state === 'ask') {
      const check = async () => {
        item.note.textContent = '';
        const result = await outbox.look(e.key);
        if (result === 'ask') item.note.textContent = say('unsure');
      };
      actions.push(button('check', check), button('resend', () => outbox.resend(e.key)));
    }
    if (e.state === 'refused' && editable(e)) actions.push(button('edit', () => edit(e)));
    actions.push(
      button('copy', async () => {
        if (await copy(readable(e))) item.note.textContent = say('copied');
      }),
      button('discard', () => ask(true), 'outbox-danger'),
    );
  }
  const why = e.state === 'refused' ? because(e) : '';
  item.el.dataset.state = e.state;
  item.label.textContent = e.label || readable(e).slice(0, 120) || say('change');
  item.meta.replaceChildren(say(`state.${stateName(e)}`) + (why && `: ${why}`), '\u00a0· ', item.when);
  item.actions.replaceChildren(...actions);
  // What had the focus was drawn anew; "delete" becomes the question, whose safe
  // answer comes first.
  if (act) (actions.find((a) => a.dataset.act === act) ?? actions[0]).focus();
}

/** @param {string} words */
async function copy(words) {
  try {
    await navigator.clipboard.writeText(words);
    return true;
  } catch {
    // Plain http on a LAN has no clipboard: the old way, by a selection.
    const area = /** @type {HTMLTextAreaElement} */ (make('textarea', 'copy'));
    area.value = words;
    dialog.append(area);
    area.select();
    const done = document.execCommand('copy');
    area.remove();
    return done;
  }
}

// --- Editing what was refused ---

/** @type {Map<HTMLFormElement, string>} forms that hold a refused entry's text */
const editing = new Map();

/** @param {Entry} e */
function formOf(e) {
  const path = new URL(e.url, location.href).pathname;
  return [...document.forms].find(
    (f) => new URL(f.getAttribute('hx-post') || f.action, location.href).pathname === path && fields(e.bodyText).length > 0,
  );
}

/** @param {Entry} e */
const editable = (e) => !!askerOf(e)?.closest('[data-outbox-edit]') || !!formOf(e);

/**
 * Puts the text back where it was written. The entry stays until that form is
 * submitted again: until then it is the only copy that outlives the page.
 *
 * @param {Entry} e
 */
function edit(e) {
  dialog.close();
  const event = new CustomEvent('outbox:edit', { bubbles: true, cancelable: true, detail: { key: e.key, entry: e } });
  if (!(askerOf(e) ?? document).dispatchEvent(event)) return;
  const form = formOf(e);
  if (!form) return;
  /** @type {HTMLElement|undefined} */
  let first;
  for (const [name, value] of fields(e.bodyText)) {
    const field = form.elements.namedItem(name);
    if (!(field instanceof HTMLElement) || (field instanceof HTMLInputElement && field.type === 'hidden')) continue;
    if (field instanceof HTMLInputElement && /^(checkbox|radio)$/.test(field.type)) field.checked = field.value === value;
    else if ('value' in field) field.value = value;
    field.dispatchEvent(new Event('input', { bubbles: true }));
    first ??= field;
  }
  editing.set(form, e.key);
  first?.focus();
}

document.addEventListener(
  'submit',
  (event) => {
    const form = /** @type {HTMLFormElement} */ (event.target);
    const key = editing.get(form);
    if (!key) return;
    editing.delete(form);
    outbox.discard(key);
  },
  true,
);

// --- Leaving ---

document.addEventListener(
  'submit',
  (event) => {
    const form = /** @type {HTMLFormElement} */ (event.target);
    const left = entries();
    if (!form.matches('[data-outbox-logout]') || !left.length || form.dataset.outboxLogout === 'yes') return;
    event.preventDefault();
    event.stopImmediatePropagation();
    const by = /** @type {SubmitEvent} */ (event).submitter;
    const note = make('p', 'note');
    note.setAttribute('role', 'status');
    const leave = () => {
      form.dataset.outboxLogout = 'yes';
      form.requestSubmit(by);
    };
    const send = button('leave.send', async () => {
      send.disabled = true;
      note.textContent = say('sending');
      for (const e of left) if (e.state === 'refused' || e.state === 'stuck') outbox.retry(e.key);
      outbox.flush();
      for (let i = 0; i < 50 && entries().length; i++) await new Promise((r) => setTimeout(r, 200));
      send.disabled = false;
      if (entries().length) note.textContent = say('leave.failed');
      else leave();
    });
    const drop = button(
      'leave.drop',
      async () => {
        for (const e of left) await outbox.discard(e.key);
        leave();
      },
      'outbox-danger',
    );
    const ask = /** @type {HTMLDialogElement} */ (
      make('dialog', 'dialog', make('h2', 'title', say('leave', left.length)), note,
        make('div', 'actions outbox-column', send, button('leave.keep', leave), drop, button('leave.stay', () => ask.close())))
    );
    ask.setAttribute('aria-label', say('leave', left.length));
    ask.onclose = () => ask.remove();
    document.body.append(ask);
    ask.showModal();
  },
  true,
);

// --- What happens ---

export function refresh() {
  drawStrip();
  drawRows();
  if (dialog.open) drawList();
  clearTimeout(lookTimer);
  const wait = nextLook(entries(), seen());
  if (wait) lookTimer = window.setTimeout(refresh, wait);
}

let badge = 0;
outbox.addEventListener('change', () => {
  refresh();
  const n = entries().length;
  if (n !== badge) (n ? navigator.setAppBadge?.(n) : navigator.clearAppBadge?.())?.catch(() => {});
  badge = n;
});

document.addEventListener('outbox:queued', (event) => {
  const key = /** @type {CustomEvent} */ (event).detail?.key;
  if (key && event.target instanceof Element) asked.set(key, event.target);
  unsaved = false;
  refresh();
});
for (const type of ['outbox:delivered', 'outbox:refused']) {
  document.addEventListener(type, (event) => {
    asked.delete(/** @type {CustomEvent} */ (event).detail?.key);
    unsaved = false;
    unwish(event);
  });
}
document.addEventListener('outbox:unsaved', (event) => {
  unsaved = true;
  unwish(event);
});
// Rows come and go with htmx (2 and 4).
for (const type of ['htmx:afterSettle', 'htmx:after:swap']) document.addEventListener(type, refresh);

// --- Wishes: the tap shows at once ---

/** @param {Event} event */
const rowOf = (event) => (event.target instanceof Element ? event.target.closest('[data-outbox-row]') : null);

/** @param {Event} event */
function wish(event) {
  const row = rowOf(event);
  const word = /** @type {Element} */ (event.target).closest?.('[data-outbox-wish]')?.getAttribute('data-outbox-wish');
  if (!row || !word) return;
  wishes.set(row, word);
  drawRows();
  // The control that was pressed may be gone now, and the focus with it.
  const active = document.activeElement;
  if (active && row.contains(active) && !active.getClientRects().length) {
    const shown = [...row.querySelectorAll('[data-outbox-wish]')].flatMap((el) => [el, ...el.querySelectorAll('button')]);
    /** @type {HTMLElement|undefined} */ (shown.find((el) => el.matches('button,a,input') && el.getClientRects().length))?.focus();
  }
}

/** @param {Event} event */
function unwish(event) {
  const row = rowOf(event);
  if (row) wishes.delete(row);
  refresh();
}
for (const type of ['htmx:beforeRequest', 'htmx:before:request', 'submit']) document.addEventListener(type, wish);
for (const type of ['htmx:afterRequest', 'htmx:finally:request']) document.addEventListener(type, unwish);

// A double tap on a row whose first tap has put the opposite control under the
// finger is one tap: the second is nobody's wish.
let tap = { row: '', word: '', at: -1000 };
document.addEventListener(
  'click',
  (event) => {
    const target = /** @type {Element} */ (event.target);
    if (target.closest?.('[data-outbox-open]')) open();
    const word = target.closest?.('[data-outbox-wish]')?.getAttribute('data-outbox-wish');
    const row = rowOf(event)?.id;
    if (!word || !row) return;
    if (event.timeStamp - tap.at < 500 && tap.row === row && tap.word !== word) {
      event.preventDefault();
      event.stopImmediatePropagation();
      return;
    }
    tap = { row, word, at: event.timeStamp };
  },
  true,
);

refresh();
