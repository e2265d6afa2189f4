// Fields whose content comes into force later than it is typed.
import { useEffect, useRef, useState } from "../vendor.js";

/**
 * value: in force, such as of the address; onFollowed() is called when another one than was reported comes into force,
 * such as of an address that one comes back to. Returns what the field shows; a function that shows something else; and
 * report(next), to be called when the user makes that count: false if it does already. What is typed before a reported
 * value is in force is kept, and so is what is typed before the first effects.
 */
export function useFollowed(value, onFollowed = () => {}) {
  const [typed, setTyped] = useState(value);
  const text = JSON.stringify(value);
  const inForce = useRef(text);
  const reported = useRef([]); // and not in force yet
  useEffect(() => {
    if (text === inForce.current) return;
    inForce.current = text;
    const at = reported.current.indexOf(text);
    reported.current = at < 0 ? [] : reported.current.slice(at + 1);
    if (at >= 0) return;
    onFollowed();
    setTyped(value);
  }, [text]);
  const report = (next) => {
    const changed = JSON.stringify(next);
    if (changed === (reported.current.at(-1) ?? inForce.current)) return false;
    reported.current.push(changed);
    return true;
  };
  return [typed, setTyped, report];
}

/**
 * The same for a field whose content counts some time after the last key: onChange(next) makes it count. Returns what
 * the field shows; a function to be called with each change, and with the pause if it is another one (0: none); and one
 * that ends the pause unused.
 */
export function useTyped(value, onChange, pauseMs) {
  const timer = useRef();
  const latest = useRef();
  latest.current = onChange;
  const cancel = () => clearTimeout(timer.current);
  const [typed, setTyped, report] = useFollowed(value, cancel);
  const gone = useRef(false);
  useEffect(() => () => { gone.current = true; cancel(); }, []);
  const change = (next, pause = pauseMs) => {
    if (gone.current) return; // the browser also reports a change of a field that it removes
    setTyped(next);
    cancel();
    const count = () => report(next) && latest.current(next);
    if (pause === 0) count();
    else timer.current = setTimeout(count, pause);
  };
  return [typed, change, cancel];
}
