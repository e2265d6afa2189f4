// What a change of config or mode means for clients, and which ones are refused.
import { html } from "../vendor.js";
import { Dialog } from "../components/dialog.js";
import { plain } from "../names.js";
import { labelOf } from "./scopes.js";

/**
 * The sentences to confirm before a level or a mode is set; none where a mistake is undone as easily as it is made.
 * scope: as /scopes names it; what: "level", "mode" or "alias"; value: what is in force afterwards, null for no alias.
 */
export function consequencesOf(scope, what, value) {
  const wide = scope === "" || scope.endsWith(":");
  const whom = scope === "" ? "every subject of the default context" : scope === ":.__GLOBAL:"
    ? "every subject of all contexts" : wide ? `every subject of ${labelOf(scope)}` : "this subject";
  if (what === "alias" && value) {
    return [`Clients that name this subject read and write ${plain(value)} instead, at once.`,
      "Its own versions stay, but no client reaches them by this name. Ids stay readable."];
  }
  if (what === "alias") return ["Clients that name this subject read and write its own versions again, at once."];
  if (what === "mode" && value === "IMPORT") {
    return [`Producers that register schemas of ${whom} as usual are refused: only those with an id of their own are
      accepted.`, "Nothing is validated and nothing is compared meanwhile.",
    "Soft-deleted versions are forgotten for good."];
  }
  if (!wide) return [];
  if (what === "mode" && value?.startsWith("READONLY")) {
    return [`Nobody can register or delete schemas of ${whom}, or change their config, unless a narrower scope says
      otherwise.`,
      "Producers that meet a new schema fail until the mode is changed back."];
  }
  if (what === "level" && value === "NONE") {
    return [`Any schema can follow any other in ${whom}, unless a narrower scope says otherwise.`,
      "Consumers may then meet data that they cannot read. Versions that are registered meanwhile stay."];
  }
  return [];
}

/** Asks before a change with consequences. onConfirm() and onClose(). */
export function Harm({ scope, title, consequences, onConfirm, onClose, children }) {
  return html`
    <${Dialog} title=${title} onClose=${onClose}
      footer=${html`<button class="danger" onClick=${onConfirm}>Change ${labelOf(scope)}</button>`}>
      <ul>${consequences.map((each) => html`<li key=${each}>${each}</li>`)}</ul>
      ${children}
    <//>`;
}

const DONE = { delete: "deleted", write: "registered", config: "changed" };

/**
 * Returns `refusal(operation)` as `usePermitted` does, also for what the mode in force refuses. done: by operation,
 * see `refusedBy`.
 *
 * @param {(operation: string) => string | null} permitted
 * @param {string | undefined} mode
 * @param {Record<string, string>} [done]
 */
export function refusing(permitted, mode, done = DONE) {
  return (operation) => {
    const reason = permitted(operation);
    return reason === "" && done[operation] ? refusedBy(mode, done[operation]) : reason;
  };
}

/** Why the mode in force refuses that something is deleted, registered or changed; empty if it does not. */
export function refusedBy(mode, what) {
  if (mode?.startsWith("READONLY")) return `The mode is ${mode}: nothing is ${what}.`;
  if (["IMPORT", "FORWARD"].includes(mode) && what === "registered") {
    return `The mode is ${mode}: only schemas with ids are registered.`;
  }
  return "";
}
