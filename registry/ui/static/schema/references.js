// References in both directions: as a drawing, and as lists that say the same.
import { html, useState } from "../vendor.js";
import { Name } from "../components/name.js";
import { useResource } from "../live/resources.js";
import { plain } from "../names.js";
import { to } from "../router.js";
import { placed } from "./layout.js";
import { Loaded } from "./loading.js";
import { GRAPH } from "./resources.js";
import { VersionLink } from "./version-link.js";

const NODES = 200;
const NODES_MAX = 1000;
const LABEL = 30; // characters of a name in a box

/** subject, number: of the version in the middle. */
export function References({ subject, number }) {
  const [limit, setLimit] = useState(NODES);
  const graph = useResource(GRAPH, subject, number, limit);
  return html`
    <${Loaded} of=${graph} what="the references">
      ${({ nodes, edges, complete }) => (nodes.length === 1
        ? html`<p>No references in either direction.</p>`
        : html`
          ${!complete && html`
            <p role="status">
              The nearest ${nodes.length} versions are shown; there are more.
              ${limit < NODES_MAX &&
                html` <button class="small" onClick=${() => setLimit(Math.min(limit + NODES, NODES_MAX))}>Show
                  more</button>`}
            </p>`}
          <${Drawing} nodes=${nodes} edges=${edges} />
          <div class="columns">
            <${Side} title="References" none="Nothing." nodes=${nodes} edges=${edges} wanted=${(depth) => depth > 0} />
            <${Side} title="Referenced by" none="Nothing." nodes=${nodes} edges=${edges}
              wanted=${(depth) => depth < 0} />
          </div>`)}
    <//>`;
}

/** The drawing is for the eye; each box is a link that the keyboard reaches too. */
function Drawing({ nodes, edges }) {
  const { width, height, boxes, lines } = placed(nodes, edges.map(({ from, to: target }) => [from, target]));
  return html`
    <div class="graph" tabindex="0" role="region" aria-label="Graph of references">
      <svg width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} role="group"
        aria-label="Arrows lead from a schema to what it refers to">
        <defs>
          <marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">
            <path d="M 0 0 L 8 4 L 0 8 z" /></marker>
        </defs>
        ${lines.map((line, index) => html`<path key=${index} class="edge" d=${line} marker-end="url(#arrow)" />`)}
        ${nodes.map((node, index) => html`<${Box} key=${index} node=${node} box=${boxes[index]} />`)}
      </svg>
    </div>`;
}

function Box({ node, box }) {
  const { subject, version, depth, missing, deleted } = node;
  const target = to`/subjects/${subject}/versions/${version}`;
  const state = missing ? ", which does not exist" : deleted ? ", deleted" : "";
  const inner = html`
    <rect x=${box.x} y=${box.y} width=${box.width} height=${box.height} rx="6" />
    <text>
      <tspan x=${box.x + 10} y=${box.y + 18}>${cut(plain(subject))}</tspan>${" "}
      <tspan class="quiet" x=${box.x + 10} y=${box.y + 35}>version ${version}${state}</tspan>
    </text>`;
  const kind = ["box", depth === 0 && "middle", (missing || deleted) && "gone"].filter(Boolean).join(" ");
  if (missing || depth === 0) return html`<g class=${kind}>${inner}</g>`;
  return html`
    <a class=${kind} href=${`#${target}`}>${inner}</a>`;
}

function Side({ title, none, nodes, edges, wanted }) {
  const found = nodes.map((node, index) => ({ node, index }))
    .filter(({ node }) => node.depth !== 0 && wanted(node.depth));
  return html`
    <section>
      <h2>${title}</h2>
      ${found.length
        ? html`<ul>
          ${found.map(({ node, index }) => html`<${Entry} key=${index} node=${node} index=${index} edges=${edges} />`)}
          </ul>` : html`<p>${none}</p>`}
    </section>`;
}

function Entry({ node, index, edges }) {
  const { subject, version, depth, missing, deleted } = node;
  const names = edges.filter(({ from, to: target }) => (depth > 0 ? target : from) === index).map(({ name }) => name);
  const steps = Math.abs(depth);
  return html`
    <li>
      ${missing
        ? html`<${Name} text=${subject} /> version ${version} <span class="bad">does not exist</span>`
        : html`<${VersionLink} subject=${subject} version=${version} deleted=${deleted} />`}
      ${" "}<span class="quiet">${steps === 1 ? "directly" : `in ${steps} steps`}${names.length ? ", as " : ""}</span>
      ${names.slice(0, 3).map((name, at) => html`${at > 0 ? ", " : ""}<${Name} plain text=${name} />`)}
    </li>`;
}

function cut(name) {
  const shown = [...name];
  return shown.length > LABEL ? `${shown.slice(0, LABEL - 1).join("")}…` : name;
}
