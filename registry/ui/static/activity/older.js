// Events before an offset. The feed goes forward only, so a window before the offset is read, then one before that.
import { get } from "../api.js";
import { concerns } from "./events.js";

const [WINDOW, WINDOW_FILTERED] = [100, 1000]; // offsets, and the most events of one page
const WINDOWS_MAX = 10; // in one go, if the filter leaves out most events

/** Events before an offset that pass the filter: { events, begin: the offset before which nothing was examined }. */
export async function older(filter, before, wanted, signal) {
  const events = [];
  const size = filter.prefix || filter.kind ? WINDOW_FILTERED : WINDOW;
  let begin = before;
  for (let windows = 0; begin > 0 && events.length < wanted && windows < WINDOWS_MAX; windows += 1) {
    const [first, end] = [Math.max(0, begin - size), begin];
    const found = await windowOf(filter, first, end, signal);
    events.push(...found.filter((event) => event.offset < end && concerns(filter, event)));
    begin = first;
  }
  return { events, begin };
}

// A page of the feed may end early, wherever it is.
async function windowOf(filter, first, end, signal) {
  const events = [];
  for (let after = first - 1; after < end - 1;) {
    const page = await pageAfter(filter, after, end - first, signal);
    events.push(...page.events);
    if (page.next <= after) break;
    after = page.next;
  }
  return events;
}

async function pageAfter(filter, after, limit, signal) {
  const query = { after, limit, kind: filter.kind || undefined };
  try {
    return await get("/changes", { query, signal });
  } catch (error) {
    if (error.status !== 410) throw error;
    return get("/changes", { query: { ...query, after: -1 }, signal }); // what the log still has
  }
}
