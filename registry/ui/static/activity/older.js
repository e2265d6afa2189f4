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
    const found = await page(filter, first, size, signal);
    const mine = found.filter((event) => event.offset < end && concerns(filter, event));
    events.push(...mine);
    begin = first;
  }
  return { events, begin };
}

async function page(filter, first, size, signal) {
  const query = { after: first - 1, limit: size, kind: filter.kind || undefined };
  try {
    return (await get("/changes", { query, signal })).events;
  } catch (error) {
    if (error.status !== 410) throw error;
    return (await get("/changes", { query: { ...query, after: -1 }, signal })).events; // what the log still has
  }
}
