// The versions of a subject in a list: when and by whom, what each changed, and if it may follow the one below.
import { html } from "../vendor.js";
import { Badge } from "../components/badge.js";
import { Name } from "../components/name.js";
import { Failure } from "../components/notice.js";
import { useResource } from "../live/resources.js";
import { to } from "../router.js";
import { useLoaded } from "./loading.js";
import { timelineOf } from "./reading.js";
import { TIMELINE } from "./resources.js";
import { countsOf, describedCounts, listedOf, pageAt, pagesOf } from "./timeline-pages.js";

const NOT_OFFERED = [404, 405]; // by an older registry; then there are only numbers

/**
 * A page of the list. rows: [{ number, deleted }]; first: true for the newest; deleted: true if soft-deleted ones are
 * listed; reached: the version that the tab key leads to.
 */
export function TimelinePage({ subject, rows, first, deleted, current, reached, query }) {
  const found = useEntries(subject, { ...pageAt(rows, first), deleted }, query.at);
  const entries = new Map((found.value?.versions ?? []).map((each) => [each.version, each]));
  return html`
    ${found.error && !(found.error.kind === "refused" && NOT_OFFERED.includes(found.error.status)) &&
      html`<li><${Failure} error=${found.error} onRetry=${found.reload} /></li>`}
    ${rows.map((row) => html`
      <${Row} key=${row.number} subject=${subject} row=${row} entry=${entries.get(row.number)}
        current=${row.number === current} reached=${row.number === reached} query=${query} />`)}`;
}

function useEntries(subject, { below, limit, deleted }, at) {
  const now = useResource(at ? null : TIMELINE, subject, below, limit, deleted);
  const past = useLoaded(async (signal) => at && timelineOf(signal, subject, below, limit, deleted, at),
    [subject, below, limit, deleted, at]);
  return at ? past : now;
}

/** reached: true for the one that the tab key leads to. */
function Row({ subject, row: { number, deleted }, entry, current, reached, query }) {
  const id = `version-${number}`;
  return html`
    <li class=${current ? "current" : null}>
      <a href=${`#${to(to`/subjects/${subject}/versions/${number}`, query)}`} tabindex=${reached ? 0 : -1}
        aria-current=${current ? "page" : null} aria-describedby=${entry ? id : null}>Version ${number}${deleted
        ? html` <span class="quiet">deleted</span>` : ""}</a>
      <div class="entry" id=${id}>${entry && html`<${Entry} entry=${entry} />`}</div>
    </li>`;
}

function Entry({ entry }) {
  const { ts, principal, deletedBy, previousType, schemaType, tags = [], rules = 0 } = entry;
  return html`
    <div class="quiet">${ts && html`<time datetime=${new Date(ts).toISOString()} title=${new Date(ts).toLocaleString()}>
      ${new Date(ts).toLocaleDateString()}</time>`}${principal !== undefined
        && html` by <${Name} plain cut text=${principal} />`}${deletedBy !== undefined
        && html`, deleted by <${Name} plain cut text=${deletedBy} />`}</div>
    <div class="entry-marks">
      <${Counts} entry=${entry} /><${Verdict} entry=${entry} />
      ${previousType !== undefined && html`<${Badge} tone="warn">${`${previousType} → ${schemaType}`}<//>`}
      ${rules > 0 && html`<${Badge}>${rules === 1 ? "1 rule" : `${rules} rules`}<//>`}
      ${tags.map((tag) => html`<${Badge} key=${tag} tone="accent"><${Name} plain cut text=${tag} /><//>`)}
    </div>`;
}

/** Returns the entry of a version, from the page of the list that holds it; undefined if it is not known. */
export function useEntry(subject, versions, number, query) {
  const { listed, deleted } = listedOf(versions, number, query.deleted);
  const { pages: [{ page, rows }] } = pagesOf(listed, number, null);
  const { value } = useEntries(subject, { ...pageAt(rows, page === 0), deleted }, query.at);
  return value && { level: value.level, ...value.versions.find((each) => each.version === number) };
}

/** How many fields a version added, removed and changed: short to see, in words to hear. */
export function Counts({ entry }) {
  const counts = countsOf(entry);
  if (counts === null) return null;
  return html`<span class="counts" title=${describedCounts(entry)}>
    <span aria-hidden="true">${counts.map(({ sign, count, tone }) =>
      html`<span key=${sign} class=${tone}>${sign}${count}</span> `)}</span>
    <span class="unseen">${describedCounts(entry)}</span></span>`;
}

/** Whether a version may follow the one before it, by the level in effect. */
export function Verdict({ entry: { compatible } }) {
  if (compatible === undefined) return null;
  return compatible ? html`<${Badge} tone="good">compatible<//>` : html`<${Badge} tone="bad">breaking<//>`;
}
