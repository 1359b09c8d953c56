// @ts-check
// An app's own worker, no module, with its own cache and fetch listener, that takes
// the outbox in by importScripts; and a policy that lets a script run by its nonce
// alone.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { open } from './engines.js';
import { Example, waiting } from './examples.js';
import { until } from './processes.js';

/** @type {import('./chromium.js').Chromium} */
let chromium;
before(async () => {
  chromium = /** @type {import('./chromium.js').Chromium} */ (await open('chromium', { locale: 'en-US' }));
});
after(() => chromium?.close());

test('an own classic worker keeps its pages and the outbox its requests; the strictest policy is never broken', async () => {
  const app = await Example.open(chromium, 'worker');
  const { tab } = app;
  const { setOffline, context } = /** @type {import('./chromium.js').ChromiumContext} */ (app.context);
  /** @type {string[]} */
  const broken = [];
  context.on('console', m => /Content.Security.Policy|Refused to/i.test(m.text()) && broken.push(m.text()));
  context.on('weberror', e => broken.push(String(e.error())));
  try {
    await app.goto('/');
    await app.goto('/'); // by the worker, which now keeps it
    const own = await tab.eval(async () => {
      const worker = navigator.serviceWorker.controller?.scriptURL ?? '';
      return { path: new URL(worker).pathname, caches: (await caches.keys()).sort() };
    });
    assert.deepEqual([own.path, own.caches], ['/sw.js', ['app-1', 'outbox']]);
    assert.equal(await tab.attribute('#laps', 'data-script'), 'ran');

    // The answer lost: by the worker's file as by the modules.
    const seen = await app.seen();
    await app.lose();
    await tab.click('#lap button');
    await tab.waitFor('the page is back', () => location.pathname === '/' && document.readyState === 'complete');
    await app.strip(waiting);
    await tab.waitFor('the row is marked', () => document.querySelector('#lap[data-outbox-state=waiting] .outbox-caption'));
    await app.good();
    await app.strip(null);
    assert.equal(app.did('lap 1'), 1);
    await app.oneName(seen, '/laps');

    // Without a network: the app's page from the app's cache, the tap into the outbox.
    await tab.reload();
    await setOffline(true);
    await tab.reload();
    assert.equal(await tab.text('#laps'), '1');
    await tab.click('#lap button');
    await tab.waitFor('the page that says so', () => location.pathname === '/outbox/queued');
    await tab.goto(app.network.url);
    await app.strip(waiting);
    assert.equal(app.did('lap 2'), 0);
    await setOffline(false);
    await app.strip(null);
    await until('the second lap', () => app.did('lap 2') === 1);
    assert.equal(app.did('lap 3'), 0);
    assert.deepEqual(broken, []);

    // The policy is in force: what has no nonce does not run.
    await tab.eval(() => {
      const script = document.createElement('script');
      script.textContent = 'document.title = "broken"';
      document.body.append(script);
    });
    assert.equal(await tab.eval(() => document.title), 'Laps');
    await until('the browser says so', () => broken.length > 0);
  } finally {
    await app.close();
  }
});

test("a page's headers are no part of the worker's address: a new token makes no new worker", async () => {
  const app = await Example.open(chromium, 'forms');
  const { context } = /** @type {import('./chromium.js').ChromiumContext} */ (app.context);
  try {
    const page = await context.newPage();
    await page.route(`${app.network.url}/`, async route => {
      const answer = await route.fetch();
      const text = (await answer.text()).replace('{&#34;prefix&#34;', '{&#34;headers&#34;:{&#34;X-CSRF-Token&#34;:&#34;token-1&#34;},&#34;prefix&#34;');
      await route.fulfill({ response: answer, body: text });
    });
    await page.goto(app.network.url);
    const [told, address] = await page.evaluate(async () => [
      document.querySelector('meta[name=outbox-config]')?.getAttribute('content'),
      (await navigator.serviceWorker.ready).active?.scriptURL,
    ]);
    assert.match(told ?? '', /token-1/);
    assert.match(address ?? '', /\/outbox\/sw\.js\?outbox=/);
    assert.doesNotMatch(address ?? '', /token-1|CSRF/);
  } finally {
    await app.close();
  }
});
