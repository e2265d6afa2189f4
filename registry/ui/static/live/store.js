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
 * A kind of resource. read(signal, ...args) promises its value, or yields what is known of it and at last the value;
 * args are plain values. concerns(event, args, value): true if an event of the feed may change it; value is undefined
 * before it is known. part: what other events change, `{ concerns, read, pauseMs }`: read(signal, value, ...args)
 * promises the value with that part read again, at most once in that time.
 */
export function resource(name, read, concerns, part = null) {
  return { name, read, concerns, part };
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

  /**
   * The entry of a resource, read if it is new: its state is a signal of { value } or { error }, at first {}. While
   * reading it again fails for a time, of both: what is shown, and what the user has begun there, stays.
   */
  open(kind, args) {
    const key = keyOf(kind, args);
    const known = this.#entries.get(key);
    const entry = known
      ?? { key, kind, args, state: new Signal({}), users: 0, begun: 0, timer: null, partly: false, running: null,
        heard: null };
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
    this.#run(entry, (signal) => entry.kind.read(signal, ...entry.args));
  }

  #run(entry, read) {
    clearTimeout(entry.timer);
    entry.timer = null;
    entry.running?.abort();
    const running = new AbortController();
    // What concerns the value that comes may not have concerned the one before, such as an alias's new target.
    const heard = [];
    Object.assign(entry, { running, heard, begun: Date.now() });
    const { kind, args } = entry;
    const known = entry.state.value.value !== undefined;
    const done = (state) => {
      if (running.signal.aborted) return;
      entry.heard = null;
      entry.state.value = state;
      const concerned = (concerns) => heard.some((event) => concerns(event, args, state.value));
      if (concerned(kind.concerns)) this.#soon(entry);
      else if (kind.part && concerned(kind.part.concerns)) this.#soonPartly(entry);
    };
    const grown = (value) => {
      if (!known && !running.signal.aborted) entry.state.value = { value };
    };
    const failed = (error) => done(error.temporary ? { value: entry.state.value.value, error } : { error });
    whole(read(running.signal), grown).then((value) => done({ value }), failed);
  }

  /** Read all entries: who asks has changed, or events were missed. */
  readAll() {
    for (const each of [...this.#entries.values()]) this.read(each);
  }

  /** Read soon what these events concern; null: anything may have changed. */
  changed(events) {
    for (const each of this.#entries.values()) {
      const { kind, args, state: { value: { value } }, heard } = each;
      const tooMany = heard !== null && heard.length + (events?.length ?? 0) > HEARD_MAX;
      const concerned = (concerns) => events === null || events.some((event) => concerns(event, args, value));
      if (tooMany || concerned(kind.concerns)) {
        this.#soon(each);
        continue;
      }
      if (heard) heard.push(...events);
      else if (kind.part && concerned(kind.part.concerns)) this.#soonPartly(each);
    }
  }

  #soon(entry) {
    if (entry.timer !== null && !entry.partly) return;
    entry.partly = false;
    this.#later(entry, PAUSE_MS, () => this.read(entry));
  }

  /** Read a part soon, unless all is to be read; without a value there is nothing that has a part. */
  #soonPartly(entry) {
    if (entry.timer !== null) return;
    entry.partly = true;
    const { part } = entry.kind;
    this.#later(entry, part.pauseMs, () => {
      const { value } = entry.state.value;
      if (value === undefined) this.read(entry);
      else this.#run(entry, (signal) => part.read(signal, value, ...entry.args));
    });
  }

  #later(entry, pauseMs, work) {
    clearTimeout(entry.timer);
    const pause = Math.max(GATHER_MS, entry.begun + pauseMs - Date.now());
    const run = () => {
      if (this.#busy()) entry.timer = setTimeout(run, GATHER_MS);
      else work();
    };
    entry.timer = setTimeout(run, pause);
  }
}

/** Promises what a read promises, or yields at last; calls begun(value) with what it yields. */
async function whole(read, begun) {
  if (!read[Symbol.asyncIterator]) return read;
  let last;
  for await (const value of read) {
    last = value;
    begun(value);
  }
  return last;
}
