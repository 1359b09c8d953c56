// @ts-check
// The judge of the soak is itself judged: each kind of harm is seen, and named.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { IntentLog, judge } from './intents.js';
import { Soak } from './soak.js';

/** @param {string} person @param {string} task @param {...import('./intents.js').Intent['wish']} wishes */
const meant = (person, task, ...wishes) => wishes.map(wish => ({ person, task, wish }));
const none = { lost: [], doubled: [], reordered: [], foreign: [] };
const wishes = [...meant('anna', 'a', 'create', 'done'), ...meant('boris', 'b', 'create'), ...meant('anna', 'c', 'create', 'done', 'undone')];
const right = [
  { person: 'anna', task: 'a', done: true },
  { person: 'boris', task: 'b', done: false },
  { person: 'anna', task: 'c', done: false },
];

test('what was meant and is there is right', () => assert.deepEqual(judge(wishes, right), none));

test('a task that is not there is lost', () => {
  assert.deepEqual(judge(wishes, right.slice(1)), { ...none, lost: ['anna: a: meant 1, found 0'] });
});

test('a task that is there twice is doubled', () => {
  assert.deepEqual(judge(wishes, [...right, right[1]]), { ...none, doubled: ['boris: b: meant 1, found 2'] });
});

test('an older wish that came last is reordered', () => {
  assert.deepEqual(judge(wishes, [right[0], right[1], { ...right[2], done: true }]), {
    ...none,
    reordered: ['anna: c: meant not done, found done'],
  });
});

test('a task that was taken out of the trash and lies there is reordered', () => {
  const bin = meant('anna', 'a', 'create', 'trash', 'restore');
  assert.deepEqual(judge(bin, [{ person: 'anna', task: 'a', done: false, deleted: false }]), none);
  assert.deepEqual(judge(bin, [{ person: 'anna', task: 'a', done: false, deleted: true }]).reordered, ['anna: a: meant not done, found not done and in the trash']);
});

test('two tasks of one name that were meant are neither lost nor doubled', () => {
  const b = { person: 'boris', task: 'b', done: false };
  assert.deepEqual(judge(meant('boris', 'b', 'create', 'create'), [b, b]), none);
  assert.deepEqual(judge(meant('boris', 'b', 'create', 'create'), [b]).lost, ['boris: b: meant 2, found 1']);
  assert.deepEqual(judge(meant('boris', 'b', 'create', 'create'), [b, b, b]).doubled, ['boris: b: meant 2, found 3']);
  const two = [...meant('boris', 'b', 'create', 'done').map(i => ({ ...i, id: '1' })), ...meant('boris', 'b', 'create').map(i => ({ ...i, id: '2' }))];
  assert.deepEqual(judge(two, [b, { ...b, done: true }]), none);
  assert.deepEqual(judge(two, [b, b]).reordered, ['boris: b: meant done, found not done']);
});

test('a task under another account is lost for its owner and foreign to the other', () => {
  assert.deepEqual(judge(wishes, [right[0], { ...right[1], person: 'anna' }, right[2]]), {
    ...none,
    lost: ['boris: b: meant 1, found 0'],
    foreign: ['anna has b, which boris meant'],
  });
});

test('a task that nobody meant is foreign', () => {
  assert.deepEqual(judge(wishes, [...right, { person: 'anna', task: 'x', done: false }]).foreign, ['anna has x, which nobody meant']);
});

test('the log is on disk before the press', () => {
  const log = new IntentLog();
  for (const w of wishes) log.write(w);
  assert.deepEqual(log.read().map(({ person, task, wish }) => ({ person, task, wish })), wishes);
  assert.deepEqual(log.compare(right), none);
  log.missed(log.write({ person: 'anna', wish: 'undone', task: 'a' }));
  assert.deepEqual(log.compare(right), none);
});

test('what a finger hits while it opens a row’s menu is a wish, and the driver knows what it did', async () => {
  /** @type {{form: string, value: string}[]} what the page has written down */
  const hits = [];
  const tab = {
    point: async () => ({ x: 1, y: 1 }),
    // The rows have moved: the trash button of "a" is there now.
    raw: { press: async () => void hits.push({ form: 'trash-1', value: 'true' }) },
    eval: async () => hits.splice(0),
  };
  const soak = new Soak(/** @type {any} */ ({}), /** @type {any} */ ({}), /** @type {any} */ ({}), { seed: 1, taps: 1 });
  const place = /** @type {any} */ ({ name: 'A1', person: 'anna', screen: { tab } });
  soak.tasks.set('1', { id: '1', title: 'a', person: 'anna', device: 'A', kind: 'plain', done: false, deleted: false, at: 0, tab: 'A1' });
  assert.equal(await soak.pressable(place, '.menu summary'), true);
  assert.equal(soak.tasks.get('1')?.deleted, true, 'or it would press "done" on a task that is in the trash');
  assert.deepEqual(soak.log.read().map(({ wish, task }) => [wish, task]), [['trash', 'a']]);
});
