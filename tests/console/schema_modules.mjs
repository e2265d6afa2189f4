// Tests of the console's pure modules; run by test_schema_modules.py.
import assert from "node:assert/strict";
import { test } from "node:test";
import { marksOf, placeOf } from "../../registry/ui/static/editor/diagnostics.js";
import { elementIn, partIn, pointed, wordIn } from "../../registry/ui/static/editor/positions.js";
import { brokenTextIn, placeIn, reasonOf } from "../../registry/ui/static/editor/reason.js";
import { choicesFound, choicesOf, noteOfFailure, noted, partsFound } from "../../registry/ui/static/palette/choices.js";
import { askedBy, changeOf, ownersOf, usedIn } from "../../registry/ui/static/schema/answers.js";
import { united } from "../../registry/ui/static/schema/changes.js";
import { sidesOf } from "../../registry/ui/static/schema/field-sides.js";
import { placed } from "../../registry/ui/static/schema/layout.js";
import { pretty, prettySlowly } from "../../registry/ui/static/schema/pretty.js";
import { contextOf, labelOf, qualified, scopeOf } from "../../registry/ui/static/schema/scopes.js";
import {
  PAGE, countsOf, describedCounts, extended, listedOf, pageAt, pagesOf,
} from "../../registry/ui/static/schema/timeline-pages.js";
import { langJson } from "../../registry/ui/static/vendor-editor.js";

const FORMATS = '[{"name": "WORDS", "title": "Words", "language": ""}, {"name": "AVRO", "title": "Avro"}]';
globalThis.document = { getElementById: () => ({ textContent: FORMATS }) };
const { formatOf, formats } = await import("../../registry/ui/static/formats.js");

const treeOf = (text) => langJson.jsonLanguage.parser.parse(text);
const cut = (text, range) => text.slice(range.from, range.to);
const change = (direction, more) => ({
  type: "T", path: "/fields/1", old: null, new: "x", direction, compatible: true, fix: "", versionCompared: 1, ...more,
});

test("formats are those of the page; one that it does not have is only named", () => {
  assert.deepEqual(formats.map(({ title }) => title), ["Avro", "Words"]);
  assert.equal(formatOf({ schemaType: "WORDS" }).title, "Words");
  assert.equal(formatOf({}).name, "AVRO");
  assert.deepEqual([formatOf("THRIFT").title, formatOf("THRIFT").language], ["THRIFT", ""]);
});

test("both directions of one change are united, harmful changes first", () => {
  const found = united([
    change("BACKWARD", { path: "/doc", new: "fine" }),
    change("BACKWARD", { compatible: false, fix: "give a default" }),
    change("FORWARD", { path: "/fields", type: "FIELD_REMOVED" }),
  ]);
  assert.deepEqual(found.map(({ kind, compatible, findings }) => [kind, compatible, findings.length]),
    [["added", false, 2], ["added", true, 1]]);
});

test("changes against different versions, and of fields of one text in different records, stay apart", () => {
  assert.equal(united([change("BACKWARD"), change("BACKWARD", { versionCompared: 2 })]).length, 2);
  assert.equal(united([change("BACKWARD"), change("BACKWARD", { path: "/fields/2/type/fields/1" })]).length, 2);
  assert.equal(united([change("BACKWARD"), change("BACKWARD")])[0].findings.length, 1);
});

test("parts without text are distinguished by path", () => {
  const bare = { old: null, new: null };
  assert.deepEqual(united([change("", { ...bare, path: "/a" }), change("", { ...bare, path: "/b" })])
    .map(({ kind }) => kind), ["changed", "changed"]);
});

