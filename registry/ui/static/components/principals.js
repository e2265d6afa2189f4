// Who made a change, in tables of events.
import { html } from "../vendor.js";
import { Name } from "./name.js";

const COLUMN = {
  id: "principal",
  title: "By",
  cell: ({ principal }) => principal !== undefined && html`<${Name} plain text=${principal} />`,
};

/** The column of the principals of these events; none if the log names nobody. */
export function principals(events) {
  return events.some(({ principal }) => principal !== undefined) ? [COLUMN] : [];
}
