// A name as others have given it, such as a subject's: its text, with what cannot be seen made visible.
import { html } from "../vendor.js";
import { partsOf } from "../names.js";

const CONTEXT = /^:(\.[^:]*):([^]*)$/;
const TAIL = 14; // characters of a name's end that stay when it is cut in its middle
const BADGE = 2.2; // characters that the frame of a context takes
const NARROW = /^[\x20-\x7e]+$/; // characters of one width

/**
 * text: a qualified name; its context stands in front as a badge. plain: without that. cut: on one line that ends in
 * its middle where there is little room, because names differ at their ends; otherwise it wraps.
 */
export function Name({ text, plain, cut }) {
  const [, context, rest] = (!plain && CONTEXT.exec(text)) || [null, null, text];
  return html`<bdi class=${cut ? "name cut" : "name"}>
    ${context !== null && html`<span class="context" title="Context"><${Visible} text=${context} /></span>`}
    ${cut && NARROW.test(rest) && rest.length > TAIL
      ? html`<${Halves} text=${rest} before=${context === null ? 0 : context.length + BADGE} />`
      : html`<${Visible} text=${rest} />`}</bdi>`;
}

// The name is one line of text, also for those who copy it: so neither half is a box of its own in a row.
function Halves({ text, before }) {
  const style = { maxWidth: `calc(100% - ${TAIL + before - 0.1}ch)` };
  return html`<span class="head" style=${style}>${text.slice(0, -TAIL)}</span>${text.slice(-TAIL)}`;
}

function Visible({ text }) {
  if (text === "") return html`<i class="quiet">(empty name)</i>`;
  return partsOf(text).map((part, index) => (index % 2 ? html`<span class="odd">${part}</span>` : part));
}