test("the search box says what an answer leaves out", () => {
  const answer = { hits: [{}], next: null, cut: false, complete: true, built: 1 };
  const noteOf = (more) => noted({ ...answer, ...more }).note;
  assert.equal(noteOf({}), "");
  assert.equal(noteOf({ hits: [] }), "No subject has these words.");
  assert.match(noteOf({ next: "x", cut: true }), /^There are more/);
  assert.match(noteOf({ hits: [], cut: true }), /^Too many names/);
  const building = "The index is still being built (41 %); there may be more.";
  assert.equal(noteOf({ hits: [], complete: false, built: 0.416 }), building);
  assert.equal(noteOf({ next: "x", complete: false, built: 0.416 }), `There are more: type another word. ${building}`);
});

test("the search box says what cannot be searched", () => {
  assert.match(noteOfFailure({ status: 422, message: "query has no word" }), /^Type letters or digits/);
  assert.equal(noteOfFailure({ status: 503, message: "Not now" }), "Not now");
});

test("half of a character is found where it stands, and whole ones are none", () => {
  assert.equal(brokenTextIn('{"a": "\u{1f600}"}\n'), null);
  const reason = brokenTextIn('{\n"\u{1f600}": "\ud83d"}');
  assert.equal(reason, "Half of a character (U+D83D) at line 2, column 8: delete it");
  assert.deepEqual(placeIn(reason), { line: 2, column: 8 });
  assert.match(brokenTextIn("\ude00\ud83d"), /U\+DE00\) at line 1, column 1:/);
});

