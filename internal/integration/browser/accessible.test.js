// @ts-check
// For whom the page is not a picture: what is announced, where the focus is, what
// things are called, whether it can be read and fits. Scenario 33; W27, R35.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';
import { axe } from './axe.js';
import { tempFolder, until } from './processes.js';
import { Scene } from './scene.js';
import { usual } from './steps.js';

const title = 'Физика: задачи 12–15';

/** @type {Scene} */
let scene;
before(async () => {
  scene = await Scene.open('chromium', { limits: usual });
});
after(() => scene?.close());
afterEach(() => scene.clear());

/** @param {...string} lines */
async function personWith(...lines) {
  const anna = await scene.person();
  for (const [i, line] of lines.entries()) {
    await anna.screen.add(line);
    await anna.database(`«${line}» is there`, tasks => tasks.length === i + 1);
  }
  await until('all rows are the server\'s', async () => (await anna.screen.tab.count('#lists .row[data-v]')) === lines.length);
  return anna;
}

/** @param {import('./scene.js').Person} person Playwright's own page */
const pageOf = person => person.chromium().context.pages()[0];

test('the strip is a polite status, and speaks once per change, however often it is tried meanwhile', async () => {
  const anna = await personWith(title, 'Алгебра');
  const { screen } = anna;
  const region = await screen.tab.eval(() => {
    const found = /** @type {HTMLElement} */ (document.querySelector('#outbox-strip [aria-live]'));
    /** @type {any} */ (window).said = [];
    new MutationObserver(() => /** @type {any} */ (window).said.push(found.textContent)).observe(found, { childList: true, characterData: true, subtree: true });
    return { role: found.getAttribute('role'), live: found.getAttribute('aria-live') };
  });
  assert.deepEqual(region, { role: 'status', live: 'polite' });
  const said = () => screen.tab.eval(() => /** @type {string[]} */ (/** @type {any} */ (window).said));

  await scene.network.mode('502');
  await screen.tap(title);
  await screen.stripSays('Одно изменение ждёт сети');
  await until('it was tried five times', async () => (await scene.sent(/state$/)).length >= 5);
  await screen.tap('Алгебра');
  await screen.stripSays('2 изменения ждут сети');
  await scene.network.good();
  await screen.drained();
  await screen.stripSays(null);
  await until('the region is empty', async () => (await said()).at(-1) === '');
  // On the way from two to none there may be one for a moment.
  const told = (await said()).filter((text, i, all) => !(text === 'Одно изменение ждёт сети' && i > 0 && all[i + 1] === ''));
  assert.deepEqual(told, ['Одно изменение ждёт сети', '2 изменения ждут сети', '']);
});

test('the list takes the focus and keeps it, Escape gives it back, and nothing behind it is reached', async () => {
  const anna = await personWith(title);
  const { screen } = anna;
  await scene.network.mode('offline');
  await screen.tap(title);
  await screen.stripSays('Одно изменение ждёт сети');
  await screen.tab.eval(() => /** @type {HTMLElement} */ (document.querySelector('#outbox-strip [data-act=look]')).focus());
  await screen.tab.raw.key('Enter');
  const focus = () =>
    screen.tab.eval(() => {
      const at = /** @type {HTMLElement} */ (document.activeElement);
      return { dialog: at.closest('dialog[open]') !== null, page: at.closest('main, nav, #outbox-strip') !== null, id: at.id, act: at.dataset.act ?? '' };
    });
  await screen.tab.waitFor('the list is open', () => document.querySelector('dialog[open]'));
  assert.equal((await focus()).id, 'outbox-title');
  const dialog = await screen.tab.eval(() => {
    const d = /** @type {HTMLDialogElement} */ (document.querySelector('dialog[open]'));
    return { modal: d.matches(':modal'), name: d.getAttribute('aria-label'), heading: d.querySelector('h2')?.textContent };
  });
  assert.deepEqual(dialog, { modal: true, name: 'Что не сохранено', heading: 'Что не сохранено' });
  const acts = new Set();
  for (let i = 0; i < 12; i++) {
    await screen.tab.raw.key('Tab');
    const at = await focus();
    assert.equal(at.page, false, `Tab reaches what is behind the list: ${JSON.stringify(at)}`);
    if (at.dialog) acts.add(at.act);
  }
  for (const act of ['copy', 'discard', 'flush', 'close']) assert.ok(acts.has(act), `Tab does not reach ${act}: ${[...acts]}`);
  await screen.tab.raw.key('Escape');
  await screen.tab.waitFor('the list is closed', () => !document.querySelector('dialog[open]'));
  assert.equal((await focus()).act, 'look');
});

