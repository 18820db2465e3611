"""Every configuration of tests/integration/fixtures/postfix, run by Postfix and, imported, by Penstock: see
beside_postfix.py. Several at a time, because each mostly waits.
"""
import os
from concurrent.futures import ThreadPoolExecutor

import peers
from beside_postfix import NAMES, Fixture, beside, difference, expected
from harness import *

TOGETHER = 4


def run(name):
    fixture = Fixture(name)
    theirs, ours, logs = beside(fixture)
    return difference(theirs, ours), expected(fixture), logs


@unittest.skipIf(peers.unavailable(), peers.unavailable() or "")
class Configurations(Suite):
    def test_there_are_enough_of_them(self):
        self.assertGreaterEqual(len(NAMES), 40)

    def test_each_does_what_postfix_does_with_it(self):
        chosen = os.environ.get("PEN_CONFIGURATIONS", "all").split()
        names = NAMES if chosen == ["all"] else chosen
        with ThreadPoolExecutor(TOGETHER) as pool:
            running = {name: pool.submit(run, name) for name in names}
            for name, result in running.items():
                with self.subTest(configuration=name):
                    found, wanted, logs = result.result()
                    self.assertEqual("\n".join(found), "\n".join(wanted), logs)


if __name__ == "__main__":
    unittest.main()
