// Keeps a note: outbox.fetch in the place of fetch.
// docs: fetch: the page's script
import { outbox } from '/outbox/page.js';

const form = document.getElementById('note');

form.addEventListener('submit', async (event) => {
  event.preventDefault();
  const file = form.elements.file.files[0];
  const text = form.elements.text.value;
  event.submitter.disabled = true;
  const answer = await outbox.fetch('/notes', {
    method: 'POST',
    body: file ? await file.arrayBuffer() : text,
    headers: { 'Content-Type': 'text/plain; charset=utf-8' },
    label: text.slice(0, 60) || file?.name, // what the strip's list calls it
  }).finally(() => (event.submitter.disabled = false));
  if (answer.ok) form.reset(); // saved, or 202: it waits on this device and the strip says so
  if (answer.status === 201) await show();
});

// It waited, and is saved now.
document.addEventListener('outbox:delivered', show);

async function show() {
  const notes = await (await fetch('/notes')).json();
  const items = notes.map(({ text, size, sha256 }) => {
    const item = document.createElement('li');
    item.textContent = size > 200 ? `${size} bytes, ${sha256.slice(0, 12)}` : text;
    return item;
  });
  document.getElementById('notes').replaceChildren(...items);
}
// docs: end

await show();
