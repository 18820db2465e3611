"""Postfix configurations as they are: main.cf and master.cf of real kinds of hosts, changed only in the instance's
directories; check, start and the log report what is not available."""
import os
import re
import shutil
import socket
import stat
import subprocess
import sys

from dovecot_auth import FakeDovecot
from harness import *
from instance import mail_owner

DEBIAN_MAIN = """
smtpd_banner = $myhostname ESMTP $mail_name (Debian/GNU)
biff = no
append_dot_mydomain = no
readme_directory = no
compatibility_level = 3.6
smtpd_tls_cert_file=/etc/ssl/certs/ssl-cert-snakeoil.pem
smtpd_tls_key_file=/etc/ssl/private/ssl-cert-snakeoil.key
smtpd_tls_security_level=may
smtp_tls_CApath=/etc/ssl/certs
smtp_tls_security_level=may
smtp_tls_session_cache_database = btree:${data_directory}/smtp_scache
smtpd_relay_restrictions = permit_mynetworks permit_sasl_authenticated defer_unauth_destination
myhostname = mx.test.example
alias_maps = hash:%(dir)s/aliases
alias_database = hash:%(dir)s/aliases
mydestination = $myhostname, localhost
mynetworks = 127.0.0.0/8 [::ffff:127.0.0.0]/104 [::1]/128
mailbox_size_limit = 0
recipient_delimiter = +
inet_protocols = all
"""
# As in Debian's package: chroot is y where Postfix 2 had "-".
DEBIAN_MASTER = """
%(port)d      inet  n       -       y       -       -       smtpd
pickup    unix  n       -       y       60      1       pickup
cleanup   unix  n       -       y       -       0       cleanup
qmgr      unix  n       -       n       300     1       qmgr
tlsmgr    unix  -       -       y       1000?   1       tlsmgr
rewrite   unix  -       -       y       -       -       trivial-rewrite
bounce    unix  -       -       y       -       0       bounce
defer     unix  -       -       y       -       0       bounce
trace     unix  -       -       y       -       0       bounce
verify    unix  -       -       y       -       1       verify
flush     unix  n       -       y       1000?   0       flush
proxymap  unix  -       -       n       -       -       proxymap
proxywrite unix -       -       n       -       1       proxymap
smtp      unix  -       -       y       -       -       smtp
relay     unix  -       -       y       -       -       smtp
        -o syslog_name=postfix/$service_name
showq     unix  n       -       y       -       -       showq
error     unix  -       -       y       -       -       error
retry     unix  -       -       y       -       -       error
discard   unix  -       -       y       -       -       discard
local     unix  -       n       n       -       -       local
virtual   unix  -       n       n       -       -       virtual
lmtp      unix  -       -       y       -       -       lmtp
anvil     unix  -       -       y       -       1       anvil
scache    unix  -       -       y       -       1       scache
postlog   unix-dgram n  -       n       -       1       postlogd
maildrop  unix  -       n       n       -       -       pipe
  flags=DRXhu user=nosuchvmail argv=/usr/bin/maildrop -d ${recipient}
mailman   unix  -       n       n       -       -       pipe
  flags=FRX user=list argv=/usr/lib/mailman/bin/postfix-to-mailman.py ${nexthop} ${user}
"""
RELAY = """
relayhost = [127.0.0.1]:%(relay)d
smtp_tls_security_level =
"""


class Configured(Suite):
    """Instances whose two files are written by the test as a whole."""

    def instance(self, main, master, start=False, **names):
        mx = Instance(start=False)
        self.addCleanup(mx.__exit__, None, None, None)
        own = {}
        with open(mx.path("etc", "main.cf")) as lines:  # its directories and its account
            for line in lines:
                name, _, value = line.partition(" = ")
                if name in ("queue_directory", "data_directory", "maillog_file", "maillog_file_prefixes", "mail_owner",
                            "setgid_group", "dns_resolver_addresses", "dns_resolver_port", "dns_resolver_timeout",
                            "queue_log_segment_size", "import_environment"):
                    own[name] = value
        names = {"dir": mx.dir, "port": mx.port, **names}
        mx.write("aliases", "")
        text = (main % names) + "inet_interfaces = loopback-only\n" + "".join(f"{n} = {v}" for n, v in own.items())
        for name, content in ("main.cf", text), ("master.cf", master % names):
            with open(mx.path("etc", name), "w") as out:
                out.write(content)
        if start:
            mx.start()
        return mx

    def check(self, mx):
        done = mx.tool("penstock", "check")
        return done.stdout

    def relays(self, mx, peer, sender="ada@sender.example", to="ben@rcpt.example"):
        before = len(peer.messages)
        send(mx.port, sender, [to], mail())
        return peer.wait_messages(before + 1)[-1]


