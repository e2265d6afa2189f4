// A plain table, for lists that fit a page; virtual-list.js shows long ones.
import { html } from "../vendor.js";

/** columns: [{ id, title, cell: (row) => …, numeric, wide }] (wide: hidden on narrow screens); rows; rowKey(row). */
export function Table({ caption, columns, rows, rowKey }) {
  return html`
    <div class="scroll-x" tabindex="0" role="region" aria-label=${caption}>
      <table>
        <caption class="unseen">${caption}</caption>
        <thead>
          <tr>${columns.map((column) =>
            html`<th key=${column.id} scope="col" class=${classes(column)}>${column.title}</th>`)}</tr>
        </thead>
        <tbody>
          ${rows.map((row) => html`
            <tr key=${rowKey(row)}>
              ${columns.map((column) => html`<td key=${column.id} class=${classes(column)}>${column.cell(row)}</td>`)}
            </tr>`)}
        </tbody>
      </table>
    </div>`;
}

function classes({ numeric, wide }) {
  return [numeric && "number", wide && "wide"].filter(Boolean).join(" ") || null;
}
