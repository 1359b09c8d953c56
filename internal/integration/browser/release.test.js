// @ts-check
// A new release's worker takes over while pages speak to the old one. Chromium ends
// the old worker for it; a message in just that moment starts the old one again, and
// the new one is left waiting for as long as anybody speaks to the old one, up to
// five minutes. Where the new release has changed the store, nothing is sent then.
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { Scene } from './scene.js';

/** @type {Scene | undefined} */
let scene;
afterEach(async () => {
  await scene?.close();
  scene = undefined;
});

const releases = 3;

// Scenario 20; W22, R40.
for (const engine of /** @type {const} */ (['chromium', 'firefox', 'webkit'])) {
  test(`${engine}: a new release's worker takes over though two pages speak to the old one all the time`, async () => {
    scene = await Scene.open(engine);
    const { upstream } = scene.site;
    assert.ok(upstream);
    // As pages do while anything is unsent, but fifty times as often.
    const eager = { '/outbox/page.js': (/** @type {string} */ text) => text.replace('Math.max(ms, quiet', 'Math.max(20, quiet') };
    upstream.patch = eager;
    const anna = await scene.person();
    const { screen } = anna;
    await scene.network.set({ plan: 'POST /tasks* -> refuse=1', mode: 'plan' });
    await screen.add('Химия');
    await screen.keeps(1);
    const second = await anna.openTab();
    await second.stripSays('Одно изменение ждёт сети');
    await screen.tab.front();
    await screen.tab.eval(() => {
      const w = /** @type {any} */ (window);
      w.rigTaken = 0;
      navigator.serviceWorker.addEventListener('controllerchange', () => w.rigTaken++);
    });
    for (let n = 1; n <= releases; n++) {
      upstream.patch = { ...eager, '/sw.js': text => `${text}\n// Release ${n}.\n` };
      await screen.tab.waitForWithin(30_000, `release ${n} has the page`, async n => {
        const w = /** @type {any} */ (window);
        const r = await navigator.serviceWorker.ready;
        // An update that had begun before this release was there is the same to the browser.
        if (!r.installing && !r.waiting && w.rigTaken < n) await r.update();
        return w.rigTaken === n;
      }, n);
    }
    // One that cannot be installed keeps the pages quiet for a moment only.
    upstream.patch = { ...eager, '/sw.js': text => `${text}\naddEventListener('install', e => e.waitUntil(Promise.reject(new Error('no'))));\n` };
    await screen.tab.eval(async () => void (await (await navigator.serviceWorker.ready).update().catch(() => {})));
    await screen.tab.waitFor('it is not installed', async () => {
      const { installing, waiting } = await navigator.serviceWorker.ready;
      return !installing && !waiting;
    });
    await scene.network.good();
    await screen.drained(20_000);
    assert.deepEqual((await anna.tasks()).map(t => t.title), ['Химия']);
    for (const s of [screen, second]) {
      await s.stripSays(null);
      assert.deepEqual(await s.errors(), []);
    }
  });
}
