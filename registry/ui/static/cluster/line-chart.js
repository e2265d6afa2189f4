// A small line chart: a line for each series over the last minutes. Its numbers are also shown as text.
import { html, useId } from "../vendor.js";
import { Name } from "../components/name.js";

const [WIDTH, HEIGHT, TOP] = [320, 96, 6];
const COLORS = 6; // styles of lines in the style sheet
const SPAN_MS = 10 * 60_000;

/** series: [{ name, points: [[time, value or null], …] }], the oldest point first. */
export function LineChart({ title, series, digits }) {
  const id = useId();
  const times = series.flatMap(({ points }) => points.map(([time]) => time));
  const end = Math.max(...times);
  const begin = Math.max(Math.min(...times), end - SPAN_MS);
  const most = niceMaximum(Math.max(0, ...series.flatMap(({ points }) => points.map(([, value]) => value ?? 0))));
  const x = (time) => (end > begin ? ((time - begin) / (end - begin)) * WIDTH : WIDTH);
  const y = (value) => HEIGHT - (value / most) * (HEIGHT - TOP);
  return html`
    <figure class="chart">
      <figcaption id=${id}>${title}</figcaption>
      <svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-labelledby=${id}>
        <line class="axis" x1="0" y1=${HEIGHT - 0.5} x2=${WIDTH} y2=${HEIGHT - 0.5} />
        <line class="axis" x1="0" y1=${TOP} x2=${WIDTH} y2=${TOP} />
        ${times.length > 0 && series.map(({ name, points }, index) => html`
          <polyline key=${name} class=${`line line-${index % COLORS}`} points=${pointsOf(points, x, y)} />`)}
      </svg>
      <p class="range quiet">0 to ${most}${times.length > 1
        ? `, over ${Math.max(1, Math.round((end - begin) / 60_000))} min` : ""}</p>
      <ul class="legend">
        ${series.map(({ name, points }, index) => html`
          <li key=${name}><span class=${`swatch line-${index % COLORS}`} aria-hidden="true"></span>
            <${Name} plain text=${name} /> <strong>${shown(points.at(-1)?.[1], digits)}</strong></li>`)}
      </ul>
    </figure>`;
}

function pointsOf(points, x, y) {
  return points.filter(([, value]) => value !== null)
    .map(([time, value]) => `${x(time).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
}

/** The least of 1, 2, 5, 10, … that is not below a value. */
export function niceMaximum(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((each) => each * power).find((each) => each >= value);
}

function shown(value, digits) {
  return value === undefined || value === null ? "–" : value.toFixed(digits);
}
