// Schemas found by an id or a guid, with the versions that use them.
import { get } from "../api.js";

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

/**
 * Returns the schemas with an id or a guid, `{ found, next }`: `[{ context, id, schema, uses, more }]`, and what to
 * search after; null: nothing is left. wanted: as `parsed` returns it; context: the only one that is searched, if any.
 */
export async function lookedUp(wanted, context, after, signal) {
  const { schemas, next } = await get("/schemas/lookup", { query: { ...wanted, context, after }, signal });
  const found = schemas.map((schema) => {
    const { context: place, id, versions: uses, more } = schema;
    return { context: place, id, schema, uses, more };
  });
  return { found, next };
}
