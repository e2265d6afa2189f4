// Moves a webhook: what it receives next.
import { html, useState } from "../vendor.js";
import { path, send } from "../api.js";
import { Dialog } from "../components/dialog.js";
import { Name } from "../components/name.js";
import { count } from "../cluster/units.js";
import { useWrite } from "../schema/writing.js";
import { Refusal } from "./form.js";

/** onDone({ name }, shown) after it was moved, see `useWrite`. */
export function PositionForm({ webhook: { name, position, lag, etag }, onClose, onDone }) {
  const [offset, setOffset] = useState("");
  const { busy, error, run } = useWrite((_, shown) => onDone({ name }, shown));
  const move = (wanted) => run(() =>
    send("POST", path`/admin/webhooks/${name}/position`, { body: { offset: wanted }, tag: etag }));
  return html`
    <${Dialog} title="Move the webhook" onClose=${onClose}>
      <p><${Name} plain text=${name} /> has received everything before the offset ${count(position ?? 0)}; ${count(lag
        ?? 0)} records are pending.</p>
      <form class="actions" onSubmit=${(event) => { event.preventDefault(); move(Number(offset)); }}>
        <label>Continue at the offset <input class="number" required autofocus inputmode="numeric" pattern="[0-9]*"
          value=${offset} onInput=${(event) => setOffset(event.currentTarget.value)} /></label>
        <button class="primary" disabled=${busy || offset === ""}>Move</button>
      </form>
      <p class="quiet">At an earlier offset, the receiver gets events again. At a later one, it never gets those in
        between.</p>
      <p><button class="danger" disabled=${busy || !lag} onClick=${() => move("now")}>Skip all pending</button></p>
      ${error && html`<${Refusal} error=${error} />`}
    <//>`;
}
