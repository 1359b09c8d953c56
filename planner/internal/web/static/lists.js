// @ts-check
// The lists of a page: puts a row where it belongs, and brings the lists up to
// date with the server's, row by row. Never a reload: somebody may be typing.

/** @type {any} */
const htmx = /** @type {any} */ (window).htmx;

/** @param {string} id @returns {HTMLElement | null} */
export const rowOf = (id) => document.getElementById(`task-${id}`);

/** @returns {HTMLElement[]} */
export const rows = () => /** @type {HTMLElement[]} */ ([...document.querySelectorAll('#lists .row')]);

/** @param {string} html @returns {DocumentFragment} */
export function parse(html) {
  const template = document.createElement('template');
  template.innerHTML = html;
  return template.content;
}

/**
 * Puts a row into its list, in the list's order, unless it is there already.
 *
 * @param {HTMLElement} row
 */
export function place(row) {
  const list = document.getElementById(`list-${row.dataset.list}`);
  if (!list) return;
  const sort = row.dataset.sort ?? '';
  const before = [.../** @type {NodeListOf<HTMLElement>} */ (list.querySelectorAll(':scope > .row'))].find((r) => r !== row && (r.dataset.sort ?? '') > sort);
  if (row.parentElement === list && (before ? row.nextElementSibling === before : row === list.lastElementChild)) return;
  const focused = row.contains(document.activeElement) ? /** @type {HTMLElement} */ (document.activeElement) : null;
  list.insertBefore(row, before ?? null);
  focused?.focus();
  tidy();
}

/** Shows the lists that have rows, and how many are overdue. */
export function tidy() {
  let any = false;
  for (const group of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll('#lists .group'))) {
    const n = [...group.querySelectorAll('.row')].filter((r) => !(/** @type {HTMLElement} */ (r).hidden)).length;
    group.hidden = !n;
    any ||= n > 0;
    const count = group.querySelector('.count');
    if (count) count.textContent = String(n);
  }
  document.getElementById('lists')?.classList.toggle('is-empty', !any);
}

/**
 * Removes a row; what had the focus hands it to the next one.
 *
 * @param {HTMLElement} row
 */
export function leave(row) {
  const had = row.contains(document.activeElement);
  const next = /** @type {HTMLElement | null} */ ((row.nextElementSibling ?? row.previousElementSibling)?.querySelector('.circle') ?? document.getElementById('add-text'));
  row.classList.add('is-leaving');
  setTimeout(() => {
    row.remove();
    tidy();
    if (had && document.activeElement === document.body) next?.focus({ preventScroll: true });
  }, 160);
}

/** @type {((row: HTMLElement) => boolean)[]} */
const keepers = [];

/**
 * A row that one of these keeps is not touched by a refresh.
 *
 * @param {(row: HTMLElement) => boolean} keep
 */
export function keepRows(keep) {
  keepers.push(keep);
}

/** Whose page this is. */
export const owner = document.querySelector('meta[name="outbox-owner"]')?.getAttribute('content');

let running = false;
let again = false;
let changes = 0;

/** Something was asked for or answered: lists that were on their way are out of date. */
for (const type of ['htmx:beforeRequest', 'htmx:afterRequest', 'outbox:delivered']) {
  document.addEventListener(type, () => changes++);
}

/**
 * Brings the lists up to date; without a network nothing happens.
 *
 * @returns {Promise<boolean>} whether they are, or are about to be
 */
export async function refresh() {
  if (running) {
    again = true;
    return true;
  }
  running = true;
  let html = '';
  do {
    again = false;
    const before = changes;
    html = await load();
    // A list that was made before a task was added would take it away again.
    if (html && before !== changes) again = true;
    if (html && !again) merge(parse(html));
  } while (again);
  running = false;
  return !!html || !document.querySelector('main')?.dataset.refresh;
}

/** @returns {Promise<string>} the whole page as it is now; '' without a network, or if somebody else has logged in beside it */
async function load() {
  const path = document.querySelector('main')?.dataset.refresh;
  if (!path) return '';
  try {
    const answer = await fetch(path, { headers: { Accept: 'text/html' }, redirect: 'error', signal: AbortSignal.timeout(15_000), cache: 'no-store' });
    if (!answer.ok || answer.headers.get('Planner-Owner') !== owner) return '';
    const html = await answer.text();
    void keep(path, answer, html);
    return html;
  } catch {
    return '';
  }
}

/**
 * Has the worker show this page, and not an older one, when there is no network.
 *
 * @param {string} path
 * @param {Response} answer
 * @param {string} html
 */
async function keep(path, answer, html) {
  const name = `planner-pages-${owner}`;
  if (!owner || !('caches' in window) || !(await caches.has(name))) return;
  await (await caches.open(name)).put(location.origin + path, new Response(html, { headers: answer.headers }));
}

/** @param {DocumentFragment} fresh */
function merge(fresh) {
  const lists = document.getElementById('lists');
  const from = /** @type {HTMLElement | null} */ (fresh.querySelector('#lists'));
  if (!lists || !from) return;
  const head = document.querySelector('.day');
  if (head && from.dataset.head) head.textContent = from.dataset.head;
  for (const group of /** @type {NodeListOf<HTMLElement>} */ (from.querySelectorAll('.group'))) {
    if (!document.getElementById(group.id)) {
      // The lists of "done" and "trash" are days, and a new day may have begun.
      const empty = /** @type {HTMLElement} */ (group.cloneNode(true));
      for (const row of empty.querySelectorAll('.row')) row.remove();
      lists.insertBefore(empty, lists.querySelector('.group') ?? lists.firstChild);
    }
  }
  const known = new Set();
  for (const row of /** @type {NodeListOf<HTMLElement>} */ (from.querySelectorAll('.row'))) {
    known.add(row.id);
    const have = document.getElementById(row.id);
    if (have && keepers.some((keep) => keep(have))) continue;
    if (have && have.dataset.v === row.dataset.v) {
      place(have);
      continue;
    }
    if (have) have.replaceWith(row);
    place(row);
    htmx?.process(row);
  }
  for (const row of rows()) {
    if (!known.has(row.id) && !keepers.some((keep) => keep(row))) row.remove();
  }
  tidy();
  document.dispatchEvent(new CustomEvent('planner:fresh'));
}
