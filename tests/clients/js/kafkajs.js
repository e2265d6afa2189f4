'use strict';
// @kafkajs/confluent-schema-registry, called by test_javascript.py.

const { SchemaRegistry } = require('@kafkajs/confluent-schema-registry');
const serve = require('./bridge');

const host = process.argv[2];
const { config, agent } = serve.config();
const options = { host, retry: { retries: 0 }, ...config, agent };
let registry = new SchemaRegistry(options);

serve({
  // A client without a cache, as another process would have.
  forget: async () => { registry = new SchemaRegistry(options); },
  register: (schema, opts) => registry.register(schema, opts),
  getSchema: async (id) => JSON.parse(JSON.stringify(await registry.getSchema(id))),
  getRegistryId: (subject, version) => registry.getRegistryId(subject, version),
  getRegistryIdBySchema: (subject, schema) => registry.getRegistryIdBySchema(subject, schema),
  getLatestSchemaId: (subject) => registry.getLatestSchemaId(subject),
  encode: (id, payload) => registry.encode(id, payload),
  decode: (bytes) => registry.decode(bytes),
});
