// @ts-check
// Cases of docs/cases.md that need a browser and that the planner has no page for:
// uploads, forms that are sent twice, pages without a worker. One Chromium and one
// WebKit, and cmd/shelf behind a bad network.
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';
import { open } from './engines.js';
import { BadNetwork } from './fault.js';
import { root, sleep, startServer, until } from './processes.js';
import { Screen } from './screen.js';
import { usual } from './steps.js';
import { Upstream } from './upstream.js';

/** @typedef {{kind: string, text?: string, name?: string, size?: number, sha256?: string, key: string}} Effect */

/** @type {import('./processes.js').Server} */
let shelf;
/** @type {BadNetwork} */
let network;
before(async () => {
  const htmx = join(root, 'planner', 'internal', 'web', 'static', 'htmx.min.js');
  shelf = await startServer('shelf', ['-htmx', htmx, '-outbox', JSON.stringify(usual)]);
  network = await BadNetwork.before(shelf.url);
});
after(async () => {
  await network?.stop();
  await shelf?.kill();
});
afterEach(() => network.good());

/** What was really done, asked past the network. @param {(e: Effect) => boolean} which @returns {Promise<Effect[]>} */
const did = async which => /** @type {Effect[]} */ (await (await fetch(`${shelf.url}/did`)).json()).filter(which);
/** @param {...string} texts the notes with these texts, in the order in which they were made */
const notes = (...texts) => did(e => e.kind === 'note' && texts.includes(e.text ?? ''));

/** @param {string} what @param {() => Promise<Effect[]>} which @param {number} n @param {number} [timeout] */
const thereAre = (what, which, n, timeout = 30_000) =>
  until(`${what}: ${n}`, async () => {
    const found = await which();
    if (found.length === n) return found;
    throw new Error(JSON.stringify(found));
  }, { timeout });

/**
 * A tab of the shelf in which the outbox runs, by a worker unless the page is to do
 * without.
 * @param {import('./engines.js').Context} context
 * @param {string} [query]
 */
async function openTab(context, query = '') {
  const screen = new Screen(await context.newTab(), network.url);
  await show(screen, query);
  return screen;
}

/** @param {Screen} screen @param {string} [query] */
async function show(screen, query = '') {
  // A page that says "it is kept" may be on its way back by itself.
  await until('the page is there', async () => (await screen.tab.goto(`${network.url}/${query}`), true));
  if (query.includes('worker=-')) await screen.tab.waitFor('the outbox runs', () => document.querySelector('#outbox-strip') !== null);
  else await screen.ready();
}

/** A script's request. @param {Screen} screen @param {string} path @param {string} text */
const send = (screen, path, text) =>
  screen.tab.eval(async (p, t) => {
    const { outbox } = await import(/** @type {string} */ ('/outbox/page.js'));
    const r = await outbox.fetch(p, { method: 'POST', body: new URLSearchParams({ text: t }) });
    return r.status;
  }, path, text);

/** @param {Screen} screen @param {string} form @param {string} text */
async function submit(screen, form, text) {
  await screen.tab.type(`#${form}-text`, text, { clear: true });
  await screen.tab.click(`#${form}-button`);
}

let photos = 0;
/** @param {number} size */
function photo(size) {
  const bytes = randomBytes(size);
  bytes.set([0x00, 0xff, 0x80, 0xc8, 0x0a, 0x0d, 0x0a, 0x2d, 0x2d]);
  return { bytes, name: `фото №${++photos}.jpg`, sha256: createHash('sha256').update(bytes).digest('hex') };
}

/**
 * @param {Screen} screen
 * @param {ReturnType<typeof photo>} file
 */
const choose = (screen, { name, bytes }) => screen.tab.files('#upload-file', [{ name, type: 'image/jpeg', bytes }]);

