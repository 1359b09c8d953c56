// @ts-check
// The outbox's kit (strip, captions, list) on a page of its own: kit.js, its words
// and its style as they ship, over a stand-in for page.js that shows whatever
// snapshot the test wants. What the real page.js tells is seen in the scenarios.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { after, before, beforeEach, describe, test } from 'node:test';
import { open } from './engines.js';
import { sleep } from './processes.js';

const shipped = new URL('../../../outbox/', import.meta.url);
const page = (/** @type {string} */ lang) => `<!doctype html><html lang="${lang}"><meta charset="utf-8"><title>Kit</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="outbox-config" content='{"login":"/login","softLimit":8000}'>
<link rel="icon" href="data:,"><link rel="stylesheet" href="/outbox/kit.css">
<style>:root { --outbox-bottom: 60px } li { display: flex; flex-wrap: wrap } .strip { display: flex } .bar { position: fixed; bottom: 0; left: 0; right: 0; height: 60px }</style>
<form id="add" action="/tasks" method="post"><input name="text" id="text"><input type="hidden" name="_key" value="x"><button>+</button></form>
<ul>
<li id="task-1" data-outbox-row><button id="done-1">done</button><span>Физика: задачи 12–15</span></li>
<li id="task-2" data-outbox-row><button id="done-2">done</button><span>Алгебра</span><p data-outbox-caption></p></li>
</ul>
<form id="logout" action="/left" data-outbox-logout><button id="leave">Log out</button></form>
<button id="all" data-outbox-open>…</button><div class="bar"></div>
<script type="module" src="/outbox/page.js"></script><script type="module" src="/outbox/kit.js"></script></html>`;

const standIn = `
class Outbox extends EventTarget {
  snapshot = { pending: 0, sending: false, login: 0, refused: 0, stuck: 0, ask: 0, foreign: 0, entries: [], stored: true, controlled: true };
  calls = [];
  keeps = [];
  show(entries, more) {
    const line = entries.filter(e => e.state !== 'refused' && e.state !== 'ask');
    this.snapshot = { ...this.snapshot, pending: line.length, login: line.some(e => e.state === 'login') ? line.length : 0, foreign: 0, entries, ...more };
    this.dispatchEvent(new CustomEvent('change', { detail: this.snapshot }));
  }
  async retry(key) { this.calls.push('retry ' + key); return 'waiting'; }
  async resend(key) { this.calls.push('resend ' + key); return 'waiting'; }
  async look(key) { this.calls.push('look ' + key); return 'ask'; }
  async flush() { this.calls.push('flush'); }
  async discard(key) {
    this.calls.push('discard ' + key);
    if (this.keeps.includes(key)) return 'sending';
    this.show(this.snapshot.entries.filter(e => e.key !== key));
    return 'discarded';
  }
}
export const outbox = new Outbox();
window.outbox = outbox;
window.said = [];
const wait = setInterval(() => {
  const region = document.querySelector('#outbox-strip [aria-live=polite]');
  if (!region) return;
  clearInterval(wait);
  new MutationObserver(() => said.push(region.textContent)).observe(region, { childList: true, characterData: true, subtree: true });
  window.ready = true;
}, 10);`;

/**
 * @param {string} key
 * @param {string} state
 * @param {object} [over]
 */
const entry = (key, state, over) => ({
  key, state, label: '', el: '', method: 'POST', url: `${url}/tasks`, createdAt: Date.now(), firstSentAt: Date.now(), attempts: 1,
  nextAt: 0, reason: '', lastStatus: 0, lastText: '', bodyText: '', ...over,
});

