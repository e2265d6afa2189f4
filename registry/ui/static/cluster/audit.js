// The audit log: who did what, when, and with which result, on all nodes that write it to a file.
import { html, useState } from "../vendor.js";
import { get } from "../api.js";
import { Badge } from "../components/badge.js";
import { useLast } from "../components/last.js";
import { Name } from "../components/name.js";
import { Failure, Notice } from "../components/notice.js";
import { Table } from "../components/table.js";
import { Time } from "../components/time.js";
import { useTyped } from "../components/typed.js";
import { plain } from "../names.js";
import { navigate, to } from "../router.js";
import { Loaded, useLoaded } from "../schema/loading.js";

const PAGE = 100;
const SHOWN_MAX = 2000;
const PAUSE_MS = 300;
const FIELDS = ["principal", "operation", "subject"];
const OUTCOMES = ["done", "refused", "unknown"];
const TONES = { done: "good", refused: "bad", unknown: "warn" };

/** query: principal, operation, subject (its beginning), outcome; since and until: local times, as fields have them. */
export function Audit({ query }) {
  return html`
    <${Filters} query=${query} />
    <${Entries} key=${JSON.stringify(query)} query=${query} />`;
}

function Filters({ query }) {
  const [typed, type] =
    useTyped(query, (next) => navigate(to("/cluster/audit", next), { replace: true }), PAUSE_MS);
  const change = (changes, pause = 0) => {
    // As the address has them: without those that are empty.
    type(Object.fromEntries(Object.entries({ ...typed, ...changes }).filter(([, value]) => value)), pause);
  };
  const text = (name, label) => html`<label>${label} <input type="search" value=${typed[name] ?? ""} spellcheck="false"
    onInput=${(event) => change({ [name]: event.currentTarget.value }, PAUSE_MS)} /></label>`;
  const time = (name, label) => html`<label>${label} <input type="datetime-local" step="1" value=${typed[name] ?? ""}
    onChange=${(event) => change({ [name]: event.currentTarget.value })} /></label>`;
  return html`
    <form class="actions" role="search" onSubmit=${(event) => event.preventDefault()}>
      ${text("principal", "Principal")} ${text("operation", "Operation contains")}
      ${text("subject", "Subject begins with")}
      <label>Result <select value=${typed.outcome ?? ""}
        onChange=${(event) => change({ outcome: event.currentTarget.value })}>
        <option value="">all</option>
        ${OUTCOMES.map((each) => html`<option key=${each}>${each}</option>`)}
      </select></label>
      ${time("since", "From")} ${time("until", "Until")}
    </form>`;
}

/** Returns what the API is asked. */
function asked({ outcome, since, until, ...query }) {
  const ms = (text) => (text ? new Date(text).getTime() : undefined);
  const texts = Object.fromEntries(FIELDS.map((name) => [name, query[name]]));
  return { ...texts, outcome, since: ms(since), until: ms(until), limit: PAGE };
}

function Entries({ query }) {
  const first = useLoaded((signal) => get("/admin/audit", { query: asked(query), signal }), []);
  const [more, setMore] = useState([]); // further pages
  const [{ busy, error }, setState] = useState({});
  const begin = useLast();
  return html`
    <${Loaded} of=${first} what="the audit log">
      ${(page) => {
        const pages = [page, ...more];
        const last = pages.at(-1);
        const entries = pages.flatMap((each) => each.entries);
        const older = async () => {
          setState({ busy: true });
          const isLast = begin();
          try {
            const next = await get("/admin/audit", { query: { ...asked(query), cursor: last.cursor } });
            if (!isLast()) return;
            setMore([...more, next]);
            setState({});
          } catch (failure) {
            if (isLast()) setState({ error: failure });
          }
        };
        const reload = () => {
          begin(); // an older page that is still to come does not continue the new first one
          setState({});
          setMore([]);
          first.reload();
        };
        return html`
          <${Sources} page=${last} />
          ${entries.length > 0 && html`<${Table} caption="Audit entries, newest first" rows=${entries} steady
            rowKey=${(row) => entries.indexOf(row)} columns=${page.nodes.length > 1 ? [...COLUMNS, NODE] : COLUMNS} />`}
          ${entries.length === 0 && page.nodes.some(({ destination }) => destination === "file") && html`
            <${Notice} kind="empty" title=${last.cursor ? "No entry so far" : "No matching entries"}>
              ${last.cursor && html`<p>Older entries have not been looked at yet.</p>`}<//>`}
          ${error && html`<${Failure} error=${error} />`}
          <p class="actions">
            ${last.cursor && entries.length < SHOWN_MAX &&
              html`<button disabled=${busy} onClick=${older}>Show older</button>`}
            <button onClick=${reload}>Reload</button>
          </p>`;
      }}
    <//>`;
}

