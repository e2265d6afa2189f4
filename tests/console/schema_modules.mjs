// Tests of the console's pure modules; run by test_schema_modules.py.
import assert from "node:assert/strict";
import { test } from "node:test";
import { marksOf, placeOf } from "../../registry/ui/static/editor/diagnostics.js";
import { elementIn, partIn, pointed, wordIn } from "../../registry/ui/static/editor/positions.js";
import { placeIn, reasonOf } from "../../registry/ui/static/editor/reason.js";
import { choicesFound, choicesOf, partsFound } from "../../registry/ui/static/palette/choices.js";
import { ownersOf, usedIn } from "../../registry/ui/static/schema/answers.js";
import { united } from "../../registry/ui/static/schema/changes.js";
import { placed } from "../../registry/ui/static/schema/layout.js";
import { pretty, prettySlowly } from "../../registry/ui/static/schema/pretty.js";
import { contextOf, labelOf, scopeOf } from "../../registry/ui/static/schema/scopes.js";
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
  const version = (messages, ...sources) => ({ messages, sources: sources.map((source) => ({ source })) });
  assert.equal(usedIn({ census: null, versions: [] }), "not known: no census was taken");
  assert.equal(usedIn({ census: { complete: true }, versions: [version(0)] }), "no topic: no message needs it");
  assert.equal(usedIn({ census: { complete: true }, versions: [version(1, "a\u202e"), version(0, "b", "c", "d")] }),
    "a⟨U+202E⟩, b, c and 1 more: 1 message");
});
