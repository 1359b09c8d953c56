// @ts-check
// Every state of the outbox's kit, for whoever wants to judge it or look at it.

/**
 * @typedef {object} State
 * @property {string} name
 * @property {[string, object?][]} [entries] state and what else, one entry each
 * @property {object} [more] of the snapshot
 * @property {string} [tell] an event that the form that adds something gets
 * @property {string[]} [press] what is pressed then, one after another
 * @property {string} shows the place where the state is to be seen
 */

const minutes = 60_000;

/** @param {boolean} ru @returns {Record<string, object>} what the people of these pages wrote */
const written = ru => ({
  done: { label: ru ? 'Готово: Физика: задачи 12–15' : 'Done: Physics: exercises 12–15', el: 'done-1', ago: 4 * minutes },
  added: { bodyText: new URLSearchParams({ _key: 'x', text: ru ? 'Купить тетрадь в клетку и два карандаша' : 'Buy a squared notebook and two pencils' }).toString(), ago: 2 * minutes },
  long: { label: ru ? 'Новая задача: Превысокомногорассмотрительствующий-доклад-без-единого-пробела, а потом ещё и самый обычный длинный текст на две или три строки' : 'New task: A-report-with-one-very-long-word-that-nobody-could-ever-break-anywhere, and then some quite ordinary text that fills two or three lines', ago: 3 * 60 * minutes },
  second: { label: ru ? 'Переименование: Алгебра' : 'Rename: Algebra', el: 'done-2', ago: 26 * 60 * minutes },
  words: { lastStatus: 422, lastText: ru ? 'Слишком длинное название: не больше 200 знаков' : 'The title is too long: 200 characters at most' },
});

/**
 * @param {string} lang
 * @returns {State[]}
 */
export function states(lang) {
  const w = written(lang === 'ru');
  const strip = '#outbox-strip .outbox-text:not(:empty)';
  const list = 'dialog[open] .outbox-list';
  const item = 'dialog[open] .outbox-item';
  const look = ['#outbox-strip [data-act=look]'];
  const opened = ['#all'];
  const late = { attempts: 3 };
  /** @type {[string, object?][]} */
  const each = [
    ['waiting', { ...w.done, ...late }],
    ['sending', { ...w.long, ...late }],
    ['refused', { ...w.added, ...w.words }],
    ['refused', { ...w.second, lastStatus: 404 }],
    ['stuck', { ...w.second, lastStatus: 403 }],
    ['ask', { ...w.done, reason: 'expired' }],
    ['ask', { ...w.added, reason: 'old' }],
  ];
  return [
    { name: 'none', shows: 'main' },
    { name: 'sending', entries: [['sending', { ...w.done, ago: 3000 }]], shows: strip },
    { name: 'waiting-one', entries: [['waiting', w.done]], shows: strip },
    { name: 'waiting-many', entries: Array.from({ length: 22 }, (_, i) => ['waiting', i ? w.added : w.second]), shows: strip },
    { name: 'login', entries: [['login', w.done], ['waiting', w.second]], shows: strip },
    { name: 'refused', entries: [['refused', { ...w.done, ...w.words }]], shows: strip },
    { name: 'refused-and-waiting', entries: [['waiting', w.done], ['refused', { ...w.second, ...w.words }]], shows: strip },
    { name: 'stuck', entries: [['stuck', w.done], ['waiting', w.second]], shows: strip },
    { name: 'ask', entries: [['ask', { ...w.done, reason: 'expired' }]], shows: strip },
    { name: 'parked', entries: [['parked', w.second]], shows: strip },
    { name: 'foreign', more: { foreign: 2 }, shows: strip },
    { name: 'not-kept', tell: 'outbox:unsaved', shows: strip },
    { name: 'list-empty', press: opened, shows: 'dialog[open] .outbox-none:not(:empty)' },
    { name: 'list-waiting', entries: [['waiting', w.done], ['waiting', w.long]], press: look, shows: item },
    { name: 'list-sending', entries: [['sending', { ...w.added, ...late }]], press: look, shows: item },
    { name: 'list-login', entries: [['login', w.done], ['waiting', w.second]], press: look, shows: item },
    { name: 'list-refused', entries: [['refused', { ...w.added, ...w.words }], ['refused', { ...w.second, lastStatus: 404 }]], press: look, shows: `${item} [data-act=edit]` },
    { name: 'list-stuck', entries: [['stuck', { ...w.done, lastStatus: 403 }]], press: look, shows: item },
    { name: 'list-ask', entries: [['ask', { ...w.done, reason: 'expired' }], ['ask', { ...w.added, reason: 'old' }]], press: look, shows: item },
    { name: 'list-unclear', entries: [['ask', { ...w.done, reason: 'expired' }]], press: [...look, `${item} [data-act=check]`], shows: `${item} .outbox-note:not(:empty)` },
    { name: 'list-of-all', entries: each, press: look, shows: list },
    { name: 'discard', entries: [['waiting', w.done], ['refused', { ...w.added, ...w.words }]], press: [...look, `${item} [data-act=discard]`], shows: `${item} [data-act=sure]` },
    { name: 'leave', entries: [['waiting', w.done]], press: ['#leave'], shows: 'dialog[open] [data-act="leave.keep"]' },
    { name: 'leave-late', entries: [['sending', { ...w.done, ...late }]], press: ['#leave', 'dialog[open] [data-act="leave.send"]'], shows: 'dialog[open] .outbox-note:not(:empty)' },
  ];
}

/**
 * Brings the kit's page, which is loaded, into a state.
 *
 * @param {import('./tab.js').Tab} tab
 * @param {import('./kit-page.js').KitPage} kit
 * @param {State} state
 */
export async function arrange(tab, kit, { entries = [], more = {}, tell, press = [], shows }) {
  const given = entries.map(([state, over], i) => {
    const { ago = 0, ...rest } = /** @type {{ago?: number}} */ (over ?? {});
    return kit.entry(`k${i}`, state, { createdAt: Date.now() - ago, ...rest });
  });
  await tab.eval((list, also) => /** @type {any} */ (window).outbox.show(list, also), given, more);
  if (tell) await tab.eval(type => void document.querySelector('#add')?.dispatchEvent(new CustomEvent(type, { bubbles: true, detail: {} })), tell);
  // The strip has its words a moment after it is there, and then stands where it will.
  if (press.length && entries.length) await tab.waitFor('the strip has its words', () => document.querySelector('#outbox-strip .outbox-text')?.textContent);
  for (const selector of press) await tab.click(selector);
  await tab.waitFor(`${shows} is seen`, selector => document.querySelector(selector)?.checkVisibility(), shows);
}
