// What a version referred to at a moment of the past, directly and indirectly.
import { html } from "../vendor.js";
import { Name } from "../components/name.js";
import { Notice } from "../components/notice.js";
import { to } from "../router.js";
import { Loaded, useLoaded } from "./loading.js";
import { graphOf } from "./reading.js";

const VERSIONS_MAX = 100;

/** version: the entity as of then; at: the offset. */
export function PastReferences({ version, at }) {
  const found = useLoaded(async (signal) => (version.references?.length
    ? referencesIn(await graphOf(version.subject, version.version, VERSIONS_MAX + 1, signal, at))
    : { rows: [], complete: true }), [version.subject, version.version, at]);
  return html`
    <${Loaded} of=${found} what="the references">
      ${({ rows, complete }) => html`
        <section>
          <h2>References</h2>
          ${rows.length === 0 && html`<p>None.</p>`}
          <ul>${rows.map(({ subject, version: number, names, depth, missing }) => html`
            <li key=${`${number} ${subject}`}>
              <a href=${`#${to(to`/subjects/${subject}/versions/${number}`, { at })}`}><${Name} text=${subject} />
                ${" "}version ${number}</a>
              ${missing && html` <span class="bad">did not exist</span>`}
              <span class="quiet"> ${depth === 1 ? "directly" : `in ${depth} steps`}, as </span>
              ${names.map((name, index) => html`${index > 0 ? ", " : ""}<${Name} plain text=${name} />`)}
            </li>`)}</ul>
          ${!complete && html`<p class="quiet">Only the first ${VERSIONS_MAX} are listed.</p>`}
        </section>
        <${Notice} kind="info" title=${`Referrers are not available as of offset ${at}`}>
          <p>Which schemas referred to this one is only known as of now.</p><//>`}
    <//>`;
}

/** Returns `{ rows, complete }` of a graph, the nearest first. */
function referencesIn({ nodes, edges, complete }) {
  const rows = nodes.map((node) => ({ ...node, names: [] }));
  for (const { to: used, name } of edges) {
    if (!rows[used].names.includes(name)) rows[used].names.push(name);
  }
  return { rows: rows.slice(1), complete };
}
