// Turns the results of checks into marks in the text of a draft.
import { brokenAt, elementIn, partIn, pointed, wordIn } from "./positions.js";
import { placeIn, reasonOf } from "./reason.js";

const MARKS_MAX = 200;

/**
 * Returns marks `{ from, to, severity, message }` for the lint result and the changes at the chosen level; json: of a
 * text in JSON.
 */
export function marksOf({ lint, changes }, text, tree, json) {
  const marks = [];
  if (lint && !lint.valid) marks.push(invalid(lint.message, text, tree));
  for (const { severity, path, message, fix } of lint?.findings ?? []) {
    marks.push({ ...(elementIn(text, path) ?? start(text)), severity, message: `${message}; ${fix}` });
  }
  for (const change of changes.filter((each) => !each.compatible).slice(0, MARKS_MAX)) {
    const place = placeOf(change, text, tree, json) ?? start(text);
    // What is missing is marked where it would be, not all along what is there.
    const range = change.kind === "removed" ? firstLine(text, place) : place;
    const fixes = change.findings.filter((each) => !each.compatible).map(({ type, fix }) => fix || type);
    marks.push({ ...range, severity: "error", message: [...new Set(fixes)].join("; ") });
  }
  return marks.sort((one, other) => one.from - other.from);
}

/** Returns the range in the draft that a change is about, or null if the draft has no such part. */
export function placeOf({ new: part, findings, kind }, text, tree, json) {
  // Only a new reader's paths lead into the new schema; but the same part may be named by an old one too.
  const own = findings.find(({ direction }) => direction !== "FORWARD");
  if (own?.engine) return elementIn(text, own.path.replace(/(\[\]|\{\}|\{key\})+$/, ""));
  if (!json) return partIn(text, part);
  if (own && kind !== "removed") return pointed(tree, text, own.path);
  if (part !== null) return partIn(text, part);
  return own ? pointed(tree, text, own.path) : null;
}

function invalid(message, text, tree) {
  const reason = reasonOf(message);
  const place = placeIn(reason);
  const range = (place && offsetOf(text, place)) ?? (tree && brokenAt(tree)) ?? wordIn(text, reason) ?? start(text);
  return { ...range, severity: "error", message: reason };
}

function offsetOf(text, { line, column }) {
  let from = 0;
  for (let each = 1; each < line; each += 1) {
    const end = text.indexOf("\n", from);
    if (end < 0) return null;
    from = end + 1;
  }
  const at = Math.min(from + column - 1, text.length);
  return { from: at, to: Math.min(at + 1, text.length) };
}

function start(text) {
  return firstLine(text, { from: 0, to: text.length });
}

function firstLine(text, { from, to }) {
  const end = text.indexOf("\n", from);
  return { from, to: end < 0 ? to : Math.min(end, to) };
}
