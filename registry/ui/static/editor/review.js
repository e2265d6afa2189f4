// A draft in a link: compressed, in the part of the address that no server sees. Nothing here knows the page.

const FORMAT = 1;
/** Characters of a draft in a link. */
export const LINK_MAX = 64_000;
const TEXT_MAX = 2_000_000; // characters of a draft, also when it comes out of a link

/**
 * Returns the text for a link. draft: { schema, schemaType, references, metadata, ruleSet, base, verdict }. Throws an
 * Error if it is too large.
 */
export async function packed(draft) {
  const text = JSON.stringify({ format: FORMAT, ...draft });
  if (text.length > TEXT_MAX) throw new Error("The draft is too large for a link");
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const found = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""))
    .replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
  if (found.length > LINK_MAX) throw new Error("The draft is too large for a link");
  return found;
}

/** Returns the draft of a link. Throws an Error if it is none. */
export async function unpacked(text) {
  if (text.length > LINK_MAX) throw new Error("This link is too long");
  let found;
  try {
    const bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (each) => each.charCodeAt(0));
    found = JSON.parse(await read(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"))));
  } catch (error) {
    throw new Error("This link holds no draft; it may have been cut off", { cause: error });
  }
  if (!isDraft(found)) throw new Error("This link is of another version of the console");
  const { schema, schemaType, references, metadata, ruleSet, base, verdict } = found;
  return { schema, schemaType, references, metadata, ruleSet, base, verdict };
}

// What is compressed well could fill the memory, so it is read in pieces.
async function read(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text;
    text += value;
    if (text.length > TEXT_MAX) {
      await reader.cancel();
      throw new Error("too large");
    }
  }
}

function isDraft(found) {
  const isText = (each) => typeof each === "string";
  return found?.format === FORMAT && isText(found.schema) && isText(found.schemaType)
    && Array.isArray(found.references)
    && found.references.every((each) => isText(each?.name) && isText(each.subject) && isText(each.version))
    && isOptional(found.metadata, "object") && isOptional(found.ruleSet, "object")
    && (found.base === null || (isText(found.base?.subject) && isOptional(found.base.tag, "string")
      && isOptional(found.base.version, "number") && isOptional(found.base.seen, "number")))
    && isOptional(found.verdict, "string");
}

function isOptional(value, type) {
  return value === undefined || value === null || (typeof value === type && !Array.isArray(value));
}
