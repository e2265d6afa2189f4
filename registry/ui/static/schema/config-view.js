// Config and mode of the top level, of all contexts, or of one context.
import { html, useId } from "../vendor.js";
import { useResource } from "../live/resources.js";
import { navigate, to } from "../router.js";
import { History } from "./history.js";
import { Loaded } from "./loading.js";
import { CONTEXTS } from "./resources.js";
import { labelOf, scopeOf } from "./scopes.js";
import { Settings } from "./settings.js";

const WIDEST = ["", ":.__GLOBAL:"];

/** query: scope, as /scopes names it. */
export default function ConfigView({ query: { scope = "" } }) {
  const id = useId();
  const contexts = useResource(CONTEXTS);
  return html`
    <h1>Config and mode</h1>
    <${Loaded} of=${contexts} what="the contexts">
      ${(names) => {
        const scopes = [...new Set([...WIDEST, ...names.filter((name) => name !== ".").map(scopeOf), scope])];
        return html`
          <p>
            <label for=${id}>Scope</label>${" "}
            <select id=${id} value=${scope}
              onChange=${(event) => navigate(to("/config", { scope: event.target.value }), { replace: true })}>
              ${scopes.map((each) => html`<option key=${each} value=${each}>${labelOf(each)}</option>`)}
            </select>
          </p>`;
      }}
    <//>
    <p><a href="#/contexts">Contexts and their ids</a></p>
    <${Settings} key=${scope} subject=${scope} />
    <section>
      <h2>History</h2>
      <${History} key=${scope} subject=${scope} />
    </section>`;
}
