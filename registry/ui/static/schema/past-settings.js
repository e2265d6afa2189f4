// Config and mode of a subject or scope as they were.
import { html } from "../vendor.js";
import { Badge } from "../components/badge.js";
import { levelOf } from "./changes.js";
import { Loaded, useLoaded } from "./loading.js";
import { settingsAt } from "./moment.js";
import { Rest } from "./settings.js";

/** scope: as /scopes names it, or a subject; at: the offset. Shown: what was in force, wherever it was set. */
export function PastSettings({ scope, at }) {
  const found = useLoaded((signal) => settingsAt(scope, at, signal), [scope, at]);
  return html`<${Loaded} of=${found} what="config and mode">
    ${(settings) => html`<${InForce} ...${settings} />`}<//>`;
}

/** config, mode: in force. */
export function InForce({ config, mode }) {
  return html`
    <h2>Compatibility level: <${Badge} tone="accent">${levelOf(config)}<//></h2>
    <h2>Mode: <${Badge} tone="accent">${mode}<//></h2>
    <${Rest} config=${config} alias />`;
}
