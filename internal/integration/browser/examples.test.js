// @ts-check
// The program of docs/outbox.md and the example with htmx, through a network that loses
// the answers: each tap has one effect, the strip comes and goes, and a photo arrives
// byte for byte. ONCEWARD_BROWSERS=all drives it on every engine.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { open } from './engines.js';
import { Example, photo, sha256, startPasted, waiting } from './examples.js';
import { until } from './processes.js';

/** @type {import('./chromium.js').Chromium} */
let chromium;
before(async () => {
  chromium = /** @type {import('./chromium.js').Chromium} */ (await open('chromium', { locale: 'en-US' }));
});
after(() => chromium?.close());

/** @param {Example} app @param {string} name */
async function signIn(app, name) {
  await app.tab.type('[name=name]', name, { enter: true });
  await app.tab.waitFor('the list', () => document.querySelector('#add') && document.readyState === 'complete');
  await app.tab.controlled();
}

/** @param {Example} app */
async function shop(app) {
  const { tab } = app;
  await app.goto('/login');
  await signIn(app, 'anna');

  // Added, and the answer lost.
  let seen = await app.seen();
  await app.lose();
  await tab.type('#add [name=text]', 'Milk', { enter: true });
  await app.strip(waiting);
  assert.equal(await tab.value('#add [name=text]'), '', 'the line is not free for the next item');
  await app.good();
  await app.strip(null);
  await tab.waitFor('the late row stands in the list', () => document.querySelectorAll('#items > li').length === 1);
  assert.match((await tab.text('#item-0')) ?? '', /Milk/);
  assert.equal(app.did('added "Milk"'), 1);
  await app.oneName(seen, '/items');

  // Ticked: the row is marked, also after a reload.
  seen = await app.seen();
  await app.lose();
  await tab.click('#item-0 > button');
  const marked = () => tab.waitFor('the row is marked', () => document.querySelector('#item-0[data-outbox-state=waiting] .outbox-caption')?.textContent === 'will be saved once you are online');
  await marked();
  await tab.reload();
  await marked();
  await app.good();
  await app.strip(null);
  await tab.waitFor('the row is plain', () => document.querySelector('#item-0')?.getAttribute('data-outbox-state') === null);
  assert.equal(app.did('bought "Milk": true'), 1);
  await app.oneName(seen, '/items/0/state');
  await tab.reload();
  assert.match((await tab.text('#item-0 > button')) ?? '', /☑/);

  // A photo, as large as is kept.
  const file = photo(1_000_000);
  seen = await app.seen();
  await app.loseTwice();
  await tab.files('#item-0 [name=photo]', [file]);
  await tab.click('#item-0 form button');
  await tab.waitForWithin(60_000, 'the row has the photo', () => document.querySelector('#item-0 img'));
  await app.strip(null);
  assert.equal(app.did('photo of "Milk": 1000000 bytes'), 1);
  await app.oneName(seen, '/items/0/photo');
  assert.equal(await app.sum('/items/0/photo'), sha256(file.bytes));

  // On a good network nothing of all this is seen.
  await tab.type('#add [name=text]', 'Bread', { enter: true });
  await tab.waitFor('the row', () => document.querySelectorAll('#items > li').length === 2);
  assert.equal(await tab.value('#add [name=text]'), '');
  await app.strip(null);
}

for (const version of ['2', '4']) {
  test(`htmx ${version}: a tap whose answer is lost counts once, its row is marked, a photo arrives whole`, async () => {
    const app = await Example.open(chromium, 'htmx', ['-htmx', version]);
    try {
      await shop(app);
      assert.equal(await app.tab.eval(() => (/** @type {any} */ (window)).htmx.version[0]), version);
    } finally {
      await app.close();
    }
  });
}

for (const engine of process.env.ONCEWARD_BROWSERS === 'all' ? /** @type {const} */ (['firefox', 'webkit']) : []) {
  test(`htmx 2 on ${engine}`, async () => {
    const browser = await open(engine, { locale: 'en-US' });
    const app = await Example.open(browser, 'htmx');
    try {
      await shop(app);
    } finally {
      await app.close();
      await browser.close();
    }
  });
}

test('the program to paste: what is tapped while the server is stopped is done once it is back; a session that has ended asks for a login, another person sees nothing of it, and it is done for who made it', async () => {
  const server = await startPasted();
  const app = await Example.before(server, chromium);
  const { tab } = app;
  try {
    await app.goto('/login');
    await signIn(app, 'anna');
    await app.context.clearCookies();
    await tab.type('#add [name=text]', 'Milk', { enter: true });
    await app.strip('Log in again to save one change');
    assert.equal(app.did('added "Milk"'), 0);
    await tab.click('#outbox-strip a');
    await tab.waitFor('the login', () => location.pathname === '/login' && document.querySelector('[name=name]'));
    await signIn(app, 'boris');
    await app.strip('Changes from another account are waiting here');
    assert.ok(!((await tab.eval(() => document.body.innerText)) ?? '').includes('Milk'));
    assert.equal(app.did('added "Milk"'), 0);
    await tab.click('form[action="/logout"] button');
    await tab.waitFor('the login', () => location.pathname === '/login' && document.querySelector('[name=name]'));
    await signIn(app, 'anna');
    await app.strip(null);
    await until('it is done', () => app.did('added "Milk"') === 1);

    await app.goto('/');
    await server.kill();
    await tab.type('#add [name=text]', 'Bread', { enter: true });
    await app.strip(waiting);
    assert.equal(await tab.value('#add [name=text]'), '', 'the line is not free for the next item');
    await server.start();
    await app.strip(null);
    const rows = () => tab.eval(() => [...document.querySelectorAll('#items > li')].map(li => li.textContent?.replace(/\W/g, '')).join());
    await until('both rows', async () => /Milk.*Bread/.test(await rows())).catch(() => {});
    assert.equal(await rows(), 'Milk,Bread');
    assert.equal(app.did('added "Bread"'), 1);
  } finally {
    await app.close();
  }
});
