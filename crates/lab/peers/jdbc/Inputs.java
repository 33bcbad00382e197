// Transactions to run, read before the clock starts: numbers, and the one name that may occur.

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

final class Inputs {
    private Inputs() {}

    /** Fields as `Input::line` of the lab writes them; a name goes to `names`, its place stays 0. */
    static void read(Path file, List<long[]> inputs, List<String> names) throws Exception {
        for (String line : Files.readAllLines(file)) {
            String[] words = line.split(" ");
            long[] fields = new long[words.length];
            String name = null;
            for (int at = 0; at < words.length; at++) {
                char first = words[at].charAt(0);
                if (Character.isDigit(first)) {
                    fields[at] = Long.parseLong(words[at]);
                } else if (first != '-') {
                    name = words[at];
                }
            }
            inputs.add(fields);
            names.add(name);
        }
    }
}
