// A moment in the reader's own time.
import { html } from "../vendor.js";

/** ms: since the epoch. */
export function Time({ ms }) {
  return html`<time datetime=${iso(ms)}>${new Date(ms).toLocaleString()}</time>`;
}

function iso(time) {
  const found = new Date(time);
  return Number.isNaN(found.getTime()) ? null : found.toISOString();
}
