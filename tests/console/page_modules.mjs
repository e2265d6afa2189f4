// Tests of the pure modules of Home and the pages other than the subjects; run by test_schema_modules.py.
import assert from "node:assert/strict";
import { test } from "node:test";
import { stepFor } from "../../registry/ui/static/bulk/subject-steps.js";
import { byReferences, filesOf, isRead, pathOf, versionsIn } from "../../registry/ui/static/transfer/files.js";
import { unzipped, zipped } from "../../registry/ui/static/transfer/zip.js";
import { KEEP, PERMANENT, RESTORE, SOFT, carryOut, inOrder, tally } from "../../registry/ui/static/bulk/steps.js";
import { literal, textsOf, word } from "../../registry/ui/static/copy-as/texts.js";
import { merged } from "../../registry/ui/static/activity/events.js";
import { MEMBERS, changesOf, textOf } from "../../registry/ui/static/config/members.js";
import { LINK_MAX, packed, unpacked } from "../../registry/ui/static/editor/review.js";
import { stepsFor } from "../../registry/ui/static/usage/cleanup.js";
import { checksOf, worstOf } from "../../registry/ui/static/home/health.js";
import { refusedMost, samplesOf } from "../../registry/ui/static/home/metrics.js";
import { storeVisit, storedVisit, summaryOf, visitAt } from "../../registry/ui/static/home/since.js";

const METRICS = `# HELP registrar_http_requests_total Requests answered
registrar_http_requests_total{method="GET",route="/subjects/{subject}",status="404"} 3.0
registrar_http_requests_total{method="POST",route="/subjects",status="409"} 12
registrar_http_requests_total{method="GET",route="/subjects",status="200"} 99
registrar_http_requests_total{method="GET",route="/health/ready",status="503"} 50
registrar_http_requests_total_more{status="500"} 7
registrar_certificate_expiry_seconds{file="/etc/\\"a\\\\b.pem"} 864000.0
registrar_certificate_expiry_seconds{file="c"} 8640000.0
`;

test("what was refused most comes first, without probes and successes", () => {
  assert.deepEqual(refusedMost(METRICS, 5), [
    { method: "POST", route: "/subjects", status: 409, count: 12 },
    { method: "GET", route: "/subjects/{subject}", status: 404, count: 3 },
  ]);
  assert.equal(refusedMost(METRICS, 1).length, 1);
  assert.equal(samplesOf(METRICS, "registrar_certificate_expiry_seconds")[0].labels.file, '/etc/"a\\b.pem');
});

const node = (more) => ({
  url: "http://a", role: "primary", applied: 10, end: 10, digest: "d", age_s: 0, ready: true, reasons: [],
  ready_for_writes: true, reasons_for_writes: [], invalid_files: [], quarantined: 0, store_bytes: 1,
  store_map_bytes: 100, ...more,
});
const seen = (nodes, { metrics = "", ...more } = {}) => ({
  cluster: { primary: "http://a", problem: "", nodes, snapshot_ms: 0, failed_snapshot_ms: 0, ...more }, metrics,
});
const found = (state) => Object.fromEntries(checksOf(state, 1e12).map(({ name, tone, text }) => [name, [tone, text]]));

test("a registry without faults is healthy, also without snapshots and certificates", () => {
  const state = seen([node()]);
  assert.equal(worstOf(checksOf(state, 1e12)), "good");
  assert.deepEqual(found(state).Backups, ["plain", "no snapshot"]);
  assert.deepEqual(found({ ...state, metrics: null }).Certificates, ["plain", "unknown"]);
  const { snapshot_ms: _, ...older } = state.cluster;
  assert.deepEqual(found({ ...state, cluster: older }).Backups, ["plain", "unknown"]);
});

