// Lays out JSON in lines without changing a token: numbers keep their digits, repeated names and escapes stay.

const INDENT = "  ";
const INDENTS_MAX = 100;
const TOKEN = /"(?:[^"\\]|\\.)*"?|[[\]{},:]|[^\s[\]{},:"]+/gs;
const SLICE = 20_000; // tokens, a few milliseconds

/** Returns the tokens of a JSON text in lines. */
export function pretty(text) {
  const out = [];
  for (const slice of slices(text)) out.push(slice);
  return out.join("");
}

/** The same for a large text: lets the page answer the user meanwhile. Throws when the signal is aborted. */
export async function prettySlowly(text, signal) {
  const out = [];
  for (const slice of slices(text)) {
    out.push(slice);
    await new Promise((resolve) => setTimeout(resolve));
    signal.throwIfAborted();
  }
  return out.join("");
}

function* slices(text) {
  let out = [];
  let depth = 0;
  let opened = false; // the last token opened an object or a list
  const line = () => out.push("\n", INDENT.repeat(Math.min(depth, INDENTS_MAX)));
  for (const [token] of text.matchAll(TOKEN)) {
    const closes = token === "}" || token === "]";
    if (closes) depth = Math.max(0, depth - 1);
    if (opened !== closes) line();
    opened = token === "{" || token === "[";
    if (opened) depth += 1;
    out.push(token === ":" ? ": " : token);
    if (token === ",") line();
    if (out.length > SLICE) {
      yield out.join("");
      out = [];
    }
  }
  yield out.join("");
}
