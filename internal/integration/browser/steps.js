// @ts-check
// What many scenarios do.

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
