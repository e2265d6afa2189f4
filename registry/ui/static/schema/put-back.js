// Undoes an event of the history: puts back the config or mode of before, or registers again what was deleted.
import { html, useRef, useState } from "../vendor.js";
import { replacedBy } from "../activity/events.js";
import { ApiError, get, path, send } from "../api.js";
import { Dialog } from "../components/dialog.js";
import { Name } from "../components/name.js";
import { Failure } from "../components/notice.js";
import { GuardedButton } from "../session/guarded.js";
import { levelOf } from "./changes.js";
import { consequencesOf } from "./harm.js";
import { Loaded, useLoaded } from "./loading.js";
import { getAt } from "./moment.js";
import { bodyOf, versionOf } from "./reading.js";
import { inheritedBy, latestOf, scopesOf, settingOf } from "./resources.js";
import { contextOf, scopeOf } from "./scopes.js";
import { Overtaken, useWrite } from "./writing.js";

const VERSIONS_MAX = 50;
const NEEDS = { config: "config", mode: "mode", version: "write", subject: "write" };

/** The button at an event of the history of a subject or scope. older, whole: as for `replacedBy`. */
export function PutBack({ subject, event, older, whole, refusal }) {
  const [open, setOpen] = useState(false);
  const replaced = replacedBy(event, older, whole);
  if (replaced === null) return null;
  const { what, old } = replaced;
  return html`
    <${GuardedButton} class="small" needs=${NEEDS[what]} refusal=${refusal} onClick=${() => setOpen(true)}>
      Put back${old ? ` ${old}` : ""}…<//>
    ${open && html`<${Confirm} subject=${subject} event=${event} what=${what} old=${old}
      onClose=${() => setOpen(false)} />`}`;
}

function Confirm({ subject, event, what, old, onClose }) {
  const setting = what === "config" || what === "mode";
  const found = useLoaded(
    (signal) => (setting ? settingBefore(subject, event, what, old, signal) : lostBy(subject, event, signal)),
    [subject, event.offset],
  );
  const writing = useWrite((_, shown) => shown && onClose());
  const now = useRef(null); // what is replaced: all its members, also those of a change that came in between
  const done = useRef(new Set()); // versions that were registered again, if somebody else came in between
  const look = async () => {
    const seen = await (setting ? settingOf(subject, what) : latestOf(subject));
    now.current = seen.value;
    return seen;
  };
  const run = () => {
    now.current = found.value.now;
    writing.run(
      setting ? (tag) => restoreSetting(what, { ...found.value, now: now.current }, tag)
        : (tag) => registerAgain(subject, found.value.lost, tag, done.current),
      found.value.seen, look,
    );
  };
  return html`
    <${Dialog} title="Put back what was there before" onClose=${onClose}
      footer=${html`<button class="primary" disabled=${!found.value || writing.busy} onClick=${run}>Put back</button>`}>
      <${Loaded} of=${found} what="what was there before">
        ${(value) => (setting ? html`<${Before} subject=${subject} what=${what} found=${value} />`
          : html`<${Lost} lost=${value.lost} />`)}
      <//>
      ${writing.error && html`<${Failure} error=${writing.error} />`}
      <${Overtaken} subject=${subject} writing=${writing}>
        ${done.current.size > 0 && html`<p>These versions were registered again before that:
          ${" "}${[...done.current].join(", ")}. The others are still to come.</p>`}
      <//>
    <//>`;
}

function Before({ subject, what, found: { then, now, inForce } }) {
  const shown = (value) => (value === null ? "nothing of its own" : JSON.stringify(value));
  return html`
    <dl class="facts">
      <dt>Before</dt><dd><code class="wrap">${shown(then)}</code></dd>
      <dt>Now</dt><dd><code class="wrap">${shown(now)}</code></dd>
    </dl>
    ${then === null && html`<p>The ${what} is removed, so that the one of the wider scope applies again:
      ${" "}<strong>${inForce ?? "you may not see it"}</strong>.</p>`}
    ${then?.alias && html`<p><strong>Clients that name this subject will read and write
      ${" "}<${Name} text=${then.alias} /> instead.</strong></p>`}
    <ul>${[...consequencesOf(subject, what === "config" ? "level" : what, inForce),
      ...(now?.alias && !then?.alias ? consequencesOf(subject, "alias", null) : [])]
      .map((each) => html`<li key=${each}>${each}</li>`)}</ul>`;
}

