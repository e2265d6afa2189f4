// Records of the log that could not be read, with the reason.
import { html, useEffect, useState } from "../vendor.js";
import { pages } from "../api.js";
import { Name } from "../components/name.js";
import { Failure, Notice } from "../components/notice.js";
import { Table } from "../components/table.js";
import { useReload } from "../live/feed.js";
import { plain } from "../names.js";
import { onSignIn } from "../session/session.js";
import { count, moment } from "./units.js";

const PAGE = 100;
const COLUMNS = [
  { id: "offset", title: "Offset", numeric: true, cell: (each) => count(each.offset) },
  { id: "time", title: "Written", cell: (each) => (each.ts ? moment(each.ts) : "–") },
  { id: "reason", title: "Reason", cell: (each) => html`<span class="text">${plain(each.reason)}</span>` },
  { id: "key", title: "Key", cell: (each) => html`<${Name} plain text=${each.key} />` },
];

export function Quarantine() {
  const [clashes, setClashes] = useState(false);
  return html`
    <p>These records could not be interpreted and were skipped; all others were applied. The next valid record with the
      same key clears the entry.</p>
    <p class="actions"><label class="choice">
      <input type="checkbox" checked=${clashes} onChange=${(event) => setClashes(event.currentTarget.checked)} />
      Also ids that stand for two schemas (examines all versions)</label></p>
    <${Listed} key=${clashes} clashes=${clashes} />`;
}

function Listed({ clashes }) {
  const [state, setState] = useState({ rows: [], more: null, error: null, busy: true });
  const [round, setRound] = useState(0);
  const load = async (list, rows) => {
    setState((before) => ({ ...before, busy: true, error: null }));
    try {
      const { value, done } = await list.next();
      const found = done ? rows : [...rows, ...value];
      setState({ rows: found, more: done || value.length < PAGE ? null : list, error: null, busy: false });
    } catch (error) {
      if (error.name !== "AbortError") setState((before) => ({ ...before, error, busy: false }));
    }
  };
  useEffect(() => {
    const stopped = new AbortController();
    load(pages("/quarantine", { query: { clashes: clashes || undefined }, limit: PAGE, signal: stopped.signal }), []);
    return () => stopped.abort();
  }, [round]);
  const again = () => setRound((number) => number + 1);
  useReload(({ kind }) => kind === "quarantined", again);
  useEffect(() => onSignIn(again), []);
  const { rows, more, error, busy } = state;
  if (error) return html`<${Failure} error=${error} onRetry=${again} />`;
  if (rows.length === 0) {
    return busy
      ? html`<p class="quiet" role="status">Loading…</p>`
      : html`<${Notice} kind="empty" title="No quarantined records" />`;
  }
  return html`
    <${Table} caption="Quarantined records" columns=${COLUMNS} rows=${rows}
      rowKey=${(each) => `${each.offset} ${each.reason}`} />
    ${more && html`<button disabled=${busy} onClick=${() => load(more, rows)}>Show more</button>`}`;
}
