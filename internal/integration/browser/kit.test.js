// @ts-check
// The outbox's kit (strip, captions, list) as a person uses it, on every engine,
// over a stand-in for page.js (kit-page.js). What the real page.js tells is seen in
// the scenarios; how each state looks, in kit-states.test.js.
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { open } from './engines.js';
import { serveKit } from './kit-page.js';
import { sleep } from './processes.js';

/** @type {import('./kit-page.js').KitPage} */
let kit;
/** @type {import('./kit-page.js').KitPage['entry']} */
const entry = (...args) => kit.entry(...args);
before(async () => {
  kit = await serveKit();
});
after(() => kit?.close());

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

    /** @param {string} lang with a query, if there is one */
    const load = async lang => {
      await tab.goto(`${kit.url}/${lang}`);
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

    // Not the kit's; here, because here the three engines are open, and a page that
    // uses no store of its own. The same cases run under node on the store in memory.
    test('the store keeps in IndexedDB what its contract promises (W5, W23, W24, B134, B140, B142)', async () => {
      const { ran, failed } = await tab.eval(async () => {
        const { idbStore } = await import(/** @type {string} */ ('/outbox/idb.js'));
        const { storeContract } = await import(/** @type {string} */ ('/outbox/store.contract.js'));
        let name = '';
        const cases = storeContract(async (/** @type {boolean} */ fresh) => {
          if (fresh) name = `contract-${crypto.randomUUID()}`;
          return idbStore(name);
        });
        /** @type {string[]} */
        const failed = [];
        for (const [what, run] of Object.entries(cases)) {
          await /** @type {() => Promise<void>} */ (run)().catch(error => failed.push(`${what}: ${error.message}`));
        }
        return { ran: Object.keys(cases).length, failed };
      });
      assert.deepEqual(failed, []);
      assert.ok(ran >= 10, `${ran} cases`);
    });

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

    test('a page that writes its language as programs do, ru_RU, or wrong, has a list', async () => {
      for (const [lang, text, heading] of [['ru_RU', 'Одно изменение не принято', 'Что не сохранено'], ['x%20y', 'One change was not accepted', 'Not saved yet']]) {
        await load(lang);
        await show(entry('a', 'refused', { label: 'Хлеб' }));
        await stripSays(text);
        await tab.click('#outbox-strip [data-act=look]');
        assert.equal(await tab.text('#outbox-title'), heading);
        assert.equal(await tab.text('dialog .outbox-label'), 'Хлеб');
      }
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
      assert.match((await tab.text('.outbox-meta')) ?? '', /^ждёт, сервер не отвечает · сейчас$/i);
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
      // Its content cannot be read: nothing happens, and the person is told so.
      await tab.eval(() => (/** @type {any} */ (window).outbox.again = 'unreadable'));
      await tab.click('.outbox-item:nth-child(5) [data-act=resend]');
      await tab.waitFor('it says so', () => document.querySelector('.outbox-item:nth-child(5) .outbox-note')?.textContent === 'пока не отправляется');
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

    test('a press within the list leaves it open, also beside its words', async () => {
      await show(entry('a', 'waiting'));
      await tab.click('#all');
      const box = await tab.eval(() => {
        const b = /** @type {Element} */ (document.querySelector('dialog')).getBoundingClientRect();
        return { x: Math.round(b.left + 5), y: Math.round(b.top + 40) };
      });
      await tab.raw.press(box.x, box.y, []);
      await sleep(100);
      assert.ok(await tab.visible('dialog[open]'));
    });

    test('what is copied is the text, and where that is forbidden it can be read', async () => {
      await show(entry('a', 'waiting', { bodyText: 'text=' + encodeURIComponent('Купить тетрадь') }));
      await tab.click('#all');
      const forbid = (/** @type {boolean} */ no) =>
        tab.eval(never => {
          const writeText = async (/** @type {string} */ words) => {
            if (never) throw new Error('forbidden');
            /** @type {any} */ (window).copied = words;
          };
          Object.defineProperty(navigator, 'clipboard', { configurable: true, value: { writeText } });
        }, no);
      await forbid(false);
      await tab.click('[data-act=copy]');
      await tab.waitFor('it is said', () => document.querySelector('.outbox-note')?.textContent === 'Скопировано');
      assert.equal(await tab.eval(() => /** @type {any} */ (window).copied), 'Купить тетрадь');
      await forbid(true);
      await tab.click('[data-act=copy]');
      await tab.waitFor('it can be read', () => document.querySelector('.outbox-note')?.textContent === 'Купить тетрадь');
      assert.equal(await focused(), 'copy');
    });

    test('the number is on the icon of the app, where there is one', async () => {
      const badges = () => tab.eval(() => /** @type {number[]} */ (/** @type {any} */ (window).badges));
      await show(entry('a', 'sending'));
      await show(entry('a', 'waiting'), entry('b', 'waiting', { attempts: 0 }), entry('c', 'refused'));
      await show(entry('a', 'waiting', { attempts: 2 }), entry('b', 'waiting', { attempts: 0 }), entry('c', 'refused'));
      await show(entry('c', 'refused'));
      await show();
      assert.deepEqual(await badges(), [0, 3, 1, 0]);
      for (const query of ['?noicon', '?nobadge']) {
        await load(`ru${query}`);
        await show(entry('a', 'waiting'));
        await stripSays('Одно изменение ждёт сети');
        assert.deepEqual(await badges(), [], query);
      }
    });

    test('a page may give any language, with its own plurals and its own direction', async () => {
      await load('ar');
      for (const [n, text] of /** @type {const} */ ([
        [1, 'تغيير واحد ينتظر الشبكة'], [2, 'تغييران ينتظران الشبكة'], [3, /تغييرات تنتظر الشبكة/], [11, /تغييرًا ينتظر الشبكة/], [100, /^\S+ تغيير ينتظر الشبكة/],
      ])) {
        await show(...Array.from({ length: n }, (_, i) => entry(`k${i}`, 'waiting')));
        await tab.waitFor(`${n} is said`, (want, exact) => {
          const says = document.querySelector('#outbox-strip [role=status]')?.textContent ?? '';
          return exact ? says === want : new RegExp(want).test(says);
        }, typeof text === 'string' ? text : text.source, typeof text === 'string');
      }
      const strip = await tab.eval(() => {
        const box = (/** @type {string} */ s) => /** @type {Element} */ (document.querySelector(s)).getBoundingClientRect();
        const bar = /** @type {HTMLElement} */ (document.querySelector('#outbox-strip'));
        return { lang: bar.lang, edge: getComputedStyle(bar).borderRightWidth, reads: box('#outbox-strip .outbox-text').right > box('#outbox-strip [data-act=look]').right };
      });
      assert.deepEqual(strip, { lang: '', edge: '5px', reads: true });
      // Words that are not the page's are marked as what they are.
      await load('de');
      await show(entry('a', 'waiting'));
      await stripSays('One change is waiting for the network');
      assert.deepEqual(await tab.eval(() => {
        const { lang, dir } = /** @type {HTMLElement} */ (document.querySelector('#outbox-strip'));
        return { lang, dir };
      }), { lang: 'en', dir: 'ltr' });
    });

    test('it takes the page\'s colours from wherever they are set, and leaves room for its last line', async () => {
      await tab.eval(() => {
        document.body.style.setProperty('--outbox-surface', 'rgb(1, 2, 3)');
        document.body.style.setProperty('--outbox-ink', 'rgb(250, 251, 252)');
        const tall = document.createElement('div');
        tall.innerHTML = '<div style="height: 200vh"></div><p id="last">the end</p>';
        document.querySelector('main')?.append(tall);
      });
      await show(entry('a', 'waiting'));
      await stripSays('Одно изменение ждёт сети');
      await tab.eval(() => scrollTo({ top: 1e6, behavior: 'instant' }));
      const seen = await tab.waitFor('the strip has its height', () => {
        const bar = /** @type {Element} */ (document.querySelector('#outbox-strip'));
        const { color, backgroundColor } = getComputedStyle(bar);
        const { bottom } = /** @type {Element} */ (document.querySelector('#last')).getBoundingClientRect();
        const height = getComputedStyle(document.documentElement).getPropertyValue('--outbox-height');
        scrollTo({ top: 1e6, behavior: 'instant' });
        return height === `${/** @type {HTMLElement} */ (bar).offsetHeight}px` && { color, backgroundColor, clear: bottom <= bar.getBoundingClientRect().top };
      });
      assert.deepEqual(seen, { color: 'rgb(250, 251, 252)', backgroundColor: 'rgb(1, 2, 3)', clear: true });
      await show();
      await tab.waitFor('and none without it', () => getComputedStyle(document.documentElement).getPropertyValue('--outbox-height') === '0px');
    });

    test('logging out while something waits asks first', async () => {
      await show(entry('a', 'waiting'));
      await tab.click('#leave');
      await tab.waitFor('it is asked', () => document.querySelector('dialog[open] h2')?.textContent === 'Не всё сохранено на сервере');
      await tab.click('[data-act="leave.stay"]');
      await tab.waitFor('the question is gone', () => !document.querySelector('dialog[open]'));
      assert.equal(new URL(await tab.url()).pathname, '/ru');
      await tab.click('#leave');
      await tab.click('[data-act="leave.drop"]');
      await tab.waitFor('we have left', () => location.pathname === '/left');
    });

    test('a double click opens the list and the question, and does not close them again', async () => {
      await show(entry('a', 'refused', { label: 'Хлеб' }));
      for (const selector of ['#all', '#leave', '#out']) {
        await tab.click(selector, { double: true });
        await sleep(300);
        assert.deepEqual([await tab.count('dialog[open]'), new URL(await tab.url()).pathname], [1, '/ru'], selector);
        await sleep(300);
        if (engine === 'webkit') await tab.raw.key('Escape');
        else await tab.raw.press(2, 2, []); // beside it
        await tab.waitFor('it is closed', () => document.querySelector('dialog[open]') === null);
      }
    });

    test('logging out with nothing waiting asks nothing', async () => {
      await tab.click('#leave');
      await tab.waitFor('we have left', () => location.pathname === '/left');
    });

    if (engine !== 'chromium') return; // what follows is the same code everywhere

    test('what could not be kept is said until the person has read it', async () => {
      await tell('#add', 'outbox:unsaved', {});
      await stripSays('Не сохранено на этом устройстве. Не закрывайте страницу и попробуйте ещё раз.');
      await tab.click('#outbox-strip [data-act=close]');
      await stripSays(null);
    });

    test('that another account\'s changes wait can be closed, and stays so until there is something else to say', async () => {
      await show();
      await tab.eval(() => /** @type {any} */ (window).outbox.show([], { foreign: 2 }));
      await stripSays('Здесь ждут изменения из другого аккаунта');
      await tab.click('#outbox-strip [data-act=close]');
      const seen = () => tab.visible('#outbox-strip');
      await tab.waitFor('it is closed', () => !document.querySelector('#outbox-strip')?.checkVisibility());
      await tab.eval(() => /** @type {any} */ (window).outbox.show([], { foreign: 3 }));
      assert.equal(await seen(), false);
      await show(entry('a', 'waiting'));
      await stripSays('Одно изменение ждёт сети');
      assert.equal(await tab.visible('#outbox-strip [data-act=close]'), false);
      await tab.eval(() => /** @type {any} */ (window).outbox.show([], { foreign: 2 }));
      await stripSays('Здесь ждут изменения из другого аккаунта');
      await show();
      await stripSays(null);
    });

    test('a refused form is filled in as it was sent: boxes, choices and all', async () => {
      await tab.eval(() => {
        /** @type {Element} */ (document.querySelector('#add')).innerHTML = `<input type="hidden" name="_key" value="x"><input name="text" value="as it is">
          <input name="also" value="as it is"><label><input type="checkbox" name="a" value="1">1</label><label><input type="checkbox" name="a" value="2" checked>2</label>
          <label><input type="checkbox" name="b" value="1" checked>b</label><label><input type="radio" name="r" value="1" checked>1</label>
          <label><input type="radio" name="r" value="2">2</label><select name="s"><option>x<option>y</select><select name="m" multiple><option selected>x<option>y<option>z</select>
          <input name="two"><input name="two"><button>+</button>`;
      });
      const sent = 'text=new&a=1&r=2&s=y&m=y&m=z&two=1&two=2';
      await show(entry('r', 'refused', { bodyText: `_key=1&${sent}` }));
      await tab.click('#all');
      await tab.click('[data-act=edit]');
      const now = await tab.eval(() => new URLSearchParams(/** @type {any} */ (new FormData(/** @type {HTMLFormElement} */ (document.querySelector('#add'))))).toString());
      assert.equal(now, '_key=x&text=new&also=as+it+is&a=1&r=2&s=y&m=y&m=z&two=1&two=2');
    });

    test('the list tells when, and what the server knew', async () => {
      const createdAt = Date.now() - 5 * 60_000;
      await show(entry('q', 'ask', { reason: 'expired', createdAt, label: 'Q' }), entry('w', 'waiting'));
      await tab.click('#all');
      assert.equal(await tab.text('.outbox-when'), '5 минут назад');
      assert.equal(await tab.attribute('.outbox-when', 'datetime'), new Date(createdAt).toISOString());
      await tab.eval(() => void (/** @type {any} */ (window).outbox.found = 'in-progress'));
      await tab.click('[data-act=check]');
      await tab.waitFor('it is unclear', () => document.querySelector('.outbox-note')?.textContent === 'По-прежнему неизвестно');
      await tab.eval(() => void (/** @type {any} */ (window).outbox.found = 'done'));
      await tab.click('[data-act=check]');
      await tab.waitFor('it is saved', () => document.querySelector('dialog [role=status].outbox-none')?.textContent === 'Проверено: сохранено');
      await show(entry('w', 'waiting'));
      assert.equal(await focused(), 'outbox-title');
      assert.equal(await tab.text('.outbox-none'), 'Проверено: сохранено');
    });

    test('a question that was left open is not asked when the list is opened anew', async () => {
      await show(entry('a', 'waiting', { label: 'A' }));
      await tab.click('#all');
      await tab.click('[data-act=discard]');
      await tab.raw.key('Escape');
      await tab.waitFor('the list is closed', () => !document.querySelector('dialog[open]'));
      assert.equal(await focused(), 'all');
      await tab.click('#all');
      assert.equal(await tab.exists('[data-act=sure]'), false);
      assert.ok(await tab.exists('[data-act=discard]'));
    });

    test('the list comes back when the page under it was replaced', async () => {
      await show(entry('a', 'waiting', { label: 'A' }));
      await tab.click('#all');
      await tab.eval(() => document.querySelector('dialog')?.remove());
      await tab.click('#all');
      assert.ok(await tab.eval(() => document.querySelector('dialog')?.matches(':modal')));
      assert.deepEqual(await tab.texts('.outbox-label'), ['A']);
    });

    test('whoever leaves may send first, and does not leave while something is on its way', async () => {
      await show(entry('a', 'waiting'), entry('b', 'sending', { attempts: 2 }));
      await tab.eval(() => void /** @type {any} */ (window).outbox.keeps.push('b'));
      await tab.click('#out');
      await tab.click('[data-act="leave.drop"]');
      await tab.waitFor('it is told', () => document.querySelector('dialog[open] .outbox-note')?.textContent === 'Уже отправляется, отменить нельзя');
      assert.deepEqual(await calls(), ['discard a', 'discard b']);
      await tab.click('[data-act="leave.send"]');
      await tab.waitFor('it is being sent', () => document.querySelector('dialog[open] .outbox-note')?.textContent === 'Отправляем…');
      assert.equal((await calls()).at(-1), 'flush');
      assert.equal(new URL(await tab.url()).pathname, '/ru');
      await show();
      await tab.waitFor('we have left', () => location.pathname === '/left');
    });

    test('whoever leaves may keep it for the next time; a way out that led nowhere asks again', async () => {
      await tab.eval(() => document.querySelector('#logout')?.addEventListener('submit', e => e.preventDefault()));
      await show(entry('a', 'waiting'));
      for (let i = 0; i < 2; i++) {
        await tab.eval(() => document.querySelector('#logout')?.addEventListener('submit', () => void (/** @type {any} */ (window).gone = true), { once: true }));
        await tab.click('#leave');
        await tab.click('[data-act="leave.keep"]');
        await tab.waitFor('the form goes', () => {
          const w = /** @type {any} */ (window);
          const gone = w.gone;
          w.gone = false;
          return gone;
        });
      }
      assert.deepEqual(await calls(), []);
    });
  });
}
