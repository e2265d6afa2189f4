// Registers a draft, and shows what it became.
import { html, useState } from "../vendor.js";
import { path, send } from "../api.js";
import { Failure, Notice } from "../components/notice.js";
import { VersionLink } from "../schema/version-link.js";
import { reasonOf } from "./reason.js";

/**
 * draft: what `check` takes; reason: why the user may not write, empty if they may; ready: false while it is not valid.
 */
export function Register({ draft, reason, ready, compatible, level, onDone }) {
  const [normalize, setNormalize] = useState(false);
  const [state, setState] = useState({});
  const { subject } = draft;
  const run = async () => {
    setState({ busy: true });
    try {
      const { schema, schemaType, references, metadata, ruleSet } = draft;
      const body = { schema, schemaType, references, metadata, ruleSet };
      const found =
        await send("POST", path`/subjects/${subject}/versions`, { body, query: { normalize: normalize || undefined } });
      setState({ found: { subject, ...found } });
      onDone();
    } catch (error) {
      setState({ error });
    }
  };
  return html`
    <section class="register">
      <div class="row">
        <button class="primary" disabled=${!subject || reason !== "" || !ready || state.busy}
          onClick=${run}>Register</button>
        <label><input type="checkbox" checked=${normalize}
          onChange=${(event) => setNormalize(event.target.checked)} /> normalize</label>
        <span class="quiet">${hint({ subject, reason, ready, compatible, level })}</span>
      </div>
      ${(draft.metadata || draft.ruleSet) &&
        html`<p class="quiet">The metadata and rules of the version that it began with are registered with it.</p>`}
      ${state.found && html`
        <${Notice} kind="info" title="Registered">
          <p><${VersionLink} subject=${state.found.subject} version=${state.found.version} />, id ${state.found.id}</p>
        <//>`}
      ${state.error && html`<${Failure} error=${shortened(state.error)} />`}
    </section>`;
}

function hint({ subject, reason, ready, compatible, level }) {
  if (!subject) return "Enter a subject to register the schema.";
  if (reason) return reason;
  if (!ready) return "";
  return compatible === false
    ? `It is incompatible at ${level}, the effective level, so the registry will refuse it.` : "";
}

function shortened(error) {
  if (error.code === 42201) error.message = reasonOf(error.message);
  return error;
}
