// Drafts of schemas, one for each subject, kept in the browser until they are registered or discarded.
//
// Other tabs share them: a draft that another tab has changed since is never replaced without a word.

const PREFIX = "registrar.draft.";
/** Drafts kept at once; a further one is not kept, so that none goes in silence. */
export const DRAFTS_MAX = 50;
const CHARACTERS_MAX = 1_000_000;
let over = false; // the user has signed out: what this page still holds is not kept

export class Drafts {
  #storage;
  #prefix;

  /** storage: such as localStorage; owner: the user's name, because others may use the same browser. */
  constructor(storage, owner) {
    this.#storage = storage;
    this.#prefix = `${PREFIX}${encodeURIComponent(owner ?? "")}.`;
  }

  /** The draft for a subject, with `stamp`, which changes whenever it is saved; null if there is none. */
  of(subject) {
    try {
      return JSON.parse(this.#storage.getItem(this.#prefix + subject));
    } catch {
      return null; // of another version of this page
    }
  }

  /**
   * Save a draft. stamp: of the one that it replaces, null for none. Returns its new stamp; throws an Error with
   * `taken` if another one is there, or without if it cannot be kept.
   */
  save(subject, draft, stamp) {
    if (over) throw new Error("The user has signed out");
    const there = this.of(subject);
    if (there && there.stamp !== stamp) throw Object.assign(new Error("There is another draft"), { taken: there });
    if (!there && this.subjects().length >= DRAFTS_MAX) throw new Error(`${DRAFTS_MAX} drafts are kept already`);
    const made = `${Date.now()} ${Math.random()}`;
    const text = JSON.stringify({ ...draft, stamp: made });
    if (text.length > CHARACTERS_MAX) throw new Error("It is too large");
    this.#storage.setItem(this.#prefix + subject, text); // throws if the browser has no room
    return made;
  }

  /** Discard the draft for a subject. stamp: only if it is still this one; without it, whatever is there. */
  discard(subject, stamp) {
    if (stamp === undefined || this.of(subject)?.stamp === stamp) this.#storage.removeItem(this.#prefix + subject);
  }

  /** The subjects with drafts, in order; the empty name stands for none. */
  subjects() {
    const keys = Array.from({ length: this.#storage.length }, (_, index) => this.#storage.key(index));
    return keys.filter((key) => key.startsWith(this.#prefix)).map((key) => key.slice(this.#prefix.length)).sort();
  }
}

/** Keep no further draft in this page: the user signs out. */
export function keepNone() {
  over = true;
}

/** Discard all drafts of all users of this browser. */
export function discardAll(storage) {
  const keys = Array.from({ length: storage.length }, (_, index) => storage.key(index));
  for (const key of keys) if (key.startsWith(PREFIX)) storage.removeItem(key);
}

/** True if this browser holds drafts. */
export function hasDrafts(storage) {
  return Array.from({ length: storage.length }, (_, index) => storage.key(index)).some((key) => key.startsWith(PREFIX));
}
