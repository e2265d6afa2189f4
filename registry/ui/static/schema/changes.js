// Presents what the registry's comparison found as one list of changes with a verdict in each direction.
//
// The registry reports each direction separately: a field that the new schema adds is FIELD_ADDED to a new reader
// and may be FIELD_REMOVED to an old one. Both concern the same parts, so they become one change here.

/** The halves of the levels, and what each asks. */
export const DIRECTIONS = {
  BACKWARD: "new reads old",
  FORWARD: "old reads new",
};

/** The levels, weakest first, with the halves that each requires. */
export const LEVELS = {
  NONE: [],
  BACKWARD: ["BACKWARD"],
  BACKWARD_TRANSITIVE: ["BACKWARD"],
  FORWARD: ["FORWARD"],
  FORWARD_TRANSITIVE: ["FORWARD"],
  FULL: ["BACKWARD", "FORWARD"],
  FULL_TRANSITIVE: ["BACKWARD", "FORWARD"],
};

/** Levels that compare with the versions in use by the newest census. */
export const USED_LEVELS = ["BACKWARD_USED", "FORWARD_USED", "FULL_USED"];

/** Returns the level of a config: one for versions in use is kept as a transitive one. */
export function levelOf({ compatibilityLevel, compatibilityUsed }) {
  return compatibilityUsed ? compatibilityLevel.replace("_TRANSITIVE", "_USED") : compatibilityLevel;
}

/**
 * Returns the changes of one comparison, harmful ones first, otherwise in the registry's order.
 *
 * Each has `kind` (added, removed, changed), `old` and `new` (text or null), `path`, `compatible`, and `findings`: what
 * each direction says about it.
 */
export function united(changes) {
  const found = new Map();
  for (const each of changes) {
    const key = keyOf(each);
    const change = found.get(key) ?? begun(each);
    found.set(key, change);
    if (change.findings.some((known) => same(known, each))) continue;
    change.findings.push(findingOf(each));
    change.compatible &&= each.compatible;
  }
  return [...found.values()].sort((one, other) => Number(one.compatible) - Number(other.compatible));
}

/** Returns the number of harmful changes. */
export function harmful(changes) {
  return changes.filter((each) => !each.compatible).length;
}

/**
 * Returns words for a type of finding: READER_FIELD_MISSING_DEFAULT_VALUE becomes "reader field missing default value".
 */
export function worded(type) {
  return type.toLowerCase().replaceAll("_", " ");
}

function keyOf({ type, path, old, new: fresh, versionCompared }) {
  const parts = old === null && fresh === null ? [type, path] : [old, fresh, placeOf(path)];
  return JSON.stringify([versionCompared ?? null, ...parts]);
}

// The two directions point into different schemas, so only the kinds of the steps agree, not the indexes of fields.
function placeOf(path) {
  return path.replace(/\/fields\/\d+$/, "/fields").replace(/\d+/g, "0");
}

function begun({ path, old, new: fresh, versionCompared }) {
  const kind = old === null && fresh !== null ? "added" : fresh === null && old !== null ? "removed" : "changed";
  return { kind, path, old, new: fresh, version: versionCompared ?? null, compatible: true, findings: [] };
}

function findingOf({ type, path, direction, compatible, fix, engine = "", reason = "" }) {
  return { type, path, direction, compatible, fix, engine, reason };
}

function same(finding, { type, path, direction, engine = "" }) {
  return finding.type === type && finding.path === path && finding.direction === direction && finding.engine === engine;
}
