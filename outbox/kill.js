// @ts-check
// Served in sw.js's place by a site that wants to be rid of the outbox: sends
// what is left, then unregisters itself.

import { attach } from './worker.js';

const worker = /** @type {any} */ (self);
const outbox = attach(worker, { kill: true });
worker.addEventListener('activate', () => void outbox.flush(true).then(() => worker.caches.delete('outbox')).finally(() => worker.registration.unregister()));
