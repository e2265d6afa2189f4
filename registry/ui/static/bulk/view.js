// What changes or moves many schemas at once: deletion and restoration, download and upload.
import { html } from "../vendor.js";
import { Tabs } from "../components/tabs.js";
import { navigate, to } from "../router.js";
import { Download } from "../transfer/download.js";
import { Upload } from "../transfer/upload.js";
import { ChangeMany } from "./change-many.js";

/** params: tab; query: of the tab. */
export default function Bulk({ params: { tab = "download" }, query }) {
  const change = (changes) => navigate(to(`/bulk/${tab}`, { ...query, ...changes }), { replace: true });
  const tabs = [
    { id: "download", label: "Download", content: () => html`<${Download} query=${query} onChange=${change} />` },
    { id: "upload", label: "Upload", content: () => html`<${Upload} />` },
    { id: "change", label: "Delete and restore",
      content: () => html`<${ChangeMany} query=${query} onChange=${change} />` },
  ];
  return html`<div class="usage">
    <h1>Bulk operations</h1>
    <${Tabs} label="What to do" selected=${tab} tabs=${tabs} onSelect=${(each) => navigate(to`/bulk/${each}`)} />
    </div>`;
}