test("each fault is found and named", () => {
  const bad = (nodes, more) => found(seen(nodes, more));
  assert.equal(bad([node()], { primary: "", problem: "no quorum" }).Primary[1],
    "none is known, so writes wait: no quorum");
  assert.equal(bad([node({ ready: false, reasons: ["no log"] })]).Readiness[1], "http://a is not ready: no log");
  assert.equal(bad([node({ age_s: 60 })]).Readiness[1], "http://a does not answer");
  assert.equal(bad([node({ ready_for_writes: false, reasons_for_writes: ["full"] })]).Readiness[0], "bad");
  assert.deepEqual(bad([node(), node({ url: "b", applied: 5, end: 2010 })]).Lag, ["warn", "up to 2,005 records"]);
  assert.equal(bad([node(), node({ url: "b", digest: "other" })]).Stores[0], "bad");
  assert.equal(bad([node({ store_bytes: 81 })]).Stores[0], "warn");
  assert.equal(bad([node({ quarantined: 1 })]).Quarantine[1], "1 record of the log could not be read");
  assert.equal(bad([node({ invalid_files: ["rules: line 1"] })]).Files[1], "http://a: rules: line 1");
  assert.equal(bad([node()], { metrics: METRICS }).Certificates[0], "warn");
  const snapshots = { snapshot_ms: 1e12 - 7_200_000, failed_snapshot_ms: 2 };
  assert.deepEqual(bad([node()], snapshots).Backups, ["good", "the newest snapshot is 2 h old"]);
  assert.equal(bad([node()], { ...snapshots, failed_snapshot_ms: 1e12 }).Backups[0], "warn");
});

test("a visit lasts while one looks, and the next one begins where it ended", () => {
  const first = visitAt(null, 10, 0);
  assert.deepEqual(first, { since: null, last: { offset: 10, time: 0 } });
  assert.equal(visitAt(first, 20, 60_000).since, null, "the same visit");
  const second = visitAt(first, 30, 3_600_000);
  assert.deepEqual(second, { since: { offset: 10, time: 0 }, last: { offset: 30, time: 3_600_000 } });
  assert.deepEqual(visitAt(second, 40, 3_700_000).since, { offset: 10, time: 0 }, "a reload keeps the news");
  assert.equal(visitAt(second, 5, 9_999_999).since, null, "another log");
});

test("visits are kept for each user, and what cannot be read counts as none", () => {
  const kept = new Map();
  const storage = { getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => kept.set(key, value) };
  storeVisit(storage, "alice", visitAt(null, 3, 5));
  assert.equal(storedVisit(storage, "alice").last.offset, 3);
  assert.equal(storedVisit(storage, null), null);
  kept.set("registrar.home.bob", "{");
  assert.equal(storedVisit(storage, "bob"), null);
  storeVisit({ setItem: () => { throw new Error("full"); } }, "bob", {});
});

test("events are counted by kind, and by subject with the last change first", () => {
  const event = (kind, subject, time, principal) => ({ kind, subject, time, principal });
  const { total, kinds, subjects, more } = summaryOf([
    event("version_registered", "a", 1, "alice"), event("version_registered", "b", 2),
    event("config_set", "a", 3, "bob"), event("epoch_started", undefined, 4),
    ...Array.from({ length: 25 }, (_, index) => event("mode_set", `c${index}`, 0)),
  ]);
  assert.deepEqual([total, more, kinds[0], subjects.length], [29, 17, ["mode_set", 25], 10]);
  assert.deepEqual(subjects[0], { subject: "a", kinds: [["version_registered", 1], ["config_set", 1]], time: 3,
    principals: ["alice", "bob"] });
});

const DAY = 86_400_000;
const unused = (version, more) => ({ version, id: version * 10, ts: 0, deleted: false, deletedAt: null, ...more });
const planned = (versions, { latest = 9, used = 0, unknown = 0, ...options } = {}) =>
  stepsFor({ subject: "s", latest, used, unknown, unused: versions }, { started: 100 * DAY },
    { olderThanDays: 90, permanentAfterDays: 30, now: 100 * DAY, ...options })
    .map(({ version, action, reason }) => [version, action, reason]);

test("unused versions are soft-deleted, the newest first, if they are old enough", () => {
  const versions = [unused(1), unused(2, { ts: 20 * DAY }), unused(3)];
  assert.deepEqual(planned(versions), [[3, SOFT, "unused, registered 1970-01-01"],
    [1, SOFT, "unused, registered 1970-01-01"]]);
  assert.deepEqual(planned([unused(3)], { latest: 3, used: 1 }), [[3, KEEP, "the latest version of a subject in use"]]);
  assert.equal(planned([unused(3)], { latest: 3, unknown: 1 })[0][1], KEEP);
  assert.equal(planned([unused(3)], { latest: 3 })[0][1], SOFT, "nothing of it is in use");
});

