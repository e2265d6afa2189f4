// Uses of schemas in sources, as tables.
import { html } from "../vendor.js";
import { Badge } from "../components/badge.js";
import { Name } from "../components/name.js";
import { count, moment } from "../cluster/units.js";
import { href, to } from "../router.js";

const FRAMINGS = {
  id: "id", guid: "guid", "header-id": "id in a header", "header-guid": "guid in a header", none: "no schema",
  null: "empty",
};

/** Columns for a use: { source, side, framing, schema, messages, first, last, exact }. */
export const USE_COLUMNS = [
  { id: "source", title: "Source", cell: ({ source }) => html`<${Name} plain text=${source} />` },
  { id: "side", title: "Side", cell: ({ side }) => side },
  { id: "framing", title: "Names it by", wide: true, cell: ({ framing }) => FRAMINGS[framing] ?? framing },
  { id: "messages", title: "Messages", numeric: true,
    cell: ({ messages, exact }) => `${exact ? "" : "≤ "}${count(messages)}` },
  { id: "first", title: "Since", cell: ({ first }) => (first >= 0 ? moment(first) : "–") },
  { id: "last", title: "Until", cell: ({ last }) => (last >= 0 ? moment(last) : "–") },
];

/** A link to look up what a message named: an id or a guid in a context. */
export function SchemaLink({ schema, context }) {
  if (schema === null || schema === undefined) return "–";
  const query = typeof schema === "number" ? { id: String(schema), context: context === "." ? "" : context }
    : { guid: schema };
  return html`<a href=${`#${to("/lookup", query)}`}>${schema}</a>`;
}

const STATES = { used: ["good", "used"], unused: ["warn", "unused"], unknown: ["plain", "unknown"] };

/** The state of a version: used, unused or unknown. */
export function UseState({ state }) {
  const [tone, word] = STATES[state] ?? ["plain", state];
  return html`<${Badge} tone=${tone}>${word}<//>`;
}

/** The versions in use that refer to a version; count: of all, also those that may not be read. */
export function Referrers({ referrers, count: all }) {
  if (!all) return null;
  const hidden = all - referrers.length;
  return html`<p>In use through ${referrers.map(({ subject, version }, index) => html`${index > 0 && ", "}<a
    key=${`${version} ${subject}`} href=${href`/subjects/${subject}/versions/${version}`}><${Name} text=${subject} />
    ${" "}v${version}</a>`)}${hidden > 0 && ` and ${count(hidden)} more`}.</p>`;
}
