// @ts-check
// How each state of the outbox's kit reads and looks: axe-core finds nothing in it,
// nothing of it is cut off or out of reach, and there is a picture of it.
//
// ONCEWARD_SHOTS=folder makes all the pictures, both languages × light and dark ×
// three widths, and an index.html to look at them (`make shots`), without axe-core.
// Otherwise there are two of each state, which are thrown away.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { axe } from './axe.js';
import { open } from './engines.js';
import { serveKit } from './kit-page.js';
import { arrange, states } from './kit-states.js';
import { root, tempFolder } from './processes.js';

const wanted = process.env.ONCEWARD_SHOTS;
const folder = wanted ? resolve(root, wanted) : tempFolder('onceward-shots-');
mkdirSync(folder, { recursive: true });

/** @typedef {{lang: 'ru' | 'en', scheme: 'light' | 'dark', width: number}} Look */
/** @type {Look[]} */
const looks = wanted
  ? (/** @type {const} */ (['ru', 'en'])).flatMap(lang => (/** @type {const} */ (['light', 'dark'])).flatMap(scheme => [320, 390, 1280].map(width => ({ lang, scheme, width }))))
  : [{ lang: 'ru', scheme: 'light', width: 320 }, { lang: 'en', scheme: 'dark', width: 390 }];
const height = (/** @type {number} */ width) => (width < 600 ? 700 : 800);

/** @type {import('./kit-page.js').KitPage} */
let kit;
/** @type {import('./chromium.js').Chromium} */
let browser;
/** @type {import('./tab.js').Tab} */
let tab;
before(async () => {
  kit = await serveKit();
  browser = /** @type {import('./chromium.js').Chromium} */ (await open('chromium'));
  tab = await browser.newTab();
});
after(async () => {
  await browser?.close();
  kit?.close();
});

const page = () => browser.context.pages().at(-1) ?? assert.fail('no page');

/** @param {string} lang */
async function load(lang) {
  await tab.goto(`${kit.url}/${lang}`);
  await tab.waitFor('the kit is there', () => /** @type {any} */ (window).ready);
}

/**
 * In a window that is high enough for nothing to lie under the list's foot, where
 * axe-core could not see it.
 *
 * @param {string[]} [rules]
 */
async function judge(rules) {
  const now = page().viewportSize() ?? assert.fail('no size');
  await page().setViewportSize({ ...now, height: 3000 });
  const judged = await axe(page(), { rules });
  await page().setViewportSize(now);
  return judged;
}

/** What a person cannot see whole or reach: nothing goes beyond the edges, nothing scrolls sideways. */
function outOfSight() {
  return tab.eval(() => {
    const found = [];
    const edge = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth > edge) found.push(`the page is ${document.documentElement.scrollWidth} wide`);
    for (const part of document.querySelectorAll('#outbox-strip, dialog[open]')) {
      if (part.scrollWidth > part.clientWidth) found.push(`${part.className} scrolls sideways`);
      for (const e of [part, ...part.querySelectorAll('*')]) {
        if (!e.checkVisibility()) continue;
        const box = e.getBoundingClientRect();
        if (box.left < -0.5 || box.right > edge + 0.5) found.push(`${e.className} from ${box.left} to ${box.right}`);
        if (e.matches('a, button') && (box.height < 43.5 || e.scrollWidth > e.clientWidth + 1)) found.push(`${e.textContent} is ${box.width} × ${box.height}, its words ${e.scrollWidth}`);
      }
    }
    // Words upon words.
    const top = document.querySelector('dialog[open]') ?? document;
    const texts = [...top.querySelectorAll('#outbox-strip :is(p, a, button), dialog[open] :is(.outbox-title, .outbox-label, .outbox-meta, .outbox-note, .outbox-item button, .outbox-item a)')].filter(e => e.checkVisibility() && e.textContent);
    for (const [i, a] of texts.entries()) {
      for (const b of texts.slice(i + 1)) {
        const [x, y] = [a.getBoundingClientRect(), b.getBoundingClientRect()];
        if (x.left < y.right - 0.5 && y.left < x.right - 0.5 && x.top < y.bottom - 0.5 && y.top < x.bottom - 0.5) found.push(`${a.textContent} lies upon ${b.textContent}`);
      }
    }
    return found;
  });
}

