// @ts-check
// What a person's phone has to load. The numbers to reach are 8 KB for the worker
// and 6 KB for the page, comments stripped and compressed; what is missing to them
// is printed. The limits here keep it from growing unseen.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';

const read = (/** @type {string} */ name) => readFileSync(new URL(name, import.meta.url), 'utf8');

/** A file and all that it imports at once. @param {string} name @param {Set<string>} [seen] */
function graph(name, seen = new Set()) {
  if (seen.has(name)) return seen;
  seen.add(name);
  for (const [, from] of read(name).matchAll(/^import .*from '\.\/([\w.-]+)';$/gm)) graph(from, seen);
  return seen;
}

const strip = (/** @type {string} */ text) =>
  text
    .replace(/\/\*\*[\s\S]*?\*\/[ \t]*/g, '')
    .replace(/^[ \t]*\/\/.*\n/gm, '')
    .replace(/[ \t]+\/\/ .*$/gm, '')
    .replace(/^\s*\n/gm, '');

const packed = (/** @type {string[]} */ texts) => gzipSync(texts.join(''), { level: 9 }).length;

for (const { entry, wanted, most } of [
  { entry: 'sw.js', wanted: 8 << 10, most: 9_500 },
  { entry: 'page.js', wanted: 6 << 10, most: 8_300 },
]) {
  test(`${entry} and its imports are small`, (t) => {
    const files = [...graph(entry)].map(read);
    const bare = packed(files.map(strip));
    const served = packed(files);
    t.diagnostic(`${entry}: wanted ${wanted}, measured ${bare} bytes; as served ${(served / bare).toFixed(2)} ×`);
    assert.ok(bare <= most, `${bare} bytes`);
    assert.ok(served <= 1.65 * bare, `${served} bytes as served`);
  });
}

test('sw.js can be read in a minute', () => assert.ok(read('sw.js').split('\n').length <= 60));
