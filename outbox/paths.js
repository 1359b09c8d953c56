// @ts-check
// Paths that are special to the outbox.

// Actions that mean something only now, or that carry secrets: never taken.
// Signing in and out is among it. "/authors" is no "/auth".
export const deny = /^\/(auth|login|logout|signin|signout|register|api\/billing|miniapp\/auth)(\/|$)/;

// A POST here may change who is signed in.
export const auth = /^\/(auth|login|logout|signin|signout|register)(\/|$)/;

/**
 * @param {RegExp} own
 * @param {RegExp | string} [more] an application's own
 */
export const either = (own, more) =>
  more ? new RegExp(`${own.source}|${typeof more === 'string' ? more : more.source}`) : own;

/** @param {string} method */
export const changes = (method) => /^(POST|PUT|PATCH|DELETE)$/.test(method);
