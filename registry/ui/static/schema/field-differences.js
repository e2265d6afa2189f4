// Which fields differ between two schemas, by their paths; the same for all types.
import { html, useState } from "../vendor.js";
import { Badge } from "../components/badge.js";
import { Name } from "../components/name.js";
import { Failure } from "../components/notice.js";
import { Table } from "../components/table.js";
import { Counts } from "./timeline.js";
import { sidesOf } from "./field-sides.js";

const SHOWN = 100;
const UNPROCESSABLE = 422; // too many fields, or a text that is no schema
const TONES = { added: "good", removed: "bad", changed: "warn" };

/** value: the fields that differ, as the API has them; error: why they are not known. */
export function FieldDifferences({ value, error, onRetry }) {
  return html`
    <section aria-label="Fields that differ">
      <h2>Fields</h2>
      ${value ? html`<${Listed} found=${value} />`
        : error.status === UNPROCESSABLE
        ? html`<p class="quiet">The fields of these schemas cannot be compared.</p>`
        : html`<${Failure} error=${error} onRetry=${onRetry} />`}
    </section>`;
}

function Listed({ found }) {
  const [most, setMost] = useState(SHOWN);
  const { differences } = found;
  if (!differences.length) return html`<p>All fields are the same.</p>`;
  const total = differences.length === 1 ? "1 difference" : `${differences.length} differences`;
  return html`
    <p><${Counts} entry=${found} /></p>
    <${Table} caption=${`${total} between fields and types`} rows=${differences.slice(0, most)}
      rowKey=${(row) => differences.indexOf(row)} columns=${COLUMNS} />
    ${differences.length > most && html`
      <button onClick=${() => setMost(most + SHOWN)}>Show more: ${differences.length - most} left</button>`}`;
}

const kindOf = ({ old, new: fresh }) => (old === undefined ? "added" : fresh === undefined ? "removed" : "changed");

const COLUMNS = [
  { id: "path", title: "Field", cell: ({ old, new: fresh }) => {
    const { kind, path, name } = fresh ?? old;
    return kind === "field" ? html`<${Name} plain text=${path} />`
      : html`<strong><${Name} plain text=${name} /></strong>`;
  } },
  { id: "kind", title: "Change", cell: (row) => html`<${Badge} tone=${TONES[kindOf(row)]}>${kindOf(row)}<//>` },
  { id: "old", title: "Old", cell: (row) => html`<${Side} parts=${sidesOf(row).old} />` },
  { id: "new", title: "New", cell: (row) => html`<${Side} parts=${sidesOf(row).new} />` },
];

function Side({ parts }) {
  return parts.map(({ what, text }) => html`
    <div key=${what}>${what && html`<span class="quiet">${what}</span> `}<${Name} plain text=${text} /></div>`);
}
