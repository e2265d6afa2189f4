// The consequences of a deletion, found out by reading only, as `registrar delete --dry-run` does.
import { get, path } from "../api.js";
import { contextOf, scopeOf } from "./scopes.js";
import { graphOf, versionOf } from "./reading.js";

/** Versions whose consequences are looked up one by one; of others, only the number is shown. */
export const EXAMINED_MAX = 50;
const NODES_MAX = 1000; // the versions around one in which referrers are looked for

/**
 * Returns what deleting versions of a subject would do: `{ doomed, unexamined }`, each of `doomed` with `number`, `id`,
 * `referrers` (versions that refer to it, which forbids it), `more` (true if there may be others) and `vanishes` (true
 * if its id is then unknown).
 */
export async function consequencesOf(subject, numbers, { permanent, whole }, signal) {
  const examined = numbers.slice(0, EXAMINED_MAX);
  const doomed = [];
  for (const number of examined) doomed.push(await doomedVersion(subject, number, numbers, permanent, signal));
  if (whole) {
    // References from within the subject go with it.
    for (const each of doomed) each.referrers = each.referrers.filter((other) => other.subject !== subject);
  }
  return { doomed, unexamined: numbers.length - examined.length };
}

async function doomedVersion(subject, number, numbers, permanent, signal) {
  const where = path`/subjects/${subject}/versions/${number}`;
  const { id } = await versionOf(subject, number, signal);
  const referring = await get(`${where}/referencedby`, { query: { deleted: permanent, limit: 1 }, signal });
  const { nodes, complete } = referring.length ? await graphOf(subject, number, NODES_MAX, signal) : { nodes: [] };
  const referrers = nodes.filter(({ depth, deleted }) => depth === -1 && (permanent || !deleted));
  const vanishes = permanent && !(await isHeldElsewhere(subject, id, numbers, signal));
  return { number, id, referrers, more: complete === false, vanishes };
}

async function isHeldElsewhere(subject, id, numbers, signal) {
  const query = { subject: scopeOf(contextOf(subject)), deleted: true, limit: numbers.length + 1 };
  const holders = await get(path`/schemas/ids/${id}/versions`, { query, signal });
  return holders.some((each) => each.subject !== subject || !numbers.includes(each.version));
}
