// What was refused most: counters of the host that answers.
import { html } from "../vendor.js";
import { count } from "../cluster/units.js";
import { Table } from "../components/table.js";
import { refusedMost } from "./metrics.js";

const SHOWN = 8;
const WORDS = {
  400: "bad request", 401: "not signed in", 403: "no permission", 404: "not found", 405: "method not allowed",
  406: "media type", 408: "too slow", 409: "conflict", 410: "gone", 412: "changed in the meantime", 413: "too large",
  415: "media type", 422: "not valid", 429: "too many requests", 500: "server error", 501: "turned off",
  503: "unavailable",
};
const COLUMNS = [
  { id: "count", title: "Requests", numeric: true, cell: (each) => count(each.count) },
  { id: "what", title: "Request", cell: ({ method, route }) => html`<code class="wrap">${method} ${route}</code>` },
  { id: "why", title: "Answer",
    cell: ({ status }) => `${status}${WORDS[status] ? ` ${WORDS[status]}` : ""}` },
];

/** metrics: the answer of GET /metrics, undefined while it is loading, null if it was refused. */
export function Refusals({ metrics }) {
  const data = typeof metrics === "string" ? refusedMost(metrics, SHOWN) : null;
  return html`
    <section class="card" aria-label="Refused most">
      <h2>Most refused requests</h2>
      ${metrics === undefined && html`<p class="quiet" role="status">Loading…</p>`}
      ${metrics === null && html`<p class="quiet">The metrics of the registry cannot be read from here.</p>`}
      ${data?.length === 0 && html`<p class="quiet">No refused requests.</p>`}
      ${data?.length > 0 && html`
        <${Table} caption="Refused most" columns=${COLUMNS} rows=${data}
          rowKey=${({ method, route, status }) => `${status} ${method} ${route}`} />
        <p class="quiet">Counted by the host that answers, since its node started.</p>`}
    </section>`;
}
