// The fields of a version in a table, the same for all formats; of a long one only the visible rows are in the page.
import { html, useRef, useState } from "../vendor.js";
import { Badge } from "../components/badge.js";
import { Name } from "../components/name.js";
import { Table } from "../components/table.js";
import { VirtualList } from "../components/virtual-list.js";
import { FIELDS_PAGE as PAGE, fieldsFrom } from "./reading.js";

const PLAIN_MAX = 200;
const ROW_PX = 34;

/** version: as `withFields` returns it; at: the offset of the past state to show, if any. */
export function Fields({ version: { subject, version: number, listed }, at }) {
  if (!listed) return html`<p class="quiet">The fields of this schema cannot be read.</p>`;
  const { total, fields } = listed;
  if (!total) return html`<p class="quiet">The schema has no fields.</p>`;
  return html`
    <section class="fields" aria-label="Fields">
      ${total <= PLAIN_MAX
        ? html`<${Table} caption=${captionOf(total)} rows=${fields} rowKey=${(row) => fields.indexOf(row)}
          columns=${COLUMNS} />`
        : html`<${Long} key=${`${subject} ${number}`} total=${total} first=${fields}
          more=${(offset) => fieldsFrom(subject, number, offset, undefined, at)} />`}
    </section>`;
}

function captionOf(total) {
  return `${total} ${total === 1 ? "field or type" : "fields and types"}`;
}

const COLUMNS = [
  { id: "path", title: "Field", cell: (row) => html`<${Place} row=${row} />` },
  { id: "type", title: "Type", cell: ({ type }) => html`<${Name} plain text=${type} />` },
  { id: "default", title: "Default",
    cell: (row) => (row.default !== undefined ? html`<${Name} plain text=${row.default} />`
      : row.required ? html`<span class="quiet">required</span>` : ""), wide: true },
  { id: "doc", title: "About", cell: ({ doc = "", tags = [] }) => html`
    ${doc && html`<${Name} plain text=${doc} />`}
    ${tags.map((tag) => html` <${Badge} key=${tag} tone="accent"><${Name} plain text=${tag} /><//>`)}` },
];

function Place({ row: { kind, path: place, name } }) {
  if (kind === "field") return html`<${Name} plain text=${place} />`;
  return html`<strong><${Name} plain text=${name} /></strong>`;
}

function Long({ total, first, more }) {
  const pages = useRef(new Map([[0, first]]));
  const [, setCount] = useState(0);
  const load = (page) => {
    if (pages.current.has(page)) return;
    pages.current.set(page, []);
    more(page * PAGE).then(({ fields }) => {
      pages.current.set(page, fields);
      setCount((count) => count + 1);
    }, () => pages.current.delete(page));
  };
  const visible = (begin, end) => {
    for (let page = Math.floor(begin / PAGE); page * PAGE < end; page += 1) load(page);
  };
  const cells = (index) => {
    const row = pages.current.get(Math.floor(index / PAGE))?.[index % PAGE];
    return COLUMNS.map(({ id, cell }) => html`<span key=${id} role="gridcell" class=${`cell ${id}`}>
      ${row ? cell(row) : id === "path" ? "…" : ""}</span>`);
  };
  return html`
    <p class="quiet">${captionOf(total)}</p>
    <${VirtualList} label="Fields" count=${total} rowHeight=${ROW_PX} row=${cells} onVisible=${visible}
      head=${COLUMNS.map(({ id, title }) => html`<span key=${id} role="columnheader" class=${`cell ${id}`}>
        ${title}</span>`)} />`;
}
