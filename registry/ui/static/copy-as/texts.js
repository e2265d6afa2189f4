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
 * version), "id" (id, context), "draft" (subject, body: of a registration), "config" or "mode" (scope as /scopes names
 * it, body: of the change) or "deletion" (subject, version: null for all, permanent); registry: its URL.
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
    curl(sent("POST", `${registry}/subjects/${segment(subject)}/versions`, body)),
    command(draftCommand(subject, body, registry)),
    ...draftPrograms(subject, body, registry),
  ],
  config: ({ scope, body }, registry) => [
    curl(sent("PUT", `${registry}/config${scope && `/${segment(scope)}`}`, body)),
    command(configCommand(scope, body, registry)),
  ],
  mode: ({ scope, body }, registry) => [
    curl(sent("PUT", `${registry}/mode${scope && `/${segment(scope)}`}`, body)),
    command(`registrar mode set ${word(body.mode)}${scope && ` ${word(scope)}`} --url ${word(registry)}`),
  ],
  deletion: ({ subject, version, permanent }, registry) => {
    const [name, fullName] = [literal(subject), literal(subject, true)];
    const where = `${registry}/subjects/${segment(subject)}${version === null ? "" : `/versions/${version}`}`;
    const meant = version === null ? subject : `${subject}:${version}`;
    const [more, moreOfPython] = permanent ? [", true", ", permanent=True"] : ["", ""];
    return [
      curl(`curl -s -X DELETE ${word(`${where}${permanent ? "?permanent=true" : ""}`)}`),
      command(`registrar delete ${word(meant)}${permanent ? " --permanent" : ""} --url ${word(registry)}`),
      python(version === null ? `print(client.delete_subject(${fullName}${moreOfPython}))`
        : `print(client.delete_version(${fullName}, ${version}${moreOfPython}))`, literal(registry, true)),
      javascript(version === null ? `  console.log(await client.deleteSubject(${name}${more}));`
        : `  console.log(await client.deleteSubjectVersion(${name}, ${version}${more}));`, literal(registry)),
    ];
  },
};

/** A command that sends a body as JSON. */
function sent(method, url, body) {
  return `curl -s -X ${method} -H 'Content-Type: application/json' -d ${word(JSON.stringify(body))} \\
  ${word(url)}`;
}

function configCommand(scope, body, registry) {
  const rest = `${scope && ` ${word(scope)}`} --url ${word(registry)}`;
  const { compatibility, ...others } = body;
  if (typeof compatibility === "string" && Object.keys(others).length === 0) {
    return `registrar config set --level ${word(compatibility)}${rest}`;
  }
  return `printf %s ${word(JSON.stringify(body))} |
  registrar config set --from -${rest}`;
}

// Clients take metadata and rules as objects of their own, so drafts with them are left to curl.
function draftPrograms(subject, { schema, schemaType, references = [], metadata, ruleSet }, registry) {
  if (metadata || ruleSet) return [];
  const [url, name, text] = [literal(registry), literal(subject), literal(schema)];
  const [fullUrl, fullName, fullText] = [literal(registry, true), literal(subject, true), literal(schema, true)];
  const listed = (made) => references.map((each) => made(each)).join(", ");
  const ofPython = listed((each) =>
    `SchemaReference(${literal(each.name, true)}, ${literal(each.subject, true)}, ${each.version})`);
  const ofGo = listed((each) => `{Name: ${literal(each.name, true)}, Subject: ${literal(each.subject, true)}, `
    + `Version: ${each.version}}`);
  const ofJavaScript = listed((each) =>
    `{ name: ${literal(each.name)}, subject: ${literal(each.subject)}, version: ${each.version} }`);
  return [
    python(`schema = Schema(${fullText}, ${literal(schemaType)}${ofPython && `, [${ofPython}]`})
print(client.register_schema(${fullName}, schema))`, fullUrl,
    ofPython ? "Schema, SchemaReference, SchemaRegistryClient" : "Schema, SchemaRegistryClient"),
    go(`	made, err := client.CreateSchema(context.Background(), ${fullName}, sr.Schema{
		Schema: ${fullText},
		Type:   sr.${GO_TYPES[schemaType]},${ofGo && `
		References: []sr.SchemaReference{${ofGo}},`}
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(made.ID)`, fullUrl),
    javascript(`  const schema = ${text};
  console.log(await client.register(${name}, {
    schema, schemaType: ${literal(schemaType)}, references: [${ofJavaScript}],
  }));`, url),
  ];
}

const GO_TYPES = { AVRO: "TypeAvro", JSON: "TypeJSON", PROTOBUF: "TypeProtobuf" };

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

function python(body, url, imported = "SchemaRegistryClient") {
  return { id: "python", label: "Python", text: `from confluent_kafka.schema_registry import ${imported}

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
