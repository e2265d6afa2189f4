// Lets the tests call Confluent's Java client: one JSON request a line on standard input, one JSON reply a line on
// standard output. A request is {"client": number, "call": name, "arguments": [...]}; a reply has "result" or "error".
// The call "open" returns the number of a new client. Bytes travel as {"base64": text} both ways.
//
// The packages begin with org.apache.flink because the client comes in a bundle of Apache Flink, the only place in the
// public index that has it.

import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.ParsedSchema;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.avro.AvroSchema;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.CachedSchemaRegistryClient;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.SchemaRegistryClient;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.exceptions.RestClientException;
import org.apache.flink.avro.shaded.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.avro.shaded.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.avro.shaded.org.apache.avro.Schema;
import org.apache.flink.avro.shaded.org.apache.avro.generic.GenericDatumReader;
import org.apache.flink.avro.shaded.org.apache.avro.generic.GenericDatumWriter;
import org.apache.flink.avro.shaded.org.apache.avro.io.DecoderFactory;
import org.apache.flink.avro.shaded.org.apache.avro.io.Encoder;
import org.apache.flink.avro.shaded.org.apache.avro.io.EncoderFactory;
import org.apache.flink.formats.avro.registry.confluent.ConfluentSchemaRegistryCoder;

public class Bridge {
  private static final int CACHED = 100;
  private static final ObjectMapper JSON = new ObjectMapper();

  private interface Call {
    Object on(SchemaRegistryClient client, Arguments given) throws IOException, RestClientException;
  }

  // The arguments of a call, taken one after another.
  private static final class Arguments {
    private final JsonNode all;
    private int taken = 0;

    Arguments(JsonNode all) { this.all = all; }

    JsonNode next() { return all.get(taken++); }

    String text() { return next().asText(); }

    ParsedSchema schema() { return new AvroSchema(text()); }
  }

  private static final Map<String, Call> CALLS = new HashMap<>();

  static {
    CALLS.put("register", (client, given) -> client.register(given.text(), given.schema()));
    CALLS.put("getId", (client, given) -> client.getId(given.text(), given.schema()));
    CALLS.put("getVersion", (client, given) -> client.getVersion(given.text(), given.schema()));
    CALLS.put("getSchemaById", (client, given) -> client.getSchemaById(given.next().asInt()).canonicalString());
    CALLS.put("getLatestSchema", (client, given) -> client.getLatestSchemaMetadata(given.text()).getSchema());
    CALLS.put("getAllVersions", (client, given) -> client.getAllVersions(given.text()));
    CALLS.put("getAllSubjects", (client, given) -> client.getAllSubjects());
    CALLS.put("getAllSubjectsById", (client, given) -> client.getAllSubjectsById(given.next().asInt()));
    CALLS.put("testCompatibility", (client, given) -> client.testCompatibility(given.text(), given.schema()));
    CALLS.put("getCompatibility", (client, given) -> client.getCompatibility(given.text()));
    CALLS.put("updateCompatibility", (client, given) -> client.updateCompatibility(given.text(), given.text()));
    CALLS.put("deleteSchemaVersion", (client, given) -> client.deleteSchemaVersion(given.text(), given.text()));
    CALLS.put("deleteSubject", (client, given) -> client.deleteSubject(given.text(), given.next().asBoolean()));
    CALLS.put("serialize", (client, given) -> serialize(client, given.text(), given.text(), given.next()));
    CALLS.put("deserialize", (client, given) -> deserialize(client, given.next().get("base64").binaryValue()));
  }

  // Writes the schema's id as Flink does, and registers the schema for that.
  private static Object serialize(SchemaRegistryClient client, String subject, String text, JsonNode value)
      throws IOException {
    Schema schema = new Schema.Parser().parse(text);
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    new ConfluentSchemaRegistryCoder(subject, client).writeSchema(schema, bytes);
    Object read = new GenericDatumReader<>(schema)
        .read(null, DecoderFactory.get().jsonDecoder(schema, value.toString()));
    Encoder encoder = EncoderFactory.get().directBinaryEncoder(bytes, null);
    new GenericDatumWriter<>(schema).write(read, encoder);
    encoder.flush();
    return Map.of("base64", bytes.toByteArray());
  }

  private static Object deserialize(SchemaRegistryClient client, byte[] bytes) throws IOException {
    InputStream input = new ByteArrayInputStream(bytes);
    Schema schema = new ConfluentSchemaRegistryCoder(client).readSchema(input);
    Object read = new GenericDatumReader<>(schema)
        .read(null, DecoderFactory.get().directBinaryDecoder(input, null));
    return JSON.readTree(read.toString());
  }

  private static SchemaRegistryClient open(Arguments given) {
    String url = given.text();
    return new CachedSchemaRegistryClient(url, CACHED, JSON.convertValue(given.next(), Map.class));
  }

  private static Map<String, Object> error(Throwable thrown) {
    Throwable cause = thrown;
    // Flink's coder wraps the client's exceptions.
    while (!(cause instanceof RestClientException) && cause.getCause() != null) cause = cause.getCause();
    Map<String, Object> error = new HashMap<>();
    error.put("name", cause.getClass().getSimpleName());
    error.put("message", String.valueOf(cause.getMessage()));
    if (cause instanceof RestClientException refused) {
      error.put("status", refused.getStatus());
      error.put("code", refused.getErrorCode());
    }
    return error;
  }

  public static void main(String[] options) throws IOException {
    List<SchemaRegistryClient> clients = new ArrayList<>();
    PrintStream replies = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = requests.readLine(); line != null; line = requests.readLine()) {
      Map<String, Object> reply = new HashMap<>();
      try {
        JsonNode request = JSON.readTree(line);
        Arguments given = new Arguments(request.get("arguments"));
        String call = request.get("call").asText();
        if (call.equals("open")) {
          clients.add(open(given));
          reply.put("result", clients.size() - 1);
        } else {
          reply.put("result", CALLS.get(call).on(clients.get(request.get("client").asInt()), given));
        }
      } catch (Exception thrown) {
        reply.put("error", error(thrown));
      }
      replies.println(JSON.writeValueAsString(reply));
    }
  }
}
