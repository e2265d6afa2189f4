// Subjects with what the census found; also only those without a topic.
import { html, useEffect, useState } from "../vendor.js";
import { Badge } from "../components/badge.js";
import { Name } from "../components/name.js";
import { Table } from "../components/table.js";
import { count, moment } from "../cluster/units.js";
import { href } from "../router.js";
import { ListingEnd, useListing } from "./listing.js";

const SETTLED_MS = 300;
const ONLY = {
  "": ["all", () => true],
  topicless: ["without a topic", ({ hasTopic, sourceCount }) => !hasTopic && sourceCount === 0],
  unused: ["with unused versions", ({ unused }) => unused.length > 0],
};

export const COLUMNS = [
  { id: "subject", title: "Subject",
    cell: ({ subject }) =>
      html`<a class="wrap" href=${href`/usage/subjects/${subject}`}><${Name} text=${subject} /></a>` },
  { id: "versions", title: "Versions", numeric: true, cell: ({ versions }) => count(versions) },
  { id: "used", title: "Used", numeric: true, cell: ({ used }) => count(used) },
  { id: "unused", title: "Unused", numeric: true, cell: ({ unused }) => count(unused.length) },
  { id: "messages", title: "Messages", numeric: true,
    cell: ({ messages, exact }) => `${exact ? "" : "≤ "}${count(messages)}` },
  { id: "last", title: "Last message", wide: true, cell: ({ last }) => (last >= 0 ? moment(last) : "–") },
  { id: "topic", title: "Topic", wide: true, cell: ({ hasTopic, sourceCount }) => (hasTopic
    ? html`<${Badge} tone="good">its own<//>` : sourceCount > 0 ? "others" : html`<${Badge} tone="warn">none<//>`) },
];

export function SubjectUsages({ query: { prefix = "", only = "" }, onChange }) {
  const settled = useSettled(prefix);
  const keep = ONLY[only]?.[1] ?? ONLY[""][1];
  const listing = useListing("/usage/subjects",
    { subjectPrefix: settled || ":*:", unused: only === "unused" || undefined }, { keep, key: only });
  return html`
    <form class="actions" role="search" onSubmit=${(event) => event.preventDefault()}>
      <label>Subjects with the prefix <input type="search" value=${prefix} placeholder="all" spellcheck=${false}
        onInput=${(event) => onChange({ prefix: event.currentTarget.value })} /></label>
      <label>Show <select value=${only} onChange=${(event) => onChange({ only: event.currentTarget.value })}>
        ${Object.entries(ONLY).map(([each, [label]]) => html`<option key=${each} value=${each}>${label}</option>`)}
      </select></label>
    </form>
    ${listing.rows.length > 0 && html`<${Table} caption="Usage of subjects" columns=${COLUMNS} rows=${listing.rows}
      rowKey=${({ subject }) => subject} />`}
    <${ListingEnd} listing=${listing} what="subjects" />`;
}

function useSettled(value) {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), SETTLED_MS);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}
