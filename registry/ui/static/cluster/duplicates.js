// Schemas that are registered more than once: comparing all of them takes long, so the command line does that.
import { html } from "../vendor.js";
import { CopyButton } from "../components/copy-button.js";

const REGISTRY = new URL("..", document.baseURI).href.replace(/\/$/, "");

export function Duplicates() {
  const command = `registrar duplicates ${REGISTRY}`;
  return html`
    <p>Subjects may hold the same schema under several ids, for example written in another order. To find them, all schemas are
      compared with one another. The command line does that, from this registry or from a snapshot:</p>
    <p class="command"><code>${command}</code> <${CopyButton} text=${command} label="Copy the command" /></p>
    <p>It reads every schema once and changes nothing. <code>--json</code> prints the result for programs. Ids that stand for two different
      schemas are listed under Quarantine.</p>`;
}
