"""penconf in the hands of an administrator and a configuration manager."""
import json
import os
import re
import subprocess
import tempfile
import unittest

import peers
from instance import BIN, TOP
from test_readers import rows

PENCONF = os.path.join(BIN, "penconf")
MAIN = """# the head
myhostname = mx.example.org
smtpd_client_restrictions = permit_mynetworks,
  # why
  reject
mine = $myhostname
"""
# What postconf -d of 3.10 has, and that of 3.7 not; with the defaults of some.
NEW = """allow_srv_lookup_fallback force_mime_input_conversion full_name_encoding_charset ignore_srv_lookup_error
lmtp_sasl_password_result_delimiter lmtp_tls_enable_rpk lmtp_tlsrpt_enable lmtp_tlsrpt_skip_reused_handshakes
lmtp_tlsrpt_socket_name maillog_file_permissions smtp_sasl_password_result_delimiter smtp_tls_enable_rpk
smtp_tlsrpt_enable smtp_tlsrpt_skip_reused_handshakes smtp_tlsrpt_socket_name smtpd_client_ipv4_prefix_length
smtpd_client_ipv6_prefix_length smtpd_hide_client_session smtpd_tls_enable_rpk socketmap_max_reply_size
tls_ffdhe_auto_groups tls_required_enable tlsproxy_tls_enable_rpk use_srv_lookup""".split()
EXCLUDED = "!SEED:!IDEA:!3DES:!RC2:!RC4:!RC5:!kDH:!kECDH:!aDSS:!MD5:"
DEFAULTS = {"smtp_tlsrpt_skip_reused_handshakes": "no", "smtpd_forbid_bare_newline": "normalize",
            "smtp_tls_dane_insecure_mx_policy": "dane", "tls_ffdhe_auto_groups": "ffdhe2048 ffdhe3072",
            "tls_eecdh_auto_curves": "X25519MLKEM768 X25519 X448 prime256v1 secp384r1 secp521r1",
            "tls_high_cipherlist": f"aNULL:-aNULL:HIGH:{EXCLUDED}@STRENGTH",
            "tls_medium_cipherlist": f"aNULL:-aNULL:HIGH:MEDIUM:{EXCLUDED}+RC4:@STRENGTH",
            "local_destination_recipient_limit": "1",
            "smtpd_forbidden_commands": "CONNECT GET POST regexp:{{/^[^A-Z]/ Bogus}}"}
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

    def test_q_says_nothing_of_names_that_no_setting_has(self):
        with open(os.path.join(self.dir, "main.cf"), "a") as main:
            main.write("nosuch_setting = 1\n")
        shown = self.run_penconf("-n")
        self.assertIn("nosuch_setting: no setting has this name", self.stderr)
        self.assertEqual(self.run_penconf("-nq"), shown)
        self.assertEqual(self.stderr, "")
        self.run_penconf("-q", "nosuch")
        self.assertIn("nosuch: unknown setting", self.stderr)

    def test_one_setting_is_shown_as_written_expanded_bare_and_as_json(self):
        self.assertEqual(self.run_penconf("smtpd_banner"), "smtpd_banner = $myhostname ESMTP $mail_name\n")
        self.assertEqual(self.run_penconf("-hx", "mine"), "mx.example.org\n")
        self.assertEqual(self.run_penconf("-H", "mine"), "mine\n")
        self.assertEqual(json.loads(self.run_penconf("-jx", "mine")), {"mine": "mx.example.org"})
        self.assertEqual(self.run_penconf("-hx", "-o", "myhostname=a.example", "mine"), "a.example\n")

    def test_blanks_and_ends_of_lines_are_shown_as_one_space_as_postconf_has_it(self):
        with open(os.path.join(self.dir, "main.cf"), "w") as f:
            f.write("mynetworks=127.0.0.0/8    10.0.0.0/8,\t192.168.0.0/16  \nrelay_domains =   \n   a.example,\n\n"
                    "# comment\n\tb.example    \n      c.example\nmydestination=\n"
                    "virtual_alias_maps = inline:{   { a =  x y },\n   b=c }\n")
        shown = {"mynetworks": "127.0.0.0/8 10.0.0.0/8, 192.168.0.0/16",
                 "relay_domains": "a.example, b.example c.example", "mydestination": "",
                 "virtual_alias_maps": "inline:{ { a = x y }, b=c }"}
        for name, value in shown.items():
            self.assertEqual(self.run_penconf(name), f"{name} = {value}".rstrip() + "\n")
            self.assertEqual(self.run_penconf("-h", name), value + "\n")
        with open(os.path.join(self.dir, "master.cf"), "w") as f:
            f.write("smtp inet n - n - - smtpd\n -o smtpd_banner={ a    b }\n"
                    " -o { mynetworks =  ::1   127.0.0.1 } -o x=y\n")
        self.assertEqual(self.run_penconf("-P"), "smtp/inet/mynetworks = ::1 127.0.0.1\n"
                         "smtp/inet/smtpd_banner = { a b }\nsmtp/inet/x = y\n")

    def test_defaults_do_not_look_at_main_cf(self):
        self.assertEqual(self.run_penconf("-d", "smtpd_client_restrictions"), "smtpd_client_restrictions =\n")
        every = self.run_penconf("-d").splitlines()
        self.assertGreater(len(every), 900)
        self.assertEqual(every, sorted(every, key=lambda line: line.split(" =")[0]))

    def test_every_name_of_postfix_is_known(self):
        known = set(self.run_penconf("-dH").split())
        self.assertEqual(set(NEW) - known, set())
        for name, value in DEFAULTS.items():
            self.assertEqual(self.run_penconf("-dh", name), value + "\n")
        if peers.unavailable():
            self.skipTest(peers.unavailable())
        peer = peers.Postfix(0)
        self.addCleanup(peer.stop)
        peer.write("etc/postfix/main.cf", "compatibility_level = 3.6\nshlib_directory = /usr/lib/postfix\n")
        with open(os.path.join(peer.root, "usr/share/postfix/master.cf.dist")) as debians:
            master = debians.read()
        peer.write("etc/postfix/master.cf", master)
        with open(os.path.join(self.dir, "master.cf"), "w") as out:
            out.write(master)
        theirs = dict(line.split(" =", 1) for line in peer.run("/usr/sbin/postconf", "-d").stdout.splitlines())
        ours = dict(line.split(" =", 1) for line in self.run_penconf("-d").splitlines())
        self.assertGreater(len(theirs), 1000)
        self.assertEqual(theirs.keys() - ours.keys(), set())
        of_transports = {name for name in theirs if name.startswith(("smtp_destination_", "uucp_", "maildrop_"))}
        self.assertGreater(len(of_transports), 30)
        for name in of_transports:
            self.assertEqual((name, ours[name]), (name, theirs[name]))
        with self.subTest("what is made from the machine"):
            for name in ("myhostname", "mydomain"):
                self.assertEqual((name, ours[name]), (name, theirs[name]))
            self.assertIn("127.0.0.", ours["mynetworks"])
        with self.subTest("a default that differs has its reason in docs/from-postfix.md"):
            words = {name: (ours[name].replace(",", " ").split(), theirs[name].replace(",", " ").split())
                     for name, *_ in rows() if name in theirs}
            self.assertGreater(len(words), 600)
            with open(os.path.join(TOP, "docs/from-postfix.md")) as page:
                table = page.read().partition("## Defaults that differ\n")[2].partition("\n## ")[0]
            named = [name for line in table.splitlines() if line.startswith("| `")
                     for name in re.findall(r"`(\w+)`", line.split("|")[1])]
            self.assertEqual(sorted(named), sorted(name for name, (own, other) in words.items() if own != other))

    def test_defaults_of_transports_are_those_of_master_cf(self):
        self.assertEqual(self.run_penconf("-dh", "relay_destination_recipient_limit"),
                         "$default_destination_recipient_limit\n")
        self.assertIn("relay_initial_destination_concurrency = $initial_destination_concurrency\n",
                      self.run_penconf("-d"))
        self.assertNotIn("relay_time_limit", self.run_penconf("-d"))
        self.run_penconf("-d", "nosuch_destination_recipient_limit")
        os.remove(os.path.join(self.dir, "main.cf"))
        os.remove(os.path.join(self.dir, "master.cf"))
        self.run_penconf("-d", "myhostname")

    def test_m_lists_the_types_of_tables(self):
        types = self.run_penconf("-m").split()
        self.assertEqual(types, sorted(types))
        for known in ("cidr", "debug", "hash", "inline", "lmdb", "pcre", "regexp", "static", "texthash", "unix"):
            self.assertIn(known, types)
        self.assertEqual(self.run_penconf("-m", "name", status=64), "")

    def test_an_unknown_name_is_told_and_no_failure_as_for_postconf(self):
        for words in (["nosuch"], ["-h", "nosuch"], ["-d", "nosuch"]):
            self.assertEqual(self.run_penconf(*words), "")
            self.assertIn("nosuch: unknown setting", self.stderr)
        for words in (["-M", "nosuch"], ["-P", "nosuch/unix"], ["-F", "nosuch/inet"]):
            self.assertEqual(self.run_penconf(*words), "")
            self.assertIn("no such service", self.stderr)

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
        self.assertEqual(self.run_penconf("-Mj", "smtp/inet"), '{"smtp/inet": "smtp inet n - n - - smtpd"}\n')
        self.assertEqual(self.run_penconf("-Mf", "relay").splitlines()[1:],
                         ["    -o syslog_name=x/$service_name", "    -o smtp_helo_name=$mine"])
        self.assertEqual(self.run_penconf("-F", "relay/unix/process_limit"), "relay/unix/process_limit = 3\n")
        self.assertEqual(self.run_penconf("-P"), "relay/unix/smtp_helo_name = $mine\n"
                         "relay/unix/syslog_name = x/$service_name\n")
        self.assertEqual(self.run_penconf("-Phx", "relay/unix"), "mx.example.org\nx/relay\n")
        self.run_penconf("-M", "nosuch")

    def test_master_cf_is_changed_by_service_column_and_setting(self):
        mode = os.stat(os.path.join(self.dir, "master.cf")).st_mode
        self.run_penconf("-Me", "submission/inet=submission inet n - y - - smtpd -o syslog_name=x/submission")
        self.run_penconf("-P", "submission/inet/smtpd_client_restrictions=permit_sasl_authenticated, reject",
                         "*/inet/soft_bounce=no")
        self.run_penconf("-F", "*/*/chroot = n")
        self.assertEqual(self.run_penconf("-Mf", "submission/inet").splitlines()[1:],
                         ["    -o syslog_name=x/submission",
                          "    -o {smtpd_client_restrictions=permit_sasl_authenticated, reject}",
                          "    -o soft_bounce=no"])
        self.assertEqual(self.run_penconf("-P", "smtp/inet"), "smtp/inet/soft_bounce = no\n")
        self.assertEqual(set(self.run_penconf("-Fh", "*/*/chroot").split()), {"n"})
        self.run_penconf("-PX", "submission/inet/syslog_name")
        self.run_penconf("-M#", "relay/unix")
        self.run_penconf("-MX", "smtp/inet")
        self.assertEqual([line.split()[0] for line in self.run_penconf("-M").splitlines() if line[0] != " "],
                         ["submission"])
        with open(os.path.join(self.dir, "master.cf")) as file:
            text = file.read()
        self.assertIn("#relay", text)
        self.assertNotIn("syslog_name=x/submission", text)
        self.assertEqual(os.stat(os.path.join(self.dir, "master.cf")).st_mode, mode)
        # As postconf: what is not there is told, and is no failure; what is no service changes nothing.
        self.run_penconf("-F", "nosuch/unix/chroot=n")
        self.assertIn("nosuch/unix: no such service", self.stderr)
        self.run_penconf("-Me", "smtp/inet=smtp inet n -", status=65)
        self.assertIn("eight columns", self.stderr)
        with open(os.path.join(self.dir, "master.cf")) as file:
            self.assertEqual(file.read(), text)

    def test_the_version_is_shown_as_digits(self):
        for words in (("-d",), ("-x",), ()):
            self.assertRegex(self.run_penconf(*words, "-h", "mail_version"), r"^\d+\.\d+\.\d+\n$")

    def test_classes_and_what_there_is(self):
        self.assertEqual(self.run_penconf("-C", "user"), "mine = $myhostname\n")
        self.assertIn("relay_destination_concurrency_limit", self.run_penconf("-C", "service"))
        builtin = self.run_penconf("-C", "builtin")
        self.assertIn("\nmyhostname = ", builtin)
        self.assertNotIn("\nmine = ", builtin)
        self.assertEqual(self.run_penconf("-a"), "cyrus\ndovecot\ntable\n")
        self.assertEqual(self.run_penconf("-l"), "flock\nfcntl\ndotlock\n")

    def test_what_is_not_done_is_refused(self):
        self.run_penconf("-e", status=64)
        self.run_penconf("-d", "-n", status=64)

    def test_a_directory_without_main_cf_is_told(self):
        os.remove(os.path.join(self.dir, "main.cf"))
        self.run_penconf("-n", status=78)
        self.assertIn("main.cf", self.stderr)


if __name__ == "__main__":
    unittest.main()