test("JSON is laid out without changing a token", () => {
  const text = '{"a":[],"b":{},"c":[1.0,1e400,"x\\"[{,:"],"c":12345678901234567890}';
  const lines = pretty(text);
  assert.equal(lines.replace(/\s/g, ""), text);
  assert.equal(lines.split("\n").length, 10);
  assert.match(lines, /"a": \[\],\n {2}"b": \{\},\n {2}"c": \[\n {4}1\.0,/);
});

test("broken, empty and deeply nested texts are laid out too", () => {
  assert.equal(pretty(""), "");
  assert.equal(pretty('"open'), '"open');
  assert.equal(pretty("]]{").replace(/\s/g, ""), "]]{");
  assert.ok(pretty("[".repeat(5000)).length < 5000 * 300);
});

test("a large text is laid out the same way in slices, and can be given up", async () => {
  const text = JSON.stringify(Array.from({ length: 30_000 }, (_, index) => ({ index })));
  assert.equal(await prettySlowly(text, new AbortController().signal), pretty(text));
  await assert.rejects(prettySlowly(text, AbortSignal.abort()), { name: "AbortError" });
});

test("a graph has referrers on the left, what is used on the right, and no two boxes in one place", () => {
  const nodes = [0, 1, 1, 2, -1, -1, -2].map((depth) => ({ depth }));
  const edges = [[0, 1], [0, 2], [2, 3], [4, 0], [5, 0], [6, 5]];
  const { width, height, boxes, lines } = placed(nodes, edges);
  for (const [from, to] of edges) assert.ok(boxes[from].x < boxes[to].x);
  assert.equal(new Set(boxes.map(({ x, y }) => `${x} ${y}`)).size, nodes.length);
  assert.ok(boxes.every(({ x, y, ...box }) => x >= 0 && y >= 0 && x + box.width <= width && y + box.height <= height));
  assert.equal(lines.length, edges.length);
});

test("a lone node is drawn", () => {
  const { width, height, boxes } = placed([{ depth: 0 }], []);
  assert.ok(width > boxes[0].width && height > boxes[0].height);
});

test("pointers lead to values, or to the nearest one around what is missing", () => {
  const text = '{"fields": [{"name": "a"}, {"name": "b", "type": "int"}], "a/b~": 1}';
  const tree = treeOf(text);
  assert.equal(cut(text, pointed(tree, text, "/fields/1/type")), '"int"');
  assert.equal(cut(text, pointed(tree, text, "#/a~1b~0")), "1");
  assert.equal(cut(text, pointed(tree, text, "/fields/0/type")), '{"name": "a"}');
  assert.equal(cut(text, pointed(tree, text, "")), text);
  assert.deepEqual(pointed(treeOf(""), "", "/a"), { from: 0, to: 0 });
  assert.equal(pointed(null, text, "/fields"), null);
});

test("a part is found whatever its white space", () => {
  const text = "message A {\n  int32   a=1 ;\n}";
  assert.equal(cut(text, partIn(text, "int32 a = 1;")), "int32   a=1 ;");
  assert.equal(partIn(text, "int32 b = 1;"), null);
  assert.equal(partIn(text, null), null);
  assert.equal(partIn("(".repeat(50), ".*+?^${}()|[]\\/"), null);
});

test("elements and undefined names are found", () => {
  const text = '{"name": "R", "fields": [{"name": "orderId", "type": "strin"}]}';
  assert.equal(cut(text, elementIn(text, "R.orderId")), '"name": "orderId"');
  assert.equal(elementIn(text, "#"), null);
  assert.equal(cut(text, wordIn(text, "Undefined schema: strin")), '"strin"');
});

test("reasons are cut out of messages, with the place that they name", () => {
  const long = 'Invalid schema of type AVRO, details: Invalid schema {schema="details: "} with refs [] of type AVRO, '
    + "details: Undefined schema: x";
  assert.equal(reasonOf(long), "Undefined schema: x");
  assert.equal(reasonOf("Empty schema"), "Empty schema");
  assert.deepEqual(placeIn("Syntax error in :4:8: expected a word"), { line: 4, column: 8 });
  assert.deepEqual(placeIn("Unexpected 'x' at line 2, column 3"), { line: 2, column: 3 });
  assert.equal(placeIn("Undefined schema: x"), null);
});

test("marks stay within the text, also of a text without a syntax tree", () => {
  const text = '{\n  "fields": []\n}';
  const changes =
    united([change("BACKWARD", { compatible: false, path: "/fields", new: null, old: "gone", fix: "keep it" })]);
  const [mark] = marksOf({ lint: { valid: true, findings: [] }, changes }, text, treeOf(text), true);
  assert.deepEqual([cut(text, mark), mark.severity, mark.message], ["[]", "error", "keep it"]);
  assert.equal(marksOf({ changes }, text, null, true)[0].to, 1);
  const [invalid] =
    marksOf({ lint: { valid: false, message: "x at line 9, column 9" }, changes: [] }, text, null, true);
  assert.deepEqual([invalid.from, invalid.to], [0, 1]);
});

test("a change that only an old reader names is found by its text", () => {
  const text = '{"fields": [{ "name": "a",\n "type": "int" }]}';
  const [found] = united([change("FORWARD", { new: '{"name":"a","type":"int"}' })]);
  assert.equal(cut(text, placeOf(found, text, treeOf(text), true)), '{ "name": "a",\n "type": "int" }');
});

test("contexts and scopes have names", () => {
  assert.deepEqual([":.x:s", "s", ":.x:", "a:b"].map(contextOf), [".x", ".", ".x", "."]);
  assert.equal(scopeOf("."), ":.:");
  assert.deepEqual(["", ":.__GLOBAL:", ":.x:", ":.x:s"].map(labelOf),
    ["the top level", "all contexts", "the context .x", "this subject"]);
});

test("the search box offers ids, guids, pages and actions", () => {
  const routes = [{ path: "/home", title: "Home" }, { path: "/try", title: "Try a schema" },
    { path: "/subjects/:subject", title: () => "x" }];
  const titles = (text) => choicesOf(text, routes).map(({ kind, title }) => `${kind} ${title}`);
  assert.deepEqual(titles("schema"),
    ["page Try a schema", "action Register a schema", "action Find equal schemas"]);
  assert.deepEqual(titles("42"), ["id Schema with the id 42"]);
  const [guid] = choicesOf("0f253723-443d-17ff-493c-dc8c8fd78d5c", routes);
  assert.deepEqual([guid.path, guid.query], ["/lookup", { guid: "0f253723-443d-17ff-493c-dc8c8fd78d5c" }]);
  assert.equal(titles("").length, 6);
  assert.deepEqual(choicesFound([{ subject: "s", version: 1, matches: [], id: 7 }]),
    [{ kind: "subject", subject: "s", version: 1, matches: [] }]);
});

test("what was found in a text is apart from the rest, in characters", () => {
  assert.deepEqual(partsFound("a😀bc", [[1, 2], [3, 4]]), ["a", "😀", "b", "c", ""]);
  assert.deepEqual(partsFound("abc", []), ["abc"]);
});

test("owners and use are phrases", () => {
  const metadata = { properties: { owner: "a", note: "b", Team: "c" }, sensitive: ["Team"] };
  assert.deepEqual(ownersOf(metadata).map(({ name, sensitive }) => [name, sensitive]),
    [["owner", false], ["Team", true]]);
  assert.deepEqual(ownersOf(undefined), []);
  const none = { census: { complete: true, usableUntil: 9 }, messages: 0, exact: true, sources: [], sourceCount: 0,
    complete: true };
  assert.deepEqual(usedIn({ ...none, census: null }, 9),
    { sentence: "not known: no census was taken", sources: [], more: 0, note: "" });
  assert.deepEqual(usedIn(none, 9), { sentence: "no message names it", sources: [], more: 0, note: "" });
  const some = { ...none, messages: 1, sources: [{ source: "a", messages: 1 }], sourceCount: 3 };
  assert.deepEqual(usedIn(some, 9), { sentence: "1 message", sources: ["a"], more: 2, note: "" });
  assert.equal(usedIn(some, 10).note, "The census is old.");
  const partly = { ...some, census: { complete: false, usableUntil: 9 }, exact: false, complete: false };
  assert.deepEqual([usedIn(partly, 9).sentence, usedIn(partly, 9).note],
    ["at most 1 message of its newest versions", "The census is not complete."]);
});

const numbered = (count) => Array.from({ length: count }, (_, at) => ({ number: count - at, deleted: false }));

test("of thousands of versions only the pages around the chosen one are shown, and more when asked for", () => {
  const listed = numbered(5000);
  const first = pagesOf(listed, 5000, null);
  assert.deepEqual([first.begin, first.end, first.newer, first.older], [0, 1, 0, 5000 - PAGE]);
  const middle = pagesOf(listed, 2500, null);
  assert.equal(middle.pages.length, 1);
  assert.ok(middle.pages[0].rows.some(({ number }) => number === 2500));
  const above = pagesOf(listed, 2500, extended(middle, -1));
  assert.deepEqual([above.begin, above.end], [middle.begin - 1, middle.end]);
  let range = above;
  for (let at = 0; at < 20; at += 1) range = pagesOf(listed, 2500, extended(range, 1));
  assert.ok(range.pages.length <= 8);
  // Another version that is not among them begins again.
  assert.deepEqual([pagesOf(listed, 1, above).end, pagesOf(listed, 1, above).older], [5000 / PAGE, 0]);
  assert.equal(pagesOf(numbered(1), 1, { begin: 3, end: 5 }).pages[0].rows.length, 1);
});

test("a page is asked for by the number above it, the first one by none", () => {
  const listed = numbered(120);
  const [first, second, third] = [0, 1, 2].map((page) => pagesOf(listed, 120 - page * PAGE, null).pages[0]);
  assert.deepEqual(pageAt(first.rows, true), { below: 0, limit: PAGE });
  assert.deepEqual(pageAt(second.rows, false), { below: 120 - PAGE + 1, limit: PAGE });
  assert.deepEqual(pageAt(third.rows, false), { below: 120 - 2 * PAGE + 1, limit: 120 - 2 * PAGE });
});

test("soft-deleted versions are listed if that is wanted, if the chosen one is, or if all are", () => {
  const versions = [{ number: 3, deleted: false }, { number: 2, deleted: true }, { number: 1, deleted: false }];
  const shown = (current, wanted) => listedOf(versions, current, wanted).listed.map(({ number }) => number);
  assert.deepEqual([shown(3, ""), shown(3, "1"), shown(2, "")], [[3, 1], [3, 2, 1], [3, 2, 1]]);
  assert.equal(listedOf([{ number: 1, deleted: true }], 1, "").listed.length, 1);
});

test("counts of changes are signs to see and words to hear", () => {
  const entry = { added: 2, removed: 1, changed: 0 };
  assert.deepEqual(countsOf(entry).map(({ sign, count }) => sign + count), ["+2", "−1"]);
  assert.equal(describedCounts(entry), "2 fields added, 1 removed");
  assert.equal(describedCounts({ added: 1, removed: 0, changed: 3 }), "1 field added, 3 changed");
  assert.equal(describedCounts({ added: 0, removed: 0, changed: 0 }), "no fields changed");
  assert.deepEqual(countsOf({ added: 0, removed: 0, changed: 0 }).map(({ sign, count }) => sign + count), ["±0"]);
  assert.equal(countsOf({}), null);
});

test("a sentence says what the level makes of a version", () => {
  assert.equal(changeOf({ level: "FULL", previous: 2, compatible: true }), "It may follow version 2 (FULL).");
  assert.match(changeOf({ level: "BACKWARD", previous: 2, compatible: false }), /^It breaks .* version 2 \(BACKWARD\)/);
  assert.equal(changeOf({ level: "NONE", previous: 1 }), "The level NONE compares nothing.");
  assert.match(changeOf({ level: "FULL", previous: 1, previousType: "JSON", compatible: false }), /another type/);
  assert.equal(changeOf({ level: "FULL", previous: 1 }), "It is not compared with version 1.");
});

test("who asks is said by number, and by name to those who may know", () => {
  const some = { since: "2026-01-01", requests: 5, last: "2026-01-09", askerCount: 2, askers: [], other: 0,
    missingCount: 0 };
  assert.deepEqual(askedBy(some),
    { sentence: "2 clients, 5 times since 2026-01-01, last on 2026-01-09", names: [], more: 0 });
  const named = askedBy({ ...some, askers: [{ principal: "alice" }, { address: "10.0.0.1" }] });
  assert.deepEqual([named.names, named.more], [["alice", "10.0.0.1"], 0]);
  assert.match(askedBy({ ...some, missingCount: 1 }).sentence, /^at least 2 clients/);
  assert.equal(askedBy({ ...some, askerCount: 0 }).sentence, "nobody since 2026-01-01");
  assert.match(askedBy({ ...some, since: null }).sentence, /not known/);
});

test("of a field that differs only what differs is shown, of a new or old one everything", () => {
  const old = { kind: "field", path: "a", name: "a", type: "int", default: "0", tags: ["PII"] };
  assert.deepEqual(sidesOf({ old, new: { ...old, type: "long", default: undefined } }),
    { old: [{ what: "", text: "int" }, { what: "default", text: "0" }],
      new: [{ what: "", text: "long" }, { what: "default", text: "none" }] });
  assert.deepEqual(sidesOf({ old }),
    { old: [{ what: "", text: "int" }, { what: "default", text: "0" }, { what: "tags", text: "PII" }], new: [] });
  assert.deepEqual(sidesOf({ old: { ...old, required: true }, new: old }),
    { old: [{ what: "required", text: "yes" }], new: [{ what: "required", text: "none" }] });
});

test("references are qualified by the context of who uses them", () => {
  assert.equal(qualified("base", "orders"), "base");
  assert.equal(qualified("base", ":.eu:orders"), ":.eu:base");
  assert.equal(qualified(":.us:base", ":.eu:orders"), ":.us:base");
});

