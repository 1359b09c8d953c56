// @ts-check
// A shopping list whose every change is answered as pages of htmx often do: with
// the whole list, with one row to be added, with nothing where the row was; and as
// plain forms do. It remembers its keys, so that a repeat has the first answer.
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { BadNetwork } from './fault.js';
import { root } from './processes.js';

const types = { js: 'text/javascript', css: 'text/css', html: 'text/html' };

export class LateList {
  /** @type {{id: number, text: string, bought: boolean}[]} */
  items = [];
  /** @type {string[]} what was done, in order */
  did = [];
  htmx = '2';
  /** The list's own attributes, and those of what asks. */
  list = 'id="list"';
  ask = 'hx-target="#list"';
  row = 'data-outbox-row';
  /** @type {Map<string, [number, Record<string, string>, string]>} */
  #seen = new Map();

  static async open() {
    const app = new LateList();
    app.server = createServer((request, answer) => {
      /** @type {Buffer[]} */
      const parts = [];
      request.on('data', d => parts.push(d));
      request.on('end', () => app.#serve(request, new URLSearchParams(Buffer.concat(parts).toString()), answer));
    });
    await new Promise(ok => app.server?.listen(0, '127.0.0.1', () => ok(0)));
    const { port } = /** @type {import('node:net').AddressInfo} */ (app.server.address());
    app.network = await BadNetwork.before(`http://127.0.0.1:${port}`);
    return app;
  }

  /** @type {import('node:http').Server | undefined} */
  server;
  /** @type {BadNetwork} */
  network = /** @type {any} */ (null);

  async close() {
    await this.network.stop();
    this.server?.closeAllConnections();
    this.server?.close();
  }

  /** @param {string[]} texts */
  start(...texts) {
    this.items = texts.map((text, id) => ({ id, text, bought: false }));
    this.did = [];
    Object.assign(this, { list: 'id="list"', ask: 'hx-target="#list"', row: 'data-outbox-row' });
  }

  /** @param {{id: number, text: string, bought: boolean}} i */
  #item = i => `<li id="item-${i.id}" ${this.row}>${i.bought ? '☑' : '☐'} ${i.text} <button class="buy" hx-post="/items/${i.id}/bought" ${this.ask}>Buy</button> <button class="drop" hx-delete="/items/${i.id}" hx-target="closest li" hx-swap="outerHTML">Drop</button>${['a', 'b'].map(text => ` <button class="say-${text}" hx-post="/items/${i.id}/text" hx-vals='{"text":"${text}"}' hx-target="closest li" hx-swap="outerHTML">${text}</button>`).join('')}</li>`;
  #items = () => this.items.map(this.#item).join('\n');

  #page = (owner = 'anna') => `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>List</title>
<meta name="outbox-config" content='{"worker":"/outbox/sw.js","scope":"/","softLimit":1500,"kickEvery":400,"backoff":200,"login":"/login"}'><meta name="outbox-owner" content="${owner}">
<script type="module" src="/outbox/page.js"></script><link rel="stylesheet" href="/outbox/kit.css"><script type="module" src="/outbox/kit.js"></script>
<script src="/htmx.js"></script></head><body>
<ul ${this.list}>${this.#items()}</ul>
<form id="add" hx-post="/items" ${this.ask}><input name="text"><button>Add</button></form>
<form id="more" hx-post="/items?one" hx-target="#list" hx-swap="beforeend"><input name="text"><button>Add</button></form>
<form id="plain" method="post" action="/plain"><input name="text"><button>Add</button></form>
<p id="count">${this.items.length}</p>
<form id="out" method="post" action="/logout" data-outbox="off" data-outbox-logout><button>Log out</button></form>
</body></html>`;

  /** @param {import('node:http').IncomingMessage} request @param {URLSearchParams} form @param {import('node:http').ServerResponse} answer */
  #serve({ method = '', url = '', headers }, form, answer) {
    const { pathname, searchParams } = new URL(url, 'http://x');
    /** @param {number} status @param {Record<string, string>} more @param {string} [body] */
    const send = (status, more, body = '') => answer.writeHead(status, { 'Cache-Control': 'no-cache', ...more }).end(body);
    const file = pathname.slice('/outbox/'.length);
    if (pathname === '/htmx.js') return send(200, { 'Content-Type': types.js }, readFileSync(join(root, `examples/outbox/htmx/htmx${this.htmx}.min.js`), 'utf8'));
    if (pathname === '/outbox/ping') return send(204, { 'Outbox-Status': 'pong' });
    if (pathname === '/outbox/queued') return send(200, { 'Content-Type': types.html }, '<!doctype html><title>Kept</title><h1>Kept</h1>');
    if (pathname.startsWith('/outbox/')) {
      const type = /** @type {'js' | 'css'} */ (file.split('.').at(-1));
      return send(200, { 'Content-Type': types[type], 'Service-Worker-Allowed': '/' }, readFileSync(join(root, 'outbox', file), 'utf8'));
    }
    if (method === 'GET') return send(200, { 'Content-Type': types.html }, pathname === '/empty' ? '<!doctype html><title>Empty</title>' : this.#page(pathname === '/login' ? '' : pathname === '/boris' ? 'boris' : 'anna'));
    if (pathname === '/logout') {
      this.did.push('logged out');
      return send(303, { Location: '/empty' });
    }
    const key = String(headers['idempotency-key'] ?? form.get('_key'));
    const known = this.#seen.get(key);
    if (known) return send(known[0], { ...known[1], 'Idempotency-Status': 'replayed' }, known[2]);
    const [status, more, body] = this.#change(method, pathname, searchParams, form);
    this.#seen.set(key, [status, more, body]);
    send(status, { ...more, 'Idempotency-Status': 'executed' }, body);
  }

  /** @param {string} method @param {string} path @param {URLSearchParams} search @param {URLSearchParams} form @returns {[number, Record<string, string>, string]} */
  #change(method, path, search, form) {
    const html = { 'Content-Type': 'text/html; charset=utf-8' };
    const id = Number(path.split('/')[2]);
    if (method === 'DELETE') {
      this.did.push(`dropped ${id}`);
      this.items = this.items.filter(i => i.id !== id);
      return [200, {}, ''];
    }
    if (path.endsWith('/bought')) {
      this.did.push(`bought ${id}`);
      for (const i of this.items) i.bought ||= i.id === id;
      return [200, html, this.#items()];
    }
    const text = form.get('text') ?? '';
    if (path.endsWith('/text')) {
      this.did.push(`said ${text}`);
      const [item] = this.items.filter(i => i.id === id);
      item.text = text;
      return [200, html, this.#item(item)];
    }
    this.did.push(`added ${text}`);
    const item = { id: this.items.length, text, bought: false };
    this.items.push(item);
    if (path === '/plain') return [200, { 'Outbox-Location': '/' }, ''];
    if (!search.has('one')) return [200, html, this.#items()];
    return [200, html, `${this.#item(item)}<p id="count" hx-swap-oob="true">${this.items.length}</p>`];
  }
}
