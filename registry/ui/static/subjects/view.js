// The list of subjects: search, filters, and a row for each that is on the screen.
import { html, useEffect, useMemo, useReducer, useRef, useState } from "../vendor.js";
import { Failure, Notice } from "../components/notice.js";
import { VirtualList } from "../components/virtual-list.js";
import { useKeys } from "../keys.js";
import { useChanges } from "../live/feed.js";
import { href, navigate, to } from "../router.js";
import { onSignIn } from "../session/session.js";
import { Details } from "./details.js";
import { Names, matching } from "./names.js";
import { SubjectRow, head } from "./rows.js";
import { Toolbar } from "./toolbar.js";

const FILTERS = ["prefix", "words", "kind", "type", "level", "mode", "context", "deleted"];
const SETTLED_MS = 250;

export default function Subjects({ query }) {
  const [state, change, write] = useAddress(query);
  const [attempt, again] = useReducer((count) => count + 1, 0);
  const wanted = JSON.stringify(FILTERS.map((name) => state[name] || undefined));
  const filter = useSettled(wanted);
  const { list, shown, details } = useList(state, filter, attempt);
  const news = useNews(list, details, again);
  const rows = useMemo(() => matching(shown.names, state.q ?? ""), [shown, shown.names.length, state.q]);
  const search = useRef();
  const [current, setCurrent] = useCurrent(rows, state.at, change);
  const page = useRef({ first: 0, end: 0, height: 20 });

  const open = (index) => {
    if (rows[index] === undefined) return;
    write({ at: rows[index] }); // where the way back leads
    navigate(to`/subjects/${rows[index]}`);
  };
  // Written at once: the click may be on the link that leads away.
  const choose = (index) => {
    write({ at: rows[index] });
    setCurrent(index);
  };
  const move = (step) => setCurrent(Math.max(0, Math.min(rows.length - 1, current + step)));
  useKeys("Subjects", [
    { keys: "/", does: "Search", run: () => { search.current.focus(); search.current.select(); } },
    { keys: "j | ArrowDown", does: "Next subject", run: () => move(1) },
    { keys: "k | ArrowUp", does: "Previous subject", run: () => move(-1) },
    { keys: "PageDown", does: "Page down", run: () => move(page.current.height) },
    { keys: "PageUp", does: "Page up", run: () => move(-page.current.height) },
    { keys: "Home", does: "First subject", run: () => setCurrent(0) },
    { keys: "End", does: "Last subject", run: () => setCurrent(rows.length - 1) },
    { keys: "Enter", does: "Open the subject",
      run: (event) => (/^(A|BUTTON|SUMMARY)$/.test(event.target.tagName) ? false : open(current)) },
    { keys: "r", does: "Reload the list", run: again },
    { keys: "Escape", does: "Leave the search, then clear it", typing: true,
      run: (event) => leave(event, search.current, state, change) },
  ]);
  const visible = (first, end) => {
    page.current = { first, end, height: Math.max(1, end - first - 17) };
    details.want(rows.slice(first, end));
  };
  const height = useRowHeight();
  const failed = useRef();
  failed.current = list.error || details.error;
  useEffect(() => onSignIn(() => failed.current && again()), []);
  return html`
    <div class="subjects">
      <h1 class="unseen">Subjects</h1>
      <${Toolbar} state=${state} change=${change} search=${search} onEnter=${() => open(Math.max(0, current))}
        onDown=${() => { search.current.blur(); setCurrent(Math.max(0, current)); }}
        onStop=${list.done || list.error ? null : () => list.stop()}>
        <${Count} list=${shown} rows=${rows} searched=${Boolean(state.q?.trim())} />
        ${news > 0 && html`<button class="small" onClick=${again}>${news.toLocaleString()} new: show</button>`}
        <button class="plain" onClick=${again} title="Reload (r)" aria-label="Reload">⟳</button>
      <//>
      ${list.cut &&
        html`<p class="quiet">Only the first ${list.names.length.toLocaleString()} subjects are listed. “Begins with”
          finds the others.</p>`}
      ${list.warning && html`<p class="quiet" role="status">${list.warning}.</p>`}
      ${details.error && !list.error && html`<${Failure} error=${details.error} onRetry=${() => details.clear()} />`}
      ${list.error && html`<${Failure} error=${list.error} onRetry=${again} />`}
      ${rows.length > 0
        ? html`<${VirtualList} label="Subjects" count=${rows.length} rowHeight=${height}
          head=${head(state.sort ?? "", (sort) => change({ sort }))} order=${shown.sort} current=${current}
            onCurrent=${choose} onOpen=${open} onVisible=${visible} rowKey=${(index) => rows[index]}
            row=${(index) => html`<${SubjectRow} name=${rows[index]} details=${details.of(rows[index])} />`} />`
        : !list.error &&
          html`<${Nothing} list=${list} settled=${filter === wanted} state=${state} change=${change} />`}
    </div>`;
}

/**
 * The list and its details; both are new when a filter changes, or the user asks again. In another order the list is
 * new; the one before is shown until it has begun, so that the page does not flicker and the focus stays.
 */
