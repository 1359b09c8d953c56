// @ts-check
// Programs that the tests run: built once, started on ports that the system
// chose, stopped by their own process id.
import { execFile, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** The repository's folder. */
export const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..', '..');

/** @type {Set<import('node:child_process').ChildProcess>} */
const children = new Set();
/** @type {Set<string>} */
const folders = new Set();

/** A temporary folder that is gone when this process is. */
export function tempFolder(name = 'onceward-') {
  const folder = mkdtempSync(join(tmpdir(), name));
  folders.add(folder);
  return folder;
}

/**
 * Ends a child's whole process group: browsers have children of their own.
 * @param {import('node:child_process').ChildProcess} child
 * @param {NodeJS.Signals} signal
 */
export function signalGroup(child, signal) {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, signal);
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code !== 'ESRCH') throw error;
  }
}

function endAll() {
  for (const child of children) signalGroup(child, 'SIGKILL');
  for (const folder of folders) rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
}
process.on('exit', endAll);
for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP'])) {
  process.on(signal, () => process.exit(1));
}

/** @param {number} ms */
export const sleep = ms => new Promise(resolve => setTimeout(resolve, ms));

/**
 * Asks until the answer is truthy. An error counts as "not yet"; the last one is
 * part of what is thrown when the time is over.
 * @template T
 * @param {string} what for the error's text
 * @param {() => T | Promise<T>} question
 * @param {{timeout?: number, every?: number}} [options]
 * @returns {Promise<NonNullable<T>>}
 */
export async function until(what, question, { timeout = 15_000, every = 50 } = {}) {
  const end = performance.now() + timeout;
  let last;
  for (;;) {
    try {
      last = await question();
      if (last) return /** @type {NonNullable<T>} */ (last);
    } catch (error) {
      last = error;
    }
    if (performance.now() > end) {
      const seen = last instanceof Error ? last.stack : JSON.stringify(last);
      throw new Error(`after ${timeout} ms still not: ${what} (last: ${seen})`);
    }
    await sleep(every);
  }
}

/**
 * The same object, whose functions reject when they have not answered in time. A
 * driver waits for a page that hangs without an end, and a test with it.
 * @template {object} T
 * @param {string} name for the error's text
 * @param {T} object
 * @param {number} [limit] ms
 * @returns {T}
 */
export function bounded(name, object, limit = 90_000) {
  return new Proxy(object, {
    get(target, property) {
      const value = Reflect.get(target, property);
      if (typeof value !== 'function') return value;
      return (/** @type {any[]} */ ...args) => {
        const answer = value.apply(target, args);
        return answer instanceof Promise ? inTime(`${name}.${String(property)}`, answer, limit) : answer;
      };
    },
  });
}

/**
 * @template T
 * @param {string} what
 * @param {Promise<T>} answer
 * @param {number} limit ms
 * @returns {Promise<T>}
 */
