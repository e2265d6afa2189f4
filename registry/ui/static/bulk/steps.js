// Steps of a plan that changes many versions or subjects, and carrying them out one after another.
import { plain } from "../names.js";

/** What a step does. */
export const [KEEP, SOFT, PERMANENT, RESTORE, REGISTER] =
  ["keep", "delete", "delete permanently", "restore", "register"];

const TRIES = 4; // of a request that may succeed later
const PAUSE_S = 2;

/**
 * Carry out steps in their order: those that do something and are not left out.
 *
 * perform(step) promises a note, or null. report(index, result) is called with { state: "running", "done", "refused" or
 * "failed", note } as it goes. cancelled() is asked before each step: what has begun is finished. pause(seconds)
 * promises to wait. Returns { ended: "done", "cancelled" or "failed", error }.
 */
export async function carryOut(steps, perform, { report, cancelled, pause, isLeftOut = undefined }) {
  for (const [index, step] of steps.entries()) {
    if (step.action === KEEP || isLeftOut?.(index)) continue;
    if (cancelled()) return { ended: "cancelled" };
    report(index, { state: "running" });
    try {
      report(index, { state: "done", note: await patiently(() => perform(step), { cancelled, pause }) });
    } catch (error) {
      if (!isVerdict(error)) {
        report(index, { state: "failed", note: error.message });
        return { ended: "failed", error };
      }
      report(index, { state: "refused", note: error.message });
    }
  }
  return { ended: "done" };
}

async function patiently(perform, { cancelled, pause }) {
  for (let tries = 1; ; tries += 1) {
    try {
      return await perform();
    } catch (error) {
      if (!error.temporary || tries === TRIES || cancelled()) throw error;
      await pause(error.retryAfter ?? PAUSE_S);
    }
  }
}

/** True if the registry has decided about this step: then the next ones can still be done. */
export function isVerdict({ kind, status, temporary }) {
  return kind !== "foreign" && status >= 400 && status < 500 && status !== 401 && !temporary;
}

/** Returns the numbers of steps by what they do: { delete: 3, keep: 1 }. */
export function tally(steps, isLeftOut = undefined) {
  const found = {};
  for (const [index, { action }] of steps.entries()) {
    const what = isLeftOut?.(index) ? KEEP : action;
    found[what] = (found[what] ?? 0) + 1;
  }
  return found;
}

/**
 * Returns the steps in an order in which each subject comes after those that refer to it. A step has `referrers`:
 * [{ subject, version }]. If one of these stays, so does what it refers to, with that as its reason.
 */
export function inOrder(steps) {
  const bySubject = new Map(steps.map((step) => [step.subject, step]));
  const done = new Map();
  const visit = (step, above) => {
    if (done.has(step.subject)) return done.get(step.subject);
    let result = step;
    for (const { subject, version } of step.referrers ?? []) {
      if (subject === step.subject || above.has(subject)) continue;
      const other = bySubject.get(subject);
      const stays = !other || visit(other, new Set([...above, step.subject])).action === KEEP;
      if (stays && result.action !== KEEP) {
        result = { ...result, action: KEEP, reason: `${plain(subject)} version ${version} refers to it` };
      }
    }
    done.set(step.subject, result);
    return result;
  };
  for (const step of steps) visit(step, new Set());
  return [...done.values()];
}
