// Where each version of a subject lives: sources, messages, since and until; and who asks for them.
import { html } from "../vendor.js";
import { get, path } from "../api.js";
import { Badge } from "../components/badge.js";
import { Name } from "../components/name.js";
import { Notice } from "../components/notice.js";
import { Table } from "../components/table.js";
import { count, moment } from "../cluster/units.js";
import { useResource } from "../live/resources.js";
import { resource } from "../live/store.js";
import { href } from "../router.js";
import { Loaded } from "../schema/loading.js";
import { Askers } from "./askers.js";
import { CensusLine } from "./census.js";
import { Referrers, USE_COLUMNS, UseState } from "./uses.js";

const USAGE = resource("usage", (signal, subject) => get(path`/usage/subjects/${subject}`, { signal }),
  (event, [subject], value) => event.subject === (value?.subject ?? subject)); // an alias has another one

export default function SubjectUsage({ params: { subject } }) {
  const found = useResource(USAGE, subject);
  return html`<div class="usage">
    <h1>Usage of <${Name} text=${subject} /></h1>
    <p><a href=${href`/subjects/${subject}`}>The subject</a></p>
    <${Loaded} of=${found} what="the usage">
      ${({ census, versions }) => html`
        <${CensusLine} census=${census} />
        ${census && [...versions].reverse().map((each) =>
          html`<${Version} key=${each.version} subject=${subject} found=${each} />`)}`}
    <//>
    <${Askers} subject=${subject} /></div>`;
}

function Version({ subject, found }) {
  const { version, id, deleted, state, messages, exact, first, last, sources, sourceCount } = found;
  return html`
    <section aria-label=${`Version ${version}`}>
      <h2><a href=${href`/subjects/${subject}/versions/${version}`}>Version ${version}</a>${" "}
        <span class="quiet">${`id ${id}`}</span>${" "}
        <${UseState} state=${state} />
        ${deleted && html` <${Badge} tone="bad">deleted<//>`}</h2>
      <${Referrers} referrers=${found.referrers} count=${found.referrerCount} />
      ${sources.length > 0
        ? html`
          <p>${exact ? "" : "At most "}${count(messages)} messages${first >= 0
            ? `, from ${moment(first)} until ${moment(last)}` : ""}.</p>
          <${Table} caption=${`Sources of version ${version}`} columns=${USE_COLUMNS} rows=${sources}
            rowKey=${(each) => `${each.side} ${each.framing} ${each.source}`} />
          ${sourceCount > sources.length && html`<p class="quiet">There are ${count(sourceCount)} sources.</p>`}`
        : html`<p class="quiet">No message names it.</p>`}
      ${state === "unknown" && html`<${Notice} kind="info" title="The census cannot say if it is in use">
        <p>It was registered after the census began, or the census is not complete.</p><//>`}
    </section>`;
}
