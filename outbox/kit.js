// @ts-check
// What the person sees: the strip, the captions on rows, the list of what waits,
// the number on the app's icon.
// The attributes by which a page takes part stand in docs/outbox.md, looks in
// kit.css, words in texts.js.
import { outbox } from './page.js';
import { mark, nextLook, readable, reason, stateName, strip } from './kit-view.js';
import { speaker, spoken } from './texts.js';

/** @typedef {import('./kit-view.js').Entry} Entry */

const root = document.documentElement;
const meta = (/** @type {string} */ name) => document.querySelector(`meta[name=outbox-${name}]`)?.getAttribute('content');
/** @type {{login?: string, softLimit?: number, texts?: Record<string, string>, noBadge?: boolean}} */
const config = JSON.parse(meta('config') || '{}');
// From the login page it would lead nowhere.
if (meta('owner') === '' && config.login === location.pathname) config.login = '';
// Many write en_US.
const lang = (root.lang || navigator.language).replace(/_/g, '-');
const { words } = await import(`./words.${spoken(lang)}.js`);
const { say, ago, other, locale } = speaker(lang, words, config.texts);

/**
 * @param {string} tag
 * @param {string} name a class
 * @param {...(Node|string)} children
 */
function make(tag, name, ...children) {
  const el = document.createElement(tag);
  Object.assign(el, { className: `outbox-${name}` }, other && { lang: other, dir: 'ltr' });
  el.append(...children);
  return el;
}

/** @param {string} name */
const makeStatus = (name) => Object.assign(make('p', name), { role: 'status', ariaLive: 'polite' });

/**
 * @param {string} name of its words
 * @param {() => unknown} action
 */
function button(name, action) {
  const el = /** @type {HTMLButtonElement} */ (make('button', 'button', say(name)));
  el.type = 'button';
  el.dataset.act = name;
  el.onclick = action;
  return el;
}

const loginLink = () => Object.assign(make('a', 'button', say('enter')), { href: config.login });

/**
 * @param {string} name of its heading
 * @param {...(Node|string)} children
 */
function makeDialog(name, ...children) {
  const el = /** @type {HTMLDialogElement} */ (make('dialog', 'dialog', make('h2', 'title', say(name)), ...children));
  el.ariaLabel = say(name);
  return el;
}

/** A click beside it closes it, where the browser knows how, but a second tap is none. @param {HTMLDialogElement} el */
function show(el) {
  el.removeAttribute('closedby');
  el.showModal();
  setTimeout(() => el.setAttribute('closedby', 'any'), 500);
}

/**
 * @param {string} types
 * @param {(event: any) => void} fn
 */
function on(types, fn, capture = false) {
  for (const type of types.split(' ')) document.addEventListener(type, fn, capture);
}

/** @returns {Entry[]} */
const entries = () => outbox.snapshot.entries;

/** What kit-leave.js has of this. */
const kit = { button, entries, make, makeDialog, makeStatus, say, show };
/** @typedef {typeof kit} Kit */

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

// --- The strip, and the icon ---

const text = makeStatus('text');
const enter = loginLink();
const look = button('look', open);
const shut = button('close', () => {
  bar.hidden = !unsaved; // until there is something else to say
  told(false);
});
const bar = make('section', 'strip', text, make('div', 'buttons', enter, look, shut));
Object.assign(bar, { id: 'outbox-strip', ariaLabel: say('title'), hidden: true });
// For what the page has at its bottom, and for the last line of its text.
new ResizeObserver(() => root.style.setProperty('--outbox-height', `${bar.offsetHeight}px`)).observe(bar);

let unsaved = false;
let line = '';
let badge = -1;
let lineTimer = 0;
let lookTimer = 0;

function drawStrip() {
  // A boosted navigation of htmx replaces the whole body.
  if (!bar.isConnected) document.body.append(bar);
  const parts = strip(/** @type {any} */ (outbox.snapshot), seen());
  count(parts.reduce((sum, p) => sum + (p.n ?? 0), 0));
  if (unsaved) parts.unshift({ name: 'unsaved' });
  bar.dataset.state = parts[0]?.name ?? '';
  enter.hidden = !config.login || !parts.some((p) => p.name === 'login');
  look.hidden = !entries().length || parts.every((p) => p.name === 'sending');
  shut.hidden = !/unsaved|foreign/.test(bar.dataset.state);
  // Two sentences are what fits; the list has the rest.
  const next = parts.slice(0, 2).map((p) => say(p.name, p.n)).join('\u00a0· ');
  if (next === line) return;
  line = next;
  bar.hidden = !next;
  root.toggleAttribute('data-outbox-strip', !!next);
  // A screen reader speaks of a change in a region that it knows already, so the
  // words come after the strip; and a flush of ten is not ten sentences.
  clearTimeout(lineTimer);
  lineTimer = window.setTimeout(() => (text.textContent = line), next ? 60 : 0);
}

