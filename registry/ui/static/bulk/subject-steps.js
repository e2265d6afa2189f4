// What would become of each subject of a list, by its row in GET /subjects?detail=true. Nothing here knows the page.
import { plain } from "../names.js";
import { KEEP, RESTORE, SOFT } from "./steps.js";

/** Returns the step for a subject, or null if it is none of this plan's business. what: SOFT, PERMANENT or RESTORE. */
export function stepFor(row, what) {
  const { subject, version, id, versions, deletedVersions, mode, alias } = row;
  const made = (action, reason) =>
    ({ subject, version: what === RESTORE ? version : null, newest: version, id, action, reason });
  if (what === SOFT ? versions === 0 : versions > 0 || deletedVersions === 0) return null;
  if (alias) return made(KEEP, `an alias of ${plain(alias)}`);
  if (mode.startsWith("READONLY")) return made(KEEP, `the mode is ${mode}`);
  if (what === RESTORE) {
    return mode === "IMPORT" ? made(KEEP, "the mode is IMPORT") : made(RESTORE, "its newest soft-deleted version");
  }
  const number = what === SOFT ? versions : deletedVersions;
  return made(what, `${number} ${number === 1 ? "version" : "versions"}${what === SOFT ? "" : ", soft-deleted"}`);
}
