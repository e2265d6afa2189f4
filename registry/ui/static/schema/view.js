// A subject: its versions, and all about one of them.
import { html, useRef, useState } from "../vendor.js";
import { CopyButton } from "../components/copy-button.js";
import { Name } from "../components/name.js";
import { Notice } from "../components/notice.js";
import { Tabs } from "../components/tabs.js";
import { CopyAs } from "../copy-as/copy-as.js";
import { useKeys } from "../keys.js";
import { useResource } from "../live/resources.js";
import { navigate, to } from "../router.js";
import { GuardedButton } from "../session/guarded.js";
import { usePermitted } from "../session/permitted.js";
import { Askers } from "../usage/askers.js";
import { Answer } from "./answer.js";
import { Comparison } from "./comparison.js";
import { DeleteDialog } from "./delete-dialog.js";
import { Details } from "./details.js";
import { Facts, LeadsTo } from "./facts.js";
import { refusing } from "./harm.js";
import { History } from "./history.js";
import { Loaded } from "./loading.js";
import { Past } from "./past.js";
import { References } from "./references.js";
import { HISTORY, VERSION, VERSIONS } from "./resources.js";
import { Settings } from "./settings.js";
import { VersionText } from "./text.js";
import { useEntry } from "./timeline.js";
import { Restore } from "./undelete.js";
import { Usage } from "./usage.js";
import { Versions, numberOf, useSteps } from "./versions.js";

/**
 * params: subject, version (optional); query: view (a tab), form, deleted, at (an offset); see `Comparison` for others.
 */
export default function SchemaView({ params: { subject, version }, query }) {
  const address = version ? to`/subjects/${subject}/versions/${version}` : to`/subjects/${subject}`;
  const change = (changes) => navigate(to(address, { ...query, ...changes }), { replace: true });
  return html`
    <div class="schema-head">
      <h1><${Name} text=${subject} /></h1>
      <${CopyButton} text=${subject} label="Copy the subject's name" />
    </div>
    <${query.at ? Past : Present} subject=${subject} wanted=${version} query=${query} onChange=${change} />`;
}

function Present({ subject: asked, wanted, query, onChange }) {
  const listed = useResource(VERSIONS, asked);
  return html`
    ${listed.error?.notFound && html`<${Before} subject=${asked} />`}
    <${Loaded} of=${listed} what="the versions">
      ${(found) => html`
        <${Subject} asked=${asked} wanted=${wanted} ...${found} query=${query}
          onChange=${onChange} onWritten=${listed.reload} />`}
    <//>`;
}

/** Leads to what a subject was that does not exist any more. */
function Before({ subject }) {
  const { value } = useResource(HISTORY, subject, 1);
  if (!value?.events.length) return null;
  return html`
    <section>
      <h2>History</h2>
      <${History} subject=${subject} />
    </section>`;
}

