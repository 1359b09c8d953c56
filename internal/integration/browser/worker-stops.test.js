// @ts-check
// A browser ends a service worker whenever it likes, also in the middle of a
// request. Chromium then asks the worker again, once, and the second time the
// page gets an error although the request lies safely in the store. Here the
// worker is ended at random during sixty taps over a bad network.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { IntentLog } from './intents.js';
import { sleep, until } from './processes.js';
import { Scene } from './scene.js';
import { expectTap, taps, watchTaps } from './settle.js';

const wanted = 60;
// No tap looks undecided for longer (the soft limit, and what the page needs).
const settles = 8500;
const faults =
  'refuse=0.08,half-request=0.05,cut-after-forward=0.12,cut-mid-body=0.05,502=0.06,502-after=0.06,503=0.03,blackhole=0.03:9s,duplicate=0.05,slow=0.3:400ms,slow-after=0.2:400ms';

/** @type {Scene} */
let scene;
before(async () => {
  scene = await Scene.open('chromium');
});
after(() => scene?.close());

/** The same taps and the same stops in each run. */
function random(seed = 20261129) {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

// B130, B143; W3, W8; outbox.md 0.1; scenarios 8 and 9.
test(`${wanted} taps while the worker is stopped at random have their effects, each is settled in time, and nobody sees an error`, async () => {
  const next = random();
  const anna = await scene.person();
  const { screen } = anna;
  const log = new IntentLog();
  const names = Array.from({ length: 8 }, (_, i) => `Задача ${i + 1}`);
  for (const task of names) {
    log.write({ person: anna.login, wish: 'create', task });
    await screen.add(task);
    await screen.shows(task, { state: '' });
  }
  await anna.database('all are there', tasks => tasks.length === names.length);
  await watchTaps(screen);
  const before = (await scene.network.state()).requests;

  await scene.network.set({ plan: faults, seed: 7, mode: 'plan' });
  let stops = 0;
  let added = 0;
  /** @type {Map<string, number>} when each row was pressed: the second press within half a second is part of the first */
  const pressed = new Map();
  for (let i = 0; i < wanted; i++) {
    if (next() < 0.25) {
      const task = `Новая ${++added}`;
      log.write({ person: anna.login, wish: 'create', task });
      await expectTap(screen, task);
      await screen.add(task);
    } else {
      // A done row leaves the list after eight seconds; nobody taps at its last moment.
      const since = (/** @type {string} */ title) => performance.now() - (pressed.get(title) ?? -Infinity);
      const rows = (await screen.rows()).filter(r => since(r.title) > 1000 && (!r.done || since(r.title) < 5000));
      const row = rows[Math.floor(next() * rows.length)];
      if (!row) {
        await sleep(200);
        i--;
        continue;
      }
      // What the row shows is what the tap turns round.
      log.write({ person: anna.login, wish: row.done ? 'undone' : 'done', task: row.title });
      await expectTap(screen, row.title, `#circle-${row.id}`);
      pressed.set(row.title, performance.now());
      const hit = await screen.press(`#circle-${row.id}`, row.done ? 3000 : undefined).then(() => true, error => {
        if (row.done) return false;
        throw error;
      });
      if (!hit) {
        // It left the list before the press: nothing was tapped, and it stays done.
        log.write({ person: anna.login, wish: 'done', task: row.title });
        i--;
        continue;
      }
    }
    if (next() < 0.6) {
      await sleep(next() * 350);
      await anna.chromium().stopWorkers();
      stops++;
    }
    // Now and then the line runs empty, or nearly all taps would stand behind one
    // that waits.
    if (next() < 0.3) await screen.drained(1500).catch(() => {});
    else await sleep(next() * 300);
  }
  await until('every tap is settled', async () => {
    const { open } = await taps(screen);
    if (open.length === 0) return true;
    throw new Error(open.join(', '));
  }, { timeout: 60_000 });
  const { settled, errors, trace } = await taps(screen);
  const late = settled.filter(s => s.ms > settles);
  if (late.length > 0 || errors.length > 0) console.log(trace.join('\n'));

  await scene.network.good();
  await screen.drained();
  const met = (await scene.network.changes(before)).filter(e => e.mode !== 'pass' && !/^slow[^+]*$/.test(e.mode));
  console.log(
    `taps ${settled.length}, worker stopped ${stops} times, faults met ${met.length}; ` +
      `shown ${settled.filter(s => s.how !== 'waiting').length}, waiting ${settled.filter(s => s.how === 'waiting').length}, ` +
      `the slowest settled in ${Math.max(...settled.map(s => s.ms))} ms`,
  );

  const found = (await anna.tasks()).map(t => ({ person: anna.login, task: t.title, done: t.is_completed === 1 }));
  assert.deepEqual(log.compare(found), { lost: [], doubled: [], reordered: [], foreign: [] });
  assert.equal(settled.length, wanted);
  assert.deepEqual(late, []);
  assert.deepEqual(errors, []);
  assert.ok(stops >= 20, `the worker was stopped ${stops} times only`);
  assert.ok(met.length >= 15, `only ${met.length} faults were met`);
});
