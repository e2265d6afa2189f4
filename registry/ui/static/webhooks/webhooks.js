// Webhooks: how their deliveries go, with buttons to register, test, move, renew and delete one.
import { plain } from "../names.js";
import { html, useState } from "../vendor.js";
import { get, path, submit } from "../api.js";
import { Badge } from "../components/badge.js";
import { CopyButton } from "../components/copy-button.js";
import { Dialog } from "../components/dialog.js";
import { useLast } from "../components/last.js";
import { Name } from "../components/name.js";
import { Failure, Notice } from "../components/notice.js";
import { Table } from "../components/table.js";
import { count, moment } from "../cluster/units.js";
import { usePolled } from "../live/polled.js";
import { useWrite } from "../schema/writing.js";
import { GuardedButton } from "../session/guarded.js";
import { Refusal, WebhookForm } from "./form.js";
import { PositionForm } from "./position.js";

const WHERE = "/admin/webhooks";
const EVERY_MS = 5000;
const TONES = { delivering: "good", retrying: "warn", stopped: "bad", disabled: "plain" };

export function Webhooks() {
  const { data, error, again } = usePolled((signal) => get(WHERE, { signal }), EVERY_MS);
  const [open, setOpen] = useState(null); // { what: "form", "position", "rotate" or "delete", webhook }
  const [secrets, setSecrets] = useState([]); // new ones, which are shown only once: each until the user has it
  const [outcome, setOutcome] = useState(null); // of the last test
  const close = () => {
    setOpen(null);
    again(); // somebody else may have been faster
  };
  const finish = ({ name, secret }, shown) => {
    if (shown) setOpen(null);
    setOutcome(null);
    if (secret) setSecrets((before) => [...before, { name, secret }]);
    again();
  };
  const begin = useLast();
  const test = async ({ name }) => {
    setOutcome({ name, testing: true });
    const isLast = begin();
    const show = (found) => isLast() && setOutcome({ name, ...found });
    try {
      show({ test: await (await submit("POST", path`/admin/webhooks/${name}/test`)).json() });
    } catch (failure) {
      show({ error: failure });
    }
    again();
  };
  const actions = { test, choose: (what, webhook) => setOpen({ what, webhook }) };
  return html`
    <p class="actions">
      <${GuardedButton} needs="admin" class="primary" onClick=${() => actions.choose("form", null)}>Add a webhook…<//>
      <span class="quiet">Webhooks send each change to another system, signed and in order.</span>
    </p>
    ${secrets.map((each) => html`<${Secret} key=${each.secret} ...${each}
      onClose=${() => setSecrets((before) => before.filter((other) => other !== each))} />`)}
    ${outcome && html`<${Outcome} key=${JSON.stringify(outcome)} outcome=${outcome} />`}
    ${error && html`<${Failure} error=${error} onRetry=${again} />`}
    ${data === null && !error && html`<p class="quiet" role="status">Loading…</p>`}
    ${data?.length === 0 && html`<${Notice} kind="empty" title="No webhooks yet" />`}
    ${data?.length > 0 && html`<${Table} caption="Webhooks" columns=${columns(actions)} rows=${data}
      rowKey=${({ name }) => name} />`}
    ${open?.what === "form" && html`<${WebhookForm} webhook=${open.webhook} onClose=${close} onDone=${finish} />`}
    ${open?.what === "position" &&
      html`<${PositionForm} webhook=${open.webhook} onClose=${close} onDone=${finish} />`}
    ${(open?.what === "rotate" || open?.what === "delete") &&
      html`<${Confirm} what=${open.what} webhook=${open.webhook} onClose=${close} onDone=${finish} />`}`;
}

