// Reads pairs of types, one pair a line and a tab between them, and prints for each whether Flink casts a value of the
// first to the second on its own, as it does for rows that are written to a table: true or false.

import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.utils.LogicalTypeCasts;
import org.apache.flink.table.types.logical.utils.LogicalTypeParser;

public class FlinkCasts {
  public static void main(String[] arguments) throws Exception {
    StringBuilder answers = new StringBuilder();
    for (String line : Files.readAllLines(Path.of(arguments[0]))) {
      String[] pair = line.split("\t");
      answers.append(LogicalTypeCasts.supportsImplicitCast(parsed(pair[0]), parsed(pair[1]))).append('\n');
    }
    System.out.print(answers);
  }

  private static LogicalType parsed(String type) {
    return LogicalTypeParser.parse(type, FlinkCasts.class.getClassLoader());
  }
}
