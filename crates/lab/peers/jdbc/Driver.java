// TPC-C over JDBC: loads a folder of tables into an engine, runs clients, checks the conditions.
//
//   java -cp ENGINE.jar:CLASSES Driver URL FOLDER CLIENTS SECONDS ROUNDS WARM_SECONDS ISOLATION LOCKS IDEAL STATEMENTS
//
// URL of an engine in this process lacks the name of a database, which goes before its options; with IDEAL `true`
// every client has one of its own. URL of a server (with `//`) is whole.
// FOLDER is written by `halcyon lab tpcc`: schema.sql (a statement a line), tables.txt (name, kinds
// of columns), NAME.tsv (rows), STATEMENTS (name, SQL), conditions.tsv (number, SQL) and
// inputs-N.txt (transactions of client N, which go round when they are used up).
// Prints lines of words: `round`, `took`, `done`, `latency`, `broken`, `failed`, `loaded`; the last is `end`.

import java.io.BufferedReader;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Timestamp;
import java.sql.Types;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CyclicBarrier;

public final class Driver {
    private final String url;
    private final Path folder;
    /** Whether the engine is a server and not part of this process. */
    private final boolean server;
    private final Path statements;

    private Driver(String url, Path folder, String statements) {
        this.url = url;
        this.folder = folder;
        this.server = url.contains("//");
        this.statements = folder.resolve(statements);
    }

    public static void main(String[] args) throws Exception {
        Driver driver = new Driver(args[0], Path.of(args[1]), args[9]);
        int clients = Integer.parseInt(args[2]);
        long nanos = (long) (Double.parseDouble(args[3]) * 1e9);
        int rounds = Integer.parseInt(args[4]);
        long warm = (long) (Double.parseDouble(args[5]) * 1e9);
        boolean serializable = args[6].equals("serializable");
        boolean tableLocks = args[7].equals("tables");
        int databases = args[8].equals("true") ? clients : 1;
        int level = serializable
            ? Connection.TRANSACTION_SERIALIZABLE : Connection.TRANSACTION_READ_COMMITTED;
        try {
            // Kept open to the end: a database in memory lives as long as somebody is connected.
            List<Connection> keepers = new ArrayList<>();
            for (int number = 0; number < databases; number++) {
                keepers.add(driver.connect(number));
                driver.load(keepers.get(number));
            }
            System.out.println("loaded");
            driver.measure(clients, databases, rounds, nanos / rounds, warm, level, tableLocks);
            for (Connection keeper : keepers) {
                driver.check(keeper);
            }
            System.out.println("end");
        } catch (Exception error) {
            error.printStackTrace();
            System.out.println("failed " + error);
        }
        System.out.flush();
        // Some engines leave threads behind that would keep the process alive.
        System.exit(0);
    }

    private Connection connect(int database) throws SQLException {
        if (server) {
            return DriverManager.getConnection(url);
        }
        int options = url.indexOf(';');
        String name = "tpcc" + database;
        return DriverManager.getConnection(
            options < 0 ? url + name : url.substring(0, options) + name + url.substring(options),
            "SA", "");
    }

    private void load(Connection connection) throws Exception {
        try (Statement statement = connection.createStatement()) {
            for (String text : Files.readAllLines(folder.resolve("schema.sql"))) {
                statement.execute(text);
            }
        }
        connection.setAutoCommit(false);
        for (String line : Files.readAllLines(folder.resolve("tables.txt"))) {
            String[] words = line.split(" ");
            loadTable(connection, words[0], words[1]);
        }
        if (server) {
            connection.setAutoCommit(true);
            try (Statement statement = connection.createStatement()) {
                statement.execute("VACUUM ANALYZE");
            }
        }
    }

    /** Kinds: i number, m cents, r ten-thousandths, t text, d microseconds. */
    private void loadTable(Connection connection, String table, String kinds) throws Exception {
        String marks = "?,".repeat(kinds.length());
        String text = "INSERT INTO " + table + " VALUES (" + marks.substring(0, marks.length() - 1) + ")";
        try (PreparedStatement insert = connection.prepareStatement(text);
             BufferedReader rows = Files.newBufferedReader(folder.resolve(table + ".tsv"))) {
            int pending = 0;
            for (String row = rows.readLine(); row != null; row = rows.readLine()) {
                String[] values = row.split("\t", -1);
                for (int at = 0; at < values.length; at++) {
                    set(insert, at + 1, kinds.charAt(at), values[at]);
                }
                insert.addBatch();
                if (++pending % 1000 == 0) {
                    insert.executeBatch();
                    connection.commit();
                }
            }
            if (pending % 1000 != 0) {
                insert.executeBatch();
            }
            connection.commit();
        }
    }

    private static void set(PreparedStatement to, int at, char kind, String value)
            throws SQLException {
        if (value.equals("\\N")) {
            to.setNull(at, kind == 'd' ? Types.TIMESTAMP : Types.INTEGER);
            return;
        }
        switch (kind) {
            case 'i' -> to.setInt(at, Integer.parseInt(value));
            case 'm' -> to.setBigDecimal(at, cents(Long.parseLong(value)));
            case 'r' -> to.setBigDecimal(at,
                new BigDecimal(BigInteger.valueOf(Long.parseLong(value)), 4));
            case 'd' -> to.setTimestamp(at, moment(Long.parseLong(value)));
            default -> to.setString(at, value);
        }
    }

    static BigDecimal cents(long cents) {
        return BigDecimal.valueOf(cents, 2);
    }

    static Timestamp moment(long micros) {
        return new Timestamp(micros / 1000);
    }

    private void measure(
            int count, int databases, int rounds, long nanos, long warm, int level,
            boolean tableLocks) throws Exception {
        List<Client> clients = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            Connection connection = connect(number % databases);
            connection.setAutoCommit(false);
            connection.setTransactionIsolation(level);
            Transactions transactions =
                new Transactions(connection, statements, tableLocks);
            List<long[]> inputs = new ArrayList<>();
            List<String> names = new ArrayList<>();
            Inputs.read(folder.resolve("inputs-" + number + ".txt"), inputs, names);
            clients.add(new Client(transactions, inputs, names));
        }
        round(clients, warm);
        clients.forEach(Client::forget);
        for (int round = 0; round < rounds; round++) {
            round(clients, nanos);
        }
        for (Client client : clients) {
            client.print();
            client.transactions.close();
        }
    }

    private static void round(List<Client> clients, long nanos) throws Exception {
        CyclicBarrier barrier = new CyclicBarrier(clients.size());
        List<Thread> threads = new ArrayList<>();
        for (Client client : clients) {
            Thread thread = new Thread(() -> client.work(barrier, nanos));
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.join();
        }
        for (Client client : clients) {
            if (client.failure != null) {
                throw client.failure;
            }
        }
    }

    private void check(Connection connection) throws Exception {
        connection.setAutoCommit(true);
        for (String line : Files.readAllLines(folder.resolve("conditions.tsv"))) {
            int tab = line.indexOf('\t');
            try (Statement statement = connection.createStatement();
                 ResultSet rows = statement.executeQuery(line.substring(tab + 1))) {
                rows.next();
                if (rows.getLong(1) != 0) {
                    System.out.println("broken " + line.substring(0, tab) + " " + rows.getLong(1));
                }
            }
        }
    }
}
