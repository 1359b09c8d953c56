// @ts-check
// The bad network: `onceward fault` in front of a server, steered by its own
// control API.
import { startServer } from './processes.js';

/**
 * One request in the proxy's log (fault.Entry in Go).
 * @typedef {object} Entry
 * @property {number} n from 1, in the order of arrival
 * @property {string} time
 * @property {string} method
 * @property {string} path
 * @property {string} [query]
 * @property {string} [key] the header Idempotency-Key
 * @property {string} [_key] the field of a urlencoded body
 * @property {string} mode the fault in its text form
 * @property {string} fate
 * @property {number} forwarded how often the whole request was written to the server
 * @property {number[]} [upstream] the statuses that came back
 * @property {number} [status] what the client was given
 * @property {number} ms
 */

/**
 * @typedef {object} State
 * @property {string} mode
 * @property {number} requests
 * @property {number} open
 * @property {Record<string, number>} counts
 * @property {Record<string, number>} changing how many changing requests met each mode
 */

/**
 * @typedef {object} Change
 * @property {string} [mode] a fault for every request ('offline', 'blackhole', '502'), 'pass', or 'plan'
 * @property {string} [plan]
 * @property {number} [seed]
 * @property {string} [script] faults for the next requests, in order
 * @property {boolean} [cut] reset every open connection
 */

export class BadNetwork {
  /** @param {import('./processes.js').Server} server */
  constructor(server) {
    this.server = server;
    this.url = server.url;
  }

  /**
   * Starts the proxy in front of a server. Until something is set it passes
   * everything.
   * @param {string} to
   * @param {{plan?: string, seed?: number, args?: string[]}} [options]
   */
  static async before(to, { plan = 'pass', seed = 1, args = [] } = {}) {
    return new BadNetwork(
      await startServer('onceward', ['-to', to, '-plan', plan, '-seed', String(seed), ...args], { command: 'fault', flag: '-listen' }),
    );
  }

  /** @param {string} method @param {string} path @param {object} [body] */
  async #ask(method, path, body) {
    const answer = await fetch(`${this.url}/.fault${path}`, {
      method,
      body: body && JSON.stringify(body),
      signal: AbortSignal.timeout(10_000),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`fault: ${method} ${path}: ${answer.status} ${text}`);
    return text === '' ? undefined : JSON.parse(text);
  }

  /** @param {Change} change @returns {Promise<State>} */
  set(change) {
    return this.#ask('PUT', '', change);
  }

  /** Every request meets this, until it is changed. @param {string} mode */
  mode(mode) {
    return this.set({ mode });
  }

  /** The next requests meet these, one each. @param {string} script */
  script(script) {
    return this.set({ script });
  }

  /** A good network: no plan, no script, no mode. */
  good() {
    return this.set({ mode: 'pass', script: '', plan: 'pass' });
  }

  /** @returns {Promise<State>} */
  state() {
    return this.#ask('GET', '');
  }

  /** @param {number} [after] the number of an entry @returns {Promise<Entry[]>} */
  log(after = 0) {
    return this.#ask('GET', `/log?after=${after}`);
  }

  /**
   * The changing requests of the log that an outbox may have sent: not those to
   * /auth.
   * @param {number} [after]
   */
  async changes(after = 0) {
    const log = await this.log(after);
    return log.filter(e => !['GET', 'HEAD', 'OPTIONS'].includes(e.method) && !e.path.startsWith('/auth/'));
  }

  async clearLog() {
    await this.#ask('DELETE', '/log');
  }

  stop() {
    return this.server.kill();
  }
}
