"""What the clients' scripts share: checks by name, their count, and where the server is."""

import datetime
import decimal
import os
import sys
import traceback
import uuid

HOST, PORT = os.environ.get("HOST", "127.0.0.1"), os.environ.get("PORT", "5433")
USER = DATABASE = "halcyon"
CHECKS = []

# A value of each type, by the type's name.
VALUES = {
    "boolean": True,
    "smallint": -7,
    "integer": 42,
    "bigint": 1 << 40,
    "real": 1.5,
    "double precision": -0.1,
    "numeric(12,3)": decimal.Decimal("-123456.789"),
    "text": "grün €",
    "varchar(10)": "abc",
    "bytea": b"\x00\xff",
    "date": datetime.date(2024, 2, 29),
    "time": datetime.time(23, 59, 58, 123456),
    "timestamp": datetime.datetime(2024, 2, 29, 12, 34, 56, 789),
    "timestamptz": datetime.datetime(2024, 2, 29, 12, 34, 56, 789, datetime.timezone.utc),
    "interval": datetime.timedelta(days=3, hours=4, microseconds=5),
    "uuid": uuid.UUID("00112233-4455-6677-8899-aabbccddeeff"),
    "text[]": ["a", None, 'b "q", {x}\\', ""],
    "integer[]": [1, None, -3],
    "bigint[]": [],
    "double precision[]": [0.5, -1e300],
    "numeric(9,2)[]": [decimal.Decimal("-1.25"), None],
    "boolean[]": [True, False],
    "date[]": [datetime.date(2024, 2, 29)],
    "timestamptz[]": [datetime.datetime(2024, 2, 29, 12, 34, 56, 789, datetime.timezone.utc)],
    "uuid[]": [uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")],
}


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