for (const look of looks) {
  const { lang, scheme, width } = look;
  describe(`${lang}, ${scheme}, ${width} px`, () => {
    /** @type {Map<string, string>} pictures by their content */
    const pictures = new Map();
    before(async () => {
      await page().emulateMedia({ colorScheme: scheme, reducedMotion: 'reduce' });
      await tab.resize(width, height(width));
    });

    for (const state of states(lang)) {
      test(state.name, async () => {
        await load(lang);
        await arrange(tab, kit, state);
        await page().mouse.move(1, 1);
        assert.equal(await tab.eval(() => document.getAnimations().length), 0, 'something moves');
        assert.deepEqual(await outOfSight(), []);
        assert.deepEqual(await tab.eval(() => [...document.querySelectorAll('dialog[open]')].map(d => d.matches(':modal') && d.ariaLabel === d.querySelector('h2')?.textContent)), state.shows.startsWith('dialog') ? [true] : []);
        if (!wanted) {
          // Once whole; what depends on the scheme and the width, each time.
          const whole = look === looks[0];
          const { found, passes } = await judge(whole ? undefined : ['color-contrast', 'target-size']);
          assert.deepEqual(found, []);
          assert.ok(passes > (whole ? 15 : 0), `axe looked at ${passes} rules only`);
        }
        const shot = await tab.raw.screenshot();
        writeFileSync(join(folder, `${state.name}-${lang}-${scheme}-${width}.png`), shot);
        assert.deepEqual([shot.readUInt32BE(16), shot.readUInt32BE(20)], [width, height(width)]);
        const hash = createHash('sha256').update(shot).digest('hex');
        assert.equal(pictures.get(hash), undefined, 'it looks like another state');
        pictures.set(hash, state.name);
      });
    }
  });
}

test('axe-core would find what is wrong', async () => {
  await page().emulateMedia({ colorScheme: 'light' });
  await load('en');
  await arrange(tab, kit, /** @type {import('./kit-states.js').State} */ (states('en').find(s => s.name === 'discard')));
  await tab.eval(() => {
    const [keep, sure] = /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll('.outbox-item button'));
    keep.textContent = '';
    sure.style.color = '#ccc';
  });
  const { found } = await judge();
  for (const rule of ['button-name', 'color-contrast']) assert.ok(found.some(text => text.includes(rule)), `${rule} is not among ${found}`);
});

