// All members of a scope's config: what is stored here, what is in force, and which scope it comes from.
import { html, useMemo, useState } from "../vendor.js";
import { path, send } from "../api.js";
import { Dialog } from "../components/dialog.js";
import { Name } from "../components/name.js";
import { Failure } from "../components/notice.js";
import { Table } from "../components/table.js";
import { CopyAs } from "../copy-as/copy-as.js";
import { useResource } from "../live/resources.js";
import { href } from "../router.js";
import { consequencesOf, refusing } from "../schema/harm.js";
import { Loaded } from "../schema/loading.js";
import { SCOPES, settingOf } from "../schema/resources.js";
import { labelOf } from "../schema/scopes.js";
import { Overtaken, useWrite } from "../schema/writing.js";
import { usePermitted } from "../session/permitted.js";
import { MEMBERS, changesOf, textOf } from "./members.js";

/** query: scope, as /scopes names it. */
export default function ConfigMembers({ query: { scope = "" } }) {
  const scopes = useResource(SCOPES, scope);
  const isSubject = scope !== "" && !scope.endsWith(":");
  return html`<div class="members">
    <h1>Config of ${isSubject ? html`<${Name} text=${scope} />` : labelOf(scope)}</h1>
    <p>${isSubject ? html`<a href=${href`/subjects/${scope}`}>The subject</a>`
      : html`<a href=${`#/config?scope=${encodeURIComponent(scope)}`}>Level, mode and history</a>`}</p>
    <p class="quiet">The first scope with a config decides as a whole: the subject, its context, all contexts. Only the
      members marked with * are taken from the top level if a subject's own config lacks them.</p>
    <${Loaded} of=${scopes} what="the config">
      ${(found) => html`<${Form} key=${scope} scope=${scope} found=${found} onDone=${scopes.reload} />`}
    <//></div>`;
}

function Form({ scope, found, onDone }) {
  const refusal = refusing(usePermitted(scope), found.mode)("config");
  const stored = found.scopes[0].config;
  const [texts, setTexts] = useState({}); // what the user has changed
  const [seen, setSeen] = useState(null); // what was there when the first change began
  const [asking, setAsking] = useState(false);
  const { body, changes, faults } = useMemo(() => changesOf(seen?.stored ?? stored, texts), [seen, stored, texts]);
  const writing = useWrite(() => {
    setTexts({});
    setSeen(null);
    onDone();
  });
  const off = refusal !== "" || writing.busy;
  const change = (name, text) => {
    if (!seen) setSeen({ stored, tag: found.scopes[0].etags?.config, seen: found.seen });
    setTexts((before) => ({ ...before, [name]: text }));
  };
  const run = () => {
    setAsking(false);
    const where = scope ? path`/config/${scope}` : "/config";
    writing.run((tag) => send("PUT", where, { body, tag }), seen, () => settingOf(scope, "config"));
  };
  const columns = [
    { id: "name", title: "Member", cell: ({ name, falls, about }) => html`
      <strong id=${`member-${name}`}>${name}${falls ? "*" : ""}</strong><br /><span class="quiet">${about}</span>` },
    { id: "here", title: "Stored here", cell: (member) => html`<${Field} member=${member} disabled=${off}
      text=${texts[member.name] ?? textOf(member, stored?.[member.name])} fault=${faults[member.name]}
      onText=${(text) => change(member.name, text)} />` },
    { id: "force", title: "Effective", cell: ({ name }) => html`<${InForce} name=${name} found=${found} />` },
  ];
  return html`
    <${Table} caption="Members of the config" columns=${columns} rows=${MEMBERS} rowKey=${({ name }) => name} />
    <p class="actions">
      <button class="primary" disabled=${off || !changes.length || Object.keys(faults).length > 0}
        onClick=${() => setAsking(true)}>Change…</button>
      ${changes.length > 0 && Object.keys(faults).length === 0 &&
        html`<${CopyAs} what=${{ kind: "config", scope, body }} />`}
      <button disabled=${writing.busy || seen === null} onClick=${() => { setTexts({}); setSeen(null); }}>Undo</button>
      ${refusal && html`<span class="quiet">${refusal}</span>`}
    </p>
    <p role="status">${writing.done ? "Changed." : ""}</p>
    ${writing.error && html`<${Failure} error=${writing.error} />`}
    <${Overtaken} subject=${scope} writing=${writing} />
    ${asking && html`
      <${Dialog} title=${`Change the config of ${labelOf(scope)}?`} onClose=${() => setAsking(false)}
        footer=${html`<button class="danger" onClick=${run}>Change it</button>`}>
        <${Table} caption="Changes" rows=${changes} rowKey=${({ name }) => name} columns=${[
          { id: "name", title: "Member", cell: ({ name }) => name },
          { id: "before", title: "Before", cell: ({ before }) => html`<${Value} text=${before} />` },
          { id: "after", title: "After", cell: ({ after }) => html`<${Value} text=${after} />` },
        ]} />
        ${stored === null && html`<p><strong>This scope had no config of its own. From now on it decides for itself:
          wider scopes count only for the members marked with *.</strong></p>`}
        ${body.alias !== undefined && html`<ul>${consequencesOf(scope, "alias", body.alias)
          .map((each) => html`<li key=${each}>${each}</li>`)}</ul>`}
      <//>`}`;
}

function Field({ member: { name, kind }, text, fault, disabled, onText }) {
  const shared = { "aria-labelledby": `member-${name}`, disabled, value: text,
    onInput: (event) => onText(event.currentTarget.value) };
  if (kind === "flag") {
    return html`<select ...${shared}><option value="">not stored</option><option value="true">true</option>
      <option value="false">false</option></select>`;
  }
  const field = kind === "json"
    ? html`<textarea ...${shared} rows=${Math.min(12, text.split("\n").length)} spellcheck=${false}
      placeholder="not stored"></textarea>`
    : html`<input ...${shared} spellcheck=${false} autocomplete="off" placeholder="not stored" />`;
  return html`${field}${fault && html`<p class="bad" role="alert">${fault}</p>`}`;
}

function InForce({ name, found: { config, origins = {} } }) {
  if (config[name] === undefined) return html`<span class="quiet">–</span>`;
  const value = typeof config[name] === "string" ? config[name] : JSON.stringify(config[name]);
  return html`<${Value} text=${value} />${name in origins && html`
    <br /><span class="quiet">from ${labelOf(origins[name])}</span>`}`;
}

function Value({ text }) {
  return text === "" ? html`<span class="quiet">not stored</span>` : html`<${Name} plain text=${text} />`;
}
