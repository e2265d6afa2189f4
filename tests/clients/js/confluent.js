'use strict';
// @confluentinc/schemaregistry, called by test_javascript.py.

const {
  SchemaRegistryClient, AvroSerializer, AvroDeserializer, JsonSerializer, JsonDeserializer,
  ProtobufSerializer, ProtobufDeserializer, SerdeType,
} = require('@confluentinc/schemaregistry');
const { createFileRegistry, createMutableRegistry, fromBinary, fromJson, toBinary } = require('@bufbuild/protobuf');
const { FileDescriptorSetSchema } = require('@bufbuild/protobuf/wkt');
const serve = require('./bridge');

const { config: credentials, agent } = serve.config();
const config = {
  baseURLs: [process.argv[2]], maxRetries: 0, ...credentials,
  ...(agent && { createAxiosDefaults: { httpsAgent: agent } }),
};
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
  deserialize: (topic, bytes, conf) => new AvroDeserializer(client, SerdeType.VALUE, conf ?? {})
    .deserialize(topic, bytes),
  serializeJson: (topic, message, conf) => new JsonSerializer(client, SerdeType.VALUE, conf).serialize(topic, message),
  // `files` is a FileDescriptorSet; a message is given as JSON, and read as bytes.
  serializeProtobuf: (topic, files, type, message, conf) => {
    const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, files));
    const serializer = new ProtobufSerializer(
      client, SerdeType.VALUE, { ...conf, registry: createMutableRegistry(registry) });
    return serializer.serialize(topic, fromJson(registry.getMessage(type), message, { registry }));
  },
  deserializeProtobuf: async (topic, bytes) => {
    const deserializer = new ProtobufDeserializer(client, SerdeType.VALUE, {});
    const message = await deserializer.deserialize(topic, bytes);
    const type = deserializer.fileRegistry.getMessage(message.$typeName);
    return { type: message.$typeName, bytes: { base64: Buffer.from(toBinary(type, message)).toString('base64') } };
  },
  deserializeJson: (topic, bytes) => new JsonDeserializer(client, SerdeType.VALUE, {}).deserialize(topic, bytes),
});