/** @param {number} n */
function count(n) {
  if (n === badge || config.noBadge) return;
  badge = n;
  (n ? navigator.setAppBadge?.(n) : navigator.clearAppBadge?.())?.catch(() => {});
}

// --- The rows ---

/** @param {Entry} e */
function askerOf(e) {
  const el = asked.get(e.key);
  if (el instanceof Element && el.isConnected) return el;
  return e.el ? document.getElementById(e.el) : null;
}

function drawRows() {
  /** @type {Map<HTMLElement, Entry[]>} */
  const rows = new Map();
  for (const e of entries()) {
    const row = /** @type {HTMLElement|null|undefined} */ (askerOf(e)?.closest('[data-outbox-row]'));
    if (row) rows.set(row, [...(rows.get(row) ?? []), e]);
  }
  for (const [row, list] of rows) {
    const m = mark(list, seen());
    if (m) markRow(row, m.state, m.entry);
    else rows.delete(row);
  }
  for (const row of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll('[data-outbox-state]'))) {
    if (rows.has(row)) continue;
    delete row.dataset.outboxState;
    row.querySelector('.outbox-caption')?.remove();
  }
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
  caption.textContent = wordsOf(entry, state);
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

/** Whose fault it is nobody knows, but this is true of each that was tried. @param {Entry} e */
function listed(e) {
  const state = stateOf(e);
  const tried = state === 'waiting' && entries().some((x) => x.state === state && x.attempts);
  return wordsOf(e, tried ? 'server' : state);
}

const list = make('ol', 'list');
const news = makeStatus('none');
const sendAll = button('flush', () => outbox.flush());
const dialog = makeDialog('title', list, news, make('div', 'actions outbox-foot', sendAll, button('close', () => dialog.close())));
const title = Object.assign(/** @type {HTMLElement} */ (dialog.firstChild), { id: 'outbox-title', tabIndex: -1 });

/** @typedef {import('./types.js').Item} Item */

/** @type {typeof import('./kit-edit.js') | undefined} loaded when something is refused */
let editor;
/** @type {Map<string, Item>} */
const items = new Map();

/** Opens the list of what is not saved. */
export function open() {
  if (!dialog.isConnected) {
    dialog.close(); // it went with the body that it was in
    document.body.append(dialog);
  }
  if (!dialog.open) {
    // A question that was left open is no question any more.
    items.clear();
    list.textContent = news.textContent = '';
    show(dialog);
  }
  refresh();
  title.focus();
}

function drawList() {
  const shown = entries();
  for (const [key, { el }] of items) {
    if (shown.some((e) => e.key === key)) continue;
    const had = el.contains(document.activeElement);
    el.remove();
    items.delete(key);
    if (had) title.focus();
  }
  for (const e of shown) {
    const item = items.get(e.key) ?? newItem(e);
    item.editable = e.state === 'refused' && editor?.editable(e, askerOf(e));
    const drawn = [listed(e), e.label, item.sure, item.editable].join();
    if (drawn !== item.drawn) {
      item.drawn = drawn;
      drawItem(e, item);
    }
    item.when.textContent = ago(Date.now() - e.createdAt);
  }
  if (!shown.length) news.textContent ||= say('none');
  sendAll.hidden = !shown.some((e) => /^(waiting|stuck)$/.test(stateOf(e)));
}

/** @param {Entry} e */
function newItem(e) {
  const [label, meta, note, actions] = [make('p', 'label'), make('p', 'meta'), makeStatus('note'), make('div', 'actions')];
  label.dir = 'auto';
  const when = /** @type {HTMLTimeElement} */ (make('time', 'when'));
  const at = new Date(e.createdAt);
  when.dateTime = at.toISOString();
  when.title = at.toLocaleString(locale);
  const el = make('li', 'item', label, meta, note, actions);
  list.append(el);
  news.textContent = '';
  /** @type {Item} */
  const item = { el, label, meta, note, actions, when };
  items.set(e.key, item);
  return item;
}

/** @type {Record<string, string[]>} what the person can do about an entry, besides */
const ways = { refused: ['retry'], stuck: ['send'], old: ['send'], ask: ['check', 'resend'] };

/**
 * @param {Entry} e
 * @param {Item} item
 */
