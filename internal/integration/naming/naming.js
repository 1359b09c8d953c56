// @ts-check
// The JavaScript of docs/keys.md. naming_test.go runs it.

// docs: intent js
/** One name for what a person means by one press of a button. */
export class Intent {
  key = crypto.randomUUID(); // when the form is shown, not when it is sent

  /** The person has changed something: that is another intent. */
  changed() {
    this.key = crypto.randomUUID();
  }

  /**
   * Sends it; call it again, with the same content, until it does not throw.
   * @param {string} url
   * @param {string} body
   */
  async send(url, body) {
    const answer = await fetch(url, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', 'Idempotency-Key': this.key },
      body,
    });
    const [outcome] = (answer.headers.get('Idempotency-Status') ?? '').split(';');
    if (outcome !== 'executed' && outcome !== 'replayed') {
      throw new Error(`not delivered: ${answer.status} ${outcome}`);
    }
    this.changed(); // the next press means something new
    return answer;
  }
}
// docs: end

// docs: own id js
/**
 * The new order's id is made here, once, and is its key as well. Sent again in a
 * minute it is known by the key, sent again in a year by the id.
 * @param {string} base
 * @param {{item: string, qty: number}} order
 */
export async function place(base, order, id = crypto.randomUUID()) {
  return fetch(`${base}/create-order`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'Idempotency-Key': id },
    body: JSON.stringify({ ...order, external_id: id }),
  });
}
// docs: end

// docs: payload js
/**
 * A UUIDv4 and a hash of the request, as one key.
 * @param {string} uuid
 * @param {string} method
 * @param {string} path
 * @param {string} body  the very text that will be sent
 */
export async function payloadKey(uuid, method, path, body) {
  const bytes = new TextEncoder().encode(`${method}\n${path}\n${body}`);
  const sum = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
  const base64url = btoa(String.fromCharCode(...sum)).replaceAll('+', '-').replaceAll('/', '_');
  return `${uuid}.${base64url.slice(0, 22)}`;
}
// docs: end
