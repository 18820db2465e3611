"""In a sanitizer build a program's report reaches the tests. A plain build has nothing to report."""
import os
import signal
import tempfile
import unittest.mock

from harness import *


class Reports(Suite):
    def setUp(self):
        if not sanitizers:
            self.skipTest("not a sanitizer build")

    def test_a_report_of_any_program_fails_the_test_it_happened_in(self):
        with Instance() as mx:
            for program in ("smtpd", "qmgr", "trivial-rewrite"):
                with self.subTest(program):
                    os.kill(mx.pids()[program][0], signal.SIGSEGV)
                    mx.wait_log(f"process .*/{program} pid .* exit status 99")
                    self.assertRegex("".join(sanitizers.take()), "Sanitizer")
            sanitizers.assert_silent()  # each report counts once

    def test_a_report_is_kept_where_a_second_run_cannot_hide_it(self):
        with tempfile.TemporaryDirectory() as keep, unittest.mock.patch.dict(os.environ, PEN_SANITIZER_REPORTS=keep):
            with Instance() as mx:
                for program, number in (("qmgr", signal.SIGSEGV), ("trivial-rewrite", signal.SIGABRT)):
                    os.kill(mx.pids()[program][0], number)
                    mx.wait_log(f"process .*/{program} pid .* exit status 99")
                    with self.assertRaisesRegex(AssertionError, "Sanitizer"):
                        sanitizers.assert_silent()
            self.assertEqual(len(os.listdir(keep)), 2)


if __name__ == "__main__":
    unittest.main()
