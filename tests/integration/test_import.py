"""penstock import: a configuration of Postfix or of Debian's Exim, taken over by one command, runs and delivers."""
import json
import os
import shutil
import socket

from dovecot_auth import FakeDovecot
from harness import *

# As Debian's package writes them for an "Internet Site", with what an administrator adds.
MAIN = """# See /usr/share/postfix/main.cf.dist for a commented, more complete version
smtpd_banner = $myhostname ESMTP $mail_name (Debian/GNU)
biff = no
append_dot_mydomain = no
readme_directory = no
compatibility_level = 3.6
# TLS parameters
smtp_tls_security_level = may
smtp_tls_session_cache_database = btree:${data_directory}/smtp_scache
smtpd_relay_restrictions = permit_mynetworks permit_sasl_authenticated defer_unauth_destination
myhostname = old.example
alias_maps = hash:/etc/postfix/aliases
alias_database = hash:/etc/postfix/aliases
myorigin = $myhostname
mydestination = $myhostname, localhost
relayhost =
mynetworks = 127.0.0.0/8 [::ffff:127.0.0.0]/104 [::1]/128
mailbox_size_limit = 0
recipient_delimiter = +
inet_interfaces = loopback-only
inet_protocols = ipv4
queue_directory = /var/spool/postfix
daemon_directory = /usr/lib/postfix/sbin
data_directory = /var/lib/postfix
mail_owner = postfix
setgid_group = postdrop
# virtual domains
virtual_alias_domains = hash:/etc/postfix/virtual_domains
virtual_alias_maps =
    hash:/etc/postfix/virtual,
    # by pattern
    regexp:/etc/postfix/virtual.regexp
transport_maps = hash:/etc/postfix/transport
header_checks = regexp:/etc/postfix/header_checks
local_recipient_maps =
"""
MASTER = """# service type  private unpriv  chroot  wakeup  maxproc command + args
127.0.0.1:%d      inet  n       -       y       -       -       smtpd
pickup    unix  n       -       y       60      1       pickup
cleanup   unix  n       -       y       -       0       cleanup
qmgr      fifo  n       -       n       300     1       oqmgr
tlsmgr    unix  -       -       y       1000?   1       tlsmgr
rewrite   unix  -       -       y       -       -       trivial-rewrite
bounce    unix  -       -       y       -       0       bounce
defer     unix  -       -       y       -       0       bounce
trace     unix  -       -       y       -       0       bounce
flush     unix  n       -       y       1000?   0       flush
proxymap  unix  -       -       n       -       -       proxymap
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
uucp      unix  -       n       n       -       -       pipe
  flags=Fqhu user=uucp argv=uux -r -n -z -a$sender - $nexthop!rmail ($recipient)
"""


