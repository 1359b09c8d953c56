// @ts-check
// The last step before the application, on a good wire: writes down what the
// application was asked and what it said that it had done, in the order in which
// it did it, and as whom. A bad network in front of it loses answers; here
// nothing is lost. On demand it gives out a file of the application otherwise than
// it is: another release of it, or one that is broken.
import { randomUUID } from 'node:crypto';
import { createServer, request } from 'node:http';

/**
 * What becomes of files on the way to the browser, by their path. A file whose
 * text it does not change is an error: the patch is for another release.
 *
 * @typedef {Record<string, (text: string) => string>} Patch
 */

/**
 * @typedef {object} Done a request that the application has answered
 * @property {number} n from 1, in the order of the answers
 * @property {number} at ms since 1970
 * @property {string} method
 * @property {string} path
 * @property {string} key
 * @property {Record<string, string>} form
 * @property {string} person whose session it came with, by the login that began the session; '' if nobody's
 * @property {number} status
 * @property {string} token the first word of Idempotency-Status: executed, replayed, …
 */

export class Upstream {
  /** @type {Done[]} every changing request that was answered */
  done = [];
  /** @type {Map<string, string>} */
  #sessions = new Map();
  #server = createServer();
  url = '';
  /** It may change while the application runs, as its files do when it is released anew. @type {Patch} */
  patch = {};
  /** What went wrong here, for tests to look at. @type {string[]} */
  wrong = [];
  /**
   * Answers a request itself, if it is a function that returns true.
   * @type {((req: import('node:http').IncomingMessage, res: import('node:http').ServerResponse) => boolean) | undefined}
   */
  own;

  /**
   * @param {string} to where the application listens
   * @param {{nameless?: boolean, patch?: Patch}} [options] nameless: takes every name from every request, the key and the id alike, and
   *   gives it one that nobody has used. The application then does what an
   *   application without a guard does; patch: see there
   */
  static async before(to, { nameless = false, patch = {} } = {}) {
    const upstream = new Upstream();
    upstream.patch = patch;
    const target = new URL(to);
    upstream.#server.on('request', (req, res) => upstream.#carry(target, nameless, req, res));
    await new Promise(resolve => upstream.#server.listen(0, '127.0.0.1', () => resolve(undefined)));
    const { port } = /** @type {import('node:net').AddressInfo} */ (upstream.#server.address());
    upstream.url = `http://127.0.0.1:${port}`;
    return upstream;
  }

  /** @param {Done} done */
  static effective(done) {
    return done.token === 'executed' && done.status < 400;
  }

  /**
   * @param {URL} target
   * @param {boolean} nameless
   * @param {import('node:http').IncomingMessage} req
   * @param {import('node:http').ServerResponse} res
   */
  #carry(target, nameless, req, res) {
    if (this.own?.(req, res)) return;
    const changing = !['GET', 'HEAD', 'OPTIONS'].includes(req.method ?? '');
    const headers = { ...req.headers };
    if (this.patch[pathOf(req)]) {
      // What the browser has kept may be another release's.
      delete headers['if-none-match'];
      headers['accept-encoding'] = 'identity';
    }
    const options = { host: target.hostname, port: target.port, method: req.method, path: req.url, headers, agent: false };
    /** @type {import('node:http').ClientRequest | undefined} */
    let up;
    /** @type {Buffer[]} */
    const body = [];
    const begin = () => {
      up = request(options);
      up.on('error', () => res.destroy());
      up.on('response', answer => {
        // Who sent it knows nothing of the other name, and would not take the answer for its own.
        const said = answer.headers['idempotency-status'];
        if (rename && said) answer.headers['idempotency-status'] = String(said).replace(/;\s*key="[^"]*"/, '');
        this.#answer(req, Buffer.concat(body), answer, res);
      });
      return up;
    };
    const rename = nameless && changing && /^\/tasks/.test(req.url ?? '');
    // Half a request reaches the application as half a request.
    if (!rename) begin();
    req.on('data', data => {
      body.push(data);
      up?.write(data);
    });
    req.on('end', () => {
      if (!rename) return up?.end();
      const form = new URLSearchParams(Buffer.concat(body).toString());
      const key = randomUUID();
      if (form.has('_key')) form.set('_key', key);
      if (form.has('id')) form.set('id', randomUUID());
      if (headers['idempotency-key']) headers['idempotency-key'] = key;
      const text = Buffer.from(form.toString());
      headers['content-length'] = String(text.length);
      begin().end(text);
    });
    req.on('close', () => req.complete || up?.destroy());
    req.on('error', () => up?.destroy());
  }

  /**
   * @param {import('node:http').IncomingMessage} req
   * @param {Buffer} body
   * @param {import('node:http').IncomingMessage} answer
   * @param {import('node:http').ServerResponse} res
   */
  #answer(req, body, answer, res) {
    const path = pathOf(req);
    const form = Object.fromEntries(new URLSearchParams(body.toString()));
    const session = (/** @type {string | undefined} */ cookies) => /planner_session=([^;]+)/.exec(cookies ?? '')?.[1] ?? '';
    if (path === '/auth/login' || path === '/auth/register') {
      for (const cookie of answer.headers['set-cookie'] ?? []) if (session(cookie)) this.#sessions.set(session(cookie), form.login);
    }
    const changing = !['GET', 'HEAD', 'OPTIONS'].includes(req.method ?? '');
    if (changing) {
      this.done.push({
        n: this.done.length + 1,
        at: Date.now(),
        method: req.method ?? '',
        path,
        key: String(req.headers['idempotency-key'] ?? ''),
        form,
        person: this.#sessions.get(session(req.headers.cookie)) ?? '',
        status: answer.statusCode ?? 0,
        token: String(answer.headers['idempotency-status'] ?? '').split(';')[0],
      });
    }
    const patch = this.patch[path];
    if (patch && answer.statusCode === 200) return this.#patched(path, patch, answer, res);
    res.writeHead(answer.statusCode ?? 502, answer.headers);
    answer.on('error', () => res.destroy());
    answer.pipe(res);
  }

  /**
   * @param {string} path
   * @param {(text: string) => string} patch
   * @param {import('node:http').IncomingMessage} answer
   * @param {import('node:http').ServerResponse} res
   */
  #patched(path, patch, answer, res) {
    /** @type {Buffer[]} */
    const parts = [];
    answer.on('error', () => res.destroy());
    answer.on('data', data => parts.push(data));
    answer.on('end', () => {
      const text = Buffer.concat(parts).toString();
      const other = patch(text);
      if (other === text) this.wrong.push(`the patch of ${path} finds nothing to change`);
      const { etag, 'content-length': _, ...headers } = answer.headers;
      res.writeHead(200, headers);
      res.end(other);
    });
  }

  async stop() {
    this.#server.closeAllConnections();
    await new Promise(resolve => this.#server.close(resolve));
  }
}

/** @param {import('node:http').IncomingMessage} req */
const pathOf = req => (req.url ?? '').split('?')[0];
