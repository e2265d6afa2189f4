// Usage: what the census of the data found about subjects, topics, ids that nobody knows, and versions that may go.
import { html } from "../vendor.js";
import { Tabs } from "../components/tabs.js";
import { useResource } from "../live/resources.js";
import { navigate, to } from "../router.js";
import { Loaded } from "../schema/loading.js";
import { usePermitted } from "../session/permitted.js";
import { CENSUS, CensusLine } from "./census.js";
import { SubjectUsages } from "./subjects.js";
import { Sources, Unknown } from "./topics.js";
import { Unused } from "./unused.js";

/** params: tab; query: prefix, only. */
export default function Usage({ params, query }) {
  const census = useResource(CENSUS);
  const isAdmin = usePermitted()("admin") === "";
  const tab = params.tab ?? "unused";
  const change = (changes) => navigate(to(`/usage/${tab}`, { ...query, ...changes }), { replace: true });
  const tabs = (found) => [
    { id: "unused", label: "Unused versions",
      content: () => html`<${Unused} census=${found} query=${query} onChange=${change} />` },
    { id: "subjects", label: "Subjects",
      content: () => html`<${SubjectUsages} query=${query} onChange=${change} />` },
    ...(isAdmin ? [
      { id: "topics", label: "Topics", content: () => html`<${Sources} />` },
      { id: "unknown", label: "Unknown", content: () => html`<${Unknown} />` },
    ] : []),
  ];
  return html`<div class="usage">
    <h1>Usage</h1>
    <${Loaded} of=${census} what="the census">
      ${(found) => html`
        <${CensusLine} census=${found} />
        ${found && html`<${Tabs} label="Parts of the usage" selected=${tab} tabs=${tabs(found)}
          onSelect=${(each) => navigate(to`/usage/${each}`)} />`}`}
    <//></div>`;
}
