// Messages in the page: errors with a way out, warnings, empty lists.
import { plain } from "../names.js";
import { html, useEffect, useState } from "../vendor.js";
import { Icon } from "./icon.js";

/** kind: "error", "warning", "info" or "empty". action: the label of a button that calls onAction. */
export function Notice({ kind = "info", title, action, onAction, children }) {
  return html`
    <section class=${`notice ${kind}`} role=${kind === "error" ? "alert" : "status"}>
      <h2><${Icon} name=${kind} />${title}</h2>
      ${children}
      ${action && html`<button onClick=${onAction}>${action}</button>`}
    </section>`;
}

const TITLES = {
  401: "Sign in to see this",
  403: "You do not have permission to see this",
  404: "Not found",
  503: "The registry is temporarily unavailable",
};

// Of errors that are not the registry's.
const OTHERS = { unreachable: "The registry cannot be reached", foreign: "The registry did not answer" };

/** What to do where a proxy passes requests for administrators not on. */
export const KEPT_INSIDE = "A proxy keeps this inside. Administrators open the console at the address of a node, from "
  + "a network that reaches it.";

/** An ApiError as a notice; errors that pass are retried by themselves, more slowly each time. */
export function Failure({ error, onRetry }) {
  if (error.keptInside) {
    return html`<${Notice} kind="warning" title="Not available at this address" action=${onRetry && "Try again"}
      onAction=${onRetry}><p>${KEPT_INSIDE} <span class="quiet">(HTTP ${error.status})</span></p><//>`;
  }
  return html`
    <${Notice} kind="error" title=${OTHERS[error.kind] ?? TITLES[error.status] ?? "The registry refused this"}
      action=${onRetry && "Try again"} onAction=${onRetry}>
      ${error.kind === "foreign" && html`<p>A proxy or a load balancer has answered this request itself. Its
        configuration or its log says why.</p>`}
      ${error.kind !== "unreachable" &&
        html`<p>${plain(error.message)}${error.code ? html` <span class="quiet">(${error.code})</span>` : ""}</p>`}
      ${onRetry && error.temporary && html`<${Retry} seconds=${error.retryAfter} onRetry=${onRetry} key=${error} />`}
    <//>`;
}

const RETRY_S = 5;

function Retry({ seconds, onRetry }) {
  const [left, setLeft] = useState(Math.max(1, Math.min(seconds ?? RETRY_S, 60)));
  useEffect(() => {
    const timer = setTimeout(() => (left > 1 ? setLeft(left - 1) : onRetry()), 1000);
    return () => clearTimeout(timer);
  }, [left]);
  return html`<p class="quiet" aria-live="off">Trying again in ${left} s.</p>`;
}
