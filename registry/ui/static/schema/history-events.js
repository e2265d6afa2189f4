// The events of a subject or a scope, as far as they are in the registry's log.
import { path, request } from "../api.js";

/** Returns the newest events of a subject, the newest first, and how far they go; null where there is no history. */
export async function eventsOf(subject, limit, signal) {
  try {
    const answer = await request("GET", path`/subjects/${subject}/history`, { query: { limit }, signal });
    return { ...(await answer.json()), more: answer.headers.has("link") };
  } catch (error) {
    if (error.kind === "refused" && NOT_OFFERED.has(error.status)) return null;
    throw error;
  }
}

// The registry is older, or keeps no history.
const NOT_OFFERED = new Set([404, 405, 501]);
