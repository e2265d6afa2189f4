// Schemas found by an id or a guid, with the versions that use them.
import { ApiError, get, pages, path } from "../api.js";

export const CONTEXTS_MAX = 20; // contexts that are searched for an id
export const USES_MAX = 200; // versions shown of one schema
const GUID = /^[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}$/i;

/** What a user has typed: { id } or { guid }, or null if it can be neither. */
export function parsed(text) {
  const given = text.trim();
  if (/^\d{1,10}$/.test(given)) return { id: given.replace(/^0+(?=\d)/, "") };
  if (!GUID.test(given)) return null;
  const digits = given.replaceAll("-", "").toLowerCase();
  const bounds = [0, 8, 12, 16, 20, 32];
  return { guid: bounds.slice(1).map((end, at) => digits.slice(bounds[at], end)).join("-") };
}

/** The contexts by name, and whether there are more than are searched. */
export async function contextsToSearch(signal) {
  const found = await get("/contexts", { query: { limit: CONTEXTS_MAX + 1 }, signal });
  const all = found.includes(".") ? found : [".", ...found];
  return { contexts: all.slice(0, CONTEXTS_MAX), more: all.length > CONTEXTS_MAX };
}

/** The schemas with an id in these contexts: [{ context, id, schema, uses }]. */
export async function byId(id, contexts, signal) {
  const found = await Promise.all(contexts.map((context) => inContext(context, id, signal)));
  return found.filter(Boolean);
}

/** The schema with a guid, under every id that it has. */
export async function byGuid(guid, signal) {
  const places = await orNothing(get(path`/schemas/guids/${guid}/ids`, { signal }));
  const found =
    await Promise.all((places ?? []).slice(0, CONTEXTS_MAX).map(({ context, id }) => inContext(context, id, signal)));
  return found.filter(Boolean);
}

async function inContext(context, id, signal) {
  const subject = `:${context}:`;
  const schema = await orNothing(get(path`/schemas/ids/${id}`, { query: { subject }, signal }));
  if (!schema) return null;
  const [all, live] =
    await Promise.all([true, undefined].map((deleted) => firstUses(id, { subject, deleted }, signal)));
  const living = new Set(live.map(({ subject: name, version }) => `${version} ${name}`));
  const uses = all.map((use) => ({ ...use, deleted: !living.has(`${use.version} ${use.subject}`) }));
  return { context, id: Number(id), schema, uses, more: all.length === USES_MAX };
}

async function firstUses(id, query, signal) {
  const { value } = await pages(path`/schemas/ids/${id}/versions`, { query, limit: USES_MAX, signal }).next();
  return value ?? [];
}

async function orNothing(answer) {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  }
}
