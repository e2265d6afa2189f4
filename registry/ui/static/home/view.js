// Home: is the registry well, what has changed, and what deserves a look.
import { html } from "../vendor.js";
import { ChooseMoment } from "../moment/choose.js";
import { usePermitted } from "../session/permitted.js";
import { useSession } from "../session/session.js";
import { Health, Readiness, usePolledState } from "./health-line.js";
import { News } from "./news.js";
import { Refusals } from "./refusals.js";
import { Duplicates, Unused } from "./unneeded.js";

export default function Home() {
  const { me } = useSession();
  const isAdmin = usePermitted()("admin") === "";
  if (me === null) return html`<h1>Home</h1><p class="quiet" role="status">Loading…</p>`;
  return isAdmin ? html`<${OfAdmins} me=${me} />` : html`<${Page} me=${me} health=${html`<${Readiness} />`} />`;
}

function OfAdmins({ me }) {
  const polled = usePolledState();
  const { data, error } = polled;
  return html`<${Page} me=${me} isAdmin health=${html`<${Health} polled=${polled} />`}
    refusals=${(data || !error) && html`<${Refusals} metrics=${data?.metrics} />`} />`;
}

function Page({ me, health, refusals, isAdmin = false }) {
  return html`<div class="home">
    <h1>Home</h1>
    ${health}
    <div class="cards">
      <${News} key=${me.principal} principal=${me.principal} />
      ${refusals}
      <${Unused} />
      ${isAdmin && html`<${Duplicates} />`}
      <section class="card" aria-label="Look back">
        <h2>Look back</h2>
        <p class="quiet">Show subjects, config and mode as they were.</p>
        <${ChooseMoment} />
      </section>
    </div></div>`;
}
