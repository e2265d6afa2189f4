// What a version has besides its text: tags, metadata, rules; and the associations of its subject.
import { html } from "../vendor.js";
import { path } from "../api.js";
import { Badge } from "../components/badge.js";
import { Masked } from "../components/masked.js";
import { Name } from "../components/name.js";
import { Table } from "../components/table.js";
import { useResource } from "../live/resources.js";
import { href } from "../router.js";
import { Loaded, useLoaded } from "./loading.js";
import { getAt } from "./moment.js";
import { ASSOCIATIONS, TAGS } from "./resources.js";

const RULES = { migrationRules: "Migration rules", domainRules: "Domain rules", encodingRules: "Encoding rules" };

/**
 * at: the offset of the past state to show, if any; then without associations, because only their present state is
 * known.
 */
export function Details({ version, at }) {
  const { subject, version: number, metadata, ruleSet } = version;
  return html`
    <${Tags} subject=${subject} number=${number} at=${at} />
    <${Metadata} metadata=${metadata} />
    <${RuleSet} rules=${ruleSet} />
    ${at ? html`<p class="quiet">Associations are only known as of now.</p>`
      : html`<${Associations} subject=${subject} />`}`;
}

function Tags({ subject, number, at }) {
  const now = useResource(at ? null : TAGS, subject, number);
  const past = useLoaded(async (signal) => at && getAt(at, path`/subjects/${subject}/versions/${number}`,
    { deleted: true, findTags: "*" }, signal), [subject, number, at]);
  const found = at ? past : now;
  return html`
    <section>
      <h2>Tags in the schema</h2>
      ${!at && html`<p><a href=${href`/subjects/${subject}/versions/${number}/tags`}>Change the tags</a></p>`}
      <${Loaded} of=${found} what="the tags">
        ${({ schemaTags = [] }) => (schemaTags.length
          ? html`<ul>${schemaTags.map(({ schemaEntity, tags }, index) => html`
              <li key=${index}><${Name} plain text=${schemaEntity.entityPath} /> <${TagBadges} names=${tags} /></li>`)}
            </ul>`
          : html`<p class="quiet">No tags in the schema.</p>`)}
      <//>
    </section>`;
}

export function Metadata({ metadata }) {
  const { properties = {}, tags = {}, sensitive = [] } = metadata ?? {};
  const rows = Object.entries(properties ?? {});
  const tagged = Object.entries(tags ?? {});
  return html`
    <section>
      <h2>Metadata</h2>
      ${!rows.length && !tagged.length && html`<p class="quiet">None.</p>`}
      ${rows.length > 0 && html`
        <${Table} caption="Properties" rows=${rows} rowKey=${([name]) => name} columns=${[
          { id: "name", title: "Property",
            cell: ([name]) =>
              html`<${Name} plain text=${name} />
                ${(sensitive ?? []).includes(name) ? html` <${Badge} tone="warn">sensitive<//>` : ""}` },
          { id: "value", title: "Value", cell: ([name, value]) => html`
              <${Masked} value=${String(value)} sensitive=${(sensitive ?? []).includes(name)} />` },
        ]} />`}
      ${tagged.length > 0 && html`
        <${Table} caption="Tags by path" rows=${tagged} rowKey=${([name]) => name} columns=${[
          { id: "path", title: "Path", cell: ([name]) => html`<${Name} plain text=${name} />` },
          { id: "tags", title: "Tags",
            cell: ([, names]) => html`<${TagBadges} names=${names} />` },
        ]} />`}
    </section>`;
}

function RuleSet({ rules }) {
  const groups = Object.entries(RULES).filter(([name]) => rules?.[name]?.length);
  return html`
    <section>
      <h2>Rules</h2>
      ${!groups.length && html`<p class="quiet">None.</p>`}
      ${groups.map(([name, title]) => html`
        <h3 key=${name}>${title}</h3>
        <${Table} caption=${title} rows=${rules[name]} rowKey=${(rule) => rule.name} columns=${[
          { id: "name", title: "Name",
            cell: (rule) =>
              html`<${Name} plain text=${rule.name} />
                ${rule.disabled ? html` <${Badge} tone="warn">disabled<//>` : ""}` },
          { id: "kind", title: "Kind", cell: ({ kind, mode }) => [kind, mode].filter(Boolean).join(", ") },
          { id: "type", title: "Type", cell: ({ type }) => type ?? "" },
          { id: "expr", title: "Expression",
            cell: ({ expr, params }) =>
              html`<code class="wrap">${expr ?? (params ? JSON.stringify(params) : "")}</code>` },
          { id: "tags", title: "Tags", cell: ({ tags }) => (tags ?? []).join(", "), wide: true },
          { id: "doc", title: "About", cell: ({ doc }) => doc ?? "", wide: true },
        ]} />`)}
    </section>`;
}

function Associations({ subject }) {
  const found = useResource(ASSOCIATIONS, subject);
  return html`
    <section>
      <h2>Associations of the subject</h2>
      <p><a href=${href`/subjects/${subject}/associations`}>Change the associations</a></p>
      <${Loaded} of=${found} what="the associations">
        ${(rows) => (rows.length
          ? html`<${Table} caption="Associations" rows=${rows}
            rowKey=${(row) => `${row.guid ?? row.resourceId} ${row.associationType}`} columns=${[
              { id: "resource", title: "Resource",
                cell: (row) => html`<${Name} plain text=${row.resourceName ?? row.resourceId} />` },
              { id: "namespace", title: "Namespace",
                cell: (row) => row.resourceNamespace && html`<${Name} plain text=${row.resourceNamespace} />`,
                wide: true },
              { id: "type", title: "Type", cell: (row) => `${row.resourceType ?? ""} ${row.associationType ?? ""}` },
              { id: "lifecycle", title: "Lifecycle",
                cell: (row) =>
                  `${row.lifecycle ?? ""}${row.frozen ?? row.lifecycle === "STRONG" ? ", frozen" : ""}` },
            ]} />`
          : html`<p class="quiet">No associations.</p>`)}
      <//>
    </section>`;
}

function TagBadges({ names }) {
  return names.map((name) => html`<${Badge} key=${name} tone="accent"><${Name} plain text=${name} /><//> `);
}
