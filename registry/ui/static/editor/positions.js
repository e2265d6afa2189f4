// Finds the parts of a schema's text that findings are about.
//
// The registry names parts by path: a JSON pointer into an Avro or JSON schema, field numbers in Protobuf. The text in
// the editor need not be laid out as the registry stores it, so lines are found here.

const SEGMENTS_MAX = 200;

/**
 * Returns the range `{from, to}` of the value that a JSON pointer leads to, or of the nearest one around it.
 *
 * `tree`: the Lezer tree of `text`, or null for none. `path`: such as `/fields/0/type` or `#/properties/a`.
 */
export function pointed(tree, text, path) {
  let node = tree?.topNode.firstChild ?? null;
  for (const segment of segmentsOf(path)) {
    const next = node && (node.name === "Array" ? itemOf(node, segment) : memberOf(node, text, segment));
    if (!next) break;
    node = next;
  }
  return node && { from: node.from, to: node.to };
}

/** Returns the range of the first syntax error in a Lezer tree, or null. */
export function brokenAt(tree) {
  let found = null;
  tree.iterate({
    enter(node) {
      if (node.type.isError) found ??= { from: node.from, to: Math.max(node.to, node.from) };
      return found === null;
    },
  });
  return found;
}

/** Returns the range of a part of a schema that is printed with other white space, or null. */
export function partIn(text, part) {
  const tokens = part?.match(/[\w.]+|"(?:[^"\\]|\\.)*"|\S/g);
  if (!tokens || part.length > 2_000) return null;
  return rangeOf(new RegExp(tokens.map(escaped).join("\\s*")).exec(text));
}

/** Returns the range where an element with a dotted path, as lint rules name it, is likely defined, or null. */
export function elementIn(text, path) {
  const name = path.slice(path.lastIndexOf(".") + 1);
  if (!name || name === "#") return null;
  const quoted = escaped(JSON.stringify(name));
  const wanted = [`"name"\\s*:\\s*${quoted}`, `${quoted}\\s*:`, quoted, `\\b${escaped(name)}\\b`];
  for (const each of wanted) {
    const found = new RegExp(each).exec(text);
    if (found) return rangeOf(found);
  }
  return null;
}

/** Returns the range of the last word of a message that the text holds in quotes, as of an undefined name, or null. */
export function wordIn(text, message) {
  const words = message.match(/[\w.$-]+/g) ?? [];
  for (const word of words.slice(-12).reverse()) {
    const at = text.indexOf(JSON.stringify(word));
    if (at >= 0) return { from: at, to: at + word.length + 2 };
  }
  return null;
}

function segmentsOf(path) {
  const parts = path.replace(/^#/, "").split("/").slice(1, SEGMENTS_MAX);
  return parts.map((each) => each.replaceAll("~1", "/").replaceAll("~0", "~"));
}

function itemOf(array, segment) {
  return valuesOf(array)[Number(segment)];
}

function memberOf(object, text, segment) {
  if (object.name !== "Object") return undefined;
  for (let member = object.firstChild; member; member = member.nextSibling) {
    const name = member.name === "Property" && member.firstChild;
    if (name && unquoted(text.slice(name.from, name.to)) === segment) return valuesOf(member).at(-1);
  }
  return undefined;
}

const VALUES = new Set(["Object", "Array", "String", "Number", "True", "False", "Null"]);

function valuesOf(node) {
  const found = [];
  for (let each = node.firstChild; each; each = each.nextSibling) if (VALUES.has(each.name)) found.push(each);
  return found;
}

function unquoted(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function escaped(text) {
  return text.replace(/[.*+?^${}()|[\]\\/-]/g, "\\$&");
}

function rangeOf(match) {
  return match && { from: match.index, to: match.index + match[0].length };
}
