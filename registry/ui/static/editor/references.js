// The references of a draft: a name, and the subject and version that it stands for.
import { html } from "../vendor.js";

const REFERENCES_MAX = 100;

/** references: [{ name, subject, version }] as they are typed; onChange(references). */
export function ReferenceFields({ references, onChange }) {
  const set = (index, member, value) =>
    onChange(references.map((each, at) => (at === index ? { ...each, [member]: value } : each)));
  return html`
    <details class="references" open=${references.length > 0}>
      <summary>References (${references.length})</summary>
      ${references.map((each, index) => html`
        <div class="row" key=${index} role="group" aria-label=${`Reference ${index + 1}`}>
          <label>Name <input value=${each.name} spellcheck="false"
            onInput=${(event) => set(index, "name", event.target.value)} /></label>
          <label>Subject <input value=${each.subject} spellcheck="false"
            onInput=${(event) => set(index, "subject", event.target.value)} /></label>
          <label>Version <input class="number" inputmode="numeric" value=${each.version}
            onInput=${(event) => set(index, "version", event.target.value)} /></label>
          <button type="button" class="small" aria-label=${`Remove reference ${index + 1}`}
            onClick=${() => onChange(references.filter((_, at) => at !== index))}>Remove</button>
        </div>`)}
      <button type="button" disabled=${references.length >= REFERENCES_MAX}
        onClick=${() => onChange([...references, { name: "", subject: "", version: "-1" }])}>Add a reference</button>
      <span class="quiet"> Version -1 means the latest.</span>
    </details>`;
}

/** Returns the references as the API takes them, without those that are not complete yet. */
export function complete(references) {
  return references
    .filter(({ name, subject, version }) => name && subject && /^(-1|[1-9]\d{0,8})$/.test(String(version).trim()))
    .map(({ name, subject, version }) => ({ name, subject, version: Number(version) }));
}
