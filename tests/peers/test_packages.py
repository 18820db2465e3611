"""The Debian packages: built, looked at by lintian, installed, reconfigured, upgraded, removed and purged in a Debian
root of their own."""
import os
import stat
import subprocess
import unittest

from debian_root import PACKAGES, TOP, DebianRoot, built

SITE = {"penstock/main_mailer_type": "Internet Site", "penstock/mailname": "test.example",
        "penstock/destinations": "test.example, localhost", "penstock/root_address": "anna"}
START = "useradd -m anna && penstock start && "
# A message for anna has arrived, or 60 seconds are over: /var/mail says when.
ARRIVES = "for i in $(seq 600); do grep -qs 'Subject: {0}' /var/mail/anna && exit 0; sleep 0.1; done; exit 1"


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise unittest.SkipTest("needs root: a root file system of its own")
        done = subprocess.run([os.path.join(TOP, "scripts", "build-packages")], capture_output=True, text=True,
                              env={**os.environ, "PEN_PACKAGE_LEVEL": "0"})
        if done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr)

    def test_lintian_finds_nothing(self):
        # Whoever builds has no public mail address to name: the tree's is a place holder.
        changes = [os.path.join(PACKAGES, n) for n in os.listdir(PACKAGES) if n.endswith(".changes")]
        done = subprocess.run(["lintian", "--allow-root", "--fail-on", "error,warning", "--suppress-tags",
                               "bogus-mail-host,bogus-mail-host-in-debian-changelog", *changes],
                              capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)

    def test_units_are_hardened(self):
        for unit in ("penstock.service", "penstock@.service"):
            done = subprocess.run(["systemd-analyze", "security", "--offline=yes", "--threshold=36",
                                   os.path.join(TOP, "conf", unit)], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("Overall exposure level", done.stdout)

    def test_a_fresh_host_sends_and_receives(self):
        with DebianRoot() as debian:
            debian.install("penstock", "penstock-postfix-commands", answers=SITE)
            self.assertEqual(debian.read("etc/mailname"), "test.example\n")
            aliases = debian.read("etc/aliases")
            self.assertIn("postmaster: root\n", aliases)
            self.assertIn("root: anna\n", aliases)
            self.assertEqual(debian.run("penconf -h myorigin mydestination inet_interfaces myhostname").split("\n")[:4],
                             ["/etc/mailname", "test.example, localhost", "all", "mx.test.example"])
            for name in ("pendrop", "penqueue", "mailq", "penshape"):
                self.assertEqual(stat.S_IMODE(os.stat(debian.path("usr/bin/" + name)).st_mode), 0o2755, name)
            self.assertNotIn("error:", debian.run("penstock check", check=False))
            # By a user's mail program, to root, whose alias is anna; and the commands of Postfix.
            out = debian.run(START + "su -s /bin/sh anna -c 'echo hello | mail -s first root' && (" +
                             ARRIVES.format("first") + ") && postqueue -p && postconf -h mydestination && mailq")
            self.assertIn("Mail queue is empty", out)
            self.assertIn("test.example, localhost", out)
            box = debian.read("var/mail/anna")
            self.assertIn("\nX-Original-To: root@test.example\n", box, "root's alias")
            self.assertIn("\nMessage-Id: <", box)

    def test_no_configuration_is_made_if_none_is_wanted(self):
        with DebianRoot() as debian:
            out = debian.install("penstock", answers={"penstock/main_mailer_type": "No configuration"})
            self.assertIn("penstock does not start until there is one", out)
            self.assertFalse(os.path.exists(debian.path("etc/penstock/main.cf")))
            self.assertFalse(os.path.exists(debian.path("etc/aliases")))

    def test_a_configuration_is_never_written_over(self):
        with DebianRoot() as debian:
            debian.install("penstock", answers=SITE)
            with open(debian.path("etc/penstock/main.cf"), "a") as out:
                out.write("# by hand\nmynetworks = 192.0.2.0/24\nrelayhost = [relay.example]\n")
            edited = debian.read("etc/penstock/main.cf")
            # The answers of the first time are still known to debconf; a hand has written since.
            debian.install("penstock")
            self.assertEqual(debian.read("etc/penstock/main.cf"), edited, "an upgrade")
            debian.run("dpkg-reconfigure penstock")
            self.assertEqual(debian.read("etc/penstock/main.cf"), edited, "a reconfiguration without a change")

    def test_postfix_is_replaced_and_its_mail_delivered_once(self):
        with DebianRoot() as debian:
            debian.install_postfix({"postfix/main_mailer_type": "Internet Site", "postfix/mailname": "test.example",
                                    "postfix/destinations": "test.example, localhost"})
            # Mail that waits in Postfix's queue: it takes mail, and delivers none.
            debian.run("useradd -m anna && postconf -e defer_transports=local,smtp && "
                       "postfix start 2>/dev/null && for i in 1 2 3; do "
                       "  echo body $i | sendmail -f sender@elsewhere.example anna@test.example; done && "
                       "for i in $(seq 600); do [ $(find /var/spool/postfix/deferred -type f | wc -l) = 3 ] && break; "
                       "  sleep 0.1; done; postfix stop 2>/dev/null && echo late | sendmail anna@test.example && "
                       "[ $(find /var/spool/postfix/deferred -type f | wc -l) = 3 ]")
            # One mail system at a time: apt removes what conflicts, and keeps its configuration and its queue.
            with self.assertRaisesRegex(AssertionError, "penstock conflicts with mail-transport-agent"):
                debian.install("penstock")
            debian.run("dpkg --remove --force-depends postfix 2>&1")
            debian.install("penstock", answers={"penstock/main_mailer_type": "No configuration"})
            out = debian.run("penstock import --from /etc/postfix --to /etc/penstock", check=False)
            self.assertIn("defer_transports", debian.read("etc/penstock/main.cf"), out)
            take = "penstock import --queue /var/spool/postfix"
            out = debian.run(f"penconf -e defer_transports= && penstock start && {take} && {take} && "
                             "for i in $(seq 600); do [ $(grep -cs '^Return-Path' /var/mail/anna) = 4 ] && break; "
                             "  sleep 0.1; done; penqueue -p && penstock stop")
            self.assertIn("Mail queue is empty", out)
            box = debian.read("var/mail/anna")
            for text in ("body 1", "body 2", "body 3", "late"):
                self.assertEqual(box.count(f"\n{text}\n"), 1, text)

    def test_purge_keeps_mail_that_waits(self):
        with DebianRoot() as debian:
            debian.install("penstock", answers=SITE)
            debian.run(START + "penconf -e default_transport=retry:later && penstock reload && "
                       "echo x | sendmail -f anna someone@elsewhere.example && "
                       "for i in $(seq 600); do penqueue -p | grep -q elsewhere && break; sleep 0.1; done; "
                       "penqueue -p | grep -q elsewhere && penstock stop && "
                       "dpkg --remove penstock 2>&1 && dpkg --purge penstock 2>&1")
            self.assertTrue(os.path.isdir(debian.path("var/spool/penstock/log")))
            self.assertFalse(os.path.exists(debian.path("etc/penstock")))
            # Back again: the mail is still there.
            debian.install("penstock", answers=SITE)
            self.assertIn("someone@elsewhere.example", debian.run("penqueue -p"))

    def test_purge_of_an_empty_queue_leaves_nothing(self):
        with DebianRoot() as debian:
            debian.install("penstock", answers=SITE)
            debian.run("penstock start && penstock stop && dpkg --remove penstock 2>&1")
            self.assertTrue(os.path.isdir(debian.path("etc/penstock")), "removal keeps the configuration")
            debian.run("dpkg --purge penstock 2>&1")
            for gone in ("etc/penstock", "var/spool/penstock", "var/lib/penstock", "usr/libexec/penstock"):
                self.assertFalse(os.path.exists(debian.path(gone)), gone)
            self.assertTrue(os.path.exists(debian.path("etc/aliases")), "belongs to no package")


if __name__ == "__main__":
    unittest.main()
