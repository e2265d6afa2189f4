// What the last search for duplicates over everything found, in this browser.

const KEY = "registrar.duplicates";

/** Returns { groups, time }, or null if there was no search. */
export function lastSearch() {
  try {
    return JSON.parse(localStorage.getItem(KEY));
  } catch {
    return null;
  }
}

/** Remember what a search found: { groups }, a number. */
export function rememberSearch({ groups }) {
  try {
    localStorage.setItem(KEY, JSON.stringify({ groups, time: Date.now() }));
  } catch {
    // It is only a hint.
  }
}
