// The associations of a subject with topics: listed, added and removed, each after a trial without effect.
import { html, useState } from "../vendor.js";
import { path, send, submit } from "../api.js";
import { Badge } from "../components/badge.js";
import { Dialog } from "../components/dialog.js";
import { useLast } from "../components/last.js";
import { Name } from "../components/name.js";
import { Failure, Notice } from "../components/notice.js";
import { Table } from "../components/table.js";
import { useResource } from "../live/resources.js";
import { href } from "../router.js";
import { refusing } from "../schema/harm.js";
import { Loaded } from "../schema/loading.js";
import { ASSOCIATIONS, SCOPES } from "../schema/resources.js";
import { contextOf } from "../schema/scopes.js";
import { GuardedButton } from "../session/guarded.js";
import { usePermitted } from "../session/permitted.js";

const MEMBERS = [
  ["resourceName", "Topic"], ["resourceNamespace", "Namespace, such as the cluster's id"],
  ["resourceId", "Id of the topic"],
];

export default function Associations({ params: { subject } }) {
  const found = useResource(ASSOCIATIONS, subject);
  const settings = useResource(SCOPES, subject);
  const refusal = refusing(usePermitted(subject), settings.value?.mode, { write: "changed" });
  const [open, setOpen] = useState(null); // "new", or the association to remove
  const finish = (shown) => {
    if (shown) setOpen(null);
    found.reload();
  };
  return html`<div class="usage">
    <h1>Associations of <${Name} text=${subject} /></h1>
    <p><a href=${href`/subjects/${subject}`}>The subject</a></p>
    <p class="actions"><${GuardedButton} needs="write" refusal=${refusal} class="primary"
      onClick=${() => setOpen("new")}>Add an association…<//>
      <span class="quiet">An association links the keys or values of a topic to the subject.</span></p>
    <${Loaded} of=${found} what="the associations">
      ${(rows) => (rows.length ? html`<${Table} caption="Associations" rows=${rows}
        rowKey=${(row) => `${row.resourceId} ${row.associationType}`} columns=${columns(refusal, setOpen)} />`
        : html`<${Notice} kind="empty" title="No associations" />`)}
    <//>
    ${open === "new" && html`<${Creation} subject=${subject} onClose=${() => setOpen(null)} onDone=${finish} />`}
    ${open && open !== "new" && html`<${Removal} association=${open} onClose=${() => setOpen(null)}
      gone=${found.value?.every((row) => !isSame(row, open)) ?? false} onDone=${finish} />`}
    </div>`;
}

function isSame(one, other) {
  return ["resourceId", "associationType", "lifecycle"].every((name) => one[name] === other[name]);
}

function columns(refusal, onRemove) {
  return [
    { id: "name", title: "Topic", cell: ({ resourceName }) => html`<${Name} plain text=${resourceName ?? ""} />` },
    { id: "namespace", title: "Namespace", wide: true,
      cell: ({ resourceNamespace }) => html`<${Name} plain text=${resourceNamespace ?? ""} />` },
    { id: "id", title: "Id", wide: true, cell: ({ resourceId }) => html`<${Name} plain text=${resourceId ?? ""} />` },
    { id: "type", title: "Side", cell: ({ associationType }) => associationType },
    { id: "lifecycle", title: "Lifecycle", cell: ({ lifecycle }) => html`
      <${Badge} tone=${lifecycle === "STRONG" ? "accent" : "plain"}>${lifecycle}<//>` },
    { id: "remove", title: html`<span class="unseen">Actions</span>`, cell: (row) => html`
      <${GuardedButton} needs="write" refusal=${refusal} class="danger small" onClick=${() => onRemove(row)}>
        Remove…<//>` },
  ];
}

/**
 * Runs a request without effect at first, then with it. Returns { tried, busy, error, run, reset }; reset() when the
 * request becomes another one, for which an answer to the one before says nothing. onDone(shown): see `useWrite`.
 */
function useTrial(request, onDone) {
  const [state, setState] = useState({});
  const begin = useLast();
  const run = async () => {
    const dryRun = !state.tried || undefined;
    setState({ ...state, busy: true, error: null });
    const isLast = begin();
    try {
      await request(dryRun);
      if (!dryRun) onDone(isLast());
      else if (isLast()) setState({ tried: true });
    } catch (error) {
      if (isLast()) setState({ error });
    }
  };
  const reset = () => {
    begin();
    setState({});
  };
  return { ...state, run, reset };
}

function Creation({ subject, onClose, onDone }) {
  const [texts, setTexts] = useState({});
  const [side, setSide] = useState("value");
  const trial = useTrial((dryRun) => send("POST", "/associations", {
    query: { dryRun, context: contextOf(subject) },
    body: { ...texts, associations: [{ subject, associationType: side }] },
  }), onDone);
  const change = (run) => (event) => { trial.reset(); run(event.currentTarget.value); };
  return html`
    <${Dialog} title="Add an association" onClose=${onClose}>
      <form class="stack" onSubmit=${(event) => { event.preventDefault(); trial.run(); }}>
        ${MEMBERS.map(([name, label]) => html`<label key=${name}>${label}
          <input required autocomplete="off" spellcheck=${false} value=${texts[name] ?? ""}
            onInput=${change((text) => setTexts({ ...texts, [name]: text }))} /></label>`)}
        <label>Side <select value=${side} onChange=${change(setSide)}>
          <option>value</option><option>key</option></select></label>
        ${trial.error && html`<${Failure} error=${trial.error} />`}
        ${trial.tried && html`<p role="status">The registry would accept this.</p>`}
        <p class="actions"><button class="primary" disabled=${trial.busy}>
          ${trial.tried ? "Add it" : "Check"}</button></p>
      </form>
    <//>`;
}

/** gone: true if the subject does not have it any more; the topic may have got another one instead. */
function Removal({ association, gone, onClose, onDone }) {
  const { resourceName, resourceId, resourceType, associationType, lifecycle, subject } = association;
  const [cascade, setCascade] = useState(false);
  const trial = useTrial((dryRun) => submit("DELETE", path`/associations/resources/${resourceId}`,
    { query: { resourceType, associationType, cascadeLifecycle: cascade || undefined, dryRun } }), onDone);
  return html`
    <${Dialog} title="Remove this association?" onClose=${onClose}
      footer=${html`<button onClick=${onClose}>Keep it</button>
        <button class="danger" disabled=${trial.busy || gone} onClick=${trial.run}>
          ${trial.tried ? "Remove it" : "Check"}</button>`}>
      <p>The ${associationType} of <${Name} plain text=${resourceName ?? resourceId} />.</p>
      ${lifecycle === "STRONG" && html`
        <p><label class="choice"><input type="checkbox" checked=${cascade} onChange=${(event) => {
          trial.reset();
          setCascade(event.currentTarget.checked);
        }} /> Also delete the subject</label></p>
        ${cascade && html`<p><strong>The subject <${Name} text=${subject} /> is deleted permanently. This cannot be
          undone.</strong></p>`}`}
      ${trial.error && html`<${Failure} error=${trial.error} />`}
      ${gone ? html`<${Notice} kind="warning" title="Changed in the meantime"><p>Somebody else has removed or replaced
          this association.</p><//>`
        : trial.tried && html`<p role="status">The registry would accept this.</p>`}
    <//>`;
}
