// The requests of a step. Each says what the plan was made upon, so that nothing else is changed.
import { ApiError, getWithTag, path, send, submit, warningOf } from "../api.js";
import { bodyOf } from "../schema/reading.js";
import { PERMANENT, RESTORE } from "./steps.js";

const CHANGED = 412;

/**
 * Carry out a step of { subject, version, id, action }, and promise the registry's warning, or null. version: null for
 * the whole subject, which then has id as its latest version's, or its newest soft-deleted one's.
 */
export async function perform({ subject, version, newest, id, action }) {
  const permanent = action === PERMANENT || undefined;
  const number = version ?? newest;
  const { value, tag } =
    await getWithTag(path`/subjects/${subject}/versions/${number}`, { query: { deleted: true } });
  if (value === null || value.id !== id) {
    throw new ApiError("refused", "It is not what it was when the plan was made.", { status: CHANGED });
  }
  if (action === RESTORE) {
    const { version: restored } =
      await send("POST", path`/subjects/${subject}/versions`, { body: bodyOf(value), tag: null });
    return `as version ${restored}`;
  }
  const where = version === null ? path`/subjects/${subject}` : path`/subjects/${subject}/versions/${version}`;
  const answer = await submit("DELETE", where, { query: { permanent }, tag });
  return warningOf(answer);
}
