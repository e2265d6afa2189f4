// The schema formats, which the registry describes in the page. The only place here that knows them.

const FORMATS = JSON.parse(document.getElementById("formats").textContent);
const DEFAULT = "AVRO"; // the type of a schema whose answer names none

/**
 * All formats by title: name (of the API), title, language, extension (of files, without a full stop), sample, resolves
 * (if a text can contain what it refers to).
 */
export const formats = FORMATS.sort((one, other) => one.title.localeCompare(other.title));

/**
 * The format of a schema: of an entity of the API, or by its name. Of one that is not served, only the name is known.
 */
export function formatOf(schema) {
  const name = (typeof schema === "string" ? schema : schema.schemaType) || DEFAULT;
  return formats.find((each) => each.name === name) ?? { name, title: name, language: "", extension: "",
     sample: "", resolves: false };
}
