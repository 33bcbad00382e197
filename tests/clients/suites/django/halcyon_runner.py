"""Django's test runner, which also writes what became of each test into $HALCYON_RESULTS."""

import os
import unittest

from django.test.runner import DiscoverRunner


class Result(unittest.TextTestResult):
    def write(self, outcome, test, error=None):
        name = test.id()
        if name.startswith("unittest.suite._ErrorHolder"):
            name = test.description
        why = " ".join(f"{error[0].__name__}: {error[1]}".split())[:400] if error else ""
        with open(os.environ["HALCYON_RESULTS"], "a") as file:
            file.write(f"{outcome}\t{name}\t{why}\n")

    def addSuccess(self, test):
        super().addSuccess(test)
        self.write("passed", test)

    def addError(self, test, error):
        super().addError(test, error)
        self.write("failed", test, error)

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.write("failed", test, error)

    def addSubTest(self, test, part, error):
        super().addSubTest(test, part, error)
        if error:
            self.write("failed", test, error)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.write("skipped", test)

    def addExpectedFailure(self, test, error):
        super().addExpectedFailure(test, error)
        self.write("passed", test)


class Runner(DiscoverRunner):
    def get_resultclass(self):
        return Result
