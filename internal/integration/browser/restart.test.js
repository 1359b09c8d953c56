// @ts-check
// Scenario 11: the browser is killed (SIGKILL, as when the battery is empty) while
// a tap is on a network that swallows everything. S39, B130, B143, W8, R20.
import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { open } from './engines.js';
import { tempFolder, until } from './processes.js';
import { startSite } from './scene.js';
import { Screen } from './screen.js';
import { drive, openMiniBrowser } from './selfdriven.js';
import { caption, usual } from './steps.js';
import { ways } from './ways.js';

/**
 * @typedef {object} Phone one that can be killed and comes back with all that it kept
 * @property {(url: string) => Promise<Screen>} start at this page
 * @property {() => Promise<void>} kill
 */

/**
 * @param {import('./engines.js').Engine} engine
 * @param {import('./scene.js').Site} site
 * @returns {Phone}
 */
function phone(engine, site) {
  const folder = tempFolder('onceward-profile-');
  if (ways[11][engine] === 'drives itself') {
    if (!site.upstream) throw new Error('no page can be given the script');
    const { tab } = drive(site.upstream, ['/auth/login', '/today']);
    /** @type {Awaited<ReturnType<typeof openMiniBrowser>> | undefined} */
    let program;
    after(() => program?.kill());
    return {
      async start(url) {
        program = await openMiniBrowser(url, folder);
        await tab.waitForWithin(60_000, 'the page has come', () => document.readyState === 'complete');
        return new Screen(tab, site.url);
      },
      kill: async () => program?.kill(),
    };
  }
  /** @type {import('./engines.js').Browser | undefined} */
  let browser;
  after(() => browser?.close());
  return {
    async start(url) {
      browser = await open(engine, { profile: folder });
      const screen = new Screen(await browser.newTab(), site.url);
      await screen.tab.goto(url);
      return screen;
    },
    kill: async () => browser?.kill(),
  };
}

describe('a browser that is killed', { concurrency: true }, () => {
  for (const engine of /** @type {const} */ (['chromium', 'firefox', 'webkit'])) {
    test(`${engine}: finds what it kept when it starts again with the same profile, and sends it once`, async () => {
      const site = await startSite({ limits: usual });
      after(() => site.stop());
      const { start, kill } = phone(engine, site);
      const login = `anna-${engine}`;
      const title = 'Физика: задачи 12–15';
      await site.register(login);

      let screen = await start(`${site.url}/auth/login`);
      await screen.logIn(login);
      await screen.ready();
      await screen.add(title);
      await until('the task is there', async () => (await site.tasks(login)).length === 1);
      await screen.shows(title, { done: false, state: '' });
      await site.network.set({ plan: 'POST /tasks* -> blackhole=1', mode: 'plan' });
      await screen.tap(title);
      await screen.shows(title, { state: 'waiting' });
      const [kept] = await screen.queue();
      await kill();
      assert.equal((await site.tasks(login))[0].is_completed, 0);

      screen = await start(`${site.url}/today`);
      // A browser writes its cookies to the disk every half a minute or so: a kill
      // may have ended the session, but not what was kept.
      if ((await screen.tab.url()).includes('/auth/login')) await screen.logIn(login);
      await screen.ready();
      const row = await screen.shows(title, { done: true, state: 'waiting' });
      assert.equal(row.caption, caption);
      await screen.stripSays('Одно изменение ждёт сети');
      assert.deepEqual((await screen.queue()).map(e => e.key), [kept.key]);
      await site.network.good();
      await screen.drained();
      await until('it is done in the database', async () => (await site.tasks(login))[0].is_completed === 1);
      assert.equal((await site.tasks(login)).length, 1);
      await screen.stripSays(null);
      const sent = (await site.network.changes()).filter(e => /state$/.test(e.path));
      assert.deepEqual([...new Set(sent.map(e => e.key))], [kept.key]);
      assert.equal(sent.filter(e => e.forwarded > 0).length, 1);
    });
  }
});
