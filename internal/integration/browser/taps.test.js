// @ts-check
// One intent, one name: a double tap, a form that is sent again, a page that is
// loaded again, a way back. What a person meant once is done once; what they meant
// anew is done anew.
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { open } from './engines.js';
import { sleep, until } from './processes.js';
import { Scene, startSite } from './scene.js';

/** @type {import('./chromium.js').Chromium} */
let browser;
/** @type {Scene} */
let scene;
before(async () => {
  const [opened, site] = await Promise.all([open('chromium'), startSite()]);
  browser = /** @type {import('./chromium.js').Chromium} */ (opened);
  scene = new Scene(site, browser);
});
after(() => scene?.close());
afterEach(() => scene.clear());

/**
 * Double taps of one gap (ms) as the page sees it. A machine that is busy lets the
 * second press come later than the driver means it to: then the driver hurries
 * with the next one. More than half a second after the first it is a tap of its
 * own, and no double tap.
 * @param {number} gap
 */
function doubleTaps(gap) {
  let pause = gap;
  /**
   * @param {import('./screen.js').Screen} screen
   * @param {string} selector
   * @returns {Promise<boolean>} whether it was a double tap, by the page's own clock
   */
  return async (screen, selector) => {
    await screen.tab.eval(() => {
      const w = /** @type {any} */ (window);
      if (!w.rigPresses) addEventListener('pointerup', () => w.rigPresses.push(Date.now()), true);
      w.rigPresses = [];
    });
    await screen.tab.click(selector, { double: true, gap: pause });
    const [first, second] = await screen.tab.waitFor('both presses have arrived', () => {
      const { rigPresses } = /** @type {any} */ (window);
      return rigPresses.length === 2 && rigPresses;
    });
    if (second - first < 470) return true;
    console.log(`the second press of ${gap} ms came after ${second - first} ms`);
    pause = Math.max(0, pause - (second - first - gap));
    return false;
  };
}

/**
 * Until it was one. Each try is about something new.
 * @param {(n: number) => Promise<boolean>} attempt
 */
async function untilDouble(attempt) {
  for (let n = 1; n <= 20; n++) if (await attempt(n)) return;
  throw new Error('this machine is too busy for a double tap');
}

const gaps = [30, 150, 300];
const networks = /** @type {const} */ ([
  ['at once', 'pass'],
  ['a second later', 'slow-after:1s'],
]);

// S57, R19, B013, B172; outbox.md 4.3: also when the answer came in between.
for (const [when, mode] of networks) {
  describe(`a double tap that is answered ${when}`, () => {
    for (const gap of gaps) {
      test(`S57, R19: on the circle, ${gap} ms apart: done once, and one next task of a repeating one`, async () => {
        const anna = await scene.person();
        const { screen } = anna;
        const doubleTap = doubleTaps(gap);
        let title = '';
        await untilDouble(async n => {
          title = `Тренировка ${'абвгдежзиклмнопрстуф'[n - 1]}`;
          await scene.network.good();
          await screen.add(`${title} каждый понедельник`);
          await anna.database('it is there', tasks => tasks.some(t => t.title === title));
          await screen.drained();
          const { id } = await screen.shows(title, { done: false, state: '' });
          await scene.network.mode(mode);
          return doubleTap(screen, `#circle-${id}`);
        });
        await anna.database('it is done', tasks => tasks.some(t => t.title === title && t.is_completed === 1));
        await screen.drained();
        // What a second request would have done has been done by now.
        const [done, next, ...more] = await anna.rows(title);
        assert.deepEqual([done.is_completed, next?.is_completed, more.length], [1, 0, 0]);
        assert.equal(next.series_id, done.series_id);
        assert.deepEqual((await scene.did(anna)).filter(d => d.endsWith(title)), [`create ${title}`, `done ${title}`]);
        assert.deepEqual((await scene.sent(/state$/)).filter(e => e.path.includes(done.id)).map(e => e.forwarded), [1]);
        await screen.shows(title, { id: next.id, done: false, state: '' });
        assert.deepEqual(await screen.errors(), []);
      });

      test(`S57, R19, B013: on «Добавить», ${gap} ms apart: one task`, async () => {
        const anna = await scene.person();
        const { screen } = anna;
        const doubleTap = doubleTaps(gap);
        let title = '';
        await scene.network.mode(mode);
        await untilDouble(async n => {
          title = `Алгебра ${n}`;
          await screen.tab.type('#add-text', title);
          return doubleTap(screen, '#add .add-button');
        });
        await anna.database('it is there', tasks => tasks.some(t => t.title === title));
        await screen.drained();
        assert.equal((await anna.rows(title)).length, 1);
        assert.equal((await scene.did(anna)).filter(d => d === `create ${title}`).length, 1);
        await screen.shows(title, { state: '', done: false });
        assert.equal((await screen.rows()).filter(r => r.title === title).length, 1);
        assert.deepEqual(await screen.errors(), []);
      });
    }
  });
}

