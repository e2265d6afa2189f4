// The cluster: its nodes, snapshots, webhooks, records that could not be read, and how to find duplicates.
import { html } from "../vendor.js";
import { Tabs } from "../components/tabs.js";
import { navigate, to } from "../router.js";
import { Duplicates } from "./duplicates.js";
import { Nodes } from "./nodes.js";
import { Quarantine } from "./quarantine.js";
import { Snapshots } from "./snapshots.js";
import { Webhooks } from "../webhooks/webhooks.js";

const TABS = [
  { id: "nodes", label: "Nodes", content: () => html`<${Nodes} />` },
  { id: "snapshots", label: "Snapshots", content: () => html`<${Snapshots} />` },
  { id: "webhooks", label: "Webhooks", content: () => html`<${Webhooks} />` },
  { id: "quarantine", label: "Quarantine", content: () => html`<${Quarantine} />` },
  { id: "duplicates", label: "Duplicates", content: () => html`<${Duplicates} />` },
];

export default function Cluster({ params }) {
  return html`
    <h1>Cluster</h1>
    <${Tabs} label="Parts of the cluster" tabs=${TABS} selected=${params.tab ?? "nodes"}
      onSelect=${(tab) => navigate(to`/cluster/${tab}`)} />`;
}
