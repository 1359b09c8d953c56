// The engine under node, with a store in memory and a network that fails once.
import { verdict } from '@onceward/outbox/answer.js';
import { createOutbox } from '@onceward/outbox/engine.js';
import { speaker } from '@onceward/outbox/texts.js';
import { words } from '@onceward/outbox/words.ru.js';

let stored = { entries: [], meta: {} };
const bodies = new Map();
const store = {
  async change(fn) {
    const { put = [], del = [], bodies: more = [], meta, value } = fn(structuredClone(stored));
    const left = stored.entries.filter((e) => !del.includes(e.key) && !put.some((p) => p.key === e.key));
    stored = { entries: [...left, ...put].sort((a, b) => a.seq - b.seq), meta: meta ?? stored.meta };
    for (const [key, body] of more) bodies.set(key, body);
    return value;
  },
  read: async () => structuredClone(stored),
  body: async (key) => bodies.get(key) ?? null,
};
let last = Promise.resolve();
const locks = {
  request: (_, { ifAvailable }, fn) => (last = last.then(() => fn(true), () => fn(true))),
};
const sent = [];
async function network(url, { method, headers, body }) {
  sent.push([method, url, headers.get('Idempotency-Key'), new TextDecoder().decode(body)].join(' '));
  if (sent.length === 1) throw new TypeError('the answer is lost');
  return new Response('', { status: 201, headers: { 'Idempotency-Status': 'executed' } });
}
const outbox = createOutbox({ store, locks, fetch: network, tell() {}, random: () => 0 });
await outbox.greet({ owner: 'anna', since: 1 });
const { answer, done } = outbox.capture({
  key: 'k1', owner: 'anna', method: 'POST', url: '/notes', headers: [['content-type', 'text/plain']], body: new TextEncoder().encode('milk').buffer,
});
console.log((await answer).kind);
await done;
await outbox.flush(true);
console.log(sent.join(', '), stored.entries.length);
console.log(verdict({ status: 200, headers: new Headers() }), speaker('ru', words).say('waiting', 5));