function Lost({ lost }) {
  const gone = lost.filter(({ readable }) => !readable);
  return html`
    <p>${lost.length === 1 ? "This schema is" : "These schemas are"} registered again, as the next
      ${lost.length === 1 ? " version" : " versions"}. The registry checks ${lost.length === 1 ? "its" : "their"}
      ${" "}compatibility like that of any new version.</p>
    <ul>${lost.map(({ version, id, readable }) => html`<li key=${version}>version ${version}, ${readable
      ? `id ${id}` : html`<strong>with a new id</strong>`}</li>`)}</ul>
    ${gone.length > 0 && html`<p><strong>An id that was deleted permanently is never used again.</strong> Messages
      with ${gone.length === 1 ? "the id" : "the ids"} ${gone.map(({ id }) => id).join(", ")} stay unreadable.</p>`}`;
}

async function orNone(answer) {
  try {
    return await answer;
  } catch (error) {
    if (error.notFound) return null;
    throw error;
  }
}

async function settingBefore(subject, event, what, old, signal) {
  const seen = await settingOf(subject, what, signal);
  const where = subject ? `/${what}${path`/${subject}`}` : `/${what}`;
  const at = String(event.offset - 1);
  const then = old === "none" ? null : await orNone(getAt(at, where, {}, signal));
  // It is shown with the server's level where none was stored.
  if (then && old === "no level") delete then.compatibilityLevel;
  const wider = then ?? inheritedBy(await scopesOf(signal, subject), what);
  const inForce = what === "mode" ? wider.mode : wider.compatibilityLevel && levelOf(wider);
  return { then, now: seen.value, seen, where, inForce };
}

function restoreSetting(what, { then, now, where }, tag) {
  if (then === null) return send("DELETE", where, { tag });
  if (what === "mode") return send("PUT", where, { body: { mode: then.mode }, tag });
  const body = { ...Object.fromEntries(Object.keys(now ?? {}).map((name) => [name, null])), ...then };
  const { compatibilityLevel, ...rest } = body;
  return send("PUT", where,
    { body: compatibilityLevel === undefined ? rest : { ...rest, compatibility: compatibilityLevel }, tag });
}

async function lostBy(subject, { kind, offset, version }, signal) {
  const at = String(offset - 1);
  const seen = await latestOf(subject, signal);
  const numbers = kind === "subject_soft_deleted"
    ? await getAt(at, path`/subjects/${subject}/versions`, {}, signal)
    : [version];
  if (numbers.length > VERSIONS_MAX) {
    throw new ApiError("refused", `${numbers.length} versions are too many for this page: use registrar undelete.`);
  }
  const lost = [];
  for (const number of numbers) {
    const each = await versionOf(subject, number, signal, undefined, at);
    lost.push({ ...each, readable: await isReadable(subject, each.id, signal) });
  }
  return { lost, seen };
}

/** True if a schema still has its id: then a registration keeps it. */
async function isReadable(subject, id, signal) {
  const query = { subject: scopeOf(contextOf(subject)) };
  return (await orNone(get(path`/schemas/ids/${id}`, { query, signal }))) !== null;
}

/** done: the versions that were registered already; more are added. */
async function registerAgain(subject, lost, tag, done) {
  let condition = tag;
  for (const each of lost.filter(({ version }) => !done.has(version))) {
    const body = bodyOf(each);
    const made = await send("POST", path`/subjects/${subject}/versions`, { body, tag: condition });
    done.add(each.version);
    const { latest, tag: next } = await latestOf(subject);
    // Another version is the latest: somebody has registered one in between.
    if (done.size < lost.length && latest?.version !== made.version) {
      throw new ApiError("refused", "Changed in the meantime", { status: 412 });
    }
    condition = next;
  }
}
