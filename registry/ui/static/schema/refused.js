// Why a moment of the past cannot be shown, and what to do.
import { plain } from "../names.js";
import { html } from "../vendor.js";
import { Failure, Notice } from "../components/notice.js";
import { to } from "../router.js";

const GONE = 410;

/** error: of a request as of an offset; query: of the page. */
export function Refused({ error, subject, query, onRetry }) {
  if (error.notFound) {
    return html`<${Notice} kind="empty" title="It did not exist at that time"><p>${plain(error.message)}</p><//>`;
  }
  if (error.status !== GONE) return html`<${Failure} error=${error} onRetry=${onRetry} />`;
  const [, oldest] = /available offset: (\d+)/.exec(error.message) ?? [];
  return html`
    <${Notice} kind="warning" title="The state at that time can no longer be reconstructed">
      <p>
        Compaction has removed records of that time, because newer ones replaced them.
        ${oldest &&
          html` States from <a href=${`#${to(to`/subjects/${subject}`, { ...query, at: oldest })}`}>offset ${oldest}
            </a> on are available.`}
      </p>
      <p>To look back further in the future, an administrator can delay compaction, or take snapshots more often and
        keep more of them.</p>
      <p class="quiet">${plain(error.message)}</p>
    <//>`;
}
