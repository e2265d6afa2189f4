// Config and mode of the top level, of all contexts, or of one context.
import { html, useId } from "../vendor.js";
import { useResource } from "../live/resources.js";
import { plain } from "../names.js";
import { useMoment } from "../moment/moment.js";
import { navigate, to } from "../router.js";
import { History } from "./history.js";
import { Loaded } from "./loading.js";
import { CONTEXTS } from "./resources.js";
import { labelOf, scopeOf } from "./scopes.js";
import { PastSettings } from "./past-settings.js";
import { Settings } from "./settings.js";

const wordsOf = (scope) => (scope === "" || scope.endsWith(":") ? labelOf(scope) : plain(scope));
const WIDEST = ["", ":.__GLOBAL:"];

/** query: scope, as /scopes names it. */
export default function ConfigView({ query: { scope = "" } }) {
  const id = useId();
  const at = useMoment();
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
              ${scopes.map((each) => html`<option key=${each} value=${each}>${wordsOf(each)}</option>`)}
            </select>
          </p>`;
      }}
    <//>
    ${at === null
      ? html`<p><a href="#/contexts">Contexts and their ids</a></p><${Settings} key=${scope} subject=${scope} />`
      : html`<p class="quiet">The scopes to choose from are those of today.</p>
        <${PastSettings} key=${`${at} ${scope}`} scope=${scope} at=${at} />`}
    <section>
      <h2>History</h2>
      <${History} key=${scope} subject=${scope} undo=${at === null} />
    </section>`;
}