// Not measured with a clock, for a busy machine has its own: what a frame shows
// is decided when the frame is drawn.
test('the circle is filled in the first frame after the press, and whole in a tenth of a second, while the network is silent', async () => {
  const anna = await personWith(title);
  const { screen } = anna;
  await scene.network.mode('blackhole');
  const circle = await screen.circle(title);
  await screen.tab.eval(s => {
    document.querySelector(s)?.addEventListener('click', () => {
      requestAnimationFrame(() => {
        const at = /** @type {Element} */ (document.querySelector(s));
        const { transitionDuration, transitionDelay, transitionProperty } = getComputedStyle(/** @type {Element} */ (at.querySelector('.ring')));
        const seconds = (/** @type {string} */ list) => list.split(',').map(t => parseFloat(t) * (/ms/.test(t) ? 0.001 : 1));
        const names = transitionProperty.split(', ');
        const takes = seconds(transitionDuration).map((t, i) => (/color|^all$/.test(names[i]) ? t + (seconds(transitionDelay)[i] ?? 0) : 0));
        /** @type {any} */ (window).first = { filled: at.getAttribute('aria-pressed'), soon: Math.max(...takes) <= 0.1 };
      });
    }, { once: true, capture: true });
  }, circle);
  await screen.tap(title);
  const first = await screen.tab.waitFor('a frame', () => /** @type {any} */ (window).first);
  assert.deepEqual(first, { filled: 'true', soon: true });
});

test('the browser is asked once to keep what waits, and only when something does', async () => {
  const anna = await scene.person();
  const { screen } = anna;
  await anna.chromium().context.addInitScript(() => {
    /** @type {any} */ (window).persists = 0;
    navigator.storage.persist = async () => {
      /** @type {any} */ (window).persists++;
      return false;
    };
  });
  await screen.today();
  await screen.add(title);
  await screen.shows(title, { state: '' });
  await screen.drained();
  const persists = () => screen.tab.eval(() => /** @type {number} */ (/** @type {any} */ (window).persists));
  assert.equal(await persists(), 0);
  await scene.network.mode('offline');
  await screen.tap(title);
  await screen.stripSays('Одно изменение ждёт сети');
  await screen.add('Алгебра');
  await screen.stripSays('2 изменения ждут сети');
  assert.equal(await persists(), 1);
});

test('axe-core finds nothing in the strip, on the rows and in the list, as the planner shows them', async () => {
  const anna = await personWith(title, 'Алгебра');
  const { screen } = anna;
  const parts = ['#outbox-strip', '[data-outbox-row]'];
  await scene.network.mode('offline');
  await screen.tap(title);
  await screen.shows(title, { state: 'waiting' });
  await screen.stripSays('Одно изменение ждёт сети');
  // The circle's own little movement is over.
  await screen.tab.waitFor('nothing moves', () => document.getAnimations().length === 0);
  assert.deepEqual((await axe(pageOf(anna), { parts })).found, []);
  await screen.openList();
  assert.deepEqual((await axe(pageOf(anna), { parts: ['dialog[open]'] })).found, []);
});

test('a task is added, done and taken back with the keyboard alone, and the focus stays on its circle', async () => {
  const anna = await personWith(title);
  const { screen } = anna;
  const circle = await screen.circle(title);
  const focused = () => screen.tab.eval(s => document.activeElement === document.querySelector(s), circle);
  await until('Tab reaches the circle', async () => {
    await screen.tab.raw.key('Tab');
    return focused();
  });
  const outline = await screen.tab.eval(() => {
    const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(/** @type {Element} */ (document.activeElement));
    return (outlineStyle !== 'none' && outlineWidth !== '0px') || boxShadow !== 'none';
  });
  assert.ok(outline, 'the focus cannot be seen');
  await screen.tab.raw.key('Space');
  await anna.database('it is done', tasks => tasks[0].is_completed === 1);
  await screen.shows(title, { done: true, state: '' });
  await until('the focus is on the circle', focused);
  await screen.tab.eval(() => new Promise(go => setTimeout(go, 600))); // no second half of a double tap
  await screen.tab.raw.key('Space');
  await anna.database('it is not done', tasks => tasks[0].is_completed === 0);
  await screen.shows(title, { done: false, state: '' });
  await until('the focus is on the circle', focused);
});

