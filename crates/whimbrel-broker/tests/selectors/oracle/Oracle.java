import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;

import org.apache.activemq.artemis.api.core.SimpleString;
import org.apache.activemq.artemis.selector.filter.BooleanExpression;
import org.apache.activemq.artemis.selector.filter.Filterable;
import org.apache.activemq.artemis.selector.impl.SelectorParser;

/**
 * Answers what Artemis makes of selectors. A line of the first file has a selector and messages, separated by tabs. A line of the second
 * file has the answers: R if the selector is refused, else a letter for each message: T true, F false, U unknown, E an exception.
 */
public final class Oracle {
   public static void main(String[] files) throws Exception {
      List<String> answers = new ArrayList<>();
      for (String line : Files.readAllLines(Path.of(files[0]))) {
         String[] parts = line.split("\t");
         answers.add(answer(text(parts[0]), parts));
      }
      Files.write(Path.of(files[1]), answers);
   }

   private static String answer(String selector, String[] parts) {
      BooleanExpression expression;
      try {
         expression = SelectorParser.parse(selector);
      } catch (Throwable refused) {
         return "R";
      }
      StringBuilder answers = new StringBuilder("-");
      for (int at = 1; at < parts.length; at++) {
         answers.append(evaluate(expression, message(parts[at])));
      }
      return answers.toString();
   }

   private static char evaluate(BooleanExpression expression, Filterable message) {
      try {
         Object value = expression.evaluate(message);
         return value == null ? 'U' : Boolean.TRUE.equals(value) ? 'T' : 'F';
      } catch (Exception thrown) {
         return 'E';
      }
   }

   /** Properties are separated by commas: name, type and value, separated by colons. */
   private static Filterable message(String text) {
      Map<String, Object> properties = new HashMap<>();
      for (String property : text.split(",")) {
         String[] parts = property.split(":", -1);
         if (parts.length == 3) {
            properties.put(parts[0], value(parts[1], parts[2]));
         }
      }
      return new Message(properties);
   }

   private static Object value(String type, String value) {
      return switch (type) {
         case "b" -> value.equals("true");
         case "l" -> Long.valueOf(value);
         case "d" -> Double.longBitsToDouble(Long.parseUnsignedLong(value));
         default -> text(value);
      };
   }

   private static String text(String hex) {
      return new String(HexFormat.of().parseHex(hex), StandardCharsets.UTF_8);
   }

   private record Message(Map<String, Object> properties) implements Filterable {
      @Override
      public <T> T getBodyAs(Class<T> type) {
         return null;
      }

      @Override
      public Object getProperty(SimpleString name) {
         return properties.get(name.toString());
      }

      @Override
      public Object getLocalConnectionId() {
         return null;
      }
   }
}