const UNREADABLE = {
  none: "writes no audit log: see the setting audit_log",
  stdout: "writes its audit log to standard output, where the console cannot read it",
};

/** Says which nodes are missing in the list, and why. */
function Sources({ page: { nodes, missing } }) {
  const reasons = nodes.filter(({ destination, problem }) => destination !== "file" || problem).map((each) => ({
    node: each.node,
    why: each.problem || (each.destination === "topic"
      ? `writes its audit log to the topic ${plain(each.topic)}, where the console cannot read it`
      : UNREADABLE[each.destination]),
  }));
  const all = [...reasons, ...missing.map((node) => ({ node, why: "did not answer" }))];
  if (!all.length) return null;
  return html`
    <${Notice} kind="warning" title=${all.length === nodes.length + missing.length
      ? "The audit log cannot be shown" : "Entries of these nodes are missing"}>
      <ul>${all.map(({ node, why }) => html`<li key=${node}><${Name} plain text=${node} /> ${why}.</li>`)}</ul>
    <//>`;
}

const COLUMNS = [
  { id: "time", title: "Time", cell: ({ time }) => html`<${Time} ms=${Date.parse(time)} />` },
  { id: "who", title: "Who", cell: (row) => html`<${Who} row=${row} />` },
  { id: "what", title: "What", cell: ({ event, operation, setting, requests = 1 }) => html`
    ${event === "file" ? html`new content of the file <${Name} plain text=${setting} />`
      : html`<${Name} plain text=${operation} />`}
    ${requests > 1 && html` <span class="quiet">${requests} requests</span>`}` },
  { id: "subject", title: "Subject", cell: ({ subject }) => (subject ? html`<${Name} text=${subject} />` : "") },
  { id: "result", title: "Result", cell: ({ event, outcome, status, error_code: code }) => (event === "file" ? ""
    : html`<${Badge} tone=${TONES[outcome]}>${outcome}<//>
      <span class="quiet"> ${code || status || "no answer"}</span>`) },
  { id: "details", title: "Details", wide: true, cell: (row) => html`<${Details} row=${row} />` },
];
const NODE = { id: "node", title: "Node", wide: true, cell: ({ node }) => html`<${Name} plain text=${node} />` };

function Who({ row: { event, principal, kind, address } }) {
  if (event === "file") return html`<span class="quiet">the server</span>`;
  return html`
    ${principal ? html`<${Name} plain text=${principal} />` : html`<span class="quiet">nobody</span>`}
    ${kind && html` <span class="quiet">${kind}</span>`}<br />
    <span class="quiet"><${Name} plain text=${address} /></span>`;
}

function Details({ row: { target = {}, options = {}, offset, path, request_id: request } }) {
  const facts = Object.entries({ ...target, ...options, ...(path ? { path } : {}) });
  return html`
    ${facts.map(([name, value]) => html`<div key=${name}><${Name} plain text=${name} />:
      ${" "}<${Name} plain text=${typeof value === "string" ? value : JSON.stringify(value)} /></div>`)}
    ${offset !== null && offset !== undefined && html`<div class="quiet">offset ${offset}</div>`}
    ${request && html`<div class="quiet">request <${Name} plain text=${request} /></div>`}`;
}
