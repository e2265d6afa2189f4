// Checks a draft: if it is a schema, which lint rules it breaks, at which levels it could follow a subject's versions,
// and which tables could.
import { path, send } from "../api.js";
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
 * Checks a draft step by step, and calls `onProgress(result)` after each.
 *
 * draft: `{ subject, schema, schemaType, references }`; an empty subject: no levels. target: what TARGET holds.
 * The result has `lint` (valid, message, findings) and `levels`: by level, `{ compatible, changes, messages }`, and
 * `compared`: which versions, in words, if the level is for those in use. With a subject it also gets `tables`: the
 * same by target.
 */
export async function check(draft, target, onProgress, signal) {
  const { subject, schema, schemaType, references } = draft;
  const body = { schema, schemaType, references };
  const broken = brokenTextIn(schema);
  const lint = broken === null
    ? await send("POST", "/schemas/lint", { query: { subject }, body, signal })
    : { valid: false, message: broken, findings: [] };
  const result = { lint, levels: {} };
  onProgress(result);
  if (!lint.valid || !target) return result;
  result.levels.NONE = { compatible: true, changes: [] };
  for (const level of target.versions ? inOrder(target) : []) {
    // With one version, all versions are the latest one.
    const same = target.versions === 1 && result.levels[level.replace("_TRANSITIVE", "")];
    result.levels[level] = same || (await checkedAt(level, subject, body, signal));
    result.levels = { ...result.levels, ...fullOf(result.levels) };
    onProgress({ ...result });
  }
  result.tables = await tablesOf(subject, target.level, body, signal);
  return result;
}

/** Returns the verdict at each level that is known, in the order of LEVELS; one for versions in use if in force. */
export function verdicts(levels, inForce) {
  return [...Object.keys(LEVELS), ...USED_LEVELS.filter((each) => each === inForce)]
    .map((level) => ({ level, compatible: levels[level]?.compatible, note: levels[level] ? "" : "checking…" }));
}

/** Returns the verdict of each target, as `verdicts` does for levels. */
export function tableVerdicts(tables) {
  const note = tables ? "not shown" : "checking…";
  return TARGETS.map((level) => ({ level, compatible: tables?.[level].compatible, note }));
}

/** Asks for all targets at once; each finding names its target, one about all tables none. */
async function tablesOf(subject, level, body, signal) {
  const { changes, messages } = await checkedAt(level, subject, body, signal, TARGETS.join());
  const unreadable = changes.filter(({ type }) => type === "NO_LOGICAL_TYPE");
  const passes = messages.some((each) => each.startsWith(HIDDEN)) ? undefined : true;
  return Object.fromEntries(TARGETS.map((name) => {
    const found = [...unreadable, ...changes.filter(({ engine }) => engine === name)];
    return [name, { compatible: found.length ? false : passes, changes: found }];
  }));
}

async function checkedAt(level, subject, body, signal, target) {
  // Only the level in force falls back to all versions if no census can decide.
  const query = { verbose: true, level: USED_LEVELS.includes(level) ? undefined : level, target };
  const found = await send("POST", path`/compatibility/subjects/${subject}/versions`, { query, body, signal });
  const { is_compatible: compatible, changes, messages, compared } = found;
  return { compatible, changes, messages, compared };
}

/** Returns the halves of the level in force first, so that its verdict comes first. */
function inOrder({ level }) {
  if (USED_LEVELS.includes(level)) return [level, ...ASKED];
  const transitive = level.endsWith("_TRANSITIVE") ? "_TRANSITIVE" : "";
  const wanted = LEVELS[level].map((half) => half + transitive);
  return [...wanted, ...ASKED.filter((each) => !wanted.includes(each))];
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