test('B004: the answer takes three seconds: the row is there before it, and a second press a second later adds nothing', async () => {
  const anna = await scene.person();
  const { screen } = anna;
  await scene.network.mode('slow-after:3s');
  await screen.tab.type('#add-text', 'Химия');
  await screen.tab.click('#add .add-button');
  await screen.shows('Химия');
  assert.deepEqual((await scene.sent(/^\/tasks$/)).filter(e => e.status), [], 'it was answered already');
  await sleep(1000); // the case's own second, past what counts as a double tap
  await screen.tab.click('#add .add-button');
  await anna.database('it is there', tasks => tasks.length === 1);
  await screen.drained();
  assert.deepEqual(await scene.did(anna), ['create Химия']);
  assert.equal((await anna.tasks()).length, 1);
  await screen.shows('Химия', { state: '' });
  assert.equal((await screen.rows()).length, 1);
});

describe('keys of a form that stays on the page', () => {
  test('B074: A, then B, then C by a double click from the same form: each once, each under a name of its own', async () => {
    const anna = await scene.person();
    const { screen } = anna;
    await screen.add('А');
    await screen.add('Б');
    const doubleTap = doubleTaps(150);
    let c = '';
    await untilDouble(async n => {
      c = `В${n}`;
      await screen.tab.type('#add-text', c);
      return doubleTap(screen, '#add .add-button');
    });
    await anna.database('all are there', tasks => ['А', 'Б', c].every(title => tasks.some(t => t.title === title)));
    await screen.drained();
    for (const title of ['А', 'Б', c]) {
      assert.equal((await anna.rows(title)).length, 1, title);
      assert.equal((await scene.did(anna)).filter(d => d === `create ${title}`).length, 1, title);
    }
    const keys = (await scene.sent(/^\/tasks$/)).map(e => e.key);
    assert.equal(new Set(keys).size, keys.length);
    for (const title of ['А', 'Б', c]) await screen.shows(title, { state: '' });
    assert.deepEqual(await screen.errors(), []);
  });

  test('B074: the same words typed again are another task', async () => {
    const anna = await scene.person();
    const { screen } = anna;
    await scene.network.mode('slow-after:1s');
    await screen.add('Отжимания');
    await screen.shows('Отжимания');
    await screen.add('Отжимания');
    await anna.database('both are there', tasks => tasks.length === 2);
    await screen.drained();
    assert.deepEqual(await scene.did(anna), ['create Отжимания', 'create Отжимания']);
  });

  // The same wish for the same row, unanswered and unchanged.
  test('B071, R19: the answer is lost, and the same form is sent unchanged: the same name, moved once', async () => {
    const anna = await scene.person();
    const { screen } = anna;
    await screen.add('Физика');
    await anna.database('it is there', tasks => tasks.length === 1);
    await screen.drained();
    const { id } = await screen.shows('Физика', { state: '' });
    const chip = `#task-${id} form[action$="/due"] button[name=date]`;
    const date = (await screen.tab.attribute(chip, 'value')) ?? '';
    // A row that is drawn anew is at the date already, and no longer offers it.
    await scene.network.set({ plan: 'GET /today -> 503=1; POST /tasks/* -> cut-after-forward=1', mode: 'plan' });
    const press = () =>
      until('the chip is pressed', async () => {
        if (!(await screen.tab.exists(`#task-${id} details.menu[open]`))) await screen.tab.click(`#task-${id} .menu summary`, { timeout: 3000 });
        await screen.press(`${chip}[value="${date}"]`, 3000);
        return true;
      }, { timeout: 30_000 });
    await press();
    await screen.shows('Физика', { state: 'waiting' });
    const [kept] = await screen.keeps(1);
    await sleep(600); // past what counts as a double tap
    await press();
    const tries = (await scene.sent(/due$/)).length;
    await until('it was tried once more', async () => (await scene.sent(/due$/)).length > tries, { timeout: 60_000 });
    assert.deepEqual((await screen.queue()).map(e => e.key), [kept.key]);
    await scene.network.good();
    await screen.drained();
    assert.deepEqual((await anna.tasks()).map(t => t.due_date), [date]);
    assert.deepEqual(await scene.did(anna), ['create Физика', 'due Физика']);
    assert.deepEqual([...new Set((await scene.sent(/due$/)).map(e => e.key))], [kept.key]);
    await screen.stripSays(null);
  });

  test('R36: the list is brought up to date while a move is under way: its row stays until the move is answered', async () => {
    const anna = await scene.person();
    const { screen } = anna;
    await screen.add('Химия');
    await anna.database('it is there', tasks => tasks.length === 1);
    await screen.drained();
    const { id } = await screen.shows('Химия', { state: '' });
    const chip = `#task-${id} form[action$="/due"] button[name=date]`;
    await scene.network.set({ plan: 'POST /tasks/* -> slow-after=1:5s', mode: 'plan' });
    await screen.tab.click(`#task-${id} .menu summary`);
    await screen.press(chip);
    await anna.database('it is moved', tasks => tasks[0].due_date !== null);
    await screen.tab.eval(row => {
      Object.assign(document.getElementById(row) ?? {}, { pressed: true });
      // Listened for before it is asked for: the list may be there before the next question.
      Object.assign(window, { rigFresh: new Promise(resolve => document.addEventListener('planner:fresh', () => resolve(true), { once: true })) });
      dispatchEvent(new Event('online'));
    }, `task-${id}`);
    await screen.tab.waitFor('the list is drawn anew', () => /** @type {any} */ (window).rigFresh);
    assert.equal(await screen.tab.eval(row => 'pressed' in (document.getElementById(row) ?? {}), `task-${id}`), true);
    await screen.tab.waitFor('the answer’s row', row => document.getElementById(row)?.dataset.list === 'today' && !('pressed' in (document.getElementById(row) ?? {})), `task-${id}`);
    assert.deepEqual(await screen.errors(), []);
  });

  test('B073: A is added, the person goes elsewhere and back, and adds B: two tasks', async () => {
    const anna = await scene.person();
    const { screen } = anna;
    await screen.add('Первое');
    await anna.database('the first is there', tasks => tasks.length === 1);
    await screen.drained();
    await screen.shows('Первое', { state: '' });
    await screen.tab.goto(`${screen.url}/done`);
    await screen.tab.back();
    await screen.ready();
    await screen.shows('Первое', { state: '' });
    await screen.tab.type('#add-text', 'Второе', { clear: true, enter: true });
    await anna.database('the second is there', tasks => tasks.length === 2);
    await screen.drained();
    assert.deepEqual((await anna.tasks()).map(t => t.title), ['Первое', 'Второе']);
    assert.deepEqual(await scene.did(anna), ['create Первое', 'create Второе']);
    await screen.shows('Второе', { state: '' });
    assert.deepEqual(await screen.errors(), []);
  });

  test('B073: a plain form, back, and another text: both changes are made, in order', async () => {
    const anna = await scene.person();
    const { screen } = anna;
    await screen.add('Черновик');
    await anna.database('it is there', tasks => tasks.length === 1);
    await screen.drained();
    const [{ id }] = await anna.tasks();
    await screen.tab.goto(`${screen.url}/tasks/${id}`);
    await screen.ready();
    const save = 'form[action$="/fields"] button';
    await screen.tab.type('#title', 'Первый вид', { clear: true });
    await screen.tab.click(save);
    await anna.database('the first title', tasks => tasks[0].title === 'Первый вид');
    await screen.tab.waitFor('the list', () => location.pathname === '/today' && document.readyState === 'complete');
    await screen.tab.back();
    await screen.tab.waitFor('the form again', path => location.pathname === path, `/tasks/${id}`);
    await screen.ready();
    await screen.tab.type('#title', 'Второй вид', { clear: true });
    await screen.tab.click(save);
    await anna.database('the second title', tasks => tasks[0].title === 'Второй вид');
    await screen.drained();
    const done = scene.site.upstream?.done.filter(d => d.person === anna.login && d.path.endsWith('/fields')) ?? [];
    assert.deepEqual(done.map(d => [d.form.title, d.token]), [['Первый вид', 'executed'], ['Второй вид', 'executed']]);
    assert.notEqual(done[0].form._key, done[1].form._key);
    assert.deepEqual(await screen.errors(), []);
  });
});

