// What has changed since the user was here: when that was, and the events since then in few words.

const PREFIX = "registrar.home.";
const VISIT_MS = 30 * 60_000; // after this time without a look, the next one is another visit
const SUBJECTS_MAX = 10;

/**
 * Returns the visit that follows from the one stored: { since, last }. Both are { offset, time }: how far the user had
 * seen the log at the end of the visit before (null: there was none), and has seen it now.
 */
export function visitAt(stored, offset, now) {
  const last = { offset, time: now };
  // An offset beyond the log's end is of another log.
  if (!stored?.last || stored.last.offset > offset) return { since: null, last };
  return { since: now - stored.last.time > VISIT_MS ? stored.last : stored.since, last };
}

/** Returns the visit that a browser remembers of a user, or null. */
export function storedVisit(storage, principal) {
  try {
    const found = JSON.parse(storage.getItem(PREFIX + (principal ?? "")));
    return Number.isSafeInteger(found?.last?.offset) ? found : null;
  } catch {
    return null; // of another version of this page, or without storage
  }
}

/** Remember a visit; does nothing if the browser keeps nothing. */
export function storeVisit(storage, principal, visit) {
  try {
    storage.setItem(PREFIX + (principal ?? ""), JSON.stringify(visit));
  } catch {
    // Then everything is new next time.
  }
}

/**
 * Returns events in few words: { total, kinds: [[kind, count]], more, subjects: [{ subject, kinds, time,
 * principals }] }; the most frequent kinds and the subjects that changed last come first. more: the number of subjects
 * that are left out.
 */
export function summaryOf(events) {
  const kinds = new Map();
  const subjects = new Map();
  for (const { kind, subject, time, principal } of events) {
    kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
    if (subject === undefined) continue;
    const known = subjects.get(subject) ?? { subject, kinds: new Map(), time, principals: new Set() };
    known.kinds.set(kind, (known.kinds.get(kind) ?? 0) + 1);
    known.time = Math.max(known.time, time);
    if (principal !== undefined) known.principals.add(principal);
    subjects.set(subject, known);
  }
  const rows = [...subjects.values()].sort((one, other) => other.time - one.time);
  return {
    total: events.length,
    kinds: [...kinds].sort((one, other) => other[1] - one[1]),
    subjects: rows.slice(0, SUBJECTS_MAX)
      .map((each) => ({ ...each, kinds: [...each.kinds], principals: [...each.principals] })),
    more: Math.max(0, rows.length - SUBJECTS_MAX),
  };
}
