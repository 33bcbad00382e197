import java.math.BigDecimal;
import java.sql.*;
import java.util.*;

/** What programs do through JDBC: metadata, batches, server-side statements, portals, types. */
public class Check {
    private static int failed = 0;
    private static String url;

    interface Test { void run(Connection connection) throws Exception; }

    static void check(String name, Test test) {
        try (Connection connection = DriverManager.getConnection(url, "halcyon", "")) {
            test.run(connection);
            System.out.println("ok " + name);
        } catch (Throwable error) {
            failed++;
            System.out.println("FAILED " + name + ": " + error);
        }
    }

    static void same(Object expected, Object actual) {
        if (!Objects.equals(expected, actual)) {
            throw new AssertionError("expected " + expected + ", got " + actual);
        }
    }

    static List<String> column(ResultSet rows, String name) throws SQLException {
        List<String> values = new ArrayList<>();
        while (rows.next()) values.add(rows.getString(name));
        return values;
    }

    public static void main(String[] args) {
        url = "jdbc:postgresql://" + args[0] + ":" + args[1] + "/halcyon";
        check("a schema", Check::schema);
        check("metadata of the product", Check::product);
        check("metadata of tables", Check::tables);
        check("metadata of columns", Check::columns);
        check("metadata of keys", Check::keys);
        check("a batch", Check::batch);
        check("a batch that fails", Check::failedBatch);
        check("generated keys", Check::generatedKeys);
        check("server-side statements after five executions", Check::serverSide);
        check("rows in portions within a transaction", Check::fetchSize);
        check("values of every type", Check::types);
        check("parameter and result metadata", Check::describe);
        check("savepoints and isolation", Check::transactions);
        check("a timeout cancels", Check::timeout);
        check("COPY", Check::copy);
        check("isolation and read-only are told", Check::modes);
        check("arrays both ways", Check::arrays);
        check("a result set that writes back", Check::updatable);
        check("batches rewritten as one INSERT", Check::rewritten);
        check("statements in the simple protocol", Check::simple);
        check("notifications", Check::notifications);
        check("a savepoint around every statement", Check::autosave);
        check("a pool of HikariCP", Check::pool);
        System.exit(failed == 0 ? 0 : 1);
    }

    static void schema(Connection c) throws Exception {
        try (Statement s = c.createStatement()) {
            s.execute("CREATE TABLE customer (id INTEGER PRIMARY KEY, name VARCHAR(40) NOT NULL)");
            s.execute("CREATE TABLE purchase (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
                + " customer_id INTEGER NOT NULL REFERENCES customer (id), total NUMERIC(10,2))");
            s.execute("CREATE INDEX purchase_total ON purchase (total)");
            same(2, s.executeUpdate("INSERT INTO customer VALUES (1, 'Ann'), (2, 'Bob')"));
        }
    }

    static void product(Connection c) throws Exception {
        DatabaseMetaData meta = c.getMetaData();
        same("PostgreSQL", meta.getDatabaseProductName());
        same(16, meta.getDatabaseMajorVersion());
        same("halcyon", c.getCatalog());
        same("public", c.getSchema());
        same(true, column(meta.getSchemas(), "TABLE_SCHEM").contains("public"));
        same(true, c.isValid(5));
    }

    static void tables(Connection c) throws Exception {
        DatabaseMetaData meta = c.getMetaData();
        ResultSet rows = meta.getTables(null, "public", "%", new String[] {"TABLE"});
        same(List.of("customer", "purchase"), column(rows, "TABLE_NAME"));
    }

    static void columns(Connection c) throws Exception {
        ResultSet rows = c.getMetaData().getColumns(null, "public", "purchase", "%");
        List<String> seen = new ArrayList<>();
        while (rows.next()) {
            seen.add(rows.getString("COLUMN_NAME") + " " + rows.getString("TYPE_NAME") + " "
                + rows.getInt("COLUMN_SIZE") + " " + rows.getString("IS_NULLABLE"));
        }
        same("customer_id int4 10 NO", seen.get(1));
        same("total numeric 10 YES", seen.get(2));
        same(3, seen.size());
    }

    static void keys(Connection c) throws Exception {
        DatabaseMetaData meta = c.getMetaData();
        same(List.of("id"), column(meta.getPrimaryKeys(null, "public", "customer"), "COLUMN_NAME"));
        ResultSet imported = meta.getImportedKeys(null, "public", "purchase");
        same(true, imported.next());
        same("customer", imported.getString("PKTABLE_NAME"));
        same("customer_id", imported.getString("FKCOLUMN_NAME"));
        ResultSet indexes = meta.getIndexInfo(null, "public", "purchase", false, true);
        same(true, column(indexes, "INDEX_NAME").contains("purchase_total"));
    }

