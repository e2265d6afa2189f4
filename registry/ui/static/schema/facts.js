// The line of facts above a version.
import { html } from "../vendor.js";
import { Badge } from "../components/badge.js";
import { CopyButton } from "../components/copy-button.js";
import { Name } from "../components/name.js";
import { formatOf } from "../formats.js";
import { href, to } from "../router.js";

/**
 * version: the entity of the API; asked: the name that led to it; details: of the subject, and entry: of the timeline,
 * if they are known.
 */
export function Facts({ version, asked, details, entry }) {
  const { subject, version: number, id, guid, ts, deleted, references = [] } = version;
  return html`
    ${subject !== asked &&
      html`<p role="status"><${LeadsTo} asked=${asked} subject=${subject} /></p>`}
    <p class="facts-line">
      <strong>Version ${number}</strong>
      <${Badge} tone="accent">${formatOf(version).name}<//>
      ${deleted && html`<${Badge} tone="warn">deleted<//>`}
      <span>id <strong>${id}</strong> <${CopyButton} text=${String(id)} label="Copy the id" /></span>
      ${ts && html`<span class="quiet">registered <time datetime=${new Date(ts).toISOString()}>
        ${new Date(ts).toLocaleString()}</time>${entry?.principal !== undefined
          && html` by <${Name} plain text=${entry.principal} />`}</span>`}
      ${details && html`<span class="quiet">${details.compatibilityLevel}, ${details.mode}</span>`}
      ${references.length > 0 &&
        html`<span class="quiet">${references.length} ${references.length === 1 ? "reference" : "references"}</span>`}
      <span class="quiet mono guid">${guid}</span>
    </p>`;
}

/** asked: a name for which another subject answers. */
export function LeadsTo({ asked, subject }) {
  return html`This name leads to <a href=${href`/subjects/${subject}`}><${Name} text=${subject} /></a>.${" "}
    <a href=${`#${to("/config/members", { scope: asked })}`}>Its own config</a>`;
}
