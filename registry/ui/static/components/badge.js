// A short fact in a colored frame. tone: "plain", "good", "warn", "bad" or "accent".
import { html } from "../vendor.js";

export function Badge({ tone = "plain", title, children }) {
  return html`<span class=${`badge ${tone}`} title=${title}>${children}</span>`;
}
