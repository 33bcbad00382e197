import java.io.PrintStream;
import java.math.BigDecimal;
import java.nio.file.*;
import java.sql.*;
import java.time.*;
import java.util.*;
import jakarta.persistence.LockModeType;
import org.hibernate.*;
import org.hibernate.cfg.Configuration;
import org.hibernate.query.criteria.*;

/** What programs do through Hibernate, Flyway, Liquibase and jOOQ's code generator. */
public class Check {
    private static int failed = 0;
    private static String url;
    private static SessionFactory sessions;

    interface Test { void run() throws Exception; }

    static void check(String name, Test test) {
        try {
            test.run();
            System.out.println("ok " + name);
        } catch (Throwable error) {
            failed++;
            Throwable cause = error;
            for (Throwable next = error; next != null; next = next.getCause()) {
                if (next instanceof SQLException || cause == error) cause = next;
            }
            String text = (cause == error ? "" : error.getClass().getSimpleName() + ": ") + cause;
            if (error.getMessage() != null && error.getMessage().contains("[")) text += " | " + error.getMessage();
            text = text.replaceAll("\\s+", " ");
            System.out.println("FAILED " + name + ": " + text.substring(0, Math.min(700, text.length())));
        }
    }

    static void same(Object expected, Object actual) {
        if (!Objects.equals(expected, actual)) throw new AssertionError("expected " + expected + ", got " + actual);
    }

    static void execute(String... texts) throws SQLException {
        try (Connection connection = DriverManager.getConnection(url, "halcyon", ""); Statement statement = connection.createStatement()) {
            for (String text : texts) statement.execute(text);
        }
    }

    static SessionFactory open(String mode, Class<?>... entities) {
        Configuration configuration = new Configuration();
        configuration.setProperty("hibernate.connection.url", url);
        configuration.setProperty("hibernate.connection.username", "halcyon");
        configuration.setProperty("hibernate.connection.password", "");
        configuration.setProperty("hibernate.hbm2ddl.auto", mode);
        configuration.setProperty("hibernate.hbm2ddl.halt_on_error", "true");
        configuration.setProperty("hibernate.jdbc.batch_size", "20");
        for (Class<?> entity : entities) configuration.addAnnotatedClass(entity);
        return configuration.buildSessionFactory();
    }

    public static void main(String[] args) throws Exception {
        url = "jdbc:postgresql://" + args[0] + ":" + args[1] + "/halcyon";
        check("hibernate: an empty schema", () -> execute("DROP SCHEMA public CASCADE", "CREATE SCHEMA public"));
        check("hibernate: create", () -> open("create", Entities.ALL).close());
        check("hibernate: update with nothing to do", () -> open("update", Entities.ALL).close());
        check("hibernate: validate", () -> open("validate", Entities.ALL).close());
        check("hibernate: update adds what is missing", () -> {
            execute("ALTER TABLE book DROP COLUMN weight", "DROP TABLE squares");
            open("update", Entities.ALL).close();
        });
        check("hibernate: drop and create", () -> open("create", Entities.ALL).close());
        check("hibernate: sessions", () -> sessions = open("none", Entities.ALL));
        check("hibernate: entities kept", Check::kept);
        check("hibernate: a batch", Check::batch);
        check("hibernate: inheritance", Check::inheritance);
        check("hibernate: HQL", Check::queries);
        check("hibernate: functions of HQL", Check::functions);
        check("hibernate: criteria", Check::criteria);
        check("hibernate: updates and deletions", Check::changes);
        check("hibernate: upserts", Check::upserts);
        check("hibernate: locks", () -> locks(LockModeType.PESSIMISTIC_WRITE, -1));
        check("hibernate: locks for reading", () -> locks(LockModeType.PESSIMISTIC_READ, -1));
        check("hibernate: locks without waiting", () -> locks(LockModeType.PESSIMISTIC_WRITE, 0));
        check("hibernate: locked rows are skipped", () -> locks(LockModeType.PESSIMISTIC_WRITE, -2));
        check("hibernate: an old version is refused", Check::versions);
        check("hibernate: rows in portions", Check::portions);
        check("hibernate: a violated constraint by its name", Check::violated);
        check("hibernate: an enum of the database", Check::nativeEnum);
        if (sessions != null) sessions.close();
        check("flyway: migrations", Check::flyway);
        check("liquibase: an empty schema", () -> execute("DROP SCHEMA public CASCADE", "CREATE SCHEMA public"));
        check("liquibase: migrations", Check::liquibase);
        check("jooq: code generation", Check::jooq);
        System.exit(failed == 0 ? 0 : 1);
    }

