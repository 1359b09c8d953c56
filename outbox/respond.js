// @ts-check
// What a page gets: the server's answer, or the outbox's own.

/** @typedef {import('./engine.js').Result} Result */

/**
 * @typedef {object} Asked
 * @property {string} key
 * @property {string} url
 * @property {boolean} nav
 * @property {string} back
 * @property {string | null} accept
 */

/**
 * @param {Result} result
 * @param {Asked} asked
 * @param {{prefix: string, queuedHeader: string}} cfg
 * @returns {Response}
 */
export function respond(result, asked, cfg) {
  if (result.kind === 'answer') return answer(result.answer, asked);
  if (result.kind === 'queued' && asked.nav) {
    const page = new URL(cfg.prefix + 'queued', asked.url);
    page.search = String(new URLSearchParams({ back: asked.back, key: asked.key }));
    return redirect(page, 303);
  }
  // 204 leaves a form's page as it is, with all that was typed.
  if (asked.nav) return new Response(null, { status: 204 });
  const queued = result.kind === 'queued';
  return new Response(/json|\*\/\*|^$/.test(asked.accept ?? '') ? JSON.stringify({ outbox: result.kind, key: asked.key }) : null, {
    status: queued ? 202 : 507,
    headers: {
      [queued ? cfg.queuedHeader : 'X-Outbox-Unsaved']: '1',
      'Content-Type': 'application/json',
      'Cache-Control': 'no-store',
      'HX-Reswap': 'none',
      'HX-Trigger': JSON.stringify({ [`outbox:${result.kind}`]: { key: asked.key } }),
    },
  });
}

/** @param {import('./engine.js').Answer} a @param {Asked} asked */
function answer(a, asked) {
  const to = a.headers.get('Outbox-Location');
  if (to) return redirect(new URL(to, asked.url), Number(a.headers.get('Outbox-Redirect-Status')) || 303);
  if (a.status < 200) return Response.error();
  const headers = new Headers(a.headers);
  // The body has been decoded and measured already.
  for (const name of ['Content-Encoding', 'Content-Length', 'Transfer-Encoding']) headers.delete(name);
  const empty = a.status === 204 || a.status === 205 || a.status === 304;
  return new Response(empty ? null : a.body, { status: a.status, headers });
}

/**
 * A redirect without a fragment inherits the request's, and the announcement
 * would stand in the address bar: an empty one does not.
 *
 * @param {URL} to
 * @param {number} status
 */
function redirect(to, status) {
  return Response.redirect(to.href + (to.href.includes('#') ? '' : '#'), status);
}
