// Tests of the console's store, drafts and ceremony; run by test_schema_modules.py.
import assert from "node:assert/strict";
import { test } from "node:test";
import { replacedBy } from "../../registry/ui/static/activity/events.js";
import { DRAFTS_MAX, Drafts, countOf, discardAll } from "../../registry/ui/static/editor/drafts.js";
import { Signal, Store, resource } from "../../registry/ui/static/live/store.js";
import { partsOf, plain } from "../../registry/ui/static/names.js";
import { consequencesOf, refusedBy } from "../../registry/ui/static/schema/harm.js";

const settled = () => new Promise((resolve) => { setImmediate(resolve); });

/** A resource whose reads are counted; concerned by events about its subject. */
function counted(answers = (reads) => reads) {
  const reads = [];
  const kind = resource("counted", async (signal, subject) => {
    reads.push({ subject, signal });
    return answers(reads.length);
  }, (event, [subject]) => event.subject === subject);
  return { kind, reads };
}

test("a signal calls those who watch it, until they stop", () => {
  const found = [];
  const signal = new Signal(1);
  const stop = signal.watch((value) => found.push(value));
  signal.value = 2;
  stop();
  signal.value = 3;
  assert.deepEqual([found, signal.value], [[2], 3]);
});

test("a value may grow while it is read first, and not again later", async () => {
  const shown = [];
  async function* read() {
    yield 1;
    yield 2;
  }
  const store = new Store();
  const entry = store.open(resource("growing", read, () => true), []);
  entry.state.watch(({ value }) => shown.push(value));
  await settled();
  assert.deepEqual([shown.splice(0), entry.state.value], [[1, 2, 2], { value: 2 }]);
  store.read(entry);
  await settled();
  assert.deepEqual(shown, [2]);
});

test("what concerns a part causes a read of that, seldom, and none if all is read", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout", "Date"] });
  const { kind, reads } = counted();
  const parts = [];
  const part = { concerns: () => true, pauseMs: 10_000,
    read: async (signal, value, subject) => { parts.push([value, subject]); return "new"; } };
  const store = new Store();
  const entry = store.open({ ...kind, part }, ["s"]);
  await settled();
  store.changed([{ subject: "other" }]);
  t.mock.timers.tick(9_000);
  assert.deepEqual(parts, []);
  t.mock.timers.tick(1_000);
  await settled();
  assert.deepEqual([parts, entry.state.value], [[[1, "s"]], { value: "new" }]);
  store.changed([{ subject: "other" }]);
  store.changed([{ subject: "s" }]);
  t.mock.timers.tick(1_000);
  assert.deepEqual([reads.length, parts.length], [2, 1]);
  t.mock.timers.tick(20_000);
  assert.deepEqual([reads.length, parts.length], [2, 1]);
});

test("what concerns a part cuts no read short, and is read after it", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout", "Date"] });
  let answer;
  const { kind, reads } = counted(() => new Promise((resolve) => { answer = resolve; }));
  const parts = [];
  const part = { concerns: () => true, pauseMs: 10_000, read: async () => { parts.push("part"); return "new"; } };
  const store = new Store();
  const entry = store.open({ ...kind, part }, ["s"]);
  store.changed([{ subject: "other" }]);
  t.mock.timers.tick(20_000);
  assert.deepEqual([reads.length, reads[0].signal.aborted, parts.length], [1, false, 0]);
  answer("old");
  await settled();
  t.mock.timers.tick(10_000);
  await settled();
  assert.deepEqual([reads.length, parts, entry.state.value], [1, ["part"], { value: "new" }]);
});

test("views of one resource share a read and its value", async () => {
  const { kind, reads } = counted();
  const store = new Store();
  const [one, other] = [store.open(kind, ["s"]), store.open(kind, ["s"])];
  await settled();
  assert.equal(one, other);
  assert.deepEqual([reads.length, one.state.value], [1, { value: 1 }]);
  store.close(one);
  store.read(other);
  await settled();
  assert.deepEqual(other.state.value, { value: 2 });
  store.close(other);
  assert.notEqual(store.open(kind, ["s"]), other);
});

