// Keyboard shortcuts: each view says what its keys do, and the help lists all that are in force.
import { useEffect, useRef } from "./vendor.js";

const groups = []; // of shortcuts, the newest last
let pending = ""; // the first of two keys
let pendingSince = 0;
const PAUSE_MS = 1500;

/**
 * Put shortcuts in force while a component is shown: [{ keys: "g s", does: "Go to subjects", run(event) {…} }].
 * keys: a KeyboardEvent.key, or two with a space; several alternatives with "|" between blanks: "j | ArrowDown".
 * typing: true for keys that also work in text fields. run may return false to leave the key to others.
 */
export function useKeys(title, shortcuts) {
  const group = useRef({ title, shortcuts });
  group.current.shortcuts = shortcuts;
  useEffect(() => {
    const mine = group.current;
    groups.push(mine);
    return () => groups.splice(groups.indexOf(mine), 1);
  }, []);
}

/** The shortcuts in force, by group, for the help. */
export function shortcutsInForce() {
  return groups.map(({ title, shortcuts }) => ({ title, shortcuts: shortcuts.filter((each) => each.does) }));
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.defaultPrevented) return;
  const target = /** @type {HTMLElement} */ (event.composedPath()[0]);
  const typing = target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
  if (document.querySelector("dialog[open]") && event.key !== "?") return; // the dialog has its own keys
  const first = event.timeStamp - pendingSince < PAUSE_MS ? pending : "";
  pending = "";
  const wanted = first ? `${first} ${event.key}` : event.key;
  for (const { shortcuts } of [...groups].reverse()) {
    for (const { keys, run, typing: always } of shortcuts) {
      if (typing && !always) continue;
      if (keys.split(" | ").includes(wanted) && run(event) !== false) {
        event.preventDefault();
        return;
      }
    }
  }
  if (!typing && event.key.length === 1) [pending, pendingSince] = [event.key, event.timeStamp];
});
