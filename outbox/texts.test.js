import assert from 'node:assert/strict';
import test from 'node:test';
import { speaker as speakerOf, spoken } from './texts.js';
import { words as en } from './words.en.js';
import { words as ru } from './words.ru.js';

/** @type {Record<string, Record<string, string>>} */
const words = { en, ru };
/** As the kit does it.
 * @param {string} lang
 * @param {Record<string, string>} [own]
 */
const speaker = (lang, own) => speakerOf(lang, words[spoken(lang)], own);

test('a page whose language is written wrong has words, and numbers and times', () => {
  assert.equal(spoken('ru-RU'), 'ru');
  for (const lang of ['x y', 'русский', '']) {
    const { say, ago, locale } = speaker(lang);
    assert.equal(say('waiting', 2), '2 changes are waiting for the network');
    assert.equal(ago(0), 'now');
    assert.ok(new Date(0).toLocaleString(locale));
  }
});

test('Russian counts by its own rules: 21 is like 1, 11 is not (R35, W26)', () => {
  const { say } = speaker('ru');
  const want = {
    0: '0 изменений ждут сети',
    1: 'Одно изменение ждёт сети',
    2: '2 изменения ждут сети',
    4: '4 изменения ждут сети',
    5: '5 изменений ждут сети',
    11: '11 изменений ждут сети',
    12: '12 изменений ждут сети',
    21: '21 изменение ждёт сети',
    22: '22 изменения ждут сети',
    25: '25 изменений ждут сети',
    101: '101 изменение ждёт сети',
    111: '111 изменений ждут сети',
  };
  for (const [n, text] of Object.entries(want)) assert.equal(say('waiting', Number(n)), text);
});

test('English has one and many', () => {
  const { say } = speaker('en-GB');
  assert.equal(say('waiting', 0), '0 changes are waiting for the network');
  assert.equal(say('waiting', 1), 'One change is waiting for the network');
  assert.equal(say('waiting', 2), '2 changes are waiting for the network');
  assert.equal(say('waiting', 21), '21 changes are waiting for the network');
});

test('Every counted line reads well in Russian', () => {
  const { say } = speaker('ru-RU');
  assert.equal(say('login', 2), 'Войдите снова, чтобы сохранить 2 изменения');
  assert.equal(say('refused', 1), 'Одно изменение не принято');
  assert.equal(say('refused', 22), '22 изменения не приняты');
  assert.equal(say('refused', 5), '5 изменений не принято');
  assert.equal(say('ask', 21), 'Неизвестно, сохранилось ли 21 изменение');
});

test('Both languages have the same names, and every plural category', () => {
  const names = (/** @type {string} */ lang) =>
    new Set(Object.keys(words[lang]).map((k) => k.replace(/\.(1|zero|one|two|few|many|other)$/, '#')));
  assert.deepEqual([...names('ru')].sort(), [...names('en')].sort());
  for (const [lang, lines] of Object.entries(words)) {
    const rules = new Intl.PluralRules(lang);
    for (const name of names(lang)) {
      if (!name.endsWith('#')) continue;
      const base = name.slice(0, -1);
      for (let n = 1; n < 120; n++) {
        assert.ok(lines[`${base}.${n}`] ?? lines[`${base}.${rules.select(n)}`], `${lang}: ${base}${n}`);
      }
    }
  }
});

test('Another language can be given, and its plurals are its own', () => {
  const { say } = speaker('pl', { 'waiting.one': 'Jedna zmiana czeka', 'waiting.few': '{n} zmiany czekają', 'waiting.many': '{n} zmian czeka' });
  assert.equal(say('waiting', 1), 'Jedna zmiana czeka');
  assert.equal(say('waiting', 22), '22 zmiany czekają');
  assert.equal(say('waiting', 21), '21 zmian czeka');
  assert.equal(say('look'), 'Show', 'what was not given is English');
});

test('Arabic has six forms and its own digits', () => {
  const own = Object.fromEntries(['zero', 'one', 'two', 'few', 'many', 'other'].map((c) => [`waiting.${c}`, `${c} {n}`]));
  const { say, ago, other } = speaker('ar-EG', own);
  const digits = new Intl.NumberFormat('ar-EG');
  for (const [n, form] of /** @type {const} */ ([[0, 'zero'], [1, 'one'], [2, 'two'], [3, 'few'], [10, 'few'], [11, 'many'], [99, 'many'], [100, 'other'], [103, 'few']])) {
    assert.equal(say('waiting', n), `${form} ${digits.format(n)}`);
  }
  assert.equal(ago(120_000), new Intl.RelativeTimeFormat('ar-EG', { numeric: 'auto' }).format(-2, 'minute'));
  assert.equal(other, '', 'they are in the language of the page');
});

test('A form that was not given is the one for everything else', () => {
  const { say } = speaker('ar', { 'waiting.one': 'واحد', 'waiting.other': '{n}' });
  assert.match(say('waiting', 5), /^.$/u);
});

test('Words that are not in the language of the page say in which they are', () => {
  assert.equal(speaker('ru-RU').other, '');
  assert.equal(speaker('en-GB').other, '');
  assert.equal(speaker('de').other, 'en');
  assert.equal(speaker('RU').other, '');
});

test('Own words replace ours one by one', () => {
  const { say } = speaker('ru', { look: 'Открыть' });
  assert.equal(say('look'), 'Открыть');
  assert.equal(say('waiting', 5), '5 изменений ждут сети');
});

test('A language that nobody speaks here is English, and nonsense does not throw', () => {
  assert.equal(spoken('rup'), 'en');
  assert.equal(speaker('de').say('waiting', 1), 'One change is waiting for the network');
  assert.equal(speaker('').say('look'), 'Show');
  assert.equal(speaker('not a tag', { look: 'x' }).say('look'), 'x');
  assert.equal(speaker('en').say('no such name'), '');
});

test('Times are relative and rounded', () => {
  const { ago } = speaker('en');
  assert.equal(ago(3_000), 'now');
  assert.equal(ago(-5_000), 'now', 'a clock that went back');
  assert.equal(ago(120_000), '2 minutes ago');
  assert.equal(ago(3 * 3600_000), '3 hours ago');
  assert.equal(ago(26 * 3600_000), 'yesterday');
  assert.equal(speaker('ru').ago(5 * 60_000), '5 минут назад');
});
