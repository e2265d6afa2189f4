// Healthy or not, in one line; for administrators with each check.
import { html } from "../vendor.js";
import { get, getText } from "../api.js";
import { Badge } from "../components/badge.js";
import { Name } from "../components/name.js";
import { Failure, KEPT_INSIDE } from "../components/notice.js";
import { usePolled } from "../live/polled.js";
import { checksOf, worstOf } from "./health.js";

const EVERY_MS = 10_000;
/** What administrators see of the registry, asked again and again: { cluster, metrics }. */
export function usePolledState() {
  return usePolled(async (signal) => {
    const [cluster, metrics] = await Promise.all([
      get("/admin/cluster", { signal }), orNull(getText("/metrics", { signal })),
    ]);
    return { cluster, metrics };
  }, EVERY_MS);
}

const WORDS = { good: "Healthy", warn: "Needs attention", bad: "Not healthy" };

/** polled: what `usePolledState` returned. */
export function Health({ polled: { data: state, error, again } }) {
  if (error?.keptInside) {
    return html`<${Readiness} />
      <p class="quiet">The state of the nodes cannot be read from here. ${KEPT_INSIDE}</p>`;
  }
  if (error) return html`<${Failure} error=${error} onRetry=${again} />`;
  if (state === null) return html`<p class="quiet" role="status">Checking…</p>`;
  const data = checksOf(state, Date.now());
  const worst = worstOf(data);
  const faults = data.filter(({ tone }) => tone === "warn" || tone === "bad");
  return html`
    <section class="health" aria-label="Health">
      <p class="health-line" role="status"><${Badge} tone=${worst}>${WORDS[worst]}<//>${" "}
        ${faults.length
          ? faults.map(({ name, text }) => html`<span key=${name}>${name}: <${Name} plain text=${text} />. </span>`)
          : html`<span>Primary <${Name} plain text=${data[0].text} />; ${said(data)}.</span>`}</p>
      <details>
        <summary>All checks</summary>
        <dl class="checks">${data.map(({ name, tone, text, path }) => html`
          <dt key=${name}><a href=${`#${path}`}>${name}</a></dt>
          <dd><${Badge} tone=${tone}>${tone === "plain" ? "–" : tone}<//> <${Name} plain text=${text} /></dd>`)}</dl>
      </details>
    </section>`;
}

const SAID = ["Readiness", "Lag", "Backups", "Files", "Certificates"];

function said(checks) {
  return checks.filter(({ name }) => SAID.includes(name))
    .map(({ name, text }) => `${name === "Readiness" ? "" : `${name.toLowerCase()}: `}${text}`).join("; ");
}

async function orNull(answer) {
  try {
    return await answer;
  } catch (error) {
    if (error.name === "AbortError" || error.status === 401) throw error;
    return null; // such as a proxy that keeps it inside
  }
}

/** What everybody may know: if the registry can be used. */
export function Readiness() {
  const { data, error, again } = usePolled((signal) => get("/health/ready", { signal }), EVERY_MS);
  if (error && error.status !== 503) return html`<${Failure} error=${error} onRetry=${again} />`;
  if (data === null && !error) return html`<p class="quiet" role="status">Checking…</p>`;
  const tone = error ? "bad" : data.ready_for_writes ? "good" : "warn";
  const text = { good: "Schemas can be read and registered.", warn: "Schemas can be read. Registrations wait.",
    bad: "The registry is not ready." };
  return html`<p class="health-line" role="status"><${Badge} tone=${tone}>${WORDS[tone]}<//> ${text[tone]}</p>`;
}
