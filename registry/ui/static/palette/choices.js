// What the search box offers before the registry is asked, and how it shows what the registry found.

const GUID = /^[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}$/i;
const PAGES_MAX = 6;
const UNPROCESSABLE = 422;
const ACTIONS = [
  { title: "Register a schema", path: "/try" },
  { title: "Change the compatibility level", path: "/config" },
  { title: "Show the newest changes", path: "/activity" },
  { title: "Find equal schemas", path: "/cluster/duplicates" },
];

/**
 * Returns the choices that need no answer: `[{ kind, title, path, query }]` for an id, a guid, pages and actions.
 *
 * @param {string} text what was typed
 * @param {{ path: string, title: unknown }[]} routes
 */
export function choicesOf(text, routes) {
  const given = text.trim();
  const found = [];
  if (/^\d{1,10}$/.test(given)) found.push({ kind: "id", title: `Schema with the id ${given}`, path: "/lookup",
    query: { id: given } });
  if (GUID.test(given)) found.push({ kind: "guid", title: `Schema with the guid ${given}`, path: "/lookup",
    query: { guid: given } });
  const wanted = given.toLowerCase();
  const pages = routes.filter(({ path, title }) => !path.includes(":") && typeof title === "string")
    .map(({ path, title }) => ({ kind: "page", title: String(title), path }));
  const actions = ACTIONS.map((each) => ({ kind: "action", ...each }));
  const named = [...pages, ...actions].filter(({ title }) => title.toLowerCase().includes(wanted));
  return [...found, ...named.slice(0, given ? PAGES_MAX : undefined)];
}

/** Returns a choice for each subject of an answer of `/search`. */
export function choicesFound(hits) {
  return hits.map(({ subject, version, matches }) => ({ kind: "subject", subject, version, matches }));
}

/** Returns what of an answer of `/search` is shown: the hits, and a note about what else there may be. */
export function noted({ hits, next, cut, complete, built }) {
  const notes = [];
  if (next) notes.push("There are more: type another word.");
  else if (cut) notes.push("Too many names have these words to search all: type more of them.");
  else if (!hits.length && complete) notes.push("No subject has these words.");
  if (!complete) notes.push(`The index is still being built (${Math.floor(built * 100)} %); there may be more.`);
  return { hits, note: notes.join(" ") };
}

/** Returns what is said instead of hits. 422: of what was typed, the registry cannot search. */
export function noteOfFailure({ status, message }) {
  if (status !== UNPROCESSABLE) return message;
  return "Type letters or digits: up to 12 words, and 500 characters.";
}

/**
 * Returns the parts of a text: not found, found, not found, and so on.
 *
 * @param {string} text
 * @param {[number, number][]} ranges begins and ends, in characters
 */
export function partsFound(text, ranges) {
  const characters = [...text];
  const parts = [];
  let from = 0;
  for (const [begin, end] of ranges) {
    parts.push(characters.slice(from, begin).join(""), characters.slice(begin, end).join(""));
    from = end;
  }
  return [...parts, characters.slice(from).join("")];
}
