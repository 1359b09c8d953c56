// @ts-check
// The other examples of docs/outbox.md, through a network that loses the answers:
// plain forms, with scripts and without; a server of another kind; an app's own
// worker, no module, under a policy of nonces; and the kill switch.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { open } from './engines.js';
import { Example, photo, sha256, waiting } from './examples.js';
import { LateList } from './late.js';
import { binary, startProgram, until } from './processes.js';

/** @type {import('./chromium.js').Chromium} */
let chromium;
before(async () => {
  chromium = /** @type {import('./chromium.js').Chromium} */ (await open('chromium', { locale: 'en-US' }));
});
after(() => chromium?.close());

describe('plain forms', () => {
  /** @type {Example} */
  let app;
  before(async () => {
    app = await Example.open(chromium, 'forms');
  });
  after(() => app?.close());

  test('with scripts: what is sent and lost waits, with a picture, and is written once', async () => {
    const { tab } = app;
    await app.goto('/');
    const seen = await app.seen();
    const file = photo(3_000);
    await app.lose();
    await tab.type('textarea', 'Привет');
    await tab.files('[name=picture]', [file]);
    await tab.click('form[action="/entries"] button');
    await tab.waitFor('the page is back from "saved on this device"', () => location.pathname === '/' && document.readyState === 'complete');
    await app.strip(waiting);
    // What was delivered late is shown by the page as it is then.
    await tab.eval(() => void document.body.classList.add('stale'));
    await app.good();
    await tab.waitForWithin(20_000, 'the page loads itself anew', () => document.readyState === 'complete' && !document.body.matches('.stale'));
    await app.strip(null);
    assert.equal(await tab.count('ol > li'), 1);
    assert.equal(app.did('written "Привет"'), 1);
    assert.equal(await tab.text('ol a'), file.name);
    assert.equal(await app.sum('/entries/0/picture'), sha256(file.bytes));
    await app.oneName(seen, '/entries');
  });

  test('with scripts: a picture of a million bytes arrives as it is', async () => {
    const { tab } = app;
    await app.goto('/');
    const seen = await app.seen();
    const file = photo(1_000_000);
    await app.loseTwice();
    await tab.type('textarea', 'large');
    await tab.files('[name=picture]', [file]);
    await tab.click('form[action="/entries"] button');
    await until('it is sent three times', async () => (await app.network.changes(seen)).length > 2, { timeout: 60_000 });
    await tab.waitForWithin(60_000, 'the page is back', () => location.pathname === '/' && document.readyState === 'complete');
    await app.strip(null);
    assert.equal(app.did('written "large"'), 1);
    // Not asked of the page, which may be loading itself anew.
    const picture = await (await fetch(`${app.network.url}/entries/1/picture`)).arrayBuffer();
    assert.equal(sha256(new Uint8Array(picture)), sha256(file.bytes));
    await app.oneName(seen, '/entries');
  });

  test('with scripts: without any network there is a page that says so, and leads back', async () => {
    const { tab } = app;
    await app.goto('/');
    await app.network.mode('offline');
    await tab.click('ol form button');
    await tab.waitFor('the page that says so', () => location.pathname === '/outbox/queued' && document.querySelector('h1')?.textContent === 'Saved on this device');
    await tab.waitFor('it says what', () => document.querySelector('#outbox-what')?.textContent === 'Thanks');
    // The way back is no way to the browser's error page.
    await tab.click('#outbox-back');
    await tab.waitFor('it says that there is none yet', () => /does not answer yet/.test(document.querySelector('#outbox-status')?.textContent ?? ''));
    await app.good();
    await tab.click('#outbox-back');
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
    for (const fault of ['cut-after-forward', 'waf-403', 'captive-200']) {
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
    const seen = await app.seen();
    await app.loseTwice();
    await tab.files('[name=file]', [file]);
    await tab.click('#note button');
    await tab.waitForWithin(60_000, 'it is shown', () => document.querySelectorAll('#notes li').length === 4);
    await app.strip(null);
    await app.oneName(seen, '/notes');
    const notes = await tab.eval(async () => (await fetch('/notes')).json());
    assert.deepEqual(notes.map((/** @type {any} */ n) => n.text).slice(0, 3), ['cut-after-forward', 'waf-403', 'captive-200'].map(f => `note after ${f}`));
    assert.deepEqual([notes.length, notes[3].size, notes[3].sha256], [4, 1 << 20, sha256(file.bytes)]);
    assert.equal(app.did(' bytes'), 4);

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

describe('a late answer', () => {
  /** @type {LateList} */
  let app;
  /** @type {import('./engines.js').Context} */
  let context;
  /** @type {import('./tab.js').Tab} */
  let tab;
  before(async () => {
    app = await LateList.open();
    context = await chromium.newContext();
    tab = await context.newTab();
  });
  after(async () => {
    await context?.close();
    await app?.close();
  });

  const load = async () => {
    await tab.goto(app.network.url);
    await tab.controlled();
    await tab.waitFor('the strip', () => document.querySelector('#outbox-strip'));
  };
  const rows = () => tab.eval(() => [...document.querySelectorAll('li')].map(li => `${li.id} ${li.firstChild?.textContent?.trim()}`));
  /** The same as the page that is loaded now. */
  const asOnline = async (/** @type {string} */ what) => {
    await until(`${what} is sent`, () => tab.eval(async () => !(await import(/** @type {string} */ ('/outbox/page.js'))).outbox.snapshot.entries.length), { timeout: 20_000 });
    await tab.waitFor('no caption is left', () => !document.querySelector('.outbox-caption'));
    const want = app.items.map(i => `item-${i.id} ${i.bought ? '☑' : '☐'} ${i.text}`);
    await until(`${what} is shown`, async () => JSON.stringify(await rows()) === JSON.stringify(want)).catch(async error => {
      throw new Error(`${what}: the list is ${(await rows()).join(', ')} and not ${want.join(', ')}`, { cause: error });
    });
    assert.equal(await tab.eval(() => document.querySelectorAll('li li, ul ul').length), 0, `${what}: nested`);
  };
  /** Done while nothing gets through, and the answer once it does. @param {() => Promise<unknown>} tap @param {string} [how] */
  const late = async (tap, how = 'offline') => {
    await app.network[how === 'offline' ? 'mode' : 'script'](/** @type {any} */ (how));
    await tap();
    await tab.waitFor('it waits', () => /waiting/.test(document.querySelector('#outbox-strip .outbox-text')?.textContent ?? ''));
    await app.network.good();
  };

  for (const htmx of ['2', '4']) {
    test(`htmx ${htmx} puts it where its target and its style say, and no id stands twice`, async () => {
      app.htmx = htmx;
      app.start('milk', 'bread', 'eggs', 'tea');
      await load();
      await late(() => tab.click('#item-0 .buy'));
      await asOnline('the whole list, into the list');
      await late(() => tab.type('#add [name=text]', 'oil', { enter: true }));
      await asOnline('an item added, by the whole list');
      await late(() => tab.click('#item-1 .drop'));
      await asOnline('nothing, where the row was');
      app.ask = 'hx-target="#list" hx-swap="innerHTML settle:10ms"';
      app.row = '';
      await load();
      await late(() => tab.click('#item-2 .buy'));
      await asOnline('with modifiers, and no row marked');
      app.list = 'class="here"';
      app.ask = 'hx-target="closest .here"';
      await load();
      await late(() => tab.click('#item-3 .buy'));
      await asOnline('a target that has no id');
      assert.deepEqual(app.did, ['bought 0', 'added oil', 'dropped 1', 'bought 2', 'bought 3']);
    });

    test(`4.7, htmx ${htmx}: while a later wish of the row waits, the answer to the one before it is told and not shown`, async () => {
      app.htmx = htmx;
      app.start('milk');
      await load();
      await app.network.mode('offline');
      for (const text of ['a', 'b']) {
        await tab.click(`#item-0 .say-${text}`);
        await until(`${text} is kept`, () => tab.eval(async n => (await import(/** @type {string} */ ('/outbox/page.js'))).outbox.snapshot.entries.length === n, text === 'a' ? 1 : 2));
      }
      await tab.eval(() => {
        const w = /** @type {any} */ (window);
        w.rigSeen = [];
        w.rigTold = 0;
        document.addEventListener('outbox:delivered', () => w.rigTold++);
        new MutationObserver(() => w.rigSeen.push(document.querySelector('#item-0')?.firstChild?.textContent?.trim())).observe(document.body, { subtree: true, childList: true, characterData: true });
      });
      await app.network.set({ mode: 'plan', plan: 'pass', script: 'POST /* -> pass, refuse*1000' });
      await tab.waitFor('the first is told', () => /** @type {any} */ (window).rigTold === 1);
      assert.deepEqual(app.did, ['said a']);
      assert.deepEqual(await rows(), ['item-0 ☐ milk']);
      assert.equal(await tab.attribute('#item-0', 'data-outbox-state'), 'waiting');
      await app.network.good();
      await asOnline('the later one');
      assert.deepEqual(app.did, ['said a', 'said b']);
      assert.ok(!(await tab.eval(() => /** @type {string[]} */ (/** @type {any} */ (window).rigSeen))).includes('☐ a'), 'the older answer was shown');
    });

    test(`htmx ${htmx}, the page loaded again: what was recorded counts, and what is there already is not added`, async () => {
      app.htmx = htmx;
      app.start('milk', 'bread', 'eggs');
      await load();
      await late(async () => {
        await tab.click('#item-0 .buy');
        await tab.waitFor('it is kept', () => document.querySelector('#item-0 .outbox-caption'));
        await tab.reload();
        await tab.waitFor('the mark is back', () => document.querySelector('#item-0 .outbox-caption'));
      }, 'POST /* -> refuse*50');
      await asOnline('the whole list, after a reload');
      app.list = 'class="here"';
      app.ask = 'hx-target="closest .here"';
      await load();
      await late(async () => {
        await tab.click('#item-1 .buy');
        await tab.waitFor('it is kept', () => document.querySelector('#item-1 .outbox-caption'));
        await tab.reload();
        await tab.waitFor('the mark is back', () => document.querySelector('#item-1 .outbox-caption'));
      }, 'POST /* -> refuse*50');
      await asOnline('a target that has no id, after a reload');
      app.list = 'id="list"';
      await load();
      await late(async () => {
        await tab.type('#more [name=text]', 'oil', { enter: true });
        await tab.waitFor('it waits', () => /waiting/.test(document.querySelector('#outbox-strip .outbox-text')?.textContent ?? ''));
        await tab.eval(() => document.querySelector('#count')?.replaceChildren('?'));
      });
      await asOnline('one row more');
      assert.equal(await tab.text('#count'), '4', 'what names its own place');
      await late(async () => {
        await tab.type('#more [name=text]', 'salt', { enter: true, clear: true });
        await until('it is done', () => app.did.includes('added salt'));
        await tab.waitFor('it waits', () => /waiting/.test(document.querySelector('#outbox-strip .outbox-text')?.textContent ?? ''));
        await tab.reload();
        await tab.controlled();
      }, 'POST /* -> cut-after-forward*50');
      await asOnline('one row more, which the page was loaded with');
      assert.deepEqual(app.did, ['bought 0', 'bought 1', 'added oil', 'added salt']);
    });
  }

  test('R24, W11: what is delivered for one person is neither told nor shown on the page of another that is still open', async () => {
    app.htmx = '2';
    app.start('milk');
    await load();
    await app.network.set({ plan: 'POST /* -> refuse=1', mode: 'plan' });
    await tab.type('#more [name=text]', 'oil', { enter: true });
    await tab.waitFor('it waits', () => /waiting/.test(document.querySelector('#outbox-strip .outbox-text')?.textContent ?? ''));
    const other = await context.newTab();
    await other.goto(`${app.network.url}/boris`);
    await other.controlled();
    await other.waitFor('it is told that something waits', () => document.querySelector('#outbox-strip .outbox-text')?.textContent === 'Changes from another account are waiting here');
    await other.eval(() => {
      const w = /** @type {any} */ (window);
      w.rigTold = [];
      for (const kind of ['queued', 'delivered', 'refused', 'unsaved', 'superseded']) document.addEventListener(`outbox:${kind}`, () => w.rigTold.push(kind));
    });
    await app.network.good();
    assert.deepEqual(app.did, []);
    await tab.front();
    await tab.reload();
    await asOnline('hers');
    await other.front();
    await other.waitFor('nothing waits any more', () => !document.querySelector('#outbox-strip')?.checkVisibility());
    assert.deepEqual(app.did, ['added oil']);
    assert.deepEqual(await other.eval(() => [/** @type {any} */ (window).rigTold, document.documentElement.outerHTML.includes('oil')]), [[], false]);
    await other.close();
  });

  test('a page whose scripts cannot be loaded any more keeps a form, and its log-out asks', async () => {
    app.htmx = '2';
    app.start('milk');
    await load();
    await tab.waitForWithin(20_000, 'the scripts are kept', async () => (await (await caches.open('outbox')).keys()).length > 25);
    const plan = (/** @type {string} */ text) => app.network.set({ plan: text, mode: 'plan' });
    await plan('GET /outbox/* -> refuse=1; POST /plain -> refuse=1');
    await load();
    await tab.type('#plain [name=text]', 'oil', { enter: true });
    await tab.waitFor('the page that says so', () => location.pathname === '/outbox/queued');
    await load();
    await tab.waitFor('it waits', () => /waiting/.test(document.querySelector('#outbox-strip .outbox-text')?.textContent ?? ''));
    await tab.click('#out button');
    await tab.waitFor('the question', () => document.querySelector('dialog[open] [data-act="leave.stay"]'));
    await tab.click('[data-act="leave.stay"]');

    // The browser may well be online, and the words are true of a server that is not there.
    await tab.click('#outbox-strip [data-act=look]');
    await tab.waitFor('the list says so', () => /^waiting, the server does not answer/i.test(document.querySelector('.outbox-meta')?.textContent ?? ''));
    // Where one logs in, there is no link to there.
    await tab.goto(`${app.network.url}/login`);
    await tab.waitFor('the strip', () => document.querySelector('#outbox-strip .outbox-text')?.textContent === 'Log in again to save one change');
    assert.equal(await tab.visible('#outbox-strip a'), false);

    // Not even a file that nothing has lets somebody out unasked.
    await tab.eval(async () => void (await (await caches.open('outbox')).delete('/outbox/kit-leave.js')));
    await load();
    await tab.waitFor('it waits', () => /waiting/.test(document.querySelector('#outbox-strip .outbox-text')?.textContent ?? ''));
    const page = /** @type {import('./chromium.js').ChromiumContext} */ (context).context.pages()[0];
    /** @type {string[]} */
    const asked = [];
    for (const yes of [false, true]) {
      page.once('dialog', d => (asked.push(d.message()), yes ? d.accept() : d.dismiss()));
      await tab.click('#out button');
      await until('it asks', () => asked.length === (yes ? 2 : 1));
      if (!yes) assert.deepEqual(app.did, []);
    }
    assert.match(asked[0], /Some changes are not saved on the server yet/);
    await tab.waitFor('out', () => location.pathname === '/empty');
    await app.network.good();
    await load();
    await until('it is sent', () => app.did.includes('added oil'));
    assert.deepEqual(app.did, ['logged out', 'added oil']);
  });
});