function inTime(what, answer, limit) {
  /** @type {NodeJS.Timeout} */
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} has not answered for ${limit} ms`)), limit);
  });
  return /** @type {Promise<T>} */ (Promise.race([answer, late])).finally(() => clearTimeout(timer));
}

/**
 * A program that runs.
 * @typedef {object} Program
 * @property {number} pid
 * @property {() => string} output all that it has written
 * @property {Promise<number | NodeJS.Signals>} ended its status, or the signal that ended it
 * @property {() => boolean} running
 * @property {(signal?: NodeJS.Signals, limit?: number) => Promise<number | NodeJS.Signals>} stop
 *   asks it to stop (SIGTERM) and waits; past the limit (ms) it is killed, which is an error
 * @property {() => Promise<void>} kill SIGKILL, at once
 */

/**
 * Starts a program in a process group of its own.
 * @param {string} file
 * @param {string[]} args
 * @param {{env?: Record<string, string>, cwd?: string, stdio?: any[]}} [options]
 * @returns {Program & {child: import('node:child_process').ChildProcess}}
 */
export function startProgram(file, args, options = {}) {
  const child = spawn(file, args, {
    cwd: options.cwd,
    env: { ...process.env, ...options.env },
    stdio: /** @type {any} */ (options.stdio ?? ['ignore', 'pipe', 'pipe']),
    detached: true,
  });
  children.add(child);
  let said = '';
  const keep = (/** @type {Buffer} */ data) => {
    said = (said + data.toString()).slice(-200_000);
  };
  child.stdout?.on('data', keep);
  child.stderr?.on('data', keep);
  let alive = true;
  /** @type {Promise<number | NodeJS.Signals>} */
  const ended = new Promise(resolve => {
    child.on('error', error => {
      alive = false;
      keep(Buffer.from(`${file}: ${error.message}\n`));
      children.delete(child);
      resolve(-1);
    });
    child.on('exit', (status, signal) => {
      alive = false;
      signalGroup(child, 'SIGKILL'); // whatever it left behind
      children.delete(child);
      resolve(signal ?? status ?? -1);
    });
  });
  return {
    child,
    pid: child.pid ?? -1,
    ended,
    output: () => said,
    running: () => alive,
    async stop(signal = 'SIGTERM', limit = 15_000) {
      if (alive) child.kill(signal);
      const late = Symbol('late');
      const how = await Promise.race([ended, sleep(limit).then(() => late)]);
      if (how === late) {
        signalGroup(child, 'SIGKILL');
        await ended;
        throw new Error(`${file} did not stop within ${limit} ms\n${said}`);
      }
      return /** @type {number | NodeJS.Signals} */ (how);
    },
    async kill() {
      if (alive) signalGroup(child, 'SIGKILL');
      await ended;
    },
  };
}

/** What can be built, by the name of its binary. */
const commands = {
  planner: './planner',
  onceward: './cmd/onceward',
  orders: './examples/orders',
  sqlq: './internal/integration/cmd/sqlq',
  naive: './internal/integration/cmd/naive',
  parcels: './internal/integration/cmd/parcels',
  'example-start': './examples/outbox/start',
  'example-htmx': './examples/outbox/htmx',
  'example-forms': './examples/outbox/forms',
  'example-worker': './examples/outbox/worker',
  shelf: './internal/integration/cmd/shelf',
};

/** @type {Map<string, Promise<string>>} */
const built = new Map();
/** @type {string | undefined} */
let binaries;

/**
 * The path of a command's binary, which is built when it is first asked for. In
 * one run of the suite all test files share the binaries.
 * @param {keyof typeof commands} name
 * @returns {Promise<string>}
 */
export function binary(name) {
  binaries ??= process.env.ONCEWARD_SUITE ? join(tmpdir(), 'bin') : tempFolder('onceward-bin-');
  const path = join(binaries, name);
  let build = built.get(name);
  if (!build) {
    build = existsSync(path) ? Promise.resolve(path) : run('go', ['build', '-o', path, commands[name]], { cwd: root }).then(() => path);
    built.set(name, build);
  }
  return build;
}

/**
 * A server that runs and can come back on the same port.
 * @typedef {object} Server
 * @property {string} url without a slash at the end
 * @property {number} port
 * @property {() => Program} program the one that runs now
 * @property {() => Promise<void>} start again, on the same port
 * @property {(limit?: number) => Promise<void>} stop SIGTERM; an exit status that is not 0 is an error
 * @property {() => Promise<void>} kill
 * @property {() => string} output of all its runs
 */

/**
 * Starts one of our servers, which take -addr and print where they listen.
 * @param {keyof typeof commands} name
 * @param {string[]} args without -addr
 * @param {{command?: string, env?: Record<string, string>, cwd?: string, flag?: string}} [options]
 *   command: a subcommand before the flags; flag: what the address's flag is called
 * @returns {Promise<Server>}
 */
export async function startServer(name, args, options = {}) {
  const file = await binary(name);
  const before = options.command ? [options.command] : [];
  let said = '';
  /** @param {string} address */
  const start = async address => {
    const program = startProgram(file, [...before, options.flag ?? '-addr', address, ...args], options);
    const url = await until(
      `${name} is listening`,
      () => {
        const found = /(http:\/\/127\.0\.0\.1:\d+)/.exec(program.output());
        if (!found && !program.running()) throw new Error(`it ended:\n${program.output()}`);
        return found?.[1];
      },
      { timeout: 30_000, every: 20 },
    ).catch(async error => {
      await program.kill();
      throw error;
    });
    return { program, url: url.replace(/\/$/, '') };
  };
  let { program, url } = await start('127.0.0.1:0');
  return {
    url,
    port: Number(new URL(url).port),
    program: () => program,
    async start() {
      said += program.output();
      ({ program } = await start(new URL(url).host));
    },
    async stop(limit) {
      const how = await program.stop('SIGTERM', limit);
      if (how !== 0) throw new Error(`${name} ended with ${how}\n${program.output()}`);
    },
    async kill() {
      await program.kill();
    },
    output: () => said + program.output(),
  };
}

/**
 * Asks an SQLite file, read-only, while its server runs or after.
 * @param {string} file
 * @param {string} query
 * @param {...(string|number)} args
 * @returns {Promise<Record<string, any>[]>} one object per row
 */
export async function sql(file, query, ...args) {
  const { stdout } = await run(await binary('sqlq'), [file, query, ...args.map(String)], { maxBuffer: 1 << 28 });
  return JSON.parse(stdout);
}

/**
 * A port that was free a moment ago, for programs that cannot choose their own.
 * @returns {Promise<number>}
 */
export function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
      server.close(() => resolve(port));
    });
  });
}