class Import(Suite):
    def target(self):
        """A private instance whose configuration the import replaces; its directories and account stay."""
        mx = Instance({"maillog_file_prefixes": "/"}, start=False)
        self.addCleanup(mx.close)
        return mx

    def postfix(self, peer, port, main=""):
        folder = os.path.join(self.folder(), "postfix")
        os.makedirs(os.path.join(folder, "sub"))
        for name, text in {
            "main.cf": MAIN + main,
            "master.cf": MASTER % port,
            "aliases": "postmaster: root\nteam: ann@virtual.example\n",
            "virtual_domains": "virtual.example x\n",
            "virtual": "ann@virtual.example  bob@far.example\n# none\n",
            "virtual.regexp": "/^any-(.*)@virtual\\.example$/ $1@far.example\n",
            "transport": f"far.example smtp:[127.0.0.1]:{peer.port}\n",
            "header_checks": "/^X-Drop:/ IGNORE\n",
            "virtual.db": "Berkeley",
            "sub/note": "kept\n",
        }.items():
            with open(os.path.join(folder, name), "w") as out:
                out.write(text)
        return folder

    @staticmethod
    def tree(path):
        found = {}
        for folder, _, names in os.walk(path):
            for name in names:
                with open(os.path.join(folder, name)) as text:
                    found[os.path.join(folder, name)] = text.read()
        return found

    def take(self, mx, *options, status=0):
        done = mx.tool("penstock", "import", *options)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def test_rules_that_know_received_by_postfix_s_name_go_on_to_match(self):
        rule = "/^Received: .* by .* \\(Postfix\\) with .*/ REPLACE Received: by localhost\n"
        for main, told in (("", True), ("mail_name = Mail\n", False)):
            mx = self.target()
            with Peer() as peer:
                source = self.postfix(peer, free_port(), main)
            with open(os.path.join(source, "header_checks"), "w") as out:
                out.write(rule)
            said = json.loads(self.take(mx, "--from", source, "--force", "--json").stdout)
            self.assertEqual("mail_name" in {d.get("setting") for d in said["differs"]}, told, said["differs"])
            self.assertEqual(mx.tool("penconf", "-h", "mail_name").stdout.strip(), "Postfix" if told else "Mail")

    def test_a_directory_of_postfix_runs_after_one_command(self):
        with Peer() as peer:
            mx, port = self.target(), free_port()
            source = self.postfix(peer, port)
            before = self.tree(source)
            said = json.loads(self.take(mx, "--from", source, "--force", "--json").stdout)
            self.assertTrue(said["mail_will_flow"])
            self.assertEqual(said["could_not"], [])
            self.assertIn("virtual_alias_maps", said["acts"])
            left_out = {d["name"] for d in said["left_out"]}
            self.assertLessEqual({"queue_directory", "daemon_directory", "scache/unix", "tlsmgr/unix"}, left_out)
            self.assertEqual(self.tree(source), before)
            with open(os.path.join(mx.etc, "main.cf")) as text:
                main = text.read()
            self.assertIn("    # by pattern\n    regexp:" + mx.etc + "/virtual.regexp", main)
            self.assertIn("# TLS parameters\nsmtp_tls_security_level = may", main)
            self.assertTrue(os.path.exists(os.path.join(mx.etc, "main.cf.before-import")))
            self.assertFalse(os.path.exists(os.path.join(mx.etc, "virtual.db")))
            self.assertTrue(os.path.exists(os.path.join(mx.etc, "sub/note")))
            shutil.rmtree(source)  # nothing leads back
            mx.port = port
            mx.start()
            send(port, "x@one.example", ["ann@virtual.example", "any-zed@virtual.example", "team@old.example"],
                 b"Subject: a\r\nX-Drop: y\r\n\r\nbody\r\n")
            got = peer.wait_messages(2)
            self.assertEqual({r for m in got for r in m.recipients}, {"bob@far.example", "zed@far.example"})
            self.assertNotIn(b"X-Drop", got[0].content)
            self.assertRaises(Refused, send, port, "x@one.example", ["nobody@virtual.example"], b"x\r\n")

    def test_a_table_that_names_files_of_the_old_directory_is_told(self):
        with Peer() as peer:
            mx, source = self.target(), self.postfix(peer, free_port())
            with open(os.path.join(source, "aliases"), "a") as out:
                out.write(f"# not {source}/this\nall: :include:{source}/sub/note\n")
            said = json.loads(self.take(mx, "--from", source, "--force", "--json").stdout)
            self.assertIn((mx.etc + "/aliases", 4, "note"), [(d.get("file"), d.get("line"), d["level"])
                                                             for d in said["differs"] if "must stay" in d["text"]])

    def test_postsrsds_settings_become_ours_and_its_secrets_are_taken_over(self):
        with Peer() as peer:
            mx, port = self.target(), free_port()
            source = self.postfix(peer, port, "sender_canonical_maps = tcp:localhost:10001\n"
                                  "sender_canonical_classes = envelope_sender\n"
                                  "recipient_canonical_maps = tcp:localhost:10002\n")
            etc = os.path.dirname(source)
            os.makedirs(os.path.join(etc, "default"))
            secret = os.path.join(etc, "srs.secret")
            for name, text in ((secret, "very secret\n"), (os.path.join(etc, "default/postsrsd"),
                               f"SRS_DOMAIN=old.example\nSRS_SECRET={secret}\nSRS_EXCLUDE_DOMAINS=.kept.example\n")):
                with open(name, "w") as out:
                    out.write(text)
            os.chmod(secret, 0o600)
            said = json.loads(self.take(mx, "--from", source, "--force", "--json").stdout)
            self.assertLessEqual({"sender_canonical_maps tcp:localhost:10001",
                                  "recipient_canonical_maps tcp:localhost:10002"},
                                 {d["name"] for d in said["left_out"]})
            shutil.rmtree(etc)
            mx.port = port
            mx.start()
            for sender in ("x@far.example", "x@sub.kept.example"):
                send(port, sender, ["ann@virtual.example"], mail())
            got = peer.wait_messages(2)
            self.assertEqual(sum(m.sender == "x@sub.kept.example" for m in got), 1)
            (rewritten,) = [m.sender for m in got if m.sender.startswith("SRS0=")]
            self.assertTrue(rewritten.endswith("=far.example=x@old.example"), rewritten)
            send(port, "", [rewritten], mail())
            self.assertEqual(peer.wait_messages(3)[2].recipients, ["x@far.example"])

    def files(self, main, master=None):
        """A directory of Postfix with just these texts."""
        source = os.path.join(self.folder(), "postfix")
        os.makedirs(source)
        for name, text in (("main.cf", main), ("master.cf", master)):
            if text is not None:
                with open(os.path.join(source, name), "w") as out:
                    out.write(text)
        return source

    def dry(self, source):
        """What a dry run says of it, and its exit status."""
        mx = self.target()
        target = os.path.join(self.folder(), "new")
        done = mx.tool("penstock", "import", "--from", source, "--to", target, "-n", "--json")
        return json.loads(done.stdout), done.returncode

    def test_sockets_below_postfixs_queue_directory_are_found_and_missing_ones_are_told(self):
        queue = os.path.join(self.folder(), "queue")
        os.makedirs(os.path.join(queue, "private"))
        for path in (os.path.dirname(queue), queue, os.path.join(queue, "private")):
            os.chmod(path, 0o755)
        asked = FakeDovecot(lambda *_: None, os.path.join(queue, "private/auth"))
        port = free_port()
        source = self.files(f"compatibility_level = 3.6\nqueue_directory = {queue}\nmyhostname = old.example\n"
                            "mydestination = old.example\nlocal_recipient_maps =\nsmtpd_sasl_auth_enable = yes\n"
                            "smtpd_sasl_type = dovecot\nsmtpd_sasl_path = private/auth\n"
                            "smtpd_relay_restrictions = permit_mynetworks reject_unauth_destination\n"
                            "transport_maps = texthash:/etc/postfix/transport\n"
                            "mailbox_transport = lmtp:unix:private/box-lmtp\nalias_maps =\n", MASTER % port)
        with open(os.path.join(source, "transport"), "w") as out:
            out.write("# lmtp:unix:private/no\nbox.example lmtp:unix:private/box-lmtp\n")
        said, status = self.dry(source)
        told = [(d.get("setting"), d.get("line"), d["level"]) for d in said["differs"] if queue in d["text"]]
        self.assertEqual(told, [("smtpd_sasl_path", 8, "note"), ("mailbox_transport", 11, "note"),
                                (None, 2, "warning"), ("mailbox_transport", 11, "warning")])
        self.assertIn("box-lmtp is not there: start the LMTP server that makes it", said["verdict"])
        self.assertEqual((status, said["mail_will_flow"]), (1, False))  # the table must be changed by hand
        os.remove(os.path.join(source, "transport"))
        with open(os.path.join(source, "transport"), "w"):
            pass
        mx = self.target()
        self.take(mx, "--from", source, "--force", status=1)  # nobody takes mail for mailboxes
        checked = mx.tool("penstock", "check").stdout
        self.assertRegex(checked, f"warning: .*main.cf:11: mailbox_transport: {queue}/private/box-lmtp is not there")
        self.assertNotIn("private/auth", checked)
        mx.port = port
        mx.start()
        with Client(port) as client:
            self.assertIn("AUTH PLAIN", client.expect("EHLO client.example", "250"))
        self.assertTrue(any(line.startswith("VERSION") for line in asked.lines), asked.lines)

    def test_a_second_queue_manager_is_not_started_and_mail_is_delivered(self):
        with Peer() as peer:
            mx, port = self.target(), free_port()
            source = self.postfix(peer, port)
            with open(os.path.join(source, "master.cf"), "a") as out:
                out.write("watchdog_qmgr fifo n - n 300 1 qmgr\n")
            said = json.loads(self.take(mx, "--from", source, "--force", "--json").stdout)
            self.assertIn("watchdog_qmgr/fifo", {d["name"] for d in said["left_out"]})
            with open(os.path.join(mx.etc, "master.cf"), "a") as out:
                out.write("watchdog_qmgr fifo n - n 300 1 qmgr\n")  # as after a copy by hand
            self.assertIn("watchdog_qmgr/unix: a second queue manager is not run", mx.tool("penstock", "check").stdout)
            mx.port = port
            mx.start()
            self.assertEqual(len(mx.pids()["qmgr"]), 1)
            send(port, "x@one.example", ["ann@virtual.example"], mail())
            peer.wait_messages(1)

    def test_logins_by_cyrus_go_on_with_the_same_options(self):
        main = "compatibility_level = 3.6\nsmtpd_sasl_auth_enable = yes\nsmtpd_sasl_path = smtpd\n" \
               "smtpd_sasl_local_domain = $myhostname\nmyhostname = old.example\nalias_maps =\n" \
               "smtpd_relay_restrictions = permit_mynetworks reject_unauth_destination\n%s"
        deliver = "cyrus unix - n n - - pipe flags=R user=cyrus argv=/usr/sbin/cyrdeliver ${user}\n"
        for path, more, name in (("", "", "cyrus"),
                                 ("cyrus_sasl_config_path = /etc/postfix/sasl\n", deliver, "cyrus-sasl")):
            with self.subTest(name):
                port = free_port()
                source = self.files(main % path, MASTER % port + more)
                os.mkdir(os.path.join(source, "sasl"))
                with open(os.path.join(source, "sasl", "smtpd.conf"), "w") as out:
                    out.write("pwcheck_method: saslauthd\nsaslauthd_path: /nonexistent/mux\nmech_list: PLAIN LOGIN\n")
                said, status = self.dry(source)
                self.assertIn("smtpd_sasl_auth_enable", said["acts"])
                self.assertIn("smtpd_sasl_local_domain", said["acts"])
                told = {d["text"] for d in said["differs"] if d.get("setting", "").startswith("smtpd_sasl")}
                self.assertIn(
                    f'the line "{name} unix - - n - - cyrus" is added: Cyrus SASL has a program of its own', told
                )
                closed = "the socket of saslauthd is not at /nonexistent/mux"
                self.assertTrue(any(closed in text for text in told), told)
                self.assertEqual((status, said["mail_will_flow"]), (0, True))
                mx = self.target()
                self.take(mx, "--from", source, "--force")
                self.assertNotIn("/etc/postfix", mx.tool("penconf", "cyrus_sasl_config_path").stdout if path else "")
                mx.port = port
                mx.start()
                with Client(port) as client:
                    self.assertIn("AUTH PLAIN LOGIN", client.expect("EHLO client.example", "250").replace("250-", ""))
                    client.expect("AUTH PLAIN AGFubmEAc2VjcmV0", "454 4.7.0")
                mx.wait_log("cannot connect to saslauthd server")
                mx.stop()

    def test_logins_that_nothing_checks_are_told_and_are_no_mail_that_flows(self):
        source = self.files("compatibility_level = 3.6\nsmtpd_sasl_auth_enable = yes\nsmtpd_sasl_type = other\n"
                            "smtpd_sasl_local_domain = $myhostname\nmynetworks = 10.0.0.1/8\nalias_maps =\n",
                            MASTER % 2525)
        said, status = self.dry(source)
        told = [d for d in said["differs"] if "nobody can log in" in d["text"]]
        self.assertEqual([(d["level"], d["setting"], d["line"]) for d in told], [("warning", "smtpd_sasl_type", 3)])
        self.assertNotIn("smtpd_sasl_auth_enable", said["acts"])
        self.assertNotIn("smtpd_sasl_local_domain", said["acts"])
        # The dry run opens lists too.
        self.assertTrue(any(d["level"] == "error" and "write 10.0.0.0/8" in d["text"] for d in said["differs"]))
        self.assertEqual((status, said["mail_will_flow"]), (1, False))

    def test_the_verdict_says_what_the_report_says(self):
        for line, status, verdict in (("", 0, "Mail will flow. "),
                                      ("default_transport = nosuch\n", 1, "Mail will flow, but not all of it:\n"),
                                      ("smtpd_sender_restrictions = reject_thsi\n", 1, "Mail will flow, but not"),
                                      ("smtpd_sasl_auth_enable = yes\nsmtpd_sasl_type = no\n", 1,
                                       "Mail will flow, but not all"),
                                      ("smtpd_sasl_auth_enable = yes\n", 0, "Mail will flow. "),
                                      ("message_size_limit = many\n", 1, "Mail will not flow: "),
                                      ("mynetworks = 10.0.0.1/8\n", 1, "Some mail would be refused or would wait"),
                                      ("relay_domains = hash:/etc/postfix/gone\n", 1, "Some mail would be refused"),
                                      ("mynetworks = 0.0.0.0/0\n", 1, "Strangers could send to everybody"),
                                      ("smtpd_relay_restrictions = permit, reject\nsmtpd_recipient_restrictions =\n",
                                       1, "Strangers could send")):
            with self.subTest(line=line):
                said, got = self.dry(self.files("compatibility_level = 3.6\nalias_maps =\n" + line, MASTER % 2525))
                self.assertEqual((got, said["mail_will_flow"]), (status, status == 0), said)
                self.assertTrue(said["verdict"].startswith(verdict), said["verdict"])

    def test_what_ends_a_program_at_its_start_is_no_mail_that_flows(self):
        for line, named in (("smtp_tls_security_level = secur\n", "smtp_tls_security_level"),
                            ("smtpd_milters = inet:nonsense\n", "smtpd_milters")):
            with self.subTest(line=line):
                mx = self.target()
                source = self.files("compatibility_level = 3.6\nalias_maps =\n" + line, MASTER % 2525)
                said = json.loads(self.take(mx, "--from", source, "--force", "--json", status=1).stdout)
                self.assertTrue(said["verdict"].startswith("Some mail would be refused"), said["verdict"])
                errors = [d["text"] for d in said["differs"] if d["level"] == "error"]
                self.assertTrue(any("will not start" in e and named in e for e in errors), said["differs"])

    def test_without_master_cf_ours_is_used_and_mail_flows(self):
        said, status = self.dry(self.files("compatibility_level = 3.6\nalias_maps =\n"))
        self.assertEqual(status, 0, said)
        self.assertTrue(any(d["file"].endswith("/master.cf") and "is not there" in d["text"] for d in said["differs"]))

    def test_a_file_without_level_goes_on_with_postfixs_defaults_and_relays_for_whom_it_did(self):
        with Peer() as peer:
            mx, port = self.target(), free_port()
            source = self.postfix(peer, port)
            with open(os.path.join(source, "main.cf")) as text:
                main = text.read().replace("compatibility_level = 3.6\n", "").replace("mynetworks =", "# mynetworks =")
            main = "".join(line for line in main.splitlines(True) if not line.startswith("smtpd_relay_restrictions"))
            with open(os.path.join(source, "main.cf"), "w") as out:
                out.write(main + "mynetworks =\nsmtpd_recipient_restrictions = check_client_access "
                          "inline:{127.0.0.1=OK}, reject_unauth_destination\n")
            said = json.loads(self.take(mx, "--from", source, "--force", "--json").stdout)
            self.assertLessEqual({"compatibility_level", "smtpd_relay_restrictions"},
                                 {d.get("setting") for d in said["differs"] if "is not set" in d["text"]})
            self.assertNotIn("compatibility_level: not set", mx.tool("penstock", "check").stdout)
            mx.port = port
            mx.start()
            send(port, "x@one.example", ["bob@far.example"], mail())
            self.assertEqual(peer.wait_messages(1)[0].recipients, ["bob@far.example"])

    def test_devices_and_mail_programs_go_on_as_before_the_rules_of_later_versions(self):
        with Peer() as peer:
            mx, port, submission = self.target(), free_port(), free_port()
            source = self.postfix(peer, port)
            with open(os.path.join(source, "master.cf"), "a") as out:
                out.write("submission inet n - y - - smtpd\n  -o syslog_name=postfix/submission\n"
                          "465 inet n - y - - smtpd -o smtpd_forbid_unauth_pipelining=yes\n")
            said = json.loads(self.take(mx, "--from", source, "--force", "--json").stdout)
            told = {d.get("setting"): d["text"] for d in said["differs"]}
            self.assertIn("$mynetworks", told["smtpd_forbid_bare_newline_exclusions"])
            self.assertIn("is written as no for submission,", told["smtpd_forbid_unauth_pipelining"])
            with open(os.path.join(mx.etc, "master.cf")) as text:
                master = text.read()
            self.assertEqual(master.count("smtpd_forbid_unauth_pipelining=no"), 1)
            self.assertEqual(master.count("smtpd_forbid_unauth_pipelining=yes"), 1)
            # Ports that are free here.
            master = "".join(line.replace("submission inet", f"127.0.0.1:{submission} inet")
                             for line in master.splitlines(True) if not line.startswith("465 "))
            with open(os.path.join(mx.etc, "master.cf"), "w") as out:
                out.write(master)
            mx.port = port
            mx.start()
            with socket.create_connection(("127.0.0.1", submission)) as probe:
                probe.sendall(b"EHLO probe.example\r\nQUIT\r\n")
                answer = probe.makefile("rb").read()
            self.assertIn(b"\r\n221 ", answer)
            with Client(port) as device:
                device.expect("EHLO device", "250")
                device.expect("MAIL FROM:<scanner@one.example>", "250")
                device.expect("RCPT TO:<bob@far.example>", "250")
                device.expect("DATA", "354")
                device.raw(b"Subject: scan\n\npage 1\n.\n")
                self.assertTrue(device.reply().startswith("250"))
            self.assertIn(b"page 1", peer.wait_messages(1)[0].content)

    def test_every_name_that_is_set_is_in_a_list(self):
        main = ("compatibility_level = 3.6\nalias_maps =\nlocal_destination_recipient_limit = 1\nbiff = no\n"
                "mua = reject\nsmtpd_etrn_restrictions = $mua\nmulti_instance_name = postfix-x\nbife = no\n")
        said, _ = self.dry(self.files(main, MASTER % 2525))
        listed = {*said["acts"], *said["as_it_is_anyway"], *(d["name"] for d in said["left_out"]),
                  *(d.get("setting") for d in said["differs"])}
        self.assertLessEqual({line.split(" ")[0] for line in main.splitlines()}, listed)
        self.assertLessEqual({"local_destination_recipient_limit", "mua"}, set(said["acts"]))
        self.assertIn("biff", said["as_it_is_anyway"])

    def test_a_directory_with_a_configuration_is_left_alone(self):
        with Peer() as peer:
            mx = self.target()
            with open(os.path.join(mx.etc, "main.cf")) as text:
                before = text.read()
            done = self.take(mx, "--from", self.postfix(peer, free_port()), status=os.EX_CANTCREAT)
            self.assertIn("--force", done.stderr)
            with open(os.path.join(mx.etc, "main.cf")) as text:
                self.assertEqual(text.read(), before)

    def test_a_dry_run_says_the_same_and_writes_nothing(self):
        with Peer() as peer:
            mx, target = self.target(), os.path.join(self.folder(), "new")
            done = self.take(mx, "--from", self.postfix(peer, free_port()), "--to", target, "-n")
            self.assertIn("left out: scache/unix", done.stdout)
            self.assertFalse(os.path.exists(target))

    def test_a_dry_run_finds_what_the_import_finds_in_lists_and_tables(self):
        with Peer() as peer:
            source = self.postfix(peer, free_port(), "relay_domains = hash:$config_directory/gone, b.example\n"
                                  "mynetworks = 10.0.0.1/8\n")
            with open(os.path.join(source, "master.cf"), "a") as out:
                out.write("587 inet n - n - - smtpd\n  -o smtpd_sender_restrictions=check_sender_access,hash:/etc/"
                          "postfix/transport,check_client_access,hash:/etc/postfix/nothing\n")

            def found(*options, status=1):
                said = json.loads(self.take(self.target(), "--from", source, "--json", *options, status=status).stdout)
                return sorted((d["level"], os.path.basename(d.get("file", "")), d.get("line", 0), d.get("setting", ""))
                              for d in said["differs"] if d["level"] != "note"), \
                    [c for c in said["could_not"] if "penmap" not in c] != []
            dry, whole = found("--force", "-n"), found("--force")
            self.assertEqual(dry, whole)
            self.assertEqual({line[3] for line in dry[0] if line[0] == "error"},
                             {"relay_domains", "mynetworks", "smtpd_sender_restrictions"})

    def test_what_would_lose_mail_is_said_by_the_exit_status(self):
        with Peer() as peer:
            mx = self.target()
            source = self.postfix(peer, free_port(), "relay_domains = hash:/etc/postfix/lost\n")
            with open(os.path.join(source, "lost.db"), "w") as out:
                out.write("Berkeley")
            shutil.copy(os.path.join(source, "lost.db"), os.path.join(mx.etc, "lost.db"))
            done = self.take(mx, "--from", source, "--force", "--json", status=1)
            said = json.loads(done.stdout)
            self.assertFalse(said["mail_will_flow"])
            self.assertTrue(any("lost" in p["text"] and p.get("line") for p in said["differs"]), said["differs"])

    def test_a_host_with_debians_exim_sends_through_its_smart_host(self):
        with Peer() as peer:
            mx = self.target()
            etc = self.folder()
            os.makedirs(os.path.join(etc, "exim4"))
            for name, text in {
                "mailname": "mail.one.example\n",
                "aliases": "team: zoe@far.example\n",
                "email-addresses": "ada: ada.l@public.example\n",
                "exim4/update-exim4.conf.conf": f"""# /etc/exim4/update-exim4.conf.conf
dc_eximconfig_configtype='smarthost'
dc_other_hostnames='here.example'
dc_local_interfaces='127.0.0.1'
dc_readhost=''
dc_relay_domains=''
dc_minimaldns='false'
dc_relay_nets=''
dc_smarthost='127.0.0.1::{peer.port}'
CFILEMODE='644'
dc_use_split_config='false'
dc_hide_mailname=''
dc_mailname_in_oh='true'
dc_localdelivery='mail_spool'
""",
            }.items():
                with open(os.path.join(etc, name), "w") as out:
                    out.write(text)
            done = self.take(mx, "--from", os.path.join(etc, "exim4"), "--force")
            self.assertIn("Mail will flow", done.stdout)
            port = free_port()
            mx.set_services({"smtp": None, f"127.0.0.1:{port}": "inet n - n - - smtpd", "relay": "unix - - n - - smtp"})
            with open(os.path.join(mx.etc, "master.cf"), "a") as out:
                out.write("smtp unix - - n - - smtp\n")
            mx.port = port
            mx.set(local_recipient_maps="", myhostname="mail.one.example")
            mx.start()
            send(port, "ada@mail.one.example", ["zed@far.example"], b"From: ada@mail.one.example\r\n\r\nx\r\n")
            got = peer.wait_messages(1)[0]
            self.assertEqual((got.sender, got.recipients), ("ada.l@public.example", ["zed@far.example"]))
            send(port, "x@far.example", ["team@here.example"], b"Subject: alias\r\n\r\nx\r\n")
            self.assertEqual(peer.wait_messages(2)[1].recipients, ["zoe@far.example"])


if __name__ == "__main__":
    unittest.main()
