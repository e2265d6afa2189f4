// Tests of the pure modules of the cluster's and the activity's pages; run by test_schema_modules.py.
import assert from "node:assert/strict";
import { test } from "node:test";
import { concerns, described } from "../../registry/ui/static/activity/events.js";
import { ClusterHistory, digestsOf, isSilent, lagOf } from "../../registry/ui/static/cluster/history.js";
import { bytes, count, duration, share } from "../../registry/ui/static/cluster/units.js";
import { parser } from "../../registry/ui/static/live/event-stream.js";

const node = (url, more) => ({
  node: `id-${url}`, url, role: "secondary", epoch: 5, applied: 10, end: 10, digest: "d", age_s: 0, started_ms: 1,
  requests: 0, request_s: 0, ...more,
});
const answer = (primary, ...nodes) => ({ primary, nodes });

test("digests are compared at equal offsets only, and not those of silent nodes", () => {
  const nodes = [node("a"), node("b", { digest: "other" }), node("c", { applied: 9 }), node("d", { age_s: 60 })];
  assert.deepEqual(nodes.map(digestsOf(nodes)), ["different", "different", "unknown", "unknown"]);
  assert.deepEqual(nodes.slice(0, 1).map(digestsOf(nodes.slice(0, 1))), [null]);
  assert.deepEqual(nodes.slice(0, 1).concat(node("e")).map(digestsOf([node("a"), node("e")])), ["equal", "equal"]);
  assert.deepEqual(nodes.map(lagOf(nodes)), [0, 0, 1, 0]);
  assert.deepEqual(nodes.map(isSilent), [false, false, false, true]);
});

test("rates come from two reports of one start of a node", () => {
  const history = new ClusterHistory();
  const report = (now, more) => history.add(answer("a", node("a", more)), now);
  report(0, { requests: 100, request_s: 1 });
  assert.equal(history.samples.size, 0);
  report(2000, { requests: 300, request_s: 1.5 });
  report(2100, { requests: 305, request_s: 1.5 }); // too soon to say anything
  assert.deepEqual(history.samples.get("a"), [{ time: 2000, rate: 100, latencyMs: 2.5, lag: 0 }]);
  report(4000, { requests: 3, request_s: 0.1, started_ms: 2 });
  report(6000, { requests: 3, request_s: 0.1, started_ms: 2 });
  assert.deepEqual(history.samples.get("a").slice(1), [{ time: 6000, rate: 0, latencyMs: null, lag: 0 }]);
});

test("samples and nodes are bounded", () => {
  const history = new ClusterHistory();
  for (let each = 0; each < 1000; each += 1) history.add(answer("a", node("a", { requests: each })), each * 2000);
  assert.equal(history.samples.get("a").length, 300);
  for (let each = 0; each < 200; each += 1) history.add(answer("a", node(`n${each}`)), 2_000_000);
  assert.ok(history.with([], 2_000_000).length <= 51);
});

test("news report primaries with their epoch, and of nodes that go and come back", () => {
  const history = new ClusterHistory();
  const report = (now, cluster) => history.add(cluster, now).map(({ text }) => text);
  const primary = (url, epoch) => node(url, { role: "primary", epoch });
  assert.deepEqual(report(0, answer("a", primary("a", 5), node("b"))), []);
  assert.deepEqual(report(2000, answer("", node("b"))), ["There is no primary"]);
  assert.deepEqual(report(4000, answer("b", node("b", { role: "following" }))), []); // not yet
  assert.deepEqual(report(6000, answer("b", primary("b", 9))), ["b is the primary, epoch 9"]);
  assert.deepEqual(report(8000, answer("b", primary("b", 9))), ["a does not answer"]);
  assert.deepEqual(report(10_000, answer("b", node("a"), primary("b", 9))), ["a is back"]);
  assert.deepEqual(report(12_000, answer("b", node("a"), primary("b", 9))), []);
});

test("a stream is read wherever it is cut", () => {
  const text = 'retry: 1000\n: 4\nid: 4\n\nid: 5\nevent: config_set\ndata: {"offset":5}\n\n: 6\nid: 6\n\n';
  for (let cut = 0; cut <= text.length; cut += 1) {
    const parse = parser();
    const parts = [parse(text.slice(0, cut)), parse(text.slice(cut))];
    assert.deepEqual(parts.flatMap(({ events }) => events), [{ offset: 5 }]);
    assert.equal(parts[1].position ?? parts[0].position, 6);
  }
});

test("events are described in words and filtered as the server does", () => {
  const event = { kind: "version_registered", offset: 5, subject: "orders", version: 2, id: 7, type: "AVRO" };
  assert.equal(described(event), "version 2, id 7, AVRO");
  assert.equal(described({ kind: "epoch_started", offset: 5 }), "epoch 5");
  assert.ok(concerns({ prefix: "ord", kind: "" }, event));
  assert.ok(!concerns({ prefix: "x", kind: "" }, event));
  assert.ok(!concerns({ prefix: "", kind: "mode_set" }, event));
  assert.ok(!concerns({ prefix: "ord", kind: "" }, { kind: "epoch_started", offset: 5 }));
});

test("numbers are read by people", () => {
  assert.deepEqual([0, 1023, 1536, 20_000_000].map(bytes), ["0 bytes", "1023 bytes", "1.5 KiB", "19 MiB"]);
  assert.equal(count(1234567), "1,234,567");
  assert.deepEqual([0, 59, 61, 7300, 200_000].map(duration), ["0 s", "59 s", "1 min", "2 h", "2 d"]);
});

test("parts are shown in per cent without exponents", () => {
  assert.deepEqual([0, 3.3e-9, 0.000_47, 0.5, 0.999, 1].map(share),
    ["0 %", "< 0.01 %", "0.047 %", "50 %", "100 %", "100 %"]);
});
