// @ts-check
// The outbox as a service worker of its own.

import { keepScripts } from './scripts.js';
import { attach } from './worker.js';

attach(self);
keepScripts(self);
