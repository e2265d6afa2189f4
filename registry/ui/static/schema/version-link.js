// A version's name that leads to its page.
import { html } from "../vendor.js";
import { Name } from "../components/name.js";
import { href } from "../router.js";

export function VersionLink({ subject, version, deleted = false }) {
  return html`
    <a href=${href`/subjects/${subject}/versions/${version}`}><${Name} text=${subject} /> version ${version}</a>
    ${deleted ? html` <span class="quiet">(deleted)</span>` : ""}`;
}
