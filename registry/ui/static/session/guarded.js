// A button that is off, and says why, where the user may not do what it does.
import { html, useId } from "../vendor.js";
import { usePermitted } from "./permitted.js";

/**
 * needs: an operation; refusal: what usePermitted returned, if not on everything. Other properties are the button's.
 */
export function GuardedButton({ needs, refusal, children, disabled, ...button }) {
  const everywhere = usePermitted();
  const refused = (refusal ?? everywhere)(needs);
  const id = useId();
  return html`
    <button ...${button} disabled=${disabled || refused !== ""} title=${refused || null}
      aria-describedby=${refused ? id : null}>${children}</button>
    ${refused && html`<span class="unseen" id=${id}>${refused}</span>`}`;
}
