// The requests of the schema page. Each asks for a bounded amount.
import { get, memberOf, path, send } from "../api.js";
import { reasonOf } from "../editor/reason.js";
import { formatOf } from "../formats.js";
import { getAt } from "./moment.js";
import { prettySlowly } from "./pretty.js";
import { qualified } from "./scopes.js";

/**
 * Returns the newest versions of a subject, the newest first, soft-deleted ones included:
 * `{ subject, versions: [{ number, deleted }], older, details }`, with the number of those that are left out, and what
 * the list of subjects says about it: its counts, level and mode. subject: the one that answers for the name; if that
 * is an alias and its target does not exist, there are no versions.
 */
export async function versionsOf(asked, signal) {
  const query = { include: "details,numbers" };
  try {
    return listedIn(await get(path`/subjects/${asked}/summary`, { query, signal }));
  } catch (error) {
    const alias = error.code === NO_SUBJECT && await aliasOf(asked, signal);
    if (!alias) throw error;
    return { subject: qualified(alias, asked), versions: [], older: 0, details: null };
  }
}

/** Returns an answer of `/summary` with `versions` and `older`. */
function listedIn(found) {
  const { numbers, details: { versions, deletedVersions } } = found;
  const older = Math.max(0, versions + deletedVersions - numbers.length);
  return { ...found, versions: numberedFrom(numbers.reverse()), older };
}

/**
 * Returns what a subject was at an offset: as `versionsOf`, its `config` and `details.mode` in force, the `changes`
 * around the moment, and `entity`: the version that is wanted, by default the latest one; undefined if there is none.
 */
export async function subjectAt(asked, at, wanted, signal) {
  const query = { include: "details,numbers,config,entity,changes", version: wanted };
  const found = listedIn(await getAt(at, path`/subjects/${asked}/summary`, query, signal));
  return { ...found, entity: partOf(found.entity).value };
}

/** Returns what a subject is now: `{ latest, config, mode }`; latest: null if it has no version that is not deleted. */
export async function subjectNow(subject, signal) {
  try {
    const query = { include: "details,config,entity" };
    const { details, config, entity } = await get(path`/subjects/${subject}/summary`, { query, signal });
    return { latest: details.versions ? memberOf(entity) : null, config, mode: details.mode };
  } catch (error) {
    if (error.code !== NO_SUBJECT) throw error;
    const { config, mode } = await get("/scopes", { query: { subject }, signal });
    return { latest: null, config, mode };
  }
}

/** Returns `[{ number, deleted }]` from numbers, negative ones for soft-deleted versions. */
function numberedFrom(numbers) {
  return numbers.map((each) => ({ number: Math.abs(each), deleted: each < 0 }));
}

const NO_SUBJECT = 40401;

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

/**
 * Returns a version compared with another one: `{ old, new, explanation, differences, versions }`, the first two as the
 * API shows versions; `versions`: of another subject, its newest ones. other: `{ against, againstSubject, reverse }`,
 * see the API; at: see `getAt`.
 */
export async function comparedVersions(subject, number, other, signal, at) {
  const query = { deleted: true, ...other };
  const found = await getAt(at, path`/subjects/${subject}/versions/${number}/comparison`, query, signal);
  return { ...comparisonOf(found), old: found.old, new: found.new, versions: numberedFrom(found.versions ?? []) };
}

/** Returns two schemas compared, `{ explanation, differences }`; they may be of different contexts. */
export async function comparedTexts(old, fresh, signal) {
  const side = ({ subject, schema, schemaType, references = [] }) => ({ schema, schemaType,
    references: references.map((each) => ({ ...each, subject: qualified(each.subject, subject) })) });
  const body = { old: side(old), new: side(fresh) };
  return comparisonOf(await send("POST", "/schemas/comparison", { body, signal }));
}

/** Returns each part as `{ value }` or `{ error }`; differences without a value cannot be found. */
function comparisonOf({ explanation, differences }) {
  return { explanation: partOf(explanation), differences: partOf(differences) };
}

function partOf(found) {
  try {
    return { value: memberOf(found) };
  } catch (error) {
    return { error };
  }
}

/** Returns at most `limit` versions around one, with the references between them. at: see `getAt`. */
export function graphOf(subject, number, limit, signal, at) {
  return getAt(at, path`/subjects/${subject}/versions/${number}/graph`, { limit }, signal);
}

/** Returns the members of a version that a registration sends. */
export function bodyOf({ schema, schemaType, references, metadata, ruleSet }) {
  return { schema, schemaType, references, metadata, ruleSet };
}
