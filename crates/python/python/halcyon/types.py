"""Types of PEP 249: constructors, type objects; and intervals with months."""

import datetime as _datetime
import json as _json
import time as _time
from typing import NamedTuple


class Interval(NamedTuple):
    """An INTERVAL with months, which have no length of their own; others are ``timedelta``."""

    months: int = 0
    days: int = 0
    microseconds: int = 0


def dumps(value):
    """A document's text. Raises TypeError for what JSON has no form for; the engine calls this for parameters."""
    return _json.dumps(value, allow_nan=False)


class DBAPIType:
    """A type object of PEP 249: equal to the object ids of its types, as ``description`` has them."""

    def __init__(self, name, *oids):
        self.name = name
        self.oids = frozenset(oids)

    def __eq__(self, other):
        if isinstance(other, DBAPIType):
            return self.oids == other.oids
        return other in self.oids

    def __hash__(self):
        return hash(self.oids)

    def __repr__(self):
        return self.name


STRING = DBAPIType("STRING", 18, 19, 25, 114, 142, 650, 829, 869, 1042, 1043, 2950, 3802)
BINARY = DBAPIType("BINARY", 17)
NUMBER = DBAPIType("NUMBER", 20, 21, 23, 700, 701, 1700)
DATETIME = DBAPIType("DATETIME", 1082, 1083, 1114, 1184, 1186, 1266)
ROWID = DBAPIType("ROWID", 26)

Date = _datetime.date
Time = _datetime.time
Timestamp = _datetime.datetime
Binary = bytes


def DateFromTicks(ticks: float) -> Date:
    """The date of a number of seconds since 1970, in local time."""
    return Date(*_time.localtime(ticks)[:3])


def TimeFromTicks(ticks: float) -> Time:
    """The time of day of a number of seconds since 1970, in local time."""
    return Time(*_time.localtime(ticks)[3:6])


def TimestampFromTicks(ticks: float) -> Timestamp:
    """The moment of a number of seconds since 1970, in local time."""
    return Timestamp(*_time.localtime(ticks)[:6])
