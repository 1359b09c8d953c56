// @ts-check
// The page that stands in for one that the browser does not have. It says nothing
// of who is signed in, so it signs nobody out, and it speaks for nobody.
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { until } from './processes.js';
import { Scene } from './scene.js';
import { caption, changesMeet, has, physics, usual } from './steps.js';

const only = process.env.ONCEWARD_ENGINE;

/** The names of the caches of pages. @param {import('./screen.js').Screen} screen */
const kept = screen => screen.tab.eval(async () => (await caches.keys()).filter(name => name.startsWith('planner-pages-')));

/** Waits until these pages can be read without a network. @param {import('./screen.js').Screen} screen @param {string[]} paths */
const keeps = (screen, paths) =>
  screen.tab.waitFor(`${paths} are kept for reading`, async wanted => {
    for (const name of await caches.keys()) {
      if (!name.startsWith('planner-pages-')) continue;
      const have = (await (await caches.open(name)).keys()).map(r => new URL(r.url).pathname);
      if (wanted.every(path => have.includes(path))) return true;
    }
    return false;
  }, paths);

/** Opens a page that the browser does not have. @param {import('./screen.js').Screen} screen @param {string} path */
async function opensUnkept(screen, path) {
  await screen.tab.goto(screen.url + path);
  // WebKit's own language is English.
  await screen.tab.waitFor('the page for no network is shown', () => /^(Нет сети|You are offline)$/.test(document.querySelector('h1')?.innerText.trim() ?? ''));
}

/**
 * The worker comes to the phone with the page of the login, as it mostly does.
 * @param {import('./scene.js').Person} anna
 */
async function comesByTheLogin({ screen, context, login }) {
  await screen.tab.eval(async () => {
    for (const r of await navigator.serviceWorker.getRegistrations()) await r.unregister();
    for (const name of await caches.keys()) await caches.delete(name);
  });
  await context.clearCookies();
  await screen.tab.goto(`${screen.url}/auth/login`);
  await screen.tab.controlled();
  await screen.logIn(login);
  await screen.ready();
}

// The engines side by side, since most of it is waiting.
describe('the page in place of one that is not kept', { concurrency: true }, () => {
  for (const engine of /** @type {const} */ (['chromium', 'firefox', 'webkit'])) {
    if (!only || only === engine) describe(engine, { concurrency: 1 }, () => on(engine));
  }
});

/** @param {import('./engines.js').Engine} engine */
function on(engine) {
  /** @type {Scene} */
  let scene;
  before(async () => {
    scene = await Scene.open(engine, { limits: usual });
  });
  after(() => scene?.close());
  afterEach(() => scene.clear());

  test('R24, R25: logs nobody out: it says what waits, sends it when there is a network, and the kept pages stay', async () => {
    const anna = await scene.person();
    const { screen } = anna;
    await comesByTheLogin(anna);
    await has(anna, physics);
    const [{ id }] = await anna.tasks();
    await screen.tab.reload(); // what is kept is the page as it was loaded
    await screen.ready();
    await screen.tab.waitFor('the page with the task is kept', async title => {
      const page = await caches.match('/today');
      return page && (await page.text()).includes(title);
    }, physics);
    const [pages] = await kept(screen);
    await scene.network.mode('offline');
    await screen.tap(physics);
    await screen.shows(physics, { state: 'waiting' });

    await opensUnkept(screen, `/tasks/${id}`);
    await screen.stripSays('Одно изменение ждёт сети');
    await screen.openList();
    assert.match((await screen.list())[0].label, /Физика/);
    assert.deepEqual(await kept(screen), [pages]);
    // The page before is as it was, and waits for nothing but the network.
    await screen.tab.back();
    const row = await screen.shows(physics, { done: true, state: 'waiting' });
    assert.equal(row.caption, caption);
    await screen.stripSays('Одно изменение ждёт сети');

    // No other page of the planner is opened: this one is enough.
    await opensUnkept(screen, `/tasks/${id}`);
    await scene.network.good();
    await screen.drained();
    await screen.stripSays(null);
    assert.deepEqual(await scene.did(anna), [`create ${physics}`, `done ${physics}`]);
    assert.equal((await scene.sent(/state$/)).filter(e => e.forwarded > 0).length, 1);
    assert.deepEqual(await kept(screen), [pages]);
    await screen.tab.goto(`${screen.url}/done`);
    await screen.shows(physics, { done: true, state: '' });
  });

  test('after a login the pages of the bar and of what waits are kept, and after the log-out none is', async () => {
    const anna = await scene.person();
    const { screen } = anna;
    await has(anna, physics);
    await keeps(screen, ['/today', '/done', '/trash', '/settings', '/waiting']);
    await scene.network.mode('offline');
    await screen.tap(physics);
    await screen.shows(physics, { state: 'waiting' });
    for (const path of ['/done', '/trash', '/settings', '/waiting']) {
      await screen.tab.goto(screen.url + path);
      assert.doesNotMatch((await screen.tab.text('h1')) ?? '', /Нет сети|offline/, path);
      await screen.stripSays('Одно изменение ждёт сети');
    }
    await screen.tab.waitFor('the list of what waits is open', () => document.querySelectorAll('dialog[open] .outbox-item').length === 1);
    await scene.network.good();
    await screen.drained();

    await screen.tab.goto(`${screen.url}/settings`);
    await screen.tab.click('[data-outbox-logout] button');
    await screen.tab.waitFor('the page of the login', () => location.pathname === '/auth/login');
    await until('no page is kept', async () => (await kept(screen)).length === 0);
    await scene.network.mode('offline');
    await opensUnkept(screen, '/settings');
  });

  test('R24: the phone is handed over: it speaks of the one who is signed in, and sends nobody else’s', async () => {
    const anna = await scene.person();
    const { screen } = anna;
    const boris = await scene.account('boris', anna.context);
    await has(anna, physics);
    const [{ id }] = await anna.tasks();
    await changesMeet(scene, '502');
    await screen.tap(physics);
    await screen.shows(physics, { state: 'waiting' });
    await screen.tab.goto(`${screen.url}/settings`);
    await screen.stripSays('Одно изменение ждёт сети');
    await screen.tab.click('[data-outbox-logout] button');
    await screen.tab.click('[data-act="leave.keep"]');
    await screen.tab.waitFor('the page of the login', () => location.pathname === '/auth/login');
    await scene.network.good();

    await anna.logIn(screen, boris.login);
    await keeps(screen, ['/today', '/waiting']);
    await scene.network.mode('offline');
    await screen.add('Письмо');
    await screen.shows('Письмо', { state: 'waiting' });
    await opensUnkept(screen, `/tasks/${id}`);
    await screen.stripSays('Одно изменение ждёт сети');
    await screen.openList();
    assert.equal((await screen.list()).length, 1);
    assert.ok(!(await screen.tab.text('body'))?.includes('Физика'), 'the list has what is another’s');
    assert.equal((await kept(screen)).length, 1);
    await scene.network.good();
    await boris.database('what waited is his', tasks => tasks.length === 1 && tasks[0].title === 'Письмо');
    await screen.stripSays('Здесь ждут изменения из другого аккаунта');
    assert.equal((await anna.tasks())[0].is_completed, 0);

    await anna.logIn(screen, anna.login);
    await anna.database('hers is done', tasks => tasks[0].is_completed === 1);
    await screen.drained();
    assert.deepEqual(await scene.did(anna), [`create ${physics}`, `done ${physics}`]);
    assert.equal((await boris.tasks()).length, 1);
  });
}