/** @param {import('./engines.js').Engine} engine @param {() => Promise<Screen>} visit */
function uploads(engine, visit) {
  // Chromium's driver is told each body of each try, and takes its time for large ones.
  for (const size of [3000, engine === 'chromium' ? 100_000 : 700_000]) {
    test(`B133, B134, B136, B137, ${engine}: a form with a file of ${size} bytes, cut in its middle, kept, the page loaded again: each byte arrives, once`, async () => {
      const screen = await visit();
      const file = photo(size);
      await choose(screen, file);
      await screen.tab.type('#upload-text', 'домашка');
      await network.set({ plan: 'POST /files -> half-request=1', mode: 'plan' });
      await screen.tab.click('#upload-button');
      const [kept] = await screen.keeps(1);
      assert.ok(kept.size > size, JSON.stringify(kept));
      await until('half of it was sent', async () => (await network.changes()).some(e => e.path === '/files' && e.mode === 'half-request'));
      await network.set({ plan: 'POST /files -> refuse=1', mode: 'plan' });
      await show(screen);
      await screen.stripSays('Одно изменение ждёт сети');
      assert.deepEqual(await did(e => e.sha256 === file.sha256), []);
      const halves = (await network.changes()).filter(e => e.path === '/files' && e.forwarded > 0);
      assert.deepEqual(halves.filter(e => e.key === kept.key), [], 'the half was taken for a whole');
      await network.good();
      await screen.drained();
      const [done, ...more] = await did(e => e.name === file.name && e.kind === 'file');
      assert.equal(more.length, 0);
      assert.deepEqual([done.size, done.sha256, done.text, done.key], [size, file.sha256, 'домашка', kept.key]);
      await screen.stripSays(null);
    });
  }
}

