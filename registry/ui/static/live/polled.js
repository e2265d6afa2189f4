// What has to be asked again and again: not while the page is hidden, never twice at once, more slowly after failures.
import { useEffect, useRef, useState } from "../vendor.js";
import { onSignIn } from "../session/session.js";

const SLOWEST_MS = 15_000;

/** Ask now and every so often; returns { data, error, at, again }. data stays when a request fails. */
export function usePolled(ask, everyMs) {
  const [found, setFound] = useState({ data: null, error: null, at: 0 });
  const current = useRef({});
  current.current.ask = ask;
  current.current.everyMs = everyMs;
  useEffect(() => {
    const stopped = new AbortController();
    let timer = null;
    let asking = false;
    let failures = 0;
    let refused = false; // asking again changes nothing
    const next = () => {
      clearTimeout(timer);
      const ms = current.current.everyMs * 2 ** Math.min(failures, 3);
      timer = setTimeout(run, Math.min(ms, Math.max(SLOWEST_MS, current.current.everyMs)));
    };
    const run = async () => {
      if (asking || document.hidden) return;
      asking = true;
      try {
        const data = await current.current.ask(stopped.signal);
        failures = 0;
        setFound({ data, error: null, at: Date.now() });
      } catch (error) {
        if (stopped.signal.aborted) return;
        failures += 1;
        refused = error.status === 401 || error.status === 403;
        setFound((before) => ({ ...before, error }));
      } finally {
        asking = false;
        if (!stopped.signal.aborted && !refused) next();
      }
    };
    const shown = () => refused || run();
    current.current.again = () => { [failures, refused] = [0, false]; run(); };
    document.addEventListener("visibilitychange", shown);
    const stop = onSignIn(() => current.current.again());
    run();
    return () => {
      stopped.abort();
      stop();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", shown);
    };
  }, []);
  return { ...found, again: () => current.current.again() };
}
