"""Statements that asyncio awaits, and callproc."""

import asyncio
import threading
import time
import unittest

import halcyon

ENDLESS = "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b WHERE a <> b"


class Awaiting(unittest.TestCase):
    def setUp(self):
        self.connection = halcyon.connect(autocommit=True)
        self.addCleanup(self.connection.close)
        self.connection.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT)")

    def run_async(self, work):
        return asyncio.run(asyncio.wait_for(work, 60))

    def test_statements_are_awaited_and_their_rows_too(self):
        async def work():
            connection = self.connection
            await connection.aexecutemany("INSERT INTO item VALUES (%s, %s)", [(i, f"n{i}") for i in range(1000)])
            cursor = await connection.aexecute("SELECT id, name FROM item WHERE id < %s ORDER BY id", (600,))
            self.assertEqual(await cursor.afetchone(), (0, "n0"))
            self.assertEqual(await cursor.afetchmany(2), [(1, "n1"), (2, "n2")])
            seen = [row[0] async for row in cursor]
            self.assertEqual(seen, list(range(3, 600)))
            self.assertIsNone(await cursor.afetchone())
            relation = await connection.asql("SELECT count(*) AS n FROM item")
            self.assertEqual(relation.fetchall(), [(1000,)])
            with self.assertRaises(halcyon.IntegrityError) as caught:
                await connection.aexecute("INSERT INTO item VALUES (1, 'again')")
            self.assertEqual(caught.exception.sqlstate, "23505")
        self.run_async(work())

    def test_what_an_iteration_has_read_ahead_is_fetched_next(self):
        async def work():
            cursor = await self.connection.aexecute("SELECT i FROM generate_series(1, 1000) i ORDER BY i")
            async for row in cursor:
                if row[0] == 10:
                    break
            self.assertEqual(cursor.rownumber, 10)
            with self.assertRaises(halcyon.ProgrammingError):
                cursor.__arrow_c_stream__()
            self.assertEqual(cursor.fetchmany(3), [(11,), (12,), (13,)])
            rest = await cursor.afetchall()
            self.assertEqual((rest[0], rest[-1], len(rest)), ((14,), (1000,), 987))
        self.run_async(work())

    def test_the_loop_runs_on_while_a_statement_does(self):
        async def work():
            began = time.monotonic()
            sleeping = asyncio.ensure_future(self.connection.aexecute("SELECT pg_sleep(0.5)"))
            ticks = 0
            while not sleeping.done():
                await asyncio.sleep(0.01)
                ticks += 1
            await sleeping
            self.assertGreaterEqual(time.monotonic() - began, 0.5)
            # A loop that was blocked would tick once.
            self.assertGreater(ticks, 5)
        self.run_async(work())

    def test_statements_of_a_connection_take_turns_and_those_of_others_do_not(self):
        async def work():
            other = self.connection.connect()
            began = time.monotonic()
            await asyncio.gather(
                self.connection.aexecute("SELECT pg_sleep(0.2)"), self.connection.aexecute("SELECT pg_sleep(0.2)"),
                other.aexecute("SELECT pg_sleep(0.2)"))
            self.assertGreaterEqual(time.monotonic() - began, 0.4)
            order = []
            async def note(number):
                await self.connection.aexecute("SELECT 1")
                order.append(number)
            await asyncio.gather(*(note(number) for number in range(20)))
            self.assertEqual(order, list(range(20)))
            await other.aclose()
            self.assertTrue(other.closed)
        self.run_async(work())

    def test_a_task_that_is_cancelled_ends_its_statement(self):
        async def work():
            async def rows():
                return await (await self.connection.aexecute(ENDLESS)).afetchall()

            for again in range(3):
                began = time.monotonic()
                with self.assertRaises(asyncio.TimeoutError):
                    await asyncio.wait_for(rows(), 0.2)
                self.assertLess(time.monotonic() - began, 20)
                # The connection is free.
                self.assertEqual(await (await self.connection.aexecute("SELECT 7")).afetchall(), [(7,)])
        self.run_async(work())

    def test_a_wait_for_a_lock_is_cancelled_and_so_is_a_turn_that_has_not_come(self):
        async def work():
            await self.connection.aexecute("INSERT INTO item VALUES (1, 'one')")
            holder = self.connection.connect(autocommit=False)
            await holder.aexecute("UPDATE item SET name = 'held' WHERE id = 1")
            waiting = asyncio.ensure_future(self.connection.aexecute("UPDATE item SET name = 'mine' WHERE id = 1"))
            queued = asyncio.ensure_future(self.connection.aexecute("INSERT INTO item VALUES (2, 'never')"))
            await asyncio.sleep(0.1)
            self.assertFalse(waiting.done() or queued.done())
            queued.cancel()
            waiting.cancel()
            found = await asyncio.gather(waiting, queued, return_exceptions=True)
            self.assertTrue(all(isinstance(own, asyncio.CancelledError) for own in found), found)
            await holder.arollback()
            rows = await (await self.connection.aexecute("SELECT * FROM item")).afetchall()
            self.assertEqual(rows, [(1, "one")])
            await holder.aclose()
        self.run_async(work())

    def test_transactions_are_contexts(self):
        async def work():
            connection = self.connection
            async with connection.transaction():
                await connection.aexecute("INSERT INTO item VALUES (1, 'kept')")
                with self.assertRaises(ZeroDivisionError):
                    async with connection.transaction():
                        await connection.aexecute("INSERT INTO item VALUES (2, 'gone')")
                        raise ZeroDivisionError
            async with connection.connect(autocommit=False) as other:
                await other.aexecute("INSERT INTO item VALUES (3, 'kept')")
            self.assertTrue(other.closed)
            other = connection.connect(autocommit=False)
            await other.aexecute("INSERT INTO item VALUES (4, 'gone')")
            await other.arollback()
            await other.aexecute("INSERT INTO item VALUES (5, 'kept')")
            await other.acommit()
            async with other.cursor() as cursor:
                await cursor.aexecute("SELECT id FROM item ORDER BY id")
                self.assertEqual(await cursor.afetchall(), [(1,), (3,), (5,)])
            await other.aclose()
        self.run_async(work())

    def test_the_thread_ends_with_the_connection(self):
        async def work():
            other = self.connection.connect()
            await other.aexecute("SELECT 1")
            await other.aclose()
        before = threading.active_count()
        self.run_async(work())
        deadline = time.monotonic() + 10
        while threading.active_count() > before and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertLessEqual(threading.active_count(), before)


