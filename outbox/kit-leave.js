// @ts-check
// What shall become of what waits, when the person logs out? Loaded by pages that
// have a way out.
import { outbox } from './page.js';

/**
 * @param {import('./kit.js').Kit} kit
 * @param {() => void} go out
 */
export function askToLeave({ button, entries, make, makeDialog, makeStatus, say, show }, go) {
  const note = makeStatus('note');
  const keep = () => {
    ask.close();
    // By then it is no second tap.
    setTimeout(go, 500);
  };
  const send = async () => {
    note.textContent = say('sending');
    outbox.flush();
    for (let i = 0; i < 50 && entries().some((e) => e.state === 'waiting' || e.state === 'sending'); i++) {
      await new Promise((ok) => setTimeout(ok, 200));
    }
    if (entries().length) note.textContent = say('leave.failed');
    else if (ask.open) keep();
  };
  const drop = async () => {
    const ends = await Promise.all(entries().map((e) => outbox.discard(e.key)));
    if (ends.includes('sending')) note.textContent = say('away');
    else keep();
  };
  const all = Object.entries({ send, keep, drop, stay: () => ask.close() });
  const ask = makeDialog('leave', note, make('div', 'actions outbox-column', ...all.map(([name, act]) => button(`leave.${name}`, act))));
  ask.onclose = () => ask.remove();
  document.body.append(ask);
  show(ask);
}
