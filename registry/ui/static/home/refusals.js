// What was refused most: counters of the host that answers.
import { html } from "../vendor.js";
import { getText } from "../api.js";
import { count } from "../cluster/units.js";
import { Failure } from "../components/notice.js";
import { Table } from "../components/table.js";
import { usePolled } from "../live/polled.js";
import { refusedMost } from "./metrics.js";

const EVERY_MS = 60_000;
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

export function Refusals() {
  const { data, error, again } = usePolled(async (signal) =>
    refusedMost(await getText("/metrics", { signal }), SHOWN), EVERY_MS);
  return html`
    <section class="card" aria-label="Refused most">
      <h2>Refused most</h2>
      ${error && html`<${Failure} error=${error} onRetry=${again} />`}
      ${data === null && !error && html`<p class="quiet" role="status">Loading…</p>`}
      ${data?.length === 0 && html`<p class="quiet">Nothing was refused.</p>`}
      ${data?.length > 0 && html`
        <${Table} caption="Refused most" columns=${COLUMNS} rows=${data}
          rowKey=${({ method, route, status }) => `${status} ${method} ${route}`} />
        <p class="quiet">Counted by the host that answers, since its node started.</p>`}
    </section>`;
}
