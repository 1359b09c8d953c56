// @ts-check
// Plain forms, and scripts of a page's own, in all the ways that HTML knows: what
// goes out is what the browser would have sent, with its name, and a page that
// stays stays as it is. One Chromium, and a server of another kind, whose proof of
// delivery is X-Saved.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import { open } from './engines.js';
import { root, sleep, until } from './processes.js';

/** @typedef {{path: string, body: string, owner?: string, key?: string, headers: import('node:http').IncomingHttpHeaders}} Post */

/** @type {Post[]} */
let posts = [];
let body = '';
/** What the server takes its time for, in milliseconds, and whether it does nothing at all. */
let slow = { get: 0, post: 0, down: false };

/** @param {string} head @param {number} [soft] */
const page = (head, soft = 500) => `<!doctype html><html lang="en"><meta charset="utf-8"><title>Forms</title><link rel="icon" href="data:,">
${head}<meta name="outbox-owner" content="anna">
<meta name="outbox-config" content='{"worker": "/outbox/sw.js", "ack": {"header": "X-Saved"}, "softLimit": ${soft}, "deny": "^/pay"}'>
<script type="module" src="/outbox/page.js"></script><input id="half">${body}</html>`;

/** @param {import('node:http').RequestListener} listener */
async function serve(listener) {
  const server = createServer(listener);
  await new Promise(resolve => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  return { url: `http://127.0.0.1:${/** @type {import('node:net').AddressInfo} */ (server.address()).port}`, close: () => (server.close(), server.closeAllConnections()) };
}

/** @type {import('node:http').RequestListener} */
async function answer(request, response) {
  const { pathname, searchParams } = new URL(request.url ?? '/', 'http://x');
  if (request.method === 'OPTIONS') return void response.writeHead(204, { 'Access-Control-Allow-Origin': '*', 'Access-Control-Allow-Headers': '*' }).end();
  if (request.method === 'POST') {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    if (slow.down) return void response.writeHead(502).end();
    await sleep(slow.post);
    posts.push({ path: request.url ?? '', body: Buffer.concat(chunks).toString(), owner: String(request.headers['outbox-owner'] ?? ''), key: String(request.headers['idempotency-key'] ?? ''), headers: request.headers });
    const saved = { 'X-Saved': 'yes', 'Content-Type': 'text/html', 'Access-Control-Allow-Origin': '*' };
    if (pathname === '/hangs' && posts.length === 1) return;
    if (pathname === '/export') return void response.writeHead(200, { ...saved, 'Content-Disposition': 'attachment; filename=list.csv' }).end('a,b');
    return void response.writeHead(pathname === '/none' ? 204 : 200, saved).end(pathname === '/none' ? '' : '<p id="done">done');
  }
  if (request.method === 'PUT') return void response.writeHead(422, { 'X-Saved': 'yes' }).end();
  const name = pathname.slice('/outbox/'.length);
  if (name === 'ping') return void response.writeHead(204, { 'Outbox-Status': 'pong' }).end();
  if (/^\/outbox\/[\w.-]+\.js$/.test(pathname)) return void response.writeHead(200, { 'Content-Type': 'text/javascript', 'Service-Worker-Allowed': '/' }).end(readFileSync(join(root, 'outbox', name)));
  if (pathname === '/outbox/queued') {
    const html = readFileSync(join(root, 'outbox/queued.html'), 'utf8').replace('{{.Script}}', () => readFileSync(join(root, 'outbox/queued.js'), 'utf8'));
    return void response.writeHead(200, { 'Content-Type': 'text/html' }).end(html.replace(/\{\{.*?\}\}/g, ''));
  }
  if (pathname === '/list') {
    if (slow.down) return void response.writeHead(502).end();
    const list = `<p id="list">${posts.length}</p>`; // as it is now
    await sleep(slow.get);
    return void response.writeHead(200, { 'Content-Type': 'text/html' }).end(page(`<script>said = []; document.addEventListener('outbox:delivered', e => said.push(e.detail.key))</script>`) + list);
  }
  response.writeHead(pathname === '/' ? 200 : pathname === '/private' ? 401 : 404, { 'Content-Type': 'text/html; charset=utf-8' }).end(page(searchParams.has('base') ? '<base target="_blank">' : '', searchParams.has('slow') ? 3000 : undefined));
}

/** @type {Awaited<ReturnType<typeof serve>>} */
let site;
/** @type {Awaited<ReturnType<typeof serve>>} */
let other;
/** @type {import('./engines.js').Browser} */
let browser;
/** @type {import('./tab.js').Tab} */
let tab;
before(async () => {
  site = await serve(answer);
  other = await serve(answer);
  browser = await open('chromium');
  tab = await browser.newTab();
});
after(async () => {
  await browser?.close();
  site?.close();
  other?.close();
});
beforeEach(() => {
  posts = [];
  slow = { get: 0, post: 0, down: false };
});

/** @param {string} html of the page @param {string} [query] */
async function show(html, query = '') {
  body = html;
  await tab.goto(`${site.url}/${query}`);
  await tab.controlled();
  await tab.eval(async () => {
    const { outbox } = await import(/** @type {string} */ ('/outbox/page.js'));
    Object.assign(window, { outbox, stays: true });
  });
}
const stays = () => tab.eval(() => /** @type {any} */ (window).stays === true);
const left = () => tab.waitFor('the answer is there', () => document.querySelector('#done') !== null);
/** @param {number} n */
const sent = n => until(`${n} requests`, () => posts.length === n || Promise.reject(new Error(JSON.stringify(posts))));
/** @param {Post} post */
const fields = post => [...new URLSearchParams(post.body)].filter(([name]) => name !== '_key');

for (const path of ['/export', '/none']) {
  test(`B004, W15: a page that stays, for the answer to its form is ${path === '/none' ? 'nothing' : 'a file'}, is not loaded anew, and its next press is a new wish`, async () => {
    await show(`<form method="post" action="${path}"><button id="go">Export</button></form>`);
    await tab.type('#half', 'half a sentence');
    await tab.click('#go');
    await sent(1);
    await sleep(3_500); // the soft limit, and two seconds
    assert.deepEqual([await stays(), await tab.value('#half'), posts.length], [true, 'half a sentence', 1]);
    await tab.click('#go');
    await sent(2);
    assert.notEqual(posts[0].key, posts[1].key);
    assert.deepEqual(posts.map(p => p.owner), ['anna', 'anna']);
  });
}

// Chromium gives a form's request to no other worker, and waits for longer than
// anybody does; a request of a script it does give.
test('4.5, 0.1: the worker is ended while a form waits for its answer: the page is loaded anew by itself, and the form is sent once more, under its name', async () => {
  await show('<form method="post" action="/hangs"><input type="hidden" name="text" value="a"><button id="go">Go</button></form>', '?slow');
  await tab.waitFor('a worker with these limits has the page', () => navigator.serviceWorker.controller?.scriptURL.includes('3000'));
  await tab.click('#go');
  await sent(1);
  await /** @type {import('./chromium.js').Chromium} */ (browser).stopWorkers();
  await until('the page is loaded anew', async () => !(await stays()), { timeout: 40_000 });
  await tab.waitFor('nothing is kept any more', async () => {
    const { outbox } = await import(/** @type {string} */ ('/outbox/page.js'));
    return location.pathname === '/' && outbox.snapshot.entries.length === 0;
  });
  assert.deepEqual(posts.map(p => [p.path, p.owner, fields(p)]), Array(2).fill(['/hangs', 'anna', [['text', 'a']]]));
  assert.ok(posts[0].key && posts[0].key === posts[1].key, JSON.stringify(posts.map(p => p.key)));
  await show('');
  await tab.waitFor('the worker of the other tests has the page', () => navigator.serviceWorker.controller?.scriptURL.includes('500'));
});

test('a form whose answer is shown in another tab leaves its page alone', async () => {
  await show('<form method="post" action="/notes"><button id="go">Go</button></form>', '?base');
  await tab.type('#half', 'half a sentence');
  await tab.click('#go');
  await sent(1);
  await sleep(3_500);
  assert.deepEqual([await stays(), posts.length], [true, 1]);
});

test('two buttons of one form are two wishes, however quickly they follow; each press of a script of the page\'s own is one', async () => {
  await show(`<form id="step" method="post" action="/step"><button id="up" name="by" value="1">+</button><button id="down" name="by" value="-1">-</button></form>
    <script>step.addEventListener('submit', e => { e.preventDefault(); fetch(step.action, { method: 'POST', body: new URLSearchParams(new FormData(step, e.submitter)) }); });</script>`);
  await tab.eval(() => ['up', 'down'].forEach(id => document.getElementById(id)?.click()));
  await sent(2);
  await sleep(700);
  await tab.click('#down');
  await sent(3);
  assert.deepEqual(posts.map(fields), [[['by', '1']], [['by', '-1']], [['by', '-1']]]);
  assert.equal(new Set(posts.map(p => new URLSearchParams(p.body).get('_key'))).size, 3);
  // htmx's own forms wait for htmx's answer.
  const key = () => tab.eval(() => {
    document.getElementById('down')?.click();
    return /** @type {HTMLInputElement} */ (document.querySelector('[name=_key]')).value;
  });
  await tab.eval(() => document.body.setAttribute('hx-boost', 'true'));
  await sleep(700);
  const boosted = await key();
  await sleep(700);
  assert.equal(await key(), boosted);
  await tab.eval(() => document.body.setAttribute('hx-boost', 'false'));
  await sent(5);
  posts.length = 3;
  // B127: the same button, by a script and by the press itself.
  await sleep(700);
  await tab.eval(() => {
    const form = /** @type {HTMLFormElement} */ (document.getElementById('step'));
    form.requestSubmit();
    document.getElementById('up')?.click();
  });
  await sleep(300);
  assert.equal(posts.length, 4);
});

test('a form may have fields of any name, buttons of its own ways, and parts outside of it', async () => {
  const names = ['id', 'action', 'method', 'target', 'submit', 'name', 'attributes', 'elements', 'length', 'children', 'title', 'form'];
  await show(`<form id="f" method="post" action="/wrong" enctype="multipart/form-data">${names.map(n => `<input name="${n}" value="${n}">`).join('')}
    <fieldset disabled><input name="off" value="1"></fieldset><textarea name="text">one\ntwo</textarea><input type="file" name="file"></form>
    <input form="f" name="text" value="outside" dirname="dir"><button id="go" form="f" name="go" value="1" formaction="/right?x=1#part" formenctype="application/x-www-form-urlencoded">Go</button>`);
  await tab.click('#go');
  await sent(1);
  await left();
  assert.equal(posts[0].path, '/right?x=1');
  assert.equal(posts[0].owner, 'anna');
  assert.deepEqual(fields(posts[0]), [...names.map(n => [n, n]), ['text', 'one\r\ntwo'], ['file', ''], ['text', 'outside'], ['dir', 'ltr'], ['go', '1']]);
});

test('a form that only its button makes a POST is kept as any other', async () => {
  await show('<form action="/get"><input name="text" value="a"><button id="go" formmethod="post" formaction="/notes">Go</button></form>');
  await tab.click('#go');
  await sent(1);
  await left();
  assert.deepEqual([posts[0].path, posts[0].owner, fields(posts[0])], ['/notes', 'anna', [['text', 'a']]]);
});

test('a label that ends in half a character loses nothing', async () => {
  const text = 'x'.repeat(115) + '😀 and more';
  await show(`<form method="post" action="/notes"><input name="text" value="${text}"><button id="go">Go</button></form>`);
  await tab.click('#go');
  await sent(1);
  await left();
  assert.deepEqual([posts[0].owner, fields(posts[0])], ['anna', [['text', text]]]);
  await show('');
  const status = await tab.eval(() => /** @type {any} */ (window).outbox.fetch('/notes', { method: 'POST', body: 'x', label: 'half: \ud83d' }).then((/** @type {Response} */ r) => r.status));
  assert.equal(status, 200);
});

test('what is secret is not kept: a password that is shown, a card of a kind, fields beside the form', async () => {
  for (const field of ['<input name="p" type="text" autocomplete="current-password">', '<input name="p" autocomplete="billing CC-number">', '</form><input name="p" form="f" type="password">']) {
    posts = [];
    await show(`<form id="f" method="post" action="/notes"><input name="text" value="a">${field}<button id="go" form="f">Go</button></form>`);
    await tab.click('#go');
    await sent(1);
  await left();
    assert.equal(posts[0].owner, '', field);
  }
});

test('outbox.fetch tells another site nothing, and sends what is never taken as fetch would', async () => {
  await show('');
  await tab.eval(url => /** @type {any} */ (window).outbox.fetch(url, { method: 'POST', body: 'x', label: 'private' }).then(() => 0), `${other.url}/elsewhere`);
  assert.deepEqual([posts.length, Object.keys(posts[0].headers).filter(n => /outbox|idempotency/.test(n))], [1, []]);
  await tab.eval(() => /** @type {any} */ (window).outbox.fetch('/pay', { method: 'POST', body: 'x' }).then(() => 0));
  assert.deepEqual(posts.map(p => [p.path, p.owner, p.key]), [['/elsewhere', '', ''], ['/pay', '', '']]);
});

test('outbox.fetch of a form has one name, in the header and in the body', async () => {
  await show('<form id="f" method="post"><input type="hidden" name="_key" value="of the server"><input name="text" value="a"></form>');
  await tab.eval(() => /** @type {any} */ (window).outbox.fetch('/notes', { method: 'POST', body: new URLSearchParams(/** @type {any} */ (new FormData(/** @type {HTMLFormElement} */ (document.getElementById('f'))))) }).then(() => 0));
  assert.equal(new URLSearchParams(posts[0].body).get('_key'), posts[0].key);
  // With quotes, as RFC 9651 writes it, and without, a key is one.
  const key = await tab.eval(() => new Promise(ok => {
    document.addEventListener('outbox:refused', e => ok(/** @type {CustomEvent} */ (e).detail.key));
    void /** @type {any} */ (window).outbox.fetch('/notes', { method: 'PUT', body: 'x', headers: { 'Idempotency-Key': '"k-1"' } });
  }));
  assert.equal(key, 'k-1');
  assert.equal(await tab.eval(() => /** @type {any} */ (window).outbox.discard('k-1')), 'discarded');
});

test('presses in a place that asks by no press are nobody\'s', async () => {
  await show('<div hx-post="/order" hx-trigger="end"><label id="a"><input type="checkbox" id="one">one</label><label id="b"><input type="checkbox" id="two">two</label></div>');
  await tab.eval(() => ['a', 'b'].forEach(id => document.getElementById(id)?.click()));
  assert.deepEqual(await tab.eval(() => ['one', 'two'].map(id => /** @type {HTMLInputElement} */ (document.getElementById(id)).checked)), [true, true]);
});

test('a form of another site stays one, with its Origin, also where it knows the owner', async () => {
  await show('');
  await tab.goto(`${other.url}/`);
  await tab.eval(url => {
    document.body.innerHTML = `<form method="post" action="${url}/notes#outbox=k-other.anna.%2F"><input name="text" value="a"><button id="go">Go</button></form>`;
  }, site.url);
  await tab.eval(() => document.getElementById('go')?.click());
  await tab.waitFor('the answer', () => document.getElementById('done'));
  assert.deepEqual(posts.map(p => [p.path, p.headers.origin, p.owner, p.key]), [['/notes', other.url, '', '']]);
  await show('');
  const kept = await tab.eval(() => /** @type {any} */ (window).outbox.snapshot);
  assert.deepEqual([kept.entries, kept.foreign], [[], 0]);
});

for (const [when, times] of Object.entries({ 'before its scripts run': { get: 800, post: 300 }, 'after it was drawn': { get: 0, post: 400 } })) {
  test(`a page that was drawn before a wish of the last page was done, which it is ${when}, is told so, once`, async () => {
    await show('');
    slow = { ...times, down: false };
    await tab.eval(() => void (/** @type {any} */ (window).outbox.fetch('/notes', { method: 'POST', body: 'milk' })));
    await tab.goto(`${site.url}/list`);
    assert.equal(await tab.eval(() => document.querySelector('#list')?.textContent), '0');
    const said = () => tab.eval(() => /** @type {any} */ (window).said);
    await until('it is told', async () => (await said()).length > 0 || Promise.reject(new Error(JSON.stringify(await said()))));
    assert.deepEqual(new Set(await said()), new Set([posts[0].key]));
    await tab.goto(`${site.url}/list`);
    await tab.controlled();
    await sleep(1_000);
    assert.deepEqual(await said(), []);
  });
}

test('W15: the page that waits goes back when the form was delivered, so that the page before shows it', async () => {
  body = '<form method="post" action="/notes"><input name="text"><button id="go">Go</button></form>';
  await tab.goto(`${site.url}/list`);
  await tab.controlled();
  slow = { get: 0, post: 700, down: true };
  await tab.type('[name=text]', 'milk');
  await tab.click('#go');
  await tab.waitFor('it waits', () => location.pathname === '/outbox/queued');
  slow.down = false;
  await tab.eval(() => dispatchEvent(new Event('online')));
  await tab.waitFor('it is back', () => location.pathname === '/list');
  assert.deepEqual([posts.length, await tab.eval(() => document.querySelector('#list')?.textContent)], [1, '1']);
});

// A page that answered a form cannot be asked for, one may answer with its login,
// and a path may begin with two slashes.
for (const path of ['/was-an-answer', '/private', '//list']) {
  test(`the page that waits leads home, or back, where the form was on ${path}`, async () => {
    body = '<form method="post" action="/notes"><input name="text"><button id="go">Go</button></form>';
    await tab.goto(`${site.url}/list`);
    await tab.controlled();
    await tab.goto(site.url + path);
    slow.down = true;
    await tab.type('[name=text]', 'milk');
    await tab.click('#go');
    await tab.waitFor('it waits', () => location.pathname === '/outbox/queued');
    slow.down = false;
    await tab.waitFor('it is elsewhere', () => location.pathname !== '/outbox/queued' && document.readyState === 'complete');
    assert.equal(await tab.eval(() => location.pathname), path === '/was-an-answer' ? '/' : path);
    await sent(1);
  });
}

for (const ended of [false, true]) {
  test(`a page that comes back as it was left ${ended ? 'knows what is over, though the worker was ended' : 'is told what was done meanwhile'}, and the next press of its button is a new wish, not what is still typed in its form`, async () => {
    // As htmx asks.
    const press = (id = 'more') => tab.eval(async id => {
      const elt = document.getElementById(id);
      const formData = elt instanceof HTMLFormElement ? new FormData(elt) : new FormData();
      Object.assign(window, { htmx: { config: {} } });
      const [headers, say] = [/** @type {Record<string, string>} */ ({}), (/** @type {string} */ type, /** @type {any} */ detail) => dispatchEvent(new CustomEvent(`htmx:${type}`, { detail }))];
      say('configRequest', { elt, verb: 'post', path: '/notes', formData, headers, target: null, parameters: {} });
      const { status, headers: got } = await fetch('/notes', { method: 'POST', headers });
      say('beforeOnLoad', { xhr: { status, getResponseHeader: (/** @type {string} */ name) => got.get(name) }, requestConfig: { headers } });
      return { key: headers['Idempotency-Key'], status };
    }, id);
    const leaves = async () => {
      [posts, slow.down] = [[], true];
      await show('<button id="more">one more</button><form id="typed" hx-post="/notes"><input name="text" value="milk"></form>');
      await tab.eval(() => {
        Object.assign(window, { said: [] });
        document.addEventListener('outbox:delivered', e => /** @type {any} */ (window).said.push(e.detail.key));
        addEventListener('pageshow', e => Object.assign(window, { persisted: e.persisted }));
      });
      const first = await press();
      assert.deepEqual([first.status, await press()], [202, first], 'the same wish while it is unanswered');
      const typed = await press('typed');
      await tab.goto('about:blank');
      slow.down = false;
      const second = await browser.newTab();
      await second.goto(site.url);
      await sent(2);
      await second.close();
      await tab.front();
      if (ended) await /** @type {import('./chromium.js').Chromium} */ (browser).stopWorkers();
      await tab.back();
      const { persisted, why } = await tab.eval(() => ({
        persisted: /** @type {any} */ (window).persisted,
        why: JSON.stringify(/** @type {any} */ (performance.getEntriesByType('navigation')[0]).notRestoredReasons),
      }));
      return { first, typed, persisted, why };
    };
    // What a worker posts in the moment when the page is left has Chromium drop it.
    let { first, typed, persisted, why } = await leaves();
    for (let tries = 1; !persisted && tries < 5 && /postmessage/.test(why); tries++) ({ first, typed, persisted, why } = await leaves());
    assert.ok(persisted, `the browser had not kept the page: ${why}`);
    await sleep(1_000);
    assert.deepEqual(await tab.eval(() => /** @type {any} */ (window).said), ended ? [] : [first.key, typed.key]);
    assert.notEqual((await press()).key, first.key);
    assert.equal((await press('typed')).key, typed.key);
  });
}

test('4.5: what is big, and another page sends, its own page hears of too, once, and that one hears of it once', async () => {
  await show('');
  slow.down = true;
  const listen = () => {
    Object.assign(window, { said: [] });
    document.addEventListener('outbox:delivered', e => /** @type {any} */ (window).said.push(e.detail.key));
  };
  await tab.eval(listen);
  const status = await tab.eval(() => /** @type {any} */ (window).outbox.fetch('/notes', { method: 'POST', body: 'x'.repeat(70_000) }).then((/** @type {Response} */ r) => r.status));
  assert.equal(status, 202);
  // It is asleep, and sends nothing by itself.
  await tab.eval(() => Object.defineProperty(document, 'visibilityState', { value: 'hidden' }));
  await sleep(6_000);
  const second = await browser.newTab();
  await second.goto(site.url);
  await second.controlled();
  await second.eval(listen);
  await second.waitFor('it knows of it', async () => (await import(/** @type {string} */ ('/outbox/page.js'))).outbox.snapshot.entries.length === 1);
  slow.down = false;
  await second.eval(async () => (await import(/** @type {string} */ ('/outbox/page.js'))).outbox.flush());
  await sent(1);
  await sleep(1_000);
  const said = () => Promise.all([tab, second].map(t => t.eval(() => /** @type {any} */ (window).said)));
  assert.deepEqual(await said(), [[posts[0].key], [posts[0].key]]);
  await second.close();
});

test('a page that comes back before a wish of the page after it is done is told of that too', async () => {
  await show('');
  await tab.eval(() => {
    Object.assign(window, { said: [] });
    document.addEventListener('outbox:delivered', e => /** @type {any} */ (window).said.push(e.detail.key));
    addEventListener('pageshow', e => Object.assign(window, { persisted: e.persisted }));
  });
  await tab.goto(`${site.url}/?away`);
  slow.post = 400; // below the soft limit
  await tab.eval(async () => void (await import(/** @type {string} */ ('/outbox/page.js'))).outbox.fetch('/notes', { method: 'POST', body: 'milk' }));
  await sleep(100);
  await tab.back();
  assert.equal(await tab.eval(() => /** @type {any} */ (window).persisted), true);
  await sent(1);
  await tab.waitFor('it is told', () => /** @type {any} */ (window).said.length > 0);
  assert.deepEqual(await tab.eval(() => /** @type {any} */ (window).said), [posts[0].key]);
});
