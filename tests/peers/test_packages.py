"""The Debian packages: built, looked at by lintian, installed, reconfigured, upgraded, removed and purged in a Debian
root of their own."""
import os
import shutil
import stat
import subprocess
import unittest

from debian_root import BASE, PACKAGES, TOP, DebianRoot, built, make_base

SITE = {"penstock/main_mailer_type": "Internet Site", "penstock/mailname": "test.example",
        "penstock/destinations": "test.example, localhost", "penstock/root_address": "anna"}
START = "useradd -m anna && penstock start && "
# A message for anna has arrived, or 60 seconds are over: /var/mail says when.
ARRIVES = "for i in $(seq 600); do grep -qs 'Subject: {0}' /var/mail/anna && exit 0; sleep 0.1; done; exit 1"

# The package is installed anew under an open session and under connections one after the other.
UPGRADE = """
import os, socket, subprocess, sys, threading, time

def connect(port):
    connection = socket.create_connection(("127.0.0.1", port), 60)
    return connection, connection.makefile("rb")

def say(session, line, code):
    session[0].sendall(line.encode() + b"\\r\\n")
    answers = [session[1].readline()]
    while answers[-1][3:4] == b"-":
        answers.append(session[1].readline())
    assert answers[-1].startswith(code.encode()), (line, answers)
    return b"".join(answers)

def masters():
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            name = os.path.basename(os.readlink(f"/proc/{pid}/exe").replace(" (deleted)", ""))
        except OSError:
            continue
        if os.path.dirname(os.readlink(f"/proc/{pid}/exe")).startswith("/usr/libexec/penstock"):
            found[int(pid)] = name
    return found

before = masters()
assert sorted(before.values()).count("master") == 2, before
session = connect(25)
assert session[1].readline().startswith(b"220")
assert b"STARTTLS" in say(session, "EHLO client.example", "250")  # with the certificate of the package ssl-cert
say(session, "MAIL FROM:<x@sender.example>", "250")
done, trouble, count = threading.Event(), [], [0]

def knock(port):
    while not done.is_set():
        try:
            other = connect(port)
            assert other[1].readline().startswith(b"220")
            say(other, "QUIT", "221")
            count[0] += 1
        except Exception as error:
            trouble.append((port, error))
        time.sleep(0.01)

threads = [threading.Thread(target=knock, args=(port,)) for port in (25, 2525)]
for thread in threads:
    thread.start()
installed = subprocess.run(["dpkg", "-i", "/tmp/next.deb"], capture_output=True, text=True)
print(installed.stdout, installed.stderr)
done.set()
for thread in threads:
    thread.join()
assert installed.returncode == 0 and not trouble and count[0] > 10, (trouble[:3], count)
after = masters()
pids = [{p for p, n in found.items() if n == "master"} for found in (before, after)]
assert pids[0] == pids[1], (before, after)
for name in ("qmgr", "smtpd"):  # of both instances
    assert len([p for p, n in after.items() if n == name and p not in before]) >= 2, (name, before, after)
assert not [p for p, n in after.items() if n == "qmgr" and p in before], (before, after)
say(session, "RCPT TO:<anna@test.example>", "250")
say(session, "DATA", "354")
say(session, "Subject: before and after\\r\\n\\r\\nx\\r\\n.", "250")
say(session, "QUIT", "221")
for _ in range(600):
    if os.path.exists("/var/mail/anna") and "before and after" in open("/var/mail/anna").read():
        break
    time.sleep(0.1)
print("the upgrade is done")
subprocess.run(["dpkg", "--remove", "penstock-postfix-commands", "penstock"], check=True)
assert not masters(), masters()
print("nothing runs")
"""


