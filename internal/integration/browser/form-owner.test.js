// @ts-check
// Firefox sends a plain form again by itself, without the worker's headers, when
// its worker ends before it has answered. If somebody else has logged in by then,
// in another tab, it must not be done as them. B161, B163; R24; outbox.md 0.1.
import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import { until } from './processes.js';
import { Scene } from './scene.js';
import { usual } from './steps.js';

/** @type {Scene} */
let scene;
before(async () => {
  scene = await Scene.open('firefox', {
    // The worker ends before the soft limit, and nothing keeps it from that.
    limits: { ...usual, softLimit: 25_000, kickEvery: 10_000 },
    browser: { prefs: { 'dom.serviceWorkers.idle_timeout': 1000, 'dom.serviceWorkers.idle_extended_timeout': 1000 } },
  });
});
after(() => scene?.close());
afterEach(() => scene.clear());

test('B161, B163: a form of Anna\'s that Firefox sends again by itself, when Boris is signed in, is not done as Boris; it is done when she is back', async () => {
  const anna = await scene.person('anna');
  const { screen } = anna;
  const boris = `boris-beside-${anna.login}`;
  const cookie = await scene.site.register(boris);
  await screen.tab.eval(() => {
    const form = Object.assign(document.createElement('form'), { method: 'post', action: '/tasks', id: 'rig' });
    for (const [name, value] of [['id', crypto.randomUUID()], ['text', 'Дневник Анны']]) form.append(Object.assign(document.createElement('input'), { type: 'hidden', name, value }));
    form.append(Object.assign(document.createElement('button'), { id: 'rig-button', textContent: 'Записать' }));
    document.querySelector('main')?.prepend(form);
  });
  await scene.network.set({ script: 'POST /tasks -> blackhole:600s' });
  await screen.tab.click('#rig-button');
  await until('it is on its way', async () => (await scene.sent(/^\/tasks$/)).length > 0, { every: 20 });
  await anna.context.setCookie({ ...cookie, url: scene.site.url });
  const sent = await until('Firefox has sent it again', async () => {
    const all = await scene.sent(/^\/tasks$/);
    return all.length > 1 && all[1].fate !== 'open' ? all : Promise.reject(new Error(JSON.stringify(all)));
  }, { timeout: 60_000 });
  const [first, second] = sent;
  assert.deepEqual([first.forwarded, second.key ?? '', second._key, second.status], [0, '', first.key, 412], JSON.stringify(sent));
  await screen.tab.waitFor('it is said', () => document.body.innerText.length > 0 && !document.querySelector('#rig'));
  assert.deepEqual(await scene.site.tasks(boris), []);
  assert.deepEqual(await anna.tasks(), []);

  await anna.logIn();
  await screen.drained();
  assert.deepEqual(await scene.did(anna), ['create Дневник Анны']);
  assert.deepEqual((await anna.tasks()).map(t => t.title), ['Дневник Анны']);
  assert.deepEqual(await scene.site.tasks(boris), []);
  await scene.audit();
});
