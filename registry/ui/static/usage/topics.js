// What the census read, and what nobody can explain: unknown ids, messages without a schema, topics without a subject.
import { html, useState } from "../vendor.js";
import { path, request } from "../api.js";
import { Badge } from "../components/badge.js";
import { Dialog } from "../components/dialog.js";
import { Name } from "../components/name.js";
import { Failure } from "../components/notice.js";
import { Table } from "../components/table.js";
import { count } from "../cluster/units.js";
import { plain } from "../names.js";
import { useWrite } from "../schema/writing.js";
import { GuardedButton } from "../session/guarded.js";
import { ListingEnd, useListing } from "./listing.js";
import { SchemaLink, USE_COLUMNS } from "./uses.js";

const SOURCES_PAGE = 100; // the most that the registry answers
const USES_SHOWN = 20;

export function Sources() {
  const listing = useListing("/usage/sources", {}, { size: SOURCES_PAGE });
  const [gone, setGone] = useState(null);
  return html`
    <p>Topics, and columns of files, with the schemas that their messages name.</p>
    ${listing.rows.length > 0 && html`<${Table} caption="Sources" columns=${sourceColumns(setGone)}
      rows=${listing.rows}
      rowKey=${({ source }) => source} />`}
    <${ListingEnd} listing=${listing} what="sources" />
    ${gone && html`<${Removal} source=${gone} onClose=${() => setGone(null)}
      onDone=${(shown) => { if (shown) setGone(null); listing.again(); }} />`}`;
}

function Removal({ source, onClose, onDone }) {
  const { busy, error, run } = useWrite((_, shown) => onDone(shown));
  const remove = () => run(() => request("DELETE", path`/usage/sources/${source}`));
  return html`
    <${Dialog} title="Remove this source?" onClose=${onClose}
      footer=${html`<button onClick=${onClose}>Keep it</button>
        <button class="danger" disabled=${busy} onClick=${remove}>Remove it</button>`}>
      <p><${Name} plain text=${source} /></p>
      <p>Remove a topic that does not exist any more: what it used no longer counts as used. The next census that reads
        it lists it again.</p>
      ${error && html`<${Failure} error=${error} />`}
    <//>`;
}

const sourceColumns = (onRemove) => [
  ...SOURCE_COLUMNS,
  { id: "remove", title: html`<span class="unseen">Actions</span>`, cell: ({ source }) => html`
    <${GuardedButton} needs="admin" class="danger small" onClick=${() => onRemove(source)}
      aria-label=${`Remove the source ${plain(source)}`}>Remove…<//>` },
];

const SOURCE_COLUMNS = [
  { id: "source", title: "Source", cell: ({ source }) => html`<${Name} plain text=${source} />` },
  { id: "context", title: "Context", wide: true,
    cell: ({ context }) => (!context || context === "." ? "default" : html`<${Name} plain text=${context} />`) },
  { id: "state", title: "State", cell: ({ state, reason }) => html`
    <${Badge} tone=${state === "read" ? "good" : "bad"}>${state}<//>${reason && html`
      ${" "}<${Name} plain text=${reason} />`}` },
  { id: "messages", title: "Messages", numeric: true, cell: ({ messages }) => count(messages ?? 0) },
  { id: "schemas", title: "Schemas", cell: ({ uses = [], context }) => html`
    ${uses.slice(0, USES_SHOWN).map(([, , schema, messages], index) => schema !== null && html`
      ${index > 0 && ", "}<${SchemaLink} schema=${schema} context=${context} /> <span class="quiet">
      (${count(messages)})</span>`)}${uses.length > USES_SHOWN && html` <span class="quiet">and
      ${count(uses.length - USES_SHOWN)} more</span>`}` },
];

const PROBLEMS = {
  unknown: ["bad", "unknown schema", "The registry knows neither this id nor this guid in the topic's context."],
  unframed: ["warn", "no schema", "These messages do not name a schema."],
  topic: ["plain", "no subject", "No subject is named after the topic, and none is associated with it."],
};

export function Unknown() {
  const listing = useListing("/usage/unknown", {});
  return html`
    <dl class="facts">${Object.values(PROBLEMS).map(([tone, word, meaning]) => html`
      <dt key=${word}><${Badge} tone=${tone}>${word}<//></dt><dd>${meaning}</dd>`)}</dl>
    ${listing.rows.length > 0 && html`<${Table} caption="Unknown uses" columns=${UNKNOWN_COLUMNS}
      rows=${listing.rows.map((row) => ({ ...row.use, ...row }))}
      rowKey=${({ source, problem, use }) => JSON.stringify([source, problem, use])} />`}
    <${ListingEnd} listing=${listing} what="findings" />`;
}

const UNKNOWN_COLUMNS = [
  { id: "problem", title: "Problem", cell: ({ problem }) => {
    const [tone, word] = PROBLEMS[problem] ?? ["plain", problem];
    return html`<${Badge} tone=${tone}>${word}<//>`;
  } },
  { id: "schema", title: "Schema",
    cell: ({ schema, context }) => html`<${SchemaLink} schema=${schema} context=${context} />` },
  ...USE_COLUMNS.map((column) => (column.id === "source" || column.id === "side" ? column : {
    ...column, cell: (row) => (row.use ? column.cell(row) : "–"),
  })),
];
