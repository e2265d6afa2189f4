// Runs the statements of a file, each ending with a semicolon at the end of a line, in a Flink cluster of this process:
// each after the one before it has ended. Of a query it prints the first rows, as many as the second argument says, and
// stops it; the query of a Kafka topic would never end.

import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.TableResult;
import org.apache.flink.types.Row;
import org.apache.flink.util.CloseableIterator;

public class Sql {
  public static void main(String[] arguments) throws Exception {
    TableEnvironment tables = TableEnvironment.create(EnvironmentSettings.inStreamingMode());
    tables.getConfig().set("parallelism.default", "1");
    for (String statement : Files.readString(Path.of(arguments[0])).split(";\\s*\\n")) {
      if (statement.isBlank()) continue;
      TableResult result = tables.executeSql(statement);
      if (statement.stripLeading().startsWith("SELECT")) print(result, Integer.parseInt(arguments[1]));
      else result.await();
    }
  }

  private static void print(TableResult result, int rows) throws Exception {
    try (CloseableIterator<Row> all = result.collect()) {
      for (int i = 0; i < rows; i++) {
        Row row = all.next();
        System.out.println(row.getField(0) + " " + row.getField(1));
      }
    }
  }
}
