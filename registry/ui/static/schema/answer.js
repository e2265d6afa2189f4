// The answer to "what is this subject": its owner, its last change, compatibility, where it is used, who asks for it,
// what refers to it, and its fields.
import { html } from "../vendor.js";
import { memberOf } from "../api.js";
import { Masked } from "../components/masked.js";
import { Name } from "../components/name.js";
import { Failure } from "../components/notice.js";
import { Time } from "../components/time.js";
import { useResource } from "../live/resources.js";
import { href, to } from "../router.js";
import { Fields } from "./fields.js";
import { MEANINGS, askedBy, changeOf, ownersOf, usedIn } from "./answers.js";
import { SUMMARY } from "./resources.js";
import { Counts, Verdict } from "./timeline.js";
import { VersionLink } from "./version-link.js";

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
        <${Around} subject=${version.subject} />
      </dl>
      <${Fields} version=${version} />
    </section>`;
}

function Changed({ version: { subject, version: number }, entry }) {
  const compare = to(to`/subjects/${subject}/versions/${number}`, { view: "compare", with: String(entry.previous) });
  return html`<${Counts} entry=${entry} /> <${Verdict} entry=${entry} /> ${changeOf(entry)}${" "}
    <a href=${`#${compare}`}>Compare with version ${entry.previous}</a>`;
}

/** What others know of the subject; each part comes as the registry finds it. */
function Around({ subject }) {
  const { value = {}, error, reload } = useResource(SUMMARY, subject);
  if (error) return html`<dt>Use</dt><dd><${Failure} error=${error} onRetry=${reload} /></dd>`;
  const { lastChange, usage, askers, referrers } = value;
  const part = (found, Shown) => html`<${Part} found=${found} onRetry=${reload}>
    ${(known) => html`<${Shown} subject=${subject} found=${known} />`}<//>`;
  return html`
    <dt>Last change</dt><dd>${part(lastChange, Last)}</dd>
    <dt>Used in</dt><dd>${part(usage, Used)}</dd>
    <dt>Asked for by</dt><dd>${part(askers, Asked)}</dd>
    <dt>Referenced by</dt><dd>${part(referrers, Referrers)}</dd>`;
}

function Part({ found, onRetry, children }) {
  if (found === undefined) return html`<span class="quiet">…</span>`;
  try {
    return children(memberOf(found));
  } catch (error) {
    return html`<${Failure} error=${error} onRetry=${onRetry} />`;
  }
}

function Last({ found }) {
  if (!found) return html`<span class="quiet">not known</span>`;
  return html`${found.kind.replaceAll("_", " ")}, <${Time} ms=${found.time} />
    ${found.principal !== undefined && html` by <${Name} plain text=${found.principal} />`}`;
}

function Used({ subject, found }) {
  const { sentence, sources, more, note } = usedIn(found);
  return html`<a href=${href`/usage/subjects/${subject}`}>${sentence}</a><${Listed} names=${sources} more=${more} />
    ${note && html` <span class="warned">${note}</span>`}`;
}

function Asked({ subject, found }) {
  const { sentence, names, more } = askedBy(found);
  return html`<a href=${href`/usage/subjects/${subject}`}>${sentence}</a><${Listed} names=${names} more=${more} />`;
}

function Listed({ names, more }) {
  return html`${names.map((name, index) => html`${index ? ", " : ": "}<${Name} key=${name} plain
    text=${name} />`)}${more > 0 && ` and ${more.toLocaleString()} more`}`;
}

function Referrers({ subject, found: { referrers, referrerCount, complete } }) {
  if (!referrerCount) return complete ? "nothing" : "not known: it has too many versions";
  const more = referrerCount - referrers.length;
  const all = to(to`/subjects/${subject}/versions/${referrers[0].to}`, { view: "references" });
  return html`
    ${referrers.map(({ subject: user, version, deleted, to: used }, index) => html`${index ? ", " : ""}
      <${VersionLink} key=${`${user} ${version} ${used}`} subject=${user} version=${version} deleted=${deleted} />
      <span class="quiet"> (to version ${used})</span>`)}
    ${more > 0 && html`
      ${" "}<a href=${`#${all}`}>and ${complete ? "" : "at least "}${more.toLocaleString()} more</a>`}`;
}
