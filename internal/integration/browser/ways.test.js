// @ts-check
// The list of what runs where is closed: it says all that the scenarios do
// otherwise on one engine than on another, and nothing else.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { root } from './processes.js';
import { scenarios } from './scenarios.js';
import { elsewhere, scenarioCount, wayOf, ways } from './ways.js';

const engines = /** @type {const} */ (['chromium', 'firefox', 'webkit']);
const numbers = Array.from({ length: scenarioCount }, (_, i) => i + 1);

// The project's own list: all on all three engines, except these.
const exceptions = {
  8: 'the worker is stopped: not on WebKit',
  9: 'the worker is stopped: not on WebKit',
  11: 'the browser is killed: WebKit without automation',
  19: 'offline: Chromium only, elsewhere the network refuses',
  23: 'a real quota in Chromium, a failing store elsewhere',
  27: 'offline: Chromium only, elsewhere the network refuses',
  28: 'headers given by the page',
  30: 'the back-forward cache of Chromium',
  32: 'under node only',
  33: 'the live region; axe on the kit',
};
const nowhere = { 8: ['webkit'], 9: ['webkit'], 32: ['chromium', 'firefox', 'webkit'] };

test('each of the 33 scenarios is there, once or more, and no other', () => {
  const there = new Set([...scenarios.map(s => s.n), ...Object.keys(elsewhere).map(Number)]);
  assert.deepEqual([...there].sort((a, b) => a - b), numbers);
  assert.equal(new Set(scenarios.map(s => s.name)).size, scenarios.length);
});

test('those with a file of their own are named there', () => {
  for (const [n, file] of Object.entries(elsewhere)) {
    assert.match(readFileSync(join(root, file), 'utf8'), new RegExp(`[Ss]cenario ${n}\\b`), `${file} does not name scenario ${n}`);
  }
});

test('the exceptions are the ones of the list', () => {
  assert.deepEqual(Object.keys(ways), Object.keys(exceptions));
  const missing = Object.fromEntries(
    Object.entries(ways)
      .map(([n, way]) => [n, engines.filter(e => !way[e])])
      .filter(([, list]) => list.length > 0),
  );
  assert.deepEqual(missing, nowhere);
  assert.throws(() => wayOf(8, 'webkit'), /no way/);
});

test('a scenario asks for its engine by the list alone', () => {
  for (const { n, run, patch, prepare, browser } of scenarios) {
    const text = [run, patch, prepare].map(String).join('\n');
    const asks = /\.engine\b|chromium\(\)/.test(text.replace(/(wayOf\(\d+, scene\.engine\)|air\(scene, anna, \d+\)|stopWorker\(scene, anna, \d+\))/g, ''));
    if (asks || /wayOf|air\(|stopWorker/.test(text) || browser) assert.ok(ways[n], `scenario ${n} does otherwise on one engine, and the list does not say so`);
    for (const [, m] of text.matchAll(/(?:wayOf\(|air\(scene, anna, |stopWorker\(scene, anna, )(\d+)/g)) assert.equal(Number(m), n, `scenario ${n} asks for the way of ${m}`);
  }
});

test('ten scenarios run on every engine in every run', () => {
  const everywhere = scenarios.filter(s => s.everywhere);
  assert.equal(everywhere.length, 10);
  for (const { n } of everywhere) assert.ok(!ways[n] || engines.every(e => ways[n][e]), `scenario ${n} cannot run everywhere`);
});
