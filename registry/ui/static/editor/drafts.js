// Drafts of schemas, one for each subject, kept in the browser until they are registered or discarded.
//
// Other tabs share them: a draft that another tab has changed since is never replaced without a word.

const PREFIX = "registrar.draft.";
/** Drafts kept at once; a further one is not kept, so that none goes in silence. */
export const DRAFTS_MAX = 50;
const CHARACTERS_MAX = 1_000_000;
let over = false; // the user has signed out and wants no drafts kept: what this page still holds goes with them

export class Drafts {
  #storage;
  #prefix;

  /** storage: such as localStorage; owner: the user's name, because others may use the same browser. */
  constructor(storage, owner) {
    this.#storage = storage;
    this.#prefix = prefixOf(owner);
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
   * `taken` if another one is there, or without if it cannot be kept. Does nothing after `discardAll`.
   */
  save(subject, draft, stamp) {
    if (over) return stamp;
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

/** Discard all drafts of a user, also what this page still holds: they sign out. */
export function discardAll(storage, owner) {
  over = true;
  for (const key of keysOf(storage, owner)) storage.removeItem(key);
}

/** Returns how many drafts of a user this browser holds. */
export function countOf(storage, owner) {
  return keysOf(storage, owner).length;
}

function keysOf(storage, owner) {
  const keys = Array.from({ length: storage.length }, (_, index) => storage.key(index));
  return keys.filter((key) => key.startsWith(prefixOf(owner)));
}

/** No prefix begins another one: names have no dots here. */
function prefixOf(owner) {
  return `${PREFIX}${encodeURIComponent(owner ?? "").replaceAll(".", "%2E")}.`;
}
