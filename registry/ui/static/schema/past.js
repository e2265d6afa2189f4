// A subject as it was: its versions, their texts, config and mode then. Nothing can be changed here.
import { html } from "../vendor.js";
import { Name } from "../components/name.js";
import { Notice } from "../components/notice.js";
import { Table } from "../components/table.js";
import { Time } from "../components/time.js";
import { Tabs } from "../components/tabs.js";
import { to } from "../router.js";
import { levelOf } from "./changes.js";
import { Compare, Pair } from "./compare.js";
import { Details } from "./details.js";
import { Facts } from "./facts.js";
import { Fields } from "./fields.js";
import { useResource } from "../live/resources.js";
import { History } from "./history.js";
import { Loaded, useLoaded } from "./loading.js";
import { LookBack } from "./look-back.js";
import { InForce } from "./past-settings.js";
import { PastReferences } from "./past-references.js";
import { comparedTexts, subjectAt, subjectNow, versionOf, withFields } from "./reading.js";
import { HISTORY } from "./resources.js";
import { Refused } from "./refused.js";
import { VersionText } from "./text.js";
import { Versions, numberOf, useSteps } from "./versions.js";

const EVENTS = 200; // among which the changes next to a moment are looked for at which there was no subject

/** wanted: the version in the address; query: of the page, with the offset `at`; onChange(changes of the query). */
export function Past({ subject, wanted, query, onChange }) {
  const { at } = query;
  const then = useLoaded((signal) => subjectAt(subject, at, numberOf(wanted), signal), [subject, at]);
  return html`
    <${Banner} key=${at} subject=${subject} query=${query} then=${then} />
    <${Reconstruction} of=${then} what="the versions" subject=${subject} query=${query}>
      ${(found) =>
        html`<${Subject} subject=${subject} wanted=${wanted} then=${found} query=${query} onChange=${onChange} />`}
    <//>`;
}

function Banner({ subject, query, then }) {
  const { at, ...present } = query;
  const history = useResource(then.error ? HISTORY : null, subject, EVENTS);
  const { previous, last, next } = then.value?.changes ?? changesAround(history.value?.events ?? [], Number(at));
  const link = (event, label) => event &&
    html`<a class="button" href=${`#${to(to`/subjects/${subject}`, { ...query, at: String(event.offset) })}`}>
      ${label}</a>`;
  return html`
    <section class="notice info past" aria-label="A moment of the past">
      <h2>As of offset ${at}</h2>
      ${last &&
        html`<p>Last change before that time: <${Worded} event=${last} />, <${Time} ms=${last.time} />.</p>`}
      <div class="actions">
        <a class="button" href=${`#${to(to`/subjects/${subject}`, present)}`}>Back to now</a>
        ${link(previous, "Previous change")}
        ${link(next, "Next change")}
      </div>
      <${LookBack} subject=${subject} query=${query} />
    </section>`;
}

/** events: the newest first. */
function changesAround(events, at) {
  const count = events.filter(({ offset }) => offset > at).length;
  return { previous: events[count + 1], last: events[count], next: events[count - 1] };
}

function Worded({ event: { kind, version, principal } }) {
  return html`${kind.replaceAll("_", " ")}${version ? ` (version ${version})` : ""}${principal !== undefined &&
    html` by <${Name} plain text=${principal} />`}`;
}

/** Like Loaded, for what is asked of the past. */
function Reconstruction({ of, subject, query, ...more }) {
  if (of.error) return html`<${Refused} error=${of.error} subject=${subject} query=${query} onRetry=${of.reload} />`;
  return html`<${Loaded} of=${of} ...${more} />`;
}

/** then: see `subjectAt`. */
function Subject({ subject, wanted, then, query, onChange }) {
  const { versions, older } = then;
  const number = numberOf(wanted, versions.find(({ deleted }) => !deleted) ?? versions[0]);
  useSteps(subject, versions, number, query);
  return html`
    <div class="schema">
      <${Versions} subject=${subject} versions=${versions} older=${older} current=${number} query=${query}
        onChange=${onChange} />
      ${older > 0 || versions.some((each) => each.number === number)
        ? html`<${Version} subject=${subject} number=${number} then=${then} query=${query} onChange=${onChange} />`
        : html`<${Notice} kind="empty" title=${`Version ${number} did not exist at that time`} />`}
    </div>`;
}

function Version({ subject, number, then, query, onChange }) {
  const { at } = query;
  const { versions, entity } = then;
  const found = useLoaded(async (signal) => (entity?.version === number
    ? entity : versionOf(subject, number, signal, undefined, at)), [subject, number, at]);
  const tabs = (version) => [
    { id: "text", label: "Schema",
      content: () =>
        html`
          <${PastFields} version=${version} at=${at} />
          <${VersionText} version=${version} at=${at} form=${query.form} onForm=${(form) => onChange({ form })} />` },
    { id: "compare", label: "Compare with now",
      content: () => html`<${WithNow} subject=${subject} version=${version} then=${then} query=${query} />` },
    { id: "versions", label: "Compare",
      content: () => html`<${Compare} version=${version} versions=${versions} base=${Number(query.with) || 0} at=${at}
        onBase=${(other) => onChange({ with: String(other) })} />` },
    { id: "references", label: "References",
      content: () => html`<${PastReferences} version=${version} at=${at} />` },
    { id: "usage", label: "Ids", content: () => html`
      <${Notice} kind="info" title=${`Not available as of offset ${at}`}>
        <p>Which other subjects and contexts had this schema is only known as of now. The version's own id
          was ${version.id}.</p><//>` },
    { id: "details", label: "Metadata", content: () => html`<${Details} version=${version} at=${at} />` },
    { id: "settings", label: "Config and mode",
      content: () => html`<${InForce} config=${then.config} mode=${then.details.mode} />` },
    { id: "history", label: "History",
      content: () => html`<${History} subject=${subject} lookBack=${false} undo=${false} />` },
  ];
  return html`
    <article class="version">
      <${Reconstruction} of=${found} what=${`version ${number}`} subject=${subject} query=${query}>
        ${(version) => html`
          <${Facts} version=${version} asked=${subject} />
          <${Tabs} label="About this version" selected=${query.view ?? "text"}
            onSelect=${(view) => onChange({ view: view === "text" ? "" : view })} tabs=${tabs(version)} />`}
      <//>
    </article>`;
}

