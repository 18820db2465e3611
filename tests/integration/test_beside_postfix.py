"""Configurations of Postfix as people write them (fixtures/postfix), run by Postfix and, imported, by Penstock: the
same replies to the same sessions, the same messages at the next hops and in mailboxes.

PEN_CONFIGURATIONS: names of fixtures, or all (tests/peers/test_configurations.py does that); without it a few.
"""
import os

import peers
from beside_postfix import NAMES, Fixture, beside, difference, expected
from harness import *

FEW = ("access_lists", "canonical", "catch_all_development", "debian_internet_site", "forward_files",
       "groupware_suite", "header_checks", "internationalized_domains", "ispmail", "logins_of_odd_clients",
       "odd_addresses", "relay_recipients", "routes", "soft_bounce", "virtual_aliases")
CHOSEN = os.environ.get("PEN_CONFIGURATIONS", "").split() or FEW


@unittest.skipIf(peers.unavailable(), peers.unavailable() or "")
@cases(*(NAMES if CHOSEN == ["all"] else CHOSEN))
class BesidePostfix(Suite):
    maxDiff = None

    def case(self, name):
        theirs, ours, logs = beside(Fixture(name))
        self.assertTrue(any("250 2.0.0" in reply for _, reply in theirs.said if isinstance(reply, str)), theirs.said)
        self.assertEqual("\n".join(difference(theirs, ours)), "\n".join(expected(Fixture(name))), logs)


if __name__ == "__main__":
    unittest.main()
