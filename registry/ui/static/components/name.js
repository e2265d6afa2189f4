// A name as others have given it, such as a subject's: its text, with what cannot be seen made visible.
import { html } from "../vendor.js";

// Controls, marks that change the direction of the text, and characters without width.
const UNSEEN = new RegExp(
  "[\\u0000-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u115f\\u1160\\u180e\\u200b-\\u200f\\u2028-\\u202e"
  + "\\u2060-\\u206f\\u3164\\ufe00-\\ufe0f\\ufeff\\ufff9-\\ufffb]");
const PARTS = new RegExp(`(${UNSEEN.source})`);
const CONTEXT = /^:(\.[^:]*):([^]*)$/;

/** text: a qualified name; the context stands in front as a badge. plain: without that. */
export function Name({ text, plain }) {
  const [, context, rest] = (!plain && CONTEXT.exec(text)) || [null, null, text];
  return html`<bdi class="name">
    ${context !== null && html`<span class="context" title="Context"><${Visible} text=${context} /></span>`}
    <${Visible} text=${rest} /></bdi>`;
}

function Visible({ text }) {
  if (text === "") return html`<i class="quiet">(empty name)</i>`;
  if (!UNSEEN.test(text)) return text;
  return text.split(PARTS).map((part, index) => (index % 2 ? html`<span class="odd">${code(part)}</span>` : part));
}

function code(character) {
  return `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
}
