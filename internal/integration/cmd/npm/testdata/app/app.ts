// An app of somebody who has installed the package.
import { outbox } from '@onceward/outbox';
import { outbox as same } from '/outbox/page.js';
import { attach } from '@onceward/outbox/worker.js';
import { open, refresh } from '@onceward/outbox/kit.js';
import { speaker } from '@onceward/outbox/texts.js';
import { words } from '@onceward/outbox/words.ru.js';
import { createOutbox } from '@onceward/outbox/engine.js';
import { idbStore } from '@onceward/outbox/idb.js';
import { verdict } from '@onceward/outbox/answer.js';
import type { Entry, Store, Verdict } from '@onceward/outbox/types';

declare const self: unknown;

export async function save(text: string): Promise<boolean> {
  const answer: Response = await outbox.fetch('/notes', { method: 'POST', body: text, label: text, el: 'notes' });
  return answer.ok;
}

outbox.addEventListener('change', () => {
  const pending: number = same.snapshot.pending;
  const states: Entry['state'][] = outbox.snapshot.entries.map((e) => e.state);
  console.log(pending, states);
});

document.addEventListener('outbox:delivered', (event) => {
  const key: string = event.detail.key;
  const status: number = event.detail.status;
  console.log(key, status);
});

attach(self, { deny: /^\/pay(\/|$)/, softLimit: 3_000, ack: { header: 'X-Saved', values: ['yes'] } });
open();
refresh();
const line: string = speaker('ru', words).say('waiting', 5);
const store: Store = idbStore('outbox');
createOutbox({ store, fetch, locks: navigator.locks as any, tell: (message) => console.log(message, line) });
const v: Verdict = verdict({ status: 200, headers: new Headers() });
console.log(v);

// @ts-expect-error: there is no such method
outbox.send();
// @ts-expect-error: a label is a text
void outbox.fetch('/notes', { method: 'POST', label: 1 });
// @ts-expect-error: of an event there is no such thing
document.addEventListener('outbox:queued', (event) => event.detail.nothing);
// @ts-expect-error: there is no such option
attach(self, { softlimit: 3_000 });
