// Is the registry well? Checks of what administrators may see, with thresholds as `registrar doctor` and the alerts
// have them.
import { digestsOf, isSilent, lagOf } from "../cluster/history.js";
import { ago, count, duration } from "../cluster/units.js";
import { samplesOf } from "./metrics.js";

const LAG_RECORDS = 1000;
const STORE_FULL = 0.8;
const SOON_S = 30 * 86_400;

/**
 * Returns the checks: [{ name, tone: "good", "plain", "warn" or "bad", text, path }].
 *
 * cluster: the answer of GET /admin/cluster; metrics: of GET /metrics, a text or null; now: in ms.
 */
export function checksOf({ cluster, metrics }, now) {
  return [
    primary(cluster), readiness(cluster.nodes), lag(cluster.nodes), stores(cluster.nodes), quarantine(cluster.nodes),
    backups(cluster, now), files(cluster.nodes), certificates(metrics),
  ];
}

const RANKS = ["good", "plain", "warn", "bad"];

/** Returns the worst tone of the checks. */
export function worstOf(checks) {
  const rank = Math.max(0, ...checks.map(({ tone }) => RANKS.indexOf(tone)));
  return rank < 2 ? "good" : RANKS[rank];
}

function check(name, tone, text, path = "/cluster") {
  return { name, tone, text, path };
}

function primary({ primary: url, problem }) {
  if (url) return check("Primary", "good", url);
  return check("Primary", "bad", ["none is known, so writes wait", problem].filter(Boolean).join(": "));
}

function readiness(nodes) {
  const faults = nodes.flatMap((node) => {
    if (isSilent(node)) return [`${node.url} does not answer`];
    if (!node.ready) return [`${node.url} is not ready: ${node.reasons.join("; ")}`];
    return node.ready_for_writes
      ? [] : [`${node.url} is not ready for writes: ${node.reasons_for_writes.join("; ")}`];
  });
  if (faults.length) return check("Readiness", "bad", faults.join("; "));
  return check("Readiness", "good", nodes.length === 1 ? "the node is ready" : `all ${nodes.length} nodes are ready`);
}

function lag(nodes) {
  const most = Math.max(0, ...nodes.map(lagOf(nodes)));
  return check("Lag", most > LAG_RECORDS ? "warn" : "good", most ? `up to ${count(most)} records` : "none");
}

function stores(nodes) {
  const different = nodes.filter((node) => digestsOf(nodes)(node) === "different");
  if (different.length) {
    return check("Stores", "bad", `they differ at one offset: ${different.map(({ url }) => url).join(", ")}`);
  }
  const full = nodes.filter((node) => node.store_bytes / node.store_map_bytes > STORE_FULL);
  if (full.length) return check("Stores", "warn", `nearly full: ${full.map(({ url }) => url).join(", ")}`);
  return check("Stores", "good", nodes.length === 1 ? "not full" : "equal, not full");
}

function quarantine(nodes) {
  const most = Math.max(0, ...nodes.map(({ quarantined }) => quarantined));
  const text = most ? `${count(most)} ${most === 1 ? "record" : "records"} of the log could not be read` : "empty";
  return check("Quarantine", most ? "warn" : "good", text, "/cluster/quarantine");
}

function backups({ snapshot_ms: newest, failed_snapshot_ms: failed }, now) {
  const where = "/cluster/snapshots";
  if (newest === undefined) return check("Backups", "plain", "unknown", where); // a node of an older version
  const age = newest ? `the newest snapshot is ${ago(newest, now)} old` : "no snapshot";
  if (failed > newest) {
    return check("Backups", "warn", `the last snapshot failed; ${age}`, where);
  }
  return check("Backups", newest ? "good" : "plain", age, where);
}

function files(nodes) {
  const faults = nodes.flatMap(({ url, invalid_files: invalid }) => invalid.map((each) => `${url}: ${each}`));
  return check("Files", faults.length ? "bad" : "good", faults.length ? faults.join("; ") : "valid");
}

function certificates(metrics) {
  if (metrics === null) return check("Certificates", "plain", "unknown");
  const found = samplesOf(metrics, "registrar_certificate_expiry_seconds");
  if (!found.length) return check("Certificates", "good", "none are used");
  const first = found.reduce((one, other) => (other.value < one.value ? other : one));
  const name = first.labels.file;
  if (first.value <= 0) return check("Certificates", "bad", `${name} has expired`);
  const tone = first.value < SOON_S ? "warn" : "good";
  return check("Certificates", tone, `the first expires in ${duration(first.value)} (${name})`);
}
