"""Every test named in docs/tls-failure-cases.md exists, and every case of the tests is in that page."""
import importlib
import os
import re
import unittest

import test_mta_sts
import test_tls_dane
from instance import TOP

TABLES = {"D": (test_tls_dane.AtDane, test_tls_dane.EXPECTED), "N": (test_mta_sts.NoPolicy, test_mta_sts.NO_POLICY),
          "P": (test_mta_sts.Policies, test_mta_sts.POLICIES)}


class FailureCases(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with open(os.path.join(TOP, "docs", "tls-failure-cases.md")) as file:
            cls.page = file.read()

    def test_each_case_is_named(self):
        for letter, (suite, table) in TABLES.items():
            named = set(re.findall(rf"\b{letter} `([a-z_]+)`", self.page))
            self.assertEqual([n for n in named if not hasattr(suite, f"test_{n}")], [])
            self.assertEqual(set(table) - named, set())

    def test_each_test_with_peers_is_there(self):
        found = re.findall(r"`(test_\w+)\.(\w+)\.(test_\w+)", self.page)
        self.assertGreater(len(found), 10)
        for module, suite, name in found:
            names = dir(getattr(importlib.import_module(module), suite))
            self.assertTrue([n for n in names if n.startswith(name)], f"{module}.{suite}.{name}")

    def test_each_unit_test_is_there(self):
        rows = "\n".join(line for line in self.page.split("\n") if line.startswith("|"))
        named = re.findall(r"U `(\w+)`", rows) + re.findall(r"\b[a-z_]+/(\w+)`", rows)
        self.assertGreater(len(named), 40)
        sources = ""
        for folder in ("trivial-rewrite", "lib/net/tls", "lib/mta_sts", "smtp"):
            for name in sorted(os.listdir(os.path.join(TOP, folder))):
                if name.endswith("_test.cc"):
                    with open(os.path.join(TOP, folder, name)) as file:
                        sources += file.read()
        there = set(re.findall(r"_TEST_CASE\(\s*(\w+)", sources))
        self.assertEqual([n for n in named if n not in there], [])


if __name__ == "__main__":
    unittest.main()