class Stock(Configured):
    def test_debians_files_with_chroot_and_mapped_networks_take_and_send_mail(self):
        with Peer() as peer:
            mx = self.instance(DEBIAN_MAIN + RELAY, DEBIAN_MASTER, relay=peer.port)
            mx.write("aliases", "postmaster: root\nlist: ben@rcpt.example, eve@rcpt.example\n")
            said = self.check(mx)
            self.assertRegex(said, r"tables that are not made yet: .*aliases\.lmdb; make them all: penmap -c \S+ --all")
            self.assertRegex(said, r"chroot: y is taken as n in \d+ services")
            self.assertRegex(said, r"maildrop/unix would not start .*nosuchvmail: there is no such user")
            self.assertNotRegex(said, "will not start")
            made = mx.tool("penmap", "--all", check=True)
            self.assertIn("aliases.lmdb: made\n1 made, 0 failed\n", made.stdout)
            mx.start()
            self.assertRegex(mx.log(), r"warning: .*chroot: y is taken as n")
            self.relays(mx, peer)
            before = len(peer.messages)
            send(mx.port, "ada@sender.example", ["list@mx.test.example"], mail())
            got = peer.wait_messages(before + 1)
            mx.wait_empty_queue()
            self.assertEqual(
                sorted(r for m in got[before:] for r in m.recipients), ["ben@rcpt.example", "eve@rcpt.example"]
            )
            with Client(mx.port) as client:
                client.expect("MAIL FROM:<x@sender.example>", "250")
                client.expect("RCPT TO:<nobodyatall@mx.test.example>", "550")

    def test_services_of_type_fifo_run(self):
        old = DEBIAN_MASTER.replace("pickup    unix", "pickup    fifo").replace("qmgr      unix", "qmgr      fifo")
        with Peer() as peer:
            mx = self.instance(DEBIAN_MAIN + RELAY, old, relay=peer.port)
            mx.tool("penmap", "--all", check=True)
            self.assertRegex(self.check(mx), r"qmgr/unix: type fifo, .*taken as unix")
            mx.start()
            self.relays(mx, peer)
            subprocess.run([os.path.join(BIN, "sendmail"), "-C", mx.etc, "-f", "s@sender.example", "b@rcpt.example"],
                           input=b"Subject: local\n\nx\n", check=True)
            peer.wait_messages(2)

    def test_a_header_size_limit_beyond_any_use_is_cut(self):
        with Peer() as peer:
            mx = self.instance(DEBIAN_MAIN + RELAY + "header_size_limit = 4096000\nalias_maps =\n", DEBIAN_MASTER,
                               relay=peer.port)
            self.assertRegex(self.check(mx), r"warning: .*header_size_limit: taken as 1048576 bytes")
            mx.start()
            self.relays(mx, peer)


