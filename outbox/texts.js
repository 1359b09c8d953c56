// @ts-check
// How the words are chosen. Pure: no page, no clock. The words themselves are in
// words.ru.js and words.en.js, of which a page loads one.
//
// A name with a number has one line per plural category of the language
// ("waiting.few", as Intl.PluralRules names them), and may have one for a single
// exact number ("waiting.1"); {n} is the number.
//
// For another language the page gives its own, under the names of words.en.js, as
// "texts" in its configuration; what it leaves out is English.

/**
 * @typedef {object} Speaker
 * @property {(name: string, n?: number) => string} say the words of that name,
 *   for n things; '' where there are none
 * @property {(ms: number) => string} ago how long ago, rounded
 * @property {string} locale one that Intl knows
 * @property {string} other the words' language if it is not the page's; else ''
 */

/**
 * The language that we have words in for a page in this one.
 *
 * @param {string} lang
 */
export const spoken = (lang) => (/^ru\b/i.test(lang) ? 'ru' : 'en');

/**
 * Own words replace ours one by one; with them the language may be any that Intl
 * knows.
 *
 * @param {string} lang of the page, as in <html lang>
 * @param {Record<string, string>} ours
 * @param {Record<string, string>} [own]
 * @returns {Speaker}
 */
export function speaker(lang, ours, own = {}) {
  const given = Object.keys(own);
  const locale = supported(given.length ? lang : ours.lang);
  const rules = new Intl.PluralRules(locale);
  const numbers = new Intl.NumberFormat(locale);
  const times = new Intl.RelativeTimeFormat(locale, { numeric: 'auto' });

  return {
    locale,
    other: given.length || lang.toLowerCase().startsWith(ours.lang) ? '' : ours.lang,
    say(name, n) {
      if (n === undefined) return own[name] ?? ours[name] ?? '';
      // Plural lines are taken from one language only: another's "one" may stand
      // for 21 as well.
      const from = given.some((k) => k === name || k.startsWith(`${name}.`)) ? own : ours;
      const line =
        from[`${name}.${n}`] ?? from[`${name}.${rules.select(n)}`] ?? from[`${name}.other`] ?? from[`${name}.many`] ?? from[name] ?? '';
      return line.replaceAll('{n}', numbers.format(n));
    },
    ago(ms) {
      const s = Math.max(0, ms) / 1000;
      if (s < 45) return times.format(0, 'second');
      if (s < 45 * 60) return times.format(-Math.round(s / 60), 'minute');
      if (s < 22 * 3600) return times.format(-Math.round(s / 3600), 'hour');
      return times.format(-Math.round(s / 86400), 'day');
    },
  };
}

/** @param {string} lang */
function supported(lang) {
  try {
    return Intl.PluralRules.supportedLocalesOf([lang])[0] ?? 'en';
  } catch {
    return 'en'; // not a language tag at all
  }
}
