// The history of a subject, as far as it is in the registry's log.
import { html, useState } from "../vendor.js";
import { Name } from "../components/name.js";
import { Notice } from "../components/notice.js";
import { principals } from "../components/principals.js";
import { Table } from "../components/table.js";
import { Time } from "../components/time.js";
import { href, keep, kept, to } from "../router.js";
import { usePermitted } from "../session/permitted.js";
import { useResource } from "../live/resources.js";
import { refusing } from "./harm.js";
import { Loaded } from "./loading.js";
import { LookBack } from "./look-back.js";
import { PutBack } from "./put-back.js";
import { HISTORY, SCOPES } from "./resources.js";

const PAGE = 50;
const EVENTS_MAX = 1000;
const SHOWN = "events"; // kept with the page, for the way back

/**
 * subject: or a scope, as /scopes names it. lookBack: true to offer other moments; each event's time leads to what was
 * after it. undo: true to offer to put back what each event replaced.
 */
export function History({ subject: scope, lookBack = true, undo = true }) {
  const [limit, setLimit] = useState(() => kept(SHOWN) ?? PAGE);
  const more = () => {
    const wanted = Math.min(limit * 4, EVENTS_MAX);
    keep(SHOWN, wanted);
    setLimit(wanted);
  };
  const subject = scope || ":.:";
  const settings = useResource(undo ? SCOPES : null, scope);
  const refusal = refusing(usePermitted(scope), settings.value?.mode);
  const found = useResource(HISTORY, subject, limit);
  return html`
    <${Loaded} of=${found} what="the history">
      ${(history) => {
        if (!history) return html`<${Notice} kind="empty" title="This registry does not offer history" />`;
        const { events, completeFrom, filling } = history;
        return html`
          ${lookBack && !isScope(scope) && html`<${LookBack} subject=${subject} />`}
          ${filling && html`<p role="status">The registry is still reading its log; there may be more.</p>`}
          ${completeFrom > 0 &&
            html`<p class="quiet">Complete from offset ${completeFrom} of the log. Earlier records may have been
              compacted away.</p>`}
          ${events.length === 0 ? html`<p class="quiet">No events.</p>` : html`
            <${Table} caption="History, newest first" rows=${events} rowKey=${({ offset }) => offset} columns=${[
              { id: "time", title: "Time", cell: ({ time, offset }) => (isScope(scope)
                ? html`<${Time} ms=${time} />`
                : html`<a href=${`#${to(to`/subjects/${subject}`, { at: String(offset) })}`}
                  title=${`The subject as of offset ${offset}`}><${Time} ms=${time} /></a>`) },
              { id: "kind", title: "What", cell: ({ kind }) => kind.replaceAll("_", " ") },
              { id: "about", title: "About", cell: (event) => html`<${About} subject=${subject} event=${event} />` },
              ...principals(events),
              ...(undo ? [{ id: "undo", title: "Undo", cell: (event) => html`<${PutBack} subject=${scope} event=${event}
                older=${events.slice(events.indexOf(event) + 1)} whole=${!history.more && completeFrom === 0}
                refusal=${refusal} />` }] : []),
              { id: "offset", title: "Offset", cell: ({ offset }) => offset, numeric: true, wide: true },
            ]} />`}
          ${history.more && limit < EVENTS_MAX && html`<button onClick=${more}>Show more</button>`}`;
      }}
    <//>`;
}

function isScope(name) {
  return name === "" || name.endsWith(":");
}

function About({ subject, event: { version, id, type, level, mode, resourceName, associationType } }) {
  const facts = [id && `id ${id}`, type, level, mode, associationType].filter(Boolean).join(", ");
  return html`
    ${version
      ? html`<a href=${href`/subjects/${subject}/versions/${version}`}>version ${version}</a>${facts ? ", " : ""}`
      : ""}${facts}
    ${resourceName ? html` <${Name} plain text=${resourceName} />` : ""}`;
}
