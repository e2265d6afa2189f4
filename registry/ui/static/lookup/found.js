// A schema that was found: its text, and the versions that use it.
import { html, useState } from "../vendor.js";
import { Badge } from "../components/badge.js";
import { Code } from "../components/code.js";
import { CopyButton } from "../components/copy-button.js";
import { Name } from "../components/name.js";
import { Table } from "../components/table.js";
import { CopyAs } from "../copy-as/copy-as.js";
import { formatOf } from "../formats.js";
import { plain } from "../names.js";
import { href } from "../router.js";
import { pretty } from "../schema/pretty.js";

const LARGE = 200_000; // a longer text is shown on demand

const COLUMNS = [
  { id: "subject", title: "Subject",
    cell: ({ subject }) => html`<a href=${href`/subjects/${subject}`}><${Name} text=${subject} /></a>` },
  {
    id: "version",
    title: "Version",
    cell: ({ subject, version, deleted }) => html`
      <a href=${href`/subjects/${subject}/versions/${version}`}>v${version}</a>
        ${deleted && html` <${Badge} tone="bad">deleted<//>`}`,
  },
];

export function Found({ found: { context, id, schema, uses, more } }) {
  const { name, title } = formatOf(schema);
  const place = context === "." ? "" : html` in <${Name} plain text=${context} />`;
  return html`
    <section class="found" aria-label=${`Id ${id}${context === "." ? "" : ` in ${plain(context)}`}`}>
      <div class="text-head">
        <h2>Id ${id}${place} <${Badge} tone="accent">${title}<//></h2>
        <${CopyAs} small what=${{ kind: "id", id, context }} />
      </div>
      ${schema.guid &&
        html`<p class="quiet">guid <code>
          ${schema.guid}</code> <${CopyButton} text=${schema.guid} label="Copy the guid" /></p>`}
      <h3>Used by</h3>
      ${uses.length
        ? html`<${Table} caption=${`Versions with the id ${id}`} columns=${COLUMNS} rows=${uses}
          rowKey=${({ subject, version }) => `${version} ${subject}`} />`
        : html`<p class="quiet">No version that you may read.</p>`}
      ${more && html`<p class="quiet">These are the first ${uses.length}.</p>`}
      <div class="text-head">
        <h3>Schema</h3>
        <${CopyButton} text=${schema.schema} label="Copy the schema" />
      </div>
      <${Text} text=${schema.schema} type=${name} id=${id} />
    </section>`;
}

function Text({ text, type, id }) {
  const [shown, show] = useState(text.length <= LARGE);
  if (!shown) return html`<button onClick=${() => show(true)}>Show ${text.length.toLocaleString()} characters</button>`;
  return html`<${Code} text=${formatOf(type).language === "json" ? pretty(text) : text} type=${type}
    label=${`Schema of the id ${id}`} />`;
}