MAILCOW_MASTER = """
%(port)d       inet  n       -       n       -       1       postscreen
  -o postscreen_upstream_proxy_protocol=
  -o syslog_name=postfix/postscreen
smtpd      pass  -       -       n       -       -       smtpd
  -o smtpd_helo_required=yes
  -o smtpd_banner=behind.postscreen
%(submission)d inet n    -       n       -       -       smtpd
  -o syslog_name=postfix/submission
  -o smtpd_client_restrictions=permit_mynetworks,permit_sasl_authenticated,reject
  -o smtpd_sasl_auth_enable=yes
  -o cleanup_service_name=smtp_sender_cleanup
tlsproxy   unix  -       -       n       -       0       tlsproxy
dnsblog    unix  -       -       n       -       0       dnsblog
pickup     fifo  n       -       n       60      1       pickup
  -o content_filter=
cleanup    unix  n       -       n       -       0       cleanup
smtp_sender_cleanup unix n -     y       -       0       cleanup
  -o header_checks=pcre:%(dir)s/anonymize
  -o syslog_name=postfix/sender-cleanup
qmgr       fifo  n       -       n       300     1       qmgr
tlsmgr     fifo  -       -       n       1000?   1       tlsmgr
rewrite    unix  -       -       n       -       -       trivial-rewrite
bounce     unix  -       -       n       -       0       bounce
defer      unix  -       -       n       -       0       bounce
trace      unix  -       -       n       -       0       bounce
verify     unix  -       -       n       -       1       verify
flush      unix  n       -       n       1000?   0       flush
proxymap   unix  -       -       n       -       -       proxymap
smtp       unix  -       -       n       -       -       smtp
relay      unix  -       -       n       -       -       smtp
showq      unix  n       -       n       -       -       showq
error      unix  -       -       n       -       -       error
retry      unix  -       -       n       -       -       error
discard    unix  -       -       n       -       -       discard
local      unix  -       n       n       -       -       local
virtual    unix  -       n       n       -       -       virtual
lmtp       unix  -       -       n       -       -       lmtp
anvil      unix  -       -       n       -       1       anvil
scache     unix  -       -       n       -       1       scache
maildrop   unix  -       n       n       -       -       pipe flags=DRhu
    user=vmail argv=/usr/bin/maildrop -d ${recipient}
"""
MAILCOW_MAIN = """
biff = no
compatibility_level = 3.6
myhostname = mx.test.example
mydestination = localhost
mynetworks = 127.0.0.0/8 [::ffff:127.0.0.0]/104 [::1]/128
local_recipient_maps =
alias_maps =
smtpd_delay_reject = yes
smtpd_sasl_type = dovecot
smtpd_sasl_path = inet:%(sasl_host)s:%(sasl)d
smtpd_relay_restrictions = permit_mynetworks, permit_sasl_authenticated, defer_unauth_destination
postscreen_greet_wait = 3s
postscreen_access_list = permit_mynetworks
"""


class Mailcow(Configured):
    def test_postscreen_lines_serve_and_a_cleanup_service_changes_what_submission_takes_in(self):
        dovecot = FakeDovecot(lambda peer, line: True)
        self.addCleanup(dovecot.close)
        with Peer() as peer:
            submission = free_port()
            mx = self.instance(MAILCOW_MAIN + RELAY, MAILCOW_MASTER, relay=peer.port, submission=submission,
                               sasl=dovecot.port, sasl_host=socket.gethostname())
            mx.write("anonymize", "/^User-Agent:/ IGNORE\n")
            said = self.check(mx)
            self.assertRegex(
                said,
                r"smtpd itself tests clients as postscreen does.*with these settings: those of smtpd/pass; "
                r"without effect are its own -o: syslog_name",
            )
            self.assertRegex(said, r"syslog_name: -o without effect: the program cleanup is not run")
            self.assertNotRegex(said, "will not start")
            mx.start()
            self.assertRegex(mx.log(), "smtpd itself tests clients")
            with Client(mx.port) as client:
                self.assertIn("behind.postscreen", client.greeting)
                client.command("RSET")
                self.assertTrue(client.command("MAIL FROM:<x@sender.example>").startswith("250"))
            with socket.create_connection(("127.0.0.1", mx.port)) as raw, raw.makefile("rwb") as lines:
                lines.readline()
                lines.write(b"MAIL FROM:<x@sender.example>\r\n")
                lines.flush()
                self.assertRegex(lines.readline(), b"^503 ")  # smtpd_helo_required of the pass service
            content = mail(extra="User-Agent: secret/1.0\r\n")
            send(mx.port, "ada@sender.example", ["ben@rcpt.example"], content)
            send(submission, "ada@sender.example", ["ben@rcpt.example"], content)
            first, second = peer.wait_messages(2)
            agents = sorted(b"User-Agent: secret" in m.content for m in (first, second))
            self.assertEqual(agents, [False, True])
            eventually(
                lambda: any(line.startswith("CPID") for line in dovecot.lines), "smtpd asks the host by its name"
            )


