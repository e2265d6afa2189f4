// The versions of a subject as a timeline, the newest first; deleted ones on demand. Of thousands only those around the
// chosen one are in the page.
import { html, useEffect, useRef, useState } from "../vendor.js";
import { useKeys } from "../keys.js";
import { navigate, to } from "../router.js";
import { extended, listedOf, pagesOf } from "./timeline-pages.js";
import { TimelinePage } from "./timeline.js";

/**
 * versions: [{ number, deleted }]; older: number of those left out; query: kept when another version is opened, with
 * the offset of the past state to show as `at`, if any.
 */
export function Versions({ subject, versions, older, current, query, onChange }) {
  const [range, setRange] = useState(null);
  const gone = versions.filter(({ deleted }) => deleted).length;
  const all = gone === versions.length;
  const { listed, deleted } = listedOf(versions, current, query.deleted);
  const shown = pagesOf(listed, current, range);
  const list = useRef();
  const place = listed.findIndex(({ number }) => number === current);
  useEffect(() => show(list.current), [current, place >= 0]);
  const more = (by) => setRange(extended(shown, by));
  return html`
    <nav class="versions" aria-label="Versions">
      <h2>${versions.length - gone} ${versions.length - gone === 1 ? "version" : "versions"}</h2>
      ${gone > 0 && !all && html`
        <label class="check">
          <input type="checkbox" checked=${deleted} disabled=${deleted && !query.deleted}
            onChange=${(event) => onChange({ deleted: event.target.checked ? "1" : "" })} /> ${gone} deleted</label>`}
      <ol ref=${list} onKeyDown=${moved}>
        ${shown.newer > 0 && html`
          <li key="newer"><button class="small" onClick=${() => more(-1)}>Newer: ${shown.newer} more</button></li>`}
        ${shown.pages.map(({ page, rows }) => html`
          <${TimelinePage} key=${page} subject=${subject} rows=${rows} first=${page === 0} deleted=${deleted}
            current=${current} reached=${place < 0 ? listed[0]?.number : current} query=${query} />`)}
        ${shown.older > 0 && html`
          <li key="older"><button class="small" onClick=${() => more(1)}>Older: ${shown.older} more</button></li>`}
      </ol>
      ${older > 0 && html`<p class="quiet">${older} older ones are not listed; the address leads to each.</p>`}
    </nav>`;
}

/** Scrolls the list to the chosen version, but not the page around it; on a narrow screen the list is a row. */
function show(list) {
  const chosen = list.querySelector("[aria-current]")?.closest("li");
  if (!chosen) return;
  const [outer, inner] = [list.getBoundingClientRect(), chosen.getBoundingClientRect()];
  if (inner.bottom > outer.bottom) list.scrollTop += inner.bottom - outer.bottom;
  if (inner.top < outer.top) list.scrollTop -= outer.top - inner.top;
  if (inner.right > outer.right) list.scrollLeft += inner.right - outer.right;
  if (inner.left < outer.left) list.scrollLeft -= outer.left - inner.left;
}

const STEPS = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1, Home: -Infinity, End: Infinity };

/** Arrows move the focus, so that the keyboard need not pass all versions to reach the page behind them. */
function moved(event) {
  const by = STEPS[event.key];
  const links = [...event.currentTarget.querySelectorAll("a, button")];
  const from = links.indexOf(event.target);
  if (by === undefined || from < 0 || event.altKey || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  links[Math.max(0, Math.min(links.length - 1, from + by))].focus();
}

/** Returns the number in an address, or that of another version. */
export function numberOf(wanted, otherwise) {
  return /^\d+$/.test(wanted ?? "") ? Number(wanted) : otherwise?.number;
}

/** Lets "[" and "]" lead to the neighbors of a version. */
export function useSteps(subject, versions, number, query) {
  useKeys("Versions", [
    { keys: "[", does: "Older version", run: () => step(subject, versions, number, 1, query) },
    { keys: "]", does: "Newer version", run: () => step(subject, versions, number, -1, query) },
  ]);
}

function step(subject, versions, number, by, query) {
  const at = versions.findIndex((each) => each.number === number);
  const next = versions[at + by];
  if (next) navigate(to(to`/subjects/${subject}/versions/${next.number}`, query));
}
