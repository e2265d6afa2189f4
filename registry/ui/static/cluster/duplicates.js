// Schemas that are registered more than once: the server searches all of them, and the page shows how far it is.
import { plain } from "../names.js";
import { html, useEffect, useRef, useState } from "../vendor.js";
import { lines } from "../api.js";
import { CopyButton } from "../components/copy-button.js";
import { Failure, Notice } from "../components/notice.js";
import { GuardedButton } from "../session/guarded.js";
import { Groups } from "./groups.js";
import { rememberSearch } from "./last-search.js";
import { count } from "./units.js";

const REGISTRY = new URL("..", document.baseURI).href.replace(/\/$/, "");
const LIMIT = 100;

export function Duplicates() {
  const [wanted, setWanted] = useState({ prefix: "", deleted: false });
  const { state, begin, cancel } = useSearch();
  const searching = state.phase === "searching";
  const submit = (event) => {
    event.preventDefault();
    if (!searching) begin(wanted);
  };
  return html`
    <p>Subjects may hold the same schema under several ids, for example written in another order. To find them, the
      server compares all
      schemas with one another. That takes a while and changes nothing.</p>
    <form class="actions" role="search" onSubmit=${submit}>
      <label>Subjects with the prefix <input type="search" value=${wanted.prefix} placeholder="all" spellcheck=${false}
        onInput=${(event) => setWanted({ ...wanted, prefix: event.currentTarget.value })} /></label>
      <label class="choice"><input type="checkbox" checked=${wanted.deleted}
        onChange=${(event) => setWanted({ ...wanted, deleted: event.currentTarget.checked })} /> Also deleted
          versions</label>
      <${GuardedButton} needs="admin" class="primary" type="submit" disabled=${searching}>Find duplicates<//>
      ${searching && html`<button type="button" onClick=${cancel}>Cancel</button>`}
    </form>
    <${Outcome} state=${state} onRetry=${() => begin(wanted)} />
    <${Command} />`;
}

/** A search at a time; it ends when the page is left. state: { phase, progress, groups, found, error }. */
function useSearch() {
  const [state, setState] = useState({ phase: "idle" });
  const running = useRef(null);
  useEffect(() => () => running.current?.abort(), []);
  const begin = async ({ prefix, deleted }) => {
    running.current?.abort();
    const stopped = new AbortController();
    running.current = stopped;
    const change = (next) => stopped.signal.aborted || setState(next);
    const query = { subjectPrefix: prefix || ":*:", deleted, limit: LIMIT };
    const groups = [];
    try {
      change({ phase: "searching", progress: null });
      for await (
        const { progress, group, found, error } of lines("/admin/duplicates", { query, signal: stopped.signal })) {
        if (progress) change({ phase: "searching", progress });
        if (group) groups.push(group);
        if (found) {
          change({ phase: "done", groups, found });
          if (!prefix && !deleted) rememberSearch(found);
        }
        if (error) change({ phase: "failed", message: error.message });
      }
      change((before) =>
        (before.phase === "searching" ? { phase: "failed", message: "The answer ended early; try again." } : before));
    } catch (error) {
      change({ phase: "refused", error });
    }
  };
  const cancel = () => {
    running.current.abort();
    setState({ phase: "cancelled" });
  };
  return { state, begin, cancel };
}

function Outcome({ state: { phase, progress, groups, found, message, error }, onRetry }) {
  switch (phase) {
    case "searching":
      return html`<${Progress} progress=${progress} />`;
    case "cancelled":
      return html`<p class="quiet" role="status">The search was cancelled.</p>`;
    case "failed":
      return html`<${Notice} kind="error" title="The search did not finish"><p>${plain(message)}</p><//>`;
    case "refused":
      return error.status === 429
        ? html`<${Notice} kind="warning" title="Another search is already running" action="Try again"
          onAction=${onRetry}><p>${plain(error.message)}.</p><//>`
        : html`<${Failure} error=${error} onRetry=${onRetry} />`;
    case "done":
      return found.groups === 0
        ? html`<${Notice} kind="empty" title="No duplicates found" />`
        : html`<${Found} groups=${groups} found=${found} />`;
    default:
      return null;
  }
}

function Progress({ progress }) {
  if (!progress?.total) return html`<p><progress aria-label="Searching"></progress> Starting…</p>`;
  const { step, done, total } = progress;
  const percent = Math.floor((100 * done) / total);
  return html`<p><progress aria-label=${`Searching: ${step}`} value=${percent} max="100"></progress>
    ${percent} % of ${step} <span class="quiet">(${count(done)} of ${count(total)} versions)</span></p>`;
}

function Found({ groups, found }) {
  const all = found.groups === 1 ? "1 group" : `${count(found.groups)} groups`;
  return html`
    <p role="status">Found ${all} of equal schemas${found.listed < found.groups
      ? `; the first ${count(found.listed)} are listed. Narrow the search or use the command line to see the others.`
        : "."}</p>
    <${Groups} groups=${groups} />`;
}

function Command() {
  const command = `registrar duplicates ${REGISTRY}`;
  return html`
    <p class="quiet">The command line lists all of them and also searches snapshots. Ids that stand for two different
      schemas are listed under
      Quarantine.</p>
    <p class="command"><code>${command}</code> <${CopyButton} text=${command} label="Copy the command" /></p>`;
}
