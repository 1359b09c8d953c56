// @ts-check
// The rig itself, on a tiny page with a module worker, in each engine: what the
// scenarios take for granted is shown here first.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, before, describe, test } from 'node:test';
import { open } from './engines.js';
import { bounded, sleep, startProgram, tempFolder, until } from './processes.js';

const page = `<!doctype html><html lang="ru"><meta charset="utf-8"><title>Проба</title>
<style>[hidden] { display: none !important } .faint { opacity: 0 }</style>
<p id="shown">Виден</p><p id="hidden" hidden>Скрыт</p><p class="faint" id="faint">Прозрачен</p>
<button id="tap">Нажать</button> <output id="taps">0</output> <output id="doubles">0</output>
<form action="/form" method="post"><input name="text" id="text"><input type="file" name="file" id="file"><button id="send">Отправить</button></form>
<div style="height: 3000px"></div><button id="below">Внизу</button>
<script type="module" src="/page.js"></script></html>`;

const files = {
  '/': ['text/html', page],
  '/other': ['text/html', '<!doctype html><title>Другая</title><p id="other">Другая</p>'],
  '/page.js': ['text/javascript', `
navigator.serviceWorker.register('/worker.js', { type: 'module' });
const bump = id => document.getElementById(id).textContent++;
window.gaps = [];
document.getElementById('tap').addEventListener('click', e => { bump('taps'); gaps.push({ at: e.timeStamp, trusted: e.isTrusted }); });
document.getElementById('tap').addEventListener('dblclick', () => bump('doubles'));
document.getElementById('below').addEventListener('click', () => { document.title = 'Внизу нажато'; });`],
  '/worker.js': ['text/javascript', `
import { word } from '/words.js';
let answered = 0;
addEventListener('install', () => skipWaiting());
addEventListener('activate', e => e.waitUntil(clients.claim()));
addEventListener('fetch', e => {
  const url = new URL(e.request.url);
  if (url.pathname === '/from-worker') e.respondWith(Response.json({ word, answered: ++answered }));
  if (url.pathname === '/slow') e.respondWith(fetch('/slow?inside=1'));
});`],
  '/words.js': ['text/javascript', `export const word = 'слово';`],
};

/** @type {import('node:http').Server} */
let server;
let url = '';
/** @type {{path: string, method: string, body: string, language: string}[]} */
const seen = [];

