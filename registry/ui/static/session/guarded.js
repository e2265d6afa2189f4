// A button that is off, and says why, where the user may not do what it does.
import { plain } from "../names.js";
import { html, useId } from "../vendor.js";
import { usePermitted } from "./permitted.js";

/**
 * needs: an operation; refusal: what usePermitted returned, if not on everything. Other properties are the button's.
 */
export function GuardedButton({ needs, refusal, children, disabled, ...button }) {
  const everywhere = usePermitted();
  const reason = (refusal ?? everywhere)(needs);
  const id = useId();
  return html`
    <button ...${button} disabled=${disabled || reason !== ""} title=${reason ? plain(reason) : null}
      aria-describedby=${reason ? id : null}>${children}</button>
    ${reason && html`<span class="unseen" id=${id}>${plain(reason)}</span>`}`;
}
