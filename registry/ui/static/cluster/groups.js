// Groups of equal schemas: a line for each of the schemas, with links to its versions and its id.
import { html } from "../vendor.js";
import { Name } from "../components/name.js";
import { Table } from "../components/table.js";
import { href, to } from "../router.js";
import { contextOf } from "../schema/scopes.js";
import { count } from "./units.js";

const COLUMNS = [
  { id: "group", title: "Group", numeric: true, cell: ({ number }) => number },
  { id: "type", title: "Type", cell: ({ group }) => group.schemaType },
  { id: "id", title: "Id", cell: ({ content }) => html`<${Ids} versions=${content.versions} />` },
  { id: "versions", title: "Versions", cell: ({ group, content, last }) => html`
    <${Versions} content=${content} />
    ${last && group.distinct > group.contents.length && html`
      <p class="quiet">and ${count(group.distinct - group.contents.length)} more schemas in this group</p>`}` },
];

/** groups: as GET /admin/duplicates answers them. */
export function Groups({ groups }) {
  const rows = groups.flatMap((group, index) =>
    group.contents
      .map((content, at) => ({ number: index + 1, group, content, last: at === group.contents.length - 1 })));
  return html`<${Table} caption="Groups of equal schemas" columns=${COLUMNS} rows=${rows}
    rowKey=${({ number, content }) => `${number} ${content.guid}`} />`;
}

function Ids({ versions }) {
  const targets =
    new Map(versions.map(({ subject, id }) => [href(to("/lookup", { id, context: contextOf(subject) })), id]));
  return [...targets].map(([target, id], index) => html`${index > 0 && ", "}<a key=${target} href=${target}>${id}</a>`);
}

function Versions({ content }) {
  const more = content.count - content.versions.length;
  return html`
    <ul class="versions">
      ${content.versions.map(({ subject, version }) => html`
        <li key=${`${subject} ${version}`}>
          <a href=${href`/subjects/${subject}/versions/${version}`}>
            <${Name} text=${subject} /> version ${version}</a></li>`)}
      ${more > 0 && html`<li class="quiet">and ${count(more)} more</li>`}
    </ul>`;
}