test("only what was soft-deleted long enough, and before the census, is deleted permanently", () => {
  const at = (deletedAt, options) => planned([unused(1, { deleted: true, deletedAt })], options)[0];
  assert.deepEqual(at(70 * DAY), [1, PERMANENT, "unused, soft-deleted 1970-03-12"]);
  assert.deepEqual(at(71 * DAY), [1, KEEP, "soft-deleted 1970-03-13"]);
  assert.deepEqual(at(70 * DAY, { permanentAfterDays: null }), [1, KEEP, "soft-deleted 1970-03-12"]);
  assert.deepEqual(at(100 * DAY, { permanentAfterDays: 0 }), [1, KEEP, "soft-deleted after the census began"]);
  assert.deepEqual(at(null, { permanentAfterDays: 0 })[1], KEEP);
});

const steps = ["a", "b", "c"].map((subject) => ({ subject, action: SOFT }));
const refusal = (status, more) => Object.assign(new Error(`refused ${status}`), { status, temporary: false, ...more });

async function run(perform, { out = [], cancelAfter = Infinity } = {}) {
  const results = new Map();
  const pauses = [];
  const outcome = await carryOut([{ subject: "kept", action: KEEP }, ...steps], perform, {
    report: (index, { state, note }) => results.set(index, note ? `${state}: ${note}` : state),
    cancelled: () => results.size >= cancelAfter,
    pause: async (seconds) => pauses.push(seconds),
    isLeftOut: (index) => out.includes(index),
  });
  return { results: [...results], pauses, ...outcome };
}

test("steps are carried out in order, and a refusal stops no other step", async () => {
  const { results, ended } = await run(async ({ subject }) => {
    if (subject === "b") throw refusal(409);
    return subject === "c" ? "a warning" : null;
  });
  assert.deepEqual(results, [[1, "done"], [2, "refused: refused 409"], [3, "done: a warning"]]);
  assert.equal(ended, "done");
});

test("what a proxy answers in the registry's place is no refusal, and ends the plan", async () => {
  const { results, ended } = await run(async () => { throw refusal(404, { kind: "foreign" }); });
  assert.deepEqual(results, [[1, "failed: refused 404"]]);
  assert.equal(ended, "failed");
});

test("what was left out is not done, and cancelling finishes the step that has begun", async () => {
  assert.deepEqual((await run(async () => null, { out: [1, 3] })).results, [[2, "done"]]);
  const { results, ended } = await run(async () => null, { cancelAfter: 1 });
  assert.deepEqual([results, ended], [[[1, "done"]], "cancelled"]);
});

test("what may succeed later is tried again, and ends the plan if it does not", async () => {
  let tries = 0;
  const later = await run(async () => {
    if ((tries += 1) < 3) throw refusal(503, { temporary: true, retryAfter: 7 });
    return null;
  });
  assert.deepEqual([later.pauses, later.ended], [[7, 7], "done"]);
  const never = await run(async () => { throw refusal(0, { temporary: true, retryAfter: null }); });
  assert.deepEqual([never.results, never.ended, never.pauses.length], [[[1, "failed: refused 0"]], "failed", 3]);
});

test("a subject comes after those that refer to it, and stays while one of them does", () => {
  const step = (subject, referrers, action = SOFT) => ({ subject, action, reason: "",
    referrers: referrers.map((each) => ({ subject: each, version: 1 })) });
  const order = (...all) => inOrder(all).map(({ subject, action, reason }) => [subject, action, reason]);
  assert.deepEqual(order(step("base", ["user"]), step("user", [])), [["user", SOFT, ""], ["base", SOFT, ""]]);
  assert.deepEqual(order(step("base", ["other"])), [["base", KEEP, "other version 1 refers to it"]]);
  assert.deepEqual(order(step("base", ["user"]), step("user", ["outside"])).map(([, action]) => action), [KEEP, KEEP]);
  assert.deepEqual(order(step("a", ["a"])), [["a", SOFT, ""]], "references from within go with it");
  assert.equal(order(step("a", ["b"]), step("b", ["a"])).length, 2, "a circle ends");
  assert.deepEqual(tally([...steps, { action: KEEP }], (index) => index === 0), { [KEEP]: 2, [SOFT]: 2 });
});

