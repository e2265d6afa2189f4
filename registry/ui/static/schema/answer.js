// The answer to "what is this subject": its owner, its last change, compatibility, where it is used, and its fields.
import { html, useState } from "../vendor.js";
import { get, path } from "../api.js";
import { Masked } from "../components/masked.js";
import { Name } from "../components/name.js";
import { Time } from "../components/time.js";
import { useResource } from "../live/resources.js";
import { resource } from "../live/store.js";
import { href, to } from "../router.js";
import { Fields } from "./fields.js";
import { MEANINGS, askedBy, changeOf, ownersOf, usedIn } from "./answers.js";
import { Loaded } from "./loading.js";
import { GRAPH, HISTORY } from "./resources.js";
import { Counts, Verdict } from "./timeline.js";
import { VersionLink } from "./version-link.js";

const OPENED = "registrar.answer";
const SHOWN_MAX = 3;
const AROUND_MAX = 50; // versions around it that are read to count the referrers

const USAGE = resource("usage", (signal, subject) => get(path`/usage/subjects/${subject}`, { signal }),
  ({ kind, subject }, [asked]) => subject === asked && kind.startsWith("version_"));

// What clients ask for is no event: it is read once, and again when the page is opened.
const ASKERS = resource("askers", async (signal, subject) => {
  try {
    return await get(path`/usage/subjects/${subject}/askers`, { signal });
  } catch (error) {
    if (NOT_OFFERED.includes(error.status)) return null;
    throw error;
  }
}, () => false);
const NOT_OFFERED = [404, 405]; // by an older registry

/** version: as `withFields` returns it; details: of the subject; entry: of the timeline; both only if known. */
export function Answer({ version, details, entry }) {
  const owners = ownersOf(version.metadata);
  return html`
    <section class="answer" aria-label="In short">
      <dl class="facts">
        ${owners.map(({ name, value, sensitive }) => html`
          <dt key=${name}>${name === "owner" ? "Owner" : html`<${Name} plain text=${name} />`}</dt>
          <dd><${Masked} value=${value} sensitive=${sensitive} /></dd>`)}
        ${details && html`
          <dt>Compatibility</dt><dd>${MEANINGS[details.compatibilityLevel] ?? details.compatibilityLevel}</dd>`}
        ${entry?.previous !== undefined && html`
          <dt>Changes</dt><dd><${Changed} version=${version} entry=${entry} /></dd>`}
      </dl>
      <${More} version=${version} />
      <${Fields} version=${version} />
    </section>`;
}

function Changed({ version: { subject, version: number }, entry }) {
  const compare = to(to`/subjects/${subject}/versions/${number}`, { view: "compare", with: String(entry.previous) });
  return html`<${Counts} entry=${entry} /> <${Verdict} entry=${entry} /> ${changeOf(entry)}${" "}
    <a href=${`#${compare}`}>Compare with version ${entry.previous}</a>`;
}

/** What further requests answer: it stays open once it was opened, until it is closed. */
function More({ version }) {
  const [open, setOpen] = useState(localStorage.getItem(OPENED) === "1");
  const toggled = (event) => {
    setOpen(event.currentTarget.open);
    localStorage.setItem(OPENED, event.currentTarget.open ? "1" : "");
  };
  return html`
    <details open=${open} onToggle=${toggled}>
      <summary>Last change, use, clients and referrers</summary>
      ${open && html`<${Around} version=${version} />`}
    </details>`;
}

function Around({ version: { subject, version: number } }) {
  const history = useResource(HISTORY, subject, 1);
  const usage = useResource(USAGE, subject);
  const askers = useResource(ASKERS, subject);
  const graph = useResource(GRAPH, subject, number, AROUND_MAX);
  return html`
    <dl class="facts">
      <dt>Last change</dt>
      <dd><${Loaded} of=${history} what="the history">${(found) => html`<${Last} event=${found?.events[0]} />`}<//></dd>
      <dt>Used in</dt>
      <dd><${Loaded} of=${usage} what="the usage">${(found) => html`
        <a href=${href`/usage/subjects/${subject}`}>${usedIn(found)}</a>`}<//></dd>
      <dt>Asked for by</dt>
      <dd><${Loaded} of=${askers} what="who asks">${(found) => html`<${Asked} found=${found} />`}<//></dd>
      <dt>Referenced by</dt>
      <dd><${Loaded} of=${graph} what="the referrers">${(found) => html`
        <${Referrers} subject=${subject} number=${number} graph=${found} />`}<//></dd>
    </dl>`;
}

function Last({ event }) {
  if (!event) return html`<span class="quiet">not known</span>`;
  return html`${event.kind.replaceAll("_", " ")}, <${Time} ms=${event.time} />
    ${event.principal !== undefined && html` by <${Name} plain text=${event.principal} />`}`;
}

function Asked({ found }) {
  const { sentence, names, more } = askedBy(found);
  return html`${sentence}${names.map((name, index) => html`${index ? ", " : ": "}<${Name} key=${name} plain
    text=${name} />`)}${more > 0 && ` and ${more} more`}`;
}

function Referrers({ subject, number, graph: { nodes, complete } }) {
  const found = nodes.filter(({ depth }) => depth === -1);
  if (!found.length) return "nothing";
  const all = `#${to(to`/subjects/${subject}/versions/${number}`, { view: "references" })}`;
  return html`
    ${found.slice(0, SHOWN_MAX).map(({ subject: user, version }) => html`
      <${VersionLink} key=${`${user} ${version}`} subject=${user} version=${version} />${" "}`)}
    ${found.length > SHOWN_MAX && html`
      <a href=${all}>and ${complete ? "" : "at least "}${found.length - SHOWN_MAX} more</a>`}`;
}
