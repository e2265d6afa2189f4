// The consequences of a deletion, found out by reading only, as `registrar delete --dry-run` does.
import { get, path } from "../api.js";
import { contextOf, scopeOf } from "./scopes.js";
import { versionOf } from "./reading.js";

/** Versions whose consequences are looked up one by one; of others, only the number is shown. */
export const EXAMINED_MAX = 50;
const REFERRERS_MAX = 20;

/**
 * Returns what deleting versions of a subject would do: `{ doomed, unexamined }`, each of `doomed` with `number`, `id`,
 * `referrers` (ids of schemas that refer to it, which forbids it) and `vanishes` (true if its id is then unknown).
 */
export async function consequencesOf(subject, numbers, { permanent, whole }, signal) {
  const examined = numbers.slice(0, EXAMINED_MAX);
  const doomed = [];
  for (const number of examined) doomed.push(await doomedVersion(subject, number, numbers, permanent, signal));
  if (whole) {
    // References from within the subject go with it.
    const own = new Set(doomed.map(({ id }) => id));
    for (const each of doomed) each.referrers = each.referrers.filter((id) => !own.has(id));
  }
  return { doomed, unexamined: numbers.length - examined.length };
}

async function doomedVersion(subject, number, numbers, permanent, signal) {
  const where = path`/subjects/${subject}/versions/${number}`;
  const { id } = await versionOf(subject, number, signal);
  const query = { deleted: permanent, limit: REFERRERS_MAX };
  const referrers = await get(`${where}/referencedby`, { query, signal });
  const vanishes = permanent && !(await isHeldElsewhere(subject, id, numbers, signal));
  return { number, id, referrers, vanishes };
}

async function isHeldElsewhere(subject, id, numbers, signal) {
  const query = { subject: scopeOf(contextOf(subject)), deleted: true, limit: numbers.length + 1 };
  const holders = await get(path`/schemas/ids/${id}/versions`, { query, signal });
  return holders.some((each) => each.subject !== subject || !numbers.includes(each.version));
}
