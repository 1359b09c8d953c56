// @ts-check
// A browser without a driver: a page that drives itself. WebKitGTK's sessions under
// automation keep nothing, so what outlives a kill can be seen only in its
// MiniBrowser as a person starts it, whose pages nobody outside can ask. So each
// page carries a script that asks this process what to do next, and says what came
// of it. Input is the page's own (`click()`), for there is nobody to press a key.
import { environment, miniBrowser } from './webkit.js';
import { startProgram, until } from './processes.js';
import { Tab, leave } from './tab.js';

/** How long a page has for one command: one that was left has no answer. */
const patience = 10_000;

/**
 * Gives every page of these paths the script, and answers it.
 * @param {import('./upstream.js').Upstream} upstream through which the pages come
 * @param {string[]} paths
 */
export function drive(upstream, paths) {
  /** @type {{n: number, expression: string, settle: (answer: {value?: any, error?: string}) => void} | undefined} */
  let command;
  let n = 0;
  /** Pages that wait for a command. @type {Set<import('node:http').ServerResponse>} */
  const idle = new Set();

  function hand() {
    if (!command) return;
    for (const res of idle) {
      res.writeHead(200, { 'Content-Type': 'application/json', 'Cache-Control': 'no-store' }).end(String(command.n));
    }
    idle.clear();
  }

  for (const path of paths) upstream.patch[path] = text => text.replace('</head>', '<script type="module" src="/.drive/page.js"></script></head>');
  upstream.own = (req, res) => {
    const { pathname, searchParams } = new URL(req.url ?? '/', 'http://x');
    if (!pathname.startsWith('/.drive/')) return false;
    const script = (/** @type {string} */ text) => res.writeHead(200, { 'Content-Type': 'text/javascript', 'Cache-Control': 'no-store' }).end(text);
    const name = pathname.slice('/.drive/'.length);
    if (name === 'page.js') script(page);
    else if (name === 'next') {
      idle.add(res);
      res.on('close', () => idle.delete(res));
      if (command && Number(searchParams.get('after')) < command.n) hand();
    } else if (name === 'said') {
      let body = '';
      req.on('data', data => (body += data));
      req.on('end', () => {
        if (command && Number(searchParams.get('n')) === command.n) {
          const { settle } = command;
          command = undefined;
          settle(JSON.parse(body));
        }
        res.writeHead(204).end();
      });
    } else if (command && name === `${command.n}.js`) script(`export default () => (${command.expression});`);
    else res.writeHead(404).end();
    return true;
  };

  let turn = Promise.resolve();
  /** @param {string} expression */
  async function once(expression) {
    const mine = ++n;
    /** @type {NodeJS.Timeout | undefined} */
    let timer;
    /** @type {{value?: any, error?: string}} */
    const answer = await Promise.race([
      new Promise(settle => {
        command = { n: mine, expression, settle };
        hand();
      }),
      new Promise(settle => (timer = setTimeout(settle, patience, { error: `the page has not answered for ${patience} ms` }))),
    ]);
    clearTimeout(timer);
    if (command?.n === mine) command = undefined;
    if (answer.error !== undefined) throw new Error(answer.error);
    return answer.value;
  }
  /** @param {string} expression */
  const evaluate = expression => {
    const result = turn.then(() => once(expression));
    turn = result.then(() => {}, () => {});
    return result;
  };
  return { tab: new Tab(rawTab(evaluate)), evaluate };
}

/** What each page runs. No policy of a page lets it run a text, so a command is a module. */
const page = `
let after = 0;
for (;;) {
  try {
    const n = await (await fetch('/.drive/next?after=' + after, { cache: 'no-store' })).json();
    after = n;
    const answer = await import('/.drive/' + n + '.js').then(m => m.default()).then(value => ({ value }), e => ({ error: String(e && e.stack || e) }));
    await fetch('/.drive/said?n=' + n, { method: 'POST', keepalive: true, body: JSON.stringify(answer) });
  } catch {
    await new Promise(ok => setTimeout(ok, 100));
  }
}`;

/**
 * @param {(expression: string) => Promise<any>} evaluate
 * @returns {import('./tab.js').RawTab}
 */
function rawTab(evaluate) {
  const no = (/** @type {string} */ what) => async () => {
    throw new Error(`a page that drives itself cannot ${what}`);
  };
  /** @type {Record<string, string>} */
  const keys = {
    Enter: `document.activeElement.form.requestSubmit()`,
    Backspace: `document.execCommand('delete')`,
  };
  const raw = {
    evaluate,
    goto: (/** @type {string} */ url, /** @type {number} */ timeout) => leave(raw, `location.assign(${JSON.stringify(url)})`, timeout),
    reload: (/** @type {number} */ timeout) => leave(raw, 'location.reload()', timeout),
    press: (/** @type {number} */ x, /** @type {number} */ y) =>
      evaluate(`(() => {
        const hit = document.elementFromPoint(${x}, ${y});
        const at = hit?.closest('button, a, input, textarea, summary, label') ?? hit;
        at?.focus?.();
        // The answer must be on its way before the page is left.
        setTimeout(() => at?.click());
        return null;
      })()`),
    keys: (/** @type {string} */ text) => evaluate(`(document.execCommand('insertText', false, ${JSON.stringify(text)}), null)`),
    key: (/** @type {string} */ name) => evaluate(`(setTimeout(() => { ${keys[name]} }), null)`),
    screenshot: /** @type {any} */ (no('take a picture')),
    resize: no('be resized'),
    front: async () => {},
    close: no('be closed'),
  };
  return raw;
}

/**
 * Starts MiniBrowser as a person does, with everything that it keeps in one folder.
 * @param {string} url
 * @param {string} home
 */
export async function openMiniBrowser(url, home) {
  const program = startProgram(miniBrowser(), ['--geometry=1000x900', url], { env: await environment(home) });
  await until('MiniBrowser runs', () => {
    if (!program.running()) throw new Error(program.output());
    return true;
  });
  return program;
}
