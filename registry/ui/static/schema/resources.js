// What the pages about subjects show, and which events of the feed change it.
import { get, getWithTag, growing, path, request } from "../api.js";
import { resource } from "../live/store.js";
import { levelOf } from "./changes.js";
import { eventsOf } from "./history-events.js";
import { graphOf, timelineOf, versionsOf, withFields } from "./reading.js";
import { EVERYWHERE, contextOf, qualified, scopeOf } from "./scopes.js";

const CONTEXTS_MAX = 1000;
const ASSOCIATIONS_MAX = 200;

/** The scope that an event is about, as /scopes names it. */
export function ownerOf({ subject, context }) {
  return subject ?? (context === "." ? "" : scopeOf(context));
}

const isAbout = (event, [subject], value) =>
  event.subject === subject || (event.subject !== undefined && event.subject === value?.subject);
// A version that is gone is missing in the list of versions, and cannot be read. With an alias, which is of the config,
// another subject answers.
const isOfVersion = (event, [subject, number], value) => isAbout(event, [subject], value)
  && event.kind !== "version_deleted" && (/^(subject|config)_/.test(event.kind) || event.version === number);
const changesVersions = ({ kind }) => kind.startsWith("version_") || kind.startsWith("subject_");

/** The versions of a subject, see `versionsOf`. */
export const VERSIONS = resource("versions", (signal, subject) => versionsOf(subject, signal), isAbout);

/** A version as the API shows it, see `withFields`. */
export const VERSION =
  resource("version", (signal, subject, number) => withFields(subject, number, signal), isOfVersion);

/** Versions of a subject with what each changed, see `timelineOf`; the level in effect decides what is breaking. */
export const TIMELINE = resource("timeline", timelineOf,
  (event, [subject], value) => isAbout(event, [subject], value) || (/^config_/.test(event.kind)
    && ["", EVERYWHERE, scopeOf(contextOf(value?.subject ?? subject))].includes(ownerOf(event))));

const OTHERS_PAUSE_MS = 10_000; // any new version of another subject may refer to this one

/**
 * A subject in short, as `/summary` says it. What clients ask for is no event: it is read once, and again with the
 * rest.
 */
export const SUMMARY = resource("summary", summaryOf, isAbout, {
  concerns: changesVersions,
  read: async (signal, value, subject) => ({ ...value, ...(await get(path`/subjects/${subject}/summary`,
    { query: { include: "referrers", limit: NAMED_MAX }, signal })) }),
  pauseMs: OTHERS_PAUSE_MS,
});
const NAMED_MAX = 3; // in each part

function summaryOf(signal, subject) {
  const query = { include: "lastChange,usage,referrers,askers", limit: NAMED_MAX };
  return growing("GET", path`/subjects/${subject}/summary`, { query, signal });
}

/** The tags in a version's schema. */
export const TAGS = resource("tags", (signal, subject, number) =>
  get(path`/subjects/${subject}/versions/${number}`, { query: { deleted: true, findTags: "*" }, signal }), isOfVersion);

/** The associations of a subject. */
export const ASSOCIATIONS = resource("associations", (signal, subject) =>
  get(path`/associations/subjects/${subject}`, { query: { limit: ASSOCIATIONS_MAX }, signal }), isAbout);

/** The newest events of a subject or scope, see `eventsOf`. */
export const HISTORY = resource("history", (signal, subject, limit) => eventsOf(subject, limit, signal),
  (event, [subject]) => ownerOf(event) === (subject === ":.:" ? "" : subject));

/** The versions around one, with their references: any new version may refer to one of them. */
export const GRAPH = resource("graph", (signal, subject, number, limit) => graphOf(subject, number, limit, signal),
  (event, args, value) => event.kind === "version_registered"
    || (changesVersions(event) && (value?.nodes ?? []).some(({ subject }) => subject === event.subject)));

/** The contexts. */
export const CONTEXTS = resource("contexts", (signal) => get("/contexts", { query: { limit: CONTEXTS_MAX }, signal }),
  ({ kind, context }, _, value) => kind.startsWith("context_") || (context !== undefined && !value?.includes(context)));

