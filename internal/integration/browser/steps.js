// @ts-check
// What many scenarios do.
import { until } from './processes.js';
import { wayOf } from './ways.js';

/** Short, so that nobody waits; and no request is given up before the network lets it go. */
export const usual = { softLimit: 1500, hardLimit: 60_000, backoff: 300, backoffVisible: 1500, kickEvery: 1000 };

export const physics = 'Физика: задачи 12–15';
/** More than a title may have. */
export const long = 'очень подробно '.repeat(40).trim();
export const caption = 'сохранится, когда появится сеть';

/**
 * A task that is there before anything happens to the network.
 * @param {import('./scene.js').Person} anna
 * @param {string} line
 * @param {string} [title] as it is read from the line
 */
export async function has(anna, line, title = line) {
  await anna.screen.add(line);
  await anna.database(`«${title}» is there`, tasks => tasks.some(t => t.title === title));
  await anna.screen.shows(title, { done: false, state: '' });
}

/** What becomes of changing requests; pages still load. @param {import('./scene.js').Scene} scene @param {string} fault */
export const changesMeet = (scene, fault) => scene.network.set({ plan: `POST /tasks* -> ${fault}=1`, mode: 'plan' });

/**
 * The worker is stopped, by the way that the engine has. One that ends by itself
 * has ended when what it had sent was dropped.
 * @param {import('./scene.js').Scene} scene
 * @param {import('./scene.js').Person} person
 * @param {number} n of the scenario
 */
export async function stopWorker(scene, person, n) {
  if (wayOf(n, scene.engine) !== 'idle limits') return person.chromium().stopWorkers();
  await until('the worker was ended', async () => (await scene.sent()).some(e => e.fate === 'left'), { timeout: 30_000 });
}

/**
 * Without a network, and with it again: by the way that the engine has.
 * @param {import('./scene.js').Scene} scene
 * @param {import('./scene.js').Person} person
 * @param {number} n of the scenario
 */
export function air(scene, person, n) {
  const own = /offline|sync/.test(wayOf(n, scene.engine));
  return {
    off: async () => void (await (own ? person.chromium().setOffline(true) : scene.network.mode('offline'))),
    on: async () => void (await (own ? person.chromium().setOffline(false) : scene.network.good())),
  };
}

/**
 * What the strip's live region says from now on, as a screen reader hears it.
 * @param {import('./screen.js').Screen} screen
 * @returns {Promise<() => Promise<string[]>>}
 */
export async function hears(screen) {
  await screen.tab.eval(() => {
    const region = /** @type {HTMLElement} */ (document.querySelector('#outbox-strip [role=status][aria-live=polite]'));
    /** @type {any} */ (window).rigHeard = [];
    new MutationObserver(() => /** @type {any} */ (window).rigHeard.push(region.textContent)).observe(region, { childList: true, characterData: true, subtree: true });
  });
  return () => screen.tab.eval(() => /** @type {any} */ (window).rigHeard);
}

/** The numbers of what waits, out of what was heard. @param {string[]} heard */
export const counted = heard =>
  heard.flatMap(text => {
    const [, n] = /^(Одно|\d+) изменени\S* (?:ждёт|ждут) сети/.exec(text) ?? [];
    return n ? [n === 'Одно' ? 1 : Number(n)] : [];
  });