    static void batch(Connection c) throws Exception {
        try (PreparedStatement s = c.prepareStatement("INSERT INTO customer VALUES (?, ?)")) {
            for (int id = 100; id < 350; id++) {
                s.setInt(1, id);
                s.setString(2, "customer " + id);
                s.addBatch();
            }
            int[] counts = s.executeBatch();
            same(250, counts.length);
            same(250, Arrays.stream(counts).sum());
        }
        try (Statement s = c.createStatement()) {
            s.addBatch("UPDATE customer SET name = 'x' WHERE id = 100");
            s.addBatch("DELETE FROM customer WHERE id >= 340");
            same("[1, 10]", Arrays.toString(s.executeBatch()));
        }
    }

    static void failedBatch(Connection c) throws Exception {
        c.setAutoCommit(false);
        try (PreparedStatement s = c.prepareStatement("INSERT INTO customer VALUES (?, 'y')")) {
            for (int id : new int[] {1000, 1, 1001}) {
                s.setInt(1, id);
                s.addBatch();
            }
            s.executeBatch();
            throw new AssertionError("a duplicate was taken");
        } catch (BatchUpdateException error) {
            same("23505", error.getNextException().getSQLState());
        }
        c.rollback();
        try (Statement s = c.createStatement()) {
            ResultSet rows = s.executeQuery("SELECT count(*) FROM customer WHERE id >= 1000");
            rows.next();
            same(0, rows.getInt(1));
        }
    }

    static void generatedKeys(Connection c) throws Exception {
        String sql = "INSERT INTO purchase (customer_id, total) VALUES (1, ?)";
        try (PreparedStatement s = c.prepareStatement(sql, new String[] {"id"})) {
            s.setBigDecimal(1, new BigDecimal("12.34"));
            same(1, s.executeUpdate());
            ResultSet keys = s.getGeneratedKeys();
            same(true, keys.next());
            same(true, keys.getLong("id") > 0);
        }
    }

    static void serverSide(Connection c) throws Exception {
        try (PreparedStatement s = c.prepareStatement("SELECT name FROM customer WHERE id = ?")) {
            for (int round = 0; round < 20; round++) {
                s.setInt(1, 1 + round % 2);
                try (ResultSet rows = s.executeQuery()) {
                    same(true, rows.next());
                    same(round % 2 == 0 ? "Ann" : "Bob", rows.getString(1));
                    same(false, rows.next());
                }
            }
            same(true, ((org.postgresql.PGStatement) s).isUseServerPrepare());
        }
    }

    static void fetchSize(Connection c) throws Exception {
        c.setAutoCommit(false);
        try (Statement s = c.createStatement()) {
            s.setFetchSize(7);
            ResultSet rows = s.executeQuery("SELECT id FROM customer WHERE id >= 100 ORDER BY id");
            int expected = 100;
            while (rows.next()) same(expected++, rows.getInt(1));
            same(340, expected);
        }
        c.commit();
    }