// W20, R30: a tap in a moment in which it said the contrary would do the contrary.
test('a circle never says the contrary of the wish, at no moment of the way, and also while the list cannot be loaded anew', async () => {
  const anna = await personWith(title);
  const { screen } = anna;
  await scene.network.set({ plan: 'GET /today -> 503=1; POST /tasks/* -> 502=1', mode: 'plan' });
  await screen.tab.eval(() => {
    /** @type {string[]} */
    const said = (/** @type {any} */ (window).said = []);
    const look = () => {
      const now = `${document.querySelector('#lists .circle')?.getAttribute('aria-pressed')}, would send ${/** @type {HTMLInputElement | null} */ (document.querySelector('#lists .tick input[name=completed]'))?.value}`;
      if (now !== said.at(-1)) said.push(now);
    };
    new MutationObserver(look).observe(/** @type {Element} */ (document.querySelector('#lists')), { subtree: true, childList: true, attributes: true });
    look();
  });
  await screen.tap(title);
  await screen.shows(title, { done: true, state: 'waiting' });
  await scene.network.set({ plan: 'GET /today -> 503=1', mode: 'plan' });
  await screen.drained();
  await screen.tab.waitFor('the row is the server\'s', () => document.querySelector('#lists .row.is-done:not([data-outbox-state])'));
  await screen.tab.eval(() => new Promise(go => setTimeout(go, 200))); // whatever is settled late
  assert.deepEqual(await screen.tab.eval(() => /** @type {any} */ (window).said), ['false, would send true', 'true, would send false']);
});

// The list must not move away from under a press.
test('a press on a circle right after typing is a press on that circle, on a wide screen too', async () => {
  const anna = await personWith();
  const { screen } = anna;
  await screen.tab.resize(1280, 800);
  await screen.add(title);
  await screen.shows(title, { state: '' });
  assert.equal(await screen.tab.eval(() => document.activeElement?.id), 'add-text');
  await screen.tap(title);
  await anna.database('it is done', tasks => tasks[0].is_completed === 1);
});

