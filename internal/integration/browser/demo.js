// @ts-check
// `make demo`: the same taps over the same bad network, first on a planner as it
// is written before anybody thinks of the network, then on ours. Nothing here is
// canned: a real browser, real programs, and what their databases say. It ends
// with 1 if the one did no harm or the other did any.
//
// It speaks the language of LC_ALL, LC_MESSAGES or LANG, or that of --lang=ru or
// --lang=en; of those two, English unless it is Russian.
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { open } from './engines.js';
import { BadNetwork } from './fault.js';
import { sleep, sql, startServer, tempFolder, until } from './processes.js';
import { Screen } from './screen.js';

const ru = {
  locale: 'ru-RU',
  homework: 'Физика: задачи 12–15',
  training: 'Тренировка',
  weekly: 'каждый понедельник',
  noAnswer: 'нет ответа',
  answer: 'ответ',
  controlled: 'воркер управляет страницей',
  off: '— сеть выключена —',
  on: '— сеть включена —',
  badge: 'значок очереди виден',
  queued: 'в очереди',
  circle: (/** @type {boolean | undefined} */ done) => `кружок закрашен: ${done}, больше на экране ничего`,
  left: 'осталось в очереди',
  nobody: 'прошло пять секунд, никто ничего не повторил',
  lost: '— ответ на первое нажатие потеряется —',
  taps: ['первое', 'второе', 'третье'],
  tap: (/** @type {string} */ which, /** @type {string | null} */ done) => `${which} нажатие на «Тренировка», кружок закрашен: ${done}`,
  names: (/** @type {number} */ n) => `, имён у них: ${n}`,
  itself: '; браузер сам повторил тот, что остался без ответа',
  sent: (/** @type {number} */ n) => `нажатий три, до сервера дошло запросов: ${n}`,
  without: '=== без Onceward: POST /tasks/{id}/toggle, и ничего больше ===',
  with: '=== с Onceward: те же нажатия, та же сеть ===',
  table: ['                                  без Onceward   с Onceward', 'потеряно нажатий                 ', 'тренировок в следующий раз       '],
};
/** @type {typeof ru} */
const en = {
  locale: 'en-GB',
  homework: 'Physics: problems 12–15',
  training: 'Training',
  weekly: 'every Monday',
  noAnswer: 'no answer',
  answer: 'answer',
  controlled: 'a worker controls the page',
  off: '— the network is off —',
  on: '— the network is on —',
  badge: 'the strip can be seen',
  queued: 'in the queue',
  circle: done => `the circle is filled: ${done}; nothing else on the screen`,
  left: 'left in the queue',
  nobody: 'five seconds later nobody has repeated anything',
  lost: '— the answer to the first tap will be lost —',
  taps: ['first', 'second', 'third'],
  tap: (which, done) => `${which} tap on “Training”, the circle is filled: ${done}`,
  names: n => `, under ${n} names`,
  itself: '; the browser itself repeated the one that got no answer',
  sent: n => `three taps; requests that reached the server: ${n}`,
  without: '=== without Onceward: POST /tasks/{id}/toggle, and nothing else ===',
  with: '=== with Onceward: the same taps, the same network ===',
  table: ['                              without Onceward  with Onceward', 'taps lost                        ', 'trainings the next time          '],
};

/**
 * The language that whoever starts the demo wants.
 * @param {string[]} args
 * @param {Record<string, string | undefined>} env
 */
export const language = (args, env) =>
  /^ru/i.test(args.find(a => a.startsWith('--lang='))?.slice(7) ?? (env.LC_ALL || env.LC_MESSAGES || env.LANG || '')) ? 'ru' : 'en';
const t = { ru, en }[language(process.argv.slice(2), process.env)];
const { homework, training } = t;

/** @param {string} line */
const say = (line = '') => console.log(line);

/** As people write a task's address. @param {string} path */
const short = path => path.replace(/\/tasks\/(\w{8})\w{12,}/, '/tasks/$1-...');