/** Config and mode in force and of each scope, `seen`: the offset before which the log is reflected. */
export const SCOPES = resource("scopes", scopesOf, concernsScopes);

/**
 * What a registration under a name meets: `{ subject, own, versions, level, mode, scopes, tag, seen, latest }`.
 * subject: the one that answers for the name, whose the rest is; own: the number of versions under the name itself;
 * tag: of the latest version, for `send`.
 */
export const TARGET = resource("target", async (signal, asked) => {
  const { own, subject, settings } = await answering(asked, signal);
  const { scopes, config, mode, versions = 0 } = settings;
  const latest = await latestIn(asked, subject, settings, signal);
  return { subject, own, versions, level: levelOf(config), mode, scopes, ...latest };
}, (event, args, value) => isAbout(event, args, value) || concernsScopes(event, args, value));

/** Returns what is known of a name, and of the subject that answers for it: another one if the name is an alias. */
async function answering(asked, signal) {
  const { answering: found, ...settings } = await scopesOf(signal, asked);
  const { versions: own = 0, scopes, seen } = settings;
  const alias = scopes[0].config?.alias;
  if (!alias) return { own, subject: asked, settings };
  const subject = qualified(alias, asked);
  return { own, subject, settings: found ? { ...found, seen } : await scopesOf(signal, subject) };
}

/** Returns what `/scopes` says of a subject or scope, with `seen`. */
export async function scopesOf(signal, subject) {
  const answer = await request("GET", "/scopes", { query: { subject }, signal });
  return { ...(await answer.json()), seen: Number(answer.headers.get("x-registry-offset")) };
}

function concernsScopes(event, [subject], value) {
  if (!/^(config|mode)_/.test(event.kind)) return false;
  const owner = ownerOf(event);
  return owner === "" || owner === subject || (value?.scopes ?? []).some(({ scope }) => scope === owner);
}

/** Returns the latest version of the subject that answers for a name: `{ latest, tag, seen }`; latest: null if none. */
export async function latestOf(asked, signal) {
  const { subject, settings } = await answering(asked, signal);
  return latestIn(asked, subject, settings, signal);
}

async function latestIn(asked, subject, { versions, seen }, signal) {
  // Asked only if it exists: an unqualified name is also looked up in other contexts.
  if (!versions) return { latest: null, tag: null, seen };
  const { value, tag, seen: seenThen } = await getWithTag(path`/subjects/${asked}/versions/latest`, { signal });
  const own = value !== null && contextOf(value.subject) === contextOf(subject);
  return { latest: own ? value : null, tag: own ? tag : null, seen: seenThen };
}

/** Returns { value, tag, seen } of the config or mode that a scope stores; what: "config" or "mode". */
export async function settingOf(subject, what, signal) {
  const { scopes, seen } = await scopesOf(signal, subject);
  const value = scopes[0][what] ?? null;
  return { value: what === "mode" && value !== null ? { mode: value } : value, tag: scopes[0].etags?.[what], seen };
}

/**
 * Returns the config or mode, as `{ mode }`, that a scope would inherit without its own: the first wider scope with one
 * decides. Empty if the user may not see that.
 */
export function inheritedBy({ scopes, defaultLevel }, what) {
  const deciding = scopes.slice(1).find((each) => each.hidden || (each[what] ?? null) !== null);
  if (deciding?.hidden) return {};
  const found = deciding?.[what];
  if (what === "mode") return { mode: found ?? "READWRITE" };
  return { ...found, compatibilityLevel: found?.compatibilityLevel ?? defaultLevel };
}

/** True if a scope holds a subject that is not deleted: then it cannot be set to IMPORT. */
export const FILLED = resource("filled", async (signal, scope) => {
  const subjectPrefix = scope === "" ? ":*:" : scope;
  const [first] = await get("/subjects", { query: { subjectPrefix, limit: 1 }, signal });
  return first !== undefined && (scope === "" || scope.endsWith(":") || first === scope);
}, changesVersions);