class Cyrus(Configured):
    def test_smtpd_serves_without_auth_where_nothing_checks_log_ins(self):
        with Peer() as peer:
            mx = self.instance(
                DEBIAN_MAIN + RELAY + "alias_maps =\nsmtpd_sasl_auth_enable = yes\nsmtpd_sasl_local_domain =\n",
                DEBIAN_MASTER,
                relay=peer.port,
            )
            says = r"nobody can log in, because smtpd_sasl_type is cyrus and master.cf has no service"
            self.assertRegex(self.check(mx), f"warning: .*{says}")
            mx.start()
            mx.wait_log(f"smtpd.*warning: .*{says}")
            self.relays(mx, peer)
            with Client(mx.port) as client:
                self.assertNotIn("AUTH", client.command("EHLO client.example"))


class Programs(Configured):
    def test_another_mail_systems_daemon_directory_is_passed_over(self):
        with Peer() as peer:
            mx = self.instance(
                DEBIAN_MAIN + RELAY + "alias_maps =\ndaemon_directory = %(dir)s/libexec\n",
                DEBIAN_MASTER,
                relay=peer.port,
            )
            foreign = mx.write("libexec/master", f"#!/bin/sh\ntouch {mx.dir}/ran\n")
            os.chmod(foreign, 0o755)
            self.assertRegex(
                self.check(mx), r"warning: \S+:\d+: daemon_directory: \S+ holds no program of Penstock: passed over"
            )
            done = mx.tool("penstock", "start")
            self.assertEqual(done.returncode, 0, done)
            self.assertIn("holds no program of Penstock", done.stderr)
            self.assertRegex(mx.log(), "holds no program of Penstock")
            self.relays(mx, peer)
            self.assertFalse(os.path.exists(mx.dir + "/ran"))

    def test_the_shipped_rules_are_those_beside_the_programs(self):
        for main in "", "daemon_directory = /usr/lib/postfix/sbin\n":
            with self.subTest(main=main), Peer() as peer:
                mx = self.instance(DEBIAN_MAIN + RELAY + "alias_maps =\n" + main, DEBIAN_MASTER, relay=peer.port)
                self.assertNotIn("shaping_rules_files", self.check(mx))
                mx.start()
                self.relays(mx, peer)
                self.assertNotIn("shaping_rules_files", mx.log())
                read = mx.tool("penconf", "-x", "-h", "shaping_rules_files").stdout
                self.assertEqual(read, f"{LIBEXEC}/shaping.rules\n")

    def test_pipe_with_a_flag_for_one_recipient_runs_the_command_for_each(self):
        if os.geteuid() != 0:
            self.skipTest("pipe becomes another user")
        mx = self.instance(
            DEBIAN_MAIN
            + "alias_maps =\nrelay_domains = rcpt.example\ntransport_maps = inline:{ rcpt.example = robot: }\n",
            DEBIAN_MASTER
            + "robot unix - n n - - pipe flags=DRhu user=nobody:nogroup argv=/bin/sh %(dir)s/deliver ${recipient}\n",
        )
        mx.write("deliver", f'cat > "{mx.dir}/out/$1"\n')
        os.mkdir(mx.dir + "/out")
        os.chmod(mx.dir + "/out", 0o777)
        os.chmod(mx.dir, 0o755)
        mx.start()
        send(mx.port, "ada@sender.example", ["a@rcpt.example", "b@rcpt.example"], mail())
        mx.wait_empty_queue()
        self.assertEqual(sorted(os.listdir(mx.dir + "/out")), ["a@rcpt.example", "b@rcpt.example"])
        for name in "ab":
            with open(f"{mx.dir}/out/{name}@rcpt.example") as got:
                self.assertIn(f"Delivered-To: {name}@rcpt.example\n", got.read())


