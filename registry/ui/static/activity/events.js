// Events of the change feed in words.
import { plain } from "../names.js";

export const KINDS = {
  version_registered: "version registered",
  version_soft_deleted: "version soft-deleted",
  version_deleted: "version deleted",
  subject_soft_deleted: "subject soft-deleted",
  subject_restored: "subject restored",
  subject_cleared: "deleted versions forgotten",
  subject_uncleared: "deleted versions remembered",
  config_set: "config set",
  config_deleted: "config removed",
  mode_set: "mode set",
  mode_deleted: "mode removed",
  context_created: "context created",
  context_deleted: "context deleted",
  association_set: "association set",
  association_deleted: "association removed",
  epoch_started: "primary elected",
  snapshot_requested: "snapshot requested",
  log_reseeded: "log written again",
  quarantined: "quarantined",
};

/** The details of an event besides its kind and subject. */
export function described(
  { kind, offset, version, id, type, level, mode, reason, resourceName, resourceType, associationType }) {
  const parts = [
    version !== undefined && `version ${version}`, id !== undefined && `id ${id}`, type, level, mode,
    resourceName !== undefined
      && `${associationType ?? "associated"}: ${resourceType ?? "resource"} ${plain(resourceName)}`,
    kind === "epoch_started" && `epoch ${offset}`, reason && plain(reason),
  ];
  return parts.filter(Boolean).join(", ");
}

/**
 * Returns a list with further events: the newest first, each offset once, no more than `most`. list: { rows, begin:
 * the offset before which nothing is listed though there may be more, or null, most }; changes: of the list.
 */
export function merged(list, events, changes = {}) {
  const { rows, begin, most } = { ...list, ...changes };
  const known = new Map([...events, ...rows].map((event) => [event.offset, event]));
  const all = [...known.values()].sort((one, other) => other.offset - one.offset);
  const shown = all.slice(0, most);
  return { rows: shown, begin: all.length > most ? shown.at(-1).offset : begin, most };
}

/** True if an event passes the filter: { prefix: of its subject, kind }; empty ones let all pass. */
export function concerns({ prefix, kind }, event) {
  if (kind && event.kind !== kind) return false;
  if (!prefix) return true;
  return event.subject !== undefined && event.subject.startsWith(prefix);
}

const UNDONE = new Set([
  "config_set", "config_deleted", "mode_set", "mode_deleted", "version_soft_deleted", "version_deleted",
  "subject_soft_deleted",
]);

/**
 * What an event replaced, by the older ones that are listed: { what, old }; old: a level or a mode, "none", or
 * undefined if no listed event says it. whole: true if no older event is left out. null for events that cannot be
 * undone.
 */
export function replacedBy(event, older, whole) {
  if (!UNDONE.has(event.kind)) return null;
  const what = event.kind.split("_")[0];
  if (what !== "config" && what !== "mode") return { what, old: "" };
  const before = older.find(({ kind }) => kind.startsWith(`${what}_`));
  if (!before) return { what, old: whole ? "none" : undefined };
  const old = before.kind.endsWith("_deleted") ? "none" : before[what === "config" ? "level" : "mode"] ?? "no level";
  return { what, old };
}
