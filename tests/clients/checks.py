"""What the clients' scripts share: checks by name, their count, and where the server is."""

import os
import sys
import traceback

HOST, PORT = os.environ.get("HOST", "127.0.0.1"), os.environ.get("PORT", "5433")
USER = DATABASE = "halcyon"
CHECKS = []


def check(function):
    """Marks a function as a check; its name says what must hold."""
    CHECKS.append(function)
    return function


def run():
    """Runs all checks in order, prints a line for each, and ends with status 1 if one failed."""
    failed = 0
    for function in CHECKS:
        name = function.__name__.replace("_", " ")
        try:
            function()
            print(f"ok {name}", flush=True)
        except Exception as error:  # every failure is reported, none ends the run
            failed += 1
            place = traceback.extract_tb(error.__traceback__)[-1].lineno
            first = " ".join(str(error).split())[:300]
            print(f"FAILED {name}: {type(error).__name__}: {first} (line {place})", flush=True)
    sys.exit(1 if failed else 0)
