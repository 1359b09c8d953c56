// @ts-check
// What a person meant: written by the driver before each press, never by the
// page, and compared with the database at the end.
import { appendFileSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { tempFolder } from './processes.js';

/**
 * @typedef {object} Intent
 * @property {string} person
 * @property {'create' | 'done' | 'undone' | 'trash' | 'restore'} wish
 * @property {string} task its title, which no task of another person has
 * @property {string} [id] of the task, as it stands in the form before the press; needed where several have one title
 * @property {string} [tab]
 */

/**
 * What the database says of a task.
 * @typedef {object} Found
 * @property {string} person whose it is
 * @property {string} task
 * @property {boolean} done
 * @property {boolean} [deleted] it lies in the trash
 */

/**
 * @typedef {object} Verdict
 * @property {string[]} lost meant and not there: a task that was created
 * @property {string[]} doubled meant once and there more than once
 * @property {string[]} reordered there, but as an earlier wish left it
 * @property {string[]} foreign there and nobody's of this name meant it
 */

export class IntentLog {
  #file = join(tempFolder('onceward-intents-'), 'intents.jsonl');
  #n = 0;

  /** Must be called before the press. @param {Intent} intent @returns {number} its number */
  write(intent) {
    this.#append({ n: ++this.#n, at: Date.now(), ...intent });
    return this.#n;
  }

  /** The finger came down beside it: that was no wish. @param {number} n */
  missed(n) {
    this.#append({ at: Date.now(), missed: n });
  }

  /** @returns {any[]} what was written, as it was written */
  lines() {
    return readFileSync(this.#file, 'utf8').split('\n').filter(Boolean).map(line => JSON.parse(line));
  }

  /** @returns {(Intent & {n: number, at: number})[]} */
  read() {
    const lines = this.lines();
    const missed = new Set(lines.map(line => line.missed));
    return lines.filter(line => line.n && !missed.has(line.n));
  }

  /** @param {object} line */
  #append(line) {
    appendFileSync(this.#file, JSON.stringify(line) + '\n', { flush: true });
  }

  /**
   * Holds the database against the log. Wishes for one task apply in the order
   * in which they were made; the last one counts.
   * @param {Found[]} found every task there is, in the trash or not
   * @returns {Verdict}
   */
  compare(found) {
    return judge(this.read(), found);
  }
}

/**
 * @param {Intent[]} intents
 * @param {Found[]} found
 * @returns {Verdict}
 */
export function judge(intents, found) {
  /** @typedef {{created: number, done: boolean, deleted: boolean}} Wished */
  /** @type {Map<string, {person: string, tasks: Map<string, Wished>}>} by title, then by id where it is known */
  const meant = new Map();
  for (const { person, wish, task, id = '' } of intents) {
    const m = meant.get(task) ?? { person, tasks: new Map() };
    const t = m.tasks.get(id) ?? { created: 0, done: false, deleted: false };
    if (wish === 'create') t.created++;
    else if (wish === 'done' || wish === 'undone') t.done = wish === 'done';
    else t.deleted = wish === 'trash';
    m.tasks.set(id, t);
    meant.set(task, m);
  }
  /** @type {Map<string, Found[]>} */
  const there = new Map();
  for (const f of found) there.set(f.task, [...(there.get(f.task) ?? []), f]);

  /** @type {Verdict} */
  const verdict = { lost: [], doubled: [], reordered: [], foreign: [] };
  for (const [task, m] of meant) {
    const own = (there.get(task) ?? []).filter(f => f.person === m.person);
    const states = [...m.tasks.values()].flatMap(t => Array.from({ length: Math.max(t.created, 1) }, () => look(t)));
    const created = [...m.tasks.values()].reduce((sum, t) => sum + t.created, 0);
    if (own.length < created) verdict.lost.push(`${m.person}: ${task}: meant ${created}, found ${own.length}`);
    if (own.length > states.length) verdict.doubled.push(`${m.person}: ${task}: meant ${created}, found ${own.length}`);
    for (const f of own) {
      // Of tasks with one title any may be the one that is meant to look so.
      const at = states.indexOf(look(f));
      if (at >= 0) states.splice(at, 1);
      else if (states.length > 0) verdict.reordered.push(`${m.person}: ${task}: meant ${states.join(' or ')}, found ${look(f)}`);
    }
  }
  for (const f of found) {
    const m = meant.get(f.task);
    if (!m || m.person !== f.person) verdict.foreign.push(`${f.person} has ${f.task}${m ? `, which ${m.person} meant` : ', which nobody meant'}`);
  }
  return verdict;
}

/** How it is meant to look, or looks. @param {{done: boolean, deleted?: boolean}} task */
const look = task => (task.done ? 'done' : 'not done') + (task.deleted ? ' and in the trash' : '');
