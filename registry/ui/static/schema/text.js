// A version's text: laid out, as it is stored, normalized, with what it refers to, or as a table.
import { html, useState } from "../vendor.js";
import { Code } from "../components/code.js";
import { CopyButton } from "../components/copy-button.js";
import { formatOf } from "../formats.js";
import { useResource } from "../live/resources.js";
import { plain } from "../names.js";
import { Loaded, useLoaded } from "./loading.js";
import { inLines, normalizedOf, versionOf } from "./reading.js";
import { GRAPH } from "./resources.js";
import { VersionLink } from "./version-link.js";

const HIGHLIGHTED_MAX = 1_000_000; // characters; CodeMirror colors longer texts too slowly to be of use
const USED_MAX = 100;
const LINE_MAX = 300_000; // characters of one line; browsers lay out longer ones for seconds
const CUT = 100_000;

const FORMS = {
  lines: { label: "In lines", about: "The stored text, broken into lines; no token is changed." },
  raw: { label: "As stored", about: "The text exactly as stored and as clients receive it." },
  normalized: { label: "Normalized", about: "The text as registered with normalize=true." },
  resolved: { label: "Resolved", about: "With all references inlined." },
  table: { label: "Table", about: "The table that the schema describes, as DDL." },
};

/**
 * version: the entity of the API; form: a key of FORMS; onForm(form); at: the offset of the past state to show, if any.
 */
export function VersionText({ version, form, onForm, at }) {
  const { subject, version: number } = version;
  const { name, resolves } = formatOf(version);
  // Schemas are normalized, and what they refer to is listed, as of now.
  const forms = Object.keys(FORMS).filter((id) => !at || !(id === "normalized" || (id === "resolved" && !resolves)));
  const chosen = forms.includes(form) ? form : "lines";
  const shown = useLoaded((signal) => textIn(chosen, version, at, signal), [subject, number, chosen, at]);
  return html`
    <fieldset class="choice">
      <legend class="unseen">Text format</legend>
      ${forms.map((id) => html`
        <label key=${id}>
          <input type="radio" name="form" value=${id} checked=${id === chosen}
            onChange=${() => onForm(id)} /> ${FORMS[id].label}</label>`)}
    </fieldset>
    <p class="quiet">${FORMS[chosen].about}</p>
    <${Loaded} of=${shown} what="the text">
      ${(text) => html`
        <${Text} key=${chosen} text=${text} type=${chosen === "table" ? "" : name}
          label=${`Schema of ${plain(subject)}, version ${number}`} />`}
    <//>
    ${chosen === "resolved" && !resolves && html`<${Used} subject=${subject} number=${number} />`}`;
}

/** Shows a text of any size, and says so if it is too large for colors, or has a line too long to be laid out. */
export function Text({ text, type, label }) {
  const large = text.length > HIGHLIGHTED_MAX;
  const cut = hasLongLine(text);
  const note = cut
    ? `; the first ${thousands(CUT)} are shown, because one line is too long`
    : large ? "; shown without highlighting, because it is large" : "";
  return html`
    <div class="text-head">
      <span class="quiet">${sizeOf(text)}${note}</span>
      <${CopyButton} text=${text} label="Copy the text" />
    </div>
    <${Code} text=${cut ? text.slice(0, CUT) : text} type=${large ? "" : type} label=${label} />`;
}

function hasLongLine(text) {
  for (let from = 0; text.length - from > LINE_MAX; ) {
    const end = text.indexOf("\n", from);
    if (end < 0 || end - from > LINE_MAX) return true;
    from = end + 1;
  }
  return false;
}

async function textIn(form, version, at, signal) {
  const { subject, version: number } = version;
  if (form === "raw") return version.schema;
  if (form === "normalized")
    return inLines({ ...version, schema: await normalizedOf(subject, version, signal) }, signal);
  if (form === "table") return (await versionOf(subject, number, signal, "logical", at)).schema;
  if (form === "resolved" && formatOf(version).resolves)
    return inLines(await versionOf(subject, number, signal, "resolved", at), signal);
  return inLines(version, signal);
}

/** Lists what a schema refers to whose text cannot contain it; each text is fetched when it is opened. */
function Used({ subject, number }) {
  const graph = useResource(GRAPH, subject, number, USED_MAX);
  return html`
    <${Loaded} of=${graph} what="the references">
      ${({ nodes }) => {
        const used = nodes.filter(({ depth }) => depth > 0);
        if (!used.length) return html`<p>It has no references.</p>`;
        return html`<h2>References</h2>
          ${used.map((node) => html`<${UsedText} key=${`${node.subject} ${node.version}`} node=${node} />`)}`;
      }}
    <//>`;
}

function UsedText({ node }) {
  const [opened, setOpened] = useState(false);
  return html`
    <details onToggle=${(event) => setOpened(event.target.open)}>
      <summary><${VersionLink} subject=${node.subject} version=${node.version} /></summary>
      ${opened && html`<${UsedTextLoaded} node=${node} />`}
    </details>`;
}

function UsedTextLoaded({ node: { subject, version, schemaType } }) {
  const text =
    useLoaded(async (signal) => inLines(await versionOf(subject, version, signal), signal), [subject, version]);
  return html`<${Loaded} of=${text} what="the text">
    ${(found) => html`<${Text} text=${found} type=${schemaType}
      label=${`Schema of ${plain(subject)}, version ${version}`} />`}
  <//>`;
}

function sizeOf({ length }) {
  return length < 10_000 ? `${length} characters` : `${thousands(length)} characters`;
}

function thousands(count) {
  return `${Math.round(count / 1000).toLocaleString()} thousand`;
}
