import java.sql.*;
import java.util.*;

/** The metadata and the types of pgjdbc 42.2, whose questions differ from those of its successors. */
public class Old {
    private static int failed = 0;
    private static Connection connection;

    interface Test { void run() throws Exception; }

    static void check(String name, Test test) {
        try {
            test.run();
            System.out.println("ok pgjdbc 42.2: " + name);
        } catch (Throwable error) {
            failed++;
            System.out.println("FAILED pgjdbc 42.2: " + name + ": " + error.toString().replaceAll("\\s+", " "));
        }
    }

    static int rows(ResultSet rows) throws SQLException {
        int count = 0;
        int columns = rows.getMetaData().getColumnCount();
        while (rows.next()) {
            for (int column = 1; column <= columns; column++) rows.getString(column);
            count++;
        }
        return count;
    }

    static void some(ResultSet rows) throws SQLException {
        if (rows(rows) == 0) throw new AssertionError("no rows");
    }

    static void same(Object expected, Object actual) {
        if (!Objects.equals(expected, actual)) throw new AssertionError("expected " + expected + ", got " + actual);
    }

    public static void main(String[] args) throws Exception {
        connection = DriverManager.getConnection("jdbc:postgresql://" + args[0] + ":" + args[1] + "/halcyon?currentSchema=old,public", "halcyon", "");
        DatabaseMetaData data = connection.getMetaData();
        check("a schema", () -> {
            try (Statement s = connection.createStatement()) {
                s.execute("DROP SCHEMA IF EXISTS old CASCADE; CREATE SCHEMA old; CREATE TABLE old.a (id SERIAL PRIMARY KEY, name VARCHAR(40) NOT NULL UNIQUE, tags TEXT[], doc JSONB, price NUMERIC(9,2) DEFAULT 1);"
                    + "CREATE TABLE old.b (id BIGINT PRIMARY KEY, a_id INT REFERENCES old.a ON DELETE CASCADE); CREATE INDEX b_a ON old.b (a_id DESC); CREATE VIEW old.v AS SELECT * FROM old.a; GRANT SELECT ON old.a TO PUBLIC");
            }
        });
        check("getTables", () -> some(data.getTables(null, "old", "%", new String[] {"TABLE", "VIEW"})));
        check("getColumns", () -> some(data.getColumns(null, "old", "a", "%")));
        check("getPrimaryKeys", () -> some(data.getPrimaryKeys(null, "old", "a")));
        check("getImportedKeys", () -> some(data.getImportedKeys(null, "old", "b")));
        check("getExportedKeys", () -> some(data.getExportedKeys(null, "old", "a")));
        check("getCrossReference", () -> some(data.getCrossReference(null, "old", "a", null, "old", "b")));
        check("getIndexInfo", () -> some(data.getIndexInfo(null, "old", "a", false, true)));
        check("getBestRowIdentifier", () -> some(data.getBestRowIdentifier(null, "old", "a", DatabaseMetaData.bestRowSession, true)));
        check("getTypeInfo", () -> some(data.getTypeInfo()));
        check("getSchemas and getCatalogs", () -> { some(data.getSchemas()); some(data.getCatalogs()); some(data.getTableTypes()); });
        check("getTablePrivileges", () -> some(data.getTablePrivileges(null, "old", "a")));
        check("getColumnPrivileges", () -> some(data.getColumnPrivileges(null, "old", "a", "%")));
        check("getFunctions and getProcedures", () -> { some(data.getFunctions(null, null, "upper")); rows(data.getProcedures(null, null, "%")); some(data.getFunctionColumns(null, null, "upper", "%")); });
        check("getUDTs", () -> rows(data.getUDTs(null, null, "%", null)));
        check("getVersionColumns", () -> rows(data.getVersionColumns(null, "old", "a")));
        check("getClientInfoProperties and keywords", () -> { some(data.getClientInfoProperties()); data.getSQLKeywords(); data.getMaxColumnNameLength(); data.getDefaultTransactionIsolation(); });
        check("a serial's sequence, generated keys, arrays", () -> {
            try (PreparedStatement s = connection.prepareStatement("INSERT INTO a (name, tags, doc) VALUES (?, ?, ?::jsonb)", new String[] {"id"})) {
                s.setString(1, "x");
                s.setArray(2, connection.createArrayOf("text", new Object[] {"p", null}));
                s.setString(3, "{}");
                same(1, s.executeUpdate());
                ResultSet keys = s.getGeneratedKeys();
                keys.next();
                same(1, keys.getInt(1));
            }
            try (Statement s = connection.createStatement(); ResultSet r = s.executeQuery("SELECT tags, doc FROM a")) {
                r.next();
                same(List.of("p"), List.of(((Object[]) r.getArray(1).getArray())[0]));
                same("jsonb", r.getMetaData().getColumnTypeName(2));
                same("a", ((org.postgresql.PGResultSetMetaData) r.getMetaData()).getBaseTableName(1));
            }
        });
        check("a result set that writes back", () -> {
            try (Statement s = connection.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_UPDATABLE); ResultSet r = s.executeQuery("SELECT id, name FROM a")) {
                r.next();
                r.updateString("name", "y");
                r.updateRow();
            }
        });
        check("a holdable cursor, a rowid and a refcursor", () -> {
            connection.setAutoCommit(false);
            try (Statement s = connection.createStatement()) {
                s.execute("DECLARE c CURSOR WITH HOLD FOR SELECT * FROM a");
                connection.commit();
                some(s.executeQuery("FETCH ALL FROM c"));
                s.execute("CLOSE c");
            }
            connection.commit();
            connection.setAutoCommit(true);
        });
        check("escapes of JDBC", () -> {
            for (String text : List.of("SELECT {fn now()}", "SELECT {d '2024-02-29'}, {ts '2024-02-29 12:00:00'}, {t '12:00:00'}", "SELECT {fn concat('a', 'b')}, {fn length('abc')}, {fn timestampadd(SQL_TSI_DAY, 1, now())}, {fn timestampdiff(SQL_TSI_DAY, now(), now())}",
                "SELECT * FROM {oj a LEFT OUTER JOIN b ON a.id = b.a_id}", "SELECT {fn dayofweek(now())}, {fn monthname(now())}, {fn user()}, {fn database()}, {fn ifnull(NULL, 1)}, {fn locate('a', 'bar')}, {fn left('abc', 2)}, {fn truncate(1.25, 1)}")) {
                try (Statement s = connection.createStatement()) {
                    some(s.executeQuery(text));
                } catch (SQLException error) {
                    throw new SQLException(error.getMessage() + " [" + text + "]");
                }
            }
        });
        System.exit(failed == 0 ? 0 : 1);
    }
}
