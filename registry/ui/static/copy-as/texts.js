// What a page shows or sends, as commands and programs to copy. Names of others stay within their quotation marks, and
// characters that cannot be seen are written as codes.

import { UNSEEN } from "../names.js";

const EACH = new RegExp(UNSEEN.source, "gu");

/**
 * Returns a literal for Java and JavaScript; `full`: for Python and Go, which have no pairs of surrogates.
 *
 * @param {string} text
 */
export function literal(text, full = false) {
  return JSON.stringify(text).replace(EACH, full ? codeOf : pairOf);
}

function codeOf(character) {
  const code = character.codePointAt(0);
  return code > 0xffff ? `\\U${hex(code, 8)}` : `\\u${hex(code, 4)}`;
}

function pairOf(character) {
  return character.split("").map((unit) => `\\u${hex(unit.charCodeAt(0), 4)}`).join("");
}

function hex(code, digits) {
  return code.toString(16).padStart(digits, "0");
}

/** Returns a word for a shell such as bash. */
export function word(text) {
  if (UNSEEN.test(text)) {
    const inner = text.replaceAll("\\", "\\\\").replaceAll("'", "\\'").replaceAll("\n", "\\n").replaceAll("\t", "\\t");
    return `$'${inner.replace(EACH, codeOf)}'`;
  }
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

// As in api.js: URLs have no segment for these two.
function segment(value) {
  const text = String(value);
  return encodeURIComponent(text === "." || text === ".." ? `:.:${text}` : text);
}

/**
 * Returns the texts for what a page shows: [{ id, label, text }]. what: { kind, … } with kind "version" (subject,
 * version), "id" (id, context) or "draft" (subject, body: of a registration); registry: its URL.
 */
export function textsOf(what, registry) {
  return TEXTS[what.kind](what, registry).filter(({ text }) => text !== null);
}

const TEXTS = {
  version: ({ subject, version }, registry) => {
    const [url, name] = [literal(registry), literal(subject)];
    const [fullUrl, fullName] = [literal(registry, true), literal(subject, true)];
    return [
      curl(`curl -s ${word(`${registry}/subjects/${segment(subject)}/versions/${version}`)}`),
      command(`registrar show ${word(`${subject}:${version}`)} --url ${word(registry)}`),
      java(`      var found = client.getSchemaMetadata(${name}, ${version});
      System.out.println(found.getId() + " " + found.getSchema());`, url),
      python(`found = client.get_version(${fullName}, ${version})
print(found.schema_id, found.schema.schema_str)`, fullUrl),
      go(`	found, err := client.SchemaByVersion(context.Background(), ${fullName}, ${version})
	if err != nil {
		panic(err)
	}
	fmt.Println(found.ID, found.Schema.Schema)`, fullUrl),
      javascript(`  const found = await client.getSchemaMetadata(${name}, ${version});
  console.log(found.id, found.schema);`, url),
    ];
  },
  id: ({ id, context }, registry) => {
    const [query, flag] = context === "." ? ["", ""]
      : [`?subject=${encodeURIComponent(`:${context}:`)}`, ` --context ${word(context)}`];
    return [
      curl(`curl -s ${word(`${registry}/schemas/ids/${id}${query}`)}`),
      command(`registrar show --id ${id}${flag} --url ${word(registry)}`),
    ];
  },
  draft: ({ subject, body }, registry) => [
    curl(`curl -s -X POST -H 'Content-Type: application/json' -d ${word(JSON.stringify(body))} \\
  ${word(`${registry}/subjects/${segment(subject)}/versions`)}`),
    command(draftCommand(subject, body, registry)),
  ],
};

function draftCommand(subject, { schema, schemaType, references = [], metadata, ruleSet }, registry) {
  if (metadata || ruleSet) return null; // they need files of their own
  const more = references.map(({ name, subject: target, version }) =>
    ` --reference ${word(`${name}=${target}:${version}`)}`).join("");
  return `printf %s ${word(schema)} |
  registrar register ${word(subject)} - --type ${word(schemaType)}${more} --url ${word(registry)}`;
}

function curl(text) {
  return { id: "curl", label: "curl", text };
}

function command(text) {
  return { id: "command", label: "Command line", text };
}

function java(body, url) {
  return { id: "java", label: "Java", text: `import io.confluent.kafka.schemaregistry.client.CachedSchemaRegistryClient;

class Example {
  public static void main(String[] args) throws Exception {
    try (var client = new CachedSchemaRegistryClient(${url}, 100)) {
${body}
    }
  }
}` };
}

function python(body, url) {
  return { id: "python", label: "Python", text: `from confluent_kafka.schema_registry import SchemaRegistryClient

client = SchemaRegistryClient({"url": ${url}})
${body}` };
}

function go(body, url) {
  return { id: "go", label: "Go", text: `package main

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/sr"
)

func main() {
	client, err := sr.NewClient(sr.URLs(${url}))
	if err != nil {
		panic(err)
	}
${body}
}` };
}

function javascript(body, url) {
  return { id: "javascript", label: "JavaScript", text: `\
const { SchemaRegistryClient } = require("@confluentinc/schemaregistry");

async function main() {
  const client = new SchemaRegistryClient({ baseURLs: [${url}] });
${body}
}

main();` };
}
