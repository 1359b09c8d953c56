// @ts-check
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createIntents } from './intent.js';

function make() {
  let n = 0;
  const clock = { at: 1_000 };
  const intents = createIntents({ newKey: () => `k${++n}`, keyField: '_key', now: () => clock.at });
  /** @param {any} row @param {string} body @param {any} [more] */
  const choose = (row, body, more = {}) =>
    intents.choose(row, { method: 'POST', url: '/s', pairs: [...new URLSearchParams(body)], ...more });
  return { ...intents, choose, clock };
}

test('B071, R19: the same wish for a row, unanswered, keeps its name', () => {
  const i = make();
  assert.equal(i.choose('task-5', 'completed=true').key, 'k1');
  assert.equal(i.choose('task-5', 'completed=true').key, 'k1');
});

test('B165, scenario 25: done, undo, done are three', () => {
  const i = make();
  const keys = ['true', 'false', 'true'].map((v) => i.choose('task-5', `completed=${v}`).key);
  assert.deepEqual(keys, ['k1', 'k2', 'k3']);
});

test('a row\'s wish is not another row\'s, nor another action\'s', () => {
  const i = make();
  assert.equal(i.choose('task-5', 'x=1').key, 'k1');
  assert.equal(i.choose('task-6', 'x=1').key, 'k2');
  assert.equal(i.choose('task-5', 'x=1', { url: '/t' }).key, 'k3');
  assert.equal(i.choose('task-5', 'x=1', { url: '/t', method: 'PUT' }).key, 'k4');
});

test('B071: the answer to one wish leaves those of other rows, and of a row the later one, under their names', () => {
  const i = make();
  const [five, six] = ['task-5', 'task-6'].map((row) => i.choose(row, 'x=1').key);
  const later = i.choose('task-5', 'x=2').key;
  i.answered(five);
  assert.deepEqual([i.choose('task-5', 'x=2').key, i.choose('task-6', 'x=1').key], [later, six]);
  i.answered(six);
  assert.deepEqual([i.choose('task-5', 'x=2').key, i.choose('task-6', 'x=1').key], [later, 'k4']);
});

test('B074: after an answer the same content is a new wish; so are A, B and C from one form', () => {
  const i = make();
  const form = {};
  const a = i.choose(form, 'text=a');
  i.answered(a.key);
  assert.notEqual(i.choose(form, 'text=a').key, a.key);
  assert.deepEqual(['b', 'c'].map((t) => i.choose(form, `text=${t}`).key), ['k3', 'k4']);
});

test('B073: typed anew is a new wish, even with the same words; so is a form that was cleared', () => {
  const i = make();
  i.choose('form', 'text=a');
  i.close('form');
  assert.equal(i.choose('form', 'text=a').key, 'k2');
  assert.equal(i.choose('form', 'text=a').key, 'k2', 'and from then on the same again');
});

test('the key\'s own field and a client\'s id are no content; the id lives as long as the key', () => {
  const i = make();
  const first = i.choose('add', '_key=old&id=printed&text=a', { idFields: ['id'] });
  assert.deepEqual([first.key, first.ids], ['k2', { id: 'k1' }]);
  const again = i.choose('add', `_key=k2&id=k1&text=a`, { idFields: ['id'] });
  assert.deepEqual([again.key, again.ids.id], ['k2', 'k1']);
  i.close('add');
  assert.deepEqual(i.choose('add', `_key=k2&id=k1&text=a`, { idFields: ['id'] }).ids, { id: 'k3' });
});

const entry = (/** @type {any} */ e) => ({ el: 'task-5', method: 'POST', url: '/s', state: 'waiting', ...e });

test('after a reload the waiting wishes are known again, the newest of each row', () => {
  const i = make();
  i.restore([
    entry({ key: 'a', bodyText: 'completed=true' }),
    entry({ key: 'b', bodyText: 'completed=false' }),
    entry({ key: 'c', bodyText: 'id=x&text=z', el: 'add' }),
    entry({ key: 'd', bodyText: 'x=1', el: '' }),
    entry({ key: 'e', bodyText: 'x=1', el: 'task-7', state: 'refused' }),
  ]);
  assert.equal(i.choose('task-5', 'completed=false').key, 'b');
  assert.equal(i.choose('task-5', 'completed=true').key, 'k1', 'after another wish it is a new one');
  const add = i.choose('add', 'id=printed&text=z', { idFields: ['id'] });
  assert.deepEqual([add.key, add.ids.id], ['c', 'x'], 'under its name goes its id');
  assert.equal(i.choose('task-7', 'x=1').key, 'k2', 'a refusal is an answer');
});

test('another tab\'s later wish for the row counts; a wish that is not stored yet is the newest', () => {
  const i = make();
  const mine = i.choose('task-5', 'completed=true').key;
  i.restore([entry({ key: 'old', bodyText: 'completed=false' })]);
  assert.equal(i.choose('task-5', 'completed=true').key, mine);
  i.restore([entry({ key: mine, bodyText: 'completed=true' }), entry({ key: 'theirs', bodyText: 'completed=false' })]);
  assert.notEqual(i.choose('task-5', 'completed=true').key, mine);
});

