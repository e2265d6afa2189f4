// Snapshots: those that exist or are being built, with buttons to request and to delete one.
import { plain } from "../names.js";
import { html, useState } from "../vendor.js";
import { get, path, request, send } from "../api.js";
import { Badge } from "../components/badge.js";
import { Dialog } from "../components/dialog.js";
import { Name } from "../components/name.js";
import { Failure, Notice } from "../components/notice.js";
import { Table } from "../components/table.js";
import { useReload } from "../live/feed.js";
import { usePolled } from "../live/polled.js";
import { GuardedButton } from "../session/guarded.js";
import { ago, bytes, count, duration, moment } from "./units.js";

const WHERE = "/admin/snapshots";
const TONES = { ready: "good", failed: "bad", building: "accent", requested: "warn", deleting: "plain" };
const [BUSY_MS, IDLE_MS] = [1500, 15_000];

export function Snapshots() {
  const [busy, setBusy] = useState(false);
  const { data, error, again } = usePolled(async (signal) => {
    const found = await get(WHERE, { signal });
    setBusy(found.some(({ state }) => state === "requested" || state === "building"));
    return found;
  }, busy ? BUSY_MS : IDLE_MS);
  const [refused, setRefused] = useState(null);
  const [chosen, setChosen] = useState(null);
  useReload(({ kind }) => kind === "snapshot_requested", again);
  const attempt = (work) => {
    setRefused(null);
    work().catch(setRefused).finally(() => { setBusy(true); again(); });
  };
  return html`
    <p class="actions">
      <${GuardedButton} needs="admin" class="primary" onClick=${() => attempt(() => send("POST", WHERE))}>Build a
        snapshot<//>
      <span class="quiet">A starting node loads the newest snapshot instead of reading the whole log.</span>
    </p>
    ${refused && html`<${Failure} error=${refused} />`}
    ${error && html`<${Failure} error=${error} onRetry=${again} />`}
    ${data === null && !error && html`<p class="quiet" role="status">Loading…</p>`}
    ${data?.length === 0 && html`<${Notice} kind="empty" title="No snapshots yet" />`}
    ${data?.length > 0 &&
      html`<${Table} caption="Snapshots, newest first" columns=${columns(setChosen)} rows=${data}
        rowKey=${(each) => each.id} />`}
    ${chosen && html`<${Deletion} entry=${chosen} onClose=${() => setChosen(null)} onDelete=${() => {
      setChosen(null);
      attempt(() => request("DELETE", path`/admin/snapshots/${chosen.id}`));
    }} />`}`;
}

function columns(onDelete) {
  return [
    { id: "id", title: "Snapshot", cell: (each) => html`<${Name} plain text=${each.id} />` },
    { id: "state", title: "State", cell: (each) => html`<${State} entry=${each} />` },
    { id: "offset", title: "Offset", numeric: true, cell: (each) => count(each.offset) },
    { id: "age", title: "Requested",
      cell: (each) => html`<time title=${moment(each.requested_ms)}>${ago(each.requested_ms)} ago</time>` },
    { id: "size", title: "Size", numeric: true, cell: (each) => (each.size ? bytes(each.size) : "–") },
    { id: "rows", title: "Rows", numeric: true, wide: true, cell: (each) => (each.rows ? count(each.rows) : "–") },
    { id: "schemas", title: "Versions", numeric: true, wide: true,
      cell: (each) => (each.schemas ? count(each.schemas) : "–") },
    { id: "engine", title: "Built by", wide: true, cell: (each) => each.engine || "–" },
    { id: "delete", title: "", cell: (each) => html`
      <${GuardedButton} needs="admin" class="danger small" aria-label=${`Delete the snapshot ${each.id}`}
        onClick=${() => onDelete(each)}>Delete…<//>` },
  ];
}

function State({ entry }) {
  const { state, reason, attempts, builder, updated_ms: updated, requested_ms: requested } = entry;
  return html`
    <${Badge} tone=${TONES[state]}>${state}<//>
    ${state === "building" && html`
      <${Built} entry=${entry} />
      <span class="quiet"> for ${duration((Date.now() - requested) / 1000)}, by <${Name} plain text=${builder} />, last
        heard ${ago(updated)} ago</span>`}
    ${state === "requested" && html`<span class="quiet"> waiting for a builder</span>`}
    ${reason && html`<p class="quiet">${plain(reason)}${attempts > 1 ? ` (${attempts} attempts)` : ""}</p>`}`;
}

function Built({ entry: { id, progress } }) {
  if (!progress) return html` <progress aria-label=${`Building ${id}`}></progress>`; // none was reported
  const { step, done, total } = progress;
  const percent = Math.min(100, Math.floor((100 * done) / Math.max(1, total)));
  return html`
    <progress aria-label=${`Building ${id}: ${step}`} value=${percent} max="100"></progress>
    <span title=${`${count(done)} of ${count(total)}`}> ${percent} % of ${step}</span>`;
}

function Deletion({ entry, onClose, onDelete }) {
  return html`
    <${Dialog} title="Delete this snapshot?" onClose=${onClose}
      footer=${html`<button onClick=${onClose}>Keep it</button>
        <button class="danger" onClick=${onDelete}>Delete it</button>`}>
      <p>
        <${Name} plain text=${entry.id} />, the state before offset ${count(entry.offset)}
        ${entry.size ? `, ${bytes(entry.size)}` : ""}.</p>
      <p>Schemas are not affected. Starting nodes then load an older snapshot or read the log from its beginning.</p>
    <//>`;
}
