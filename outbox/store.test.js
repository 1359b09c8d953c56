// @ts-check
import { test } from 'node:test';
import { memory, memoryStore } from './memory.store.js';
import { storeContract } from './store.contract.js';

let disk = memory();
const cases = storeContract(async (fresh) => {
  if (fresh) disk = memory();
  return memoryStore(disk);
});
for (const [name, run] of Object.entries(cases)) test(`store in memory: ${name}`, run);
