// Which part of a long list of versions is shown and asked for, and what their changes are called.

/** Versions whose changes are asked for at once. */
export const PAGE = 50;
const PAGES_MAX = 8; // in the page at once

/**
 * Returns the versions to list, `{ listed, deleted }`: soft-deleted ones only if that is wanted, if there are no
 * others, or if the chosen one is.
 */
export function listedOf(versions, current, wanted) {
  const chosen = versions.find(({ number }) => number === current);
  const deleted = Boolean(wanted) || Boolean(chosen?.deleted) || versions.every((each) => each.deleted);
  return { listed: deleted ? versions : versions.filter((each) => !each.deleted), deleted };
}

/**
 * Returns the pages that are shown, at least that of the chosen version: `{ begin, end, pages: [{ page, rows }], newer,
 * older }`, the numbers of versions above and below. range: the pages shown before, as `extended` returns them; null at
 * first.
 */
export function pagesOf(listed, current, range) {
  const at = Math.max(0, listed.findIndex(({ number }) => number === current));
  const own = Math.floor(at / PAGE);
  const last = Math.max(0, Math.ceil(listed.length / PAGE) - 1);
  const holds = range !== null && own >= range.begin && own < range.end;
  const begin = holds ? Math.min(range.begin, last) : own;
  const end = Math.min(holds ? range.end : own + 1, last + 1);
  const pages = [];
  for (let page = begin; page < end; page += 1) {
    pages.push({ page, rows: listed.slice(page * PAGE, (page + 1) * PAGE) });
  }
  return { begin, end, pages, newer: begin * PAGE, older: Math.max(0, listed.length - end * PAGE) };
}

/** Returns a range with one page more, below (1) or above (-1); beyond some the page at the other end goes. */
export function extended({ begin, end }, by) {
  const grown = by > 0 ? { begin, end: end + 1 } : { begin: begin - 1, end };
  if (grown.end - grown.begin <= PAGES_MAX) return grown;
  return by > 0 ? { begin: begin + 1, end: end + 1 } : { begin: begin - 1, end: end - 1 };
}

/** Returns what to ask for a page: `{ below, limit }`. The first one stays the same while versions are added. */
export function pageAt(rows, first) {
  return first ? { below: 0, limit: PAGE } : { below: rows[0].number + 1, limit: rows.length };
}

const SIGNS = [["added", "+", "good"], ["removed", "−", "bad"], ["changed", "~", "warned"]];

/** Returns the changes of an entry as `[{ sign, count, tone }]`, at least one; null: not known. */
export function countsOf(entry) {
  if (entry.added === undefined) return null;
  const found = SIGNS.filter(([name]) => entry[name] > 0);
  if (!found.length) return [{ sign: "±", count: 0, tone: "quiet" }];
  return found.map(([name, sign, tone]) => ({ sign, count: entry[name], tone }));
}

/** Returns the changes of an entry in words. */
export function describedCounts(entry) {
  const parts = SIGNS.filter(([name]) => entry[name] > 0).map(([name]) => `${entry[name]} ${name}`);
  if (!parts.length) return "no fields changed";
  const [first, ...rest] = parts;
  const count = Number(first.split(" ")[0]);
  return [first.replace(" ", count === 1 ? " field " : " fields "), ...rest].join(", ");
}