describe('Chromium', () => {
  /** @type {import('./chromium.js').Chromium} */
  let browser;
  /** @type {import('./chromium.js').ChromiumContext} */
  let context;
  before(async () => {
    browser = /** @type {import('./chromium.js').Chromium} */ (await open('chromium'));
    context = await browser.newContext();
    await openTab(context); // the context keeps a tab, whatever the tests close
  });
  after(() => browser?.close());

  uploads('chromium', () => openTab(context));

  test('B127: a handler that submits the form, on a button that does so itself: one note; a request on the form and on its button: one', async () => {
    const screen = await openTab(context);
    await screen.tab.eval(() => {
      const button = /** @type {HTMLButtonElement} */ (document.querySelector('#plain-button'));
      button.addEventListener('click', () => button.form?.requestSubmit());
    });
    await submit(screen, 'plain', 'twice by hand');
    await thereAre('notes', () => notes('twice by hand'), 1);
    await screen.tab.waitFor('the page after it', () => location.search === '?after=note' && document.readyState === 'complete');
    await screen.ready();
    await screen.tab.click('#both-button');
    await thereAre('notes', () => notes('both'), 1);
    await screen.drained();
    await sleep(300); // whatever else was sent has arrived
    assert.deepEqual((await notes('twice by hand', 'both')).map(e => e.text), ['twice by hand', 'both']);
    await screen.tab.close();
  });

  test('B178: one keystroke makes the field and the form that it bubbles up to send, three times: two requests each, under one name, and one note each', async () => {
    const screen = await openTab(context);
    await screen.tab.eval(() => {
      const w = /** @type {any} */ (window);
      w.rigAsked = [];
      document.addEventListener('htmx:beforeSend', event => w.rigAsked.push(/** @type {any} */ (event).detail.requestConfig.headers['Idempotency-Key']));
    });
    await screen.tab.click('#events-text');
    const texts = ['k', 'ke', 'key'];
    for (const text of texts) {
      await screen.tab.raw.keys(text.at(-1) ?? '');
      await thereAre('notes', () => notes(text), 1);
      await screen.drained();
    }
    const asked = /** @type {string[]} */ (await screen.tab.eval(() => /** @type {any} */ (window).rigAsked));
    assert.equal(asked.length, 6, `the page asked ${asked.length} times`);
    assert.equal(new Set(asked).size, 3);
    await sleep(300); // whatever else was sent has arrived
    assert.deepEqual((await notes(...texts)).map(e => e.text), texts);
    await screen.tab.close();
  });

  test('B073: A is sent, and htmx gives back its snapshot of the form, with the name that was used; B is typed and sent: two notes, under two names', async () => {
    const screen = await openTab(context);
    await screen.tab.eval(() => document.querySelector('#note')?.setAttribute('hx-push-url', '/?pushed'));
    await screen.tab.type('#text', 'A of the snapshot');
    await screen.tab.click('#add');
    const [first] = await thereAre('notes', () => notes('A of the snapshot'), 1);
    await screen.tab.waitFor('htmx has pushed the address', () => location.search === '?pushed');
    await screen.drained();
    await screen.tab.eval(() => {
      document.addEventListener('htmx:historyRestore', () => /** @type {any} */ (window).rigRestored = true);
      history.back();
    });
    await screen.tab.waitFor('the snapshot is shown', () => /** @type {any} */ (window).rigRestored && location.search === '');
    assert.equal(await screen.tab.value('#note input[name=_key]'), first.key, 'the form has another name than the one that was used');
    await screen.tab.type('#text', 'B of the snapshot', { clear: true });
    await screen.tab.click('#add');
    const [second] = await thereAre('notes', () => notes('B of the snapshot'), 1);
    await screen.drained();
    assert.notEqual(second.key, first.key);
    assert.equal((await notes('A of the snapshot', 'B of the snapshot')).length, 2);
    await screen.tab.close();
  });

  // The report's proxy closed after sixty seconds. What has a browser send again is
  // that the connection ends without a byte, however late: two seconds here, and the
  // sixty in the long run.
  const silent = process.env.ONCEWARD_BROWSERS === 'all' ? 60 : 2;
  test('B122: an upload that the browser does by itself gets no answer and is sent again by it: one file, whole', async () => {
    const screen = await openTab(context, '?unmarked');
    const file = photo(100_000);
    await choose(screen, file);
    const seen = (await network.log()).at(-1)?.n ?? 0;
    await network.script(`POST /files -> slow-after:${silent}s+reset-once`);
    await screen.tab.click('#upload-button');
    await screen.tab.waitForWithin(silent * 1000 + 30_000, 'the page after it', () => location.search === '?after=file');
    const sent = (await network.changes(seen)).filter(e => e.path === '/files');
    assert.deepEqual(sent.map(e => e.forwarded), [1, 1], `the browser did not send it again: ${JSON.stringify(sent)}`);
    assert.ok(sent[0].ms >= silent * 1000 && sent.every(e => e._key === sent[0]._key), JSON.stringify(sent));
    const done = await did(e => e.name === file.name);
    assert.deepEqual(done.map(e => [e.size, e.sha256]), [[100_000, file.sha256]]);
    await screen.tab.close();
  });

  for (const script of [true, false]) {
    test(`B128: a form with a file is sent, Back, and sent again unchanged, JavaScript ${script ? 'on' : 'off'}: one file`, async () => {
      const playwright = /** @type {import('playwright-core').Browser} */ (context.context.browser());
      const own = await playwright.newContext({ javaScriptEnabled: script, viewport: null });
      try {
        const page = await own.newPage();
        await page.goto(`${network.url}/?unmarked`);
        if (script) {
          await page.waitForFunction(() => navigator.serviceWorker.controller !== null);
          await page.reload();
          await page.waitForFunction(() => document.querySelector('#outbox-strip') !== null);
        }
        const file = photo(5000 + Number(script));
        await page.setInputFiles('#upload-file', { name: file.name, mimeType: 'image/jpeg', buffer: file.bytes });
        await page.fill('#upload-text', 'письмо');
        const seen = (await network.log()).at(-1)?.n ?? 0;
        for (let i = 0; i < 2; i++) {
          await page.click('#upload-button');
          await page.waitForURL(/after=file/);
          if (i === 0) await page.goBack({ waitUntil: 'commit' });
          await page.locator('#upload-button').waitFor();
        }
        const sent = (await network.changes(seen)).filter(e => e.path === '/files');
        assert.equal(sent.length, 2);
        assert.deepEqual((await did(e => e.name === file.name)).map(e => e.sha256), [file.sha256]);
      } finally {
        await own.close();
      }
    });
  }

  test('outbox.fetch: what is not to be taken goes out once and fails as any other; a key in quotes, with a space in it, waits and is delivered; a form whose answer leaves its page leaves what was typed', async () => {
    const screen = await openTab(context);
    const { tab } = screen;
    const seen = (await network.log()).at(-1)?.n ?? 0;
    await network.mode('refuse');
    const out = await tab.eval(async () => {
      const { outbox } = await import(/** @type {string} */ ('/outbox/page.js'));
      const real = window.fetch;
      let asked = 0;
      window.fetch = (...of) => (asked++, real(...of));
      const r = await outbox.fetch('/api/billing/pay', { method: 'POST', body: 'x' }).then((/** @type {Response} */ r) => r.status, (/** @type {Error} */ e) => e.name);
      window.fetch = real;
      return [r, asked];
    });
    assert.deepEqual(out, ['TypeError', 1]);

    const told = await tab.eval(async () => {
      const { outbox } = await import(/** @type {string} */ ('/outbox/page.js'));
      const w = /** @type {any} */ (window);
      w.rigTold = [];
      for (const kind of ['queued', 'delivered', 'unsaved']) document.addEventListener(`outbox:${kind}`, event => w.rigTold.push(`${kind} ${/** @type {any} */ (event).detail.key}`));
      return (await outbox.fetch('/notes', { method: 'post', headers: { 'Idempotency-Key': '"own name"' }, body: new URLSearchParams({ text: 'quoted' }) })).status;
    });
    assert.equal(told, 202);
    await network.good();
    await thereAre('notes', () => notes('quoted'), 1);
    await screen.drained();
    await tab.waitFor('it is told', () => /** @type {any} */ (window).rigTold.length === 2);
    assert.deepEqual(await tab.eval(() => /** @type {any} */ (window).rigTold), ['queued own name', 'delivered own name']);

    await tab.eval(() => {
      document.body.insertAdjacentHTML('beforeend', '<form id="stays" method="post" action="/tap?stays"><input name="a" id="stays-text"><button id="stays-button">Go</button></form>');
      /** @type {any} */ (window).rigSame = true;
    });
    await tab.type('#stays-text', 'typed');
    await tab.click('#stays-button');
    await until('it was answered', async () => (await network.changes(seen)).some(e => e.path === '/tap'));
    await sleep((usual.softLimit ?? 8_000) + 2_500);
    assert.deepEqual(await tab.eval(() => [/** @type {any} */ (window).rigSame, /** @type {HTMLInputElement} */ (document.querySelector('#stays-text'))?.value]), [true, 'typed']);
    assert.equal((await network.changes(seen)).filter(e => e.path === '/tap').length, 1);
    await tab.close();
  });

  test('B181, W19: after an answer, a refusal, no network, an abort and a time-out the same button sends again, each under a name of its own; no form is cleared for what waits', async () => {
    const screen = await openTab(context);
    await screen.tab.eval(() => {
      const w = /** @type {any} */ (window);
      w.successes = 0;
      // As hx-on::after-request="if (event.detail.successful) this.reset()".
      document.addEventListener('htmx:afterRequest', event => {
        if (!(/** @type {any} */ (event).detail.successful)) return;
        w.successes++;
        /** @type {HTMLFormElement} */ (event.target).reset?.();
      });
    });
    const press = async (/** @type {string} */ text) => {
      await sleep(600); // a press of its own
      await screen.tab.type('#text', text, { clear: true });
      await screen.tab.click('#add');
    };
    const successes = () => screen.tab.eval(() => /** @type {any} */ (window).successes);
    await press('answered');
    await thereAre('notes', () => notes('answered'), 1);
    await press('bad');
    await until('it was refused', async () => (await network.changes()).some(e => e.status === 422));
    await press('after the refusal');
    await thereAre('notes', () => notes('after the refusal'), 1);
    await until('both were called a success', async () => (await successes()) === 2);

    await network.set({ plan: 'POST /notes -> refuse=1', mode: 'plan' });
    await press('without a network');
    await screen.keeps(1);
    await sleep(300);
    assert.equal(await screen.tab.value('#text'), 'without a network', 'the form was cleared');
    await press('and one more');
    await screen.keeps(2);
    assert.equal(await successes(), 2, 'what waits was called a success');
    await network.good();
    await thereAre('notes', () => notes('without a network', 'and one more'), 2);
    await screen.drained();
    await sleep(300);

    await network.set({ plan: 'POST /notes -> slow=1:1s', mode: 'plan' });
    // The answer that comes late replaces the form: nobody types meanwhile.
    const arrives = async (/** @type {string} */ text) => {
      await thereAre('notes', () => notes(text), 1);
      await screen.drained();
      await sleep(300);
    };
    await press('aborted');
    await screen.tab.eval(() => /** @type {any} */ (window).htmx.trigger('#note', 'htmx:abort'));
    await arrives('aborted');
    await press('after the abort');
    await arrives('after the abort');
    await screen.tab.eval(() => void (/** @type {any} */ (window).htmx.config.timeout = 300));
    await press('timed out');
    await arrives('timed out');
    await press('after the time-out');
    await arrives('after the time-out');
    const all = await notes('answered', 'after the refusal', 'without a network', 'and one more', 'aborted', 'after the abort', 'timed out', 'after the time-out');
    assert.deepEqual(all.map(e => e.text), ['answered', 'after the refusal', 'without a network', 'and one more', 'aborted', 'after the abort', 'timed out', 'after the time-out']);
    assert.equal(new Set(all.map(e => e.key)).size, all.length);
    await screen.tab.close();
  });

  // An application's own worker, that is, which stays.
  test('attach(self, { kill: true }) takes the outbox out of a worker: what is left is sent, nothing new is taken, and pages do as without it', async () => {
    const upstream = await Upstream.before(shelf.url);
    const wire = await BadNetwork.before(upstream.url);
    try {
      const screen = new Screen(await context.newTab(), wire.url);
      const { tab } = screen;
      await tab.goto(`${wire.url}/`);
      await screen.ready();
      await wire.mode('offline');
      assert.equal(await send(screen, '/notes', 'left behind'), 202);
      upstream.patch = { '/outbox/sw.js': text => text.replace('attach(self)', 'attach(self, { kill: true })') };
      await tab.eval(() => {
        const w = /** @type {any} */ (window);
        navigator.serviceWorker.addEventListener('controllerchange', () => w.rigTaken = true);
      });
      await wire.good();
      await wire.set({ plan: 'POST /* -> refuse=1', mode: 'plan' });
      await tab.eval(async () => void (await (await navigator.serviceWorker.ready).update()));
      await tab.waitFor('the new worker has the page', () => /** @type {any} */ (window).rigTaken);
      await wire.good();
      await thereAre('notes', () => notes('left behind'), 1);
      await screen.drained();

      await tab.reload();
      await screen.ready();
      const post = (/** @type {string} */ text) => tab.eval(async t => {
        const { outbox } = await import(/** @type {string} */ ('/outbox/page.js'));
        return outbox.fetch('/notes', { method: 'POST', body: new URLSearchParams({ text: t }) }).then(
          (/** @type {Response} */ r) => `${r.status} ${new URL(r.url).search}`, (/** @type {Error} */ e) => e.name);
      }, text);
      // A redirect is followed, as of any request that nobody has announced.
      await until('the page knows', async () => (await post('by itself')) === '200 ?after=note');
      await submit(screen, 'plain', 'a form by itself');
      await thereAre('notes', () => notes('a form by itself'), 1);
      await tab.waitFor('the page after it', () => location.search === '?after=note' && document.readyState === 'complete');
      await screen.ready();
      await wire.mode('offline');
      await until('nothing is kept', async () => (await post('nobody has it')) === 'TypeError');
      assert.deepEqual(await screen.queue(), []);
      assert.equal(await tab.eval(async () => (await navigator.serviceWorker.getRegistrations()).length), 1);
      assert.deepEqual(upstream.wrong, []);
      await tab.close();
    } finally {
      await wire.stop();
      await upstream.stop();
    }
  });
});

