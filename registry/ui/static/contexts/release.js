// Releases reserved ids that no version has, so that new schemas can get them.
import { html, useState } from "../vendor.js";
import { send } from "../api.js";
import { Dialog } from "../components/dialog.js";
import { Name } from "../components/name.js";
import { Failure } from "../components/notice.js";
import { count } from "../cluster/units.js";
import { useWrite } from "../schema/writing.js";

const ID_MAX = 2_147_483_647;

/** entry: { context, highest, reserved } of GET /admin/ids. onDone(shown) after the release, see `useWrite`. */
export function Release({ entry: { context, highest, reserved }, onClose, onDone }) {
  const [from, setFrom] = useState(String(Math.min(ID_MAX, highest + 1)));
  const [to, setTo] = useState(String(ID_MAX));
  const { busy, error, run } = useWrite((_, shown) => onDone(shown));
  const [first, last] = [Number(from), Number(to)];
  const isRange = Number.isInteger(first) && Number.isInteger(last) && first >= 1 && first <= last && last <= ID_MAX;
  const release = () => run(() => send("POST", "/admin/ids/release", { body: { context, from: first, to: last } }));
  const field = (label, value, change) => html`<label>${label} <input inputmode="numeric" value=${value}
    onInput=${(event) => change(event.currentTarget.value)} /></label>`;
  return html`
    <${Dialog} title="Release reserved ids?" onClose=${onClose}
      footer=${html`<button onClick=${onClose}>Keep them</button>
        <button class="danger" disabled=${busy || !isRange} onClick=${release}>Release them</button>`}>
      <p>Context ${context === "." ? "default" : html`<${Name} plain text=${context} />`}: versions have ids up to
        ${" "}${count(highest)}, and ids up to ${count(reserved)} are reserved.</p>
      <div class="stack">${field("From", from, setFrom)}${field("To", to, setTo)}</div>
      <p>New schemas can then get ids that deleted versions had, so release only ids that no message uses any more. It
        is refused while a version has one of them, also a soft-deleted one.</p>
      ${error && html`<${Failure} error=${error} />`}
    <//>`;
}
