// Instead of a page that the registry can show only as it is now, while one looks at the past.
import { html, useState } from "../vendor.js";
import { Notice } from "../components/notice.js";
import { navigate, to } from "../router.js";
import { lookAt } from "./moment.js";

/** at: the offset; what: the page shows, as the routes say; onShow(): the user wants to see it as it is now. */
export function NotThen({ title, at, what, onShow }) {
  const [name, setName] = useState("");
  return html`
    <h1>${title}</h1>
    <${Notice} kind="info" title=${`Not available as of offset ${at}`}>
      <p>${what} can only be shown as of now: the registry keeps no earlier state. Subjects, their versions, config and
        modes are shown as of that offset.</p>
      <form class="actions" onSubmit=${(event) => { event.preventDefault(); navigate(to`/subjects/${name}`); }}>
        <label>Open a subject as of then <input value=${name} required spellcheck="false" autocomplete="off"
          onInput=${(event) => setName(event.currentTarget.value)} /></label>
        <button>Open</button>
      </form>
      <div class="actions">
        <button onClick=${onShow}>Show this page as of now</button>
        <button onClick=${() => lookAt(null)}>Leave the past</button>
      </div>
    <//>`;
}
