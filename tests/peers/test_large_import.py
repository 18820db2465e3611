"""A queue of hundreds of mixed messages of Postfix, taken over and killed in the middle, again and again; every field
of every message: see tests/integration/test_import_queue.py, which does the same with fewer. PEN_IMPORT=1000: a
thousand, in about four minutes."""
import os
import unittest

os.environ.setdefault("PEN_IMPORT", "300")

import peers
import test_import_queue


@unittest.skipIf(peers.unavailable(), peers.unavailable() or "")
class LargeImport(test_import_queue.ImportQueue):
    pass


def load_tests(loader, _tests, _pattern):
    names = ("test_every_field_is_as_postcat_shows_it", "test_killed_again_and_again_while_the_mail_system_is_down",
             "test_killed_again_and_again_while_the_mail_system_runs")
    return unittest.TestSuite(LargeImport(name) for name in names)


if __name__ == "__main__":
    unittest.main()
