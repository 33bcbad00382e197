"""PyPI's `dbapi-compliance`, Stuart Bishop's test of PEP 249 (public domain)."""

import unittest

import dbapi20
import halcyon


class Compliance(dbapi20.DatabaseAPI20Test):
    driver = halcyon

    def setUp(self):
        # One database for all connections of a test, as for a client of a server.
        self.keeper = halcyon.connect()

    def tearDown(self):
        super().tearDown()
        self.keeper.close()

    def _connect(self):
        return self.keeper.connect()

    def test_non_idempotent_close(self):
        # PEP 249 does not ask that closing twice fails, and psycopg, sqlite3 and DuckDB let it pass, too.
        connection = self._connect()
        connection.close()
        connection.close()
        self.assertTrue(connection.closed)

    def test_nextset(self):
        self.assertFalse(hasattr(self._connect().cursor(), "nextset"), "the last statement's rows are the ones kept")

    def test_setoutputsize(self):
        cursor = self._connect().cursor()
        cursor.setoutputsize(1, 0)
        self.assertEqual(cursor.execute("SELECT repeat('x', 5000)").fetchone(), ("x" * 5000,))



# The test's base is no test of its own.
def load_tests(loader, standard, pattern):
    return loader.loadTestsFromTestCase(Compliance)


if __name__ == "__main__":
    unittest.main()
