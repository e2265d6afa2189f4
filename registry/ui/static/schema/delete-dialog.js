// Deletes a version or a subject, after showing the consequences.
import { html, useState } from "../vendor.js";
import { getWithTag, path, send } from "../api.js";
import { Dialog } from "../components/dialog.js";
import { Name } from "../components/name.js";
import { Failure, Notice } from "../components/notice.js";
import { CopyAs } from "../copy-as/copy-as.js";
import { href } from "../router.js";
import { consequencesOf } from "./deletion.js";
import { Loaded, useLoaded } from "./loading.js";
import { VersionLink } from "./version-link.js";
import { Overtaken, useWrite } from "./writing.js";

/**
 * number: of the version, or null for the whole subject. versions: all, with `deleted`; associated: true if the subject
 * has associations. onDone(permanent, shown) after the deletion; shown: see `useWrite`.
 *
 * What is soft-deleted already can only be deleted permanently; everything else is soft-deleted first.
 */
export function DeleteDialog({ subject, number, versions, associated, onClose, onDone }) {
  const meant = versions.filter((each) => number === null || each.number === number);
  const permanent = meant.every(({ deleted }) => deleted);
  const doomed = meant.filter(({ deleted }) => permanent || !deleted).map((each) => each.number);
  const name = number === null ? subject : `${subject}:${number}`;
  const [typed, setTyped] = useState("");
  const writing = useWrite((_, shown) => onDone(permanent, shown));
  // What an If-Match of the deletion means: the version, or the one that stands for the subject.
  const [highest] = meant;
  const whose = path`/subjects/${subject}/versions/${number ?? (permanent ? highest.number : "latest")}`;
  const look = (signal) => getWithTag(whose, { query: { deleted: true }, signal });
  const found = useLoaded(async (signal) => {
    const { tag, seen } = await look(signal);
    return { ...(await consequencesOf(subject, doomed, { permanent, whole: number === null }, signal)), tag, seen };
  }, [subject, number, permanent]);
  const run = () => {
    const where = number === null ? path`/subjects/${subject}` : path`/subjects/${subject}/versions/${number}`;
    const query = { permanent: permanent || undefined };
    writing.run((tag) => send("DELETE", where, { query, tag }), found.value, look);
  };
  const refused = [...(found.value?.doomed ?? []), ...(found.value?.others ?? [])]
    .some(({ referrers }) => referrers.length > 0);
  // They keep a subject, and a version that clients get.
  const kept = associated && (number === null || (!permanent
    && versions.every((each) => each.deleted || each.number === number)));
  const allowed = found.value && !refused && !kept && !writing.busy && (!permanent || typed === name);
  const verb = permanent ? "Delete permanently" : "Delete";
  return html`
    <${Dialog} title=${`${verb}: ${number === null ? "the subject" : `version ${number}`}`} onClose=${onClose}
      footer=${html`<button class="danger" disabled=${!allowed} onClick=${run}>${verb}</button>`}>
      <p><${Name} text=${subject} />${number === null ? "" : ` version ${number}`}</p>
      ${kept && html`
        <${Notice} kind="warning" title="This cannot be deleted yet">
          <p>The subject has associations. <a href=${href`/subjects/${subject}/associations`}>Remove them</a> first.</p>
        <//>`}
      <${Loaded} of=${found} what="the consequences">
        ${(value) => html`<${Consequences} found=${value} permanent=${permanent} />`}<//>
      ${permanent && html`
        <p><label>To confirm, type <${Name} plain text=${name} />
          <input class="full" autocomplete="off" spellcheck="false" value=${typed}
            onInput=${(event) => setTyped(event.target.value)} /></label></p>`}
      <p><${CopyAs} small what=${{ kind: "deletion", subject, version: number, permanent }} /></p>
      ${writing.error && html`<${Failure} error=${writing.error} />`}
      <${Overtaken} subject=${subject} writing=${writing} />
    <//>`;
}

function Consequences({ found: { doomed, others, unexamined }, permanent }) {
  const referred = [...doomed, ...others].filter(({ referrers }) => referrers.length);
  const vanishing = doomed.filter(({ vanishes }) => vanishes);
  const all = doomed.length + unexamined;
  return html`
    ${referred.length > 0 && html`
      <${Notice} kind="warning" title="This cannot be deleted yet">
        <ul>${referred
          .map(({ number, referrers, more }) =>
            html`<li key=${number}>Version ${number} is referenced by these versions. Delete them first:
              <ul>${referrers.map((each) => html`<li key=${`${each.version} ${each.subject}`}><${VersionLink} ...${each}
                deleted=${each.deleted} /></li>`)}${more && html`<li>There may be more.</li>`}</ul></li>`)}</ul>
      <//>`}
    <ul>
      <li>
        ${all === 1 ? `Version ${doomed[0]?.number} is` : `${all} versions are`} ${permanent
          ? "deleted permanently; this cannot be undone" : "soft-deleted, and can be restored"}.</li>
      ${!permanent &&
        html`<li>Clients that request it by version get 404. Clients that request it by id can still
          read ${ids(doomed)}: messages stay readable.</li>`}
      ${!permanent &&
        html`<li>Producers that register the same schema again restore it as a new version with the same id.</li>`}
      ${permanent && vanishing.length > 0 &&
        html`<li>
          <strong>Clients that read by id get 404 for ${ids(vanishing)}</strong>: messages written with
          ${" "}${vanishing.length === 1 ? "it" : "them"} can no longer be read.</li>`}
      ${permanent && vanishing.length < doomed.length &&
        html`<li>Other subjects or versions keep ${ids(doomed.filter(({ vanishes }) => !vanishes))} readable.</li>`}
      ${unexamined > 0 && html`<li>${unexamined} further versions were not examined individually.</li>`}
    </ul>`;
}

const IDS_SHOWN = 10;

function ids(doomed) {
  const found = [...new Set(doomed.map(({ id }) => id))];
  const more = found.length > IDS_SHOWN ? ` and ${found.length - IDS_SHOWN} more` : "";
  return `${found.length === 1 ? "id" : "ids"} ${found.slice(0, IDS_SHOWN).join(", ")}${more}`;
}
