"""The examples of docs/guide/python.md, of the package's README and of its docstrings, as doctests."""

import doctest
import pathlib
import re
import tempfile
import unittest

import halcyon

ROOT = pathlib.Path(__file__).parents[2]
PAGES = ["docs/guide/python.md", "crates/python/README.md"]


class Guide(unittest.TestCase):
    def run_text(self, text, name, names):
        test = doctest.DocTestParser().get_doctest(text, names, name, name, 0)
        self.assertGreater(len(test.examples), 0, name)
        told = []
        runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
        runner.run(test, out=told.append)
        self.assertEqual(runner.failures, 0, "".join(told))

    def test_examples_of_pages(self):
        for page in PAGES:
            with self.subTest(page), tempfile.TemporaryDirectory() as folder:
                text = (ROOT / page).read_text()
                blocks = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
                self.run_text("\n".join(blocks), page, {"folder": folder})

    def test_examples_of_the_package(self):
        self.run_text(halcyon.__doc__, "halcyon", {})

    def test_stubs_name_what_there_is(self):
        """`_halcyon.pyi` has every class, method and function of the library, and no other."""
        from halcyon import _halcyon

        stubs = pathlib.Path(halcyon.__file__).with_name("_halcyon.pyi").read_text()
        told = set()
        for line in stubs.splitlines():
            if found := re.match(r"class (\w+)", line):
                owner = found.group(1)
                told.add(owner)
            elif found := re.match(r"    def (\w+)", line):
                told.add(f"{owner}.{found.group(1)}")
            elif found := re.match(r"def (\w+)", line):
                told.add(found.group(1))
        there = set()
        for name, value in vars(_halcyon).items():
            if name.startswith("__"):
                continue
            there.add(name)
            if isinstance(value, type):
                own = {"__len__", "__arrow_c_stream__", "__arrow_c_schema__"}
                there.update(f"{name}.{member}" for member in vars(value) if member in own or not member.startswith("_"))
        self.assertEqual(told, there)


if __name__ == "__main__":
    unittest.main()
