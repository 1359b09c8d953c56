// @ts-check
// The judge of the soak is itself judged: each kind of harm is seen, and named.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { IntentLog, judge } from './intents.js';

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
    reordered: ['anna: c: meant not done, found the contrary'],
  });
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
});
