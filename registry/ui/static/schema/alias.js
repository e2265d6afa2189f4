// The alias of a subject: another subject that answers for its name.
import { html, useState } from "../vendor.js";
import { path, send } from "../api.js";
import { Name } from "../components/name.js";
import { Failure } from "../components/notice.js";
import { useResource } from "../live/resources.js";
import { href } from "../router.js";
import { Harm, consequencesOf } from "./harm.js";
import { TARGET, settingOf } from "./resources.js";
import { Overtaken, useWrite } from "./writing.js";

/** found: the answer of `/scopes`; refused: why the user may not change it, empty if they may. */
export function Alias({ subject, found, refused, onDone }) {
  const { config, etags } = found.scopes[0];
  const stored = config?.alias ?? "";
  const [picked, setPicked] = useState(null); // what was typed, and what was there when typing began
  const [asking, setAsking] = useState(false);
  const typed = picked?.text ?? stored;
  const writing = useWrite(() => {
    setPicked(null);
    onDone();
  });
  const off = refused !== "";
  const type = (text) => setPicked((before) => (before ? { ...before, text }
    : { text, stored, tag: etags?.config, seen: found.seen }));
  const run = () => {
    setAsking(false);
    writing.run((tag) => send("PUT", path`/config/${subject}`, { body: { alias: typed || null }, tag }), picked,
      () => settingOf(subject, "config"));
  };
  return html`
    <section class="setting">
      <h2>Alias</h2>
      <p>${stored ? html`Requests for this name are answered by <a href=${href`/subjects/${stored}`}><${Name}
        text=${stored} /></a>.` : "None: this subject answers for itself."}</p>
      <form class="row" onSubmit=${(event) => { event.preventDefault(); setAsking(true); }}>
        <label>Alias of this subject <input value=${typed} disabled=${off} readonly=${writing.busy}
          spellcheck="false" autocomplete="off"
          onInput=${(event) => type(event.currentTarget.value)} /></label>
        <button class="primary" disabled=${off || writing.busy || typed === stored || typed === subject}>
          ${typed || !stored ? "Set" : "Remove"}</button>
      </form>
      ${refused && html`<p class="quiet">${refused}</p>`}
      <p role="status">${writing.done ? "Changed." : ""}</p>
      ${writing.error && html`<${Failure} error=${writing.error} />`}
      ${asking && html`
        <${Harm} scope=${subject} title=${typed ? "Set this alias?" : "Remove the alias?"}
          consequences=${consequencesOf(subject, "alias", typed || null)} onClose=${() => setAsking(false)}
          onConfirm=${run}>
          ${typed && html`<${Target} name=${typed} />`}
          ${config === null && html`<p>This subject had no config of its own. From now on its own config counts, and
            wider scopes only for a few members
            (<a href=${`#/config/members?scope=${encodeURIComponent(subject)}`}>which
            ones</a>).</p>`}
        <//>`}
      <${Overtaken} subject=${subject} writing=${writing}>
        <p>The alias is now <${Name} text=${stored || "none"} />; you entered <${Name} text=${typed || "none"} />.</p>
      <//>
    </section>`;
}

/** Says if the subject that is to answer has versions. */
function Target({ name }) {
  const { value, error } = useResource(TARGET, name);
  if (error || !value) return null;
  return value.own
    ? html`<p class="quiet">It has ${value.own} ${value.own === 1 ? "version" : "versions"}.</p>`
    : html`<p><strong>It has no versions: reads of this subject will fail.</strong></p>`;
}