    static void kept() {
        Long id = sessions.fromTransaction(session -> {
            Entities.Author author = new Entities.Author();
            author.name = "Ann";
            author.born = LocalDate.of(1980, 2, 29);
            author.names.addAll(List.of("A.", "Annie"));
            Entities.Book book = new Entities.Book();
            book.title = "One";
            book.price = new BigDecimal("9.50");
            book.state = Entities.State.PUBLISHED;
            book.detail = new Entities.Detail();
            book.detail.pages = 10;
            book.detail.words = List.of("x", "y");
            book.tags = List.of("a", "b");
            book.numbers = new int[] {1, 2};
            book.cover = new byte[] {0, -1};
            book.body = "a text";
            book.changed = LocalDateTime.of(2024, 2, 29, 12, 34, 56);
            book.published = OffsetDateTime.of(book.changed, ZoneOffset.UTC);
            book.hour = LocalTime.of(12, 30);
            book.span = Duration.ofMinutes(5);
            book.sold = true;
            book.weight = 1.5;
            book.author = author;
            Entities.Label label = new Entities.Label();
            label.text = "good";
            book.labels.add(label);
            author.books.add(book);
            session.persist(author);
            return author.id;
        });
        sessions.inTransaction(session -> {
            Entities.Author author = session.find(Entities.Author.class, id);
            Entities.Book book = author.books.get(0);
            same(List.of("Ann", 2, "9.50", 10, List.of("a", "b"), 2, Duration.ofMinutes(5), "GOOD"),
                List.of(author.name, author.names.size(), book.price.toString(), book.detail.pages, book.tags, book.numbers.length, book.span, book.labels.iterator().next().loud));
            same(OffsetDateTime.of(2024, 2, 29, 12, 34, 56, 0, ZoneOffset.UTC).toInstant(), book.published.toInstant());
        });
    }

    static void batch() {
        sessions.inTransaction(session -> {
            for (int number = 0; number < 120; number++) {
                Entities.Author author = new Entities.Author();
                author.name = "author " + number;
                session.persist(author);
            }
        });
        same(121L, sessions.fromTransaction(session -> session.createSelectionQuery("select count(*) from Author", Long.class).getSingleResult()));
    }

    static void inheritance() {
        sessions.inTransaction(session -> {
            Entities.Car car = new Entities.Car();
            car.maker = "A";
            car.doors = 5;
            session.persist(car);
            Entities.Ship ship = new Entities.Ship();
            ship.length = 100.5;
            session.persist(ship);
            Entities.Cash cash = new Entities.Cash();
            cash.total = BigDecimal.ONE;
            session.persist(cash);
            Entities.Card card = new Entities.Card();
            card.number = "1234";
            session.persist(card);
            Entities.Circle circle = new Entities.Circle();
            circle.radius = 2;
            session.persist(circle);
            Entities.Square square = new Entities.Square();
            square.colour = "red";
            session.persist(square);
        });
        sessions.inTransaction(session -> {
            same(2, session.createSelectionQuery("from Vehicle v order by v.id", Entities.Vehicle.class).getResultList().size());
            same(2, session.createSelectionQuery("from Payment", Entities.Payment.class).getResultList().size());
            same(2, session.createSelectionQuery("from Shape s order by s.colour nulls last", Entities.Shape.class).getResultList().size());
            same(1L, session.createSelectionQuery("select count(*) from Vehicle v where type(v) = Car", Long.class).getSingleResult());
            session.createMutationQuery("update Vehicle set maker = 'B' where maker is null").executeUpdate();
        });
    }

