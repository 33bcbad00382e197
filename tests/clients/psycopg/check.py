"""What programs do through psycopg 3: types both ways, text and binary, COPY, pipelines."""

import datetime
import decimal

import psycopg
from psycopg.types.json import Json, Jsonb

from checks import DATABASE, HOST, PORT, USER, VALUES, check, run


def connect(**options):
    return psycopg.connect(host=HOST, port=PORT, user=USER, dbname=DATABASE, **options)


@check
def values_of_every_type():
    columns = ", ".join(f"c{n} {kind}" for n, kind in enumerate(VALUES))
    places = ", ".join(["%s"] * len(VALUES))
    with connect() as connection:
        connection.execute(f"CREATE TABLE kinds (id INTEGER, {columns})")
        for number, letter in enumerate("stb"):
            places = ", ".join([f"%{letter}"] * len(VALUES))
            connection.execute(
                f"INSERT INTO kinds VALUES ({number}, {places})", list(VALUES.values())
            )
        connection.execute(f"INSERT INTO kinds (id) VALUES (99)")
        for binary in (False, True):
            cursor = connection.cursor(binary=binary)
            rows = cursor.execute("SELECT * FROM kinds WHERE id < 99 ORDER BY id").fetchall()
            for number, row in enumerate(rows):
                assert row[0] == number
                for kind, expected, seen in zip(VALUES, VALUES.values(), row[1:]):
                    assert seen == expected, (binary, number, kind, expected, seen)
            row = cursor.execute("SELECT * FROM kinds WHERE id = 99").fetchone()
            assert set(row[1:]) == {None}


@check
def statements_prepared_by_the_server():
    with connect() as connection:
        connection.prepare_threshold = 1
        for number in range(10):
            row = connection.execute("SELECT %s::int + 1", [number]).fetchone()
            assert row == (number + 1,)
        connection.prepared_max = 2
        for number in range(6):
            for _ in range(3):
                row = connection.execute(f"SELECT %s::int + {number}", [1]).fetchone()
                assert row == (number + 1,)


@check
def many_rows_at_once():
    with connect() as connection:
        connection.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT)")
        cursor = connection.cursor()
        cursor.executemany("INSERT INTO item VALUES (%s, %s)", [(n, f"item {n}") for n in range(500)])
        assert cursor.rowcount == 500
        cursor.executemany(
            "INSERT INTO item VALUES (%s, 'r') RETURNING id", [(1000,), (1001,)], returning=True
        )
        assert cursor.fetchone() == (1000,) and cursor.nextset() and cursor.fetchone() == (1001,)


@check
def a_failed_transaction_is_undone():
    with connect() as connection:
        try:
            with connection.transaction():
                connection.execute("INSERT INTO item VALUES (5000, 'x')")
                connection.execute("INSERT INTO item VALUES (5000, 'y')")
            raise AssertionError("a duplicate was taken")
        except psycopg.errors.UniqueViolation as error:
            assert error.diag.constraint_name == "item_pkey", error.diag.constraint_name
        with connection.transaction():
            connection.execute("INSERT INTO item VALUES (5001, 'x')")
            try:
                with connection.transaction():
                    connection.execute("SELECT 1/0")
            except psycopg.errors.DivisionByZero:
                pass
        rows = connection.execute("SELECT id FROM item WHERE id >= 5000").fetchall()
        assert rows == [(5001,)], rows


@check
def documents_go_in_and_come_out():
    document = {"name": "grün", "tags": ["a", None, 1.5], "deep": {"x": True}}
    with connect() as connection:
        connection.execute("CREATE TABLE doc (id INTEGER PRIMARY KEY, j JSON, b JSONB)")
        for number, letter in enumerate("stb"):
            connection.execute(
                f"INSERT INTO doc VALUES ({number}, %{letter}, %{letter})", (Json(document), Jsonb(document))
            )
        for binary in (False, True):
            with connection.cursor(binary=binary) as cursor:
                rows = cursor.execute("SELECT j, b, b->'deep', b->>'name' FROM doc").fetchall()
                assert rows == [(document, document, {"x": True}, "grün")] * 3, rows
                oids = [column.type_code for column in cursor.description]
                assert oids == [114, 3802, 3802, 25], oids
        found = connection.execute("SELECT id FROM doc WHERE b @> %s AND id < 1", (Jsonb({"deep": {}}),))
        assert found.fetchall() == [(0,)]
        found = connection.execute("SELECT count(*) FROM doc WHERE b #>> %s = 'true'", (["deep", "x"],))
        assert found.fetchall() == [(3,)]
        with connection.cursor() as cursor:
            with cursor.copy("COPY doc FROM STDIN (FORMAT binary)") as copy:
                copy.set_types(["int4", "json", "jsonb"])
                copy.write_row((7, Json([1]), Jsonb([2])))
            with cursor.copy("COPY (SELECT * FROM doc WHERE id = 7) TO STDOUT (FORMAT binary)") as copy:
                copy.set_types(["int4", "json", "jsonb"])
                assert list(copy.rows()) == [(7, [1], [2])]
        try:
            connection.execute("INSERT INTO doc VALUES (8, %s, NULL)", ('{"a"',))
            raise AssertionError("no document was taken")
        except psycopg.errors.InvalidTextRepresentation as error:
            assert error.diag.message_detail == "The input string ended unexpectedly.", error.diag.message_detail
        connection.rollback()


