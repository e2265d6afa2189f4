// All nodes, whichever of them answers: roles, offsets, digests, figures of the last minutes, and the primaries so far.
import { plain } from "../names.js";
import { html, useEffect, useRef, useState } from "../vendor.js";
import { get } from "../api.js";
import { Badge } from "../components/badge.js";
import { Name } from "../components/name.js";
import { Failure, Notice } from "../components/notice.js";
import { Table } from "../components/table.js";
import { Readiness } from "../home/health-line.js";
import { usePolled } from "../live/polled.js";
import { Figures } from "./figures.js";
import { ClusterHistory, digestsOf, isSilent, lagOf } from "./history.js";
import { ago, bytes, count, moment } from "./units.js";

const EVERY_MS = 2000;

export function Nodes() {
  const { data, error, at, again } = usePolled((signal) => get("/admin/cluster", { signal }), EVERY_MS);
  const history = useRef(new ClusterHistory());
  const [news, setNews] = useState([]);
  useEffect(() => {
    if (data === null) return;
    const added = history.current.add(data, at);
    if (added.length) setNews((before) => [...added, ...before].slice(0, 20));
  }, [data]);
  if (data === null) return error
    ? html`${error.keptInside && html`<${Readiness} />`}<${Failure} error=${error} onRetry=${again} />`
    : html`<p class="quiet" role="status">Loading…</p>`;
  const nodes = history.current.with(data.nodes, at);
  return html`
    ${error && html`<${Notice} kind="warning" title="The registry does not respond">
      <p>${plain(error.message)}. What you see is from ${moment(at)}; trying again.</p><//>`}
    <${Primary} cluster=${data} />
    <${NodeTable} nodes=${nodes} />
    <${Figures} samples=${history.current.samples} nodes=${nodes} />
    <section><h2>History of primaries</h2><${Primacies} primacies=${data.primacies} /></section>
    <section><h2>Since this page was opened</h2>
      <ol class="news" aria-live="polite" aria-label="News">
        ${news.map((each) => html`<li key=${each.key}><time>${moment(each.time)}</time> ${each.text}</li>`)}</ol>
      ${news.length === 0 && html`<p class="quiet">No changes yet.</p>`}
    </section>`;
}

function Primary({ cluster }) {
  const primary = cluster.nodes.find((node) => node.role === "primary" && node.url === cluster.primary);
  if (!cluster.primary) {
    return html`<${Notice} kind="warning" title="There is no primary">
      <p>Writes wait until one is elected; reads continue.</p>
        ${cluster.problem && html`<p>${cluster.problem}</p>`}<//>`;
  }
  return html`<p class="primary-line" role="status">The primary is${" "}
    <strong><${Name} plain text=${cluster.primary} /></strong>
    ${primary && primary.epoch >= 0 ? `, epoch ${count(primary.epoch)}` : ""}.</p>`;
}

function NodeTable({ nodes }) {
  const digests = digestsOf(nodes);
  const lag = lagOf(nodes);
  const columns = [
    { id: "node", title: "Node",
      cell: (node) =>
        html`<${Name} plain text=${node.url} /> <span class="quiet mono">${node.node.slice(0, 8)}</span>` },
    { id: "role", title: "Role", cell: (node) => html`<${Role} node=${node} />` },
    { id: "applied", title: "Applied", numeric: true, cell: (node) => count(node.applied) },
    { id: "lag", title: "Lag", numeric: true, cell: (node) => count(lag(node)) },
    { id: "digest", title: "Digest", cell: (node) => html`<${Digest} node=${node} verdict=${digests(node)} />` },
    { id: "age", title: "Heard", numeric: true,
      cell: (node) => (node.age_s ? `${Math.round(node.age_s)} s ago` : "now") },
    { id: "requests", title: "Requests/s", numeric: true, wide: true,
      cell: (node) => (node.rate === null ? "–" : node.rate.toFixed(1)) },
    { id: "store", title: "Store", numeric: true, wide: true,
      cell: (node) =>
        html`<span title=${`${count(node.store_rows)} rows, of at most ${bytes(node.store_map_bytes)}`}>
          ${bytes(node.store_bytes)}</span>` },
    { id: "quarantined", title: "Quarantine", numeric: true, wide: true, cell: (node) => count(node.quarantined) },
    { id: "version", title: "Version", wide: true, cell: (node) => node.version },
    { id: "started", title: "Running for", numeric: true, wide: true,
      cell: (node) => (node.started_ms ? ago(node.started_ms) : "–") },
  ];
  return html`<${Table} caption="Nodes" columns=${columns} rows=${nodes} rowKey=${(node) => node.url} />`;
}

function Role({ node }) {
  if (isSilent(node)) return html`<${Badge} tone="bad">no answer<//>`;
  return html`
    <${Badge} tone=${node.role === "primary" ? "accent" : node.role === "secondary" ? "plain" : "warn"}>${node.role}<//>
    ${!node.ready && html`<${Unready} word="not ready" reasons=${node.reasons} />`}
    ${node.invalid_files.length > 0 && html`<${Unready} word="would not restart" reasons=${node.invalid_files} />`}
    ${node.ready && !node.ready_for_writes &&
      html`<${Unready} word="not ready for writes" reasons=${node.reasons_for_writes} />`}`;
}

function Unready({ word, reasons }) {
  return html` <${Badge} tone="warn" title=${reasons.join("; ")}>${word}<//><p class="quiet">${reasons.join("; ")}</p>`;
}

const VERDICTS = { equal: ["good", "equal"], different: ["bad", "different"], unknown: ["plain", "at another offset"] };

function Digest({ node, verdict }) {
  const [tone, text] = VERDICTS[verdict] ?? [];
  return html`<code title=${node.digest}>${node.digest.slice(0, 8) || "–"}</code>
    ${text && html` <${Badge} tone=${tone}>${text}<//>`}`;
}

function Primacies({ primacies }) {
  if (primacies.length === 0) return html`<p class="quiet">None since the nodes started.</p>`;
  const columns = [
    { id: "time", title: "Elected", cell: (each) => moment(each.time) },
    { id: "node", title: "Node", cell: (each) => html`<${Name} plain text=${each.url} />` },
    { id: "epoch", title: "Epoch", numeric: true, cell: (each) => (each.epoch < 0 ? "–" : count(each.epoch)) },
  ];
  return html`<${Table} caption="Primaries, newest first" columns=${columns} rows=${[...primacies].reverse()}
    rowKey=${(each) => `${each.time}-${each.url}-${each.epoch}`} />`;
}
