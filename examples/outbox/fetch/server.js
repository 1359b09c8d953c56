// A list of notes whose server is not Onceward's: plain node, no packages. It
// remembers by itself which keys it has seen, and says X-Saved: yes to what it
// has saved; that is all the browser's half asks of a server.
//
//   node examples/outbox/fetch/server.js [address]
import { createHash, createHmac, randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';

const packaged = process.env.OUTBOX ?? new URL('../../../outbox/', import.meta.url).pathname; // or node_modules/@onceward/outbox/

// docs: fetch: whose a note is
/** Whose session it is; '' is nobody. Here there are no accounts, and everybody is one person. */
const who = (request) => 'everybody';

const secret = randomBytes(32); // in life kept, for what waits in a browser bears a tag made of it

/** What the browser may know of a person; '' is nobody. */
const tag = (person) => person && createHmac('sha256', secret).update(person).digest('base64url');

function show(request, answer) {
  const html = readFileSync(new URL('index.html', import.meta.url), 'utf8');
  send(answer, 200, { 'Content-Type': 'text/html; charset=utf-8' }, html.replace('OWNER', tag(who(request))));
}

// docs: fetch: the server
/** What was answered under each key, of each person: in life in the database, with the note. */
const seen = new Map();
const notes = [];

/** Saves a note, once for each key; answers what it answered then. */
function save(person, key, body) {
  const name = JSON.stringify([person, key]);
  if (!seen.has(name)) {
    const ok = body.length > 0;
    if (ok) notes.push(body);
    if (ok) console.log(`saved ${body.length} bytes`);
    seen.set(name, { body, status: ok ? 201 : 422, said: ok ? { saved: true } : { detail: 'The note is empty.' } });
  }
  const first = seen.get(name);
  return first.body.equals(body) ? first : { status: 422, said: { detail: 'This key was used for another note.' } };
}

function post(request, answer, body) {
  const person = who(request);
  if (!person) return send(answer, 401, { 'Outbox-Status': 'auth' }); // log in again; it waits
  // An entry of somebody else, who used this browser before: not to be done now.
  if (request.headers['outbox-owner'] !== tag(person)) return send(answer, 412, { 'Outbox-Status': 'owner' });
  const { status, said } = save(person, request.headers['idempotency-key'], body);
  // Saved, or refused for good: the browser may forget it. No other answer has this line.
  send(answer, status, { 'X-Saved': 'yes', 'Content-Type': 'application/json' }, JSON.stringify(said));
}
// docs: end

/** A note as the page shows it. */
const shown = (note) => ({ size: note.length, sha256: createHash('sha256').update(note).digest('hex'), text: note.toString('utf8', 0, 200) });

function send(answer, status, headers, body = '') {
  answer.writeHead(status, { 'Cache-Control': 'no-cache', ...headers }).end(body);
}

// docs: fetch: the scripts' routes
function scripts(path, answer) {
  if (path === '/outbox/ping') return send(answer, 204, { 'Outbox-Status': 'pong', 'Cache-Control': 'no-store' });
  const name = path.slice('/outbox/'.length);
  if (!/^[\w.-]+\.(js|css)$/.test(name) || /\.test\.js$/.test(name)) return send(answer, 404, {});
  const type = name.endsWith('.css') ? 'text/css' : 'text/javascript';
  // The worker lies below /outbox/ and is for the whole site.
  send(answer, 200, { 'Content-Type': `${type}; charset=utf-8`, 'Service-Worker-Allowed': '/' }, readFileSync(packaged + name));
}
// docs: end

const server = createServer(async (request, answer) => {
  const parts = [];
  try {
    for await (const part of request) parts.push(part);
    const path = new URL(request.url, 'http://x').pathname;
    if (request.method === 'POST' && path === '/notes') return post(request, answer, Buffer.concat(parts));
    if (path.startsWith('/outbox/')) return scripts(path, answer);
    if (path === '/notes') return send(answer, 200, { 'Content-Type': 'application/json' }, JSON.stringify(notes.map(shown)));
    if (path === '/') return show(request, answer);
    if (path !== '/app.js') return send(answer, 404, {});
    send(answer, 200, { 'Content-Type': 'text/javascript; charset=utf-8' }, readFileSync(new URL('app.js', import.meta.url)));
  } catch (error) {
    if (request.complete) console.error(error);
    if (!answer.headersSent) send(answer, 500, {});
  }
});
const [host, port] = (process.argv[2] ?? '127.0.0.1:8080').split(':');
server.listen(Number(port), host, () => console.log(`listening on http://${host}:${server.address().port}`));
