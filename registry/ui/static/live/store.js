// What the page has read of the registry: one entry for each resource in use, shared by all views that show it. The
// feed says what changes; an entry that a change concerns is read again. Nothing here knows the page or the network.

const GATHER_MS = 200; // events of a moment cause one read
const PAUSE_MS = 1000; // between two reads of an entry because of events
const HEARD_MAX = 1000; // events during one read

/** A value with watchers. */
export class Signal {
  #value;
  #watchers = new Set();

  constructor(value) {
    this.#value = value;
  }

  get value() {
    return this.#value;
  }

  set value(next) {
    this.#value = next;
    for (const each of [...this.#watchers]) each(next);
  }

  /** Call run(value) after each change. Returns a function that ends this. */
  watch(run) {
    this.#watchers.add(run);
    return () => this.#watchers.delete(run);
  }
}

/**
 * A kind of resource. read(signal, ...args) promises its value; args are plain values. concerns(event, args, value):
 * true if an event of the feed may change it; value is undefined before it is known.
 */
export function resource(name, read, concerns) {
  return { name, read, concerns };
}

/** Returns the key of a resource in the store. */
export function keyOf({ name }, args) {
  return JSON.stringify([name, ...args]);
}

/** The resources in use. Memory is bounded by what is shown: an entry goes with its last user. */
export class Store {
  #entries = new Map();
  #busy;

  /** busy(): true while the page writes; it then shows itself what became of that, so events wait. */
  constructor(busy = () => false) {
    this.#busy = busy;
  }

  /** The entry of a resource, read if it is new: its state is a signal of { value } or { error }, at first {}. */
  open(kind, args) {
    const key = keyOf(kind, args);
    const known = this.#entries.get(key);
    const entry = known
      ?? { key, kind, args, state: new Signal({}), users: 0, begun: 0, timer: null, running: null, heard: null };
    entry.users += 1;
    if (!known) {
      this.#entries.set(key, entry);
      this.read(entry);
    }
    return entry;
  }

  /** End one use of an entry. */
  close(entry) {
    entry.users -= 1;
    if (entry.users > 0) return;
    clearTimeout(entry.timer);
    entry.running?.abort();
    this.#entries.delete(entry.key);
  }

  /** Read an entry now; its value stays until there is another. */
  read(entry) {
    clearTimeout(entry.timer);
    entry.timer = null;
    entry.running?.abort();
    const running = new AbortController();
    // What concerns the value that comes may not have concerned the one before, such as an alias's new target.
    const heard = [];
    Object.assign(entry, { running, heard, begun: Date.now() });
    const { kind, args } = entry;
    const done = (state) => {
      if (running.signal.aborted) return;
      entry.heard = null;
      entry.state.value = state;
      if (heard.some((event) => kind.concerns(event, args, state.value))) this.#soon(entry);
    };
    kind.read(running.signal, ...args).then((value) => done({ value }), (error) => done({ error }));
  }

  /** Read all entries: who asks has changed, or events were missed. */
  readAll() {
    for (const each of [...this.#entries.values()]) this.read(each);
  }

  /** Read soon what these events concern; null: anything may have changed. */
  changed(events) {
    for (const each of this.#entries.values()) {
      const { kind, args, state, heard } = each;
      const tooMany = heard !== null && heard.length + (events?.length ?? 0) > HEARD_MAX;
      if (events === null || tooMany || events.some((event) => kind.concerns(event, args, state.value.value))) {
        this.#soon(each);
      } else {
        heard?.push(...events);
      }
    }
  }

  #soon(entry) {
    if (entry.timer !== null) return;
    const pause = Math.max(GATHER_MS, entry.begun + PAUSE_MS - Date.now());
    const run = () => {
      if (this.#busy()) entry.timer = setTimeout(run, GATHER_MS);
      else this.read(entry);
    };
    entry.timer = setTimeout(run, pause);
  }
}