describe('at 320 px', () => {
  /** @param {import('./screen.js').Screen} screen @param {string} where */
  async function fits(screen, where) {
    const found = await screen.tab.eval(() => {
      const wide = /** @type {Element} */ (document.scrollingElement).scrollWidth;
      /** What ends beyond the edge, unless something around it scrolls or cuts by itself. */
      const over = [...document.body.querySelectorAll('*')].filter(e => {
        const box = e.getBoundingClientRect();
        if (!e.checkVisibility({ opacityProperty: true, visibilityProperty: true }) || box.width < 2 || box.right <= innerWidth + 1) return false;
        for (let p = e.parentElement; p; p = p.parentElement) if (/auto|scroll|hidden|clip/.test(getComputedStyle(p).overflowX) && p !== document.body && p !== document.documentElement) return false;
        return true;
      });
      return { wide, width: innerWidth, over: over.map(e => `${e.tagName}.${e.className}`) };
    });
    assert.equal(found.width, 320);
    assert.ok(found.wide <= 320 && found.over.length === 0, `${where}: ${JSON.stringify(found)}`);
  }

  test('no page scrolls sideways, with the strip and the list neither', async () => {
    const anna = await personWith(title, 'Очень-длинное-слово-без-единого-пробела-которое-некуда-перенести-1234567890', 'Тренировка каждый понедельник 18:00');
    const { screen } = anna;
    await screen.tab.resize(320, 640);
    const [{ id }] = await anna.tasks();
    for (const path of ['/today', '/done', '/trash', '/settings', '/waiting', `/tasks/${id}`, '/', '/auth/login', '/auth/register', '/offline', '/outbox/queued?back=/nowhere', '/no-such-page']) {
      await screen.tab.goto(screen.url + path);
      await fits(screen, path);
    }
    await screen.today();
    await scene.network.mode('offline');
    await screen.tap(title);
    await screen.stripSays('Одно изменение ждёт сети');
    await fits(screen, 'the strip');
    await screen.openList();
    await fits(screen, 'the list');
    const small = await screen.tab.eval(() =>
      [...document.querySelectorAll('button, a.outbox-button, .bar a, summary')]
        .filter(e => e.checkVisibility() && e.getBoundingClientRect().height < 44)
        .map(e => `${e.className} ${e.getBoundingClientRect().height}`),
    );
    assert.deepEqual(small, [], 'too small for a finger');
  });

  /**
   * Nothing stands before an element, nor before its edges.
   * @param {import('./screen.js').Screen} screen @param {string} selector
   */
  const isSeen = (screen, selector) =>
    until(`nothing stands before ${selector}`, async () => {
      const before = await screen.tab.eval(s => {
        const e = /** @type {Element} */ (document.querySelector(s));
        const { left, width, top, height } = e.getBoundingClientRect();
        return [top + 2, top + height / 2, top + height - 2]
          .map(y => document.elementFromPoint(left + width / 2, y))
          .filter(at => !at || !e.contains(at))
          .map(at => (at ? `${at.tagName}.${at.className}#${at.id}` : 'the edge'));
      }, selector);
      if (before.length > 0) throw new Error(before.join());
      return true;
    }, { timeout: 5_000, every: 50 });

  test('the task just typed is seen above the line, above the strip too, and so is the menu of the last row', async () => {
    const anna = await scene.person();
    const { screen } = anna;
    await screen.tab.resize(320, 740);
    const row = async (/** @type {string} */ line) => `#task-${(await screen.shows(line)).id}`;
    for (let i = 1; i <= 11; i++) {
      await screen.add(`Дело ${i}`);
      await isSeen(screen, await row(`Дело ${i}`));
    }
    await anna.database('all are there', tasks => tasks.length === 11);
    await screen.shows('Дело 11', { state: '' });
    await isSeen(screen, await row('Дело 11'));
    // Who goes elsewhere is not fetched back when the line gets lower.
    await screen.tab.eval(() => /** @type {HTMLElement} */ (document.activeElement).blur());
    await pageOf(anna).keyboard.press('Home');
    await screen.tab.waitFor('the top of the page', () => scrollY === 0);
    await screen.tab.resize(321, 740);
    await screen.tab.resize(320, 740);
    await screen.tab.eval(() => new Promise(go => requestAnimationFrame(() => requestAnimationFrame(go))));
    assert.equal(await screen.tab.eval(() => scrollY), 0);

    await scene.network.mode('offline');
    await screen.add('Без сети');
    await screen.shows('Без сети', { state: 'waiting', caption: 'сохранится, когда появится сеть' });
    await screen.stripSays('Одно изменение ждёт сети');
    await isSeen(screen, await row('Без сети'));
    await isSeen(screen, `${await row('Без сети')} .outbox-caption`);

    await screen.tab.eval(() => scrollTo(0, 0));
    await screen.tab.eval(s => /** @type {HTMLElement} */ (document.querySelector(s)).click(), `${await row('Без сети')} .menu summary`);
    await isSeen(screen, `${await row('Без сети')} .menu-more`);

    // The words of what was done stand above the strip, however high that is.
    await screen.tap('Дело 11');
    await screen.stripSays('2 изменения ждут сети');
    await isSeen(screen, '#snackbar .text-button');
    await isSeen(screen, '#outbox-strip .outbox-text');

    // The sections' names do not run into each other; and on a wide screen a menu is one line.
    const gaps = await screen.tab.eval(() => {
      const boxes = [...document.querySelectorAll('.bar span')].map(e => e.getBoundingClientRect());
      return boxes.map((box, i) => (boxes[i + 1]?.left ?? innerWidth) - box.right);
    });
    assert.ok(Math.min(...gaps) >= 4, gaps.join());
    await screen.tab.resize(1280, 800);
    const menu = `${await row('Дело 1')} .menu`;
    await screen.tab.eval(s => /** @type {HTMLElement} */ (document.querySelector(s)).click(), `${menu} summary`);
    const lines = await screen.tab.eval(s => [...document.querySelectorAll(s)].map(e => Math.round(e.getBoundingClientRect().top)), `${menu} .chip-button`);
    assert.ok(lines.length >= 4 && new Set(lines).size === 1, lines.join());
  });
});

