"""What programs do through asyncpg, which asks the catalog for every type that it meets."""

import asyncio

import asyncpg

from checks import DATABASE, HOST, PORT, USER, VALUES, check, run

HOME = dict(host=HOST, port=int(PORT), user=USER, database=DATABASE)


def checked(function):
    """A check that gets a connection of its own."""

    def wrapped():
        async def connected():
            connection = await asyncpg.connect(**HOME)
            try:
                await asyncio.wait_for(function(connection), 60)
            finally:
                await connection.close()

        asyncio.run(connected())

    wrapped.__name__ = function.__name__
    return check(wrapped)


@checked
async def values_of_every_type(connection):
    columns = ", ".join(f"c{n} {kind}" for n, kind in enumerate(VALUES))
    places = ", ".join(f"${n + 1}" for n in range(len(VALUES)))
    await connection.execute(f"CREATE TABLE kinds ({columns})")
    await connection.execute(f"INSERT INTO kinds VALUES ({places})", *VALUES.values())
    await connection.copy_records_to_table("kinds", records=[tuple(VALUES.values())])
    for seen in await connection.fetch("SELECT * FROM kinds"):
        assert tuple(seen) == tuple(VALUES.values()), seen


@checked
async def many_rows_and_arrays(connection):
    await connection.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT)")
    await connection.executemany(
        "INSERT INTO item VALUES ($1, $2)", [(n, f"item {n}") for n in range(200)]
    )
    rows = await connection.fetch("SELECT id FROM item WHERE name = ANY($1)", ["item 7"])
    assert [row["id"] for row in rows] == [7], rows
    assert await connection.fetchval("SELECT ARRAY['a', 'b c']") == ["a", "b c"]


@checked
async def prepared_statements_and_cursors(connection):
    statement = await connection.prepare("SELECT name FROM item WHERE id = $1")
    assert [parameter.name for parameter in statement.get_parameters()] == ["int4"]
    assert [attribute.name for attribute in statement.get_attributes()] == ["name"]
    for number in range(5):
        assert await statement.fetchval(number) == f"item {number}"
    async with connection.transaction():
        seen = [row[0] async for row in connection.cursor("SELECT id FROM item ORDER BY id")]
        assert seen == list(range(200)), seen


@checked
async def transactions_of_all_kinds(connection):
    async with connection.transaction(isolation="serializable", readonly=True, deferrable=True):
        assert await connection.fetchval("SELECT count(*) FROM item") == 200
    try:
        async with connection.transaction():
            await connection.execute("DELETE FROM item")
            async with connection.transaction():
                await connection.execute("INSERT INTO item VALUES (1, 'x')")
            raise KeyError
    except KeyError:
        pass
    try:
        await connection.execute("INSERT INTO item VALUES (1, 'y')")
        raise AssertionError("a duplicate was taken")
    except asyncpg.UniqueViolationError as error:
        assert error.constraint_name == "item_pkey", error.constraint_name


@checked
async def copy_both_ways(connection):
    import io

    out = io.BytesIO()
    await connection.copy_from_query("SELECT * FROM item WHERE id < 2 ORDER BY id", output=out)
    assert out.getvalue() == b"0\titem 0\n1\titem 1\n", out.getvalue()
    source = io.BytesIO(b"1000,a\n1001,b\n")
    tag = await connection.copy_to_table("item", source=source, format="csv")
    assert tag == "COPY 2", tag


@checked
async def notifications(connection):
    told = asyncio.Queue()
    await connection.add_listener("changes", lambda *what: told.put_nowait(what[2:]))
    other = await asyncpg.connect(**HOME)
    await other.execute("SELECT pg_notify('changes', 'of item')")
    assert await asyncio.wait_for(told.get(), 10) == ("changes", "of item")
    await other.close()


@checked
async def types_by_introspection(connection):
    row = await connection.fetchrow(
        "SELECT typname, typarray FROM pg_type WHERE typname = $1 AND oid = $2", "int4", 23
    )
    assert tuple(row) == ("int4", 1007), row
    await connection.reset()


@checked
async def a_pool_resets_its_connections(connection):
    async with asyncpg.create_pool(**HOME, min_size=1, max_size=2) as pool:
        for number in range(4):
            async with pool.acquire() as own:
                assert await own.fetchval("SELECT current_setting('work_mem')") == "4MB"
                await own.execute("SET work_mem = '8MB'")


run()
