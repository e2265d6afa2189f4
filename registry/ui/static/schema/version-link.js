// A version's name that leads to its page.
import { html } from "../vendor.js";
import { href } from "../router.js";

export function VersionLink({ subject, version, deleted = false }) {
  return html`<a href=${href`/subjects/${subject}/versions/${version}`}><span class="name">
    ${subject}</span> version ${version}</a>${deleted ? html` <span class="quiet">(deleted)</span>` : ""}`;
}