test("names stay within their quotation marks, and nothing unseen is copied", () => {
  assert.equal(literal('a"\n\u202eb\\'), '"a\\"\\n\\u202eb\\\\"');
  assert.equal(word("orders-value:3"), "orders-value:3");
  assert.equal(word("it's $(rm) `x`"), "'it'\\''s $(rm) `x`'");
  assert.equal(word("a'\u200bb\n\u0001"), "$'a\\'\\u200bb\\n\\u0001'");
  const [filler, tag] = ["\u180b", "\u{e0041}"]; // one of names.js's list, and one beyond sixteen bits
  assert.equal(literal(filler + tag), '"\\u180b\\udb40\\udc41"');
  assert.equal(literal(filler + tag, true), '"\\u180b\\U000e0041"');
  assert.equal(word(filler + tag), "$'\\u180b\\U000e0041'");
  const hidden = textsOf({ kind: "version", subject: tag, version: 1 }, "http://r");
  for (const { id, text } of hidden) assert.ok(!text.includes(tag), id);
  for (const { id, text } of hidden.filter((each) => ["java", "javascript"].includes(each.id)))
    assert.ok(text.includes('"\\udb40\\udc41"'), id);
  for (const { id, text } of hidden.filter((each) => ["python", "go"].includes(each.id)))
    assert.ok(text.includes('"\\U000e0041"'), id);
  const texts = textsOf({ kind: "version", subject: ":.eu:a/b\"'", version: 3 }, "http://r:8081");
  assert.deepEqual(texts.map(({ id }) => id), ["curl", "command", "java", "python", "go", "javascript"]);
  assert.equal(texts[0].text, "curl -s 'http://r:8081/subjects/%3A.eu%3Aa%2Fb%22'\\''/versions/3'");
  for (const { text } of texts.slice(2)) assert.ok(text.includes('":.eu:a/b\\"\'"'), text);
  const body = { schema: "{}", schemaType: "JSON" };
  const draft = { kind: "draft", subject: "s", body: { ...body, metadata: {} } };
  assert.deepEqual(textsOf(draft, "http://r").map(({ id }) => id), ["curl"]);
});

