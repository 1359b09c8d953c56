// @ts-check
// What a person meant: written by the driver before each press, never by the
// page, and compared with the database at the end.
import { appendFileSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { tempFolder } from './processes.js';

/**
 * @typedef {object} Intent
 * @property {string} person
 * @property {'create' | 'done' | 'undone'} wish
 * @property {string} task its title, which no other task of any person has
 */

/**
 * What the database says of a task.
 * @typedef {object} Found
 * @property {string} person whose it is
 * @property {string} task
 * @property {boolean} done
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

  /** Must be called before the press. @param {Intent} intent */
  write(intent) {
    appendFileSync(this.#file, JSON.stringify({ n: ++this.#n, at: Date.now(), ...intent }) + '\n', { flush: true });
  }

  /** @returns {(Intent & {n: number, at: number})[]} */
  read() {
    return readFileSync(this.#file, 'utf8').split('\n').filter(Boolean).map(line => JSON.parse(line));
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
  /** @type {Map<string, {person: string, created: number, done: boolean}>} */
  const meant = new Map();
  for (const { person, wish, task } of intents) {
    const m = meant.get(task) ?? { person, created: 0, done: false };
    if (wish === 'create') m.created++;
    else m.done = wish === 'done';
    meant.set(task, m);
  }
  /** @type {Map<string, Found[]>} */
  const there = new Map();
  for (const f of found) there.set(f.task, [...(there.get(f.task) ?? []), f]);

  /** @type {Verdict} */
  const verdict = { lost: [], doubled: [], reordered: [], foreign: [] };
  for (const [task, m] of meant) {
    const own = (there.get(task) ?? []).filter(f => f.person === m.person);
    if (own.length < m.created) verdict.lost.push(`${m.person}: ${task}: meant ${m.created}, found ${own.length}`);
    if (own.length > Math.max(m.created, 1)) verdict.doubled.push(`${m.person}: ${task}: meant ${m.created}, found ${own.length}`);
    for (const f of own) {
      if (f.done !== m.done) verdict.reordered.push(`${m.person}: ${task}: meant ${m.done ? 'done' : 'not done'}, found the contrary`);
    }
  }
  for (const f of found) {
    const m = meant.get(f.task);
    if (!m || m.person !== f.person) verdict.foreign.push(`${f.person} has ${f.task}${m ? `, which ${m.person} meant` : ', which nobody meant'}`);
  }
  return verdict;
}
