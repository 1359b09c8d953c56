// @ts-check
// WebKitGTK, driven by plain WebDriver (https://www.w3.org/TR/webdriver2/). A
// session of it is ephemeral, like a private window: nothing outlives it.
import { globOne, onPath } from './engines.js';
import { bounded, freePort, sleep, startProgram, tempFolder, until } from './processes.js';
import { Tab } from './tab.js';

const elementKey = 'element-6066-11e4-a52e-4f735466cecf';

/** One screen for all sessions of this process. @type {Promise<string> | undefined} */
let screen;

function display() {
  screen ??= (async () => {
    const program = startProgram(onPath('Xvfb'), ['-displayfd', '3', '-screen', '0', '1280x1000x24', '-nolisten', 'tcp'], {
      stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
    });
    let said = '';
    const numbers = /** @type {import('node:net').Socket} */ (program.child.stdio[3]);
    numbers.on('data', data => (said += data));
    const number = await until('Xvfb says its display', () => {
      if (!program.running()) throw new Error(program.output());
      return /^(\d+)\n/.exec(said)?.[1];
    });
    // It lives as long as this process, and does not keep it alive.
    program.child.unref();
    for (const pipe of program.child.stdio) /** @type {import('node:net').Socket | null} */ (pipe)?.unref?.();
    return `:${number}`;
  })();
  return screen;
}

/**
 * A driver has one session only, so every person gets a browser of their own; this
 * one's own is started when it is asked for a tab.
 * @returns {Promise<import('./engines.js').Browser>}
 */
export async function openWebKit() {
  /** @type {ReturnType<typeof newSession> | undefined} */
  let started;
  const own = () => (started ??= newSession());
  /** A driver that is left running keeps this process from ending. @type {Awaited<ReturnType<typeof newSession>>[]} */
  const contexts = [];
  let pid = -1;
  return {
    engine: 'webkit',
    profile: undefined,
    get pid() {
      return pid;
    },
    newTab: async () => {
      const session = await own();
      pid = session.pid;
      return session.newTab();
    },
    cookies: async () => (await own()).cookies(),
    setCookie: async cookie => (await own()).setCookie(cookie),
    clearCookies: async () => (await own()).clearCookies(),
    newContext: async () => {
      const session = await newSession();
      contexts.push(session);
      return bounded('webkit context', session);
    },
    kill: async () => (await started)?.kill(),
    close: async () => {
      for (const session of [...contexts, await started]) await session?.close();
    },
  };
}

/** The browser itself. */
export function miniBrowser() {
  const [file] = globOne('/usr/lib/*/webkit2gtk-4.1/MiniBrowser');
  if (!file) throw new Error('MiniBrowser of WebKitGTK 4.1 is missing: make install');
  return file;
}

/** What it needs to be told by its surroundings. @param {string} home where it keeps everything */
export async function environment(home) {
  return {
    DISPLAY: await display(),
    WEBKIT_DISABLE_SANDBOX_THIS_IS_DANGEROUS: '1',
    WEBKIT_DISABLE_COMPOSITING_MODE: '1',
    LIBGL_ALWAYS_SOFTWARE: '1',
    NO_AT_BRIDGE: '1',
    GTK_A11Y: 'none',
    HOME: home,
    XDG_CACHE_HOME: home,
    XDG_CONFIG_HOME: home,
    XDG_DATA_HOME: home,
    LC_ALL: 'en_US.UTF-8',
  };
}

