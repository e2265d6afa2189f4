// The requests of the schema page. Each asks for a bounded amount.
import { get, path, send } from "../api.js";
import { reasonOf } from "../editor/reason.js";
import { formatOf } from "../formats.js";
import { getAt } from "./moment.js";
import { prettySlowly } from "./pretty.js";
import { qualified } from "./scopes.js";
import { numbersOf } from "./timeline-pages.js";

const VERSIONS_PAGE = 5000;
const VERSIONS_MAX = 10_000;

/** Returns what the list of subjects says about one: its counts, level and mode; null for a name that is none. */
export async function subjectOf(subject, signal) {
  const query = { detail: true, deleted: true, subjectPrefix: subject, limit: 1 };
  const [first] = await get("/subjects", { query, signal });
  return first?.subject === subject ? first : null;
}

/**
 * Returns the newest versions of a subject, the newest first, soft-deleted ones included:
 * `{ subject, versions: [{ number, deleted }], older, details }`, with the number of those that are left out. subject:
 * the one that answers for the name; if that is an alias and its target does not exist, there are no versions. exact:
 * nothing is asked further about a name that is no subject's.
 */
export async function versionsOf(asked, signal, exact = false) {
  const own = await subjectOf(asked, signal);
  if (exact && !own) return { subject: asked, versions: [], older: 0, details: own };
  const alias = own ? own.alias : await aliasOf(asked, signal);
  const subject = alias ? qualified(alias, asked) : asked;
  const details = alias ? await subjectOf(subject, signal) : own;
  if (alias && !details) return { subject, versions: [], older: 0, details };
  const older = details ? Math.max(0, details.versions + details.deletedVersions - VERSIONS_MAX) : 0;
  const numbers = numbersOf(details) ?? [];
  for (let full = !numbers.length; full && numbers.length < VERSIONS_MAX; ) {
    const query = { deleted: true, deletedAsNegative: true, offset: older + numbers.length, limit: VERSIONS_PAGE };
    const page = await get(path`/subjects/${asked}/versions`, { query, signal }); // aliases lead one step only
    numbers.push(...page);
    full = page.length === VERSIONS_PAGE;
  }
  numbers.splice(0, numbers.length - VERSIONS_MAX);
  const versions = numbers.map((each) => ({ number: Math.abs(each), deleted: each < 0 }));
  versions.sort((one, other) => other.number - one.number);
  return { subject, versions, older, details };
}

async function aliasOf(name, signal) {
  const { scopes: [{ config }] } = await get("/scopes", { query: { subject: name }, signal });
  return config?.alias;
}

/** Returns a version, soft-deleted or not, as the API does. `format`: such as `resolved`; `at`: see `getAt`. */
export function versionOf(subject, number, signal, format, at) {
  return getAt(at, path`/subjects/${subject}/versions/${number}`, { deleted: true, format }, signal);
}

const TIMELINE_PAGES_MAX = 10; // requests for one page; each answer has as much as the registry sends at once

/**
 * Returns entries of the timeline, the newest first, and the level in effect: `{ subject, level, versions }`; subject:
 * the one that answers for the name. below: 0 or a number above them; deleted: soft-deleted ones, too; at: see `getAt`.
 */
export async function timelineOf(signal, subject, below, limit, deleted, at) {
  const versions = [];
  let [answers, level] = [subject, undefined];
  let next = below;
  for (let asked = 0; next !== null && versions.length < limit && asked < TIMELINE_PAGES_MAX; asked += 1) {
    const query = { deleted, below: next || undefined, limit: limit - versions.length };
    const page = await getAt(at, path`/subjects/${subject}/timeline`, query, signal);
    versions.push(...page.versions);
    ({ subject: answers, compatibilityLevel: level, next } = page);
  }
  return { subject: answers, level, versions };
}

export const FIELDS_PAGE = 1000;
const UNPROCESSABLE = 422;

/**
 * Returns a version, soft-deleted or not, as the API does, with `listed`: the first page of its fields; null if they
 * cannot be read. at: see `getAt`.
 */
export async function withFields(subject, number, signal, at) {
  try {
    const query = { deleted: true, entity: true, limit: FIELDS_PAGE };
    const where = path`/subjects/${subject}/versions/${number}/fields`;
    const { entity, ...listed } = await getAt(at, where, query, signal);
    return { ...entity, listed };
  } catch (error) {
    if (error.status !== UNPROCESSABLE) throw error;
    return { ...(await versionOf(subject, number, signal, undefined, at)), listed: null };
  }
}

/** Returns further fields of a version. at: see `getAt`. */
export function fieldsFrom(subject, number, offset, signal, at) {
  const query = { deleted: true, offset, limit: FIELDS_PAGE };
  return getAt(at, path`/subjects/${subject}/versions/${number}/fields`, query, signal);
}

/** Returns a schema's text, laid out in lines if it is JSON; other languages have lines already. */
export function inLines(schema, signal) {
  return formatOf(schema).language === "json" ? prettySlowly(schema.schema, signal) : schema.schema;
}

/** Returns a version's text as normalization would store it. Throws with the reason if it is not valid today. */
export async function normalizedOf(subject, version, signal) {
  const found = await send("POST", "/schemas/lint", { query: { subject }, body: bodyOf(version), signal });
  if (!found.valid) throw new Error(
    `It cannot be normalized, because it would not be accepted today: ${reasonOf(found.message)}`);
  return found.normalized;
}

/** Returns the comparison of two schemas at every level; they may be of different contexts. */
export function explained(old, fresh, signal) {
  const side = ({ subject, schema, references = [] }) =>
    ({ schema, references: references.map((each) => ({ ...each, subject: qualified(each.subject, subject) })) });
  const body = { schemaType: fresh.schemaType, old: side(old), new: side(fresh) };
  return send("POST", "/compatibility/explain", { body, signal });
}

const COMPARED_MAX = 2_000_000; // characters of both texts
const NOT_COMPARED = [404, 405, UNPROCESSABLE]; // by an older registry, or too many fields, or a text that is no schema

/** Returns the fields that differ between two schemas, as the registry does; null if they cannot be compared. */
export async function fieldDifferences(old, fresh, signal) {
  if (old.schema.length + fresh.schema.length > COMPARED_MAX) return null;
  const side = ({ schema, schemaType }) => ({ schema, schemaType });
  try {
    return await send("POST", "/schemas/differences", { body: { old: side(old), new: side(fresh) }, signal });
  } catch (error) {
    if (NOT_COMPARED.includes(error.status)) return null;
    throw error;
  }
}

/** Returns at most `limit` versions around one, with the references between them. */
export function graphOf(subject, number, limit, signal) {
  return get(path`/subjects/${subject}/versions/${number}/graph`, { query: { limit }, signal });
}

/** Returns the members of a version that a registration sends. */
export function bodyOf({ schema, schemaType, references, metadata, ruleSet }) {
  return { schema, schemaType, references, metadata, ruleSet };
}
