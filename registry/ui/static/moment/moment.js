// The moment of the past at which this tab looks at the registry: an offset of the log, or null for the present.
import { useEffect, useState } from "../vendor.js";

const KEY = "registrar.moment";
const listeners = new Set();

function stored() {
  try {
    const found = sessionStorage.getItem(KEY);
    return /^\d{1,16}$/.test(found ?? "") ? found : null;
  } catch {
    return null;
  }
}

let moment = stored();

/** Look at the registry as of after the record at an offset (digits); null: at the present. */
export function lookAt(at) {
  moment = at;
  try {
    if (at === null) sessionStorage.removeItem(KEY);
    else sessionStorage.setItem(KEY, at);
  } catch {
    // Then a reload returns to the present.
  }
  for (const each of listeners) each(at);
}

/** The moment, while a component is shown. */
export function useMoment() {
  const [found, setFound] = useState(moment);
  useEffect(() => {
    setFound(moment);
    listeners.add(setFound);
    return () => listeners.delete(setFound);
  }, []);
  return found;
}
