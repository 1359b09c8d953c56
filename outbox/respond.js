// @ts-check
// What a page gets: the server's answer, or the outbox's own.

/**
 * @param {import('./types.js').Result} result
 * @param {{key: string, url: string, nav: boolean, back: string}} asked
 * @param {string | null} accept
 * @param {{prefix: string, queuedHeader: string}} cfg
 * @returns {Response}
 */
export function respond(result, { key, url, nav, back }, accept, cfg) {
  const { kind } = result;
  if (kind === 'answer') {
    const { status, headers, body } = result.answer;
    const to = headers.get('Outbox-Location');
    if (to) return redirect(new URL(to, url).href, Number(headers.get('Outbox-Redirect-Status')) || 303);
    if (status < 200) return Response.error();
    const own = new Headers(headers);
    // The body has been decoded and measured already.
    for (const name of ['Content-Encoding', 'Content-Length']) own.delete(name);
    return new Response(/^(204|205|304)$/.test(String(status)) ? null : body, { status, headers: own });
  }
  const queued = kind === 'queued';
  if (nav && queued) return redirect(`${new URL(cfg.prefix, url)}queued?${new URLSearchParams({ back, key })}`, 303);
  // 204 leaves a form's page as it is, with all that was typed.
  if (nav) return new Response(null, { status: 204 });
  return new Response(/json|\*\/\*|^$/.test(accept ?? '') ? JSON.stringify({ outbox: kind, key }) : null, {
    status: queued ? 202 : 507,
    headers: {
      [queued ? cfg.queuedHeader : 'X-Outbox-Unsaved']: '1',
      'Content-Type': 'application/json',
      'Cache-Control': 'no-store',
      'HX-Reswap': 'none',
      'HX-Trigger': JSON.stringify({ [`outbox:${kind}`]: { key } }),
    },
  });
}

/**
 * A redirect without a fragment inherits the request's (in WebKit one with an
 * empty fragment does too), and the announcement would stand in the address bar.
 * This one is taken away by the page.
 *
 * @param {string} to
 * @param {number} status
 */
const redirect = (to, status) => Response.redirect(to.includes('#') ? to : to + '#outbox-', status);