function columns({ test, choose }) {
  const button = (label, run, more = {}) => (webhook) => html`<${GuardedButton} needs="admin" class="small" ...${more}
    aria-label=${`${label} the webhook ${webhook.name}`} onClick=${() => run(webhook)}>${label}<//>`;
  const buttons = [
    button("Test", test), button("Change…", (webhook) => choose("form", webhook)),
    button("Move…", (webhook) => choose("position", webhook)),
    button("New secret…", (webhook) => choose("rotate", webhook)),
    button("Delete…", (webhook) => choose("delete", webhook), { class: "danger small" }),
  ];
  return [
    { id: "name", title: "Webhook", cell: ({ name, url }) => html`<strong><${Name} plain text=${name} /></strong><br />
      <span class="quiet text">${url}</span>` },
    { id: "state", title: "State", cell: (webhook) => html`<${State} webhook=${webhook} />` },
    { id: "what", title: "Sends", wide: true, cell: ({ kinds, subjectPrefix }) => html`
      ${kinds.length ? kinds.map((kind) => kind.replaceAll("_", " ")).join(", ") : "all events"}${subjectPrefix &&
        html` of subjects with the prefix <${Name} plain text=${subjectPrefix} />`}` },
    { id: "position", title: "Position", numeric: true, cell: ({ position }) => count(position ?? 0) },
    { id: "lag", title: "Pending", numeric: true, cell: ({ lag }) => count(lag ?? 0) },
    { id: "delivered", title: "Delivered", numeric: true, wide: true,
      cell: ({ delivered = 0, failed = 0 }) => `${count(delivered)}${failed ? `, ${count(failed)} failed` : ""}` },
    { id: "actions", title: html`<span class="unseen">Actions</span>`,
      cell: (webhook) => html`<span class="row-actions">${buttons.map((each) => each(webhook))}</span>` },
  ];
}

function State({ webhook: { state, reason, lastError, nextAttempt, lastDelivered, missed, failures } }) {
  return html`
    <${Badge} tone=${TONES[state] ?? "plain"}>${state}<//>
    ${lastError && html`<p class="quiet text">${lastError}${failures > 1 ? ` (${count(failures)} times)` : ""}${
      nextAttempt ? `; next attempt ${moment(nextAttempt)}` : ""}</p>`}
    ${reason && html`<p class="quiet text">${plain(reason)}</p>`}
    ${lastDelivered > 0 && html`<p class="quiet">last delivery ${moment(lastDelivered)}</p>`}
    ${missed > 0 && html`<p><${Badge} tone="bad">missed ${count(missed)} records<//></p>`}`;
}

function Secret({ name, secret, onClose }) {
  return html`
    <${Notice} kind="warning" title="Pass this secret to the receiver now" action="I have it" onAction=${onClose}>
      <p>The secret of <${Name} plain text=${name} /> is shown only once.</p>
      <p class="command"><code class="text">${secret}</code> <${CopyButton} text=${secret} label="Copy the secret" />
      </p>
    <//>`;
}

/** What became of the last test: the receiver's answer, or an error. */
function Outcome({ outcome: { name, test, testing, error } }) {
  if (error) return html`<${Failure} error=${error} />`;
  if (testing) return html`<p role="status">Sending a test event to <${Name} plain text=${name} />…</p>`;
  const { delivered, status, error: reason, took_ms: took } = test;
  return html`
    <${Notice} kind=${delivered ? "info" : "error"}
      title=${delivered ? "The test event was delivered" : "The test event was not delivered"}>
      <p><${Name} plain text=${name} />: ${status === null ? "no answer" : `answer ${status}`} after ${count(took)}
        ms${reason ? html`, <${Name} plain text=${reason} />` : ""}.</p>
    <//>`;
}

const CONFIRMED = {
  rotate: {
    title: "Create a new secret?", label: "Create it", method: "POST",
    where: ({ name }) => path`/admin/webhooks/${name}/rotate`,
    text: "Deliveries are signed with the new secret at once; for 24 hours they also carry a signature by the old one.",
  },
  delete: {
    title: "Delete this webhook?", label: "Delete it", method: "DELETE",
    where: ({ name }) => path`/admin/webhooks/${name}`,
    text: "Nothing is sent to the receiver any more. Its position is forgotten.",
  },
};

function Confirm({ what, webhook, onClose, onDone }) {
  const { busy, error, run } = useWrite(onDone);
  const { title, label, method, where, text } = CONFIRMED[what];
  const change = () => run(async () => {
    const answer = await submit(method, where(webhook), { tag: webhook.etag });
    const { secret } = answer.status === 204 ? {} : await answer.json();
    return { name: webhook.name, secret };
  });
  return html`
    <${Dialog} title=${title} onClose=${onClose}
      footer=${html`<button onClick=${onClose}>Keep it as it is</button>
        <button class="danger" disabled=${busy} onClick=${change}>${label}</button>`}>
      <p><${Name} plain text=${webhook.name} /></p>
      <p>${text}</p>
      ${error && html`<${Refusal} error=${error} />`}
    <//>`;
}