# A user of Dovecot logs in and sends mail to herself; Dovecot's LMTP puts it into her Maildir.
LOGIN = """
import glob, smtplib, time

def session():
    client = smtplib.SMTP("127.0.0.1", 25, timeout=60)
    client.ehlo("client.example")
    return client

with session() as client:
    try:
        client.login("anna", "wrong")
        raise AssertionError("a wrong password was taken")
    except smtplib.SMTPAuthenticationError as refused:
        assert refused.smtp_code == 535, refused
with session() as client:
    client.login("anna", "secret")
    client.sendmail("anna@test.example", ["anna@test.example"], "Subject: by LMTP\\r\\n\\r\\nx\\r\\n")
for _ in range(600):
    found = glob.glob("/home/anna/Maildir/new/*")
    if found:
        break
    time.sleep(0.1)
text = open(found[0]).read()
assert "Subject: by LMTP" in text and "(Authenticated sender: anna)" in text, text
print("logged in and delivered")
"""


def dovecot_of_the_page():
    """What docs/from-postfix.md tells an administrator to write for Dovecot."""
    with open(os.path.join(TOP, "docs", "from-postfix.md")) as page:
        lines = page.read().split("\n")
    first = lines.index("    service auth {")
    last = next(i for i in range(first, len(lines)) if lines[i] and not lines[i].startswith("    "))
    return "\n".join(line[4:] for line in lines[first:last])


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

    def test_a_fresh_host_sends_and_receives(self):
        with DebianRoot() as debian:
            debian.install("penstock", "penstock-postfix-commands", answers=SITE)
            self.assertEqual(debian.read("etc/mailname"), "test.example\n")
            aliases = debian.read("etc/aliases")
            self.assertIn("postmaster: root\n", aliases)
            self.assertIn("root: anna\n", aliases)
            self.assertEqual(debian.run("penconf -h myorigin mydestination inet_interfaces myhostname").split("\n")[:4],
                             ["/etc/mailname", "test.example, localhost", "all", "mx.test.example"])
            self.assertIn("\ncompatibility_level = 3.6\n", debian.read("etc/penstock/main.cf"))
            for name in ("pendrop", "penqueue", "mailq", "penshape"):
                self.assertEqual(stat.S_IMODE(os.stat(debian.path("usr/bin/" + name)).st_mode), 0o2755, name)
            self.assertNotIn("error:", debian.run("penstock check", check=False))
            # By a user's mail program, to root, whose alias is anna; and the commands of Postfix.
            out = debian.run(START + "su -s /bin/sh anna -c 'echo hello | mail -s first root' && (" +
                             ARRIVES.format("first") + ") && postqueue -p && postconf -h mydestination && mailq && "
                             "postlock /tmp/box echo it is locked && postkick public qmgr A && postconf -T run-version")
            self.assertIn("Mail queue is empty", out)
            self.assertRegex(out, r"it is locked\nOpenSSL 3\.")
            self.assertIn("test.example, localhost", out)
            box = debian.read("var/mail/anna")
            self.assertIn("\nX-Original-To: root\n", box, "as it was given; its alias is anna")
            self.assertIn("\nMessage-Id: <", box)

    def test_programs_of_debian_send_mail_and_make_tables(self):
        with DebianRoot() as debian:
            debian.install("penstock", "penstock-postfix-commands", answers=SITE)
            results, printed = debian.autopkgtest()
            self.assertEqual(results, {"submit": "PASS", "tables": "PASS"}, printed)

    def test_piuparts_finds_nothing(self):
        make_base()
        done = subprocess.run(["piuparts", "--existing-chroot=" + BASE, "-d", "bookworm", "--keep-sources-list",
                               "--no-eatmydata", "--skip-minimize", built("penstock"),
                               built("penstock-postfix-commands"), built("penstock-sqlite")], capture_output=True,
                              text=True, errors="replace", timeout=900)
        self.assertEqual(done.returncode, 0, done.stdout[-5000:] + done.stderr)
        self.assertIn("PASS: Installation and purging test", done.stdout)

    def test_what_runs_becomes_the_new_version_and_is_stopped_by_removal(self):
        with DebianRoot() as debian:
            debian.install("penstock", "penstock-postfix-commands", answers=SITE)
            shutil.copy(built("penstock"), debian.path("tmp/next.deb"))
            with open(debian.path("tmp/upgrade.py"), "w") as out:
                out.write(UPGRADE)
            out = debian.run("useradd -m anna && postmulti -e create -I out && "
                             "postconf -c /etc/penstock-out -e master_service_disable= && "
                             "postconf -c /etc/penstock-out -MX smtp/inet && "
                             "postconf -c /etc/penstock-out -M "
                             "'127.0.0.1:2525/inet=127.0.0.1:2525 inet n - n - - smtpd' && "
                             "postmulti -e enable -i out && penstock -a start && python3 /tmp/upgrade.py")
            self.assertIn("the upgrade is done", out)
            self.assertIn("nothing runs", out)
            self.assertEqual(debian.read("var/mail/anna").count("Subject: before and after"), 1)

    def test_a_step_back_is_refused_before_anything_is_replaced(self):
        with DebianRoot() as debian:
            debian.install("penstock", answers=SITE)
            debian.run("penstock start && penstock stop")
            segment = os.path.join("var/spool/penstock/log", sorted(
                n for n in os.listdir(debian.path("var/spool/penstock/log")) if n.startswith("segment-"))[0])
            with open(debian.path(segment), "r+b") as file:
                self.assertEqual(file.read(8), b"PNTKSEG1")
                file.write((1000).to_bytes(4, "little"))
            with self.assertRaisesRegex(AssertionError, f"/{segment} has format 1000, and this version reads up to"):
                debian.install("penstock")
            self.assertIn("install ok installed", debian.run("dpkg-query -W -f '${Status}' penstock"))

    def test_answers_that_change_are_written_and_others_are_not(self):
        with DebianRoot() as debian:
            debian.install("penstock", answers={**SITE, "penstock/main_mailer_type": "Local only",
                                                "penstock/mailbox_limit": "50000000"})
            self.assertEqual(debian.run("penconf -h default_transport mailbox_size_limit smtpd_tls_security_level "
                                        "smtp_tls_security_level").split(), ["error", "50000000", "may", "may"])
            # By hand: gone from main.cf, and from the aliases. What debconf remembers does not come back.
            debian.run("penconf -X mydestination mailbox_size_limit && sed -i /^root/d /etc/aliases")
            debian.reconfigure({"penstock/main_mailer_type": "Internet Site", "penstock/relayhost": "",
                                "penstock/root_address": "ben"})
            self.assertEqual(debian.run("penconf -h default_transport relay_transport inet_interfaces").split(),
                             ["smtp", "relay", "all"])
            self.assertEqual(debian.run("penconf -n mydestination mailbox_size_limit"), "")
            self.assertIn("root: ben\n", debian.read("etc/aliases"))
            debian.reconfigure({"penstock/main_mailer_type": "Internet with smarthost",
                                "penstock/relayhost": "[relay.example]", "penstock/root_address": "carl",
                                "penstock/protocols": "ipv4", "penstock/mailbox_limit": "much"})
            self.assertEqual(debian.run("penconf -h relayhost inet_protocols").split(), ["[relay.example]", "ipv4"])
            self.assertEqual(debian.read("etc/aliases").count("root: carl\n"), 1)
            self.assertNotIn("ben", debian.read("etc/aliases"))

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
            debian.run("penconf -e myorigin=by.hand.example inet_interfaces=127.0.0.1,192.0.2.1")
            debian.reconfigure({"penstock/main_mailer_type": "Internet Site", "penstock/relayhost": ""})
            self.assertEqual(debian.run("penconf -h myorigin inet_interfaces relayhost"),
                             "by.hand.example\n127.0.0.1,192.0.2.1\n\n", "what no answer is about")

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
            # And back, as docs/from-postfix.md has it.
            debian.run("penconf -e defer_transports=local && penstock start && for i in 1 2; do "
                       "  echo back $i | sendmail -f sender@elsewhere.example anna@test.example; done && "
                       "for i in $(seq 600); do [ $(penqueue -j deferred | wc -l) = 2 ] && break; sleep 0.1; done && "
                       "penstock stop && penstock export --queue /root/queue --remove && "
                       "dpkg --remove penstock 2>&1")
            debian.install_postfix({})
            # What was taken over above without --remove must not be sent again.
            debian.run("postconf -e defer_transports= && "
                       "find /var/spool/postfix/deferred /var/spool/postfix/maildrop -type f -delete && "
                       "postfix start 2>/dev/null && for f in /root/queue/*.bsmtp; do sendmail -bs <$f; done && "
                       "for i in $(seq 600); do [ $(grep -c '^Return-Path' /var/mail/anna) = 6 ] && break; "
                       "  sleep 0.1; done; postfix stop 2>/dev/null; true")
            box = debian.read("var/mail/anna")
            for text in ("body 1", "body 2", "body 3", "late", "back 1", "back 2"):
                self.assertEqual(box.count(f"\n{text}\n"), 1, text)

    def test_dovecot_of_debian_logs_users_in_and_takes_mail_as_the_page_says(self):
        with DebianRoot() as debian:
            debian.install("penstock", answers=SITE)
            debian.run("useradd -m anna && echo anna:secret | chpasswd")
            with open(debian.path("etc/dovecot/local.conf"), "w") as out:
                out.write("mail_location = maildir:~/Maildir\nauth_username_format = %Ln\nssl = no\n" +
                          dovecot_of_the_page())
            with open(debian.path("tmp/login.py"), "w") as out:
                out.write(LOGIN)
            debian.run("penconf -e smtpd_sasl_auth_enable=yes smtpd_sasl_type=dovecot smtpd_sasl_path=private/auth "
                       "mailbox_transport=lmtp:unix:private/dovecot-lmtp smtpd_sasl_authenticated_header=yes "
                       "smtpd_tls_auth_only=no")
            # Before Dovecot runs, the check says what is missing.
            self.assertRegex(debian.run("penstock check", check=False), "private/auth is not there: start Dovecot")
            # Penstock makes the directory, and finds Dovecot when that has started.
            out = debian.run("penstock start && dovecot && for i in $(seq 600); do "
                             "  [ -S /var/spool/penstock/private/dovecot-lmtp ] && break; sleep 0.1; done; "
                             "penstock check; python3 /tmp/login.py; tail -n 40 /var/log/mail.log; "
                             "penstock stop; dovecot stop", check=False)
            self.assertIn("logged in and delivered", out)
            self.assertNotIn("warning:", out.split("logged in")[0])

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

    def test_purge_keeps_mail_that_was_set_aside(self):
        with DebianRoot() as debian:
            debian.install("penstock", answers=SITE)
            debian.run("penstock start && penstock stop && echo x >/var/spool/penstock/corrupt/x && "
                       "dpkg --remove penstock 2>&1 && dpkg --purge penstock 2>&1")
            self.assertEqual(debian.read("var/spool/penstock/corrupt/x"), "x\n")

    def test_purge_of_an_empty_queue_leaves_nothing(self):
        with DebianRoot() as debian:
            debian.install("penstock", answers=SITE)
            debian.run("penstock start && penstock stop && dpkg --remove penstock 2>&1")
            self.assertTrue(os.path.isdir(debian.path("etc/penstock")), "removal keeps the configuration")
            debian.run("dpkg --purge penstock 2>&1")
            for gone in ("etc/penstock", "var/spool/penstock", "var/lib/penstock", "usr/libexec/penstock"):
                self.assertFalse(os.path.exists(debian.path(gone)), gone)
            self.assertTrue(os.path.exists(debian.path("etc/aliases")), "belongs to no package")
            self.assertFalse(os.path.exists(debian.path("etc/aliases.lmdb")), "was made of it")

    def test_purge_of_what_never_ran_leaves_nothing(self):
        with DebianRoot() as debian:
            debian.install("penstock", answers=SITE)
            debian.run("dpkg --purge penstock 2>&1")
            for gone in ("etc/penstock", "var/spool/penstock", "var/lib/penstock", "etc/aliases.lmdb"):
                self.assertFalse(os.path.exists(debian.path(gone)), gone)


if __name__ == "__main__":
    unittest.main()