describe('in any surroundings', () => {
  before(() => tab.resize(390, 700));
  after(() => page().emulateMedia({ colorScheme: null, forcedColors: null, media: null, contrast: null }));
  const state = (/** @type {string} */ name) => /** @type {import('./kit-states.js').State} */ (states('en').find(s => s.name === name));

  test('an Arabic page: from the right, and nothing for axe-core', async () => {
    await load('ar');
    for (const name of ['refused-and-waiting', 'list-of-all']) {
      await arrange(tab, kit, { ...state(name), press: name === 'list-of-all' ? ['#all'] : [] });
      assert.deepEqual((await judge()).found, [], name);
      assert.deepEqual(await outOfSight(), [], name);
      writeFileSync(join(folder, `${name}-ar.png`), await tab.raw.screenshot());
    }
  });

  test('a page whose style begins with a reset, and takes all buttons, lists and headings for its own', async () => {
    await load('en');
    await tab.eval(() => {
      const sheet = new CSSStyleSheet();
      sheet.replaceSync('*, ::before { margin: 0; padding: 0; font: inherit } li { display: flex; float: left } button { width: 100%; text-transform: uppercase } h2, p { color: #c0f }');
      // Before the kit's own, as a page's first sheet is.
      const first = document.querySelector('link[rel=stylesheet]');
      const style = document.createElement('style');
      style.textContent = [...sheet.cssRules].map(r => r.cssText).join(' ');
      first?.before(style);
    });
    await arrange(tab, kit, state('list-of-all'));
    writeFileSync(join(folder, 'list-of-all-en-reset.png'), await tab.raw.screenshot());
    assert.deepEqual(await outOfSight(), []);
    const seen = await tab.eval(() => {
      const box = /** @type {Element} */ (document.querySelector('dialog')).getBoundingClientRect();
      const of = (/** @type {string} */ s) => getComputedStyle(/** @type {Element} */ (document.querySelector(s)));
      return { centred: Math.abs(box.left + box.right - innerWidth) < 2, item: of('.outbox-item').display, words: of('.outbox-item button').textTransform, ink: of('.outbox-title').color === of('dialog').color && of('.outbox-label').color === of('dialog').color };
    });
    assert.deepEqual(seen, { centred: true, item: 'block', words: 'none', ink: true });
  });

  test('letters of twice the size, and a window that is a quarter', async () => {
    for (const [w, h, size] of [[390, 700, '200%'], [320, 256, '100%']]) {
      await tab.resize(Number(w), Number(h));
      for (const name of ['refused-and-waiting', 'not-kept', 'list-of-all', 'leave']) {
        await load('en');
        await tab.eval(s => void (document.documentElement.style.fontSize = s), String(size));
        await arrange(tab, kit, state(name));
        writeFileSync(join(folder, `${name}-en-zoom-${w}.png`), await tab.raw.screenshot());
        assert.deepEqual(await outOfSight(), [], `${name} at ${w} × ${h}, ${size}`);
        const covered = await tab.eval(() => (document.querySelector('#outbox-strip')?.getBoundingClientRect().height ?? 0) / innerHeight);
        assert.ok(covered <= 0.51, `the strip covers ${covered} of the window`);
      }
    }
    await tab.resize(390, 700);
  });

  test('forced colours: the edges stay, and nothing is dimmed', async () => {
    await page().emulateMedia({ forcedColors: 'active' });
    await load('en');
    await arrange(tab, kit, state('waiting-one'));
    const seen = await tab.eval(() => {
      const strip = getComputedStyle(/** @type {Element} */ (document.querySelector('#outbox-strip')));
      const look = getComputedStyle(/** @type {Element} */ (document.querySelector('#outbox-strip [data-act=look]')));
      const row = getComputedStyle(/** @type {Element} */ (document.querySelector('#task-1 span')));
      return { edge: strip.borderTopWidth, forced: strip.borderTopColor !== strip.backgroundColor, button: look.borderTopColor !== look.backgroundColor, dim: row.opacity };
    });
    assert.deepEqual(seen, { edge: '1px', forced: true, button: true, dim: '1' });
    writeFileSync(join(folder, 'waiting-one-en-forced.png'), await tab.raw.screenshot());
    await page().emulateMedia({ forcedColors: null });
  });

  test('on paper: no strip, no dimmed rows, and the captions', async () => {
    await load('en');
    await arrange(tab, kit, state('waiting-one'));
    await page().emulateMedia({ media: 'print' });
    assert.equal(await tab.visible('#outbox-strip'), false);
    assert.ok(await tab.visible('#task-1 .outbox-caption'));
    assert.equal(await tab.eval(() => getComputedStyle(/** @type {Element} */ (document.querySelector('#task-1 span'))).opacity), '1');
    await page().emulateMedia({ media: null });
  });
});

if (wanted) {
  after(() => {
    const cells = states('en').map(({ name }) =>
      `<h2>${name}</h2><div>${looks.map(l => `${name}-${l.lang}-${l.scheme}-${l.width}.png`).map(file => `<a href="${file}"><img src="${file}" alt="${file}" height="350"></a>`).join('')}</div>`,
    );
    writeFileSync(join(folder, 'index.html'), `<!doctype html><meta charset="utf-8"><title>The kit</title><style>div{display:flex;gap:8px;overflow:auto}</style>${cells.join('\n')}\n`);
  });
}
