"""penconf in the hands of an administrator and a configuration manager."""
import json
import os
import subprocess
import tempfile
import unittest

from instance import BIN

PENCONF = os.path.join(BIN, "penconf")
MAIN = """# the head
myhostname = mx.example.org
smtpd_client_restrictions = permit_mynetworks,
  # why
  reject
mine = $myhostname
"""
MASTER = """smtp inet n - n - - smtpd
relay unix - - n - 3 smtp
  -o syslog_name=x/$service_name -o { smtp_helo_name = $mine }
"""


@unittest.skipUnless(os.path.exists(PENCONF), "penconf is not built")
class Penconf(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.dir = scratch.name
        for name, text in ("main.cf", MAIN), ("master.cf", MASTER):
            with open(os.path.join(self.dir, name), "w") as out:
                out.write(text)

    def run_penconf(self, *arguments, status=0):
        done = subprocess.run([PENCONF, "-c", self.dir, *arguments], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, status, done.stderr)
        self.stderr = done.stderr
        return done.stdout

    def main_cf(self):
        with open(os.path.join(self.dir, "main.cf")) as text:
            return text.read()

    def test_what_is_set_is_shown_in_order_of_names(self):
        self.assertEqual(self.run_penconf("-n"), "mine = $myhostname\nmyhostname = mx.example.org\n"
                         "smtpd_client_restrictions = permit_mynetworks, reject\n")

    def test_one_setting_is_shown_as_written_expanded_bare_and_as_json(self):
        self.assertEqual(self.run_penconf("smtpd_banner"), "smtpd_banner = $myhostname ESMTP $mail_name\n")
        self.assertEqual(self.run_penconf("-hx", "mine"), "mx.example.org\n")
        self.assertEqual(self.run_penconf("-H", "mine"), "mine\n")
        self.assertEqual(json.loads(self.run_penconf("-jx", "mine")), {"mine": "mx.example.org"})
        self.assertEqual(self.run_penconf("-hx", "-o", "myhostname=a.example", "mine"), "a.example\n")

    def test_defaults_do_not_look_at_main_cf(self):
        self.assertEqual(self.run_penconf("-d", "smtpd_client_restrictions"), "smtpd_client_restrictions =\n")
        every = self.run_penconf("-d").splitlines()
        self.assertGreater(len(every), 900)
        self.assertEqual(every, sorted(every, key=lambda line: line.split(" =")[0]))

    def test_m_lists_the_types_of_tables(self):
        types = self.run_penconf("-m").split()
        self.assertEqual(types, sorted(types))
        for known in ("cidr", "hash", "inline", "lmdb", "pcre", "regexp", "static", "texthash", "unix"):
            self.assertIn(known, types)
        self.assertEqual(self.run_penconf("-m", "name", status=64), "")

    def test_an_unknown_name_is_told_and_fails(self):
        self.assertEqual(self.run_penconf("nosuch", status=69), "")
        self.assertIn("nosuch: unknown setting", self.stderr)

    def test_a_setting_is_changed_in_place_and_comments_stay(self):
        self.run_penconf("-e", "smtpd_client_restrictions = reject", "soft_bounce=yes")
        self.assertEqual(self.main_cf(), "# the head\nmyhostname = mx.example.org\nsmtpd_client_restrictions = reject\n"
                         "  # why\nmine = $myhostname\nsoft_bounce = yes\n")
        self.run_penconf("-#", "soft_bounce")
        self.run_penconf("-X", "mine")
        self.assertEqual(self.main_cf(), "# the head\nmyhostname = mx.example.org\nsmtpd_client_restrictions = reject\n"
                         "  # why\n#soft_bounce = yes\n")

    def test_a_value_that_no_program_could_use_is_refused(self):
        self.run_penconf("-e", "soft_bounce=perhaps", status=65)
        self.assertIn("neither yes nor no", self.stderr)
        self.assertEqual(self.main_cf(), MAIN)

    def test_master_cf_is_shown_whole_by_column_and_by_override(self):
        self.assertEqual(self.run_penconf("-M", "smtp/inet").split(), "smtp inet n - n - - smtpd".split())
        self.assertEqual(self.run_penconf("-Mf", "relay").splitlines()[1:],
                         ["    -o syslog_name=x/$service_name", "    -o smtp_helo_name=$mine"])
        self.assertEqual(self.run_penconf("-F", "relay/unix/process_limit"), "relay/unix/process_limit = 3\n")
        self.assertEqual(self.run_penconf("-P"), "relay/unix/syslog_name = x/$service_name\n"
                         "relay/unix/smtp_helo_name = $mine\n")
        self.assertEqual(self.run_penconf("-Phx", "relay/unix"), "x/relay\nmx.example.org\n")
        self.run_penconf("-M", "nosuch", status=69)

    def test_what_is_not_done_is_refused(self):
        self.run_penconf("-Me", "smtp/inet=x", status=64)
        self.assertIn("by hand", self.stderr)
        self.run_penconf("-e", status=64)
        self.run_penconf("-d", "-n", status=64)

    def test_a_directory_without_main_cf_is_told(self):
        os.remove(os.path.join(self.dir, "main.cf"))
        self.run_penconf("-n", status=78)
        self.assertIn("main.cf", self.stderr)


if __name__ == "__main__":
    unittest.main()
