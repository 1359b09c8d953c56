// @ts-check
// The examples of docs/outbox.md, through a network that loses the answers: each
// tap has one effect, the strip comes and goes, and a photo arrives byte for byte.
// ONCEWARD_BROWSERS=all drives htmx 2 on every engine.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { open } from './engines.js';
import { Example, photo, sha256, waiting } from './examples.js';
import { startProgram, binary, until } from './processes.js';

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
  await app.lose();
  await tab.files('#item-0 [name=photo]', [file]);
  await tab.click('#item-0 form button');
  await app.strip(waiting);
  await app.good();
  await app.strip(null);
  await tab.waitFor('the row has the photo', () => document.querySelector('#item-0 img'));
  assert.equal(app.did('photo of "Milk": 1000000 bytes'), 1);
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

test('htmx: a session that has ended asks for a login, another person sees nothing of it, and it is done for who made it', async () => {
  const app = await Example.open(chromium, 'htmx');
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
  } finally {
    await app.close();
  }
});

describe('plain forms', () => {
  /** @type {Example} */
  let app;
  before(async () => {
    app = await Example.open(chromium, 'forms');
  });
  after(() => app?.close());

  test('with scripts: what is sent and lost waits, with a picture of a million bytes, and is written once', async () => {
    const { tab } = app;
    await app.goto('/');
    const seen = await app.seen();
    const file = photo(1_000_000);
    await app.lose();
    await tab.type('textarea', 'Привет');
    await tab.files('[name=picture]', [file]);
    await tab.click('form[action="/entries"] button');
    await tab.waitFor('the page is back from "saved on this device"', () => location.pathname === '/' && document.readyState === 'complete');
    await app.strip(waiting);
    await app.good();
    await app.strip(null);
    await tab.reload();
    assert.equal(await tab.count('ol > li'), 1);
    assert.equal(app.did('written "Привет"'), 1);
    assert.equal(await tab.text('ol a'), file.name);
    assert.equal(await app.sum('/entries/0/picture'), sha256(file.bytes));
    await app.oneName(seen, '/entries');
  });

  test('with scripts: without any network there is a page that says so, and leads back', async () => {
    const { tab } = app;
    await app.goto('/');
    await app.network.mode('offline');
    await tab.click('ol form button');
    await tab.waitFor('the page that says so', () => location.pathname === '/outbox/queued' && document.querySelector('h1')?.textContent === 'Saved on this device');
    await app.good();
    await tab.waitForWithin(20_000, 'it leads back', () => location.pathname === '/' && document.readyState === 'complete');
    await app.strip(null);
    await until('thanks', () => app.did('thanks for "Привет"') === 1);
  });

  test('without scripts: a press whose answer is lost, and sent again by hand, counts once', async () => {
    const page = await (await chromium.context.browser()?.newContext({ javaScriptEnabled: false }))?.newPage();
    assert.ok(page);
    try {
      await page.goto(app.network.url);
      await app.network.script('POST /entries -> cut-after-forward*4');
      await page.fill('textarea', 'by hand');
      await page.click('form[action="/entries"] button').catch(() => {});
      await until('it is done', () => app.did('written "by hand"') > 0);
      await page.waitForURL('chrome-error://chromewebdata/', { timeout: 20_000 }).catch(() => {});
      await app.good();
      await page.reload({ timeout: 20_000 }); // "send again?" is answered with yes
      await page.getByText('by hand').waitFor({ timeout: 20_000 });
      assert.equal(app.did('written "by hand"'), 1);
      const sends = (await app.network.changes()).filter(e => e.path === '/entries');
      assert.ok(sends.length > 2);
    } finally {
      await page.context().close();
    }
  });
});

test('fetch, and a server of another kind: its own header acknowledges, whatever else answers; a megabyte arrives whole', async () => {
  const app = await Example.open(chromium, 'fetch');
  const { tab } = app;
  try {
    await app.goto('/');
    for (const fault of ['cut-after-forward', 'waf-403', 'captive-200', '502-after']) {
      const text = `note after ${fault}`;
      const seen = await app.seen();
      await app.lose(fault);
      await tab.type('textarea', text);
      await tab.click('#note button');
      await app.strip(waiting);
      assert.equal(await tab.value('textarea'), '');
      await app.good();
      await app.strip(null);
      await tab.waitFor('the note is shown', t => [...document.querySelectorAll('#notes li')].filter(li => li.textContent === t).length === 1, text);
      await app.oneName(seen, '/notes');
    }
    const file = photo(1 << 20);
    await app.lose();
    await tab.files('[name=file]', [file]);
    await tab.click('#note button');
    await app.strip(waiting);
    await app.good();
    await app.strip(null);
    const notes = await tab.eval(async () => (await fetch('/notes')).json());
    assert.deepEqual(notes.map((/** @type {any} */ n) => n.text).slice(0, 4), ['cut-after-forward', 'waf-403', 'captive-200', '502-after'].map(f => `note after ${f}`));
    assert.deepEqual([notes.length, notes[4].size, notes[4].sha256], [5, 1 << 20, sha256(file.bytes)]);
    assert.equal(app.did(' bytes'), 5);

    // Its final no is shown, and not sent again.
    await tab.click('#note button');
    await app.strip('One change was not accepted');
  } finally {
    await app.close();
  }
});

test('the kill switch: the worker that takes the place of the old one sends what is left, then removes itself', async () => {
  const app = await Example.open(chromium, 'forms');
  const { tab } = app;
  try {
    await app.goto('/');
    await app.lose('502');
    await tab.type('textarea', 'the last words');
    await tab.click('form[action="/entries"] button');
    await tab.waitFor('back', () => location.pathname === '/' && document.readyState === 'complete');
    await app.strip(waiting);
    // A page without our scripts: nobody but the new worker will send.
    await tab.goto(`${app.network.url}/entries/0/picture`);
    await app.server.kill();
    const killing = startProgram(await binary('example-forms'), ['-addr', new URL(app.server.url).host, '-kill']);
    try {
      await until('it listens', () => /listening/.test(killing.output()));
      assert.deepEqual(await tab.eval(async () => (await navigator.serviceWorker.getRegistrations()).length), 1);
      const seen = await app.seen();
      await app.good();
      await tab.eval(async () => void (await (await navigator.serviceWorker.getRegistration())?.update()));
      await tab.waitForWithin(20_000, 'the worker is gone', async () => (await navigator.serviceWorker.getRegistrations()).length === 0);
      assert.equal(killing.output().split('\n').filter(l => l.endsWith('written "the last words"')).length, 1);
      const log = await app.network.log(seen);
      const [script, sent] = [log.findIndex(e => e.path === '/outbox/kill.js' || e.path === '/outbox/sw.js'), log.findIndex(e => e.method === 'POST')];
      assert.ok(script >= 0 && sent > script, `the new worker did not send it: ${JSON.stringify(log.map(e => e.path))}`);

      // Pages that still have the script go on, and the switch stays thrown.
      await tab.goto(app.network.url);
      await tab.type('textarea', 'still here');
      await tab.click('form[action="/entries"] button');
      await until('it is done', () => /written "still here"/.test(killing.output()));
      await tab.waitForWithin(20_000, 'no worker stays', async () => (await navigator.serviceWorker.getRegistrations()).length === 0);
      assert.equal(await tab.eval(() => document.querySelector('#outbox-strip')?.checkVisibility() ?? false), false);
    } finally {
      await killing.kill();
    }
  } finally {
    await app.close();
  }
});