test("events cause one read of what they concern, not while the page writes and not in quick succession", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout", "Date"] });
  const { kind, reads } = counted();
  let busy = false;
  const store = new Store(() => busy);
  store.open(kind, ["s"]);
  store.open(kind, ["other"]);
  t.mock.timers.tick(5000);
  store.changed([{ subject: "s" }]);
  store.changed([{ subject: "s" }, { subject: "none" }]);
  assert.equal(reads.length, 2);
  t.mock.timers.tick(200);
  assert.deepEqual(reads.map(({ subject }) => subject), ["s", "other", "s"]);
  busy = true;
  store.changed([{ subject: "s" }]);
  t.mock.timers.tick(2000);
  assert.equal(reads.length, 3);
  busy = false;
  t.mock.timers.tick(200);
  assert.equal(reads.length, 4);
  store.changed(null); // anything may have changed
  t.mock.timers.tick(1000);
  assert.equal(reads.length, 6);
});

test("an answer that was overtaken by another read, or nobody waits for, changes nothing", async () => {
  let release;
  const first = new Promise((resolve) => { release = resolve; });
  const { kind, reads } = counted((count) => (count === 1 ? first : count));
  const store = new Store();
  const entry = store.open(kind, ["s"]);
  store.read(entry);
  assert.ok(reads[0].signal.aborted);
  release("late");
  await settled();
  assert.deepEqual(entry.state.value, { value: 2 });
  store.close(entry);
  assert.ok(reads[1].signal.aborted);
});

test("an event that concerns the value only once it is known causes another read", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout", "Date"] });
  const reads = [];
  const kind = resource("alias", () => new Promise((resolve) => { reads.push(resolve); }),
    (event, args, value) => event.subject === value);
  const store = new Store();
  const entry = store.open(kind, ["name"]);
  const answer = async (value) => {
    reads.at(-1)(value);
    await settled();
    t.mock.timers.tick(1000);
  };
  const happens = (...subjects) => store.changed(subjects.map((subject) => ({ subject })));
  happens("target");
  await answer("target"); // as of before the event
  assert.equal(reads.length, 2);
  happens("other");
  await answer("target");
  assert.equal(reads.length, 2);
  happens("other"); // nothing is being read
  t.mock.timers.tick(1000);
  assert.equal(reads.length, 2);
  happens("target");
  t.mock.timers.tick(1000);
  happens(...Array.from({ length: 1001 }, (_, index) => `${index}`)); // too many to remember
  await answer("target");
  assert.equal(reads.length, 4);
  store.close(entry);
});

test("a failure takes the place of the value, and goes with the next read", async () => {
  const failure = new Error("no");
  const { kind } = counted((count) => (count === 1 ? Promise.reject(failure) : count));
  const store = new Store();
  const entry = store.open(kind, ["s"]);
  await settled();
  assert.deepEqual(entry.state.value, { error: failure });
  store.readAll();
  await settled();
  assert.deepEqual(entry.state.value, { value: 2 });
});

/** As localStorage, for so many characters. */
class Storage {
  #values = new Map();

  constructor(room = Infinity) {
    this.room = room;
  }

