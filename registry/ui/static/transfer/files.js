// Versions as files: the layout of `registrar snapshot export`, which `registrar upload` reads too. Also files that are
// named after their subjects. Nothing here knows the page.
const NAME = /[^A-Za-z0-9_@+=,!()' .-]/gu;

/** Returns the path of a version's file in a folder. */
export function pathOf({ subject, version }, file) {
  const [, context, name] = /^:(\.[^:]*):([^]*)$/.exec(subject) ?? [null, null, subject];
  const place = context === null || context === "." ? "" : `contexts/${quoted(context)}/`;
  return `${place}subjects/${quoted(name)}/${version}/${file}`;
}

function quoted(name) {
  const text = name.replace(NAME, (each) => encodeURIComponent(each)
    .replace(/[*~]/g, (left) => `%${left.charCodeAt(0).toString(16).toUpperCase()}`));
  return text === "" ? "%" : text.replace(/^\./, "%2E").replace(/\.$/, "%2E");
}

/** Returns the files of versions, with configs and modes by scope: a Map from paths to texts. */
export function filesOf(versions, { configs = {}, modes = {}, about, extensionOf }) {
  const json = (value) => `${JSON.stringify(value, null, 2)}\n`;
  const files = new Map();
  for (const each of versions) {
    files.set(pathOf(each, `schema.${extensionOf(each)}`), each.schema);
    files.set(pathOf(each, "entity.json"), json(each));
  }
  files.set("configs.json", json(configs));
  files.set("modes.json", json(modes));
  files.set("snapshot.json", json(about));
  return files;
}

/** True for the paths of files that `versionsIn` reads. */
export function isRead(path, extensions) {
  return path.endsWith("/entity.json") || extensions.has(extensionIn(path));
}

function extensionIn(path) {
  return path.slice(path.lastIndexOf(".") + 1);
}

/**
 * Returns the versions in files, in the order of subjects and numbers, without the soft-deleted: [{ subject, version,
 * schema, schemaType, references, metadata, ruleSet }]. files: paths and texts; extensions: a Map from extensions to
 * types, for files without an entity.json. Throws an Error that names the file that is none.
 */
export function versionsIn(files, extensions) {
  const entities = [...files].filter(([path]) => path.endsWith("/entity.json"));
  const found = entities.length
    ? entities.map(([path, text]) => entityOf(path, text)).filter(({ deleted }) => !deleted)
    : [...files].map(([path, text]) => fileOf(path, text, extensions)).filter(Boolean);
  return found.sort((one, other) => (one.subject < other.subject ? -1 : one.subject > other.subject ? 1
    : one.version - other.version));
}

function entityOf(path, text) {
  try {
    const { subject, version, schema, schemaType, references, metadata, ruleSet, deleted } = JSON.parse(text);
    if (typeof subject !== "string" || typeof schema !== "string" || !Number.isSafeInteger(version)) throw new Error();
    return { subject, version, schema, schemaType, references, metadata, ruleSet, deleted: deleted === true };
  } catch (error) {
    throw new Error(`${path} holds no version`, { cause: error });
  }
}

function fileOf(path, text, extensions) {
  const name = path.slice(path.lastIndexOf("/") + 1);
  const schemaType = extensions.get(extensionIn(name));
  if (!schemaType) return null;
  try {
    return { subject: decodeURIComponent(name.slice(0, name.lastIndexOf("."))), version: 1, schema: text, schemaType };
  } catch (error) {
    throw new Error(`${path} is not named after a subject`, { cause: error });
  }
}

/**
 * Returns versions in an order in which each comes after those of the same files that it refers to. Subjects in the
 * references are of the version's context unless they are qualified.
 */
export function byReferences(versions) {
  const keyOf = (subject, version) => JSON.stringify([subject, Number(version)]);
  const known = new Map(versions.map((each) => [keyOf(each.subject, each.version), each]));
  const [done, order] = [new Set(), []];
  const visit = (each, above) => {
    const key = keyOf(each.subject, each.version);
    if (done.has(key) || above.has(key)) return;
    for (const { subject, version } of each.references ?? []) {
      const target = known.get(keyOf(qualified(subject, each.subject), version));
      if (target) visit(target, new Set([...above, key]));
    }
    done.add(key);
    order.push(each);
  };
  for (const each of versions) visit(each, new Set());
  return order;
}

/** Returns the qualified name of a subject that is named within another one's context. */
export function qualified(subject, within) {
  const [context] = /^:\.[^:]+:/.exec(within) ?? [""];
  return subject.startsWith(":.") ? subject : context + subject;
}