function useList(state, filter, attempt) {
  const [, changed] = useReducer((count) => count + 1, 0);
  const held = useRef({});
  const sort = state.sort || undefined;
  const same = held.current.filter === filter && held.current.attempt === attempt;
  if (!same || held.current.sort !== sort) {
    const before = held.current;
    before.list?.close();
    if (!same) before.details?.close();
    const details = same ? before.details : new Details(changed);
    const list = new Names({ ...state, sort }, { changed });
    const shownBefore = same ? (before.list.begun ? before.list : before.before) : undefined;
    held.current = { filter, attempt, sort, list, details, before: shownBefore };
  }
  const { list, details } = held.current;
  if (list.begun) held.current.before = undefined;
  useEffect(() => { list.load(); }, [list]);
  useEffect(() => () => { held.current.list.close(); held.current.details.close(); held.current = {}; }, []);
  return { list, details, shown: held.current.before ?? list };
}

/** Keep the details of the rows current; returns the number of subjects that the list, once it is complete, lacks. */
function useNews(list, details, again) {
  const registered = useRef({ list, names: new Set() }); // since the list was asked for
  const [, count] = useReducer((number) => number + 1, 0);
  if (registered.current.list !== list) registered.current = { list, names: new Set() };
  const { names } = registered.current;
  const compare = () => {
    if (!list.done || names.size === 0) return;
    if (list.names.length === 0) {
      again(); // nothing is on the screen
      return;
    }
    for (const name of list.names) names.delete(name);
    count();
  };
  useChanges((events) => {
    if (events === null) {
      details.clear();
      return;
    }
    // Subjects inherit the config and mode of a context, and of the top level.
    if (events.some(({ subject, kind }) => subject === undefined && /^(config|mode)_/.test(kind))) details.renew();
    else details.renew(new Set(events.map(({ subject }) => subject).filter((subject) => subject !== undefined)));
    for (const event of events)
      if (event.kind === "version_registered" && list.mayHold(event)) names.add(event.subject);
    compare();
  });
  useEffect(compare, [list, list.done]);
  return list.done ? names.size : 0;
}

/** The state in the address: changes are seen at once, and written there when they pause. */
function useAddress(query) {
  const [state, setState] = useState(query);
  const written = useRef(query);
  useEffect(() => {
    if (JSON.stringify(query) !== JSON.stringify(written.current)) {
      written.current = query;
      setState(query);
    }
  }, [query]);
  const write = (part = {}) => {
    written.current = Object.fromEntries(Object.entries({ ...state, ...part }).filter(([, value]) => value));
    navigate(to("/subjects", written.current), { replace: true });
  };
  useEffect(() => {
    const timer = setTimeout(write, SETTLED_MS);
    return () => clearTimeout(timer);
  }, [state]);
  return [state, (part) => setState((before) => ({ ...before, ...part })), write];
}

/** A value once it has not changed for a moment. */
function useSettled(value) {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), SETTLED_MS);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}

/** The chosen row. It is known by its name, so that it stays when the list changes. */
function useCurrent(rows, name, change) {
  const index = useMemo(() => (name === undefined ? -1 : rows.indexOf(name)), [rows, rows.length, name]);
  return [index, (chosen) => rows.length && change({ at: rows[chosen] })];
}

function useRowHeight() {
  const measured = () => {
    const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
    return Math.round(rem * (matchMedia("(max-width: 40rem)").matches ? 3.6 : 2.3));
  };
  const [height, setHeight] = useState(measured);
  useEffect(() => {
    const changed = () => setHeight(measured());
    addEventListener("resize", changed);
    return () => removeEventListener("resize", changed);
  }, []);
  return height;
}

function leave(event, search, state, change) {
  if (event.target === search && !state.q) search.blur();
  else if (state.q) change({ q: "" });
  else return false;
  return true;
}

function Count({ list, rows, searched }) {
  const shown = rows.length.toLocaleString();
  const more = list.done && !list.cut ? "" : "+";
  const text = searched
    ? `${shown} of ${list.names.length.toLocaleString()}${more}`
    : `${shown}${more} ${rows.length === 1 ? "subject" : "subjects"}`;
  return html`<span class="quiet count" role="status">${text}</span>`;
}

function Nothing({ list, settled, state, change }) {
  if (!list.done || !settled) return html`<p class="quiet" role="status">Loading…</p>`;
  const filtered = FILTERS.some((name) => state[name]);
  if (!state.q && !filtered) {
    return html`<${Notice} kind="empty" title="No subjects yet">
      <p>Registering a schema under a new name creates its subject.</p>
    <//>`;
  }
  const clear = () => change({ q: "", ...Object.fromEntries(FILTERS.map((name) => [name, ""])) });
  return html`<${Notice} kind="empty" title="No matching subjects" action="Show all subjects" onAction=${clear}>
    ${/^\d+$/.test(state.q ?? "") &&
      html`<p>Is it an id? <a href=${href`/lookup?id=${state.q}`}>Look up ${state.q}.</a></p>`}
  <//>`;
}
