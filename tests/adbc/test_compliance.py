"""PyPI's `dbapi-compliance`, Stuart Bishop's test of PEP 249 (public domain), over adbc_driver_manager's interface."""

import unittest

import dbapi20
from adbc_driver_halcyon import dbapi


class Compliance(dbapi20.DatabaseAPI20Test):
    driver = dbapi

    def setUp(self):
        # One database for all connections of a test, as for a client of a server.
        self.keeper = dbapi.connect()

    def tearDown(self):
        super().tearDown()
        self.keeper.close()

    def _connect(self):
        return self.keeper.adbc_clone()

    # What the package adbc_driver_manager has in another way, with every driver: `description` is an empty list where there
    # are no rows, fetching is no error then, a connection can be closed twice, and there is neither Binary nor callproc.
    test_Binary = unittest.expectedFailure(dbapi20.DatabaseAPI20Test.test_Binary)
    test_callproc = unittest.expectedFailure(dbapi20.DatabaseAPI20Test.test_callproc)
    test_description = unittest.expectedFailure(dbapi20.DatabaseAPI20Test.test_description)
    test_fetchall = unittest.expectedFailure(dbapi20.DatabaseAPI20Test.test_fetchall)
    test_fetchone = unittest.expectedFailure(dbapi20.DatabaseAPI20Test.test_fetchone)
    test_non_idempotent_close = unittest.expectedFailure(dbapi20.DatabaseAPI20Test.test_non_idempotent_close)

    def test_nextset(self):
        with self._connect() as connection, connection.cursor() as cursor, self.assertRaises(dbapi.NotSupportedError):
            cursor.nextset()

    def test_setoutputsize(self):
        with self._connect() as connection, connection.cursor() as cursor:
            cursor.setoutputsize(1, 0)
            cursor.execute("SELECT repeat('x', 5000)")
            self.assertEqual(cursor.fetchone(), ("x" * 5000,))


# The test's base is no test of its own.
def load_tests(loader, standard, pattern):
    return loader.loadTestsFromTestCase(Compliance)


if __name__ == "__main__":
    unittest.main()
