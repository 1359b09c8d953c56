// A reporter for node's test runner that writes one JSON line per test, for
// nodetest.go to count and print.
import { relative } from 'node:path';
import { inspect } from 'node:util';

const line = (/** @type {object} */ event) => JSON.stringify(event) + '\n';

/** @param {any} error */
function describe(error) {
  const cause = error?.cause ?? error;
  return typeof cause === 'string' ? cause : inspect(cause, { depth: 6 });
}

/** @param {AsyncIterable<{type: string, data: any}>} source */
export default async function* report(source) {
  /** @type {Map<string, string[]>} the test that runs and those above it, by file */
  const running = new Map();
  /** @type {Map<string, string>} the test that has begun last, by file: `test:start` comes when the one before it has ended */
  const begun = new Map();
  /** @type {Set<string>} tests that have subtests: they are counted by them */
  const parents = new Set();
  const id = (/** @type {string} */ file, /** @type {string[]} */ path) => [file, ...path].join('\n');

  for await (const { type, data } of source) {
    const file = data?.file ? relative(process.cwd(), data.file) : '';
    const path = (running.get(file) ?? []).slice(0, data?.nesting ?? 0);
    switch (type) {
      case 'test:dequeue':
        if (data.name !== data.file) begun.set(file, data.name);
        break;
      case 'test:start':
        running.set(file, [...path, data.name]);
        break;
      case 'test:plan':
        parents.add(id(file, path));
        break;
      case 'test:stdout':
      case 'test:stderr':
        yield line({ kind: 'text', file, text: data.message });
        break;
      case 'test:pass':
      case 'test:fail': {
        // A file that was ended for its time failed in the test that had begun last.
        const late = data.details?.error?.failureType === 'testTimeoutFailure';
        const stuck = late ? `, in ${begun.get(file)}` : '';
        path.push(data.name);
        const whole = data.name === data.file;
        const event = { file, name: whole ? `the file${stuck}` : path.join(' › '), ms: data.details?.duration_ms ?? 0 };
        const error = data.details?.error;
        if (data.skip !== undefined || data.todo !== undefined) {
          const why = data.skip ?? data.todo;
          yield line({ kind: 'skip', ...event, text: typeof why === 'string' ? why : 'no reason given' });
        } else if (type === 'test:fail') {
          if (error?.failureType !== 'subtestsFailed') yield line({ kind: 'fail', ...event, text: describe(error) });
        } else if (whole) {
          // node counts a file without a single test as a test that passed.
          yield line({ kind: 'fail', ...event, text: 'it has no test' });
        } else if (!parents.has(id(file, path))) {
          yield line({ kind: 'pass', ...event });
        }
      }
    }
  }
}