describe('a page that is loaded again', () => {
  test('B125: F5 three times while a new task is under way, and after: one task, sent under one name', async () => {
    const anna = await scene.person();
    const { screen } = anna;
    await scene.network.set({ script: 'POST /tasks -> slow:2s' });
    await screen.add('Сочинение');
    await until('it is on its way', async () => (await scene.sent(/^\/tasks$/)).length > 0, { every: 20 });
    for (let i = 0; i < 3; i++) await screen.tab.reload();
    await screen.ready();
    await anna.database('it is there', tasks => tasks.length === 1);
    await screen.drained();
    await screen.tab.reload();
    await screen.shows('Сочинение', { state: '' });
    assert.deepEqual(await scene.did(anna), ['create Сочинение']);
    assert.equal((await anna.tasks()).length, 1);
    assert.equal(new Set((await scene.sent(/^\/tasks$/)).map(e => e.key)).size, 1);
    assert.equal((await screen.rows()).length, 1);
    await screen.stripSays(null);
  });
});

// No script runs: what there is are the form's hidden names, the guard, and the
// redirect after a POST. B013, B014, S59, R31.
describe('without JavaScript', () => {
  let people = 0;
  let login = '';
  /** @type {import('playwright-core').BrowserContext} */
  let context;
  /** @type {import('playwright-core').Page} */
  let page;
  /** Opens the page "today" as somebody new. */
  async function arrive() {
    login = `plain-${++people}`;
    const cookie = await scene.site.register(login);
    const playwright = /** @type {import('playwright-core').Browser} */ (browser.context.browser());
    context = await playwright.newContext({ javaScriptEnabled: false, locale: 'ru-RU', viewport: null });
    await context.addCookies([{ ...cookie, url: scene.site.url }]);
    page = await context.newPage();
    await page.goto(`${scene.site.url}/today`);
  }
  afterEach(() => context?.close());

  const tasks = () => scene.site.tasks(login);
  /** @param {number} n */
  const thereAre = n =>
    until(`the database has ${n} tasks`, async () => {
      const found = await tasks();
      if (found.length === n) return found;
      throw new Error(JSON.stringify(found));
    }, { timeout: 30_000 });
  /** A page out of the back-forward cache has no load event. */
  const back = () => page.goBack({ waitUntil: 'commit' });
  const add = () => page.locator('#add .add-button');
  /** The list, as it always is, with these rows. @param {...string} titles */
  async function normal(...titles) {
    await until('the list is shown', async () => {
      assert.match(page.url(), /\/today(#task-\w+)?$/);
      assert.deepEqual((await page.locator('#lists .row-title').allInnerTexts()).map(t => t.trim()).sort(), [...titles].sort());
      return true;
    }, { timeout: 30_000 });
    assert.equal(await page.locator('.error:visible, .is-error').count(), 0);
  }
  /** What the planner was asked, and what it did. @param {RegExp} path */
  const asked = path => (scene.site.upstream?.done ?? []).filter(d => d.person === login && path.test(d.path));

  for (const gap of gaps) {
    test(`B013, B014: «Добавить» pressed twice, ${gap} ms apart, under one hidden name: one task, and the normal page`, async () => {
      await arrive();
      await scene.network.mode('slow-after:1200ms');
      await page.fill('#add-text', 'География');
      const box = await add().boundingBox();
      assert.ok(box);
      const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
      await page.mouse.move(x, y);
      for (const clickCount of [1, 2]) {
        if (clickCount === 2) await sleep(gap);
        await page.mouse.down({ clickCount });
        await page.mouse.up({ clickCount });
      }
      await thereAre(1);
      await normal('География');
      await scene.network.good();
      const sent = await scene.sent(/^\/tasks$/);
      console.log(`${gap} ms: ${sent.map(e => e.fate).join(', ')}`);
      assert.ok(sent.length >= 1);
      if (gap === 300) assert.equal(sent.length, 2, 'the browser sent it once only');
      assert.equal(new Set(sent.map(e => e._key)).size, 1);
      assert.equal(asked(/^\/tasks$/).filter(d => d.token === 'executed').length, 1);
      assert.ok(asked(/^\/tasks$/).every(d => d.status === 303), JSON.stringify(asked(/^\/tasks$/)));
      assert.equal((await tasks()).length, 1);
    });
  }

  test('B013, S57: the circle of a repeating task pressed twice: done, one next task, and the normal page', async () => {
    await arrive();
    await page.fill('#add-text', 'Тренировка каждый понедельник');
    await add().click();
    await thereAre(1);
    await normal('Тренировка');
    await scene.network.mode('slow-after:1200ms');
    const box = await page.locator('.circle').first().boundingBox();
    assert.ok(box);
    await page.mouse.dblclick(box.x + box.width / 2, box.y + box.height / 2, { delay: 20 });
    const found = await thereAre(2);
    assert.deepEqual(found.map(t => t.is_completed), [1, 0]);
    await page.waitForURL(/did=done/);
    await scene.network.good();
    assert.equal(asked(/state$/).filter(d => d.token === 'executed').length, 1);
    assert.deepEqual((await tasks()).map(t => t.is_completed), [1, 0]);
    assert.match((await page.locator('.flash').innerText()).trim(), /\S/);
    assert.equal(await page.locator('.error:visible').count(), 0);
  });

  test('B125: sent, and F5 three times: one task, one request, the same page', async () => {
    await arrive();
    await page.fill('#add-text', 'История');
    await add().click();
    await thereAre(1);
    await normal('История');
    for (let i = 0; i < 3; i++) {
      await page.reload();
      await normal('История');
    }
    assert.equal((await tasks()).length, 1);
    assert.equal((await scene.sent(/^\/tasks$/)).length, 1);
  });

  test('B071, B125: the answer is lost, and F5 on the browser\'s error page sends it again: one task, and the normal page', async () => {
    await arrive();
    await scene.network.mode('cut-after-forward');
    await page.fill('#add-text', 'Биология');
    await add().click({ noWaitAfter: true });
    await thereAre(1);
    await until('the browser shows its own error', async () => (await page.content()).includes('ERR_'));
    await scene.network.good();
    // The developer tools' "reload" asks no question, as the key does not in some browsers.
    await page.reload();
    await normal('Биология');
    assert.equal((await tasks()).length, 1);
    const sent = await scene.sent(/^\/tasks$/);
    assert.ok(sent.length >= 2 && sent.at(-1)?.fate === 'answered', JSON.stringify(sent));
    assert.equal(new Set(sent.map(e => e._key)).size, 1);
    assert.deepEqual([...new Set(asked(/^\/tasks$/).map(d => d.token))], ['executed', 'replayed']);
  });

  test('B128: Back and the form sent unchanged: one task, the same state, and the normal page', async () => {
    await arrive();
    await page.fill('#add-text', 'Литература');
    await add().click();
    const [{ id }] = await thereAre(1);
    await normal('Литература');
    await back();
    await page.locator('#add-text').waitFor();
    await add().click({ noWaitAfter: true });
    await page.goto(`${scene.site.url}/tasks/${id}`);
    assert.equal((await tasks()).length, 1);

    await page.fill('#title', 'Литература: глава 3');
    const save = page.locator('form[action$="/fields"] button');
    await save.click();
    await normal('Литература: глава 3');
    await back();
    await save.waitFor();
    assert.equal(await page.inputValue('#title'), 'Литература: глава 3');
    await save.click();
    await normal('Литература: глава 3');
    assert.deepEqual((await tasks()).map(t => t.title), ['Литература: глава 3']);
    assert.ok(asked(/fields$/).length >= 2 && asked(/fields$/).every(d => d.status === 303), JSON.stringify(asked(/fields$/)));
  });

  test('B073: Back, another text, sent: two tasks; or, where the browser gives back the form with its used name, a refusal that says so', async () => {
    await arrive();
    await page.fill('#add-text', 'Один');
    await add().click();
    await thereAre(1);
    await normal('Один');
    await back();
    await page.fill('#add-text', 'Два');
    const [{ _key: used }] = await scene.sent(/^\/tasks$/);
    const again = (await page.locator('#add input[name=_key]').getAttribute('value')) === used;
    await add().click();
    if (again) {
      // Never a silent loss: the first's answer is not shown as the second's.
      await page.locator('[role=alert]:visible').waitFor();
      assert.deepEqual((await tasks()).map(t => t.title), ['Один']);
      assert.equal(asked(/^\/tasks$/).at(-1)?.status, 422);
      await page.goto(`${scene.site.url}/today`);
      await page.fill('#add-text', 'Два');
      await add().click();
    }
    await thereAre(2);
    await normal('Один', 'Два');
    assert.deepEqual((await tasks()).map(t => t.title), ['Один', 'Два']);
    assert.deepEqual(asked(/^\/tasks$/).filter(d => d.token === 'executed').map(d => d.form.text), ['Один', 'Два']);
  });
});
