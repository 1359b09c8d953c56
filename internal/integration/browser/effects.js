// @ts-check
// Holds what the application did, request by request, against what people meant.
// A database shows only the end; here a wish that was done twice, in the wrong
// order or as somebody else is seen although a later one covered it up.

/**
 * @typedef {import('./intents.js').Intent & {n: number}} Meant
 * @typedef {import('./upstream.js').Done} Done
 */

/** What a request asks, in an intent's words. @param {Pick<Done, 'path' | 'form'>} done */
export function wishOf(done) {
  const [, id, field] = /^\/tasks\/([\w-]+)\/(state|trash)$/.exec(done.path) ?? [];
  if (field === 'state') return { id, wish: done.form.completed === 'true' ? 'done' : 'undone' };
  if (field === 'trash') return { id, wish: done.form.deleted === 'true' ? 'trash' : 'restore' };
  if (done.path === '/tasks') return { id: done.form.id, wish: 'create' };
  return null;
}

/**
 * @param {Meant[]} intents each with the task's id and the tab
 * @param {Done[]} effects those requests that changed something, in order
 * @returns {import('./intents.js').Verdict}
 */
export function judgeEffects(intents, effects) {
  /** @type {import('./intents.js').Verdict} */
  const verdict = { lost: [], doubled: [], reordered: [], foreign: [] };
  /** @type {Map<string, Meant[]>} what is still expected of each task, in order */
  const open = new Map();
  /** @type {Map<string, Meant>} the first intent that names it */
  const tasks = new Map();
  for (const i of intents) {
    const id = i.id ?? '';
    open.set(id, [...(open.get(id) ?? []), i]);
    if (!tasks.has(id)) tasks.set(id, i);
  }
  /** @type {Map<string, number>} the last intent of each person in each tab that was done */
  const reached = new Map();
  for (const e of effects) {
    const asked = wishOf(e);
    if (!asked) continue;
    const task = tasks.get(asked.id);
    const what = `${e.person}: ${task?.task ?? asked.id}: ${asked.wish}`;
    if (!task || task.person !== e.person) {
      verdict.foreign.push(`${what}, ${task ? `which ${task.person} meant` : 'which nobody meant'}`);
      continue;
    }
    const line = open.get(asked.id) ?? [];
    const at = line.findIndex(i => i.wish === asked.wish);
    if (at < 0) {
      verdict.doubled.push(`${what}, once more than it was meant`);
      continue;
    }
    const [intent] = line.splice(at, 1);
    // What one person left in a tab for later does not hold up the next one there.
    const tab = `${intent.tab} ${intent.person}`;
    const before = reached.get(tab) ?? 0;
    if (at > 0) verdict.reordered.push(`${what} (${intent.n}) before ${line.slice(0, at).map(i => `${i.wish} (${i.n})`).join(', ')}`);
    else if (intent.n < before) verdict.reordered.push(`${what} (${intent.n}) after ${before} of the same tab`);
    reached.set(tab, Math.max(before, intent.n));
  }
  for (const line of open.values()) {
    for (const i of line) verdict.lost.push(`${i.person}: ${i.task}: ${i.wish} (${i.n}) was never done`);
  }
  return verdict;
}