before(async () => {
  server = createServer(async (request, answer) => {
    let body = '';
    for await (const part of request) body += part.toString('latin1');
    const path = new URL(request.url ?? '/', 'http://x').pathname;
    seen.push({ path, method: request.method ?? '', body, language: request.headers['accept-language'] ?? '' });
    if (path === '/slow') await sleep(300);
    if (path === '/form') answer.setHeader('Set-Cookie', 'person=anna; Path=/');
    const [type, text] = files[/** @type {keyof typeof files} */ (path)] ?? ['text/html', `<!doctype html><p id="got">${path}</p>`];
    answer.writeHead(200, { 'Content-Type': `${type}; charset=utf-8`, 'Cache-Control': 'no-cache' }).end(text);
  });
  await new Promise(resolve => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  url = `http://127.0.0.1:${port}`;
});
after(() => {
  server.close();
  server.closeAllConnections();
});

for (const engine of /** @type {const} */ (['chromium', 'firefox', 'webkit'])) {
  describe(engine, () => {
    /** @type {import('./engines.js').Browser} */
    let browser;
    /** @type {import('./tab.js').Tab} */
    let tab;
    before(async () => {
      browser = await open(engine);
      tab = await browser.newTab();
    });
    after(() => browser?.close());

    test('a module worker takes the page and answers for it', async () => {
      await tab.goto(url + '/');
      await tab.controlled();
      const answer = await tab.eval(async () => (await fetch('/from-worker')).json());
      assert.equal(answer.word, 'слово');
    });

    test('the worker has locks and a database', async () => {
      const found = await tab.eval(async () => {
        const locked = await navigator.locks.request('x', () => 'locked');
        const opened = await new Promise((resolve, reject) => {
          const request = indexedDB.open('rig', 1);
          request.onsuccess = () => resolve(request.result.name);
          request.onerror = () => reject(request.error);
        });
        return { locked, opened };
      });
      assert.deepEqual(found, { locked: 'locked', opened: 'rig' });
    });

    test('what a person can see is told by computed style', async () => {
      assert.equal(await tab.visible('#shown'), true);
      assert.equal(await tab.visible('#hidden'), false);
      assert.equal(await tab.visible('#faint'), false);
      assert.equal(await tab.visible('#none'), false);
      assert.equal(await tab.exists('#hidden'), true);
      assert.equal(await tab.text('#shown'), 'Виден');
      assert.equal(await tab.text('#none'), null);
    });

    test('one press is one trusted click, a double press is two as far apart as asked', async () => {
      await tab.click('#tap');
      await tab.waitFor('one click', () => document.getElementById('taps')?.textContent === '1');
      await tab.click('#tap', { double: true, gap: 150 });
      await tab.waitFor('three clicks', () => document.getElementById('taps')?.textContent === '3');
      const gaps = await tab.eval(() => /** @type {any} */ (window).gaps);
      assert.ok(gaps.every((/** @type {any} */ g) => g.trusted), 'the page was given untrusted clicks');
      const apart = gaps[2].at - gaps[1].at;
      assert.ok(apart >= 100 && apart < 450, `the two clicks came ${apart} ms apart`);
    });

    test('an element below the fold is brought into sight and pressed', async () => {
      await tab.click('#below');
      await tab.waitFor('the click arrives', () => document.title === 'Внизу нажато');
    });

    test('typing, a file and a form reach the server; back and reload work', async () => {
      await tab.type('#text', 'Физика 12–15, №7');
      assert.equal(await tab.value('#text'), 'Физика 12–15, №7');
      await tab.type('#text', 'Химия', { clear: true });
      assert.equal(await tab.value('#text'), 'Химия');
      await tab.files('#file', [{ name: 'x.bin', type: 'application/octet-stream', bytes: Uint8Array.of(0, 255, 128) }]);
      assert.equal(await tab.eval(() => /** @type {any} */ (document.getElementById('file')).files[0].size), 3);
      seen.length = 0;
      await tab.click('#send');
      await tab.waitFor('the form has arrived', () => document.getElementById('got')?.textContent === '/form');
      const form = seen.find(r => r.path === '/form');
      assert.equal(form?.method, 'POST');
      assert.match(form?.body ?? '', /%D0%A5%D0%B8%D0%BC%D0%B8%D1%8F/);
      await tab.back();
      await tab.waitFor('the page is back', () => document.getElementById('tap') !== null);
      await tab.goto(url + '/other');
      await tab.reload();
      assert.equal(await tab.text('#other'), 'Другая');
    });

    test('the page is asked for in the language of the person', async () => {
      const language = engine === 'webkit' ? /^en/ : /^ru/;
      assert.match(await tab.eval(() => navigator.language), language);
      assert.match(seen.at(-1)?.language ?? '', language);
    });

    test('cookies are seen and can be taken away, as when a session ends', async () => {
      await tab.goto(url + '/other');
      assert.ok((await browser.cookies()).some(c => c.name === 'person' && c.value === 'anna'));
      await browser.clearCookies();
      assert.deepEqual(await browser.cookies(), []);
    });

    test('errors of the page come back with their text', async () => {
      await assert.rejects(
        tab.eval(() => {
          throw new Error('из страницы');
        }),
        /из страницы/,
      );
    });

    test('a second tab is another page of the same person, a new context another person', async () => {
      const second = await browser.newTab();
      await second.goto(url + '/');
      await second.eval(() => localStorage.setItem('whose', 'anna'));
      await tab.goto(url + '/other');
      assert.equal(await tab.eval(() => localStorage.getItem('whose')), 'anna');
      assert.equal(await second.exists('#tap'), true);
      // One that nobody sees draws nothing, and has to answer all the same.
      await second.front();
      assert.ok(await tab.point('#other'));
      await tab.front();
      const other = await browser.newContext();
      try {
        const theirs = await other.newTab();
        await theirs.goto(url + '/');
        assert.equal(await theirs.eval(() => localStorage.getItem('whose')), null);
        await theirs.controlled();
      } finally {
        await other.close();
      }
      await second.close();
      assert.equal(await tab.text('#other'), 'Другая');
    });

    test('a screenshot is a picture of the size asked for', async () => {
      await tab.goto(url + '/');
      // WebKit's window does not get as narrow as a phone.
      const width = engine === 'webkit' ? 600 : 390;
      await tab.resize(width, 700);
      const picture = await tab.raw.screenshot();
      assert.equal(picture.subarray(1, 4).toString(), 'PNG');
      assert.equal(await tab.eval(() => innerWidth), width);
      assert.equal(picture.readUInt32BE(16), width);
    });
  });
}

describe('chromium alone', () => {
  test('offline reaches the worker; a stopped worker starts again with nothing in memory', async () => {
    const { openChromium } = await import('./chromium.js');
    const browser = await openChromium({ locale: 'en-US' });
    try {
      const tab = await browser.newTab();
      await tab.goto(url + '/');
      await tab.controlled();
      await browser.setOffline(true);
      assert.equal(await tab.eval(() => navigator.onLine), false);
      assert.match(await tab.eval(() => fetch('/slow').then(String, String)), /TypeError/);
      await browser.setOffline(false);
      assert.equal(await tab.eval(async () => (await fetch('/slow')).status), 200);
      const answered = () => tab.eval(async () => (await (await fetch('/from-worker')).json()).answered);
      await answered();
      assert.ok((await answered()) > 1);
      await browser.stopWorkers();
      assert.equal(await answered(), 1);
    } finally {
      await browser.close();
    }
  });
});

describe('a browser that is killed', () => {
  for (const engine of /** @type {const} */ (['chromium', 'firefox'])) {
    test(`${engine} keeps its profile`, async () => {
      const profile = tempFolder(`onceward-kept-${engine}-`);
      const first = await open(engine, { profile });
      const tab = await first.newTab();
      await tab.goto(url + '/');
      await tab.controlled();
      await tab.eval(
        () =>
          new Promise((resolve, reject) => {
            const request = indexedDB.open('kept', 1);
            request.onupgradeneeded = () => request.result.createObjectStore('notes');
            request.onsuccess = () => {
              const work = request.result.transaction('notes', 'readwrite', { durability: 'strict' });
              work.objectStore('notes').put('жив', 1);
              work.oncomplete = () => resolve(undefined);
              work.onabort = () => reject(work.error);
            };
          }),
      );
      await first.kill();
      assert.throws(() => process.kill(first.pid, 0), { code: 'ESRCH' });
      const second = await open(engine, { profile });
      try {
        const again = await second.newTab();
        await again.goto(url + '/');
        const kept = await again.eval(
          () =>
            new Promise((resolve, reject) => {
              const request = indexedDB.open('kept', 1);
              request.onerror = () => reject(request.error);
              request.onsuccess = () => {
                const got = request.result.transaction('notes').objectStore('notes').get(1);
                got.onsuccess = () => resolve(got.result);
                got.onerror = () => reject(got.error);
              };
            }),
        );
        assert.equal(kept, 'жив');
      } finally {
        await second.close();
      }
    });
  }
});

test('a program that leaves children behind leaves nobody', async () => {
  const program = startProgram('sh', ['-c', 'sleep 300 & echo $!; exit 3']);
  assert.equal(await program.ended, 3);
  const child = Number(program.output());
  await until('the child is gone', () => {
    try {
      process.kill(child, 0);
      return false;
    } catch {
      return true;
    }
  });
});

test('a driver that has no answer from its page rejects in the end, and nothing else of it changes', async () => {
  const driver = bounded('page', {
    n: 1,
    now: () => 2,
    soon: async (/** @type {number} */ n) => n + driver.n,
    fails: async () => {
      throw new Error('its own');
    },
    never: () => new Promise(() => {}),
  }, 50);
  assert.equal(driver.now(), 2);
  assert.equal(await driver.soon(2), 3);
  await assert.rejects(driver.fails(), /its own/);
  await assert.rejects(driver.never(), /page\.never has not answered for 50 ms/);
});