test('4.3: a form without an id is known again, after going back to it as after a reload, by where it leads', () => {
  const waits = (/** @type {string} */ key, /** @type {string} */ bodyText) => ({ key, el: '', method: 'POST', url: '/s', bodyText, state: 'waiting' });
  const i = make();
  i.restore([waits('a', '_key=a&text=milk')]);
  const form = {};
  assert.equal(i.choose(form, 'text=milk').key, 'a');
  assert.equal(i.choose(form, 'text=bread').key, 'k1');
  assert.equal(i.choose(form, 'text=milk').key, 'k2', 'after another wish it is a new one');

  for (const [what, does] of /** @type {[string, (i: ReturnType<typeof make>) => void][]} */ ([
    ['typed before the line is known', (x) => (x.typed(form), x.restore([waits('a', '_key=a&text=milk')]))],
    ['typed after', (x) => (x.restore([waits('a', '_key=a&text=milk')]), x.typed(form))],
    ['the newest says something else', (x) => x.restore([waits('a', '_key=a&text=milk'), waits('b', '_key=b&text=tea')])],
    ['answered', (x) => (x.restore([waits('a', '_key=a&text=milk')]), x.answered('a'))],
    ['a form with an id is known by that', (x) => x.restore([{ ...waits('a', '_key=a&text=milk'), el: 'add' }])],
  ])) {
    const x = make();
    does(x);
    assert.equal(x.choose(form, 'text=milk').key, 'k1', what);
  }
  const button = make();
  button.restore([waits('a', '_key=a')]);
  assert.equal(button.choose({}, '').key, 'k1', 'a mere button says what it says anew');
});

test('an entry whose content cannot be read is equal to nothing', () => {
  const i = make();
  i.restore([entry({ key: 'a', bodyText: '' })]);
  assert.equal(i.choose('task-5', '').key, 'k1');
});

test('B004, B013, B172: a second activation within 500 ms is part of the first; a later one is not', () => {
  const i = make();
  const el = { isConnected: true };
  assert.equal(i.second('click', el, 'n'), false);
  i.clock.at += 499;
  assert.equal(i.second('click', el, 'n'), true);
  i.clock.at += 1;
  assert.equal(i.second('click', el, 'n'), false);
});

test('the click and the submit of one activation are one', () => {
  const i = make();
  const el = { isConnected: true };
  assert.equal(i.second('click', el, 'n'), false);
  assert.equal(i.second('submit', el, 'n'), false);
  assert.equal(i.second('submit', el, 'n'), true);
});

test('also when the answer came in 20 ms and replaced the control', () => {
  const i = make();
  const old = { isConnected: true };
  i.second('click', old, 'task-5|done');
  old.isConnected = false;
  i.clock.at += 150;
  assert.equal(i.second('click', { isConnected: true }, 'task-5|done'), true);
  assert.equal(i.second('click', { isConnected: true }, 'task-6|done'), false);
});

test('two controls of one name that stand side by side are two', () => {
  const i = make();
  i.second('click', { isConnected: true }, 'stars');
  assert.equal(i.second('click', { isConnected: true }, 'stars'), false);
});

test('typing in between makes it another one; clearing the form does not', () => {
  const i = make();
  const el = { isConnected: true };
  i.second('click', el, 'n');
  i.close('form');
  assert.equal(i.second('click', el, 'n'), true);
  i.typed('form');
  assert.equal(i.second('click', el, 'n'), false);
});

test('a clock set back does not make every tap a second one', () => {
  const i = make();
  const el = { isConnected: true };
  i.second('click', el, 'n');
  i.clock.at -= 10_000;
  assert.equal(i.second('click', el, 'n'), false);
});

test('B127: two buttons of one form are no second activation of each other; a script on behalf of a button is', () => {
  const i = createIntents({ newKey: () => 'k', keyField: '_key', now: () => 0 });
  const form = {};
  assert.equal(i.second('submit', form, 'n', 'up'), false);
  assert.equal(i.second('submit', form, 'n', 'down'), false);
  assert.equal(i.second('submit', form, 'n', 'up'), true);
  assert.equal(i.second('submit', form, 'n'), true);
});

test('what is found in a form as it was sent stays the same wish, though it was done while the page was away; not what is told while it is there', () => {
  for (const at of [1, undefined]) {
    const { intents, keys } = { intents: createIntents({ newKey: () => `k${++n}`, keyField: '_key' }), keys: /** @type {string[]} */ ([]) };
    let n = 0;
    const press = (/** @type {string} */ row) => intents.choose(row, { method: 'POST', url: '/x', pairs: [['text', 'milk']] }).key;
    keys.push(press('form'), press('button'));
    intents.keep('form');
    intents.keep('none');
    for (const key of keys) intents.answered(key, at);
    assert.deepEqual([press('form'), press('button')], at ? ['k1', 'k3'] : ['k3', 'k4']);
  }
});
