// Requests for what a subject was after the record at an offset of the log.
import { ApiError, get, path, request } from "../api.js";

const HEADER = "x-registry-at-offset";

/** GET as of an offset, or of the present without one; throws if the registry answers with the present instead. */
export async function getAt(at, where, query, signal) {
  if (!at) return get(where, { query, signal });
  const answer = await request("GET", where, { query: { ...query, atOffset: at }, signal });
  offsetOf(answer);
  return answer.json();
}

/** Returns config and mode in force for a subject or a scope, `{ config, mode }`. */
export async function settingsAt(subject, at, signal) {
  const query = { defaultToGlobal: true };
  const [config, { mode }] = await Promise.all([
    getAt(at, settingsPath("config", subject), query, signal),
    getAt(at, settingsPath("mode", subject), query, signal),
  ]);
  return { config, mode };
}

function settingsPath(what, subject) {
  return subject === "" ? `/${what}` : `/${what}${path`/${subject}`}`;
}

/** Returns the offset of the last record that is not newer than a time in ms. */
export async function offsetAt(subject, time, signal) {
  // This one answers whatever existed then.
  const query = { defaultToGlobal: true, atTime: time };
  const found = offsetOf(await request("GET", path`/config/${subject}`, { query, signal }));
  if (Number(found) < 0) throw new ApiError("refused", "The log begins later.");
  return found;
}

function offsetOf(answer) {
  const offset = answer.headers.get(HEADER);
  if (offset === null)
    throw new ApiError("refused", "It answers with the present, because it is older than this page.");
  return offset;
}
