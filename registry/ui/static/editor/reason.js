// Shortens the registry's messages about schemas, which repeat the whole schema, to what is wrong.

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
