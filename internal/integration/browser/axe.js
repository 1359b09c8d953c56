// @ts-check
// axe-core, which knows what keeps people from using a page, put into a page of a
// test. Chromium only: there a script comes in past the page's own policy.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const source = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/**
 * What axe-core finds in the page as it is, best practices included, in one line
 * per element. What it cannot decide counts too, but for the contrast of what an
 * open dialog covers.
 *
 * @param {import('playwright-core').Page} page
 * @param {{parts?: string[], rules?: string[]}} [only] parts: selectors of what is looked at; by default all, by all rules
 * @returns {Promise<{found: string[], passes: number}>} passes: of how many rules something was in order
 */
export async function axe(page, only = {}) {
  await page.evaluate(`window.axe || (() => { ${source} })()`);
  return page.evaluate(async ({ parts, rules }) => {
    const { violations, incomplete, passes } = await /** @type {any} */ (window).axe.run(
      parts ? { include: parts.map(s => [s]) } : document,
      rules ? { runOnly: rules } : { rules: { 'target-size': { enabled: true } } },
    );
    const covered = (/** @type {any} */ node) => document.querySelector('dialog[open]') && !document.querySelector(node.target.at(-1))?.closest('dialog[open]');
    /** @param {any[]} rules @param {string} how */
    const told = (rules, how) =>
      rules.flatMap(({ id, nodes }) =>
        nodes
          .filter((/** @type {any} */ n) => how === 'violates' || id !== 'color-contrast' || !covered(n))
          .map((/** @type {any} */ n) => `${how} ${id} ${n.target.join(' ')}: ${[...n.any, ...n.all, ...n.none].map(c => c.message).join('; ')}`),
      );
    return { found: [...told(violations, 'violates'), ...told(incomplete, 'undecided')], passes: passes.length };
  }, only);
}
