// What may be in the registry for nothing: versions that no message needs, and schemas that are registered twice.
import { html } from "../vendor.js";
import { get } from "../api.js";
import { count, moment } from "../cluster/units.js";
import { lastSearch } from "../cluster/last-search.js";
import { Name } from "../components/name.js";
import { Failure } from "../components/notice.js";
import { href } from "../router.js";
import { useLoaded } from "../schema/loading.js";

const SHOWN = 5;

export function Unused() {
  const { value, error, reload } = useLoaded(newestCensus, []);
  return html`
    <section class="card" aria-label="Unused">
      <h2>Unused</h2>
      ${error && html`<${Failure} error=${error} onRetry=${reload} />`}
      ${value === undefined && !error && html`<p class="quiet" role="status">Loading…</p>`}
      ${value === null && html`<p class="quiet">There is no census of the data yet, so nobody knows which versions
        messages need.</p>`}
      ${value && html`<${Counted} census=${value} />`}
      <p><a href="#/usage">Usage of schemas</a></p>
    </section>`;
}

function Counted({ census }) {
  const { unusedSubjects: subjects = [], examined = 0, more } = census;
  const asOf = html`<span class="quiet">By the census of ${moment(census.ended)}.</span>`;
  if (!census.complete) {
    return html`<p>The newest census is not complete, so it cannot say what is unused. ${asOf}</p>`;
  }
  const among = more ? ` of the first ${count(examined)} subjects` : "";
  if (!subjects.length) return html`<p>No version${among} is unused. ${asOf}</p>`;
  return html`
    <p>${subjects.length > SHOWN ? `More than ${SHOWN} subjects have` : "These have"} unused versions. ${asOf}</p>
    <ul class="news">${subjects.slice(0, SHOWN).map(({ subject, unused }) => html`
      <li key=${subject}><a href=${href`/usage/subjects/${subject}`}><${Name} text=${subject} /></a>
        ${" "}<span class="quiet">${count(unused)} of its versions</span></li>`)}</ul>`;
}

async function newestCensus(signal) {
  try {
    return await get("/usage/census", { query: { unused: SHOWN + 1 }, signal });
  } catch (error) {
    if (error.notFound) return null;
    throw error;
  }
}

export function Duplicates() {
  const last = lastSearch();
  return html`
    <section class="card" aria-label="Duplicates">
      <h2>Duplicates</h2>
      ${last
        ? html`<p>${last.groups === 0 ? "No schema is" : last.groups === 1 ? "One schema is" : `${count(last.groups)}
          schemas are`} registered more than once.
          ${" "}<span class="quiet">By the search of ${moment(last.time)}.</span></p>`
        : html`<p class="quiet">No search has been run in this browser.</p>`}
      <p><a href="#/cluster/duplicates">Find duplicates</a></p>
    </section>`;
}
