// Restores a soft-deleted version: registers its schema again, which keeps its id and gets the next version number.
import { html, useState } from "../vendor.js";
import { path, send } from "../api.js";
import { Dialog } from "../components/dialog.js";
import { Failure } from "../components/notice.js";
import { navigate, to } from "../router.js";
import { GuardedButton } from "../session/guarded.js";
import { bodyOf, versionOf } from "./reading.js";

export function Restore({ subject, versions, number, refusal, onDone }) {
  const [open, setOpen] = useState(false);
  if (!versions.some((each) => each.number === number && each.deleted)) return null;
  return html`
    <${GuardedButton} needs="write" refusal=${refusal} onClick=${() => setOpen(true)}>Restore…<//>
    ${open && html`<${Confirm} subject=${subject} number=${number} onClose=${() => setOpen(false)}
      onDone=${() => { setOpen(false); onDone(); }} />`}`;
}

function Confirm({ subject, number, onClose, onDone }) {
  const [state, setState] = useState({});
  const run = async () => {
    setState({ busy: true });
    try {
      const lost = await versionOf(subject, number);
      const found = await send("POST", path`/subjects/${subject}/versions`, { body: bodyOf(lost) });
      onDone();
      navigate(to`/subjects/${subject}/versions/${found.version}`);
    } catch (error) {
      setState({ error });
    }
  };
  return html`
    <${Dialog} title=${`Restore version ${number}`} onClose=${onClose}
      footer=${html`<button class="primary" disabled=${state.busy} onClick=${run}>Register it again</button>`}>
      <p>The schema of version ${number} of <span class="name wrap">
        ${subject}</span> is registered again. It keeps its id and becomes
        the next version; the registry checks its compatibility like that of any new version.</p>
      <p class="quiet">To restore its former number, use <code>registrar undelete</code>.</p>
      ${state.error && html`<${Failure} error=${state.error} />`}
    <//>`;
}