    static List<?> ask(String text) {
        try {
            return sessions.fromTransaction(session -> session.createSelectionQuery(text, Object.class).getResultList());
        } catch (RuntimeException error) {
            throw new RuntimeException(error.getMessage() + " [" + text + "]", error.getCause() == null ? error : error.getCause());
        }
    }

    static void queries() {
        for (String text : List.of(
            "from Author a left join fetch a.books where a.name = 'Ann'",
            "select a.name, count(b), sum(b.price) from Author a left join a.books b group by a.name having count(b) > 0 order by 2 desc nulls last limit 5",
            "select b.title from Book b where 'a' member of b.author.names or b.labels is not empty",
            "from Book b where b.price between 1 and 10 and lower(b.title) like '%o%' escape '!' and b.state in (PUBLISHED, DRAFT)",
            "from Author a where exists (select 1 from Book b where b.author = a) and a.id in (select b.author.id from Book b)",
            "with cheap as (select b.id as id from Book b where b.price < 100) select c.id from cheap c",
            "select b.title, rank() over (partition by b.state order by b.price desc) from Book b",
            "select case when b.sold then 'sold' else 'new' end, coalesce(b.body, '-'), nullif(b.title, 'x') from Book b",
            "from Author a order by a.name offset 5 rows fetch first 10 rows only",
            "select a.name from Author a where a.name like 'author 1%' union select b.title from Book b",
            "select distinct a.born from Author a where a.born is not null",
            "select l, t.title from Label l join lateral (select b.title as title from Book b order by b.title limit 1) t")) {
            ask(text);
        }
    }

    static void functions() {
        List<String> refused = new ArrayList<>();
        for (String expression : List.of("extract(year from b.changed)", "extract(week from b.changed)", "day(b.changed)", "b.changed + 1 day", "(current_timestamp - b.published) by second", "local date", "instant",
            "cast(b.price as String)", "cast('1' as Integer)", "format(b.changed as 'yyyy-MM-dd HH:mm')", "substring(b.title, 1, 2)", "trim(both ' ' from b.title)", "locate('n', b.title)", "length(b.title)", "overlay(b.title placing 'x' from 1)",
            "concat(b.title, '-', b.body)", "replace(b.title, 'O', 'o')", "pad(b.title with 10 leading '.')", "left(b.title, 1)", "upper(b.title)", "abs(b.price)", "round(b.price, 1)", "floor(b.price)", "mod(3, 2)", "power(2, 3)", "sqrt(4)", "greatest(1, 2)",
            "listagg(b.title, ',') within group (order by b.title)", "truncate(b.changed, hour)", "array_contains(b.tags, 'a')", "array_length(b.tags)", "array_append(b.tags, 'z')", "array_position(b.tags, 'b')", "array_to_string(b.tags, ',')", "b.tags[1]", "array_intersects(b.tags, array('a'))",
            "every(b.sold)", "percentile_cont(0.5) within group (order by b.weight)", "mode() within group (order by b.title)", "stddev_pop(b.weight)", "collate(b.title as `C`)", "ln(2)", "sign(b.price)", "pi", "repeat('x', 3)", "b.span", "ascii('a')", "chr(65)", "bit_length(b.title)", "position('n' in b.title)", "date_trunc('day', b.changed)")) {
            try {
                ask("select " + expression + " from Book b" + (expression.startsWith("b.span") ? " where b.span > 1 minute" : ""));
            } catch (RuntimeException error) {
                Throwable cause = error;
                while (cause.getCause() != null) cause = cause.getCause();
                refused.add(expression + ": " + cause.getMessage().split("\n")[0]);
            }
        }
        same(List.of(), refused);
    }

