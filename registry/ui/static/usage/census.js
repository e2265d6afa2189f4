// The census that all usage is from.
import { html } from "../vendor.js";
import { get } from "../api.js";
import { Badge } from "../components/badge.js";
import { CopyButton } from "../components/copy-button.js";
import { Notice } from "../components/notice.js";
import { count, moment } from "../cluster/units.js";
import { resource } from "../live/store.js";

const REGISTRY = new URL("..", document.baseURI).href.replace(/\/$/, "");

/** The newest census as GET /usage/census shows it; null if there is none. */
export const CENSUS = resource("census", async (signal) => {
  try {
    return await get("/usage/census", { signal });
  } catch (error) {
    if (error.notFound) return null;
    throw error;
  }
}, () => false);

/** One sentence about a census; null: how to take one. */
export function CensusLine({ census }) {
  if (!census) return html`<${NoCensus} />`;
  const { ended, complete, sources, messages, unread } = census;
  return html`
    <p>By the census that ended ${moment(ended)}${sources !== undefined
      ? `: ${count(messages ?? 0)} messages in ${count(sources)} ${sources === 1 ? "source" : "sources"}` : ""}.${" "}
      ${complete ? html`<${Badge} tone="good">complete<//>` : html`<${Badge} tone="warn">not complete<//>`}</p>
    ${!complete && html`<p class="quiet">${unread ? `${count(unread)} sources could not be read. ` : ""}Only a complete
      census can say that a version is unused.</p>`}`;
}

function NoCensus() {
  const command = `registrar census run --kafka BROKERS --to FOLDER --url ${REGISTRY}`;
  return html`
    <${Notice} kind="empty" title="There is no census yet">
      <p>A census reads the data and counts which schemas its messages name. Until then, nobody knows which versions are
        in use.</p>
      <p class="command"><code class="wrap">${command}</code> <${CopyButton} text=${command} label="Copy the command" />
      </p>
    <//>`;
}
