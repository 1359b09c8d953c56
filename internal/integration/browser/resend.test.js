// @ts-check
// Chromium sends a POST again by itself when a kept connection closes without an
// answer: one fetch, one submitted form, two requests. No script sees it, and the
// developer tools show one. That the second is not a second order is up to the
// server. P1; B121; design.md 8.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';
import { open } from './engines.js';
import { BadNetwork } from './fault.js';
import { sql, startServer, tempFolder, until } from './processes.js';
import { Scene, startSite } from './scene.js';

/** @type {import('./chromium.js').Chromium} */
let browser;
/** @type {import('./chromium.js').ChromiumContext} */
let context;
before(async () => {
  browser = /** @type {import('./chromium.js').Chromium} */ (await open('chromium'));
});
after(() => browser?.close());

/**
 * What met the fault, and what came of it: of one request the page knows.
 * @param {import('./fault.js').Entry[]} sent
 */
function assertSentTwice(sent) {
  assert.deepEqual(
    sent.map(e => [e.mode.replace(/^slow.*\+/, ''), e.fate, e.forwarded]),
    [['reset-once', 'closed', 1], ['pass', 'answered', 1]],
    JSON.stringify(sent, null, 1),
  );
}

describe('a shop', () => {
  /** @type {import('./processes.js').Server} */
  let shop;
  /** @type {BadNetwork} */
  let network;
  let database = '';
  before(async () => {
    database = join(tempFolder('onceward-orders-'), 'orders.db');
    shop = await startServer('orders', ['-store', `sqlite:${database}`, '-chaos']);
    network = await BadNetwork.before(shop.url);
  });
  after(async () => {
    await network?.stop();
    await shop?.kill();
  });
  afterEach(() => context.close());

  /** @param {string} item */
  const orders = item => sql(database, 'select item, qty from orders where item = ?', item);

  /** A tab of the shop whose connection is open, and whose next POST meets the fault. */
  async function tab() {
    context = await browser.newContext();
    const opened = await context.newTab();
    await network.clearLog();
    await opened.goto(`${network.url}/orders`);
    await network.script('POST /create-order -> reset-once');
    return opened;
  }

  /** @param {string} item @param {Record<string, string>} headers */
  async function order(item, headers) {
    const opened = await tab();
    const answer = await opened.eval(
      async (i, h) => {
        const r = await fetch('/create-order', { method: 'POST', headers: { 'Content-Type': 'application/json', ...h }, body: JSON.stringify({ item: i, qty: 1 }) });
        return { status: r.status, replayed: r.headers.get('Idempotency-Replayed'), order: await r.json() };
      },
      item,
      headers,
    );
    return { answer, sent: await network.changes() };
  }

  test('P1: one fetch without a name is sent twice by Chromium, and is two orders', async () => {
    const { answer, sent } = await order('чай', {});
    assert.equal((await orders('чай')).length, 2);
    assert.equal(answer.status, 201);
    assertSentTwice(sent);
  });

  test('P1: the same fetch under a key is sent twice by Chromium, and is one order', async () => {
    const { answer, sent } = await order('кофе', { 'Idempotency-Key': 'tap-1' });
    assert.deepEqual(await orders('кофе'), [{ item: 'кофе', qty: 1 }]);
    assertSentTwice(sent);
    assert.deepEqual(sent.map(e => e.key), ['tap-1', 'tap-1']);
    // The page gets the answer of the order that was made.
    assert.deepEqual([answer.status, answer.replayed, answer.order.item], [201, '1', 'кофе']);
  });

  /** @param {string} item @param {Record<string, string>} fields */
  async function submit(item, fields) {
    const opened = await tab();
    await opened.eval(given => {
      const form = document.createElement('form');
      form.method = 'post';
      form.action = '/create-order';
      for (const [name, value] of Object.entries(given)) form.append(Object.assign(document.createElement('input'), { type: 'hidden', name, value }));
      document.body.append(form);
      setTimeout(() => form.submit());
    }, { ...fields, item, qty: '1' });
    await opened.waitFor('the order is shown', () => location.pathname === '/create-order' && document.body.innerText.includes('placed'));
    return network.changes();
  }

  test('B121: a plain form without a name is sent twice by Chromium, and is two orders', async () => {
    const sent = await submit('сахар', {});
    assert.equal((await orders('сахар')).length, 2);
    assertSentTwice(sent);
  });

  test('B121: a plain form with the hidden name is sent twice by Chromium, and is one order', async () => {
    const sent = await submit('соль', { _key: 'form-1' });
    assert.deepEqual(await orders('соль'), [{ item: 'соль', qty: 1 }]);
    assertSentTwice(sent);
    assert.deepEqual(sent.map(e => e._key), ['form-1', 'form-1']);
  });
});

describe('the planner', () => {
  /** @type {Scene} */
  let scene;
  before(async () => {
    scene = new Scene(await startSite(), browser);
  });
  after(() => scene?.site.stop());
  afterEach(() => scene.clear());

  test('P1, through the worker: a tap and a new task that Chromium sends twice are done once', async () => {
    const anna = await scene.person();
    const { screen } = anna;
    // The step waits for a request on a connection that was used before.
    await scene.network.script('POST /tasks -> reset-once');
    await screen.add('Тренировка каждый понедельник');
    await anna.database('it is there', tasks => tasks.some(t => t.title === 'Тренировка'));
    await screen.drained();
    await screen.shows('Тренировка', { state: '', done: false });
    await scene.network.script('POST /tasks/*/state -> reset-once');
    await screen.tap('Тренировка');
    await anna.database('it is done', tasks => tasks.some(t => t.is_completed === 1));
    await screen.drained();

    assert.deepEqual((await anna.tasks()).map(t => [t.title, t.is_completed]), [['Тренировка', 1], ['Тренировка', 0]]);
    assert.deepEqual(await scene.did(anna), ['create Тренировка', 'done Тренировка']);
    for (const path of [/^\/tasks$/, /\/state$/]) {
      const sent = await scene.sent(path);
      assertSentTwice(sent);
      assert.equal(new Set(sent.map(e => e.key)).size, 1);
      assert.ok(sent[0].key);
    }
    await screen.stripSays(null);
    assert.deepEqual(await screen.errors(), []);
  });

  test('B121: a server that closes after five seconds without an answer, a form without JavaScript: one task', async () => {
    const login = `vera-${process.pid}`;
    const cookie = await scene.site.register(login);
    const playwright = await /** @type {import('playwright-core').Browser} */ (browser.context.browser()).newContext({ javaScriptEnabled: false, locale: 'ru-RU' });
    try {
      await playwright.addCookies([{ ...cookie, url: scene.site.url }]);
      const page = await playwright.newPage();
      await page.goto(`${scene.site.url}/today`);
      await page.fill('#add-text', 'Алгебра');
      await scene.network.script('POST /tasks -> slow-after:5s+reset-once');
      await page.press('#add-text', 'Enter', { noWaitAfter: true });
      await until('the normal page', () => page.url().includes('/today#task-'), { timeout: 40_000 });
      await page.locator('#lists .row-title', { hasText: 'Алгебра' }).waitFor();

      assert.deepEqual((await scene.site.tasks(login)).map(t => t.title), ['Алгебра']);
      const sent = await scene.sent(/^\/tasks$/);
      assertSentTwice(sent);
      assert.ok(sent[0]._key);
      assert.equal(sent[1]._key, sent[0]._key);
      assert.equal(await page.locator('#lists .row').count(), 1);
    } finally {
      await playwright.close();
    }
  });
});
