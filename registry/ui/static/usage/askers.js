// Who asks for a subject, or for one of its versions.
import { html } from "../vendor.js";
import { get, path } from "../api.js";
import { Name } from "../components/name.js";
import { Table } from "../components/table.js";
import { count } from "../cluster/units.js";
import { useResource } from "../live/resources.js";
import { resource } from "../live/store.js";
import { Loaded } from "../schema/loading.js";

// Counts are not in the log, so no event says that they have changed.
const ASKERS = resource("askers",
  (signal, subject) => get(path`/usage/subjects/${subject}/askers`, { signal }), () => false);

const COLUMNS = [
  { id: "who", title: "Who", cell: ({ principal, kind, address }) =>
    html`<${Name} plain text=${principal ? `${kind}:${principal}` : address} />` },
  { id: "agent", title: "User agent", cell: ({ agent }) => agent && html`<${Name} plain text=${agent} />` },
  { id: "versions", title: "Versions",
    cell: ({ versions }) => versions.map(({ version }) => version ?? "none named").join(", ") },
  { id: "requests", title: "Requests", numeric: true, cell: ({ requests }) => count(requests) },
  { id: "first", title: "First", wide: true, cell: ({ first }) => html`<time>${first}</time>` },
  { id: "last", title: "Last", cell: ({ last }) => html`<time>${last}</time>` },
];

/** version: its number, with requests that name no version; undefined: all. */
export function Askers({ subject, version }) {
  const found = useResource(ASKERS, subject);
  return html`
    <section aria-label="Who asks">
      <h2>Who asks</h2>
      <${Loaded} of=${found} what="who asks">
        ${(each) => html`<${Found} found=${each} rows=${askersOf(each.askers, version)} />`}
      <//>
    </section>`;
}

function Found({ found: { since, last, askers, askerCount, other, missing, missingCount }, rows }) {
  if (since === null) return html`<p class="quiet">This registry does not count who asks (asks_keep_days).</p>`;
  const hidden = askerCount - askers.length;
  return html`
    ${rows.length > 0 && html`<${Table} caption="Clients that have asked" columns=${COLUMNS} rows=${rows}
      rowKey=${({ principal, kind, address, agent }) => JSON.stringify([principal, kind, address, agent])} />`}
    ${hidden > 0 && html`<p>${count(hidden)} ${rows.length ? "more " : ""}${hidden === 1 ? "client" : "clients"}
      ${" "}asked for the subject, last on ${last}.${askers.length ? "" : " Only administrators see which."}</p>`}
    ${rows.length === 0 && hidden === 0 && html`<p class="quiet">Nobody.</p>`}
    <p class="quiet">Counted since ${since}.${other > 0
      ? ` The clients of ${count(other)} requests, for any schema, were not noted.` : ""}${missingCount > 0
      ? html` ${count(missingCount)} ${missingCount === 1 ? "node has" : "nodes have"} not answered${missing.length
        ? html`: ${missing.map((each, index) => html`${index > 0 && ", "}<${Name} plain text=${each} />`)}` : ""}.`
      : ""}</p>`;
}

/** Those that have asked for a version, or for none in particular, with what they have asked of these. */
function askersOf(askers, version) {
  if (version === undefined) return askers;
  return askers.flatMap((each) => {
    const versions = each.versions.filter((asked) => asked.version === version || asked.version === null);
    if (versions.length === 0) return [];
    const [firsts, lasts] = [versions.map(({ first }) => first).sort(), versions.map(({ last }) => last).sort()];
    const requests = versions.reduce((sum, asked) => sum + asked.requests, 0);
    return [{ ...each, versions, requests, first: firsts[0], last: lasts.at(-1) }];
  });
}
