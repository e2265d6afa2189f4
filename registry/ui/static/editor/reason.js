// What is wrong with a draft: the registry's messages, which repeat the whole schema, shortened; and what it would not
// even read.

/** Returns the last reason of a message such as "Invalid schema {…} of type AVRO, details: Undefined schema: x". */
export function reasonOf(message) {
  const last = message.lastIndexOf("details: ");
  const reason = last < 0 ? message : message.slice(last + "details: ".length);
  return reason.trim() || message;
}

/** Returns the line and column, from 1, that a reason names, or null. */
export function placeIn(reason) {
  const found = /Syntax error in [^\s:]*:(\d+):(\d+)/.exec(reason) ?? /at line (\d+), column (\d+)/.exec(reason);
  return found && { line: Number(found[1]), column: Number(found[2]) };
}

/**
 * Returns why a text cannot be sent, or null: JSON in UTF-8 has no place for half of a surrogate pair, and the registry
 * would refuse the whole request.
 *
 * @param {string} text
 */
export function brokenTextIn(text) {
  const at = text.search(/\p{Surrogate}/u);
  if (at < 0) return null;
  const lines = text.slice(0, at).split("\n");
  const code = text.charCodeAt(at).toString(16).toUpperCase();
  return `Half of a character (U+${code}) at line ${lines.length}, column ${lines.at(-1).length + 1}: delete it`;
}
