// What has happened in the registry: the newest events of the log, and new ones as they come.
import { html, useEffect, useRef, useState } from "../vendor.js";
import { request } from "../api.js";
import { Badge } from "../components/badge.js";
import { Name } from "../components/name.js";
import { Failure, Notice } from "../components/notice.js";
import { principals } from "../components/principals.js";
import { Table } from "../components/table.js";
import { useTyped } from "../components/typed.js";
import { useChanges, useConnection } from "../live/feed.js";
import { href, keep, kept, navigate, to } from "../router.js";
import { onSignIn } from "../session/session.js";
import { moment } from "../cluster/units.js";
import { plain } from "../names.js";
import { KINDS, concerns, described, merged } from "./events.js";
import { older } from "./older.js";

const KEPT_MAX = 1000;
const PAUSE_MS = 200;
const FIRST = 50; // events at first, and with each click
const SHOWN = "events"; // kept with the page, for the way back

export default function Activity({ query }) {
  const { q = "", kind = "" } = query;
  const [text, type, cancel] =
    useTyped(q, (value) => navigate(to("/activity", { q: value, kind }), { replace: true }), PAUSE_MS);
  const choose = (value) => {
    cancel();
    navigate(to("/activity", { q: text, kind: value }));
  };
  return html`
    <h1>Activity</h1>
    <form class="actions" role="search" onSubmit=${(event) => event.preventDefault()}>
      <label>Subjects with the prefix <input type="search" value=${text}
        onInput=${(event) => type(event.currentTarget.value)} /></label>
      <label>Event <select aria-label="Event" value=${kind} onChange=${(event) => choose(event.currentTarget.value)}>
        <option value="">all</option>
        ${Object.entries(KINDS).map(([each, name]) => html`<option key=${each} value=${each}>${name}</option>`)}
      </select></label>
    </form>
    <${Listed} key=${JSON.stringify([q, kind])} filter=${{ prefix: q, kind }} />`;
}

const COLUMNS = [
  { id: "offset", title: "Offset", numeric: true, wide: true, cell: (each) => each.offset },
  { id: "time", title: "Time", cell: (each) => moment(each.time) },
  { id: "kind", title: "Event",
    cell: (each) =>
      html`<${Badge} tone=${each.kind === "quarantined" ? "bad" : each.kind.endsWith("deleted") ? "warn" : "plain"}>
        ${KINDS[each.kind] ?? each.kind}<//>` },
  { id: "subject", title: "Subject", cell: (each) => (each.subject === undefined
    ? html`<span class="quiet">
      ${each.context === undefined ? "the cluster" : each.context === "."
        ? "the top level" : `context ${plain(each.context)}`}
      </span>`
    : html`<a href=${href`/subjects/${each.subject}`}><${Name} text=${each.subject} /></a>`) },
  { id: "more", title: "Details", cell: (each) => html`<span class="text">${described(each)}</span>` },
];

function Listed({ filter }) {
  const [list, setList] = useState(null); // { rows, begin: the offset before which there is more, or null, most }
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const connection = useConnection();
  const stopped = useRef(new AbortController());
  /** most: how many rows there are then. */
  const load = async (before, wanted, most) => {
    setBusy(true);
    setError(null);
    keep(SHOWN, most);
    try {
      const { events, begin } = await older(filter, before, wanted, stopped.current.signal);
      setList((shown) => merged(shown ?? { rows: [] }, events,
        { begin: begin > 0 ? begin : null, most: Math.max(most, shown?.most ?? 0) }));
    } catch (thrown) {
      if (thrown.name !== "AbortError") setError(thrown);
    } finally {
      setBusy(false);
    }
  };
  const start = async () => {
    try {
      const answer = await request("GET", "/me", { signal: stopped.current.signal });
      const wanted = kept(SHOWN) ?? FIRST;
      await load(Number(answer.headers.get("x-registry-offset")), wanted, wanted);
    } catch (thrown) {
      if (thrown.name !== "AbortError") setError(thrown);
    }
  };
  useEffect(() => {
    start();
    const stop = onSignIn(start);
    return () => {
      stop();
      stopped.current.abort();
    };
  }, []);
  const inFrame = useFrames((events) =>
    setList((shown) => merged(shown ?? { rows: [], begin: null, most: FIRST }, events)));
  useChanges((events) => {
    if (events === null) start();
    else inFrame(events.filter((event) => concerns(filter, event)));
  });
  const { rows = null, begin = null, most = FIRST } = list ?? {};
  if (error?.notFound) {
    return html`<${Notice} kind="empty" title="There is no change feed">
      <p>This registry is older than the console.</p><//>`;
  }
  return html`
    ${error && html`<${Failure} error=${error} onRetry=${start} />`}
    ${rows === null && !error && html`<p class="quiet" role="status">Loading…</p>`}
    ${rows?.length === 0 &&
      html`<${Notice} kind="empty" title=${begin === null ? "No events yet" : "No recent events"} />`}
    ${rows?.length > 0 &&
      html`<${Table} caption="Events, newest first" columns=${[...COLUMNS, ...principals(rows)]} rows=${rows} steady
        rowKey=${(each) => each.offset} />`}
    ${begin !== null && most < KEPT_MAX &&
      html`<p class="actions"><button disabled=${busy}
        onClick=${() => load(begin, FIRST, Math.min(KEPT_MAX, most + FIRST))}>Show older</button></p>`}
    <p class="quiet" role="status">
      ${connection === "live"
        ? "New events appear here as they happen." : "New events appear when the connection is back."}</p>`;
}

/** Returns a function that takes events; they are handed on together when the browser paints next. */
function useFrames(handle) {
  const waiting = useRef({ events: [], frame: 0 });
  const current = useRef(handle);
  current.current = handle;
  useEffect(() => () => cancelAnimationFrame(waiting.current.frame), []);
  return (events) => {
    if (events.length === 0) return;
    waiting.current.events.push(...events);
    waiting.current.frame ||= requestAnimationFrame(() => {
      const { events: all } = waiting.current;
      waiting.current = { events: [], frame: 0 };
      current.current(all);
    });
  };
}
