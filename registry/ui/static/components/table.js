// A plain table, for lists that fit a page; virtual-list.js shows long ones.
import { html, useRef } from "../vendor.js";

/**
 * columns: [{ id, title, cell: (row) => …, numeric, wide }] (wide: hidden on narrow screens); rows; rowKey(row).
 * steady: a row that stays the same object is not made again, for long lists to which rows are added.
 */
export function Table({ caption, columns, rows, rowKey, steady = false }) {
  const kept = useRef({ columns: [], rows: new WeakMap() });
  if (!steady || columns.length !== kept.current.columns.length
    || columns.some((each, at) => each !== kept.current.columns[at])) kept.current = { columns, rows: new WeakMap() };
  const { rows: known } = kept.current;
  const rowOf = (row) => {
    if (!known.has(row)) {
      known.set(row, html`
        <tr key=${rowKey(row)}>
          ${columns.map((column) => html`<td key=${column.id} class=${classes(column)}>${column.cell(row)}</td>`)}
        </tr>`);
    }
    return known.get(row);
  };
  return html`
    <div class="scroll-x" tabindex="0" role="region" aria-label=${caption}>
      <table>
        <caption class="unseen">${caption}</caption>
        <thead>
          <tr>${columns.map((column) =>
            html`<th key=${column.id} scope="col" class=${classes(column)}>${column.title}</th>`)}</tr>
        </thead>
        <tbody>
          ${rows.map(rowOf)}
        </tbody>
      </table>
    </div>`;
}

function classes({ numeric, wide }) {
  return [numeric && "number", wide && "wide"].filter(Boolean).join(" ") || null;
}
