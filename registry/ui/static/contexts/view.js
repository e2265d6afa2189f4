// Contexts: how many of their ids are used, and what is kept for each; empty ones can be deleted.
import { html, useState } from "../vendor.js";
import { get, path, request } from "../api.js";
import { Dialog } from "../components/dialog.js";
import { Name } from "../components/name.js";
import { Failure, KEPT_INSIDE, Notice } from "../components/notice.js";
import { Table } from "../components/table.js";
import { count, share } from "../cluster/units.js";
import { useResource } from "../live/resources.js";
import { resource } from "../live/store.js";
import { plain } from "../names.js";
import { to } from "../router.js";
import { Loaded } from "../schema/loading.js";
import { CONTEXTS } from "../schema/resources.js";
import { scopeOf } from "../schema/scopes.js";
import { useWrite } from "../schema/writing.js";
import { GuardedButton } from "../session/guarded.js";
import { usePermitted } from "../session/permitted.js";
import { Release } from "./release.js";

const LIMIT = 1000;
const IDS = resource("ids of contexts", (signal) => get("/admin/ids", { query: { limit: LIMIT }, signal }),
  ({ kind }) => kind === "version_registered" || kind.startsWith("context_"));

export default function Contexts() {
  const contexts = useResource(CONTEXTS);
  const isAdmin = usePermitted()("admin") === "";
  const ids = useResource(isAdmin ? IDS : null);
  const [doomed, setDoomed] = useState(null);
  const [releasing, setReleasing] = useState(null);
  return html`<div class="members">
    <h1>Contexts</h1>
    <p class="quiet">A context is a namespace for subjects and ids. It exists from its first subject on.</p>
    ${ids.error?.keptInside ? html`<p class="quiet">Their ids are not shown. ${KEPT_INSIDE}</p>`
      : ids.error && html`<${Failure} error=${ids.error} onRetry=${ids.reload} />`}
    <${Loaded} of=${contexts} what="the contexts">
      ${(names) => {
        const all = [...new Set([".", ...names])];
        const known = new Map((ids.value ?? []).map((each) => [each.context, each]));
        const rows = all.map((context) => ({ context, ...known.get(context) }));
        return html`
          <${Table} caption="Contexts" columns=${columns(isAdmin && !ids.error?.keptInside, setDoomed, setReleasing)}
            rows=${rows}
            rowKey=${({ context }) => context} />
          ${names.length >= LIMIT && html`<p class="quiet">Only the first ${count(LIMIT)} are listed.</p>`}`;
      }}
    <//>
    ${doomed && html`<${Deletion} context=${doomed} onClose=${() => setDoomed(null)}
      onDone=${(shown) => { if (shown) setDoomed(null); contexts.reload(); }} />`}
    ${releasing && html`<${Release} entry=${releasing} onClose=${() => setReleasing(null)}
      onDone=${(shown) => { if (shown) setReleasing(null); ids.reload(); }} />`}</div>`;
}

function columns(isAdmin, onDelete, onRelease) {
  const scope = (context) => (context === "." ? "" : scopeOf(context));
  return [
    { id: "context", title: "Context", cell: ({ context }) => (context === "."
      ? "default" : html`<${Name} plain text=${context} />`) },
    { id: "subjects", title: "Subjects", cell: ({ context }) =>
      html`<a href=${`#${to("/subjects", { context })}`}>subjects</a>` },
    { id: "config", title: "Config", cell: ({ context }) => html`
      <a href=${`#${to("/config", { scope: scope(context) })}`}>level and mode</a>,
      ${" "}<a href=${`#${to("/config/members", { scope: scope(context) })}`}>members</a>` },
    ...(isAdmin ? [
      { id: "highest", title: "Highest id", numeric: true, cell: ({ highest }) => count(highest ?? 0) },
      { id: "used", title: "Ids used", numeric: true, wide: true,
        cell: ({ used }) => share(used ?? 0) },
      { id: "free", title: "Free ranges", numeric: true, wide: true, cell: ({ free }) => count(free?.length ?? 0) },
    ] : []),
    { id: "delete", title: html`<span class="unseen">Actions</span>`, cell: (entry) => html`
      <span class="row-actions">
        ${isAdmin && entry.highest !== undefined && html`<button class="small" onClick=${() => onRelease(entry)}
          aria-label=${`Release ids of the context ${plain(entry.context)}`}>Release ids…</button>`}
        ${entry.context !== "." && html`<${DeleteButton} context=${entry.context} onDelete=${onDelete} />`}
      </span>` },
  ];
}

function DeleteButton({ context, onDelete }) {
  const refusal = usePermitted(scopeOf(context));
  return html`<${GuardedButton} needs="delete" refusal=${refusal} class="danger small"
    aria-label=${`Delete the context ${plain(context)}`} onClick=${() => onDelete(context)}>Delete…<//>`;
}

// A subject that the context holds, also a soft-deleted one.
const HELD = resource("held", async (signal, context) => (await get("/subjects",
  { query: { subjectPrefix: scopeOf(context), deleted: true, limit: 1 }, signal })).length > 0,
(event, [context]) => event.context === context && event.subject !== undefined);

function Deletion({ context, onClose, onDone }) {
  const held = useResource(HELD, context);
  const { busy, error, run } = useWrite((_, shown) => onDone(shown));
  const remove = () => run(() => request("DELETE", path`/contexts/${context}`));
  return html`
    <${Dialog} title="Delete this context?" onClose=${onClose}
      footer=${html`<button onClick=${onClose}>Keep it</button>
        <button class="danger" disabled=${busy || held.value === true} onClick=${remove}>Delete it</button>`}>
      <p><${Name} plain text=${context} /></p>
      <p>Only a context without subjects can be deleted, soft-deleted ones included. It is then no longer listed, and
        exists again with its next subject.</p>
      ${held.value && html`<${Notice} kind="warning" title="It cannot be deleted yet">
        <p>It has <a href=${`#${to("/subjects", { context, deleted: "with" })}`}>subjects</a>.</p><//>`}
      ${error && (error.status === 422 ? html`<${Notice} kind="warning" title="It cannot be deleted">
        <p>${plain(error.message)}</p><//>` : html`<${Failure} error=${error} />`)}
    <//>`;
}