    static void criteria() {
        sessions.inTransaction(session -> {
            HibernateCriteriaBuilder builder = session.getCriteriaBuilder();
            JpaCriteriaQuery<Entities.Book> query = builder.createQuery(Entities.Book.class);
            JpaRoot<Entities.Book> book = query.from(Entities.Book.class);
            book.fetch("author");
            query.where(builder.like(book.get("author").get("name"), "A%"), builder.ge(book.get("price"), BigDecimal.ONE)).orderBy(builder.desc(book.get("title")));
            same(1, session.createSelectionQuery(query).setFirstResult(0).setMaxResults(10).getResultList().size());
        });
    }

    static void changes() {
        sessions.inTransaction(session -> {
            session.createMutationQuery("update Book b set b.price = b.price + 1 where b.author.id in (select a.id from Author a where a.name = 'Ann')").executeUpdate();
            session.createMutationQuery("update versioned Author a set a.born = current_date where a.name like 'author 1%'").executeUpdate();
            session.createMutationQuery("delete from Author a where a.name like 'author 9%'").executeUpdate();
            session.createMutationQuery("insert into Label (text) select b.title from Book b").executeUpdate();
        });
    }

    static void upserts() {
        sessions.inTransaction(session -> {
            session.createMutationQuery("insert into Author (id, name, version) values (1000, 'Ann', 0) on conflict (name) do update set born = current_date").executeUpdate();
            session.createMutationQuery("insert into Author (id, name, version) values (1000, 'Ann', 0) on conflict do nothing").executeUpdate();
        });
        sessions.inStatelessTransaction(session -> {
            Entities.Car car = new Entities.Car();
            car.id = 900L;
            car.maker = "upserted";
            session.upsert(car);
            session.upsert(car);
        });
    }

    static void locks(LockModeType mode, int timeout) {
        sessions.inTransaction(session -> {
            List<?> found = session.createSelectionQuery("from Author a where a.name = 'Ann'", Entities.Author.class).setLockMode(mode).setHint("jakarta.persistence.lock.timeout", timeout).getResultList();
            same(1, found.size());
        });
    }

    static void versions() {
        Entities.Author[] old = new Entities.Author[1];
        sessions.inTransaction(session -> old[0] = session.createSelectionQuery("from Author a where a.name = 'Ann'", Entities.Author.class).getSingleResult());
        sessions.inTransaction(session -> session.createSelectionQuery("from Author a where a.name = 'Ann'", Entities.Author.class).getSingleResult().born = LocalDate.of(1990, 1, 1));
        try {
            sessions.inTransaction(session -> {
                old[0].born = LocalDate.of(2000, 1, 1);
                session.merge(old[0]);
            });
        } catch (jakarta.persistence.OptimisticLockException error) {
            return;
        }
        throw new AssertionError("an old version was written");
    }

    static void portions() {
        sessions.inTransaction(session -> {
            int seen = 0;
            try (ScrollableResults<Entities.Author> rows = session.createSelectionQuery("from Author", Entities.Author.class).setFetchSize(10).scroll(ScrollMode.FORWARD_ONLY)) {
                while (rows.next()) seen++;
            }
            if (seen < 50) throw new AssertionError("saw " + seen);
        });
    }

    static void violated() {
        try {
            sessions.inTransaction(session -> {
                Entities.Author author = new Entities.Author();
                author.name = "Ann";
                session.persist(author);
            });
        } catch (org.hibernate.exception.ConstraintViolationException error) {
            if (error.getConstraintName() == null) throw new AssertionError("no name: " + error);
            return;
        }
        throw new AssertionError("nothing was violated");
    }

    static void nativeEnum() {
        open("create", Entities.Native.class).close();
        open("update", Entities.Native.class).close();
        open("validate", Entities.Native.class).close();
        try (SessionFactory natives = open("create-drop", Entities.Native.class)) {
            natives.inTransaction(session -> {
                Entities.Native row = new Entities.Native();
                row.id = 1;
                row.state = Entities.State.PUBLISHED;
                session.persist(row);
            });
            same(1L, natives.fromTransaction(session -> session.createSelectionQuery("select count(*) from Native n where n.state = PUBLISHED", Long.class).getSingleResult()));
        }
    }

