// Checks a draft: if it is a schema, which lint rules it breaks, at which levels it could follow a subject's versions,
// and which tables could.
import { growing, memberOf, path, send } from "../api.js";
import { LEVELS, USED_LEVELS } from "../schema/changes.js";
import { brokenTextIn } from "./reason.js";

// What is asked of the registry; every other verdict follows from these.
const ASKED = ["BACKWARD", "FORWARD", "BACKWARD_TRANSITIVE", "FORWARD_TRANSITIVE"];
/** The engines and table formats whose tables may have to follow a schema. */
export const TARGETS = [
  "spark", "delta", "iceberg-v2", "iceberg-v3", "flink", "bigquery", "clickhouse", "duckdb", "parquet",
];
const HIDDEN = "{hidden"; // begins a message in place of those about schemas that the user may not read

/**
 * Checks a draft by one request, and calls `onProgress(result)` with what is known of the answer.
 *
 * draft: `{ subject, schema, schemaType, references }`; an empty subject: no levels. target: what TARGET holds.
 * The result has `lint` (valid, message, findings) and `levels`: by level, `{ compatible, changes, messages }`, and
 * `compared`: which versions, in words, if the level is for those in use. With a subject it also gets `tables`: the
 * same by target. error: why some of that is missing.
 */
export async function check(draft, target, onProgress, signal) {
  const { subject, schema, schemaType, references } = draft;
  const body = { schema, schemaType, references };
  const broken = brokenTextIn(schema);
  if (broken !== null) return { lint: { valid: false, message: broken, findings: [] }, levels: {} };
  if (!target) return { lint: await send("POST", "/schemas/lint", { query: { subject }, body, signal }), levels: {} };
  const query = { level: inOrder(target), target: TARGETS.join() };
  let result = { levels: {} };
  const where = path`/compatibility/subjects/${subject}/explain`;
  for await (const found of growing("POST", where, { query, body, signal })) {
    result = resultOf(found, target);
    onProgress(result);
  }
  return result;
}

function resultOf({ lint, levels = {}, tables }, target) {
  if (!lint.valid) return { lint, levels: {} };
  const result = { lint, levels: { NONE: { compatible: true, changes: [] } } };
  const verdictOf = (found) => {
    try {
      const { is_compatible: compatible, changes, messages, compared } = memberOf(found);
      return { compatible, changes, messages, compared };
    } catch (error) {
      result.error ??= error;
      return undefined;
    }
  };
  for (const [level, found] of Object.entries(levels)) {
    // With one version, all versions are the latest one.
    const same = target.versions === 1 && level in LEVELS ? [level, `${level}_TRANSITIVE`] : [level];
    for (const each of same) result.levels[each] = verdictOf(found);
  }
  Object.assign(result.levels, fullOf(result.levels));
  const found = tables && verdictOf(tables);
  if (found) result.tables = tablesOf(found);
  return result;
}

/**
 * Returns the verdict at each level that is known, in the order of LEVELS; one for versions in use if in force. note:
 * why others are not known.
 */
export function verdicts(levels, inForce, note = "checking…") {
  return [...Object.keys(LEVELS), ...USED_LEVELS.filter((each) => each === inForce)]
    .map((level) => ({ level, compatible: levels[level]?.compatible, note: levels[level] ? "" : note }));
}

/** Returns the verdict of each target, as `verdicts` does for levels. */
export function tableVerdicts(tables, note = "checking…") {
  return TARGETS.map((level) => ({ level, compatible: tables?.[level].compatible, note: tables ? "not shown" : note }));
}

/** Returns the verdict of each target from that of all; each finding names its target, one about all tables none. */
function tablesOf({ changes, messages }) {
  const unreadable = changes.filter(({ type }) => type === "NO_LOGICAL_TYPE");
  const passes = messages.some((each) => each.startsWith(HIDDEN)) ? undefined : true;
  return Object.fromEntries(TARGETS.map((name) => {
    const found = [...unreadable, ...changes.filter(({ engine }) => engine === name)];
    return [name, { compatible: found.length ? false : passes, changes: found }];
  }));
}

/** Returns the levels to ask for, the halves of the level in force first, so that its verdict comes first. */
function inOrder({ level, versions }) {
  const asked = versions === 1 ? ASKED.filter((each) => !each.endsWith("_TRANSITIVE")) : ASKED;
  if (USED_LEVELS.includes(level)) return [level, ...asked];
  const transitive = level.endsWith("_TRANSITIVE") && versions !== 1 ? "_TRANSITIVE" : "";
  const wanted = LEVELS[level].map((half) => half + transitive);
  return [...wanted, ...asked.filter((each) => !wanted.includes(each))];
}

/** A full level is both halves. */
function fullOf(levels) {
  const full = {};
  for (const suffix of ["", "_TRANSITIVE"]) {
    const halves = [levels[`BACKWARD${suffix}`], levels[`FORWARD${suffix}`]];
    if (!halves.every(Boolean)) continue;
    full[`FULL${suffix}`] = {
      compatible: halves.every(({ compatible }) => compatible), changes: halves.flatMap(({ changes }) => changes),
    };
  }
  return full;
}
