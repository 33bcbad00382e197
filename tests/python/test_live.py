"""Subscriptions, streams and workload classes."""

import asyncio
import threading
import unittest

import halcyon
from halcyon import Delta


class Live(unittest.TestCase):
    def setUp(self):
        self.connection = halcyon.connect(autocommit=True)
        self.addCleanup(self.connection.close)
        self.connection.execute("""
            CREATE TABLE sales (id INTEGER PRIMARY KEY, shop TEXT NOT NULL, price INTEGER NOT NULL);
            INSERT INTO sales VALUES (1, 'north', 10);
            CREATE MATERIALIZED VIEW turnover AS SELECT shop, COUNT(*) AS n, SUM(price) AS total FROM sales GROUP BY shop
        """)

    def sell(self, number, shop, price):
        self.connection.execute("INSERT INTO sales VALUES (%s, %s, %s)", (number, shop, price))


class Subscriptions(Live):
    def test_first_the_rows_and_then_each_transaction(self):
        with self.connection.subscribe("turnover") as changes:
            self.assertEqual(changes.columns, ["shop", "n", "total"])
            self.assertEqual(next(changes).rows, [Delta(None, ("north", 1, 10))])
            self.sell(2, "north", 5)
            self.assertEqual(next(changes).rows, [Delta(("north", 1, 10), ("north", 2, 15))])
            self.connection.execute("DELETE FROM sales")
            change = changes.get(timeout=10)
            self.assertEqual(change.rows, [Delta(("north", 2, 15), None)])
            self.assertEqual(changes.position, change.position)
            self.assertIsNone(changes.get(timeout=0.05))
        self.assertEqual(list(changes), [])

    def test_it_goes_on_behind_a_position(self):
        with self.connection.subscribe("turnover") as changes:
            position = next(changes).position
        self.sell(2, "south", 5)
        with self.connection.subscribe("turnover", position) as changes:
            self.assertEqual(next(changes).rows, [Delta(None, ("south", 1, 5))])

    def test_changes_come_while_another_thread_writes(self):
        seen = []
        with self.connection.subscribe("turnover") as changes:
            writer = threading.Thread(target=lambda: [self.sell(number, "south", 1) for number in range(2, 12)])
            writer.start()
            for change in changes:
                seen.extend(delta.new for delta in change.rows)
                if ("south", 10, 10) in seen:
                    break
            writer.join()
        self.assertIn(("south", 1, 1), seen)

    def test_async_iteration(self):
        async def follow():
            seen = []
            async with self.connection.subscribe("turnover") as changes:
                async for change in changes:
                    seen.append(change.rows)
                    if len(seen) == 2:
                        break
                    await asyncio.to_thread(self.sell, 2, "south", 5)
            return seen

        seen = asyncio.run(follow())
        self.assertEqual(seen, [[Delta(None, ("north", 1, 10))], [Delta(None, ("south", 1, 5))]])

    def test_a_task_that_is_cancelled_loses_no_changes(self):
        async def follow():
            async with self.connection.subscribe("turnover") as changes:
                await anext_of(changes)
                waiting = asyncio.ensure_future(anext_of(changes))
                await asyncio.sleep(0.05)
                waiting.cancel()
                await asyncio.to_thread(self.sell, 2, "south", 5)
                await asyncio.sleep(0.4)
                return (await asyncio.wait_for(anext_of(changes), 10)).rows

        async def anext_of(changes):
            return await changes.__anext__()

        self.assertEqual(asyncio.run(follow()), [Delta(None, ("south", 1, 5))])

    def test_closing_ends_an_iteration_in_another_thread(self):
        changes = self.connection.subscribe("turnover")
        seen = []
        reader = threading.Thread(target=lambda: seen.extend(changes))
        reader.start()
        while not seen:
            reader.join(0.01)
        changes.close()
        reader.join(10)
        self.assertFalse(reader.is_alive())
        self.assertEqual(len(seen), 1)
        with self.assertRaises(halcyon.InterfaceError):
            changes.get(timeout=0)

    def test_what_is_no_view_is_refused(self):
        for view, state in [("nothing", "42P01"), ("sales", "42809")]:
            with self.assertRaises(halcyon.ProgrammingError, msg=view) as caught:
                self.connection.subscribe(view)
            self.assertEqual(caught.exception.sqlstate, state)
        with self.assertRaises(halcyon.NotSupportedError) as caught:
            self.connection.execute("SUBSCRIBE turnover")
        self.assertIn("subscribe()", caught.exception.hint)