  get length() { return this.#values.size; }

  key(index) { return [...this.#values.keys()][index] ?? null; }

  getItem(key) { return this.#values.get(key) ?? null; }

  removeItem(key) { this.#values.delete(key); }

  setItem(key, value) {
    if (value.length > this.room) throw new Error("QuotaExceededError");
    this.#values.set(key, value);
  }
}

test("a draft is kept for each subject and user, and saved again under its own stamp", () => {
  const storage = new Storage();
  const [mine, theirs] = [new Drafts(storage, "me"), new Drafts(storage, "me.too")];
  const stamp = mine.save("a.b", { schema: "1" }, null);
  assert.equal(mine.of("a.b").schema, "1");
  mine.save("a.b", { schema: "2" }, stamp);
  mine.save("", { schema: "3" }, null);
  assert.deepEqual([mine.subjects(), theirs.subjects(), theirs.of("a.b")], [["", "a.b"], [], null]);
  mine.discard("a.b");
  assert.equal(mine.of("a.b"), null);
  theirs.save("a.b", { schema: "4" }, null);
  assert.deepEqual([countOf(storage, "me"), countOf(storage, "me.too")], [1, 1]);
});

test("a draft that another page has saved since is neither replaced nor discarded with one's own", () => {
  const storage = new Storage();
  const [one, other] = [new Drafts(storage, "me"), new Drafts(storage, "me")];
  const stamp = one.save("s", { schema: "1" }, null);
  other.save("s", { schema: "2" }, stamp);
  assert.throws(() => one.save("s", { schema: "3" }, stamp), ({ taken }) => taken.schema === "2");
  one.discard("s", stamp);
  one.discard("s", null);
  assert.equal(one.of("s").schema, "2");
  other.discard("s", one.of("s").stamp);
  assert.equal(one.of("s"), null);
});

test("what cannot be kept is reported, and nothing else goes for it", () => {
  const drafts = new Drafts(new Storage(200), "me");
  assert.throws(() => drafts.save("s", { schema: "x".repeat(300) }, null), /Quota/);
  for (let each = 0; each < DRAFTS_MAX; each += 1) drafts.save(`s${each}`, { schema: "" }, null);
  assert.throws(() => drafts.save("more", { schema: "" }, null), /50 drafts/);
  assert.equal(drafts.subjects().length, DRAFTS_MAX);
  assert.throws(() => new Drafts(new Storage(), "me").save("s", { schema: "x".repeat(1_000_001) }, null), /too large/);
});


test("an event replaces what the one before it of the same kind has set", () => {
  const events = [
    { kind: "config_set", level: "NONE" }, { kind: "mode_set", mode: "READONLY" }, { kind: "config_set" },
    { kind: "config_deleted" }, { kind: "config_set", level: "FULL" },
  ];
  const replaced = (whole) => events.map((event, at) => replacedBy(event, events.slice(at + 1), whole).old);
  assert.deepEqual(replaced(true), ["no level", "none", "none", "FULL", "none"]);
  assert.deepEqual(replaced(false), ["no level", undefined, "none", "FULL", undefined]);
  assert.deepEqual(replacedBy({ kind: "version_soft_deleted" }, [], true), { what: "version", old: "" });
  assert.equal(replacedBy({ kind: "version_registered" }, [], true), null);
});

test("what does harm to all is confirmed, and what a mode refuses is known", () => {
  const asks = [["", "mode", "READONLY"], [":.c:", "mode", "READONLY_OVERRIDE"], [":.__GLOBAL:", "level", "NONE"],
    ["s", "mode", "IMPORT"], ["s", "alias", "t"], ["s", "alias", null]];
  for (const each of asks) assert.ok(consequencesOf(...each).length > 0, each);
  for (const each of [["s", "mode", "READONLY"], ["s", "level", "NONE"], ["", "level", "FULL"], ["", "mode", null]]) {
    assert.deepEqual(consequencesOf(...each), [], each);
  }
  assert.deepEqual(["READWRITE", undefined, "IMPORT"].map((mode) => refusedBy(mode, "deleted")), ["", "", ""]);
  assert.match(refusedBy("READONLY_OVERRIDE", "deleted"), /nothing is deleted/);
  assert.match(refusedBy("IMPORT", "registered"), /only schemas with ids/);
});

test("what cannot be seen in a name is made visible, and letters from right to left reorder nothing", () => {
  assert.deepEqual(partsOf("orders"), ["orders"]);
  assert.deepEqual(partsOf("\u202egnp.exe"), ["", "U+202E", "gnp.exe"]);
  assert.equal(plain("a\u200bb\u{e0041}"), "a⟨U+200B⟩b⟨U+E0041⟩");
  assert.equal(plain("line\nbreak"), "line⟨U+000A⟩break");
  assert.equal(plain("שלום"), "\u2068שלום\u2069");
  assert.equal(plain("ünïcode 😀"), "ünïcode 😀");
});

test("a user who signs out may discard their drafts, and then nothing more becomes one", () => { // for good: last
  const storage = new Storage();
  const [mine, theirs] = [new Drafts(storage, "me"), new Drafts(storage, "me.too")];
  mine.save("a", { schema: "1" }, null);
  theirs.save("a", { schema: "2" }, null);
  discardAll(storage, "me");
  assert.deepEqual([mine.of("a"), theirs.of("a").schema], [null, "2"]);
  mine.save("a", { schema: "3" }, null);
  assert.equal(mine.of("a"), null);
});
