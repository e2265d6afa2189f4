// The consequences of a deletion, found out by reading only, as `registrar delete --dry-run` does.
import { get, memberOf, path } from "../api.js";
import { contextOf, scopeOf } from "./scopes.js";
import { graphOf, versionOf } from "./reading.js";

/** Versions whose consequences are looked up one by one; of others, only who refers to them. */
export const EXAMINED_MAX = 50;
const NODES_MAX = 1000; // the versions around one in which referrers are looked for
const REFERRERS_MAX = 100; // of all others together

/**
 * Returns what deleting versions of a subject would do: `{ doomed, others, unexamined }`, each of `doomed` with
 * `number`, `id`, `referrers` (versions that refer to it, which forbids it), `more` (true if there may be others) and
 * `vanishes` (true if its id is then unknown). Of the other versions, whose number is `unexamined`, `others` has those
 * with referrers, each with `number`, `referrers` and `more`.
 */
export async function consequencesOf(subject, numbers, { permanent, whole }, signal) {
  const examined = numbers.slice(0, EXAMINED_MAX);
  const doomed = [];
  for (const number of examined) doomed.push(await doomedVersion(subject, number, numbers, permanent, signal));
  const others = await referredOthers(subject, numbers.slice(EXAMINED_MAX), permanent, signal);
  if (whole) {
    // References from within the subject go with it.
    for (const each of [...doomed, ...others]) {
      each.referrers = each.referrers.filter((other) => other.subject !== subject);
    }
  }
  return { doomed, others, unexamined: numbers.length - examined.length };
}

async function referredOthers(subject, numbers, permanent, signal) {
  if (numbers.length === 0) return [];
  const query = { include: "referrers", limit: REFERRERS_MAX };
  const { referrers, referrerCount, complete } =
    memberOf((await get(path`/subjects/${subject}/summary`, { query, signal })).referrers);
  const meant = referrers.filter(({ to, deleted }) => numbers.includes(to) && (permanent || !deleted));
  const more = !complete || referrerCount > referrers.length;
  return [...new Set(meant.map(({ to }) => to))].map((number) =>
    ({ number, referrers: meant.filter(({ to }) => to === number), more }));
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