describe('WebKit', () => {
  /** @type {import('./engines.js').Browser} */
  let browser;
  /** @type {Screen} */
  let screen;
  before(async () => {
    browser = await open('webkit');
  });
  after(() => browser?.close());

  /** One tab for all: its driver opens none beside one that was closed. @param {string} query */
  async function visit(query) {
    if (screen) await show(screen, query);
    else screen = await openTab(browser, query);
    return screen;
  }

  // First, for no worker is registered yet.
  test('B160: a page without a worker sends again with the token that it gives, and shows what waits', async () => {
    await visit('?worker=-&token=old');
    assert.equal(await screen.tab.eval(() => navigator.serviceWorker.controller), null);
    assert.equal(await send(screen, '/token/notes', 'with a token'), 202);
    await screen.stripSays('Одно изменение ждёт сети');
    assert.deepEqual(await notes('with a token'), []);
    await show(screen, '?worker=-&token=good');
    await thereAre('notes', () => notes('with a token'), 1);
    await screen.drained();
    await screen.stripSays(null);
    assert.equal(await send(screen, '/token/notes', 'at once'), 200);
    assert.equal((await notes('at once')).length, 1);
  });

  // What the page that was left had begun with the store must not hold up the next.
  test('B160: a page without a worker is left in the middle of a send: the next one sends it', async () => {
    await visit('?worker=-&token=old');
    await network.set({ plan: 'POST /token/* -> slow=1:10s', mode: 'plan' });
    const seen = (await network.log()).at(-1)?.n ?? 0;
    await screen.tab.eval(() => {
      void import(/** @type {string} */ ('/outbox/page.js')).then(({ outbox }) => outbox.fetch('/token/notes', { method: 'POST', body: new URLSearchParams({ text: 'left' }) }));
    });
    await until('it is on its way', async () => (await network.changes(seen)).length > 0);
    await network.good();
    await show(screen, '?worker=-&token=good');
    await thereAre('notes', () => notes('left'), 1);
    await screen.drained();
  });

  uploads('webkit', () => visit(''));

  test('B157: without sync events what waits is sent within ten seconds of the network, and when a page is opened', async () => {
    await visit('');
    assert.equal(await screen.tab.eval(async () => 'sync' in (await navigator.serviceWorker.ready)), false);
    await network.set({ plan: 'POST /notes -> refuse=1', mode: 'plan' });
    for (const text of ['one', 'two']) assert.equal(await send(screen, '/notes', text), 202);
    await network.good();
    await thereAre('notes', () => notes('one', 'two'), 2, 10_000);

    await network.set({ plan: 'POST /notes -> refuse=1', mode: 'plan' });
    for (const text of ['three', 'four']) assert.equal(await send(screen, '/notes', text), 202);
    await screen.tab.goto('about:blank');
    await network.good();
    await show(screen);
    await thereAre('notes', () => notes('three', 'four'), 2, 10_000);
    assert.deepEqual((await notes('one', 'two', 'three', 'four')).map(e => e.text), ['one', 'two', 'three', 'four']);
    await screen.stripSays(null);
  });
});
