// @ts-check
// What the person sees: the strip, the captions on rows, the list of what waits.
//
// The page takes part by attributes:
//   data-outbox-row      a row; it gets the caption, and data-outbox-state
//                        (waiting, login, refused, ask, stuck) while something
//                        of it is not saved
//   data-outbox-caption  within a row: where its caption goes (else at its end)
//   data-outbox-open     a button that opens the list
//   data-outbox-edit     on a row: "outbox:edit" there is handled by the page
//   data-outbox-logout   on a form: asks first, while something is not saved
import { outbox } from './page.js';
import { fields, mark, nextLook, readable, reason, stateName, strip } from './kit-view.js';
import { speaker, spoken } from './texts.js';

/** @typedef {import('./kit-view.js').Entry} Entry */

const root = document.documentElement;
/** @type {{login?: string, softLimit?: number, texts?: Record<string, string>}} */
const config = JSON.parse(document.querySelector('meta[name=outbox-config]')?.getAttribute('content') || '{}');
const { words } = await import(`./words.${spoken(root.lang)}.js`);
const { say, ago } = speaker(root.lang, words, config.texts);

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

/** @param {string} name */
function makeStatus(name) {
  const el = make('p', name);
  el.setAttribute('role', 'status');
  el.setAttribute('aria-live', 'polite');
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

/** @param {...(Node|string)} children */
function makeDialog(...children) {
  const el = /** @type {HTMLDialogElement} */ (make('dialog', 'dialog', ...children));
  el.onclick = (event) => event.target === el && el.close();
  return el;
}

/**
 * @param {string} types
 * @param {(event: any) => void} fn
 */
function on(types, fn, capture = false) {
  for (const type of types.split(' ')) document.addEventListener(type, fn, capture);
}

/** @returns {Entry[]} */
const entries = () => outbox.snapshot.entries ?? [];

/** @type {Map<string, EventTarget>} who was told "it waits" (an element, or the document), by key */
const asked = new Map();
const seen = () => ({
  now: Date.now(),
  soft: config.softLimit ?? 8000,
  login: entries().some((e) => e.state === 'login' || e.state === 'parked'),
  queued: (/** @type {string} */ key) => asked.has(key),
});
/** @param {Entry} e */
const stateOf = (e) => stateName(e, seen().login);

// --- The strip ---

const text = makeStatus('text');
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

/** @param {Entry} e */
function askerOf(e) {
  const el = asked.get(e.key);
  if (el instanceof Element && el.isConnected) return el;
  return e.el ? document.getElementById(e.el.replace(/^#/, '')) : null;
}

function drawRows() {
  /** @type {Map<HTMLElement, Entry[]>} */
  const rows = new Map();
  for (const e of entries()) {
    const row = /** @type {HTMLElement|null|undefined} */ (askerOf(e)?.closest('[data-outbox-row]'));
    if (row) rows.set(row, [...(rows.get(row) ?? []), e]);
  }
  for (const row of document.querySelectorAll('[data-outbox-state]')) {
    if (!rows.has(/** @type {HTMLElement} */ (row))) unmark(/** @type {HTMLElement} */ (row));
  }
  for (const [row, list] of rows) {
    const m = mark(list, seen());
    if (m) markRow(row, m.state, m.entry);
    else unmark(row);
  }
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
    (row.querySelector('[data-outbox-caption],:scope>td:last-child') ?? row).append(caption);
  }
  const words = wordsOf(entry, state);
  if (caption.textContent !== words) caption.textContent = words;
}

/**
 * What a row and the list say of an entry, and why if it was refused.
 *
 * @param {Entry} entry
 * @param {string} state
 */
function wordsOf(entry, state) {
  const why = state === 'refused' && reason(entry);
  return say(`row.${state}`) + (why ? `: ${'text' in why ? why.text : say(why.name, why.n)}` : '');
}

// --- The list ---

const list = make('ol', 'list');
const none = make('p', 'none', say('none'));
const title = make('h2', 'title', say('title'));
title.id = 'outbox-title';
title.tabIndex = -1;
const sendAll = button('flush', () => outbox.flush());
const dialog = makeDialog(title, list, none, make('div', 'actions outbox-foot', sendAll, button('close', () => dialog.close())));
dialog.setAttribute('aria-labelledby', title.id);

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

/** Opens the list of what is not saved. */
export function open() {
  if (!dialog.isConnected) document.body.append(dialog);
  drawList();
  if (!dialog.open) dialog.showModal();
  title.focus();
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
    const drawn = [wordsOf(e, stateOf(e)), e.label, item.sure].join();
    if (drawn !== item.drawn) {
      item.drawn = drawn;
      drawItem(e, item);
    }
    const words = ago(Date.now() - e.createdAt);
    if (item.when.textContent !== words) item.when.textContent = words;
  }
  none.hidden = !!shown.length;
  sendAll.hidden = !shown.some((e) => /^(waiting|stuck)$/.test(stateOf(e)));
}

/** @returns {Item} */
function newItem() {
  const [label, meta, note, actions] = [make('p', 'label'), make('p', 'meta'), makeStatus('note'), make('div', 'actions')];
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
    const state = stateOf(e);
    if (state === 'login' && config.login) actions.push(loginLink());
    if (state === 'refused') actions.push(button('retry', () => outbox.retry(e.key)));
    if (state === 'stuck' || state === 'old') actions.push(button('send', () => outbox.retry(e.key)));
    if (state === 'ask') {
      const check = async () => {
        item.note.textContent = '';
        const result = await outbox.look(e.key);
        if (result === 'ask') item.note.textContent = say('unsure');
      };
      actions.push(button('check', check), button('resend', () => outbox.resend(e.key)));
    }
    if (state === 'refused' && editable(e)) actions.push(button('edit', () => edit(e)));
    actions.push(
      button('copy', async () => {
        if (await copy(readable(e))) item.note.textContent = say('copied');
      }),
      button('discard', () => ask(true), 'outbox-danger'),
    );
  }
  item.el.dataset.state = e.state;
  item.label.textContent = e.label || readable(e).slice(0, 120) || '…';
  item.meta.replaceChildren(wordsOf(e, stateOf(e)), '\u00a0· ', item.when);
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

/** @typedef {HTMLInputElement|HTMLTextAreaElement|HTMLSelectElement} Field */

/** @type {Map<HTMLFormElement, string>} forms that hold a refused entry's text */
const editing = new Map();

/**
 * The fields of a form that show what the entry says.
 *
 * @param {HTMLFormElement} form
 * @param {Entry} e
 * @returns {[Field, string][]}
 */
function fieldsIn(form, e) {
  return fields(e.bodyText).flatMap(([name, value]) => {
    const field = /** @type {Field} */ (form.elements.namedItem(name));
    return field?.matches?.('input:not([type=hidden]),textarea,select') ? [[field, value]] : [];
  });
}

/** @param {Entry} e */
function formOf(e) {
  const path = new URL(e.url, location.href).pathname;
  return [...document.forms].find((form) => {
    const to = form.getAttribute('hx-post') ?? form.getAttribute('action') ?? '';
    return new URL(to, location.href).pathname === path && fieldsIn(form, e).length > 0;
  });
}

/** @param {Entry} e */
const editable = (e) => askerOf(e)?.closest('[data-outbox-edit]') || formOf(e);

/**
 * Puts the text back where it was written. The entry stays until that form is
 * submitted again: until then it is the only copy that outlives the page.
 *
 * @param {Entry} e
 */
function edit(e) {
  dialog.close();
  const event = new CustomEvent('outbox:edit', { bubbles: true, cancelable: true, detail: { key: e.key, entry: e } });
  const form = formOf(e);
  if (!(askerOf(e) ?? document).dispatchEvent(event) || !form) return;
  for (const [field, value] of fieldsIn(form, e)) {
    if (/^(checkbox|radio)$/.test(field.type)) /** @type {HTMLInputElement} */ (field).checked = field.value === value;
    // What somebody is typing there stays.
    else field.value = /^text/.test(field.type) && field.value ? `${value} ${field.value}` : value;
    field.dispatchEvent(new Event('input', { bubbles: true }));
  }
  editing.set(form, e.key);
  fieldsIn(form, e)[0][0].focus();
}

// --- Leaving ---

/**
 * @param {HTMLFormElement} form
 * @param {HTMLElement|null} by
 */
function askToLeave(form, by) {
  const note = makeStatus('note');
  const leave = () => {
    form.dataset.outboxLogout = 'yes';
    ask.close();
    // By then it is no second tap.
    setTimeout(() => form.requestSubmit(by), 500);
  };
  const send = button('leave.send', async () => {
    note.textContent = say('sending');
    outbox.flush();
    for (let i = 0; i < 50 && entries().some((e) => e.state === 'waiting' || e.state === 'sending'); i++) {
      await new Promise((go) => setTimeout(go, 200));
    }
    if (entries().length) note.textContent = say('leave.failed');
    else if (ask.open) leave();
  });
  const drop = async () => {
    for (const e of entries()) await outbox.discard(e.key);
    leave();
  };
  const head = make('h2', 'title', say('leave'));
  const actions = [send, button('leave.keep', leave), button('leave.drop', drop, 'outbox-danger'), button('leave.stay', () => ask.close())];
  const ask = makeDialog(head, note, make('div', 'actions outbox-column', ...actions));
  ask.setAttribute('aria-label', say('leave'));
  ask.onclose = () => ask.remove();
  document.body.append(ask);
  ask.showModal();
}

on('submit', (event) => {
  const form = event.target;
  const key = editing.get(form);
  if (key) {
    editing.delete(form);
    outbox.discard(key);
  }
  if (form.matches('[data-outbox-logout]:not([data-outbox-logout=yes])') && entries().length) {
    event.preventDefault();
    event.stopImmediatePropagation();
    askToLeave(form, event.submitter);
  }
}, true);

// --- What happens ---

/** Draws everything anew: for a page that has changed its rows by itself. */
export function refresh() {
  drawStrip();
  drawRows();
  if (dialog.open) drawList();
  clearTimeout(lookTimer);
  const wait = nextLook(entries(), seen());
  if (wait) lookTimer = window.setTimeout(refresh, wait);
}

outbox.addEventListener('change', refresh);
on('outbox:queued', (event) => asked.set(event.detail.key, event.target));
on('outbox:delivered outbox:refused', (event) => asked.delete(event.detail.key));
on('outbox:queued outbox:delivered outbox:refused outbox:unsaved', (event) => {
  unsaved = event.type === 'outbox:unsaved';
  refresh();
});
// Rows come and go with htmx (2 and 4).
on('htmx:afterSettle htmx:after:swap', refresh);
on('click', (event) => {
  if (event.target.closest?.('[data-outbox-open]')) open();
});

refresh();
