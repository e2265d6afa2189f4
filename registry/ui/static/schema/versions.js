// The versions of a subject, the newest first; deleted ones on demand.
import { html, useEffect, useRef, useState } from "../vendor.js";
import { useKeys } from "../keys.js";
import { navigate, to } from "../router.js";

const SHOWN = 100;

/** versions: [{ number, deleted }]; older: number of those left out; query: kept when another version is opened. */
export function Versions({ subject, versions, older, current, query, onChange }) {
  const [most, setMost] = useState(SHOWN);
  const gone = versions.filter(({ deleted }) => deleted).length;
  const all = gone === versions.length;
  const listed = versions.filter(({ number, deleted }) => !deleted || all || query.deleted || number === current);
  const at = listed.findIndex(({ number }) => number === current);
  const shown = listed.slice(0, Math.max(most, at + 1));
  const list = useRef();
  // Only the list is scrolled, not the page around it; on a narrow screen it is a row.
  useEffect(() => {
    const chosen = list.current.querySelector("[aria-current]")?.parentElement;
    if (!chosen) return;
    const [outer, inner] = [list.current.getBoundingClientRect(), chosen.getBoundingClientRect()];
    if (inner.bottom > outer.bottom) list.current.scrollTop += inner.bottom - outer.bottom;
    if (inner.top < outer.top) list.current.scrollTop -= outer.top - inner.top;
    if (inner.right > outer.right) list.current.scrollLeft += inner.right - outer.right;
    if (inner.left < outer.left) list.current.scrollLeft -= outer.left - inner.left;
  }, [current, at >= 0]);
  return html`
    <nav class="versions" aria-label="Versions">
      <h2>${versions.length - gone} ${versions.length - gone === 1 ? "version" : "versions"}</h2>
      ${gone > 0 && !all && html`
        <label class="check">
          <input type="checkbox" checked=${Boolean(query.deleted)}
            onChange=${(event) => onChange({ deleted: event.target.checked ? "1" : "" })} /> ${gone} deleted</label>`}
      <ul ref=${list}>
        ${shown.map(({ number, deleted }) => html`
          <li key=${number}>
            <a href=${`#${to(to`/subjects/${subject}/versions/${number}`, query)}`}
              aria-current=${number === current ? "page" : null}>Version ${number}${deleted
              ? html` <span class="quiet">deleted</span>` : ""}</a>
          </li>`)}
      </ul>
      ${listed.length > shown.length &&
        html`<button class="small" onClick=${() => setMost(shown.length + SHOWN)}>
          Older: ${listed.length - shown.length} more</button>`}
      ${older > 0 && html`<p class="quiet">${older} older ones are not listed; the address leads to each.</p>`}
    </nav>`;
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
