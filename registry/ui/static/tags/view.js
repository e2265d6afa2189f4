// The tags in a version's schema: adding or removing some registers a new version.
import { html, useRef, useState } from "../vendor.js";
import { path, send } from "../api.js";
import { Badge } from "../components/badge.js";
import { Name } from "../components/name.js";
import { Failure, Notice } from "../components/notice.js";
import { Table } from "../components/table.js";
import { useResource } from "../live/resources.js";
import { href, navigate, to } from "../router.js";
import { refusing } from "../schema/harm.js";
import { Loaded } from "../schema/loading.js";
import { TAGS, TARGET, latestOf } from "../schema/resources.js";
import { Overtaken, useWrite } from "../schema/writing.js";
import { GuardedButton } from "../session/guarded.js";
import { usePermitted } from "../session/permitted.js";

const ENTITIES = { sr_field: "field", sr_record: "record" };

export default function Tags({ params: { subject, version } }) {
  const number = Number(version);
  const found = useResource(TAGS, subject, number);
  return html`<div class="usage">
    <h1>Tags of <${Name} text=${subject} /> version ${number}</h1>
    <p><a href=${href`/subjects/${subject}/versions/${number}`}>The version</a></p>
    <${Loaded} of=${found} what="the tags">
      ${({ schemaTags = [] }) => html`<${Form} key=${number} subject=${subject} number=${number} tags=${schemaTags} />`}
    <//></div>`;
}

function Form({ subject, number, tags }) {
  const target = useResource(TARGET, subject);
  const refusal = refusing(usePermitted(subject), target.value?.mode);
  const [added, setAdded] = useState([]); // [{ schemaEntity, tags }]
  const [removed, setRemoved] = useState([]);
  const [entity, setEntity] = useState({ entityPath: "", entityType: "sr_field", tag: "" });
  const seen = useRef(null); // the latest version when the page was opened
  seen.current ??= target.value ?? null;
  const writing = useWrite(({ version }, shown) =>
    shown && navigate(to`/subjects/${subject}/versions/${version}/tags`));
  const run = () => writing.run((tag) => send("POST", path`/subjects/${subject}/versions/${number}/tags`,
    { body: { tagsToAdd: added, tagsToRemove: removed }, tag }), seen.current, () => latestOf(subject));
  const add = (event) => {
    event.preventDefault();
    const { tag, ...schemaEntity } = entity;
    setAdded([...added, { schemaEntity, tags: [tag] }]);
    setEntity({ ...entity, tag: "" });
  };
  const rows = [
    ...tags.flatMap(({ schemaEntity, tags: all }) => all.map((tag) => ({ schemaEntity, tag, there: true }))),
    ...added.map(({ schemaEntity, tags: [tag] }) => ({ schemaEntity, tag })),
  ];
  const isRemoved = ({ schemaEntity, tag }) => removed.some((each) =>
    each.tags[0] === tag && each.schemaEntity.entityPath === schemaEntity.entityPath);
  const toggle = (row) => {
    if (!row.there) setAdded(added.filter((each) => each.schemaEntity !== row.schemaEntity));
    else if (isRemoved(row)) setRemoved(removed.filter((each) => each.schemaEntity !== row.schemaEntity
      || each.tags[0] !== row.tag));
    else setRemoved([...removed, { schemaEntity: row.schemaEntity, tags: [row.tag] }]);
  };
  const columns = [
    { id: "path", title: "Part", cell: ({ schemaEntity }) => html`<${Name} plain text=${schemaEntity.entityPath} />` },
    { id: "type", title: "Kind", cell: ({ schemaEntity: { entityType } }) => ENTITIES[entityType] ?? entityType },
    { id: "tag", title: "Tag", cell: (row) => html`<${Name} plain text=${row.tag} /> ${row.there
      ? isRemoved(row) && html`<${Badge} tone="bad">to be removed<//>` : html`<${Badge} tone="good">new<//>`}` },
    { id: "change", title: html`<span class="unseen">Actions</span>`, cell: (row) => html`
      <button class="small" onClick=${() => toggle(row)}>
        ${row.there && !isRemoved(row) ? "Remove" : "Undo"}</button>` },
  ];
  const set = (name) => (event) => setEntity({ ...entity, [name]: event.currentTarget.value });
  return html`
    ${rows.length > 0 ? html`<${Table} caption="Tags" columns=${columns} rows=${rows}
      rowKey=${({ schemaEntity, tag, there }) => JSON.stringify([schemaEntity, tag, there])} />`
      : html`<${Notice} kind="empty" title="No part of the schema has a tag" />`}
    <${Older} subject=${subject} number=${number} latest=${target.value?.latest} />
    <form class="actions" onSubmit=${add}>
      <label>Part <input required value=${entity.entityPath} placeholder="Record.field" spellcheck=${false}
        onInput=${set("entityPath")} /></label>
      <label>Kind <select value=${entity.entityType} onChange=${set("entityType")}>
        ${Object.entries(ENTITIES).map(([each, word]) => html`<option key=${each} value=${each}>${word}</option>`)}
      </select></label>
      <label>Tag <input required value=${entity.tag} spellcheck=${false} onInput=${set("tag")} /></label>
      <button>Add</button>
    </form>
    <p class="actions">
      <${GuardedButton} needs="write" refusal=${refusal} class="primary" onClick=${run}
        disabled=${!seen.current || writing.busy || added.length + removed.length === 0}>Register a new version<//>
      <span class="quiet">Tags are part of the schema's text, so a change of them is a new version.</span>
    </p>
    ${target.error && html`<${Failure} error=${target.error} onRetry=${target.reload} />`}
    ${writing.error && html`<${Failure} error=${writing.error} />`}
    <${Overtaken} subject=${subject} writing=${writing} />`;
}

/** Says what a change of the tags of an older version does. */
function Older({ subject, number, latest }) {
  if (!latest || latest.version === number) return null;
  return html`
    <${Notice} kind="warning" title=${`Version ${latest.version} is the latest`}>
      <p>A new version would have the text of version ${number}, without what changed after it.
        ${" "}<a href=${href`/subjects/${subject}/versions/${latest.version}/tags`}>Change the tags of
        version ${latest.version}</a> to keep that.</p>
    <//>`;
}
