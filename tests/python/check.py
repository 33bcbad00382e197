"""Runs the tests of a folder (HALCYON_TESTS; this file's without) and counts them: the last line is `N passed, M failed`."""

import os
import pathlib
import sys
import unittest

here = pathlib.Path(os.environ.get("HALCYON_TESTS") or pathlib.Path(__file__).parent).resolve()
sys.path.insert(0, str(here))
loader = unittest.TestLoader()
if sys.argv[1:]:
    suite = loader.loadTestsFromNames(sys.argv[1:])
else:
    suite = loader.discover(str(here))
result = unittest.TextTestRunner(verbosity=1, stream=sys.stdout).run(suite)
for test, reason in result.skipped:
    print(f"skipped {test.id()}: {reason}")
failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
print(f"{result.testsRun - failed - len(result.skipped)} passed, {failed} failed")
sys.exit(failed > 0)
