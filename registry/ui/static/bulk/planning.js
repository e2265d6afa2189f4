// Makes the plan for many subjects, with who refers to them. It reads only.
import { pages } from "../api.js";
import { consequencesOf } from "../schema/deletion.js";
import { versionsOf } from "../schema/reading.js";
import { KEEP, PERMANENT, RESTORE, inOrder } from "./steps.js";
import { stepFor } from "./subject-steps.js";

const PAGE = 500;
/** Subjects of one plan. */
export const SUBJECTS_MAX = 500;

/**
 * Returns { steps, cut } for the subjects with a prefix; cut: true if there are more. what: see `stepFor`; report(text)
 * says how far it is.
 */
export async function planFor({ prefix, what }, { signal, report }) {
  const found = [];
  const query = { detail: true, deleted: true, subjectPrefix: prefix };
  for await (const page of pages("/subjects", { query, limit: PAGE, signal })) {
    found.push(...page.map((row) => stepFor(row, what)).filter(Boolean));
    report(`${found.length} subjects found`);
    if (found.length > SUBJECTS_MAX) break;
  }
  const cut = found.length > SUBJECTS_MAX;
  const steps = found.slice(0, SUBJECTS_MAX);
  // What is referred to has been registered before what refers to it.
  if (what === RESTORE) return { steps: steps.sort((one, other) => one.id - other.id), cut };
  for (const [index, step] of steps.entries()) {
    report(`${index} of ${steps.length} subjects examined`);
    if (step.action !== KEEP) step.referrers = await referrersOf(step.subject, what === PERMANENT, signal);
  }
  return { steps: inOrder(steps), cut };
}

async function referrersOf(subject, permanent, signal) {
  const { versions } = await versionsOf(subject, signal);
  const numbers = versions.filter(({ deleted }) => permanent || !deleted).map(({ number }) => number);
  const { doomed } = await consequencesOf(subject, numbers, { permanent, whole: true }, signal);
  return doomed.flatMap(({ referrers }) => referrers);
}
