// The members of a config besides the level: what they are, and what a form changes. Nothing here knows the page.

/**
 * about: what it does; kind: "flag", "text" or "json"; falls: true if a subject's config without it takes the top
 * level's.
 */
export const MEMBERS = [
  { name: "alias", kind: "text", about: "Requests for this subject are answered by another one." },
  { name: "aliasForDeks", kind: "text", about: "Stored for clients and other registries; without effect here." },
  { name: "normalize", kind: "flag", falls: true, about: "Normalize schemas when they are registered or looked up." },
  { name: "validateFields", kind: "flag", falls: true,
    about: "Refuse fields whose names the metadata reserves, and apply stricter rules for names." },
  { name: "validateNewSchemas", kind: "flag", falls: true, 
    about: "Check names, namespaces and defaults of new schemas." },
  { name: "validateRules", kind: "flag", falls: true, 
    about: "Stored for clients and other registries; without effect here." },
  { name: "compatibilityPolicy", kind: "text", falls: true,
    about: "STRICT, LENIENT (for JSON Schema) or LOGICAL (rules of lakes and engines)." },
  { name: "compatibilityGroup", kind: "text", falls: true,
    about: "The property of the metadata whose value says which versions are compared with one another." },
  { name: "defaultMetadata", kind: "json", about: "Metadata that a version gets if it has none." },
  { name: "overrideMetadata", kind: "json", about: "Metadata that replaces what a version brings." },
  { name: "defaultRuleSet", kind: "json", about: "The rule set that a version gets if it has none." },
  { name: "overrideRuleSet", kind: "json", about: "The rule set that replaces what a version brings." },
];

/** Returns the text of a stored value in the form; empty: it is not stored. */
export function textOf({ kind }, value) {
  if (value === undefined || value === null) return "";
  return kind === "json" ? JSON.stringify(value, null, 2) : String(value);
}

/**
 * Returns what the texts of a form change in a stored config: { body, changes: [{ name, before, after }], faults }.
 * body: of the request, null for a member that is removed; faults: messages by the names of members.
 */
export function changesOf(stored, texts) {
  const [body, changes, faults] = [{}, [], {}];
  for (const member of MEMBERS) {
    const before = textOf(member, stored?.[member.name]);
    const after = (texts[member.name] ?? before).trim();
    if (after === before.trim()) continue;
    try {
      body[member.name] = after === "" ? null : valueOf(member, after);
    } catch (error) {
      faults[member.name] = error.message;
      continue;
    }
    changes.push({ name: member.name, before, after });
  }
  return { body, changes, faults };
}

function valueOf({ kind }, text) {
  if (kind === "flag") return text === "true";
  if (kind === "text") return text;
  const value = JSON.parse(text);
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Error("It must be a JSON object.");
  return value;
}