@unittest.skipIf(os.geteuid() != 0, "only root has rights to keep")
class RootsTables(Configured):
    def test_tables_that_only_root_may_read_are_read_and_read_again(self):
        with Peer() as peer, Peer() as other:
            mx = self.instance(
                DEBIAN_MAIN + "alias_maps =\nrelay_domains = one.example two.example three.example four.example\n"
                "transport_maps = lmdb:%(dir)s/secret/hops, cdb:%(dir)s/secret/more, "
                "unionmap:{texthash:%(dir)s/secret/text}, regexp:%(dir)s/secret/rules\n"
                "smtp_tls_security_level =\n",
                DEBIAN_MASTER,
            )

            def hop(to):
                return f"smtp:[127.0.0.1]:{to.port}"
            mx.write("secret/hops", f"one.example {hop(peer)}\n")
            mx.write("secret/more", f"two.example {hop(peer)}\n")
            mx.write("secret/text", f"three.example {hop(peer)}\n")
            mx.write("secret/rules", f"/@four\\.example$/ {hop(peer)}\n")
            for name in os.listdir(mx.dir + "/secret"):
                os.chmod(f"{mx.dir}/secret/{name}", 0o600)
            mx.tool("penmap", "--all", check=True)
            for name in ("hops.lmdb", "more.cdb"):
                self.assertEqual(stat.S_IMODE(os.stat(f"{mx.dir}/secret/{name}").st_mode), 0o600)
            os.chmod(mx.dir + "/secret", 0o700)
            self.assertNotIn("Permission denied", self.check(mx))
            mx.start()
            for name in ("one", "two", "three", "four"):
                self.relays(mx, peer, to=f"x@{name}.example")
            # A change takes effect without a reload, and only root can still read the files.
            for name, line in (("hops", "one.example"), ("more", "two.example"), ("text", "three.example")):
                mx.write("secret/" + name, f"{line} {hop(other)}\n")
                if name != "text":
                    mx.tool("penmap", f"{'cdb' if name == 'more' else 'lmdb'}:{mx.dir}/secret/{name}", check=True)

            def arrives(name):
                before = len(other.messages)
                send(mx.port, "ada@sender.example", [f"y@{name}.example"], mail())
                mx.wait_empty_queue()
                return len(other.messages) > before
            for name in ("one", "two", "three"):
                eventually(lambda: arrives(name), f"the new way of {name}.example")
            mx.reload()
            eventually(lambda: arrives("one"), "the same after a reload")
            for program, pids in mx.pids().items():
                for pid in pids:
                    with open(f"/proc/{pid}/status") as status:
                        uid = re.search(r"^Uid:\t(\d+)", status.read(), re.M)[1]
                    if program in ("qmgr", "pickup"):
                        self.assertNotEqual(uid, "0")  # none of their tables belongs to root

    def test_a_link_that_somebody_else_may_have_put_in_the_place_of_a_table_leads_nowhere(self):
        with Peer() as peer:
            mx = self.instance(DEBIAN_MAIN + "alias_maps =\nrelay_domains = one.example\n"
                               "transport_maps = texthash:%(dir)s/secret/text\n", DEBIAN_MASTER)
            line = f"one.example smtp:[127.0.0.1]:{peer.port}\n"
            for name in ("secret/text", "other"):
                os.chmod(mx.write(name, line), 0o600)
            os.chmod(mx.dir + "/secret", 0o700)
            mx.start()
            self.relays(mx, peer, to="x@one.example")
            os.remove(mx.dir + "/secret/text")
            os.symlink(mx.dir + "/other", mx.dir + "/secret/text")
            shutil.chown(mx.dir + "/secret", mail_owner())

            def waits():
                try:
                    send(mx.port, "ada@sender.example", ["x@one.example"], mail())
                except Refused as refused:
                    self.assertIn("451 4.3.0", str(refused))
                return re.search(r"secret/text.*Permission denied", mx.log())
            eventually(waits, "the table cannot be read")

    def test_the_password_table_of_smtp_may_be_roots(self):
        with Peer(("AUTH PLAIN",)) as peer:
            peer.replies["AUTH"] = lambda session, line: "235 2.7.0 ok"
            mx = self.instance(DEBIAN_MAIN + RELAY + "alias_maps =\nsmtp_sasl_auth_enable = yes\n"
                               "smtp_sasl_security_options = noanonymous\n"
                               "smtp_sasl_password_maps = hash:%(dir)s/sasl_passwd\n", DEBIAN_MASTER, relay=peer.port)
            os.chmod(mx.write("sasl_passwd", f"[127.0.0.1]:{peer.port} user:password\n"), 0o600)
            mx.tool("penmap", "--all", check=True)
            mx.start()
            self.relays(mx, peer)
            self.assertTrue(
                any(c.startswith("AUTH PLAIN") for c in peer.sessions[0].commands), peer.sessions[0].commands
            )


