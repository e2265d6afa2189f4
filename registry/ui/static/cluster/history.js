// The last minutes of the nodes: samples for the figures, nodes that are gone, and what has happened meanwhile.

const KEPT_MS = 10 * 60_000;
const SAMPLES_MAX = 300; // of each node
const NODES_MAX = 50;
const SILENT_S = 7; // a node reports every two seconds, and its report passes through the primary

/** True if a node has not been heard of for too long. */
export function isSilent(node) {
  return node.age_s > SILENT_S;
}

/** A function of a node: the records of the log that it has not applied yet. */
export function lagOf(nodes) {
  const end = Math.max(0, ...nodes.map((node) => node.end));
  return (node) => Math.max(0, end - node.applied);
}

/**
 * A function of a node: "equal" or "different" digests among the nodes at its offset, "unknown" if it is alone there,
 * null if it is the only node.
 */
export function digestsOf(nodes) {
  const found = new Map();
  for (const node of nodes) {
    if (!isSilent(node)) found.set(node.applied, [...(found.get(node.applied) ?? []), node.digest]);
  }
  return (node) => {
    if (nodes.length < 2) return null;
    const there = isSilent(node) ? [] : found.get(node.applied);
    if (there.length < 2) return "unknown";
    return there.every((digest) => digest === there[0]) ? "equal" : "different";
  };
}

/** What a page has learned of a cluster since it was opened; bounded. */
export class ClusterHistory {
  /** samples: by URL, arrays of { time, rate, latencyMs, lag }, the oldest first. */
  samples = new Map();
  #counters = new Map(); // by URL: { at, started, requests, requestS } of the last report
  #known = new Map(); // by URL: { node, at } of the last answer that had it
  #primary = null;
  #silent = new Set();
  #keys = 0;

  /** Take an answer of GET /admin/cluster; returns what has happened since the one before: [{ key, time, text }]. */
  add(cluster, now) {
    const lag = lagOf(cluster.nodes);
    for (const node of cluster.nodes) this.#sample(node, lag(node), now);
    return [...this.#newsOfPrimary(cluster, now), ...this.#newsOfNodes(this.with(cluster.nodes, now), now)];
  }

  /** The nodes of an answer, with those that it lacks but earlier ones had, and the rate of requests of each. */
  with(nodes, now) {
    for (const node of nodes) this.#known.set(node.url, { node, at: now });
    for (const [url, { at }] of this.#known) {
      if (now - at > KEPT_MS || this.#known.size > NODES_MAX) this.#known.delete(url);
    }
    return [...this.#known.values()]
      .map(({ node, at }) =>
        ({ ...node, age_s: node.age_s + (now - at) / 1000, rate: this.samples.get(node.url)?.at(-1)?.rate ?? null }))
      .sort((a, b) => (a.url < b.url ? -1 : 1));
  }

  #sample(node, lag, now) {
    const at = now - node.age_s * 1000;
    const before = this.#counters.get(node.url);
    if (before && at - before.at < 500) return; // the same report again
    this.#counters.set(node.url, { at, started: node.started_ms, requests: node.requests, requestS: node.request_s });
    if (!before || before.started !== node.started_ms || node.requests < before.requests) return;
    const requests = node.requests - before.requests;
    const samples = this.samples.get(node.url) ?? [];
    samples.push({
      time: at,
      rate: requests / ((at - before.at) / 1000),
      latencyMs: requests ? Math.max(0, (1000 * (node.request_s - before.requestS)) / requests) : null,
      lag,
    });
    while (samples.length > SAMPLES_MAX || (samples.length && now - samples[0].time > KEPT_MS)) samples.shift();
    this.samples.set(node.url, samples);
    if (this.samples.size > NODES_MAX) this.samples.delete(this.samples.keys().next().value);
  }

  #newsOfPrimary({ primary, nodes }, now) {
    const epoch = nodes.find((node) => node.url === primary && node.role === "primary")?.epoch ?? -1;
    const before = this.#primary;
    if (primary && epoch < 0 && before?.primary !== primary) return []; // the next report has the epoch
    this.#primary = { primary, epoch: primary ? epoch : before?.epoch };
    if (before === null || (before.primary === primary && (before.epoch === epoch || !primary))) return [];
    const text = primary ? `${primary} is the primary, epoch ${epoch}` : "There is no primary";
    return [{ key: (this.#keys += 1), time: now, text }];
  }

  #newsOfNodes(nodes, now) {
    const news = [];
    for (const node of nodes) {
      const silent = isSilent(node);
      if (silent === this.#silent.has(node.url)) continue;
      if (silent) this.#silent.add(node.url);
      else this.#silent.delete(node.url);
      news.push({ key: (this.#keys += 1), time: now, text: `${node.url} ${silent ? "does not answer" : "is back"}` });
    }
    return news;
  }
}