/**
 * As psql prints a table.
 * @param {string[]} names of the columns
 * @param {Record<string, any>[]} rows
 */
export function psql(names, rows) {
  const text = (/** @type {any} */ value) => (value === null ? '' : typeof value === 'boolean' ? (value ? 't' : 'f') : String(value));
  const widths = names.map(name => Math.max(name.length, ...rows.map(row => text(row[name]).length)));
  const head = names.map((name, i) => ' '.repeat(Math.floor((widths[i] - name.length) / 2) + 1) + name + ' '.repeat(Math.ceil((widths[i] - name.length) / 2) + 1)).join('|');
  const line = (/** @type {Record<string, any>} */ row) => names.map((name, i) => ` ${i < names.length - 1 ? text(row[name]).padEnd(widths[i]) : text(row[name])}`).join(' |');
  return [head.trimEnd(), widths.map(w => '-'.repeat(w + 2)).join('+'), ...rows.map(line), `(${rows.length} row${rows.length === 1 ? '' : 's'})`].join('\n');
}

/**
 * @typedef {object} Planner
 * @property {string} database
 * @property {string} live what of its table counts
 * @property {import('./chromium.js').ChromiumContext} phone
 * @property {Screen} screen
 * @property {BadNetwork} network
 * @property {() => Promise<void>} stop
 */

/** @param {import('./chromium.js').Chromium} browser @returns {Promise<Planner>} */
async function without(browser) {
  const data = tempFolder('onceward-demo-');
  const server = await startServer('naive', ['-data', data]);
  const network = await BadNetwork.before(server.url);
  const phone = await browser.newContext();
  const screen = new Screen(await phone.newTab(), network.url);
  await screen.tab.goto(`${network.url}/today`);
  return { database: join(data, 'naive.db'), live: '', phone, screen, network, stop: () => end(phone, network, server) };
}

/** @param {import('./chromium.js').Chromium} browser @returns {Promise<Planner>} */
async function withOnceward(browser) {
  const data = tempFolder('onceward-demo-');
  const server = await startServer('planner', ['-data', data]);
  const network = await BadNetwork.before(server.url);
  const phone = await browser.newContext();
  const screen = new Screen(await phone.newTab(), network.url);
  const { tab } = screen;
  await tab.goto(`${network.url}/auth/register`);
  await tab.type('#login', 'anna');
  await tab.type('#password', 'correct horse battery', { enter: true });
  await tab.waitFor('the page "today"', () => location.pathname === '/today' && document.readyState === 'complete');
  await screen.ready();
  return { database: join(data, 'planner.db'), live: ' where retracted = 0', phone, screen, network, stop: () => end(phone, network, server) };
}

/**
 * @param {import('./chromium.js').ChromiumContext} phone
 * @param {BadNetwork} network
 * @param {import('./processes.js').Server} server
 */
async function end(phone, network, server) {
  await phone.close();
  await network.stop();
  await server.kill();
}

/**
 * What the page was answered, in the order in which it came.
 * @param {import('./chromium.js').ChromiumContext} phone
 */
function answers({ context }) {
  /** @type {string[]} */
  const heard = [];
  const ours = (/** @type {import('playwright-core').Request} */ request) => request.method() === 'POST' && !request.serviceWorker() && /^\/tasks/.test(new URL(request.url()).pathname);
  context.on('response', r => {
    if (ours(r.request())) heard.push(`${r.status()} ${short(new URL(r.url()).pathname)}`);
  });
  context.on('requestfailed', r => {
    if (ours(r)) heard.push(`${t.noAnswer} ${short(new URL(r.url()).pathname)}`);
  });
  return () => heard.splice(0).forEach(answer => say(`  [${t.answer}] ${answer}`));
}

/** @param {Planner} planner @param {string} query @returns {Promise<Record<string, any>[]>} */
async function ask({ database }, query) {
  const rows = await sql(database, query);
  return rows.map(row => ({ ...row, is_completed: row.is_completed === 1 }));
}

/**
 * The taps. Everything that depends on the planner is what it shows.
 * @param {Planner} planner
 * @param {boolean} outbox whether it has one, whose strip and line can be shown
 */
