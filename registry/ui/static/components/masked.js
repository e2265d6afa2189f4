// A value that is shown only when it is asked for, because it is sensitive.
import { html, useState } from "../vendor.js";
import { Name } from "./name.js";

/** value: a text; sensitive: true to hide it at first. */
export function Masked({ value, sensitive }) {
  const [shown, setShown] = useState(!sensitive);
  if (shown) return html`<${Name} plain text=${value} />`;
  return html`<span class="quiet">hidden</span>${" "}
    <button class="small" onClick=${() => setShown(true)}>Show</button>`;
}