async function newSession() {
  const home = tempFolder('onceward-webkit-');
  const port = await freePort();
  const program = startProgram(onPath('WebKitWebDriver'), ['-p', String(port)], {
    env: await environment(home),
  });

  /**
   * @param {string} method
   * @param {string} path
   * @param {object} [body]
   * @param {number} [timeout]
   */
  async function ask(method, path, body, timeout = 60_000) {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, {
      method,
      body: method === 'POST' ? JSON.stringify(body ?? {}) : undefined,
      signal: AbortSignal.timeout(timeout),
    });
    const { value } = /** @type {{value: any}} */ (await answer.json());
    if (!answer.ok) throw new Error(`WebDriver ${method} ${path}: ${value?.error}: ${value?.message}`);
    return value;
  }

  await until('WebKitWebDriver answers', async () => {
    if (!program.running()) throw new Error(program.output());
    return (await ask('GET', '/status', undefined, 1000)).ready;
  });
  const { sessionId } = await ask('POST', '/session', {
    capabilities: {
      alwaysMatch: {
        pageLoadStrategy: 'normal',
        'webkitgtk:browserOptions': { binary: miniBrowser(), args: ['--automation', '--geometry=1000x900'] },
      },
    },
  });
  const base = `/session/${sessionId}`;
  await ask('POST', `${base}/timeouts`, { script: 60_000, pageLoad: 30_000 });

  /** Commands go to the current window, so one tab's turn is not interrupted. */
  let turn = Promise.resolve();
  let current = '';
  /**
   * @template T
   * @param {string} handle
   * @param {(ask: (method: string, path: string, body?: object, timeout?: number) => Promise<any>) => Promise<T>} work
   * @returns {Promise<T>}
   */
  function inWindow(handle, work) {
    const result = turn.then(async () => {
      if (current !== handle) {
        await ask('POST', `${base}/window`, { handle });
        current = handle;
      }
      return work((method, path, body, timeout) => ask(method, base + path, body, timeout));
    });
    turn = result.then(
      () => {},
      () => {},
    );
    return result;
  }

  let fresh = true;
  return {
    pid: program.pid,
    async newTab() {
      let handle;
      if (fresh) {
        handle = await ask('GET', `${base}/window`);
        current = handle;
        fresh = false;
      } else {
        // A tab beside the first one is never shown, and what is pressed in it is
        // waited for without an end. A window is.
        ({ handle } = await inWindow(current, at => at('POST', '/window/new', { type: 'window' })));
      }
      return new Tab(rawTab(handle, inWindow));
    },
    async cookies() {
      const list = await inWindow(current, at => at('GET', '/cookie'));
      return list.map((/** @type {any} */ c) => ({ name: c.name, value: c.value }));
    },
    /** @param {{name: string, value: string}} cookie */
    setCookie: ({ name, value }) =>
      inWindow(current, at => at('POST', '/cookie', { cookie: { name, value, path: '/', httpOnly: true, sameSite: 'Lax' } })),
    clearCookies: () => inWindow(current, at => at('DELETE', '/cookie')),
    kill: () => program.kill(),
    async close() {
      if (!program.running()) return;
      await Promise.race([ask('DELETE', base).catch(() => {}), sleep(5000)]);
      await program.stop('SIGTERM', 5000).catch(() => program.kill());
    },
  };
}

/**
 * @param {string} handle
 * @param {<T>(handle: string, work: (ask: (method: string, path: string, body?: object, timeout?: number) => Promise<any>) => Promise<T>) => Promise<T>} inWindow
 * @returns {import('./tab.js').RawTab}
 */
function rawTab(handle, inWindow) {
  /** @type {Record<string, string>} */
  const keys = { Enter: '\uE007', Escape: '\uE00C', Tab: '\uE004', Space: ' ', Backspace: '\uE003' };
  const down = { type: 'pointerDown', button: 0 };
  const up = { type: 'pointerUp', button: 0 };
  /** @type {import('./tab.js').RawTab} */
  const raw = {
    async evaluate(expression) {
      const answer = await inWindow(handle, at =>
        at('POST', '/execute/async', {
          script: `const done = arguments[0];
            Promise.resolve().then(() => (${expression})).then(value => done({ value }), error => done({ error: String(error) + '\\n' + (error && error.stack) }));`,
          args: [],
        }),
      );
      if (answer?.error !== undefined) throw new Error(answer.error);
      return answer?.value;
    },
    goto: (url, timeout) => inWindow(handle, at => at('POST', '/url', { url }, timeout)),
    reload: timeout => inWindow(handle, at => at('POST', '/refresh', {}, timeout)),
    async press(x, y, pauses) {
      /** @type {object[]} */
      const actions = [{ type: 'pointerMove', duration: 0, origin: 'viewport', x, y }, down, up];
      for (const pause of pauses) actions.push({ type: 'pause', duration: pause }, down, up);
      await inWindow(handle, at =>
        at('POST', '/actions', { actions: [{ type: 'pointer', id: 'mouse', parameters: { pointerType: 'mouse' }, actions }] }),
      );
    },
    async keys(text) {
      await inWindow(handle, async at => {
        const active = await at('GET', '/element/active');
        await at('POST', `/element/${active[elementKey]}/value`, { text });
      });
    },
    key: name => raw.keys(keys[name]),
    async screenshot() {
      return Buffer.from(await inWindow(handle, at => at('GET', '/screenshot')), 'base64');
    },
    async resize(width, height) {
      // The window has a frame; what is asked for is the viewport.
      await inWindow(handle, async at => {
        const size = await at('POST', '/execute/sync', { script: 'return [outerWidth - innerWidth, outerHeight - innerHeight]', args: [] });
        await at('POST', '/window/rect', { width: width + size[0], height: height + size[1] });
      });
    },
    front: () => inWindow(handle, async () => {}),
    close: () => inWindow(handle, at => at('DELETE', '/window')),
  };
  return raw;
}
