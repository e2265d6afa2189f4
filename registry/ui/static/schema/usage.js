// Where a schema's id and its guid are used: other subjects, versions and contexts.
import { html, useState } from "../vendor.js";
import { get, path, request } from "../api.js";
import { CopyButton } from "../components/copy-button.js";
import { Name } from "../components/name.js";
import { useResource } from "../live/resources.js";
import { resource } from "../live/store.js";
import { Loaded } from "./loading.js";
import { contextOf, scopeOf } from "./scopes.js";
import { VersionLink } from "./version-link.js";

const PAGE = 100;

export function Usage({ version: { subject, id, guid } }) {
  const context = contextOf(subject);
  const [limit, setLimit] = useState(PAGE);
  const used = useResource(USED, context, id, limit);
  const ids = useResource(IDS, guid);
  return html`
    <section>
      <h2>Id ${id} ${context === "." ? "" : html`in the context <${Name} plain text=${context} />`}</h2>
      <${Loaded} of=${used} what="the versions with this id">
        ${({ versions, more }) => html`
          <ul>${versions
            .map((each) => html`<li key=${`${each.subject} ${each.version}`}><${VersionLink} ...${each} /></li>`)}</ul>
          ${more && html`<button onClick=${() => setLimit(limit * 10)}>Show more</button>`}`}
      <//>
    </section>
    <section>
      <h2>Guid</h2>
      <p><span class="mono">${guid}</span> <${CopyButton} text=${guid} label="Copy the guid" /></p>
      <p class="quiet">A schema has the same guid everywhere, but its own id in each context.</p>
      <${Loaded} of=${ids} what="the ids of this guid">
        ${(found) =>
          html`<ul>
            ${found.map((each) =>
              html`<li key=${each.context}>id ${each.id} in the context <${Name} plain text=${each.context} />
              </li>`)}</ul>`}
      <//>
    </section>`;
}

const USED = resource("used", versionsOfId, (event, [, id], value) => event.id === id
  || (value?.versions ?? []).some(({ subject }) => subject === event.subject));
const IDS = resource("ids", (signal, guid) => get(path`/schemas/guids/${guid}/ids`, { signal }),
  ({ kind, id }, _, value) => kind === "version_registered" || (value ?? []).some((each) => each.id === id));

async function versionsOfId(signal, context, id, limit) {
  const query = { subject: scopeOf(context), deleted: true, limit };
  const answer = await request("GET", path`/schemas/ids/${id}/versions`, { query, signal });
  return { versions: await answer.json(), more: answer.headers.has("link") };
}
