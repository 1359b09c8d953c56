// @ts-check
// The outbox as a service worker of its own.

import { attach } from './worker.js';

attach(self);