async function taps(planner, outbox) {
  const { screen, phone, network, live } = planner;
  const { tab } = screen;
  say(`${t.controlled}: ${await tab.eval(() => navigator.serviceWorker.controller !== null)}`);
  for (const [title, line] of [[homework, homework], [training, `${training} ${t.weekly}`]]) {
    await screen.add(line);
    await screen.shows(title, { state: '' });
  }
  // Known to the server, not only shown.
  await until('both tasks are in the database', async () => (await ask(planner, `select * from tasks${live}`)).length === 2);
  await screen.shows(training, { state: '' });
  const hear = answers(phone);

  // Half a second without a network, at the very moment of the tap.
  await phone.setOffline(true);
  say(t.off);
  await screen.tap(homework);
  if (outbox) {
    await screen.shows(homework, { state: 'waiting' });
    const [kept] = await screen.keeps(1);
    await screen.stripSays(/./);
    hear();
    say(`${t.badge}: ${await tab.visible('#outbox-strip')} | ${await screen.strip()}`);
    say(`${t.queued}: ${JSON.stringify([`${kept.method} ${short(new URL(kept.url).pathname)}`])}`);
  } else {
    await sleep(1000);
    hear();
    say(t.circle((await screen.row(homework))?.done));
  }
  await phone.setOffline(false);
  say(t.on);
  if (outbox) {
    await screen.drained();
    say(`${t.left}: ${(await screen.queue()).length}`);
  } else {
    await sleep(5000);
    hear();
    say(t.nobody);
  }
  say();
  say(psql(['title', 'is_completed'], await ask(planner, `select title, is_completed from tasks${live ? `${live} and` : ' where'} title = '${homework}'`)));
  say();

  // The work is done, and its answer is lost. Three taps, a second apart: the
  // finger of somebody who is not sure.
  const { id } = await screen.shows(training);
  const before = (await network.state()).requests;
  await network.script('POST /tasks/* -> cut-after-forward');
  say(t.lost);
  for (const which of t.taps) {
    await tab.click(`#circle-${id}`);
    await sleep(1200);
    const done = await tab.attribute(`#circle-${id}`, 'aria-pressed');
    say(t.tap(which, done));
    hear();
  }
  if (outbox) {
    await screen.drained();
    say(`${t.left}: ${(await screen.queue()).length}`);
  }
  const sent = (await network.changes(before)).filter(e => e.forwarded > 0);
  const names = new Set(sent.flatMap(e => e.key ?? []));
  const more = outbox ? t.names(names.size) : sent.length > 3 ? t.itself : '';
  say(t.sent(sent.length) + more);
  say();
  const rows = await ask(planner, `select title, due_date, is_completed from tasks${live ? `${live} and` : ' where'} title = '${training}' order by due_date, is_completed desc`);
  say(psql(['title', 'due_date', 'is_completed'], rows));
  const next = rows.filter(row => row.due_date > rows[0].due_date).length;
  const [{ is_completed: done }] = await ask(planner, `select is_completed from tasks where title = '${homework}'`);
  return { lost: done ? 0 : 1, trainings: next };
}

export async function demo() {
  const browser = /** @type {import('./chromium.js').Chromium} */ (await open('chromium', { locale: t.locale }));
  try {
    say(t.without);
    say();
    const off = await without(browser);
    const harm = await taps(off, false);
    await off.stop();
    say();
    say(t.with);
    say();
    const on = await withOnceward(browser);
    const good = await taps(on, true);
    await on.stop();
    say();
    say(t.table[0]);
    say(`${t.table[1]}${String(harm.lost).padStart(13)}${String(good.lost).padStart(13)}`);
    say(`${t.table[2]}${String(harm.trainings).padStart(13)}${String(good.trainings).padStart(13)}`);
    return harm.lost === 1 && harm.trainings === 2 && good.lost === 0 && good.trainings === 1;
  } finally {
    await browser.close();
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) process.exit((await demo()) ? 0 : 1);
