// Restores a soft-deleted version: registers its schema again, which keeps its id and gets the next version number.
import { html, useState } from "../vendor.js";
import { path, send } from "../api.js";
import { Dialog } from "../components/dialog.js";
import { Name } from "../components/name.js";
import { Failure } from "../components/notice.js";
import { navigate, to } from "../router.js";
import { GuardedButton } from "../session/guarded.js";
import { useLoaded } from "./loading.js";
import { bodyOf, versionOf } from "./reading.js";
import { latestOf } from "./resources.js";
import { Overtaken, useWrite } from "./writing.js";

export function Restore({ subject, versions, number, refusal, onDone }) {
  const [chosen, setChosen] = useState(null); // as it was when the dialog was opened
  const offered = versions.some((each) => each.number === number && each.deleted);
  return html`
    ${offered && html`<${GuardedButton} needs="write" refusal=${refusal}
      onClick=${() => setChosen({ subject, number })}>Restore…<//>`}
    ${chosen && html`<${Confirm} ...${chosen} onClose=${() => setChosen(null)}
      onDone=${(shown) => { if (shown) setChosen(null); onDone(); }} />`}`;
}

function Confirm({ subject, number, onClose, onDone }) {
  const seen = useLoaded((signal) => latestOf(subject, signal), [subject]);
  const writing = useWrite((found, shown) => {
    onDone(shown);
    if (shown) navigate(to`/subjects/${subject}/versions/${found.version}`);
  });
  const run = () => writing.run(async (tag) => {
    const body = bodyOf(await versionOf(subject, number));
    return send("POST", path`/subjects/${subject}/versions`, { body, tag });
  }, seen.value, () => latestOf(subject));
  return html`
    <${Dialog} title=${`Restore version ${number}`} onClose=${onClose}
      footer=${html`<button class="primary" disabled=${!seen.value || writing.busy} onClick=${run}>Restore</button>`}>
      <p>The schema of version ${number} of <${Name} text=${subject} /> is registered again. It keeps its id and becomes
        the next version; the registry checks its compatibility like that of any new version.</p>
      <p class="quiet">To restore its former number, use <code>registrar undelete</code>.</p>
      ${seen.error && html`<${Failure} error=${seen.error} onRetry=${seen.reload} />`}
      ${writing.error && html`<${Failure} error=${writing.error} />`}
      <${Overtaken} subject=${subject} writing=${writing} />
    <//>`;
}
