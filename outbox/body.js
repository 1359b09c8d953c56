// @ts-check
// What the engine does to bodies.

/** What stands between the parts of a form with files; ''. @param {string} type */
const boundary = (type) => /^multipart\/form-data;.*boundary="?([^";]+)/i.exec(type)?.[1] ?? '';

/**
 * FNV-1a: only to notice that a key came with another body. The browser makes a
 * boundary anew for each press, so it does not count.
 *
 * @param {ArrayBuffer | null} body
 * @param {string} [type]
 */
export function checksum(body, type = '') {
  const bytes = new Uint8Array(body ?? []);
  const mark = new TextEncoder().encode(boundary(type));
  let h = 0x811c9dc5;
  // Not for…of: that takes ten times as long, a third of a second for a photo.
  for (let i = 0; i < bytes.length; i++) {
    if (bytes[i] === mark[0] && mark.every((b, j) => bytes[i + j] === b)) i += mark.length - 1;
    else h = Math.imul(h ^ bytes[i], 0x01000193);
  }
  return h >>> 0;
}

/**
 * The body for a person to read or copy; '' if it is no text. Of a form with
 * files its other fields, as those without files are written.
 *
 * @param {string | undefined} type
 * @param {ArrayBuffer | null} body
 */
export function readable(type, body) {
  const mark = body && boundary(type ?? '');
  if (mark) {
    const fields = new URLSearchParams();
    for (const part of new TextDecoder().decode(body).split(`--${mark}`)) {
      const [, name, value] = /^\r\n[^\r]*; name="([^"]*)"\r\n\r\n([^]*)\r\n$/.exec(part) ?? [];
      if (name) fields.append(name.replace(/%22/g, '"'), value);
    }
    return `${fields}`.slice(0, 8192);
  }
  if (!body || !/^(text\/|application\/(json|x-www-form-urlencoded))/i.test(type ?? '')) return '';
  return new TextDecoder().decode(body.slice(0, 8192));
}

/**
 * An answer in words: those of a problem (RFC 9457), or what others call so.
 *
 * @param {import('./types.js').Answer} answer
 */
export function said(answer) {
  const type = answer.headers.get('Content-Type') ?? '';
  if (!/^(text\/|application\/([\w.-]+\+)?json)/i.test(type)) return '';
  const text = new TextDecoder().decode(answer.body.slice(0, 16_384));
  if (/json/i.test(type)) {
    try {
      const { detail, message, error, title } = JSON.parse(text);
      return [detail, message, error?.message, error, title].find((v) => v && typeof v === 'string')?.slice(0, 500) ?? '';
    } catch {
      return '';
    }
  }
  const page = /html|xml/i.test(type);
  return (page ? words(text) : text).replace(/\s+/g, ' ').trim().slice(0, 500);
}

/** @type {Record<string, string>} */
const chars = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: ' ' };

/** What is said between the tags. @param {string} html */
const words = (html) =>
  html
    .replace(/<(script|style|head|title)\b[\s\S]*?<\/\1>/gi, ' ')
    .replace(/<[^>]*>/g, ' ')
    .replace(/&(?:#(\d+)|#x([\da-f]+)|(amp|lt|gt|quot|apos|nbsp));/gi, (_, ten, hex, name) =>
      name ? chars[name.toLowerCase()] : String.fromCodePoint(Math.min(parseInt(ten ?? hex, ten ? 10 : 16), 0x10ffff)));

/**
 * A body that the browser cannot give back any more (Chromium keeps a large one as
 * a file beside its database) must not hold up the line for ever.
 *
 * @param {any} e
 */
export function lost(e) {
  if (!/^(NotReadable|NotFound|Data|Unknown)Error$/.test(e?.name)) throw e;
  return null;
}
