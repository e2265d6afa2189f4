// Registers a webhook, or changes one.
import { html, useState } from "../vendor.js";
import { ApiError, get, path, send } from "../api.js";
import { KINDS } from "../activity/events.js";
import { Dialog } from "../components/dialog.js";
import { Name } from "../components/name.js";
import { Failure } from "../components/notice.js";

const CHANGED = 412;
const MEMBERS = ["url", "kinds", "subjectPrefix", "enabled"];

/** webhook: the one to change, null for a new one; names: of all. onDone({ name, secret }). */
export function WebhookForm({ webhook, names, onClose, onDone }) {
  const [name, setName] = useState("");
  const [url, setUrl] = useState(webhook?.url ?? "");
  const [prefix, setPrefix] = useState(webhook?.subjectPrefix ?? "");
  const [kinds, setKinds] = useState(webhook?.kinds ?? []);
  const [enabled, setEnabled] = useState(webhook?.enabled ?? true);
  const [from, setFrom] = useState("");
  const [{ busy, error }, setState] = useState({});
  const submit = async (event) => {
    event.preventDefault();
    setState({ busy: true });
    try {
      const where = path`/admin/webhooks/${webhook?.name ?? name}`;
      const body = { url, kinds, subjectPrefix: prefix, enabled };
      if (webhook) await checkUnchanged(where, webhook);
      else checkAbsent(name, names);
      onDone(await send("PUT", where, { body: webhook || from === "" ? body : { ...body, from: Number(from) } }));
    } catch (failure) {
      setState({ error: failure });
    }
  };
  const choose = (kind, chosen) =>
    setKinds((before) => (chosen ? [...before, kind] : before.filter((each) => each !== kind)));
  return html`
    <${Dialog} title=${webhook ? "Change the webhook" : "Add a webhook"} onClose=${onClose}>
      <form class="stack" onSubmit=${submit}>
        ${webhook ? html`<p><${Name} plain text=${webhook.name} /></p>` : html`
          <label>Name <input required autofocus autocomplete="off" spellcheck=${false} value=${name}
            onInput=${(event) => setName(event.currentTarget.value)} /></label>`}
        <label>Address of the receiver <input required type="url" placeholder="https://" spellcheck=${false}
          value=${url} onInput=${(event) => setUrl(event.currentTarget.value)} /></label>
        <label>Only subjects with the prefix <input value=${prefix} placeholder="all" spellcheck=${false}
          onInput=${(event) => setPrefix(event.currentTarget.value)} /></label>
        <details open=${kinds.length > 0}>
          <summary>Events: ${kinds.length ? `${kinds.length} kinds` : "all"}</summary>
          ${Object.entries(KINDS).map(([kind, word]) => html`
            <label class="choice" key=${kind}><input type="checkbox" checked=${kinds.includes(kind)}
              onChange=${(event) => choose(kind, event.currentTarget.checked)} /> ${word}</label>`)}
        </details>
        ${!webhook && html`<label>First event, as an offset of the log <input class="number" inputmode="numeric"
          pattern="[0-9]*" placeholder="now" value=${from}
          onInput=${(event) => setFrom(event.currentTarget.value)} /></label>`}
        <label class="choice"><input type="checkbox" checked=${enabled}
          onChange=${(event) => setEnabled(event.currentTarget.checked)} /> Enabled</label>
        ${error && html`<${Failure} error=${error} />`}
        <p class="actions"><button class="primary" disabled=${busy}>${webhook ? "Change it" : "Add it"}</button></p>
      </form>
    <//>`;
}

/** Fails if the webhook is not what the form began with; the registry itself has no conditions for webhooks. */
async function checkUnchanged(where, webhook) {
  const now = await get(where);
  if (MEMBERS.some((each) => JSON.stringify(now[each]) !== JSON.stringify(webhook[each]))) {
    throw new ApiError("refused", "Somebody else has changed it in the meantime. Open it again.", { status: CHANGED });
  }
}

function checkAbsent(name, names) {
  if (names.includes(name)) {
    throw new ApiError("refused", "There is a webhook with this name.", { status: CHANGED });
  }
}
