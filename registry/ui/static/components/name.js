// A name as others have given it, such as a subject's: its text, with what cannot be seen made visible.
import { html } from "../vendor.js";
import { partsOf } from "../names.js";

const CONTEXT = /^:(\.[^:]*):([^]*)$/;
const TAIL = 14; // characters of a name's end that stay when it is cut in its middle

/**
 * text: a qualified name; its context stands in front as a badge. plain: without that. cut: on one line that ends in
 * its middle where there is little room, because names differ at their ends; otherwise it wraps.
 */
export function Name({ text, plain, cut }) {
  const [, context, rest] = (!plain && CONTEXT.exec(text)) || [null, null, text];
  return html`<bdi class=${cut ? "name cut" : "name"}>
    ${context !== null && html`<span class="context" title="Context"><${Visible} text=${context} /></span>`}
    ${cut ? html`<${Halves} text=${rest} />` : html`<${Visible} text=${rest} />`}</bdi>`;
}

function Halves({ text }) {
  const characters = [...text];
  if (characters.length <= TAIL) return html`<${Visible} text=${text} />`;
  return html`<span class="head"><${Visible} text=${characters.slice(0, -TAIL).join("")} /></span><span
    class="tail"><${Visible} text=${characters.slice(-TAIL).join("")} /></span>`;
}

function Visible({ text }) {
  if (text === "") return html`<i class="quiet">(empty name)</i>`;
  return partsOf(text).map((part, index) => (index % 2 ? html`<span class="odd">${part}</span>` : part));
}
