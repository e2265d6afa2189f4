// Registers a webhook, or changes one.
import { html, useState } from "../vendor.js";
import { path, send } from "../api.js";
import { KINDS } from "../activity/events.js";
import { Dialog } from "../components/dialog.js";
import { Name } from "../components/name.js";
import { Failure, Notice } from "../components/notice.js";
import { useWrite } from "../schema/writing.js";

/** webhook: the one to change, as the form began with it; null for a new one. onDone({ name, secret }, shown). */
export function WebhookForm({ webhook, onClose, onDone }) {
  const [name, setName] = useState("");
  const [url, setUrl] = useState(webhook?.url ?? "");
  const [prefix, setPrefix] = useState(webhook?.subjectPrefix ?? "");
  const [kinds, setKinds] = useState(webhook?.kinds ?? []);
  const [enabled, setEnabled] = useState(webhook?.enabled ?? true);
  const [from, setFrom] = useState("");
  const { busy, error, run } = useWrite(onDone);
  const submit = (event) => {
    event.preventDefault();
    const where = path`/admin/webhooks/${webhook?.name ?? name}`;
    const known = { url, kinds, subjectPrefix: prefix, enabled };
    const body = webhook || from === "" ? known : { ...known, from: Number(from) };
    run(() => send("PUT", where, { body, tag: webhook ? webhook.etag : null }));
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
        ${error && html`<${Refusal} error=${error} />`}
        <p class="actions"><button class="primary" disabled=${busy}>${webhook ? "Change it" : "Add it"}</button></p>
      </form>
    <//>`;
}

const CHANGED = 412;

/** error: of a change of a webhook, which is not what the user has seen if the status says so. */
export function Refusal({ error }) {
  if (error.status !== CHANGED) return html`<${Failure} error=${error} />`;
  return html`<${Notice} kind="warning" title="Changed in the meantime">
    <p>Nothing was written: somebody else has created, changed or deleted this webhook. Close this and look at it
      again.</p><//>`;
}