function drawItem(e, item) {
  const { actions, label, note } = item;
  const active = /** @type {HTMLElement|null} */ (document.activeElement);
  const act = actions.contains(active) && active?.dataset.act;
  const state = stateOf(e);
  const ask = (/** @type {boolean} */ sure) => {
    item.sure = sure;
    note.textContent = '';
    drawList();
  };
  const again = async (/** @type {'retry' | 'resend'} */ how) => {
    note.textContent = (await outbox[how](e.key)) === 'unreadable' ? say('row.stuck') : '';
  };
  /** @type {Record<string, () => unknown>} */
  const does = {
    retry: () => again('retry'),
    send: () => again('retry'),
    resend: () => again('resend'),
    async check() {
      note.textContent = '';
      const found = await outbox.look(e.key);
      if (found === 'done') news.textContent = say('done');
      else if (!/^(refused|waiting|gone)$/.test(found)) note.textContent = say('unsure');
    },
    edit() {
      dialog.close();
      editor?.edit(e, askerOf(e));
    },
    async copy() {
      const words = readable(e);
      // A browser inside an app may forbid it: then by hand.
      note.textContent = await navigator.clipboard.writeText(words).then(() => say('copied'), () => words);
    },
    discard: () => ask(true),
    keep: () => ask(false),
    async sure() {
      const result = await outbox.discard(e.key);
      ask(false);
      if (result === 'sending') note.textContent = say('away');
    },
  };
  const names = item.sure ? ['keep', 'sure'] : [...(ways[state] ?? []), ...(item.editable ? ['edit'] : []), 'copy', 'discard'];
  const all = names.map((name) => button(name, does[name]));
  item.el.dataset.state = state;
  label.textContent = e.label || readable(e).slice(0, 120) || new URL(e.url, location.href).pathname;
  Object.assign(actions, { role: 'group', ariaLabel: label.textContent });
  item.meta.replaceChildren(listed(e), '\u00a0· ', item.when);
  actions.replaceChildren(...(state === 'login' && config.login && !item.sure ? [loginLink()] : []), ...all);
  // What had the focus was drawn anew; "delete" becomes the question, whose safe
  // answer comes first.
  if (act) (all.find((a) => a.dataset.act === act) ?? all[0]).focus();
}

// --- Leaving ---

/**
 * @param {any} event of the form, link or button that leads out
 * @param {HTMLElement} el
 * @param {() => void} go
 */
function leaving(event, el, go) {
  const sure = el.dataset.outboxLogout === 'yes';
  el.dataset.outboxLogout = '';
  if (sure || !entries().length) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  const leave = () => {
    el.dataset.outboxLogout = 'yes';
    go();
  };
  // A file that cannot be had is no answer.
  import('./kit-leave.js').then((m) => m.askToLeave(kit, leave), () => confirm(`${say('leave')}\n${say('leave.keep')}?`) && leave());
}

on('submit', (event) => {
  const form = event.target;
  if (form.matches('[data-outbox-logout]')) leaving(event, form, () => form.requestSubmit(event.submitter));
}, true);

on('click', (event) => {
  const el = event.target.closest?.('[data-outbox-open],[data-outbox-logout]:not(form)');
  if (!el) return;
  if (el.matches('[data-outbox-logout]')) leaving(event, el, () => el.click());
  else open();
}, true);

// --- What happens ---

/** @param {boolean} not whether something could not be kept */
function told(not) {
  unsaved = not;
  refresh();
}

/** Draws everything anew: for a page that has changed its rows by itself. */
export function refresh() {
  drawStrip();
  drawRows();
  if (dialog.open) drawList();
  if (!editor && entries().some((e) => e.state === 'refused')) {
    import('./kit-edit.js').then((m) => {
      editor = m;
      refresh();
    }, () => {});
  }
  // It is there before the network goes.
  if (document.querySelector('[data-outbox-logout]')) import('./kit-leave.js').catch(() => {});
  clearTimeout(lookTimer);
  const wait = nextLook(entries(), seen()) || (dialog.open && 20_000);
  if (wait) lookTimer = window.setTimeout(refresh, wait);
}

outbox.addEventListener('change', refresh);
on('outbox:queued', (event) => asked.set(event.detail.key, event.target));
on('outbox:delivered outbox:refused outbox:superseded', (event) => asked.delete(event.detail.key));
on('outbox:queued outbox:delivered outbox:refused outbox:unsaved', (event) => told(event.type === 'outbox:unsaved'));
// Rows come and go with htmx (2 and 4).
on('htmx:afterSettle htmx:after:swap', refresh);

refresh();
