import assert from 'node:assert/strict';
import test from 'node:test';
import { fields, mark, nextLook, readable, reason, stateName, strip } from './kit-view.js';
import { summary } from './summary.js';

const NOW = 1_000_000;
/**
 * @param {Partial<import('./kit-view.js').Entry>} [over]
 * @returns {import('./kit-view.js').Entry}
 */
const entry = (over) => ({ key: 'k', state: 'sending', method: 'POST', url: '/tasks', createdAt: NOW, attempts: 1, ...over });
const seen = (/** @type {string[]} */ ...keys) => ({ now: NOW, soft: 8000, queued: (/** @type {string} */ k) => keys.includes(k) });

test('A normal tap shows nothing for a second', () => {
  const entries = [entry({ createdAt: NOW - 900 })];
  assert.deepEqual(strip({ entries }, seen()), []);
  assert.equal(mark(entries, seen()), null);
  assert.equal(nextLook(entries, seen()), 100, 'and then it is looked at again');
});

test('A slow one is being sent, and waits from the soft limit on', () => {
  assert.deepEqual(strip({ entries: [entry({ createdAt: NOW - 1500 })] }, seen()), [{ name: 'sending' }]);
  assert.deepEqual(strip({ entries: [entry({ createdAt: NOW - 9000 })] }, seen()), [{ name: 'waiting', n: 1 }]);
  assert.equal(nextLook([entry({ createdAt: NOW - 1500 })], seen()), 6501);
  assert.equal(nextLook([entry({ createdAt: NOW - 9000 })], seen()), 0);
});

test('What failed once, or was answered "waiting", waits at once and all that is behind it too', () => {
  const behind = entry({ key: 'b', state: 'waiting', attempts: 0 });
  assert.deepEqual(strip({ entries: [entry({ state: 'waiting' }), behind] }, seen()), [{ name: 'waiting', n: 2 }]);
  assert.deepEqual(strip({ entries: [entry(), behind] }, seen('b')), [{ name: 'waiting', n: 2 }]);
  assert.deepEqual(strip({ entries: [entry(), behind] }, seen()), []);
});

test('A retry under way does not change the words', () => {
  assert.deepEqual(strip({ entries: [entry({ attempts: 3 })] }, seen()), [{ name: 'waiting', n: 1 }]);
});

test('A login counts the whole line', () => {
  const entries = [entry({ state: 'login' }), entry({ key: 'b', state: 'waiting', attempts: 0 }), entry({ key: 'c', state: 'refused' })];
  assert.deepEqual(strip({ entries, login: 2, pending: 2 }, seen()), [{ name: 'login', n: 2 }, { name: 'refused', n: 1 }]);
});

test('What needs the person stands beside what waits', () => {
  const entries = ['waiting', 'ask', 'refused', 'refused', 'stuck'].map((state, i) => entry({ key: `${i}`, state }));
  assert.deepEqual(strip({ entries, pending: 2 }, seen()), [
    { name: 'waiting', n: 1 },
    { name: 'ask', n: 1 },
    { name: 'refused', n: 2 },
    { name: 'stuck', n: 1 },
  ]);
});

test('What met another session waits for a login, and what is old is not doubtful', () => {
  const parked = entry({ state: 'parked' });
  assert.deepEqual(strip({ entries: [parked, entry({ key: 'b', state: 'waiting' })], pending: 2 }, seen()), [{ name: 'login', n: 2 }]);
  assert.deepEqual(mark([parked], seen()), { state: 'login', entry: parked });
  assert.equal(stateName(entry({ state: 'ask', reason: 'old' })), 'old');
  assert.equal(stateName(entry({ state: 'ask', reason: 'expired' })), 'ask');
});

test('Behind one that waits for a login all rows do', () => {
  const behind = entry({ state: 'waiting', attempts: 0 });
  assert.deepEqual(mark([behind], { ...seen(), login: true }), { state: 'login', entry: behind });
  assert.equal(stateName(behind, true), 'login');
  assert.equal(stateName(entry({ state: 'refused' }), true), 'refused');
});

test('Of what others keep a person is told that something waits, and sees nothing; what has left their lines is nobody else’s business', () => {
  const stored = (/** @type {any} */ over) => /** @type {any} */ ({ owner: 'A', told: true, label: 'private', ...over });
  const all = [stored({ state: 'waiting' }), stored({ state: 'sending' }), stored({ state: 'refused' }), stored({ state: 'ask' })];
  const told = (/** @type {any[]} */ entries, /** @type {string} */ owner) => {
    const { foreign, login, pending, refused, entries: own } = summary(entries, owner, NOW, 8000);
    return [foreign, login, pending, refused, own.length];
  };
  assert.deepEqual(told(all, 'B'), [2, 0, 0, 0, 0]);
  assert.deepEqual(told(all.slice(2), 'B'), [0, 0, 0, 0, 0]);
  assert.deepEqual(told(all, ''), [2, 2, 0, 0, 0], 'nobody is signed in: it waits for a login');
  assert.deepEqual(told(all, 'A'), [0, 0, 2, 1, 4]);
  assert.ok(!JSON.stringify(summary(all, 'B', NOW, 8000)).includes('private'));
});

test('Signed out, the person is asked to log in for what waits', () => {
  assert.deepEqual(strip({ entries: [], login: 2, foreign: 2 }, seen()), [{ name: 'login', n: 2 }]);
});

test("Another account's changes are told of only when there are none of one's own", () => {
  assert.deepEqual(strip({ entries: [], foreign: 2 }, seen()), [{ name: 'foreign' }]);
  assert.deepEqual(strip({ entries: [entry({ state: 'refused' })], foreign: 2 }, seen()), [{ name: 'refused', n: 1 }]);
  assert.deepEqual(strip({ entries: [] }, seen()), []);
});

test('A row shows the most urgent of its entries', () => {
  const waiting = entry({ key: 'w', state: 'waiting' });
  const refused = entry({ key: 'r', state: 'refused' });
  assert.deepEqual(mark([waiting, refused], seen()), { state: 'refused', entry: refused });
  assert.deepEqual(mark([waiting], seen()), { state: 'waiting', entry: waiting });
  assert.equal(mark([], seen()), null);
});

test('The reason is the server’s words, or what the status means', () => {
  assert.deepEqual(reason(entry({ lastStatus: 422, lastText: ' Слишком длинно ' })), { text: 'Слишком длинно' });
  assert.deepEqual(reason(entry({ lastStatus: 404, lastText: '' })), { name: 'why.gone' });
  assert.deepEqual(reason(entry({ lastStatus: 409 })), { name: 'why.status', n: 409 });
  assert.equal(reason(entry()), null);
  const long = reason(entry({ lastText: 'x'.repeat(500) }));
  assert.ok(long && 'text' in long && long.text.length === 200);
});

test('What is copied is what the person wrote', () => {
  assert.equal(readable(entry({ bodyText: '_key=1&id=2&text=' + encodeURIComponent('Физика: задачи 12–15') })), 'Физика: задачи 12–15');
  assert.equal(readable(entry({ bodyText: 'title=a&note=b+c&empty=' })), 'title: a\nnote: b c');
  assert.equal(readable(entry({ bodyText: '{"a":1}' })), '{"a":1}');
  assert.equal(readable(entry({ label: 'Полить цветы' })), 'Полить цветы');
  assert.deepEqual(fields('a%3Cb=c'), [['a<b', 'c']]);
  assert.deepEqual(fields('{"a=":1}'), []);
});
