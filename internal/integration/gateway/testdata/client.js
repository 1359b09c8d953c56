// One intent, one key: made when the person presses, kept until the answer is sure.
// It is for endpoints that answer by themselves; a redirect would be followed.
export async function once(url, { key = crypto.randomUUID(), tries = 8, ...options } = {}) {
  for (let n = 1; ; n++) {
    let answer, wait = Math.min(250 * 2 ** n, 10_000) * Math.random();
    try {
      answer = await fetch(url, {
        method: "POST", ...options,
        headers: { ...options.headers, "Idempotency-Key": key },
        signal: AbortSignal.timeout(60_000),
      });
      await answer.clone().arrayBuffer(); // half an answer is no answer
      const outcome = (answer.headers.get("Idempotency-Status") ?? "").split(";")[0];
      if (outcome === "executed" || outcome === "replayed") return answer; // done, once
      if (outcome === "outcome-unknown") return answer; // ask the person to look; repeating changes nothing
      const refused = answer.status >= 400 && answer.status < 500 && ![408, 409, 425, 429].includes(answer.status);
      // The app's or the gateway's no; 401: sign in first. A 403 of something on the way is neither.
      if (refused && (outcome || answer.status === 401)) return answer;
      wait = Math.max(wait, 1000 * Number(answer.headers.get("Retry-After") ?? 0));
    } catch (error) {
      if (n === tries) throw error;
    }
    if (n === tries && answer.ok) throw new Error(`nobody has said that it was done: ${answer.status} of ${answer.url}`);
    if (n === tries) return answer;
    await new Promise((resume) => setTimeout(resume, wait));
  }
}
