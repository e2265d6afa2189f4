// The columns of the list of subjects.
import { html } from "../vendor.js";
import { Badge } from "../components/badge.js";
import { Name } from "../components/name.js";
import { formatOf } from "../formats.js";
import { partsOf, plain } from "../names.js";
import { href } from "../router.js";

const COLUMNS = [
  ["subject", "Subject"], ["version", "Latest"], ["id", "Id"], ["type", "Type"], ["count", "Versions"],
  ["level", "Compatibility"], ["mode", "Mode"], ["associations", "Associations"], ["size", "Size"],
  ["time", "Registered"],
];
const DAY = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });
const MOMENT = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "medium" });

// The orders of a column, the first one at first.
const ORDERS = {
  subject: [["", "ascending", "▲", "From A to Z"], ["-name", "descending", "▼", "From Z to A"]],
  id: [["-id", "descending", "▼", "Newest first, by context"], ["id", "ascending", "▲", "Oldest first, by context"]],
};

/** The header's cells; sort: the order of the list, "" or a value of the API's parameter. onSort(sort) changes it. */
export function head(sort, onSort) {
  return COLUMNS.map(([id, title]) => {
    const orders = ORDERS[id];
    if (!orders) return html`<span key=${id} role="columnheader" class=${`cell ${id}`}>${title}</span>`;
    const at = orders.findIndex(([value]) => value === sort);
    const [next, , , effect] = orders[(at + 1) % orders.length];
    const [, direction, sign] = orders[at] ?? [];
    return html`
      <span key=${id} role="columnheader" class=${`cell ${id}`} aria-sort=${direction}>
        <button class="sort" title=${effect} onClick=${() => onSort(next)}>
          ${title}${sign && html` <span aria-hidden="true">${sign}</span>`}</button>
      </span>`;
  });
}

/** details: undefined while they are loading, null if the subject does not exist any more. */
export function SubjectRow({ name, details }) {
  const cells = cellsOf(details);
  return COLUMNS.map(([id]) => html`
    <span key=${id} role="gridcell" class=${`cell ${id}`}>
      ${id === "subject" &&
        html`<a href=${href`/subjects/${name}`} tabindex="-1" title=${plain(name)} aria-label=${wholeOf(name)}>
          <${Name} cut text=${name} /></a> `}
      ${cells[id]}
    </span>`);
}

// Two halves would be read as two words.
function wholeOf(name) {
  return partsOf(name).length === 1 && !name.startsWith(":.") ? plain(name) : null;
}

function cellsOf(details) {
  if (details === undefined) return { version: html`<span class="pending" aria-label="loading"></span>` };
  if (details === null) return { subject: html`<${Badge} tone="bad">gone<//>` };
  const { version, id, versions, deletedVersions, compatibilityLevel, mode, associations, size, ts, deleted, alias } =
    details;
  return {
    subject: deleted && html`<${Badge} tone="bad">deleted<//>`,
    version: `v${version}`,
    id,
    type: formatOf(details).title,
    count: html`${versions}${deletedVersions > 0 &&
      html` <span class="quiet" title=${`${deletedVersions} soft-deleted`}>+${deletedVersions}</span>`}`,
    level: html`${compatibilityLevel}${alias && html` <${Badge} title=${`Alias of ${plain(alias)}`}>alias<//>`}`,
    mode: mode === "READWRITE" ? html`<span class="quiet">${mode}</span>` : html`<${Badge} tone="warn">${mode}<//>`,
    associations: associations || html`<span class="quiet">–</span>`,
    size: bytes(size),
    time: ts === undefined
      ? "" : html`<time datetime=${new Date(ts).toISOString()} title=${MOMENT.format(ts)}>${DAY.format(ts)}</time>`,
  };
}

/** A size for people: 312 B, 4.2 kB. */
export function bytes(size) {
  if (size < 1000) return `${size} B`;
  return size < 1_000_000 ? `${(size / 1000).toFixed(1)} kB` : `${(size / 1_000_000).toFixed(1)} MB`;
}
