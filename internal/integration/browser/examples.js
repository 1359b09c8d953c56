// @ts-check
// An example of examples/outbox behind a bad network, in one tab.
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { BadNetwork } from './fault.js';
import { root, startProgram, startServer, tempFolder, until } from './processes.js';

/** @param {Uint8Array} bytes */
export const sha256 = bytes => createHash('sha256').update(bytes).digest('hex');

/** What is no text in any encoding, and differs at every place. @param {number} size */
export const photo = size => ({ name: 'Ёлка №7.jpg', type: 'image/jpeg', bytes: Buffer.concat([Buffer.from([0xff, 0xd8, 0, 0x80, 0x0a, 0x0d]), randomBytes(size - 6)]) });

export const waiting = 'One change is waiting for the network';

/**
 * The server of another kind: node's own.
 * @returns {Promise<{url: string, output: () => string, kill: () => Promise<void>}>}
 */
async function startNode() {
  const program = startProgram(process.execPath, [join(root, 'examples/outbox/fetch/server.js'), '127.0.0.1:0']);
  const url = await until('the node server listens', () => {
    if (!program.running()) throw new Error(program.output());
    return /http:\/\/[\d.:]+/.exec(program.output())?.[0];
  });
  return { url, output: program.output, kill: program.kill };
}

/**
 * The program that docs/outbox.md has its reader paste: with its file and htmx in a
 * folder of its own.
 */
export function startPasted() {
  const cwd = tempFolder();
  copyFileSync(join(root, 'examples/outbox/htmx/htmx2.min.js'), join(cwd, 'htmx.js'));
  return startServer('example-start', [], { cwd });
}

export class Example {
  /**
   * @param {{url: string, output: () => string, kill: () => Promise<void>}} server
   * @param {BadNetwork} network
   * @param {import('./engines.js').Context} context
   * @param {import('./tab.js').Tab} tab
   */
  constructor(server, network, context, tab) {
    this.server = server;
    this.network = network;
    this.context = context;
    this.tab = tab;
  }

  /**
   * @param {import('./engines.js').Browser} browser
   * @param {'htmx' | 'forms' | 'worker' | 'fetch'} name
   * @param {string[]} [args]
   */
  static async open(browser, name, args = []) {
    return Example.before(name === 'fetch' ? await startNode() : await startServer(`example-${name}`, args), browser);
  }

  /**
   * @param {{url: string, output: () => string, kill: () => Promise<void>}} server
   * @param {import('./engines.js').Browser} browser
   */
  static async before(server, browser) {
    const network = await BadNetwork.before(server.url);
    const context = await browser.newContext();
    return new Example(server, network, context, await context.newTab());
  }

  async close() {
    await this.context.close();
    await this.network.stop();
    await this.server.kill();
  }

  /** @param {string} path */
  async goto(path) {
    await this.tab.goto(this.network.url + path);
    await this.tab.controlled();
  }

  /** Every change is done, and its answer lost, until good() is said. @param {string} [fault] */
  async lose(fault = 'cut-after-forward') {
    await this.network.set({ plan: `POST /* -> ${fault}=1`, mode: 'plan' });
  }

  /**
   * The first two sends of a large body are done and their answers lost; no more of
   * them, for a driver is told of each and carries all its bytes.
   */
  async loseTwice() {
    await this.network.script('POST /* -> 502-after*2');
  }

  good() {
    return this.network.good();
  }

  /** @param {string | null} text */
  async strip(text) {
    const says = () => this.tab.eval(() => {
      const strip = document.querySelector('#outbox-strip');
      return (strip?.checkVisibility() && strip.querySelector('.outbox-text')?.textContent) || null;
    });
    await until(`the strip says ${text}`, async () => (await says()) === text, { timeout: 40_000 }).catch(async error => {
      const sends = (await this.network.changes()).slice(-5).map(e => `${e.path} ${e.mode} ${e.fate} ${e.status} ${e.ms}ms`);
      throw new Error(`it says ${await says()}; the last requests: ${sends.join(', ')}; ${await this.tab.eval(async () => JSON.stringify((await import(/** @type {string} */ ('/outbox/page.js'))).outbox.snapshot))}`, { cause: error });
    });
  }

  /** How often the server says that it did this. @param {string} line */
  did(line) {
    return this.server.output().split('\n').filter(l => l.endsWith(line)).length;
  }

  /**
   * One name from the first send to the last, and more than one of them.
   * @param {number} after of the log
   * @param {string} path
   */
  async oneName(after, path) {
    const sends = (await this.network.changes(after)).filter(e => e.path === path);
    const keys = new Set(sends.map(e => e.key));
    assert.ok(sends.length > 1, `${path} was sent ${sends.length} times`);
    assert.equal(keys.size, 1, `${path} had the names ${[...keys]}`);
    assert.ok(![...keys][0]?.includes('undefined') && [...keys][0]);
  }

  async seen() {
    return (await this.network.log()).at(-1)?.n ?? 0;
  }

  /** The sha256 of what the page gets there. @param {string} path */
  sum(path) {
    return this.tab.eval(async p => {
      const bytes = await (await fetch(p, { cache: 'no-store' })).arrayBuffer();
      return [...new Uint8Array(await crypto.subtle.digest('SHA-256', bytes))].map(b => b.toString(16).padStart(2, '0')).join('');
    }, path);
  }
}
