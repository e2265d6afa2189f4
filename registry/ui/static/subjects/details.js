// What the table shows of a subject, fetched for the visible rows only.
import { get } from "../api.js";

const KEPT_MAX = 2000;
const NAMES_MAX = 100; // of one request
const LENGTH_MAX = 12_000; // of the names in a request's address
const REST_MS = 40; // rows that are scrolled past faster are not asked for

/** The details of the newest names, within bounds; calls changed() when some arrive or fail. */
export class Details {
  constructor(changed) {
    this.error = null;
    this.#changed = changed;
  }

  #changed;
  #known = new Map(); // by name, the least recently used first; null: it does not exist any more
  #old = new Set(); // names of #known whose details have changed
  #asked = []; // names in the request that runs
  #wanted = [];
  #timer;
  #request = null;

  /** The details of a subject: undefined while they are not known, null if it does not exist. */
  of(name) {
    return this.#known.get(name);
  }

  /** Fetch the details of these names, and forget those that were wanted before. */
  want(names) {
    for (const name of names) {
      const found = this.#known.get(name);
      if (found !== undefined && !this.#old.has(name)) this.#keep(name, found); // it was used
    }
    this.#wanted = names.filter((name) => this.#lacks(name));
    if (this.#wanted.length && !this.error) this.#soon();
  }

  /**
   * Fetch the details of these names, or of all, again when they are wanted, because they have changed; until then the
   * old are shown.
   */
  renew(names = [...this.#known.keys(), ...this.#asked]) {
    for (const name of names) if (this.#known.has(name) || this.#asked.includes(name)) this.#old.add(name);
    this.#changed();
  }

  #lacks(name) {
    return !this.#known.has(name) || this.#old.has(name);
  }

  /** Forget everything, such as after a change; retry after an error. */
  clear() {
    this.#known.clear();
    this.#old = new Set(this.#asked); // their answer may be older
    this.error = null;
    this.#soon();
  }

  /** Stop asking. */
  close() {
    clearTimeout(this.#timer);
    this.#request?.abort();
  }

  #soon() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#fetch(), REST_MS);
  }

  async #fetch() {
    if (this.#request || !this.#wanted.length) return;
    const names = fitting(this.#wanted);
    this.#asked = names;
    for (const name of names) this.#old.delete(name);
    const request = (this.#request = new AbortController());
    try {
      const found =
        await get("/subjects", { query: { detail: true, deleted: true, subject: names }, signal: request.signal });
      for (const name of names) this.#keep(name, null);
      for (const each of found) this.#keep(each.subject, each);
      this.error = null;
    } catch (error) {
      if (error.name === "AbortError") return;
      for (const name of names) this.#old.add(name);
      this.error = error;
    } finally {
      this.#request = null;
      this.#asked = [];
    }
    this.#wanted = this.#wanted.filter((name) => this.#lacks(name));
    if (this.#wanted.length && !this.error) this.#soon();
    this.#changed();
  }

  #keep(name, found) {
    this.#known.delete(name);
    this.#known.set(name, found);
    if (this.#known.size > KEPT_MAX) {
      const [oldest] = this.#known.keys();
      this.#known.delete(oldest);
      this.#old.delete(oldest);
    }
  }
}

function fitting(names) {
  let length = 0;
  const first = names.slice(0, NAMES_MAX);
  const end = first.findIndex((name) => (length += encodeURIComponent(name).length + 9) > LENGTH_MAX);
  return end < 0 ? first : first.slice(0, Math.max(1, end));
}
