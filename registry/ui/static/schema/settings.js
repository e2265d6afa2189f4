// Config and mode of a subject, a context or the top level: what is in force, where it comes from, and how to change
// it.
import { html, useState } from "../vendor.js";
import { path, send } from "../api.js";
import { Badge } from "../components/badge.js";
import { Name } from "../components/name.js";
import { Failure } from "../components/notice.js";
import { CopyAs } from "../copy-as/copy-as.js";
import { useResource } from "../live/resources.js";
import { to } from "../router.js";
import { usePermitted } from "../session/permitted.js";
import { LEVELS, USED_LEVELS, levelOf } from "./changes.js";
import { Harm, consequencesOf, refusing } from "./harm.js";
import { Loaded } from "./loading.js";
import { Alias } from "./alias.js";
import { FILLED, SCOPES, inheritedBy, settingOf } from "./resources.js";
import { labelOf } from "./scopes.js";
import { Overtaken, useWrite } from "./writing.js";

const MODES = {
  READWRITE: "schemas can be registered and deleted",
  READONLY: "nothing can be registered or deleted, and the config cannot be changed",
  READONLY_OVERRIDE: "the same as READONLY",
  IMPORT: "clients register schemas with ids and versions of their choice",
  FORWARD: "the same as IMPORT, for all contexts",
};

const HOLDS = "needs a scope without subjects that are not deleted";

/** subject: a subject, a context as :.ctx:, or empty for the top level. onChanged(), if given, after each change. */
export function Settings({ subject, onChanged }) {
  const scopes = useResource(SCOPES, subject);
  const permitted = usePermitted(subject);
  const refusal = refusing(permitted, scopes.value?.mode);
  const changed = () => {
    scopes.reload();
    onChanged?.();
  };
  return html`
    <${Loaded} of=${scopes} what="config and mode">
      ${(found) => html`
        <${Setting} key=${`level ${subject}`} title="Compatibility level" what="level" subject=${subject} found=${found}
          refused=${refusal("config")} onDone=${changed} />
        <${Setting} key=${`mode ${subject}`} title="Mode" what="mode" subject=${subject} found=${found}
          refused=${refusal("mode")} onDone=${changed} />
        ${subject !== "" && !subject.endsWith(":") && html`
          <${Alias} key=${`alias ${subject}`} subject=${subject} found=${found} refused=${refusal("config")}
            onDone=${changed} />`}
        <${Rest} config=${found.config} origins=${found.origins} />
        <p><a href=${`#${to("/config/members", { scope: subject })}`}>All members of the config</a></p>`}
    <//>`;
}

const KINDS = {
  level: {
    values: [...Object.keys(LEVELS), ...USED_LEVELS],
    inForce: ({ config }) => levelOf(config),
    stored: ({ config }) => config && levelOf(config),
    fallback: ({ defaultLevel }) => `the server's setting compatibility (${defaultLevel})`,
    where: (subject) => (subject ? path`/config/${subject}` : "/config"),
    body: (value) => ({ compatibility: value }),
    inherited: (config) => config.compatibilityLevel && levelOf(config),
    what: "config",
  },
  mode: {
    values: Object.keys(MODES),
    notOffered: "FORWARD", // no more than IMPORT
    inForce: ({ mode }) => mode,
    stored: ({ mode }) => mode,
    fallback: () => "READWRITE, the default",
    where: (subject) => (subject ? path`/mode/${subject}` : "/mode"),
    body: (value) => ({ mode: value }),
    inherited: ({ mode }) => mode,
    what: "mode",
  },
};