test("what is written can be copied, too", () => {
  const copied = (what, wanted) => textsOf(what, "http://r").find(({ id }) => id === wanted)?.text;
  const level = { kind: "config", scope: "", body: { compatibility: "FULL" } };
  assert.match(copied(level, "curl"), /-X PUT .* '\{"compatibility":"FULL"\}' \\\n {2}http:\/\/r\/config$/s);
  assert.equal(copied(level, "command"), "registrar config set --level FULL --url http://r");
  const members = { kind: "config", scope: ":.eu:", body: { compatibility: null, alias: "it's" } };
  assert.match(copied(members, "command"), /registrar config set --from - :.eu: --url http:\/\/r$/);
  const mode = { kind: "mode", scope: "a b", body: { mode: "READONLY" } };
  assert.match(copied(mode, "curl"), /http:\/\/r\/mode\/a%20b$/);
  assert.equal(copied(mode, "command"), "registrar mode set READONLY 'a b' --url http://r");
  const all = { kind: "deletion", subject: "s", version: null, permanent: false };
  assert.equal(copied(all, "curl"), "curl -s -X DELETE http://r/subjects/s");
  assert.match(copied(all, "python"), /client.delete_subject\("s"\)/);
  const one = { ...all, version: 3, permanent: true };
  assert.equal(copied(one, "command"), "registrar delete s:3 --permanent --url http://r");
  assert.match(copied(one, "curl"), /'http:\/\/r\/subjects\/s\/versions\/3\?permanent=true'$/);
  assert.match(copied(one, "javascript"), /deleteSubjectVersion\("s", 3, true\)/);
  const references = [{ name: "B", subject: "b", version: 2 }];
  const draftOf = { kind: "draft", subject: "s", body: { schema: '{"a":"\\u200b"}', schemaType: "JSON", references } };
  assert.match(copied(draftOf, "python"), /\[SchemaReference\("B", "b", 2\)\]\)\nprint\(client.register_schema\("s", /);
  assert.match(copied(draftOf, "go"), /Type: {3}sr.TypeJSON,\n\t\tReferences: \[\]sr.SchemaReference\{\{Name: "B"/);
});

const draft = { schema: '{"type":"string"}', schemaType: "JSON", references: [], metadata: undefined,
  ruleSet: undefined, base: { subject: "s", version: 3, tag: '"x"', seen: 9 }, verdict: "Valid." };

test("a draft comes out of a link as it went in", async () => {
  const link = await packed(draft);
  assert.match(link, /^[\w-]+$/);
  assert.deepEqual(await unpacked(link), draft);
});

test("what is no draft, or too large, is refused", async () => {
  await assert.rejects(unpacked("nonsense!"), /holds no draft/);
  await assert.rejects(unpacked((await packed(draft)).slice(0, -4)), /holds no draft/);
  await assert.rejects(unpacked(await packed({ ...draft, schema: 7 })), /another version/);
  await assert.rejects(unpacked(await packed({ ...draft, references: [{ name: "x" }] })), /another version/);
  await assert.rejects(unpacked("a".repeat(LINK_MAX + 1)), /too long/);
  let state = 1; // of a generator, because what repeats is compressed
  const next = () => String.fromCharCode(33 + ((state = (state * 48_271) % 2_147_483_647) >> 8) % 90);
  await assert.rejects(packed({ ...draft, schema: Array.from({ length: 80_000 }, next).join("") }), /too large/);
  const large = new Blob([JSON.stringify("0".repeat(3_000_000))]).stream();
  const bomb = large.pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(bomb).arrayBuffer());
  await assert.rejects(unpacked(btoa(Array.from(bytes, (each) => String.fromCharCode(each)).join(""))), /no draft/);
});

test("only the members of a config that were changed are sent", () => {
  const stored = { alias: "other", normalize: true, defaultMetadata: { properties: { a: "b" } } };
  const [alias, , normalize] = MEMBERS;
  assert.deepEqual([textOf(alias, undefined), textOf(normalize, false)], ["", "false"]);
  const same = Object.fromEntries(MEMBERS.map((member) => [member.name, textOf(member, stored[member.name])]));
  assert.deepEqual(changesOf(stored, same), { body: {}, changes: [], faults: {} });
  const { body, changes } = changesOf(stored, { alias: " ", normalize: "false", overrideMetadata: '{"tags": {}}' });
  assert.deepEqual(body, { alias: null, normalize: false, overrideMetadata: { tags: {} } });
  assert.deepEqual(changes[0], { name: "alias", before: "other", after: "" });
  assert.deepEqual(changesOf(null, { validateFields: "true" }).body, { validateFields: true });
  const { faults } = changesOf(null, { defaultRuleSet: "[]", defaultMetadata: "{" });
  assert.equal(faults.defaultRuleSet, "It must be a JSON object.");
  assert.ok(faults.defaultMetadata);
});

test("subjects are deleted, restored or kept by what they hold", () => {
  const row = (more) =>
    ({ subject: "s", version: 3, id: 7, versions: 2, deletedVersions: 1, mode: "READWRITE", ...more });
  const deleted = row({ versions: 0 });
  assert.deepEqual(stepFor(row(), SOFT),
    { subject: "s", version: null, newest: 3, id: 7, action: SOFT, reason: "2 versions" });
  assert.equal(stepFor(deleted, SOFT), null);
  assert.equal(stepFor(row(), PERMANENT), null);
  assert.equal(stepFor(deleted, PERMANENT).reason, "1 version, soft-deleted");
  assert.deepEqual([stepFor(deleted, RESTORE).action, stepFor(deleted, RESTORE).version], [RESTORE, 3]);
  assert.equal(stepFor(row({ mode: "READONLY" }), SOFT).reason, "the mode is READONLY");
  assert.equal(stepFor(row({ alias: "t" }), SOFT).action, KEEP, "a request would reach another subject");
  assert.equal(stepFor(row({ versions: 0, mode: "IMPORT" }), RESTORE).action, KEEP);
});

const EXTENSIONS = new Map([["avsc", "A"], ["json", "J"]]);
const version = (subject, number, more) => ({ subject, version: number, id: 1, schema: "{}", ...more });

test("versions come out of an archive as they went in", async () => {
  const versions = [version(":.eu:a/../b\u202e", 1), version("", 2, { references: [] }), version("x", 1),
    version("gone", 1, { deleted: true })];
  const files = filesOf(versions, { about: {}, extensionOf: () => "avsc" });
  assert.equal(pathOf(versions[0], "f"), "contexts/%2Eeu/subjects/a%2F..%2Fb%E2%80%AE/1/f");
  const inside = await unzipped(await zipped(files), 1e6, (path) => isRead(path, EXTENSIONS));
  assert.deepEqual(versionsIn(inside, EXTENSIONS).map(({ subject, version: number }) => [subject, number]),
    [["", 2], [":.eu:a/../b\u202e", 1], ["x", 1]]);
  assert.deepEqual(versionsIn(new Map([["d/a%2Fb.avsc", "1"], ["notes.txt", ""]]), EXTENSIONS),
    [{ subject: "a/b", version: 1, schema: "1", schemaType: "A" }]);
  assert.throws(() => versionsIn(new Map([["d/entity.json", "[]"]]), EXTENSIONS), /d\/entity.json holds no version/);
  assert.throws(() => versionsIn(new Map([["%.avsc", ""]]), EXTENSIONS), /not named after a subject/);
});

test("an archive is made step by step, and can be given up", async () => {
  const files = new Map(Array.from({ length: 501 }, (_, index) => [`f${index}`, "text ".repeat(index % 60)]));
  const done = [];
  const blob = await zipped(files, { report: (count) => done.push(count) });
  assert.deepEqual(done, [0, 500]);
  assert.deepEqual(await unzipped(blob, 1e6, () => true), files);
  const stopped = new AbortController();
  const report = (count) => count === 500 && stopped.abort();
  await assert.rejects(zipped(files, { signal: stopped.signal, report }), { name: "AbortError" });
});

test("events are listed once, the newest first, and no more than asked for", () => {
  const event = (offset) => ({ offset, kind: "mode_set" });
  const first = merged({ rows: [], most: 3 }, [event(5), event(6)], { begin: 5 });
  assert.deepEqual([first.rows.map(({ offset }) => offset), first.begin], [[6, 5], 5]);
  const [six] = first.rows;
  const next = merged(first, [event(6), event(8), event(7)]);
  assert.deepEqual([next.rows.map(({ offset }) => offset), next.begin], [[8, 7, 6], 6], "there is more before 6");
  assert.equal(next.rows[2], six, "a row stays the object that it was");
  assert.deepEqual(merged(next, [event(5)], { most: 9, begin: null }).rows.at(-1), event(5));
});

test("an archive that is damaged, or larger than it says, is refused", async () => {
  const blob = await zipped(new Map([["a", "text ".repeat(100)]]));
  const all = () => true;
  const bytes = new Uint8Array(await blob.arrayBuffer());
  await assert.rejects(unzipped(blob, 10, all), /too large/);
  await assert.rejects(unzipped(new Blob([bytes.slice(0, -30)]), 1e6, all), /damaged/);
  await assert.rejects(unzipped(new Blob(["no archive"]), 1e6, all), /no archive/);
  const end = bytes.length - 22;
  const central = new DataView(bytes.buffer).getUint32(end + 16, true);
  new DataView(bytes.buffer).setUint32(central + 24, 20, true);
  await assert.rejects(unzipped(new Blob([bytes]), 1e6, all), /damaged/);
});

test("versions are registered after those that they refer to", () => {
  const refers = (subject, ...others) => version(subject, 1, {
    references: others.map((each) => ({ name: each, subject: each, version: 1 })) });
  const order = (...all) => byReferences(all).map(({ subject }) => subject);
  assert.deepEqual(order(refers("a", "b"), refers("b", "c"), refers("c")), ["c", "b", "a"]);
  assert.deepEqual(order(refers(":.x:a", "b"), refers("b"), refers(":.x:b")), [":.x:b", ":.x:a", "b"]);
  assert.deepEqual(order(refers("a", "b"), refers("b", "a")), ["b", "a"], "a circle ends");
});
