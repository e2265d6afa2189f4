// Fields whose content counts some time after the last key.
import { useEffect, useRef, useState } from "../vendor.js";

/**
 * value: in force, such as of the address; onChange(next) makes another one count. Returns what the field shows; a
 * function to be called with each change, and with the pause if it is another one; and one that ends the pause unused.
 * What is typed before an earlier text is in force is kept, and so is what is typed before the first effects.
 */
export function useTyped(value, onChange, pauseMs) {
  const [typed, setTyped] = useState(value);
  const text = JSON.stringify(value);
  const inForce = useRef(text);
  const reported = useRef([]); // and not in force yet
  const timer = useRef();
  const latest = useRef();
  latest.current = onChange;
  const cancel = () => clearTimeout(timer.current);
  useEffect(() => {
    if (text === inForce.current) return;
    inForce.current = text;
    const at = reported.current.indexOf(text);
    reported.current = at < 0 ? [] : reported.current.slice(at + 1);
    if (at >= 0) return;
    cancel(); // an address that one comes back to
    setTyped(value);
  }, [text]);
  useEffect(() => cancel, []);
  const change = (next, pause = pauseMs) => {
    setTyped(next);
    cancel();
    timer.current = setTimeout(() => {
      const changed = JSON.stringify(next);
      if (changed === (reported.current.at(-1) ?? inForce.current)) return;
      reported.current.push(changed);
      latest.current(next);
    }, pause);
  };
  return [typed, change, cancel];
}
