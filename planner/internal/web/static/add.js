// @ts-check
// The line for a new task. Enter empties it at once, and the task stands in the
// list before any answer: each is a request of its own, under an id that is made
// here, so that three can be added while the first still looks for a network.
import { outbox } from '../outbox/page.js';
import { refresh as redraw } from '../outbox/kit.js';
import { keepRows, place, refresh, rowOf, tidy } from './lists.js';

/** @type {any} */
const htmx = /** @type {any} */ (window).htmx;
const form = /** @type {HTMLFormElement | null} */ (document.getElementById('add'));
const template = /** @type {HTMLTemplateElement | null} */ (document.getElementById('row-template'));

/**
 * New tasks of this page that are not accepted yet, by their ids. What the outbox
 * keeps is its own business as soon as its list has shown it.
 *
 * @type {Map<string, {line: string, kept: boolean, seen: boolean}>}
 */
const drafts = new Map();

/** The id of the row that was added last, as long as it is to be seen. */
let newest = '';
/** @type {ResizeObserver} of all that can come to stand before it */
let sizes;

/** @param {string} name */
const field = (name) => /** @type {HTMLInputElement} */ (form?.elements.namedItem(name));
const text = () => field('text');
const error = document.getElementById('add-error');

/** 128 random bits; plain http on a LAN has no crypto.randomUUID. */
export function newID() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, '0')).join('');
}

