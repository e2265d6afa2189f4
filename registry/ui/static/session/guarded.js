// A button that is off, and says why, where the user may not do what it does.
import { html, useId } from "../vendor.js";
import { refusal, useSession } from "./session.js";

/** needs: an operation of the rules, on everything. Other properties are the button's. */
export function GuardedButton({ needs, children, disabled, ...button }) {
  const { me } = useSession();
  const id = useId();
  const reason = refusal(me, needs);
  return html`
    <button ...${button} disabled=${disabled || reason !== ""} title=${reason || null} aria-describedby=${reason ? id : null}>${children}</button>
    ${reason && html`<span class="unseen" id=${id}>${reason}</span>`}`;
}
