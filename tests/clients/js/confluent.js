'use strict';
// @confluentinc/schemaregistry, called by test_javascript.py.

const {
  SchemaRegistryClient, AvroSerializer, AvroDeserializer, JsonSerializer, JsonDeserializer, SerdeType,
} = require('@confluentinc/schemaregistry');
const serve = require('./bridge');

const config = { baseURLs: [process.argv[2]], maxRetries: 0 };
let client = new SchemaRegistryClient(config);

// Every method of the client under its own name.
const calls = {};
for (const name of Object.getOwnPropertyNames(SchemaRegistryClient.prototype)) {
  if (name !== 'constructor') calls[name] = async (...given) => client[name](...given);
}

serve({
  ...calls,
  // A client without caches, as another process would have.
  forget: async () => { client = new SchemaRegistryClient(config); },
  serialize: (topic, message, conf) => new AvroSerializer(client, SerdeType.VALUE, conf).serialize(topic, message),
  deserialize: (topic, bytes, conf) => new AvroDeserializer(client, SerdeType.VALUE, conf ?? {}).deserialize(topic, bytes),
  serializeJson: (topic, message, conf) => new JsonSerializer(client, SerdeType.VALUE, conf).serialize(topic, message),
  deserializeJson: (topic, bytes) => new JsonDeserializer(client, SerdeType.VALUE, {}).deserialize(topic, bytes),
});