test('every control of every page has a name', async () => {
  const anna = await personWith(title, 'Тренировка каждый понедельник');
  const { screen } = anna;
  const [{ id }] = await anna.tasks();
  const session = await anna.chromium().context.newCDPSession(pageOf(anna));
  for (const path of ['/today', '/done', '/trash', '/settings', '/waiting', `/tasks/${id}`, '/', '/auth/login', '/auth/register', '/outbox/queued?back=/nowhere']) {
    await screen.tab.goto(screen.url + path);
    const { nodes } = await session.send('Accessibility.getFullAXTree');
    const nameless = nodes.filter(n => !n.ignored && /^(button|link|textbox|combobox|checkbox|searchbox|heading|DisclosureTriangle)$/.test(n.role?.value) && !n.name?.value?.trim());
    assert.deepEqual(nameless.map(n => n.role?.value), [], path);
    assert.equal(await screen.tab.eval(() => document.documentElement.lang), 'ru', path);
  }
});

describe('light and dark', () => {
  // For whoever wants to look: PICTURES=folder.
  const pictures = process.env.PICTURES ?? tempFolder('onceward-pictures-');
  for (const scheme of /** @type {const} */ (['light', 'dark'])) {
    test(`what waits can be read in the ${scheme}`, async () => {
      const anna = await personWith(title, 'Алгебра завтра');
      const { screen } = anna;
      await screen.tab.resize(390, 720);
      await pageOf(anna).emulateMedia({ colorScheme: scheme });
      await scene.network.mode('offline');
      await screen.tap(title);
      await screen.shows(title, { done: true, state: 'waiting' });
      await screen.stripSays('Одно изменение ждёт сети');
      await screen.tab.screenshot(join(pictures, `strip-${scheme}.png`));
      const low = await contrast(screen, ['.row-caption', '.outbox-caption', '#outbox-strip .outbox-text', '#outbox-strip [data-act=look]', '[data-outbox-state=waiting] .row-title', '.row:not([data-outbox-state]) .row-title', '.bar a span', 'h1', '.day', 'h2']);
      assert.deepEqual(low, []);
      await screen.openList();
      await screen.tab.screenshot(join(pictures, `list-${scheme}.png`));
      // While a try is under way there is nothing to send at once.
      /** @type {string[]} */
      let faint = [];
      await until('the list has all its buttons', async () => {
        faint = await contrast(screen, ['.outbox-title', '.outbox-label', '.outbox-meta', '[data-act=flush]', '.outbox-item [data-act=discard]', '[data-act=close]']);
        return !faint.some(text => text.endsWith('not there'));
      });
      assert.deepEqual(faint, []);
    });
  }
});

/**
 * Texts that stand out too little from what is behind them (WCAG 2.2, 1.4.3).
 * @param {import('./screen.js').Screen} screen
 * @param {string[]} selectors
 * @returns {Promise<string[]>}
 */
function contrast(screen, selectors) {
  return screen.tab.eval(list => {
    const canvas = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
    if (!canvas) throw new Error('no canvas');
    /** @param {string} color @returns {number[]} */
    const rgba = color => {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = color;
      canvas.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
      return [r, g, b, a / 255];
    };
    /** @param {number[]} over @param {number[]} under @param {number} [share] */
    const blend = (over, under, share = over[3]) => [0, 1, 2].map(i => over[i] * share + under[i] * (1 - share)).concat(1);
    /** @param {Element} e @returns {number[]} */
    const behind = e => {
      const own = rgba(getComputedStyle(e).backgroundColor);
      if (own[3] === 1) return own;
      return blend(own, e.parentElement ? behind(e.parentElement) : [255, 255, 255, 1]);
    };
    const luminance = (/** @type {number[]} */ c) =>
      c.slice(0, 3).map(v => v / 255).map(v => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    const found = [];
    for (const selector of list) {
      const e = [...document.querySelectorAll(selector)].find(x => x.checkVisibility() && /** @type {HTMLElement} */ (x).innerText.trim());
      if (!e) {
        if (selector !== '.row-caption' && selector !== 'h2') found.push(`${selector}: not there`);
        continue;
      }
      const style = getComputedStyle(e);
      let opacity = 1;
      for (let p = /** @type {Element | null} */ (e); p; p = p.parentElement) opacity *= Number(getComputedStyle(p).opacity);
      const paper = behind(e);
      const ink = rgba(style.color);
      const [a, b] = [luminance(blend(ink, paper, ink[3] * opacity)), luminance(paper)].sort((x, y) => y - x);
      const ratio = (a + 0.05) / (b + 0.05);
      const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && Number(style.fontWeight) >= 700);
      if (ratio < (large ? 3 : 4.5)) found.push(`${selector}: ${ratio.toFixed(2)}`);
    }
    return found;
  }, selectors);
}