function Setting({ title, what, subject, found, refused, onDone }) {
  const kind = KINDS[what];
  const value = kind.inForce(found);
  // What the user has chosen and not set yet, and what was there when it was chosen.
  const [picked, setPicked] = useState(null);
  const chosen = picked?.value ?? value;
  const shown = { tag: found.scopes[0].etags?.[kind.what], seen: found.seen };
  const writing = useWrite(() => {
    setPicked(null);
    onDone();
  });
  const filled = useResource(what === "mode" ? FILLED : null, subject).value ?? false;
  const [asking, setAsking] = useState(null); // the consequences to confirm, and the change
  const off = refused !== "";
  const own = kind.stored(found.scopes[0]) ?? null;
  const change = (method, body) => writing.run(
    (tag) => send(method, kind.where(subject), { body, tag }),
    picked ?? shown,
    () => settingOf(subject, kind.what),
  );
  const { scope } = found.scopes[0];
  /** after: what is in force then, null if the user may not see it. */
  const ask = (question, after, run) => {
    const consequences = after === null ? [] : consequencesOf(scope, what, after);
    if (consequences.length) setAsking({ question, consequences, run });
    else run();
  };
  const remove = () => {
    const after = kind.inherited(inheritedBy(found, kind.what)) ?? null;
    ask(`Remove ${own}, so that ${after} applies?`, after, () => change("DELETE"));
  };
  return html`
    <section class="setting">
      <h2>${title}: <${Badge} tone="accent">${value}<//></h2>
      <${Origin} kind=${kind} found=${found} />
      <form class="row"
        onSubmit=${(event) => {
          event.preventDefault();
          ask(`Set ${chosen} for ${labelOf(scope)}?`, chosen, () => change("PUT", kind.body(chosen)));
        }}>
        <label>${title} of ${labelOf(scope)}${" "}
          <select value=${chosen} disabled=${off || writing.busy}
            onChange=${(event) => setPicked({ value: event.target.value, ...shown })}>
            ${kind.values.filter((each) => each !== kind.notOffered || each === value)
              .map((each) =>
                html`<option key=${each} value=${each} disabled=${filled && each === "IMPORT" && each !== value}>
                  ${each}${what === "mode" ? `: ${filled && each === "IMPORT" ? HOLDS : MODES[each]}` : ""}</option>`)}
          </select>
        </label>
        <button class="primary" disabled=${off || writing.busy || chosen === own}>Set</button>
        <button type="button" disabled=${off || writing.busy || own === null}
          onClick=${remove}>Remove and inherit</button>
        <${CopyAs} small what=${{ kind: kind.what, scope: subject, body: kind.body(chosen) }} />
      </form>
      ${refused && html`<p class="quiet">${refused}</p>`}
      <p role="status">${writing.done ? "Changed." : ""}</p>
      ${writing.error && html`<${Failure} error=${writing.error} />`}
      ${asking && html`
        <${Harm} scope=${scope} title=${asking.question} consequences=${asking.consequences}
          onClose=${() => setAsking(null)} onConfirm=${() => { setAsking(null); asking.run(); }} />`}
      <${Overtaken} subject=${subject} writing=${writing}>
        <p>Now it is <strong>${value}</strong>; you chose <strong>${chosen}</strong>.</p>
      <//>
    </section>`;
}

/** Lists the scopes in the order in which the registry looks; the first with a value decides. */
function Origin({ kind, found }) {
  const deciding = found.scopes.findIndex((each) => !each.hidden && hasAny(kind, each));
  const unknown = found.scopes.some((each, index) => each.hidden && (deciding < 0 || index < deciding));
  return html`
    <ol class="origin">
      ${found.scopes.map((each, index) => html`
        <li key=${each.scope} class=${index === deciding && !unknown ? "current" : null}>
          ${labelOf(each.scope)}: ${each.hidden
            ? html`<span class="quiet">you may not see it</span>` : kind.stored(each) ??
            html`<span class="quiet">
              ${hasAny(kind, each) ? "stored without a value: the server's setting" : "not set"}</span>`}
          ${index === deciding && !unknown && html` <${Badge} tone="good">effective<//>`}
        </li>`)}
      <li class=${deciding < 0 && !unknown ? "current" : null}>
        ${kind.fallback(found)}${deciding < 0 && !unknown && html` <${Badge} tone="good">effective<//>`}</li>
    </ol>`;
}

function hasAny(kind, scope) {
  return kind === KINDS.mode ? scope.mode !== null : scope.config !== null;
}

/**
 * Shows the other members of the config in force as they are. origins, if given: the scope of each. alias: true to show
 * that one, too.
 */
export function Rest({ config, origins = {}, alias: withAlias = false }) {
  const { compatibilityLevel, compatibilityUsed, alias, ...others } = config;
  const rest = withAlias && alias ? { alias, ...others } : others;
  if (!Object.keys(rest).length) return null;
  const origin = (name) => name in origins && html` <span class="quiet">from ${labelOf(origins[name])}</span>`;
  return html`
    <section>
      <h2>Other effective config</h2>
      <dl class="facts">
        ${Object.entries(rest)
          .map(([name, value]) =>
            html`<dt key=${name}>${name}</dt><dd>
              <${Name} plain text=${typeof value === "string" ? value : JSON.stringify(value)} />
              ${origin(name)}</dd>`)}</dl>
    </section>`;
}
