// @ts-check
// The judge of what was done is itself judged.
import assert from 'node:assert/strict';
import { createServer, request } from 'node:http';
import { test } from 'node:test';
import { judgeEffects } from './effects.js';
import { until } from './processes.js';
import { Upstream } from './upstream.js';

let n = 0;
/** @param {string} person @param {string} id @param {import('./intents.js').Intent['wish']} wish @param {string} [tab] */
const meant = (person, id, wish, tab = 't1') => ({ n: ++n, person, id, wish, tab, task: `task ${id}` });
/** @param {string} person @param {string} id @param {import('./intents.js').Intent['wish']} wish */
const did = (person, id, wish) => ({
  n: 0, at: 0, method: 'POST', key: '', status: 200, token: 'executed', person,
  path: wish === 'create' ? '/tasks' : `/tasks/${id}/${/done/.test(wish) ? 'state' : 'trash'}`,
  form: /** @type {Record<string, string>} */ (wish === 'create' ? { id, text: `task ${id}` } : { completed: String(wish === 'done'), deleted: String(wish === 'trash') }),
});
const none = { lost: [], doubled: [], reordered: [], foreign: [] };
/** @param {ReturnType<typeof meant>[]} intents @param {ReturnType<typeof did>[]} effects */
const kinds = (intents, effects) => Object.entries(judgeEffects(intents, effects)).filter(([, list]) => list.length).map(([kind, list]) => `${kind} ${list.length}`);

const wishes = [meant('anna', 'a', 'create'), meant('anna', 'b', 'create', 't2'), meant('anna', 'a', 'done'), meant('anna', 'a', 'undone', 't2'), meant('anna', 'a', 'done')];
const right = [did('anna', 'a', 'create'), did('anna', 'b', 'create'), did('anna', 'a', 'done'), did('anna', 'a', 'undone'), did('anna', 'a', 'done')];

test('what was done once, in order and as the right person is right', () => assert.deepEqual(judgeEffects(wishes, right), none));
test('the order of two tabs in different tasks is nobody’s wish', () => assert.deepEqual(judgeEffects(wishes, [right[1], right[0], ...right.slice(2)]), none));
test('what was never done is lost, although the end looks right', () => assert.deepEqual(kinds(wishes, right.filter((_, i) => i !== 2 && i !== 3)), ['lost 2']));
test('what was done once more is doubled, although the end looks right', () => assert.deepEqual(kinds(wishes, [...right, did('anna', 'a', 'done')]), ['doubled 1']));
test('an undo that overtook is reordered', () => assert.deepEqual(kinds(wishes, [right[0], right[1], right[3], right[2], right[4]]), ['reordered 1']));
test('a later wish of the same tab that overtook is reordered', () => {
  const two = [meant('anna', 'x', 'create'), meant('anna', 'y', 'create')];
  assert.deepEqual(kinds(two, [did('anna', 'y', 'create'), did('anna', 'x', 'create')]), ['reordered 1']);
});
test('what was done as somebody else is foreign, and lost', () => assert.deepEqual(kinds(wishes.slice(0, 1), [did('boris', 'a', 'create')]), ['lost 1', 'foreign 1']));
test('what nobody meant is foreign', () => assert.deepEqual(kinds([], [did('boris', 'z', 'done')]), ['foreign 1']));

test('the last step carries everything, knows the person, and on demand takes the names away', async () => {
  /** @type {{url: string, body: string, key: string | undefined}[]} */
  const got = [];
  let begun = 0;
  let broken = 0;
  const app = createServer((req, res) => {
    begun++;
    let body = '';
    req.on('data', data => (body += data));
    req.on('close', () => req.complete || broken++);
    req.on('end', () => {
      got.push({ url: req.url ?? '', body, key: /** @type {string | undefined} */ (req.headers['idempotency-key']) });
      if (req.url === '/auth/login') res.setHeader('Set-Cookie', 'planner_session=s1; Path=/');
      res.writeHead(201, { 'Idempotency-Status': 'executed;key="k"' }).end('made');
    });
  });
  await new Promise(resolve => app.listen(0, '127.0.0.1', () => resolve(undefined)));
  const to = `http://127.0.0.1:${/** @type {import('node:net').AddressInfo} */ (app.address()).port}`;
  const plain = await Upstream.before(to);
  const nameless = await Upstream.before(to, { nameless: true });
  try {
    for (const u of [plain, nameless]) {
      await fetch(`${u.url}/auth/login`, { method: 'POST', body: new URLSearchParams({ login: 'anna' }) });
      const answer = await fetch(`${u.url}/tasks`, { method: 'POST', headers: { Cookie: 'planner_session=s1', 'Idempotency-Key': 'k1' }, body: new URLSearchParams({ text: 'тетрадь', id: 'i1', _key: 'k1' }) });
      assert.deepEqual([answer.status, await answer.text(), answer.headers.get('Idempotency-Status')], [201, 'made', u === plain ? 'executed;key="k"' : 'executed']);
      assert.deepEqual(u.done.slice(1).map(d => [d.path, d.form.text, d.person, d.token]), [['/tasks', 'тетрадь', 'anna', 'executed']]);
    }
    const [first, second] = got.filter(g => g.url === '/tasks').map(g => ({ ...Object.fromEntries(new URLSearchParams(g.body)), key: g.key }));
    assert.deepEqual(first, { text: 'тетрадь', id: 'i1', _key: 'k1', key: 'k1' });
    assert.equal(/** @type {any} */ (second).text, 'тетрадь');
    assert.notEqual(/** @type {any} */ (second).id, 'i1');
    assert.notEqual(second.key, 'k1');

    const half = request(`${plain.url}/tasks`, { method: 'POST', headers: { 'Content-Length': '100' } });
    half.on('error', () => {});
    const before = begun;
    half.write('text=ha');
    await until('half of it has arrived', () => begun > before);
    half.destroy();
    await until('the application has seen it break off', () => broken === 1);
    assert.equal(plain.done.length, 2);
  } finally {
    await plain.stop();
    await nameless.stop();
    app.closeAllConnections();
    app.close();
  }
});

test('the last step gives out another release of a file, also to a browser that has the old one, and says if there is nothing to change', async () => {
  let asked = '';
  const app = createServer((req, res) => {
    asked = String(req.headers['if-none-match'] ?? '');
    if (asked === '"1"') return void res.writeHead(304).end();
    res.writeHead(200, { 'Content-Type': 'text/javascript', ETag: '"1"', 'Content-Length': '9' }).end('let a = 1');
  });
  await new Promise(resolve => app.listen(0, '127.0.0.1', () => resolve(undefined)));
  const upstream = await Upstream.before(`http://127.0.0.1:${/** @type {import('node:net').AddressInfo} */ (app.address()).port}`);
  try {
    const get = async () => {
      const answer = await fetch(`${upstream.url}/sw.js`, { headers: { 'If-None-Match': '"1"' } });
      return [answer.status, await answer.text(), answer.headers.get('etag')];
    };
    assert.deepEqual(await get(), [304, '', null]);
    upstream.patch = { '/sw.js': text => text.replace('1', '22') };
    assert.deepEqual(await get(), [200, 'let a = 22', null]);
    assert.equal(asked, '');
    assert.deepEqual(upstream.wrong, []);
    upstream.patch = { '/sw.js': text => text.replace('3', '4') };
    await get();
    assert.equal(upstream.wrong.length, 1);
    upstream.own = (req, res) => req.url === '/sw.js' && Boolean(res.writeHead(404).end());
    assert.equal((await get())[0], 404);
  } finally {
    await upstream.stop();
    app.closeAllConnections();
    app.close();
  }
});
