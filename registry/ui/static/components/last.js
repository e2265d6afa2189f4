// Work that takes a while; only the last that was begun counts.
import { useEffect, useRef } from "../vendor.js";

/**
 * Returns begin(), which returns isLast(): true until the next begin(), and as long as the component is shown. An
 * answer for which it is false comes too late: it must not replace what the user has done meanwhile.
 */
export function useLast() {
  const last = useRef(null);
  useEffect(() => () => { last.current = null; }, []);
  return () => {
    const own = {};
    last.current = own;
    return () => last.current === own;
  };
}
