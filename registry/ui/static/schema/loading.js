// Loads what a view shows, aborts what it no longer needs, and shows errors in place.
import { html, useEffect, useState } from "../vendor.js";
import { Failure } from "../components/notice.js";
import { onSignIn } from "../session/session.js";

/**
 * For what is derived once, such as a text laid out in lines; what others can change comes from `useResource`.
 *
 * Calls `load(signal)` again whenever `deps` (plain values) change.
 *
 * Returns `{ value, error, reload }`; both are undefined while it loads. A reload keeps the value until there is
 * another.
 */
export function useLoaded(load, deps) {
  const key = JSON.stringify(deps);
  const [state, setState] = useState({});
  const [attempt, setAttempt] = useState(0);
  useEffect(() => {
    const controller = new AbortController();
    const done = (outcome) => controller.signal.aborted || setState({ key, ...outcome });
    load(controller.signal).then((value) => done({ value }), (error) => done({ error }));
    return () => controller.abort();
  }, [key, attempt]);
  useEffect(() => onSignIn(() => setAttempt((count) => count + 1)), []);
  const current = state.key === key ? state : {};
  return { value: current.value, error: current.error, reload: () => setAttempt((count) => count + 1) };
}

/** Shows `children(value)` of something that `useLoaded` returned; `what`: its name in "Loading …". */
export function Loaded({ of, what, children }) {
  if (of.error) return html`<${Failure} error=${of.error} onRetry=${of.reload} />`;
  if (of.value === undefined) return html`<p class="quiet" role="status">Loading ${what}…</p>`;
  return children(of.value);
}