/** @type {import('node:http').Server} */
let server;
let url = '';
before(async () => {
  server = createServer((request, answer) => {
    const path = new URL(request.url ?? '/', 'http://x').pathname;
    const name = path.slice('/outbox/'.length);
    const type = name.endsWith('.css') ? 'text/css' : path.startsWith('/outbox/') ? 'text/javascript' : 'text/html';
    const body = name === 'page.js' ? standIn : type === 'text/html' ? page(path.slice(1)) : readFileSync(new URL(name, shipped));
    answer.writeHead(200, { 'Content-Type': `${type}; charset=utf-8` }).end(body);
  });
  await new Promise(resolve => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  url = `http://127.0.0.1:${/** @type {import('node:net').AddressInfo} */ (server.address()).port}`;
});
after(() => {
  server.close();
  server.closeAllConnections();
});

for (const engine of /** @type {const} */ (['chromium', 'firefox', 'webkit'])) {
  describe(`the kit in ${engine}`, () => {
    /** @type {import('./engines.js').Browser} */
    let browser;
    /** @type {import('./tab.js').Tab} */
    let tab;
    before(async () => {
      browser = await open(engine);
      tab = await browser.newTab();
    });
    after(() => browser?.close());
    beforeEach(() => load('ru'));

    /** @param {string} lang */
    const load = async lang => {
      await tab.goto(`${url}/${lang}`);
      await tab.waitFor('the kit is there', () => /** @type {any} */ (window).ready);
    };
    /** @param {object[]} entries */
    const show = (...entries) => tab.eval(list => /** @type {any} */ (window).outbox.show(list), entries);
    const calls = () => tab.eval(() => /** @type {string[]} */ (/** @type {any} */ (window).outbox.calls));
    const stripText = async () => ((await tab.visible('#outbox-strip')) ? tab.text('#outbox-strip [role=status]') : null);
    /** @param {string | null} want */
    const stripSays = async want => {
      for (let i = 0; i < 40 && (await stripText()) !== want; i++) await sleep(50);
      assert.equal(await stripText(), want);
    };
    const focused = () => tab.eval(() => /** @type {HTMLElement} */ (document.activeElement)?.dataset.act || document.activeElement?.id);
    /** @param {string} selector @param {string} type @param {object} detail */
    const tell = (selector, type, detail) =>
      tab.eval((s, t, d) => void document.querySelector(s)?.dispatchEvent(new CustomEvent(t, { bubbles: true, detail: d })), selector, type, detail);

    // R35: hidden by computed style, whatever classes the page has.
    test('the strip is not there while nothing waits, and counts as Russian does', async () => {
      assert.equal(await stripText(), null);
      assert.equal(await tab.eval(() => getComputedStyle(/** @type {Element} */ (document.querySelector('#outbox-strip'))).display), 'none');
      for (const [n, text] of /** @type {const} */ ([
        [1, 'Одно изменение ждёт сети'], [2, '2 изменения ждут сети'], [5, '5 изменений ждут сети'],
        [11, '11 изменений ждут сети'], [21, '21 изменение ждёт сети'], [22, '22 изменения ждут сети'],
      ])) {
        await show(...Array.from({ length: n }, (_, i) => entry(`k${i}`, 'waiting')));
        await stripSays(text);
      }
      await show();
      await stripSays(null);
    });

    test('it speaks English on an English page', async () => {
      await load('en');
      await show(entry('a', 'waiting'), entry('b', 'waiting'));
      await stripSays('2 changes are waiting for the network');
    });

    test('a normal tap shows nothing, a slow one does', async () => {
      await show(entry('a', 'sending'));
      await sleep(500);
      await show();
      await sleep(150);
      assert.deepEqual(await tab.eval(() => /** @type {any} */ (window).said), []);
      await show(entry('a', 'sending'));
      await stripSays('Отправляем…');
    });

    // Scenario 33: announced once per change.
    test('each change is announced once', async () => {
      for (let i = 0; i < 4; i++) {
        await show(entry('a', 'waiting', { attempts: i + 1 }), entry('c', 'refused'));
        await sleep(100);
      }
      assert.deepEqual(await tab.eval(() => /** @type {any} */ (window).said), ['Одно изменение ждёт сети\u00a0· Одно изменение не принято']);
    });

    test('it stands above what the page has at the bottom, and fits 320 px', async () => {
      await tab.resize(320, 640);
      await show(entry('a', 'login', { label: 'x' }), entry('b', 'waiting'), entry('c', 'refused'), entry('d', 'ask'));
      await stripSays('Войдите снова, чтобы сохранить 2 изменения · Неизвестно, сохранилось ли одно изменение');
      const box = await tab.eval(() => {
        const b = /** @type {Element} */ (document.querySelector('#outbox-strip')).getBoundingClientRect();
        return { left: b.left, right: b.right, below: innerHeight - b.bottom, width: innerWidth, wide: document.documentElement.scrollWidth };
      });
      assert.ok(box.left >= 0 && box.right <= box.width && box.wide <= box.width && box.below >= 60, JSON.stringify(box));
      await tab.click('#outbox-strip [data-act=look]');
      const dialog = await tab.eval(() => {
        const b = /** @type {Element} */ (document.querySelector('dialog')).getBoundingClientRect();
        return { left: b.left, right: b.right, width: innerWidth, small: [...document.querySelectorAll('dialog .outbox-button:not([hidden])')].filter(e => e.getBoundingClientRect().height < 44).length };
      });
      assert.ok(dialog.left >= 0 && dialog.right <= dialog.width && dialog.small === 0, JSON.stringify(dialog));
      await tab.resize(1000, 800);
    });

    // Requirement 38, R35: a caption that is read, not a tooltip.
    test('a row says that it waits, at once, and no longer when it is done', async () => {
      await show(entry('a', 'sending'));
      await tell('#done-1', 'outbox:queued', { key: 'a' });
      assert.equal(await tab.text('#task-1 .outbox-caption'), 'сохранится, когда появится сеть');
      assert.ok(await tab.visible('#task-1 .outbox-caption'));
      assert.equal(await tab.attribute('#task-1', 'data-outbox-state'), 'waiting');
      assert.ok(Number(await tab.eval(() => getComputedStyle(/** @type {Element} */ (document.querySelector('#task-1 span'))).opacity)) < 1);
      await show();
      assert.equal(await tab.exists('#task-1 .outbox-caption'), false);
      assert.equal(await tab.attribute('#task-1', 'data-outbox-state'), null);
    });

    // Scenario 27: after a reload only the entry knows its row.
    test('marks come back from the entries alone, each with its own words', async () => {
      await show(
        entry('a', 'login', { el: 'done-1' }),
        entry('b', 'waiting', { el: 'task-2' }),
        entry('c', 'refused', { el: 'task-2', lastStatus: 404 }),
      );
      assert.equal(await tab.text('#task-1 .outbox-caption'), 'сохранится после входа');
      assert.equal(await tab.text('#task-2 [data-outbox-caption]'), 'не принято: этого больше нет, возможно, удалено на другом устройстве');
    });

    test('the list takes the focus, Escape gives it back', async () => {
      await show(entry('a', 'waiting', { label: 'Готово: Физика' }));
      await tab.click('#outbox-strip [data-act=look]');
      assert.equal(await focused(), 'outbox-title');
      assert.deepEqual(await tab.texts('.outbox-label'), ['Готово: Физика']);
      assert.match((await tab.text('.outbox-meta')) ?? '', /^сохранится, когда появится сеть · сейчас$/i);
      // Whatever Tab reaches, it is nothing behind the dialog.
      for (let i = 0; i < 8; i++) {
        await tab.raw.key('Tab');
        const behind = await tab.eval(() => !!document.activeElement?.closest('ul:not(.outbox-list), form, .outbox-strip, #all'));
        assert.equal(behind, false);
      }
      await tab.raw.key('Escape');
      await tab.waitFor('the list is closed', () => !document.querySelector('dialog[open]'));
      assert.equal(await focused(), 'look');
      await tab.click('#all');
      assert.ok(await tab.visible('dialog'));
    });

    test('to give a change up is asked twice, and cannot be done to one that is on its way', async () => {
      await show(entry('a', 'waiting', { label: 'A' }), entry('b', 'sending', { label: 'B', attempts: 2 }));
      await tab.eval(() => void /** @type {any} */ (window).outbox.keeps.push('b'));
      await tab.click('#all');
      await tab.click('.outbox-item:nth-child(1) [data-act=discard]');
      assert.equal(await focused(), 'keep');
      assert.deepEqual(await calls(), []);
      await tab.click('[data-act=sure]');
      await tab.waitFor('one is left', () => document.querySelectorAll('.outbox-item').length === 1);
      await tab.click('[data-act=discard]');
      await tab.click('[data-act=sure]');
      await tab.waitFor('it is told', () => document.querySelector('.outbox-note')?.textContent === 'Уже отправляется, отменить нельзя');
      assert.deepEqual(await tab.texts('.outbox-label'), ['B']);
      assert.deepEqual(await calls(), ['discard a', 'discard b']);
      await show();
      assert.equal(await tab.text('dialog .outbox-none'), 'Ничего не ждёт');
    });

    test('each state has its own ways out', async () => {
      await show(
        entry('w', 'waiting'), entry('s', 'sending', { attempts: 2 }), entry('r', 'refused'), entry('k', 'stuck'),
        entry('q', 'ask', { reason: 'expired' }), entry('o', 'ask', { reason: 'old' }),
      );
      await tab.click('#all');
      const acts = await tab.eval(() =>
        [...document.querySelectorAll('.outbox-item')].map(li => [...li.querySelectorAll('a,button')].map(b => /** @type {HTMLElement} */ (b).dataset.act ?? 'login').join(' ')),
      );
      assert.deepEqual(acts, [
        'copy discard', 'copy discard', 'retry copy discard', 'send copy discard', 'check resend copy discard', 'send copy discard',
      ]);
      await tab.click('.outbox-item:nth-child(5) [data-act=check]');
      await tab.waitFor('it is told', () => document.querySelector('.outbox-item:nth-child(5) .outbox-note')?.textContent === 'По-прежнему неизвестно');
      await tab.click('.outbox-item:nth-child(5) [data-act=resend]');
      await tab.click('.outbox-item:nth-child(3) [data-act=retry]');
      await tab.click('[data-act=flush]');
      assert.deepEqual(await calls(), ['look q', 'resend q', 'retry r', 'flush']);
      await show(entry('l', 'login'), entry('w', 'waiting', { attempts: 0 }));
      assert.deepEqual(
        await tab.eval(() => [...document.querySelectorAll('.outbox-item')].map(li => li.querySelector('a')?.getAttribute('href') ?? null)),
        ['/login', '/login'],
      );
    });

    // R26: what was refused is shown with its reason, and its text is not lost.
    test('a refused text goes back into its form and stays kept until it is sent again', async () => {
      const bodyText = new URLSearchParams({ _key: '1', id: '2', text: 'Купить тетрадь' }).toString();
      await show(entry('r', 'refused', { bodyText, lastStatus: 422, lastText: 'Слишком длинно' }));
      await tab.type('#text', 'начато');
      await tab.click('#outbox-strip [data-act=look]');
      assert.match((await tab.text('.outbox-meta')) ?? '', /^не принято: Слишком длинно/i);
      assert.deepEqual(await tab.texts('.outbox-label'), ['Купить тетрадь']);
      await tab.click('[data-act=edit]');
      assert.equal(await tab.value('#text'), 'Купить тетрадь начато');
      assert.equal(await focused(), 'text');
      assert.deepEqual(await calls(), []);
      await tab.eval(() => document.querySelector('#add')?.addEventListener('submit', e => e.preventDefault()));
      await tab.raw.key('Enter');
      await tab.waitFor('it is given up', () => /** @type {any} */ (window).outbox.calls.length === 1);
      assert.deepEqual(await calls(), ['discard r']);
    });

    // R34, B140: nothing is pretended.
    test('what could not be kept is said', async () => {
      await tell('#add', 'outbox:unsaved', {});
      await stripSays('Не сохранено на этом устройстве. Не закрывайте страницу и попробуйте ещё раз.');
      await tell('#add', 'outbox:delivered', { key: 'x' });
      await stripSays(null);
    });

    test('logging out while something waits asks first', async () => {
      await show(entry('a', 'waiting'));
      await tab.click('#leave');
      assert.equal(await tab.text('dialog[open] h2'), 'Не всё сохранено на сервере');
      await tab.click('[data-act="leave.stay"]');
      await tab.waitFor('the question is gone', () => !document.querySelector('dialog[open]'));
      assert.equal(new URL(await tab.url()).pathname, '/ru');
      await tab.click('#leave');
      await tab.click('[data-act="leave.drop"]');
      await tab.waitFor('we have left', () => location.pathname === '/left');
    });

    test('logging out with nothing waiting asks nothing', async () => {
      await tab.click('#leave');
      await tab.waitFor('we have left', () => location.pathname === '/left');
    });
  });
}