class Procedures(unittest.TestCase):
    def setUp(self):
        self.connection = halcyon.connect()
        self.addCleanup(self.connection.close)

    def test_a_function_is_called_and_its_rows_are_fetched(self):
        cursor = self.connection.cursor()
        given = ("FOO",)
        self.assertIs(cursor.callproc("lower", given), given)
        self.assertEqual(cursor.fetchall(), [("foo",)])
        self.assertEqual(list(cursor.callproc("pg_catalog.LENGTH", ["four"])), ["four"])
        self.assertEqual(cursor.fetchone(), (4,))
        cursor.callproc("generate_series", (1, 3))
        self.assertEqual(cursor.fetchall(), [(1,), (2,), (3,)])
        cursor.callproc("pi")
        self.assertAlmostEqual(cursor.fetchone()[0], 3.14159, 4)

    def test_names_are_names_and_parameters_are_no_text(self):
        cursor = self.connection.cursor()
        for name in ("no_such_function", "lower('x'); DROP TABLE t; --", 'a"b', ""):
            with self.assertRaises(halcyon.ProgrammingError, msg=name):
                cursor.callproc(name, ("x",))
            self.connection.rollback()
        for parameters in ("text", {"a": 1}):
            with self.assertRaises(halcyon.ProgrammingError):
                cursor.callproc("lower", parameters)


if __name__ == "__main__":
    unittest.main()
