// What to show of a field that differs between two schemas.

const MEMBERS = [["type", ""], ["default", "default"], ["required", "required"], ["tags", "tags"], ["doc", "about"]];

/**
 * Returns what differs, `{ old, new }`, each a list of `{ what, text }`: of a field that only one side has, everything;
 * what: empty for the type.
 */
export function sidesOf({ old, new: fresh }) {
  const differing = MEMBERS.filter(([name]) => !old || !fresh || textOf(old, name) !== textOf(fresh, name));
  const side = (each, other) => differing
    .map(([name, what]) => ({ what, text: textOf(each, name) }))
    .filter(({ text }, at) => text !== "" || (each && other && textOf(other, differing[at][0]) !== ""))
    .map(({ what, text }) => ({ what, text: text || "none" }));
  return { old: old ? side(old, fresh) : [], new: fresh ? side(fresh, old) : [] };
}

function textOf(field, name) {
  const value = field[name];
  if (name === "required") return value ? "yes" : "";
  return Array.isArray(value) ? value.join(", ") : value ?? "";
}