    static void types(Connection c) throws Exception {
        try (Statement s = c.createStatement()) {
            s.execute("CREATE TABLE kinds (b BOOLEAN, s SMALLINT, i INTEGER, l BIGINT, r REAL,"
                + " d DOUBLE PRECISION, n NUMERIC(12,3), t TEXT, y BYTEA, a DATE, h TIME,"
                + " m TIMESTAMP, z TIMESTAMPTZ, u UUID)");
        }
        UUID uuid = UUID.fromString("00112233-4455-6677-8899-aabbccddeeff");
        Timestamp time = Timestamp.valueOf("2024-02-29 12:34:56.789");
        // From the fifth execution on, values travel in binary.
        String insert = "INSERT INTO kinds VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)";
        try (PreparedStatement s = c.prepareStatement(insert)) {
            for (int round = 0; round < 8; round++) {
                s.setBoolean(1, true);
                s.setShort(2, (short) -7);
                s.setInt(3, 42);
                s.setLong(4, 1L << 40);
                s.setFloat(5, 1.5f);
                s.setDouble(6, -0.1);
                s.setBigDecimal(7, new BigDecimal("-123456.789"));
                s.setString(8, "grün \u20ac");
                s.setBytes(9, new byte[] {0, -1});
                s.setDate(10, java.sql.Date.valueOf("2024-02-29"));
                s.setTime(11, Time.valueOf("23:59:58"));
                s.setTimestamp(12, time);
                s.setTimestamp(13, time);
                s.setObject(14, uuid);
                same(1, s.executeUpdate());
            }
            for (int place = 1; place <= 14; place++) s.setNull(place, Types.NULL);
            same(1, s.executeUpdate());
        }
        try (PreparedStatement s = c.prepareStatement("SELECT * FROM kinds WHERE i = ?")) {
            for (int round = 0; round < 8; round++) {
                s.setInt(1, 42);
                ResultSet rows = s.executeQuery();
                int count = 0;
                while (rows.next()) {
                    count++;
                    same(true, rows.getBoolean(1));
                    same((short) -7, rows.getShort(2));
                    same(1L << 40, rows.getLong(4));
                    same(1.5f, rows.getFloat(5));
                    same(-0.1, rows.getDouble(6));
                    same(new BigDecimal("-123456.789"), rows.getBigDecimal(7));
                    same("grün \u20ac", rows.getString(8));
                    same("[0, -1]", Arrays.toString(rows.getBytes(9)));
                    same("2024-02-29", rows.getDate(10).toString());
                    same("23:59:58", rows.getTime(11).toString());
                    same(time, rows.getTimestamp(12));
                    same(time, rows.getTimestamp(13));
                    same(uuid, rows.getObject(14));
                }
                same(8, count);
            }
        }
        try (Statement s = c.createStatement()) {
            ResultSet rows = s.executeQuery("SELECT * FROM kinds WHERE i IS NULL");
            same(true, rows.next());
            for (int place = 1; place <= 14; place++) same(null, rows.getObject(place));
        }
    }

    static void describe(Connection c) throws Exception {
        String sql = "SELECT id AS number, name FROM customer WHERE id = ? AND name = ?";
        try (PreparedStatement s = c.prepareStatement(sql)) {
            same(2, s.getParameterMetaData().getParameterCount());
            same(Types.INTEGER, s.getParameterMetaData().getParameterType(1));
            ResultSetMetaData meta = s.getMetaData();
            same("number", meta.getColumnLabel(1));
            same(Types.INTEGER, meta.getColumnType(1));
            same(Types.VARCHAR, meta.getColumnType(2));
        }
    }

    static void transactions(Connection c) throws Exception {
        c.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
        c.setAutoCommit(false);
        try (Statement s = c.createStatement()) {
            s.executeUpdate("INSERT INTO customer VALUES (2000, 'a')");
            Savepoint savepoint = c.setSavepoint();
            try {
                s.executeUpdate("INSERT INTO customer VALUES (2000, 'b')");
                throw new AssertionError("a duplicate was taken");
            } catch (SQLException error) {
                same("23505", error.getSQLState());
            }
            c.rollback(savepoint);
            same(1, s.executeUpdate("UPDATE customer SET name = 'c' WHERE id = 2000"));
            c.commit();
            ResultSet rows = s.executeQuery("SELECT name FROM customer WHERE id = 2000");
            rows.next();
            same("c", rows.getString(1));
        }
        c.rollback();
        c.setReadOnly(true);
        try (Statement s = c.createStatement()) {
            s.executeUpdate("DELETE FROM customer");
            throw new AssertionError("a read-only transaction wrote");
        } catch (SQLException error) {
            same("25006", error.getSQLState());
        }
    }

    static void timeout(Connection c) throws Exception {
        try (Statement s = c.createStatement()) {
            s.setQueryTimeout(1);
            s.executeQuery("SELECT count(*) FROM customer a, customer b, customer d, customer e"
                + " WHERE a.id + b.id + d.id + e.id = 0");
            throw new AssertionError("it was not cancelled");
        } catch (SQLException error) {
            same("57014", error.getSQLState());
        }
        same(true, c.isValid(5));
    }

    static void copy(Connection c) throws Exception {
        var copy = new org.postgresql.copy.CopyManager((org.postgresql.core.BaseConnection) c);
        var in = new java.io.StringReader("3000\tCid\n3001\tDot\n");
        same(2L, copy.copyIn("COPY customer FROM STDIN", in));
        var out = new java.io.StringWriter();
        String sql = "COPY (SELECT * FROM customer WHERE id >= 3000 ORDER BY id) TO STDOUT";
        same(2L, copy.copyOut(sql, out));
        same("3000\tCid\n3001\tDot\n", out.toString());
    }