class Streams(unittest.TestCase):
    def setUp(self):
        self.connection = halcyon.connect(autocommit=True)
        self.addCleanup(self.connection.close)
        self.connection.execute("""
            CREATE STREAM trades (symbol TEXT NOT NULL, size BIGINT NOT NULL, price NUMERIC(9,2), at TIMESTAMP, far BOOLEAN);
            CREATE MATERIALIZED VIEW sizes AS SELECT symbol, SUM(size) AS size, SUM(price) AS price FROM trades GROUP BY symbol
        """)

    def sizes(self):
        rows = self.connection.execute("SELECT symbol, size, price FROM sizes ORDER BY symbol").fetchall()
        return [(symbol, int(size), None if price is None else float(price)) for symbol, size, price in rows]

    def test_events_reach_the_views(self):
        import datetime
        import decimal

        at = datetime.datetime(2024, 1, 1)
        with self.connection.stream("trades") as trades:
            trades.insert("A", 7, decimal.Decimal("1.5"), at, True)
            trades.insert("A", 2**40, 2, "2024-01-01 00:00", None)
            trades.insert_many([("B", 1, "0.25", None, None), ("B", 2, None, None, None)])
            self.assertEqual(self.sizes(), [("A", 7 + 2**40, 3.5), ("B", 3, 0.25)])
            trades.delete("A", 2**40, 2, at, None)
            trades.events([(("C", 1, None, None, None), 1), (("B", 1, "0.25", None, None), -1)])
            self.assertEqual([row[:2] for row in self.sizes()], [("A", 7), ("B", 2), ("C", 1)])

    def test_rows_that_do_not_fit_are_refused(self):
        trades = self.connection.stream("trades")
        for row in [("A",), ("A", "seven", None, None, None), (None, 1, None, None, None), ("A", 1, 1e30, None, None)]:
            with self.assertRaises(halcyon.DatabaseError, msg=str(row)):
                trades.insert(*row)
        with self.assertRaises(halcyon.DatabaseError):
            trades.insert_many([("A", 1, None, None, None), ("A", None, None, None, None)])
        self.assertEqual(self.sizes(), [])
        trades.close()
        with self.assertRaises(halcyon.InterfaceError):
            trades.insert("A", 1, None, None, None)
        with self.assertRaises(halcyon.ProgrammingError):
            self.connection.stream("nothing")


class Workload(unittest.TestCase):
    def test_statements_of_the_context_are_of_the_class(self):
        connection = halcyon.connect(autocommit=True)
        connection.execute("CREATE WORKLOAD CLASS small SET 'STATEMENT TIMEOUT' = '200ms', 'PRIORITY' = 2; CREATE TABLE t (i INTEGER)")
        slow = "SELECT 1, pg_sleep(0.5) -- a comment"
        self.assertEqual(connection.execute(slow).fetchone()[0], 1)
        with connection.workload_class("small"):
            with self.assertRaises(halcyon.QueryCanceled) as caught:
                connection.execute(slow).fetchone()
            self.assertIn("timeout", caught.exception.message)
            self.assertEqual(connection.execute("INSERT INTO t VALUES (%s);", (1,)).rowcount, 1)
            self.assertEqual(connection.sql("SELECT 1; SELECT i FROM t;").fetchall(), [(1,)])
            connection.execute("CREATE TABLE u (i INTEGER)")
        self.assertEqual(connection.execute(slow).fetchone()[0], 1)
        with self.assertRaises(halcyon.ProgrammingError):
            with connection.workload_class("nothing"):
                self.fail("there is no such class")


if __name__ == "__main__":
    unittest.main()
