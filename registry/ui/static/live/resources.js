// The store of this page, and the hook by which views derive from it.
import { useEffect, useState } from "../vendor.js";
import { isWriting } from "../api.js";
import { onSignIn } from "../session/session.js";
import { onChanges } from "./feed.js";
import { Store, keyOf } from "./store.js";

const store = new Store(isWriting);
onChanges((events) => store.changed(events));
onSignIn(() => store.readAll());

/**
 * Returns { value, error, reload } of a resource as it is now; both are undefined while it is read first, and both are
 * there while the registry cannot be reached again. kind: made by
 * `resource`; null: nothing is read. Every view with the same kind and arguments shows the same state.
 */
export function useResource(kind, ...args) {
  const key = kind && keyOf(kind, args);
  const [shown, setShown] = useState({});
  useEffect(() => {
    if (!kind) return undefined;
    const entry = store.open(kind, args);
    const show = (state) => setShown({ key, entry, ...state });
    const stop = entry.state.watch(show);
    show(entry.state.value);
    return () => {
      stop();
      store.close(entry);
    };
  }, [key]);
  const current = shown.key === key ? shown : {};
  return { value: current.value, error: current.error, reload: () => current.entry && store.read(current.entry) };
}
