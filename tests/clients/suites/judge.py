"""Counts what became of the tests of a suite, and compares the failures with those that are expected.

    judge.py RESULTS EXPECTED

A line of RESULTS is `passed`, `failed` or `skipped`, a tab, the test's name, a tab, what went wrong. A line of
EXPECTED is a name, ` # ` and the reason; a name that ends in `*` stands for all that begin like it.
Status 1 if a test failed that is not expected to.
"""

import sys

outcomes = {}
for line in open(sys.argv[1]):
    outcome, name, why = line.rstrip("\n").split("\t", 2)
    # Parts of a test are told one by one: it failed if one of them did.
    if outcomes.get(name, ("",))[0] != "failed":
        outcomes[name] = (outcome, why)

expected = []
for line in open(sys.argv[2]):
    if line.strip() and not line.startswith("#"):
        name, separator, reason = line.rstrip("\n").partition(" # ")
        if not separator or not reason:
            sys.exit(f"no reason: {line}")
        expected.append(name)


def listed(name):
    return any(name.startswith(e[:-1]) if e.endswith("*") else name == e for e in expected)


def count(outcome):
    return sum(1 for found, _ in outcomes.values() if found == outcome)


new = {name: why for name, (outcome, why) in outcomes.items() if outcome == "failed" and not listed(name)}
for name, why in new.items():
    print(f"FAILED {name}: {why[:300]}")
for entry in expected:
    mine = [o for n, (o, _) in outcomes.items() if (n.startswith(entry[:-1]) if entry.endswith("*") else n == entry)]
    if mine and "failed" not in mine:
        print(f"passes now: {entry}")
print(f"{count('passed')} of {count('passed') + count('failed')} passed, {count('failed')} failed, "
      f"{len(new)} of them not expected to; {count('skipped')} skipped")
sys.exit(1 if new or not outcomes else 0)
