// @ts-check
// B123: Firefox gives back the pages of the last time when it starts again. One of
// them answered a form, without a redirect: what the browser sends for it must not
// be done again.
import assert from 'node:assert/strict';
import { existsSync, statSync, writeFileSync } from 'node:fs';
import { createServer, request } from 'node:http';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { onPath } from './engines.js';
import { BadNetwork } from './fault.js';
import { sleep, sql, startProgram, startServer, tempFolder, until } from './processes.js';

const prefs = {
  'browser.startup.page': 3, // the windows and tabs of the last time
  'browser.sessionstore.interval': 500,
  'browser.sessionstore.interval.idle': 500,
  'browser.sessionstore.restore_on_demand': false,
  'browser.sessionstore.restore_tabs_lazily': false,
  'browser.sessionstore.resume_from_crash': true,
  'browser.sessionstore.max_resumed_crashes': -1,
  'toolkit.startup.max_resumed_crashes': -1,
  'browser.shell.checkDefaultBrowser': false,
  'browser.aboutwelcome.enabled': false,
  'browser.startup.homepage_override.mstone': 'ignore',
  'datareporting.policy.dataSubmissionEnabled': false,
  'network.captive-portal-service.enabled': false,
  'network.connectivity-service.enabled': false,
};

test('B123: an order whose form was answered with a page; Firefox ends, and is started with what it had open: one order', async () => {
  const database = join(tempFolder('onceward-orders-'), 'orders.db');
  const shop = await startServer('orders', ['-store', `sqlite:${database}`]);
  after(() => shop.kill());
  // The form's page sends it by itself, once. And no page may be shown again out of
  // a cache, so that it is seen what the browser asks for.
  let given = 0;
  const between = createServer((req, res) => {
    if (req.url === '/form') {
      given++;
      res.writeHead(200, { 'Content-Type': 'text/html; charset=utf-8', 'Cache-Control': 'no-store' });
      return void res.end(`<form method="post" action="/create-order"><input name="_key" value="form-1"><input name="item" value="чай"><input name="qty" value="1"></form>
        <script>setTimeout(() => document.forms[0].submit(), 200)</script>`);
    }
    const up = request(`${shop.url}${req.url}`, { method: req.method, headers: req.headers, agent: false }, answer => {
      res.writeHead(answer.statusCode ?? 502, { ...answer.headers, 'cache-control': 'no-store' });
      answer.pipe(res);
    });
    up.on('error', () => res.destroy());
    req.pipe(up);
  });
  await new Promise(resolve => between.listen(0, '127.0.0.1', () => resolve(undefined)));
  after(() => (between.closeAllConnections(), between.close()));
  const { port } = /** @type {import('node:net').AddressInfo} */ (between.address());
  const network = await BadNetwork.before(`http://127.0.0.1:${port}`);
  after(() => network.stop());
  const orders = () => sql(database, 'select item, qty from orders');

  const profile = tempFolder('onceward-firefox-');
  writeFileSync(join(profile, 'user.js'), Object.entries(prefs).map(([name, value]) => `user_pref(${JSON.stringify(name)}, ${JSON.stringify(value)});\n`).join(''));
  // As a person starts it: a driver has it forget what was open.
  const start = (/** @type {string[]} */ ...args) => startProgram(onPath('firefox-esr'), ['--headless', '--no-remote', '--profile', profile, ...args]);

  const first = start(`${network.url}/form`);
  after(() => first.kill());
  await until('the order is made', async () => (await orders()).length === 1, { timeout: 60_000 });
  await until('it was answered', async () => (await network.changes()).some(e => e.fate === 'answered'));
  const answered = Date.now();
  const [made] = await network.changes();
  assert.deepEqual([made.path, made._key, made.status], ['/create-order', 'form-1', 201]);
  // It writes down what is open now and then.
  const written = join(profile, 'sessionstore-backups', 'recovery.jsonlz4');
  await until('what is open is written down', () => existsSync(written) && Date.now() - statSync(written).mtimeMs > 0 && statSync(written).mtimeMs > answered, { timeout: 60_000 });
  await first.stop('SIGTERM', 20_000);

  const seen = (await network.log()).at(-1)?.n ?? 0;
  const second = start();
  after(() => second.kill());
  const restored = await until('the page is asked for again', async () => (await network.log(seen)).find(e => e.path === '/create-order') ?? Promise.reject(new Error(JSON.stringify(await network.log(seen)))), { timeout: 60_000 });
  await sleep(1000); // and whatever follows
  console.log(`Firefox asks for the restored page with ${restored.method}`);
  assert.deepEqual(await orders(), [{ item: 'чай', qty: 1 }]);
  assert.equal(given, 1);
  for (const e of (await network.log(seen)).filter(e => e.method === 'POST')) assert.equal(e._key, 'form-1', 'it was sent without its name');
});
