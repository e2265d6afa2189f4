// Home: is the registry well, what has changed, and what deserves a look.
import { html } from "../vendor.js";
import { ChooseMoment } from "../moment/choose.js";
import { usePermitted } from "../session/permitted.js";
import { useSession } from "../session/session.js";
import { Health, Readiness } from "./health-line.js";
import { News } from "./news.js";
import { Refusals } from "./refusals.js";
import { Duplicates, Unused } from "./unneeded.js";

export default function Home() {
  const { me } = useSession();
  const isAdmin = usePermitted()("admin") === "";
  if (me === null) return html`<h1>Home</h1><p class="quiet" role="status">Loading…</p>`;
  return html`<div class="home">
    <h1>Home</h1>
    ${isAdmin ? html`<${Health} />` : html`<${Readiness} />`}
    <div class="cards">
      <${News} key=${me.principal} principal=${me.principal} />
      ${isAdmin && html`<${Refusals} />`}
      <${Unused} />
      ${isAdmin && html`<${Duplicates} />`}
      <section class="card" aria-label="Look back">
        <h2>Look back</h2>
        <p class="quiet">Show subjects, config and mode as they were.</p>
        <${ChooseMoment} />
      </section>
    </div></div>`;
}