    static void flyway() throws Exception {
        Path folder = Files.createTempDirectory("flyway");
        Files.writeString(folder.resolve("V1__tables.sql"), "CREATE TABLE a (id SERIAL PRIMARY KEY, name TEXT);\nINSERT INTO a (name) VALUES ('x');\nCREATE VIEW v AS SELECT * FROM a;\n");
        Files.writeString(folder.resolve("V2__more.sql"), "ALTER TABLE a ADD COLUMN n INT NOT NULL DEFAULT 0;\nCREATE INDEX a_n ON a (n);\n");
        Files.writeString(folder.resolve("R__view.sql"), "CREATE OR REPLACE VIEW w AS SELECT id FROM a;\n");
        org.flywaydb.core.Flyway flyway = org.flywaydb.core.Flyway.configure().dataSource(url, "halcyon", "").schemas("flown").cleanDisabled(false).locations("filesystem:" + folder).load();
        same(3, flyway.migrate().migrationsExecuted);
        same(0, flyway.migrate().migrationsExecuted);
        flyway.validate();
        same(4, flyway.info().all().length);
        flyway.repair();
        flyway.clean();
    }

    static void liquibase() throws Exception {
        Path folder = Files.createTempDirectory("liquibase");
        Files.writeString(folder.resolve("log.yaml"), """
            databaseChangeLog:
              - changeSet: {id: 1, author: x, changes: [
                  {createTable: {tableName: person, remarks: people, columns: [
                    {column: {name: id, type: bigint, autoIncrement: true, constraints: {primaryKey: true}}},
                    {column: {name: name, type: varchar(80), constraints: {nullable: false, unique: true}}},
                    {column: {name: made, type: timestamp with time zone, defaultValueComputed: CURRENT_TIMESTAMP}},
                    {column: {name: doc, type: jsonb}}]}},
                  {createTable: {tableName: pet, columns: [
                    {column: {name: id, type: uuid, defaultValueComputed: gen_random_uuid(), constraints: {primaryKey: true}}},
                    {column: {name: owner, type: bigint}}, {column: {name: price, type: "decimal(9,2)", defaultValueNumeric: 0}}]}},
                  {addForeignKeyConstraint: {baseTableName: pet, baseColumnNames: owner, referencedTableName: person, referencedColumnNames: id, constraintName: pet_owner, onDelete: CASCADE}},
                  {createIndex: {indexName: pet_price, tableName: pet, columns: [{column: {name: price, descending: true}}]}},
                  {createSequence: {sequenceName: number, startValue: 10, incrementBy: 5}},
                  {createView: {viewName: people, selectQuery: select id from person}}]}
              - changeSet: {id: 2, author: x, preConditions: [{onFail: MARK_RAN}, {tableExists: {tableName: person}}, {not: [{columnExists: {tableName: person, columnName: mail}}]}], changes: [
                  {addColumn: {tableName: person, columns: [{column: {name: mail, type: text, defaultValue: x}}]}},
                  {addNotNullConstraint: {tableName: person, columnName: mail, columnDataType: text}},
                  {modifyDataType: {tableName: person, columnName: name, newDataType: varchar(120)}},
                  {renameColumn: {tableName: person, oldColumnName: mail, newColumnName: email, columnDataType: text}},
                  {insert: {tableName: person, columns: [{column: {name: name, value: Ann}}]}},
                  {update: {tableName: person, columns: [{column: {name: email, value: y}}], where: id = 1}},
                  {addUniqueConstraint: {tableName: pet, columnNames: "owner, price", constraintName: pet_once}},
                  {dropDefaultValue: {tableName: pet, columnName: price}}]}
            """);
        PrintStream out = System.out;
        System.setOut(System.err);
        try (Connection connection = DriverManager.getConnection(url, "halcyon", "")) {
            liquibase.database.Database database = liquibase.database.DatabaseFactory.getInstance().findCorrectDatabaseImplementation(new liquibase.database.jvm.JdbcConnection(connection));
            liquibase.Scope.child(Map.of("liquibase.analytics.enabled", false, liquibase.Scope.Attr.logService.name(), new liquibase.logging.core.JavaLogService(), liquibase.Scope.Attr.ui.name(), new liquibase.ui.LoggerUIService()), () -> {
                liquibase.Liquibase tool = new liquibase.Liquibase("log.yaml", new liquibase.resource.DirectoryResourceAccessor(folder), database);
                tool.setShowSummary(liquibase.UpdateSummaryEnum.OFF);
                tool.update();
                tool.update();
                same(0, tool.listUnrunChangeSets(new liquibase.Contexts(), new liquibase.LabelExpression()).size());
                // The whole schema, as generateChangeLog reads it.
                liquibase.snapshot.DatabaseSnapshot snapshot = liquibase.snapshot.SnapshotGeneratorFactory.getInstance().createSnapshot(database.getDefaultSchema(), database, new liquibase.snapshot.SnapshotControl(database));
                Set<String> tables = new TreeSet<>();
                for (liquibase.structure.core.Table table : snapshot.get(liquibase.structure.core.Table.class)) tables.add(table.getName());
                same(new TreeSet<>(List.of("databasechangelog", "databasechangeloglock", "person", "pet")), tables);
                same(1, snapshot.get(liquibase.structure.core.ForeignKey.class).size());
            });
        } finally {
            System.setOut(out);
        }
    }

