// @ts-check
// The page on which a person orders a file of their tasks. Requirement 66.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, afterEach, before, test } from 'node:test';
import { until } from './processes.js';
import { Scene } from './scene.js';

/** @type {Scene} */
let scene;
before(async () => {
  scene = await Scene.open('chromium');
});
after(() => scene?.close());
afterEach(() => scene.clear());

/** @param {import('./scene.js').Person} person */
const formats = async person => (await scene.site.sql(
  'select format from exports join users on users.id = exports.user_id where users.login = ? order by exports.rowid', person.login,
)).map(row => row.format);

test('a calendar is ordered, and behind Back a file of all data: both are made, each once', async () => {
  const anna = await scene.person();
  await anna.screen.add('Физика: задачи 12–15');
  await anna.database('the task is there', tasks => tasks.length === 1);
  const page = anna.chromium().context.pages()[0];
  await page.goto(`${scene.site.url}/exports`);
  const order = page.locator('form[action="/exports"] button');

  await page.selectOption('#format', 'ics');
  await order.click();
  await page.locator('.operation[data-state=complete]').waitFor({ timeout: 60_000 });
  assert.deepEqual(await formats(anna), ['ics']);

  await anna.screen.tab.back();
  await order.waitFor();
  await page.selectOption('#format', 'json');
  await order.click();
  await until('the other file is there', async () => (await formats(anna)).length === 2);
  await page.locator('.operation[data-state=complete]').waitFor({ timeout: 60_000 });
  assert.deepEqual(await formats(anna), ['ics', 'json']);
});

test('with the worker a file is saved as it is; without a network the pages say so, and nothing is saved in its place', async () => {
  const anna = await scene.person();
  await anna.screen.add('Физика: задачи 12–15');
  await anna.database('the task is there', tasks => tasks.length === 1);
  const page = anna.chromium().context.pages()[0];
  await page.goto(`${scene.site.url}/settings`);
  await page.click('a[href="/exports"]');
  await page.selectOption('#format', 'json');
  await page.locator('form[action="/exports"] button').click();
  const link = page.locator('.operation[data-state=complete] a[download]');
  await link.waitFor({ timeout: 60_000 });
  await anna.screen.tab.controlled();
  const saves = async () => {
    const [saved] = await Promise.all([page.waitForEvent('download', { timeout: 20_000 }), link.click()]);
    return { failure: await saved.failure(), path: await saved.path().catch(() => ''), name: saved.suggestedFilename() };
  };
  const { failure, path, name } = await saves();
  assert.equal(failure, null);
  assert.match(name, /\.json$/);
  assert.match(readFileSync(path, 'utf8'), /Физика: задачи 12–15/);

  await scene.network.mode('offline');
  assert.notEqual((await saves()).failure, null);
  await page.goto(`${scene.site.url}/settings`);
  await page.click('a[href="/exports"]');
  await page.locator('h1', { hasText: 'Нет сети' }).waitFor({ timeout: 20_000 });
  await page.goto(`${scene.site.url}/auth/login`);
  await page.locator('h1', { hasText: 'Нет сети' }).waitFor({ timeout: 20_000 });
});

test('two presses in a row on the same order make one file', async () => {
  const anna = await scene.person();
  await anna.screen.add('Физика: задачи 12–15');
  await anna.database('the task is there', tasks => tasks.length === 1);
  const page = anna.chromium().context.pages()[0];
  await page.goto(`${scene.site.url}/exports`);
  await page.locator('form[action="/exports"] button').dblclick();
  await page.locator('.operation[data-state=complete]').waitFor({ timeout: 60_000 });
  assert.deepEqual(await formats(anna), ['ics']);
});