class Told(Configured):
    """Every failure is reported."""

    def test_a_start_that_fails_says_why_on_the_terminal_and_in_the_log(self):
        for line, why in (
            (
                "smtpd_sasl_auth_enable = yes\nsmtpd_sasl_type = dovecot\nsmtpd_sasl_security_options = nosuchthing",
                "nosuchthing",
            ),
            ("mynetworks = 127.0.0.1/8", r"127\.0\.0\.1/8"),
            (
                "smtpd_sasl_auth_enable = yes\nsmtpd_sasl_type = dovecot\nsmtpd_sasl_path = inet:nowhere",
                "smtpd_sasl_path.*no port",
            ),
        ):
            with self.subTest(line):
                mx = self.instance(DEBIAN_MAIN + "alias_maps =\n" + line + "\n", DEBIAN_MASTER)
                self.assertRegex(self.check(mx), f"error: .*{why}")
                done = mx.tool("penstock", "start")
                if done.returncode != 0:
                    self.assertRegex(done.stderr, why)
                self.assertRegex(done.stderr + mx.log(), why)
                self.assertRegex(mx.log(), why)

    def test_every_service_that_is_read_and_not_run_is_told(self):
        lines = """
        %d      inet  n - y - 1 postscreen
        own     unix  - n n - - nosuchprogram
        old     fifo  n - n - - smtp
        scan    pass  - - n - - smtpd
        8025    inet  n - n - 1 postscreen -o smtpd_service_name=nobody
        """ % free_port()
        mx = self.instance(DEBIAN_MAIN + "alias_maps =\n", DEBIAN_MASTER + re.sub(r"(?m)^ +", "", lines))
        said = self.check(mx)
        done, again = (mx.tool("penstock", word) for word in ("start", "reload"))
        for label, why in (("own/unix", "no program"),
                           ("old/fifo", "fifo"), ("scan/pass", "hands connections over")):
            with self.subTest(label):
                self.assertRegex(said, rf"{label}\b.*{why}")
                self.assertRegex(mx.log(), rf"{label}\b.*{why}")
                if label != "scan/pass":
                    self.assertRegex(done.stderr, rf"{label}\b.*{why}")
                    self.assertRegex(again.stderr, rf"{label}\b.*{why}")
        self.assertRegex(said, "8025/inet: smtpd itself tests clients.*no service nobody/pass, so those of main.cf")

    def test_a_host_name_that_cannot_be_expanded_is_told_and_check_goes_on(self):
        mx = self.instance(
            DEBIAN_MAIN.replace("myhostname = mx.test.example", "myhostname = ${myhostname"), DEBIAN_MASTER
        )
        done = mx.tool("penstock", "check")
        self.assertEqual(done.returncode, 78, done)
        self.assertRegex(done.stdout, "error: .*myhostname")
        done = mx.tool("penstock", "start")
        self.assertEqual(done.returncode, 78, done)
        self.assertIn("myhostname", done.stderr)

    def test_a_limit_of_a_mailbox_service_is_an_error_only_where_mail_comes_for_it(self):
        for transport, says in (
            ("lmtp:unix:private/dovecot-lmtp", r"note: \S+:\d+: service virtual would not start if mail came for it"),
            ("virtual", r"error: \S+:\d+: service virtual will not start"),
        ):
            mx = self.instance(
                DEBIAN_MAIN + "message_size_limit = 104857600\nvirtual_mailbox_domains = box.example\n"
                f"virtual_transport = {transport}\n",
                DEBIAN_MASTER,
            )
            self.assertRegex(self.check(mx), says + ".*virtual_mailbox_limit")

    def test_check_knows_settings_that_lose_something_and_values_that_are_no_lists(self):
        mx = self.instance(DEBIAN_MAIN + "alias_maps =\nsmtpd_relay_before_recipient_restrictions = no\n"
                           "robot_time_limit = 60s\nsmtp_time_limit = 5s\n"
                           "robot_destination_recipient_limit = 20\n",
                           DEBIAN_MASTER + "robot unix - n n - - pipe flags=O user=nobody argv=/bin/true\n")
        said = self.check(mx)
        self.assertNotIn("no restriction is called no", said)
        self.assertNotIn("robot_time_limit", said)
        for says in (
            r"smtp_time_limit: accepted, without effect: only commands of pipe",
            r"robot_destination_recipient_limit: taken as 1: robot/unix has flag D or O",
        ):
            self.assertRegex(said, says)


if __name__ == "__main__":
    unittest.main()
