"""The examples of docs/guide/adbc.md and of the package's README, as doctests."""

import doctest
import pathlib
import re
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[2]


class Guide(unittest.TestCase):
    def test_examples_of_pages(self):
        for page in ["docs/guide/adbc.md", "crates/adbc/python/README.md"]:
            with self.subTest(page), tempfile.TemporaryDirectory() as folder:
                blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)
                test = doctest.DocTestParser().get_doctest("\n".join(blocks), {"folder": folder}, page, page, 0)
                self.assertGreater(len(test.examples), 0, page)
                told = []
                runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
                runner.run(test, out=told.append)
                self.assertEqual(runner.failures, 0, "".join(told))


if __name__ == "__main__":
    unittest.main()
