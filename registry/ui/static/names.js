// Names as others have given them, as text: what cannot be seen is made visible. `components/name.js` shows them.

/** Controls, marks that change the direction of the text, and characters without width. */
export const UNSEEN = new RegExp(
  "[\\u0000-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180e\\u200b-\\u200f"
  + "\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff9-\\ufffb]|[\\u{e0000}-\\u{e0fff}]", "u");
const PARTS = new RegExp(`(${UNSEEN.source})`, "u");
// Letters that are written from right to left: they would reorder the text around them.
const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;
const [ISOLATE, END] = ["\u2068", "\u2069"];

/** The parts of a name by turns: text, then a character that cannot be seen, as U+200B; at least one. */
export function partsOf(name) {
  if (!UNSEEN.test(name)) return [name];
  return name.split(PARTS).map((part, index) => (index % 2 ? code(part) : part));
}

/** A name for a place that takes only text: a title, a label, an option, a sentence. */
export function plain(name) {
  const text = partsOf(String(name)).map((part, index) => (index % 2 ? `⟨${part}⟩` : part)).join("");
  return RIGHT_TO_LEFT.test(text) ? ISOLATE + text + END : text;
}

function code(character) {
  return `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
}