function PastFields({ version, at }) {
  const { subject, version: number } = version;
  const found = useLoaded((signal) => withFields(subject, number, signal, at), [subject, number, at]);
  return html`<${Loaded} of=${found} what="the fields">${(known) => html`<${Fields} version=${known} at=${at} />`}<//>`;
}

function WithNow({ subject, version, then, query }) {
  const { at } = query;
  const found = useLoaded((signal) => withLatest(version, signal), [subject, version.version, at]);
  return html`
    <${Reconstruction} of=${found} what="what is now" subject=${subject} query=${query}>
      ${({ latest, config, mode, compared }) => html`
        <section><${Table} caption="Then and now" rowKey=${({ what }) => what} columns=${[
          { id: "what", title: "What", cell: ({ what }) => what },
          { id: "then", title: "Then", cell: (row) => row.then },
          { id: "now", title: "Now",
            cell: (row) =>
              (row.now === row.then
                ? html`<span class="quiet">${row.now}</span>` : html`<strong>${row.now}</strong>`) },
        ]} rows=${[
          { what: "Version", then: version.version, now: latest?.version ?? "none" },
          { what: "Id", then: version.id, now: latest?.id ?? "none" },
          { what: "Compatibility", then: levelOf(then.config), now: levelOf(config) },
          { what: "Mode", then: then.details.mode, now: mode },
        ]} /></section>
        ${latest &&
          html`<${Pair} key=${`${at} ${version.version}`} old=${version} fresh=${latest} found=${compared}
            onRetry=${found.reload}
            names=${[`version ${version.version} then`, `version ${latest.version} now`]} />`}`}
    <//>`;
}

/** Returns what `subjectNow` does, with `compared`: how a version of then compares with the latest one. */
async function withLatest(version, signal) {
  const now = await subjectNow(version.subject, signal);
  return { ...now, compared: now.latest && await comparedTexts(version, now.latest, signal) };
}
