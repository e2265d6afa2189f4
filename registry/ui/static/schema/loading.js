// Loads what a view shows, aborts what it no longer needs, and shows errors in place.
import { html, useEffect, useRef, useState } from "../vendor.js";
import { Failure } from "../components/notice.js";
import { onSignIn } from "../session/session.js";

/**
 * For what is derived once, such as a text laid out in lines; what others can change comes from `useResource`.
 *
 * Calls `load(signal)` again whenever `deps` (plain values) change.
 *
 * Returns `{ value, error, reload }`; both are undefined while it loads. A reload keeps the value until there is
 * another, also if it fails for a time.
 */
export function useLoaded(load, deps) {
  const key = JSON.stringify(deps);
  const [state, setState] = useState({});
  const [attempt, setAttempt] = useState(0);
  const last = useRef(undefined);
  useEffect(() => {
    const controller = new AbortController();
    const done = (outcome) => controller.signal.aborted || setState({ key, ...outcome });
    load(controller.signal).then((value) => done({ value }), (error) =>
      done({ error, value: error.temporary ? last.current : undefined }));
    return () => controller.abort();
  }, [key, attempt]);
  useEffect(() => onSignIn(() => setAttempt((count) => count + 1)), []);
  const current = state.key === key ? state : {};
  last.current = current.value;
  return { value: current.value, error: current.error, reload: () => setAttempt((count) => count + 1) };
}

/** Shows `children(value)` of something that `useLoaded` returned; `what`: its name in "Loading …". */
export function Loaded({ of: { value, error, reload }, what, children }) {
  return html`
    ${error && html`<${Failure} error=${error} onRetry=${reload} />`}
    ${value === undefined ? !error && html`<p class="quiet" role="status">Loading ${what}…</p>` : children(value)}`;
}
