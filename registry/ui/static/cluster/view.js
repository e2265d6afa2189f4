// The cluster: its nodes, snapshots, webhooks, records that could not be read, duplicates, and the audit log.
import { html } from "../vendor.js";
import { Tabs } from "../components/tabs.js";
import { navigate, to } from "../router.js";
import { Audit } from "./audit.js";
import { Duplicates } from "./duplicates.js";
import { Nodes } from "./nodes.js";
import { Quarantine } from "./quarantine.js";
import { Snapshots } from "./snapshots.js";
import { Webhooks } from "../webhooks/webhooks.js";

const tabsOf = (query) => [
  { id: "nodes", label: "Nodes", content: () => html`<${Nodes} />` },
  { id: "snapshots", label: "Snapshots", content: () => html`<${Snapshots} />` },
  { id: "webhooks", label: "Webhooks", content: () => html`<${Webhooks} />` },
  { id: "quarantine", label: "Quarantine", content: () => html`<${Quarantine} />` },
  { id: "duplicates", label: "Duplicates", content: () => html`<${Duplicates} />` },
  { id: "audit", label: "Audit", content: () => html`<${Audit} query=${query} />` },
];

export default function Cluster({ params, query }) {
  return html`
    <h1>Cluster</h1>
    <${Tabs} label="Parts of the cluster" tabs=${tabsOf(query)} selected=${params.tab ?? "nodes"}
      onSelect=${(tab) => navigate(to`/cluster/${tab}`)} />`;
}