/** asked: the name in the address; subject: the one that answers for it, which is what is changed here. */
function Subject({ asked, subject, wanted, versions, older, details, query, onChange, onWritten }) {
  const live = versions.filter(({ deleted }) => !deleted);
  const number = numberOf(wanted, live[0] ?? versions[0]);
  // What the dialog deletes, as it was when it was opened: somebody else may register a version, or set an alias.
  const [doomed, setDoomed] = useState(null);
  const permitted = usePermitted(subject);
  const refusal = subject !== asked && details?.alias ? () => "The subject that answers has an alias itself."
    : refusing(permitted, details?.mode);
  useSteps(asked, versions, number, query);
  useKeys("Schema", [
    { keys: "e", does: "Try a new version", run: () => navigate(to("/try", { subject, version: number })) },
  ]);
  const choose = (chosen) => setDoomed({ subject, number: chosen, versions });
  const written = (permanent, shown) => {
    if (!shown) {
      onWritten();
      return;
    }
    const gone = doomed.number === null || versions.every((each) => each.number === doomed.number);
    setDoomed(null);
    if (permanent && gone) {
      navigate("/subjects");
      return;
    }
    if (permanent) navigate(to`/subjects/${subject}`);
    onWritten();
  };
  if (!versions.length) return html`<${Notice} kind="empty" title="It has no version">
    ${subject !== asked && html`<p><${LeadsTo} asked=${asked} subject=${subject} /></p>`}<//>`;
  return html`
    <div class="actions">
      <a class="button" href=${`#${to("/try", { subject, version: number })}`}>Try a new version</a>
      <a class="button" href=${`#${to`/usage/subjects/${subject}`}`}>Usage</a>
      <${CopyAs} what=${{ kind: "version", subject, version: number }} />
      <${Restore} subject=${subject} versions=${versions} number=${number} refusal=${refusal} onDone=${onWritten} />
      <${GuardedButton} needs="delete" refusal=${refusal} class="danger" onClick=${() => choose(number)}>Delete
        version ${number}…<//>
      <${GuardedButton} needs="delete" refusal=${refusal} class="danger" onClick=${() => choose(null)}>Delete the
        subject…<//>
    </div>
    <div class="schema">
      <${Versions} subject=${asked} versions=${versions} older=${older} current=${number} query=${query}
        onChange=${onChange} />
      ${older > 0 || versions.some((each) => each.number === number)
        ? html`<${Version} key=${asked} subject=${asked} number=${number} versions=${versions} details=${details}
          query=${query} onChange=${onChange} onWritten=${onWritten} />`
        : html`<${Notice} kind="empty" title=${`Version ${number} does not exist`} />`}
    </div>
    ${doomed && html`<${DeleteDialog} ...${doomed} associated=${details?.associations > 0}
      onClose=${() => setDoomed(null)} onDone=${written} />`}`;
}

function Version({ subject, number, versions, details, query, onChange, onWritten }) {
  const found = useResource(VERSION, subject, number);
  // Until the next version is there, the former one stays, with what the user has begun in its tabs: somebody else may
  // have registered it.
  const last = useRef(undefined);
  last.current = found.value ?? last.current;
  const known = useEntry(subject, versions, number, query);
  const entry = known?.version === last.current?.version ? known : undefined;
  return html`
    <article class="version">
      <${Loaded} of=${found.error ? found : { value: last.current }} what=${`version ${number}`}>
        ${(version) => html`
          <${Facts} version=${version} asked=${subject} details=${details} entry=${entry} />
          <${Tabs} label="About this version" selected=${query.view ?? "text"}
            onSelect=${(view) => onChange({ view: view === "text" ? "" : view })}
            tabs=${tabsOf(version, versions, details, entry, query, onChange, onWritten)} />`}
      <//>
    </article>`;
}

function tabsOf(version, versions, details, entry, query, onChange, onWritten) {
  const { subject, version: number } = version;
  return [
    { id: "text", label: "Schema",
      content: () => html`
        <${Answer} version=${version} details=${details} entry=${entry} />
        <${VersionText} version=${version} form=${query.form} onForm=${(form) => onChange({ form })} />` },
    { id: "compare", label: "Compare",
      content: () =>
        html`<${Comparison} version=${version} versions=${versions} query=${query} onChange=${onChange} />` },
    { id: "references", label: "References",
      content: () => html`<${References} subject=${subject} number=${number} />` },
    { id: "askers", label: "Askers", content: () => html`<${Askers} subject=${subject} version=${number} />` },
    { id: "usage", label: "Ids", content: () => html`<${Usage} version=${version} />` },
    { id: "details", label: "Metadata", content: () => html`<${Details} version=${version} />` },
    { id: "settings", label: "Config and mode",
      content: () => html`<${Settings} subject=${subject} onChanged=${onWritten} />` },
    { id: "history", label: "History", content: () => html`<${History} subject=${subject} />` },
  ];
}
