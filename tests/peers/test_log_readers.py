"""What reads Postfix's log reads ours, with the files of share/: fail2ban bans who guesses, logwatch counts.

The packages are unpacked, not installed: PEN_PEERS (default var/peers) holds them. What the machine cannot have, for it
cannot reach an archive, skips the test with the reason."""
import base64
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "integration"))

from dovecot_auth import FakeDovecot  # noqa: E402
from harness import *  # noqa: E402

ROOT = os.path.join(os.environ.get("PEN_PEERS", os.path.join(TOP, "var", "peers")), "log-readers")
PACKAGES = ("fail2ban", "logwatch")
SHARE = os.path.join(TOP, "share")


def setUpModule():
    done = subprocess.run([os.path.join(TOP, "scripts", "unpack-peer"), ROOT, *PACKAGES], capture_output=True,
                          text=True)
    if done.returncode != 0:
        raise unittest.SkipTest("Debian's fail2ban and logwatch cannot be had: " + (done.stderr or done.stdout)[-300:])


class LogReaders(Suite):
    @classmethod
    def setUpClass(cls):
        """A log of two failed log-ins, one of them at a submission service, a refused recipient, and a message."""
        super().setUpClass()
        def refuses(peer, line):
            if line.startswith("AUTH"):
                peer.sendall(f"FAIL\t{line.split()[1]}\tuser=anna\n".encode())

        submission, auth = free_port(), FakeDovecot(refuses)
        cls.addClassCleanup(auth.close)
        with Instance(
                {"smtpd_sasl_auth_enable": "yes", "smtpd_sasl_type": "dovecot",
                 "smtpd_sasl_path": f"inet:127.0.0.1:{auth.port}",
                 "smtpd_error_sleep_time": "0", "mynetworks": "192.0.2.1/32", "local_transport": "discard:"},
                {f"127.0.0.1:{submission}": "inet n - n - - smtpd -o syslog_name=penstock/submission"}) as mx:
            for port in (mx.port, submission):
                with Client(port) as client:
                    client.expect("EHLO client.example", "250")
                    client.expect("AUTH PLAIN " + base64.b64encode(b"\0anna\0guess").decode(), "535")
            with Client(mx.port) as client:
                client.expect("MAIL FROM:<ada@sender.example>", "250")
                client.expect("RCPT TO:<ben@elsewhere.example>", "454 4.7.1")
            send(mx.port, "ada@sender.example", ["ben@local.test.example"], mail("sent"))
            mx.wait_log("status=sent")
            cls.log = mx.log()

    def fail2ban(self, folder, program, *arguments):
        """Runs a program of fail2ban with Debian's configuration and the files of share/ in it."""
        config = os.path.join(folder, "fail2ban")
        if not os.path.exists(config):
            shutil.copytree(os.path.join(ROOT, "etc", "fail2ban"), config)
            shutil.copytree(os.path.join(SHARE, "fail2ban"), config, dirs_exist_ok=True)
        return subprocess.run([sys.executable, os.path.join(ROOT, "usr", "bin", program), "-c", config, *arguments],
                              capture_output=True, text=True, timeout=120,
                              env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "usr/lib/python3/dist-packages")})

    def regex(self, name, log=None):
        """How many lines a filter matches."""
        folder = self.folder()
        path = os.path.join(folder, "mail.log")
        with open(path, "w") as file:
            file.write(log or self.log)
        done = self.fail2ban(folder, "fail2ban-regex", path, name)
        found = re.search(r"^Lines: \d+ lines, \d+ ignored, (\d+) matched", done.stdout, re.M)
        self.assertTrue(found, done.stdout + done.stderr)
        return int(found[1])

    def test_fail2ban_sees_log_ins_and_rejects(self):
        self.assertEqual(self.regex("penstock[mode=auth]"), 2, self.log)
        self.assertEqual(self.regex("penstock[mode=more]"), 1, self.log)
        self.assertEqual(self.regex("penstock[mode=extra]"), 3, self.log)
        # Debian's own filter looks for Postfix's name, and ours for Penstock's, also of another instance.
        self.assertEqual(self.regex("postfix[mode=extra]"), 0)
        self.assertEqual(self.regex("penstock[mode=extra]", self.log.replace(" penstock/", " penstock-out/")), 3)
        self.assertEqual(self.regex("penstock[mode=extra]", self.log.replace(" penstock/", " postfix/")), 0)

    def test_the_jail_is_read(self):
        folder = self.folder()
        self.fail2ban(folder, "fail2ban-client", "--version")  # makes the configuration
        with open(os.path.join(folder, "fail2ban", "jail.d", "zz.local"), "w") as file:
            file.write("[DEFAULT]\nbanaction = iptables-multiport\n[sshd]\nenabled = false\n"
                       "[penstock]\nenabled = true\n")
        done = self.fail2ban(folder, "fail2ban-client", "-d")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for word in ("['add', 'penstock', 'systemd']", "'addjournalmatch', '_SYSTEMD_UNIT=penstock.service'",
                     r"penstock(-\\w+)?/", "smtp,submissions,submission"):
            self.assertIn(word, done.stdout)

    @unittest.skipUnless(os.geteuid() == 0, "only root can run it with a configuration of its own")
    def test_logwatch_counts(self):
        def report(with_ours):
            place = self.folder()
            for name in ("etc", "spool", "lib", "log", "run"):
                os.mkdir(os.path.join(place, name))
            for name in ("passwd", "group", "localtime"):
                if os.path.exists("/etc/" + name):
                    shutil.copy("/etc/" + name, os.path.join(place, "etc", name))
            services = os.path.join(place, "etc", "logwatch", "conf", "services")
            os.makedirs(services)
            if with_ours:
                shutil.copy(os.path.join(SHARE, "logwatch", "postfix.conf"), services)
            with open(os.path.join(place, "log", "mail.log"), "w") as file:
                file.write(self.log)
            peers = os.path.join(TOP, "tests", "peers")
            try:
                done = subprocess.run([os.path.join(peers, "enter"), ROOT, place, "/usr/sbin/logwatch", "--service",
                                       "postfix", "--range", "all", "--detail", "10", "--output", "stdout"],
                                      capture_output=True, text=True, timeout=120)
            finally:
                subprocess.run([os.path.join(peers, "leave"), place], capture_output=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            return re.sub(" +", " ", done.stdout)

        said = report(True)
        self.assertRegex(said, r"\n 1 Accepted\b", said)
        self.assertRegex(said, r"\n 1 4xx Reject relay denied\b", said)
        self.assertRegex(said, r"\n 2 SASL authentication failed\b", said)
        self.assertNotIn("Unmatched", said)
        self.assertNotIn("Accepted", report(False))


if __name__ == "__main__":
    unittest.main()
