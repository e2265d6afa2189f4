// Metrics of the last minutes, a line for each node.
import { html } from "../vendor.js";
import { LineChart } from "./line-chart.js";

const FIGURES = [
  { title: "Requests per second", of: (sample) => sample.rate, digits: 1 },
  { title: "Mean response time, ms", of: (sample) => sample.latencyMs, digits: 2 },
  { title: "Records not yet applied", of: (sample) => sample.lag, digits: 0 },
];

export function Figures({ samples, nodes }) {
  return html`
    <section class="figures" aria-label="Metrics of the last minutes">
      ${FIGURES.map(({ title, of, digits }) => html`
        <${LineChart} key=${title} title=${title} digits=${digits}
          series=${nodes.map((node) => ({
            name: node.url,
            points: (samples.get(node.url) ?? []).map((sample) => [sample.time, of(sample)]),
          }))} />`)}
    </section>`;
}