    static void jooq() throws Exception {
        execute("DROP SCHEMA IF EXISTS j CASCADE", "CREATE SCHEMA j",
            "CREATE TABLE j.author (id INT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, name VARCHAR(80) NOT NULL UNIQUE, tags TEXT[], doc JSONB)",
            "CREATE TABLE j.book (id UUID PRIMARY KEY DEFAULT gen_random_uuid(), author_id INT NOT NULL REFERENCES j.author, price NUMERIC(9,2) CHECK (price >= 0), total NUMERIC(9,2) GENERATED ALWAYS AS (price * 2) STORED)",
            "CREATE INDEX book_price ON j.book (price DESC)", "CREATE VIEW j.dear AS SELECT id FROM j.book WHERE price > 10", "CREATE SEQUENCE j.number", "COMMENT ON TABLE j.book IS 'books'");
        Path folder = Files.createTempDirectory("jooq");
        org.jooq.meta.jaxb.Configuration configuration = new org.jooq.meta.jaxb.Configuration()
            .withLogging(org.jooq.meta.jaxb.Logging.ERROR)
            .withOnError(org.jooq.meta.jaxb.OnError.FAIL)
            .withJdbc(new org.jooq.meta.jaxb.Jdbc().withUrl(url).withUser("halcyon").withPassword(""))
            .withGenerator(new org.jooq.meta.jaxb.Generator().withDatabase(new org.jooq.meta.jaxb.Database().withName("org.jooq.meta.postgres.PostgresDatabase").withInputSchema("j").withIncludeIndexes(true).withIncludeCheckConstraints(true))
                .withTarget(new org.jooq.meta.jaxb.Target().withPackageName("generated").withDirectory(folder.toString())));
        org.jooq.codegen.GenerationTool.generate(configuration);
        String book = Files.readString(folder.resolve("generated/tables/Book.java"));
        for (String part : List.of("SQLDataType.UUID", "SQLDataType.NUMERIC(9, 2)", "BOOK_PKEY", "getReferences", "BOOK_PRICE", "books")) {
            if (!book.contains(part)) throw new AssertionError(part + " is missing in Book.java");
        }
        if (!Files.exists(folder.resolve("generated/tables/Dear.java"))) throw new AssertionError("no Dear.java");
        if (!Files.readString(folder.resolve("generated/Sequences.java")).contains("NUMBER")) throw new AssertionError("no sequence");
    }
}