    static void modes(Connection c) throws Exception {
        same(Connection.TRANSACTION_SERIALIZABLE, c.getTransactionIsolation());
        c.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED);
        same(Connection.TRANSACTION_READ_COMMITTED, c.getTransactionIsolation());
        c.setReadOnly(true);
        same(true, c.isReadOnly());
        c.setReadOnly(false);
        c.setSchema("public");
        same("public", c.getSchema());
    }

    static void arrays(Connection c) throws Exception {
        try (PreparedStatement s = c.prepareStatement("SELECT id FROM customer WHERE id = ANY (?)")) {
            // From the fifth execution on, values travel in binary.
            for (int round = 0; round < 8; round++) {
                s.setArray(1, c.createArrayOf("int4", new Integer[] {1, 2, -5}));
                same(List.of("1", "2"), column(s.executeQuery(), "id"));
            }
        }
        try (Statement s = c.createStatement()) {
            ResultSet rows = s.executeQuery("SELECT ARRAY[1, NULL, 3], ARRAY['a', 'b c']");
            rows.next();
            same("[1, null, 3]", Arrays.toString((Object[]) rows.getArray(1).getArray()));
            same("[a, b c]", Arrays.toString((Object[]) rows.getArray(2).getArray()));
        }
    }

    static void updatable(Connection c) throws Exception {
        int kind = ResultSet.TYPE_SCROLL_INSENSITIVE;
        try (Statement s = c.createStatement(kind, ResultSet.CONCUR_UPDATABLE)) {
            ResultSet rows = s.executeQuery("SELECT id, name FROM customer WHERE id = 110");
            rows.next();
            rows.updateString("name", "changed");
            rows.updateRow();
        }
        try (Statement s = c.createStatement()) {
            ResultSet rows = s.executeQuery("SELECT name FROM customer WHERE id = 110");
            same(List.of("changed"), column(rows, "name"));
        }
    }

    static void rewritten(Connection c) throws Exception {
        String own = url + "?reWriteBatchedInserts=true";
        try (Connection other = DriverManager.getConnection(own, "halcyon", "");
             PreparedStatement s = other.prepareStatement("INSERT INTO customer VALUES (?, ?)")) {
            for (int id = 4000; id < 4100; id++) {
                s.setInt(1, id);
                s.setString(2, "r" + id);
                s.addBatch();
            }
            s.executeBatch();
        }
        try (Statement s = c.createStatement()) {
            String sql = "SELECT count(*) FROM customer WHERE id BETWEEN 4000 AND 4099";
            same(List.of("100"), column(s.executeQuery(sql), "count"));
        }
    }

    static void simple(Connection c) throws Exception {
        String own = url + "?preferQueryMode=simple";
        try (Connection other = DriverManager.getConnection(own, "halcyon", "");
             PreparedStatement s = other.prepareStatement("SELECT name FROM customer WHERE id = ?")) {
            s.setInt(1, 1);
            same(List.of("Ann"), column(s.executeQuery(), "name"));
        }
    }

    static void notifications(Connection c) throws Exception {
        try (Statement s = c.createStatement()) {
            s.execute("LISTEN changes");
            s.execute("NOTIFY changes, 'of customer'");
        }
        var told = c.unwrap(org.postgresql.PGConnection.class).getNotifications(5000);
        same("of customer", told[0].getParameter());
    }

    static void autosave(Connection c) throws Exception {
        String own = url + "?autosave=always";
        try (Connection other = DriverManager.getConnection(own, "halcyon", "");
             Statement s = other.createStatement()) {
            other.setAutoCommit(false);
            try {
                s.execute("SELECT nonsense");
            } catch (SQLException error) {
                same("42703", error.getSQLState());
            }
            same(List.of("1"), column(s.executeQuery("SELECT 1 AS one"), "one"));
            other.commit();
        }
    }

    static void pool(Connection c) throws Exception {
        var config = new com.zaxxer.hikari.HikariConfig();
        config.setJdbcUrl(url);
        config.setUsername("halcyon");
        config.setMaximumPoolSize(3);
        config.setTransactionIsolation("TRANSACTION_SERIALIZABLE");
        try (var pool = new com.zaxxer.hikari.HikariDataSource(config)) {
            for (int round = 0; round < 10; round++) {
                try (Connection own = pool.getConnection(); Statement s = own.createStatement()) {
                    same(List.of("1"), column(s.executeQuery("SELECT 1 AS one"), "one"));
                }
            }
        }
    }
}
