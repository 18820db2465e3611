"""Every test that docs/tls-failure-cases.md and docs/faults-of-postfix.md name is there, and every case of the tests of
TLS is in the first."""
import importlib
import os
import re
import unittest

import test_mta_sts
import test_tls_dane
from instance import TOP

TABLES = {"D": (test_tls_dane.AtDane, test_tls_dane.EXPECTED), "N": (test_mta_sts.NoPolicy, test_mta_sts.NO_POLICY),
          "P": (test_mta_sts.Policies, test_mta_sts.POLICIES)}


def page(name):
    with open(os.path.join(TOP, "docs", name)) as file:
        return file.read()


class FailureCases(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.page = page("tls-failure-cases.md")

    def test_each_case_is_named(self):
        for letter, (suite, table) in TABLES.items():
            named = set(re.findall(rf"\b{letter} `([a-z_]+)`", self.page))
            self.assertEqual([n for n in named if not hasattr(suite, f"test_{n}")], [])
            self.assertEqual(set(table) - named, set())

    def test_each_test_with_peers_is_there(self):
        for text, least in ((self.page, 11), (page("faults-of-postfix.md"), 6)):
            found = re.findall(r"`(test_\w+)\.(\w+)\.(test_\w+)", text)
            self.assertGreaterEqual(len(found), least)
            for module, suite, name in found:
                names = dir(getattr(importlib.import_module(module), suite))
                self.assertTrue([n for n in names if n.startswith(name)], f"{module}.{suite}.{name}")

    def test_each_unit_test_is_there(self):
        there = set()
        for folder, _, names in os.walk(TOP):
            for name in names if not os.path.relpath(folder, TOP).startswith(("build", "var", ".")) else []:
                if name.endswith("_test.cc"):
                    with open(os.path.join(folder, name)) as file:
                        there |= set(re.findall(r"_TEST_CASE\(\s*(\w+)", file.read()))
        for text, least in ((self.page, 41), (page("faults-of-postfix.md"), 15)):
            rows = "\n".join(line for line in text.split("\n") if line.startswith("|"))
            named = re.findall(r"U `(\w+)`", rows) + re.findall(r"\b[a-z_]+/(\w+)`", rows)
            self.assertGreaterEqual(len(named), least)
            self.assertEqual([n for n in named if n not in there], [])


if __name__ == "__main__":
    unittest.main()
