// Checks a draft: if it is a schema, which lint rules it breaks, and at which levels it could follow a subject's
// versions.
import { get, path, send } from "../api.js";
import { LEVELS } from "../schema/changes.js";
import { subjectOf } from "../schema/reading.js";

// What is asked of the registry; every other verdict follows from these.
const ASKED = ["BACKWARD", "FORWARD", "BACKWARD_TRANSITIVE", "FORWARD_TRANSITIVE"];

/**
 * Checks a draft step by step, and calls `onProgress(result)` after each.
 *
 * draft: `{ subject, schema, schemaType, references }`; an empty subject: no levels. target: what `targetOf` returned.
 * The result has `lint` (valid, message, findings) and `levels`: by level, `{ compatible, changes, messages }`.
 */
export async function check(draft, target, onProgress, signal) {
  const { subject, schema, schemaType, references } = draft;
  const body = { schema, schemaType, references };
  const lint = await send("POST", "/schemas/lint", { query: { subject }, body, signal });
  const result = { lint, levels: {} };
  onProgress(result);
  if (!lint.valid || !target?.versions) return result;
  result.levels.NONE = { compatible: true, changes: [] };
  for (const level of inOrder(target)) {
    // With one version, all versions are the latest one.
    const same = target.versions === 1 && result.levels[level.replace("_TRANSITIVE", "")];
    result.levels[level] = same || (await checkedAt(level, subject, body, signal));
    result.levels = { ...result.levels, ...fullOf(result.levels) };
    onProgress({ ...result });
  }
  return result;
}

/** Returns what a registration under a subject meets: `{ versions, level, mode }`; null without a subject. */
export async function targetOf(subject, signal) {
  if (!subject) return null;
  const [found, scopes] = await Promise.all([
    subjectOf(subject, signal), get("/scopes", { query: { subject }, signal }),
  ]);
  return { versions: found?.versions ?? 0, level: scopes.config.compatibilityLevel, mode: scopes.mode };
}

/** Returns the verdict at each level that is known, in the order of LEVELS. */
export function verdicts(levels) {
  return Object.keys(LEVELS)
    .map((level) => ({ level, compatible: levels[level]?.compatible, note: levels[level] ? "" : "checking…" }));
}

async function checkedAt(level, subject, body, signal) {
  const query = { verbose: true, level };
  const found = await send("POST", path`/compatibility/subjects/${subject}/versions`, { query, body, signal });
  return { compatible: found.is_compatible, changes: found.changes, messages: found.messages };
}

/** Returns the halves of the level in force first, so that its verdict comes first. */
function inOrder({ level }) {
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
