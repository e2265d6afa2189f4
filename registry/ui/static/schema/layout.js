// Places the boxes of a reference graph: referrers to the left of a schema, what it refers to on the right.

const WIDTH = 230;
const HEIGHT = 44;
const COLUMN = WIDTH + 90;
const ROW = HEIGHT + 14;
const MARGIN = 12;

/**
 * Returns `width`, `height`, `boxes` (a place for each node, in the given order) and `lines` (an SVG path for each
 * edge).
 *
 * `nodes`: each with a `depth`, negative for referrers, 0 for the schema itself. `edges`: pairs of indexes, from the
 * schema that refers to the one that it refers to.
 */
export function placed(nodes, edges) {
  const columns = columnsOf(nodes, edges);
  const tallest = Math.max(1, ...[...columns.values()].map((each) => each.length));
  const first = Math.min(...columns.keys());
  const boxes = [];
  for (const [depth, members] of columns) {
    const top = MARGIN + ((tallest - members.length) * ROW) / 2;
    members.forEach((node, row) => {
      boxes[node] = { x: MARGIN + (depth - first) * COLUMN, y: top + row * ROW, width: WIDTH, height: HEIGHT };
    });
  }
  const span = Math.max(...columns.keys()) - first;
  return {
    width: 2 * MARGIN + span * COLUMN + WIDTH,
    height: 2 * MARGIN + tallest * ROW - (ROW - HEIGHT),
    boxes,
    lines: edges.map(([from, to]) => line(boxes[from], boxes[to])),
  };
}

/** Returns the nodes of each depth, near their neighbors in the column closer to the middle. */
function columnsOf(nodes, edges) {
  const columns = new Map();
  nodes.forEach(({ depth }, index) => columns.set(depth, [...(columns.get(depth) ?? []), index]));
  const neighbors = nodes.map(() => []);
  for (const [from, to] of edges) {
    neighbors[from].push(to);
    neighbors[to].push(from);
  }
  const rank = new Map();
  const outward = [...columns.keys()].sort((one, other) => Math.abs(one) - Math.abs(other) || one - other);
  for (const depth of outward) {
    const weight = new Map(columns.get(depth).map((node) => [node, mean(neighbors[node], rank)]));
    const members = [...columns.get(depth)].sort((one, other) => weight.get(one) - weight.get(other) || one - other);
    members.forEach((node, row) => rank.set(node, row - members.length / 2));
    columns.set(depth, members);
  }
  return columns;
}

function mean(nodes, rank) {
  const known = nodes.filter((each) => rank.has(each));
  return known.length ? known.reduce((sum, each) => sum + rank.get(each), 0) / known.length : 0;
}

/** Returns a curve from the right edge of one box to the left edge of another, or around if they are in one column. */
function line(from, to) {
  const [x, y] = [from.x + from.width, from.y + from.height / 2];
  const [left, v] = [to.x, to.y + to.height / 2];
  if (left <= from.x) {
    const out = x + 40;
    return `M ${x} ${y} C ${out} ${y}, ${out} ${v}, ${to.x + to.width} ${v}`;
  }
  const middle = (x + left) / 2;
  return `M ${x} ${y} C ${middle} ${y}, ${middle} ${v}, ${left} ${v}`;
}
