// Which unused versions may be deleted, and why: the same plan as `registrar unused --delete`.
import { KEEP, PERMANENT, SOFT } from "../bulk/steps.js";

const DAY_MS = 86_400_000;

/**
 * Returns the steps for one subject of GET /usage/subjects?unused=true, the newest version first: it may refer to
 * others. options: { olderThanDays, permanentAfterDays (null: never), now }.
 */
export function stepsFor(subject, census, options) {
  return [...subject.unused].reverse().map((found) => step(subject, found, census, options)).filter(Boolean);
}

function step(subject, found, census, options) {
  const { version, id, deleted, ts } = found;
  const made = (action, reason) => ({ subject: subject.subject, version, id, action, reason });
  if (deleted) return made(...finalAction(census, found, options));
  if (options.now - ts < options.olderThanDays * DAY_MS) return null;
  if (version === subject.latest && subject.used + subject.unknown > 0) {
    return made(KEEP, "the latest version of a subject in use");
  }
  return made(SOFT, `unused, registered ${day(ts)}`);
}

function finalAction(census, { deletedAt }, { permanentAfterDays, now }) {
  if (deletedAt === null || deletedAt === undefined || deletedAt >= census.started) {
    return [KEEP, "soft-deleted after the census began"];
  }
  if (permanentAfterDays === null || now - deletedAt < permanentAfterDays * DAY_MS) {
    return [KEEP, `soft-deleted ${day(deletedAt)}`];
  }
  return [PERMANENT, `unused, soft-deleted ${day(deletedAt)}`];
}

function day(ms) {
  return new Date(ms).toISOString().slice(0, 10);
}
