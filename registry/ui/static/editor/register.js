// Registers a draft, and shows what it became.
import { html, useState } from "../vendor.js";
import { path, send } from "../api.js";
import { Failure, Notice } from "../components/notice.js";
import { formatOf } from "../formats.js";
import { refusedBy } from "../schema/harm.js";
import { bodyOf } from "../schema/reading.js";
import { latestOf } from "../schema/resources.js";
import { VersionLink } from "../schema/version-link.js";
import { Overtaken, useWrite } from "../schema/writing.js";
import { reasonOf } from "./reason.js";

/**
 * draft: what `check` takes; target: what TARGET holds of its subject; base: { tag, seen } of the
 * latest version when the draft was begun; reason: why the user may not write, empty if they
 * may; ready: false while it is not valid; compatible: at the level in force; onDone(version) after the registration.
 */
export function Register({ draft, target, base, reason, ready, compatible, onDone }) {
  const [normalize, setNormalize] = useState(false);
  const { subject } = draft;
  const refused = refusedBy(target?.mode, "registered");
  const writing = useWrite(onDone);
  const run = () => {
    const query = { normalize: normalize || undefined };
    writing.run(async (tag) => {
      const body = bodyOf(draft);
      return { subject, ...(await send("POST", path`/subjects/${subject}/versions`, { body, query, tag })) };
    }, base, () => latestOf(subject));
  };
  return html`
    <section class="register">
      <div class="row">
        <button class="primary"
          disabled=${!subject || reason !== "" || refused !== "" || !ready || !base || compatible === false
            || writing.busy}
          onClick=${run}>Register</button>
        <label><input type="checkbox" checked=${normalize}
          onChange=${(event) => setNormalize(event.target.checked)} /> normalize</label>
        <span class="quiet">${hint({ draft, target, reason: reason || refused, ready, compatible })}</span>
      </div>
      ${(draft.metadata || draft.ruleSet) &&
        html`<p class="quiet">The metadata and rules of the version that it began with are registered with it.</p>`}
      ${writing.done && html`
        <${Notice} kind="info" title="Registered">
          <p><${VersionLink} subject=${writing.done.subject} version=${writing.done.version} />,
            id ${writing.done.id}</p>
        <//>`}
      ${writing.error && html`<${Failure} error=${shortened(writing.error)} />`}
      <${Overtaken} subject=${subject} writing=${writing}>
        ${target?.latest && html`<p>The latest version is now <${VersionLink} subject=${target.latest.subject}
          version=${target.latest.version} />. The verdicts are about it.</p>`}
      <//>
    </section>`;
}

function hint({ draft: { subject, schemaType }, target, reason, ready, compatible }) {
  const { level, latest } = target ?? {};
  if (!subject) return "Enter a subject to register the schema.";
  if (reason) return reason;
  if (!ready) return "";
  if (latest && formatOf(latest).name !== schemaType) {
    return `The latest version is of the type ${formatOf(latest).name}, this text is ${schemaType}.`;
  }
  return compatible === false
    ? `It is incompatible at ${level}, the effective level, so the registry would refuse it.` : "";
}

function shortened(error) {
  if (error.code === 42201) error.message = reasonOf(error.message);
  return error;
}