/** The clock of this device, as the form sends it: «завтра» means the day after. */
function clock() {
  const now = new Date();
  return new Date(now.getTime() - now.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** A new task begins: a new id, and no time of typing yet. */
function fresh() {
  field('id').value = newID();
  field('at').value = '';
}

/** @param {string} words */
function complain(words) {
  if (!error) return;
  error.textContent = words;
  error.hidden = !words;
}

/**
 * A row for a task that the server has not seen.
 *
 * @param {string} id
 * @param {string} title
 */
function draw(id, title) {
  const row = /** @type {HTMLElement} */ (/** @type {HTMLElement} */ (template?.content.querySelector('.row')).cloneNode(true));
  for (const el of [row, ...row.querySelectorAll('*')]) {
    for (const attr of [...el.attributes]) {
      if (attr.value.includes('__')) attr.value = attr.value.replaceAll('__ID__', id).replaceAll('__TITLE__', title);
    }
  }
  const words = row.querySelector('.row-title');
  if (words) words.textContent = title;
  row.classList.add('is-new', 'is-waiting-new');
  row.removeAttribute('data-v');
  row.dataset.list = guess(title);
  row.dataset.sort = '~'; // after all others
  place(row);
  htmx?.process(row);
  return row;
}

/**
 * The list in which a new row stands until the server has read its line. Only
 * the two commonest words: a wrong guess would jump.
 *
 * @param {string} title
 */
function guess(title) {
  if (/(^|\s)(завтра|tomorrow)(?=$|[\s,.!])/i.test(title)) return 'tomorrow';
  if (/(^|\s)(сегодня|today)(?=$|[\s,.!])/i.test(title)) return 'today';
  return 'someday';
}

/** Takes what was typed and sends it as the new row's own request. */
function submit() {
  const [id, line, at] = [field('id').value, text().value.trim(), field('at').value || clock()];
  if (!line) return;
  complain('');
  drafts.set(id, { line, kept: false, seen: false });
  const row = draw(id, line);
  text().value = '';
  fresh();
  newest = id;
  show();
  row.dataset.outboxLabel = `${form?.dataset.label}: ${line}`; // for this request alone, not for those of the row's own controls
  htmx.ajax('POST', '/tasks', { source: row, target: row, swap: 'outerHTML', values: { text: line, id, at } });
  delete row.dataset.outboxLabel;
}

/** Scrolls to the newest row, and watches what may hide it. */
function show() {
  const row = rowOf(newest);
  row?.scrollIntoView({ block: 'nearest' });
  for (const el of [row, document.getElementById('outbox-strip')]) if (el) sizes.observe(el);
}

/**
 * The server, or the device, would not have it: the row goes, the text comes
 * back.
 *
 * @param {string} id
 * @param {string} why
 */
function giveBack(id, why) {
  const line = drafts.get(id)?.line ?? '';
  drafts.delete(id);
  rowOf(id)?.remove();
  tidy();
  if (!text().value) {
    text().value = line;
    field('id').value = id; // the same task, should the first try have arrived after all
    complain(why);
    text().focus();
  } else {
    complain(`«${line}»: ${why}`);
  }
}

/** @param {any} event the id of the new task whose request this is, or '' */
const newTask = (event) => {
  const row = /** @type {HTMLElement | null} */ (event.detail.elt?.closest?.('.is-waiting-new'));
  const id = row?.dataset.task ?? '';
  return drafts.has(id) && event.detail.requestConfig?.path === '/tasks' ? id : '';
};

if (form && template && htmx) {
  keepRows((row) => row.classList.contains('is-waiting-new') && (drafts.has(row.dataset.task ?? '') || listed().has(row.dataset.task ?? '')));

  // Before htmx: its lock on the form would hold the second task back until the
  // first has an answer.
  form.addEventListener(
    'submit',
    (event) => {
      event.preventDefault();
      event.stopImmediatePropagation();
      submit();
    },
    true,
  );
  text().addEventListener('input', () => {
    field('at').value ||= clock();
    complain('');
  });
  window.addEventListener('pageshow', (event) => event.persisted && fresh());
  fresh();

  document.addEventListener('htmx:afterRequest', (event) => {
    const id = newTask(event);
    const { xhr, successful } = /** @type {any} */ (event).detail;
    const draft = drafts.get(id);
    if (!draft) return;
    if (xhr.getResponseHeader('X-Outbox-Queued')) draft.kept = true;
    if (!successful) return;
    drafts.delete(id);
    if (id === newest) requestAnimationFrame(show);
  });
  document.addEventListener('htmx:responseError', (event) => {
    const id = newTask(event);
    if (!id) return;
    const words = String(/** @type {any} */ (event).detail.xhr.responseText ?? '').trim();
    giveBack(id, words && !words.startsWith('<') ? words.slice(0, 200) : (form.dataset.failed ?? ''));
    // The text is back in the line: nothing of it has to stay on the list of what
    // was refused.
    const key = /** @type {any} */ (event).detail.requestConfig.headers['Idempotency-Key'];
    if (key) setTimeout(() => outbox.discard(key), 200);
  });
  document.addEventListener('outbox:queued', (event) => {
    const draft = drafts.get(/** @type {HTMLElement} */ (event.target).dataset?.task ?? '');
    if (draft) draft.kept = true;
  });
  document.addEventListener('outbox:unsaved', (event) => {
    const id = /** @type {HTMLElement} */ (event.target).dataset?.task ?? '';
    if (drafts.has(id)) giveBack(id, form.dataset.failed ?? '');
  });

  const hints = /** @type {HTMLElement} */ (form.querySelector('.hints'));
  hints.hidden = false;
  // What stands above the line has to know its height.
  // And when that, the strip or a caption takes the place of the newest row, the
  // row moves on, unless the person is elsewhere by now.
  sizes = new ResizeObserver(() => {
    document.documentElement.style.setProperty('--dock', `${form.offsetHeight}px`);
    const at = document.activeElement;
    if (at === document.body || form.contains(at)) rowOf(newest)?.scrollIntoView({ block: 'nearest' });
  });
  sizes.observe(form);
  for (const type of ['wheel', 'pointerdown', 'keydown']) {
    addEventListener(type, ({ target }) => form.contains(/** @type {Node} */ (target)) || (newest = ''), { passive: true });
  }
  hints.addEventListener('click', (event) => {
    const word = /** @type {HTMLElement} */ (event.target).dataset.hint;
    if (!word) return;
    const line = text();
    line.value = `${line.value.trim()} ${word}`.trim() + ' ';
    line.dispatchEvent(new Event('input', { bubbles: true }));
    line.focus();
  });

  outbox.addEventListener('change', () => {
    drawWaiting();
    // A new task that the person has deleted from the list of what waits.
    const left = listed();
    for (const [id, draft] of drafts) {
      if (left.has(id)) draft.seen = true;
      else if (draft.kept && draft.seen) drafts.delete(id);
    }
    for (const row of document.querySelectorAll('.is-waiting-new')) {
      const id = /** @type {HTMLElement} */ (row).dataset.task ?? '';
      if (!drafts.has(id) && !left.has(id)) return refresh();
    }
  });
  document.addEventListener('planner:fresh', drawWaiting);
  document.addEventListener('outbox:delivered', () => refresh());
  drawWaiting();
}

/** New tasks that wait, by id: those of this page and of earlier ones. */
function listed() {
  /** @type {Map<string, string>} */
  const all = new Map();
  for (const e of outbox.snapshot.entries ?? []) {
    if (e.state === 'parked' || new URL(e.url, location.href).pathname !== '/tasks') continue;
    const body = new URLSearchParams(e.bodyText ?? '');
    const id = body.get('id');
    if (id && /^[\w-]{1,64}$/.test(id)) all.set(id, body.get('text') ?? '');
  }
  return all;
}

/** After a reload, what waits stands in the list again. */
function drawWaiting() {
  let drawn = false;
  for (const [id, line] of listed()) {
    if (rowOf(id)) continue;
    draw(id, line);
    drawn = true;
  }
  if (drawn) redraw();
}
