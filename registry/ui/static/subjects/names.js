// The names of a list, page by page, up to a limit. The registry applies the filters.
import { pages } from "../api.js";

export const NAMES_MAX = 250_000; // some 30 MB
const FIRST = 300; // a screen, so that something is seen at once
const LATER = 25_000;

/** The query of a list: context and prefix as one parameter, and what is shown of the deleted. */
export function listQuery({ prefix, context, deleted }) {
  const place = context ? `:${context}:` : ":*:";
  return {
    subjectPrefix: context || prefix ? place + (prefix ?? "") : undefined,
    deleted: deleted === "with" ? true : undefined,
    deletedOnly: deleted === "only" ? true : undefined,
  };
}

/** One list being loaded; it calls changed() after every page. */
export class Names {
  constructor(filter, { changed }) {
    this.names = [];
    this.done = false; // the list is complete
    this.cut = false; // there are more than are loaded
    this.error = null;
    this.warning = ""; // what the registry says about the list
    this.#changed = changed;
    const { type, level, mode, words, kind, sort } = filter;
    this.sort = sort ?? "";
    this.#filter = filter;
    const query = { ...listQuery(filter), sort, schemaType: type, compatibilityLevel: level, mode, query: words,
      kind: words ? kind : undefined };
    this.#pages = pages("/subjects", { query, limit: (page) => (page ? LATER : FIRST), signal: this.#aborted.signal,
      warned: (text) => { this.warning = text; } });
  }

  #changed;
  #filter;
  #pages;
  #aborted = new AbortController();
  #loading = false;

  /** Load all names, up to the limit. */
  async load() {
    if (this.#loading || this.error) return;
    this.#loading = true;
    try {
      while (!this.done) {
        const { value: page, done } = await this.#pages.next();
        if (this.done) return; // stopped meanwhile
        this.done = Boolean(done);
        for (const each of page ?? []) this.names.push(each);
        if (this.names.length >= NAMES_MAX && !this.done) [this.done, this.cut] = [true, true];
        this.#changed();
      }
    } catch (error) {
      if (error.name === "AbortError") return;
      this.error = error;
      this.#changed();
    } finally {
      this.#loading = false;
    }
  }

  /** Load no more; what is loaded stays. */
  stop() {
    if (this.done) return;
    [this.done, this.cut] = [true, true];
    this.close();
    this.#changed();
  }

  /** True if the subject of a registration belongs into the list, judging by its event. */
  mayHold({ subject, context, type }) {
    const { prefix = "", ...wanted } = this.#filter;
    const name = context === "." ? subject : subject.slice(context.length + 2);
    return !this.cut && wanted.deleted !== "only" && [undefined, "", context].includes(wanted.context)
      && (!wanted.type || wanted.type === type) && name.startsWith(prefix);
  }

  /** True once there is something to show. */
  get begun() {
    return this.names.length > 0 || this.done || this.error !== null;
  }

  /** Stop; what is loaded stays. */
  close() {
    this.#aborted.abort();
  }
}

/** The names that contain all words of a text, in any case. */
export function matching(names, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return names;
  return names.filter((name) => {
    const low = name.toLowerCase();
    return words.every((word) => low.includes(word));
  });
}
