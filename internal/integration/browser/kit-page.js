// @ts-check
// The outbox's kit on a page of its own: kit.js, its words and its style as they
// ship, over a stand-in for page.js that shows whatever snapshot a test wants.
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';

const shipped = new URL('../../../outbox/', import.meta.url);

/** Words for a language that the kit has none for, with six forms and written from the right. */
export const arabic = {
  'waiting.zero': 'لا تغييرات تنتظر الشبكة',
  'waiting.one': 'تغيير واحد ينتظر الشبكة',
  'waiting.two': 'تغييران ينتظران الشبكة',
  'waiting.few': '{n} تغييرات تنتظر الشبكة',
  'waiting.many': '{n} تغييرًا ينتظر الشبكة',
  'waiting.other': '{n} تغيير ينتظر الشبكة',
  'refused.one': 'تغيير واحد لم يُقبل',
  'refused.other': 'تغييرات لم تُقبل: {n}',
  'row.waiting': 'سيُحفظ عند توفر الشبكة',
  'row.refused': 'لم يُقبل',
  'why.status': 'رفضه الخادم ({n})',
  title: 'لم يُحفظ بعد',
  none: 'لا شيء ينتظر',
  look: 'عرض',
  close: 'إغلاق',
  retry: 'إعادة المحاولة',
  flush: 'إرسال الآن',
  edit: 'تعديل',
  copy: 'نسخ',
  discard: 'تجاهل التغيير',
};

/** @type {Record<string, Record<string, string>>} what the page itself says */
const own = {
  ru: { first: 'Физика: задачи 12–15', second: 'Алгебра', done: 'Готово', add: 'Новая задача', leave: 'Выйти', all: 'Что не сохранено' },
  en: { first: 'Physics: exercises 12–15', second: 'Algebra', done: 'Done', add: 'New task', leave: 'Log out', all: 'What is not saved' },
};

/** @param {string} lang @param {URLSearchParams} query */
const page = (lang, query) => {
  const t = own[lang] ?? own.en;
  const config = { login: '/login', softLimit: 8000, ...(lang === 'ar' && { texts: arabic }), ...(query.has('nobadge') && { noBadge: true }) };
  return `<!doctype html><html lang="${lang}"${lang === 'ar' ? ' dir="rtl"' : ''}><meta charset="utf-8"><title>Kit</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="outbox-config" content='${JSON.stringify(config)}'>
<link rel="icon" href="data:,"><link rel="stylesheet" href="/outbox/kit.css">
<style>
:root { color-scheme: light dark; --outbox-bottom: 60px; font-family: system-ui, sans-serif; color: light-dark(#1d1b20, #e9e7e2); background: light-dark(#fbfaf7, #121316) }
body { margin: 0 16px 76px }
a { color: light-dark(#0b6b64, #6fd3c8) }
li button { color: inherit; background: none; border: 1px solid }
li { display: flex; flex-wrap: wrap; gap: 0 12px; align-items: center; padding-block: 4px }
button, input { min-height: 24px; max-width: 100%; box-sizing: border-box; font: inherit }
.strip { display: flex }
.bar { position: fixed; bottom: 0; left: 0; right: 0; height: 60px; background: light-dark(#eee, #222) }
</style>
<main><h1>Kit</h1>
<form id="add" action="/tasks" method="post"><label for="text">${t.add}</label> <input name="text" id="text"><input type="hidden" name="_key" value="x"><button>+</button></form>
<ul>
<li id="task-1" data-outbox-row><button id="done-1">${t.done}</button><span dir="auto">${t.first}</span></li>
<li id="task-2" data-outbox-row><button id="done-2">${t.done}</button><span dir="auto">${t.second}</span><p data-outbox-caption></p></li>
</ul>
<form id="logout" action="/left" data-outbox-logout><button id="leave">${t.leave}</button></form>
<a id="out" href="/left" data-outbox-logout>${t.leave}</a>
<button id="all" data-outbox-open>${t.all}</button></main><div class="bar"></div>
<script type="module" src="/outbox/page.js"></script><script type="module" src="/outbox/kit.js"></script></html>`;
};

const standIn = `
class Outbox extends EventTarget {
  snapshot = { pending: 0, sending: false, login: 0, refused: 0, stuck: 0, ask: 0, foreign: 0, entries: [], stored: true, controlled: true };
  calls = [];
  keeps = [];
  found = 'ask';
  again = 'waiting';
  show(entries, more) {
    const line = entries.filter(e => e.state !== 'refused' && e.state !== 'ask');
    this.snapshot = { ...this.snapshot, pending: line.length, login: line.some(e => e.state === 'login') ? line.length : 0, foreign: 0, entries, ...more };
    this.dispatchEvent(new CustomEvent('change', { detail: this.snapshot }));
  }
  async retry(key) { this.calls.push('retry ' + key); return 'waiting'; }
  async resend(key) { this.calls.push('resend ' + key); return this.again; }
  async look(key) { this.calls.push('look ' + key); return this.found; }
  async flush() { this.calls.push('flush'); }
  async discard(key) {
    this.calls.push('discard ' + key);
    if (this.keeps.includes(key)) return 'sending';
    this.show(this.snapshot.entries.filter(e => e.key !== key));
    return 'discarded';
  }
}
export const outbox = new Outbox();
window.outbox = outbox;
window.said = [];
window.badges = [];
const icon = { setAppBadge: async n => void badges.push(n), clearAppBadge: async () => void badges.push(0) };
for (const [name, value] of Object.entries(icon)) Object.defineProperty(navigator, name, { value: location.search === '?noicon' ? undefined : value });
const wait = setInterval(() => {
  const region = document.querySelector('#outbox-strip [aria-live=polite]');
  if (!region) return;
  clearInterval(wait);
  new MutationObserver(() => said.push(region.textContent)).observe(region, { childList: true, characterData: true, subtree: true });
  window.ready = true;
}, 10);`;

/**
 * @typedef {object} KitPage
 * @property {string} url a language's page is below it: /ru
 * @property {(key: string, state: string, over?: object) => any} entry as the real page.js would have it
 * @property {() => void} close
 */

/** @returns {Promise<KitPage>} */
export async function serveKit() {
  const server = createServer((request, answer) => {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://x');
    const name = pathname.slice('/outbox/'.length);
    const type = name.endsWith('.css') ? 'text/css' : pathname.startsWith('/outbox/') ? 'text/javascript' : 'text/html';
    const body = name === 'page.js' ? standIn : type === 'text/html' ? page(decodeURIComponent(pathname.slice(1)), searchParams) : readFileSync(new URL(name, shipped));
    answer.writeHead(200, { 'Content-Type': `${type}; charset=utf-8` }).end(body);
  });
  await new Promise(resolve => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  const url = `http://127.0.0.1:${/** @type {import('node:net').AddressInfo} */ (server.address()).port}`;
  return {
    url,
    entry: (key, state, over) => ({
      key, state, label: '', el: '', method: 'POST', url: `${url}/tasks`, createdAt: Date.now(), firstSentAt: Date.now(), attempts: 1,
      nextAt: 0, reason: '', lastStatus: 0, lastText: '', bodyText: '', ...over,
    }),
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}
