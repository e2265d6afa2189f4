// Samples in the text format of Prometheus, as far as GET /metrics uses it.

const LINE = /^([a-zA-Z_]+)(?:\{(.*)\})? (\S+)$/;
const LABEL = /([a-zA-Z_]+)="((?:[^"\\]|\\.)*)"/g;
const ESCAPED = { "\\n": "\n", '\\"': '"', "\\\\": "\\" };

/** Returns the samples of one metric: [{ labels, value }]. */
export function samplesOf(text, metric) {
  const found = [];
  for (const line of text.split("\n")) {
    if (!line.startsWith(metric)) continue;
    const [, name, labels = "", value] = LINE.exec(line) ?? [];
    if (name === metric) found.push({ labels: labelsOf(labels), value: Number(value) });
  }
  return found;
}

function labelsOf(text) {
  const pairs = [...text.matchAll(LABEL)];
  const plain = (value) => value.replace(/\\[n"\\]/g, (each) => ESCAPED[each]);
  return Object.fromEntries(pairs.map(([, name, value]) => [name, plain(value)]));
}

const PROBES = /^\/_?health/; // they are refused as long as a node starts

/** Returns what was refused most, the most frequent first: [{ method, route, status, count }]. */
export function refusedMost(text, limit) {
  return samplesOf(text, "registrar_http_requests_total")
    .filter(({ labels, value }) => Number(labels.status) >= 400 && value > 0 && !PROBES.test(labels.route))
    .map(({ labels: { method, route, status }, value }) => ({ method, route, status: Number(status), count: value }))
    .sort((one, other) => other.count - one.count)
    .slice(0, limit);
}
