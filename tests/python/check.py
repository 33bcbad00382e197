"""Runs the tests beside this file and counts them: the last line is `N passed, M failed`."""

import pathlib
import sys
import unittest

here = pathlib.Path(__file__).parent
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
