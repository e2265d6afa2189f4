// Long lists of the API, read page by page until there are enough rows.
import { html, useEffect, useRef, useState } from "../vendor.js";
import { pages } from "../api.js";
import { Failure } from "../components/notice.js";
import { count } from "../cluster/units.js";
import { onSignIn } from "../session/session.js";

const PAGE = 500;

/**
 * Reads a list until `wanted` rows satisfy keep(row); query: plain values. Returns { rows, examined, done, busy, error,
 * more, stop, again }; more() reads on for as many rows again, stop() ends the search that runs.
 */
export function useListing(where, query, { keep = Boolean, wanted = 100, size = PAGE, key = "" } = {}) {
  const [state, setState] = useState({ rows: [], examined: 0, done: false, busy: true });
  const [round, setRound] = useState(0);
  const reading = useRef(null);
  const read = async (list, stopped, rows, examined) => {
    const enough = rows.length + wanted;
    const show = (more) => stopped.signal.aborted || setState({ rows, examined, done: false, busy: true, ...more });
    reading.current = { list, stopped, rows, examined, stop: false };
    show();
    try {
      while (rows.length < enough && !reading.current.stop) {
        const { value, done } = await list.next();
        if (stopped.signal.aborted) return;
        if (done) {
          show({ done: true, busy: false });
          return;
        }
        examined += value.length;
        rows = [...rows, ...value.filter(keep)];
        Object.assign(reading.current, { rows, examined });
        show();
      }
      show({ busy: false });
    } catch (error) {
      show({ busy: false, error });
    }
  };
  useEffect(() => {
    const stopped = new AbortController();
    read(pages(where, { query, limit: size, signal: stopped.signal }), stopped, [], 0);
    return () => stopped.abort();
  }, [where, JSON.stringify(query), key, round]);
  useEffect(() => onSignIn(() => setRound((before) => before + 1)), []);
  return {
    ...state,
    more: () => read(reading.current.list, reading.current.stopped, reading.current.rows, reading.current.examined),
    stop: () => { reading.current.stop = true; },
    again: () => setRound(round + 1),
  };
}

/** What stands below a listing: how far it is, and how to go on. */
export function ListingEnd({ listing, what }) {
  const { rows, examined, done, busy, error, more, stop, again } = listing;
  if (error) return html`<${Failure} error=${error} onRetry=${again} />`;
  const found = `${count(rows.length)} of ${count(examined)} ${what}`;
  if (busy) return html`<p role="status">${found}… <button class="small" onClick=${stop}>Stop</button></p>`;
  return html`<p role="status" class="quiet">${done
    ? examined === 0 ? `No ${what}.` : `${found}.` : html`${found} so far. <button class="small" onClick=${more}>Show
      more</button>`}</p>`;
}
