// @ts-check
// Scenario 11: the browser is killed (SIGKILL, as when the battery is empty) while
// a tap is on a network that swallows everything. S39, B130, B143, W8, R20.
import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { open } from './engines.js';
import { tempFolder, until } from './processes.js';
import { startSite } from './scene.js';
import { Screen } from './screen.js';
import { usual } from './steps.js';

describe('a browser that is killed', () => {
  for (const engine of /** @type {const} */ (['chromium', 'firefox'])) {
    test(`${engine}: finds what it kept when it starts again with the same profile, and sends it once`, async () => {
      const site = await startSite({ limits: usual });
      after(() => site.stop());
      const profile = tempFolder('onceward-profile-');
      const login = `anna-${engine}`;
      const title = 'Физика: задачи 12–15';
      await site.register(login);

      let browser = await open(engine, { profile });
      let screen = new Screen(await browser.newTab(), site.url);
      await screen.tab.goto(`${site.url}/auth/login`);
      await screen.logIn(login);
      await screen.ready();
      await screen.add(title);
      await until('the task is there', async () => (await site.tasks(login)).length === 1);
      await screen.shows(title, { done: false, state: '' });
      await site.network.set({ mode: 'blackhole' });
      await screen.tap(title);
      await screen.shows(title, { state: 'waiting' });
      await browser.kill();
      assert.equal((await site.tasks(login))[0].is_completed, 0);
      await site.network.good();

      browser = await open(engine, { profile });
      after(() => browser.close());
      screen = new Screen(await browser.newTab(), site.url);
      await screen.tab.goto(`${site.url}/today`);
      // A browser writes its cookies to the disk every half a minute or so: a kill
      // may have ended the session, but not what was kept.
      if ((await screen.tab.url()).includes('/auth/login')) await screen.logIn(login);
      await screen.ready();
      await screen.drained();
      await until('it is done in the database', async () => (await site.tasks(login))[0].is_completed === 1);
      assert.equal((await site.tasks(login)).length, 1);
    });
  }
});
