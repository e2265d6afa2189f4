// A link with a draft, for a colleague to look at and register; and the banner over a draft that came so.
import { plain } from "../names.js";
import { html, useState } from "../vendor.js";
import { CopyButton } from "../components/copy-button.js";
import { Dialog } from "../components/dialog.js";
import { Notice } from "../components/notice.js";
import { to } from "../router.js";
import { packed } from "./review.js";

const LONG = 8000; // characters that some programs cut off

/** draft: of the page; base: the latest version when it was begun; verdict: the page's sentence about it. */
export function ReviewLink({ draft, base, verdict }) {
  const [{ link, error, busy }, setState] = useState({});
  const make = async () => {
    setState({ busy: true });
    const { subject, schema, schemaType, references, metadata, ruleSet } = draft;
    try {
      const texts = references.map(({ name, subject: target, version }) =>
        ({ name, subject: target, version: String(version) }));
      const review = await packed({ schema, schemaType, references: texts, metadata, ruleSet, base, verdict });
      setState({ link: `${location.href.split("#")[0]}#${to("/try", { subject, review })}` });
    } catch (failure) {
      setState({ error: failure });
    }
  };
  return html`
    <button type="button" disabled=${busy} onClick=${make}>Ask for a review…</button>
    ${(link || error) && html`
      <${Dialog} title="Ask for a review" onClose=${() => setState({})}>
        ${error ? html`<p>${plain(error.message)}.</p>` : html`
          <p>The link holds the draft itself: nothing is stored on the server. A colleague who opens it sees the
            verdicts of that moment, and can register the draft if they have the permission.</p>
          <p><label>Link <input class="full" readonly value=${link}
            onFocus=${(event) => event.currentTarget.select()} /></label></p>
          <p><${CopyButton} text=${link} label="Copy the link" /> <span class="quiet">
            ${link.length.toLocaleString()} characters${link.length > LONG
              ? "; some programs cut off links that long" : ""}</span></p>`}
      <//>`}`;
}

/** Over a draft that came with a link. */
export function ReviewBanner({ verdict, onLeave }) {
  return html`
    <${Notice} kind="info" title="A draft for review" action="Discard it" onAction=${onLeave}>
      <p>This draft comes from a link. Its author is unknown, and nothing has been registered. The verdicts below are
        of now, with your permissions.</p>
      ${verdict && html`<p class="quiet">According to the link, they were: ${verdict}</p>`}
    <//>`;
}