@check
def copy_in_text_csv_and_rows():
    with connect() as connection:
        connection.execute("CREATE TABLE line (id INTEGER PRIMARY KEY, name TEXT, price NUMERIC(9,2))")
        with connection.cursor() as cursor:
            with cursor.copy("COPY line FROM STDIN") as copy:
                for n in range(100):
                    copy.write_row((n, None if n % 10 == 0 else f"tab\there {n}", decimal.Decimal(n) / 4))
            assert cursor.rowcount == 100
            with cursor.copy("COPY line FROM STDIN (FORMAT csv, HEADER)") as copy:
                copy.write(b'id,name,price\n100,"a, ""b""",1.5\n')
                copy.write("101,,\n")
            with cursor.copy("COPY (SELECT * FROM line ORDER BY id) TO STDOUT") as copy:
                copy.set_types(["int4", "text", "numeric"])
                rows = list(copy.rows())
            assert len(rows) == 102
            assert rows[1] == (1, "tab\there 1", decimal.Decimal("0.25")), rows[1]
            assert rows[10][1] is None
            assert rows[100] == (100, 'a, "b"', decimal.Decimal("1.50")), rows[100]


@check
def copy_that_fails_leaves_nothing():
    with connect(autocommit=True) as connection:
        try:
            with connection.cursor().copy("COPY line FROM STDIN (FORMAT csv)") as copy:
                copy.write("200,x,1\n201,y,no number\n")
            raise AssertionError("a bad line was taken")
        except psycopg.errors.InvalidTextRepresentation as error:
            assert "line 2" in (error.diag.context or ""), error.diag.context
        try:
            with connection.cursor().copy("COPY line FROM STDIN (FORMAT csv)") as copy:
                copy.write("200,x,1\n")
                raise KeyError("the program changes its mind")
        except (KeyError, psycopg.errors.QueryCanceled):
            pass
        count = connection.execute("SELECT count(*) FROM line WHERE id >= 200").fetchone()
        assert count == (0,), count


@check
def a_pipeline():
    with connect(autocommit=True) as connection:
        connection.execute("CREATE TABLE piped (id INTEGER PRIMARY KEY)")
        with connection.pipeline():
            cursors = [connection.execute("INSERT INTO piped VALUES (%s) RETURNING id", [n]) for n in range(50)]
            assert [cursor.fetchone() for cursor in cursors] == [(n,) for n in range(50)]
        try:
            with connection.pipeline() as pipeline:
                connection.execute("INSERT INTO piped VALUES (100)")
                connection.execute("INSERT INTO piped VALUES (1)")
                connection.execute("INSERT INTO piped VALUES (101)")
                pipeline.sync()
        except psycopg.errors.UniqueViolation:
            pass
        rows = connection.execute("SELECT id FROM piped WHERE id >= 100").fetchall()
        assert rows == [], rows


@check
def rows_streamed_one_by_one():
    with connect() as connection:
        seen = [row[0] for row in connection.cursor().stream("SELECT id FROM item WHERE id < 300 ORDER BY id")]
        assert seen == list(range(300))


@check
def a_cancelled_statement():
    import threading

    with connect(autocommit=True) as connection:
        timer = threading.Timer(0.5, connection.cancel)
        timer.start()
        try:
            connection.execute(
                "SELECT count(*) FROM item a, item b, item c WHERE a.id + b.id + c.id = -1"
            )
            raise AssertionError("it was not cancelled")
        except psycopg.errors.QueryCanceled:
            pass
        assert connection.execute("SELECT 1").fetchone() == (1,)


@check
def notices_settings_and_status():
    with connect() as connection:
        assert connection.info.server_version == 160000, connection.info.server_version
        assert connection.info.encoding == "utf-8"
        connection.execute("SET TIME ZONE 'Europe/Berlin'")
        assert connection.info.timezone.key == "Europe/Berlin"
        moment = connection.execute("SELECT '2024-07-01 12:00:00+00'::timestamptz").fetchone()[0]
        assert moment.utcoffset() == datetime.timedelta(hours=2), moment
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
        connection.rollback()
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


run()
