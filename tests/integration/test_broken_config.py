"""Broken configurations and tables: check, start and reload report them with their place, and a running mail system
continues with what it has."""
import json
import os
import signal
import subprocess

from dns import Dns
from harness import *
from instance import BIN

EX_CONFIG = 78


def lmdb_of_two_pages(mx, name):
    """Returns a sound table to break, as bytes."""
    source = mx.write(name, "".join(f"user{i}@virtual.test.example box{i}/\n" for i in range(400)))
    mx.tool("penmap", f"lmdb:{source}", check=True)
    with open(source + ".lmdb", "rb") as raw:
        return source, raw.read()


class BrokenConfig(Suite):
    def line_of(self, path, text):
        with open(path) as lines:
            return next(n for n, line in reversed(list(enumerate(lines, 1))) if text in line)

    def faults(self, mx):
        """Returns (name, text to append to main.cf, pattern of the message)."""
        text = mx.write("rules", "# first\n/^ok$/ x\nif /(unclosed/\n/x/ y\nendif\n")
        words = mx.write("rules.pcre", "/^ok$/ x\n\nif /*broken/\n/x/ y\nendif\n")
        nets = mx.write("nets", "10.0.0.0/8 x\nif 10.0.0.1/8\n10.0.0.1 y\nendif\n")
        secret = mx.write("secret", "a b\n")
        os.chmod(secret, 0)
        rules, pcre = text, words
        cut, whole = lmdb_of_two_pages(mx, "cut")
        with open(cut + ".lmdb", "wb") as out:
            out.write(whole[:len(whole) // 2 // 4096 * 4096])
        junk = mx.write("junk.lmdb", "no database" * 3000)[:-len(".lmdb")]
        zero = mx.write("zero.lmdb", "")[:-len(".lmdb")]
        page, whole = lmdb_of_two_pages(mx, "page")
        with open(page + ".lmdb", "wb") as out:
            out.write(whole[:2 * 4096 + 12] + b"\xff" * 40 + whole[2 * 4096 + 52:])
        return [
            ("transport_maps", f"nosuch:{rules}", r"nosuch:.*unsupported table type|unsupported table type.*nosuch"),
            ("transport_maps", f"lmdb:{mx.dir}/gone", r"gone\.lmdb.*No such file.*penmap"),
            ("transport_maps", f"texthash:{mx.dir}/gone", r"gone.*No such file"),
            # Root can read it, and so can the programs that root starts.
            *([] if os.geteuid() == 0 else [("transport_maps", f"texthash:{secret}", r"secret.*Permission denied")]),
            ("virtual_alias_maps", f"regexp:{rules}", r"rules, line 3: .*put it right"),
            ("canonical_maps", f"static:x pcre:{pcre}", r"rules\.pcre, line 3: "),
            ("smtpd_client_restrictions", f"check_client_access cidr:{nets}", r"nets, line 2: "),
            ("smtpd_recipient_restrictions", f"reject_unauth_destination, check_recipient_access nosuch:/x", "nosuch"),
            ("mynetworks", "127.0.0.0/8, 10.0.0.1/8", r"10\.0\.0\.1/8"),
            ("mydestination", f"local.test.example, {mx.dir}/nofile", r"nofile.*No such file"),
            ("virtual_mailbox_maps", f"hash:{cut}", r"cut\.lmdb: .*shorter than its content.*make the table again"),
            ("virtual_mailbox_maps", f"hash:{junk}", r"junk\.lmdb: .*not an LMDB file.*make the table again"),
            ("virtual_mailbox_maps", f"hash:{zero}", r"zero\.lmdb: .*not an LMDB file"),
            ("virtual_mailbox_maps", f"hash:{page}", r"page\.lmdb: .*page 2: .*damaged page.*make the table again"),
            ("smtpd_relay_restrictions", "permit_mynetworks", "anybody could relay"),
        ]

    SYNTAX = [  # text to append to main.cf, its setting, pattern of the message
        ("message_size_limit = many", "message_size_limit", "not a number of bytes"),
        ("inet_protocols = ${inet_protocols", "inet_protocols", "\\$"),
        ("just words", "", "name = value|="),
        ("virtual_minimum_uid = 99999999999999", "virtual_minimum_uid", "number|at most"),
    ]

    def test_tables_and_lists(self):
        with Peer() as peer, Instance(relay_to(peer)) as mx:
            main = mx.path("etc", "main.cf")
            with open(main) as text:
                good = text.read()
            for name, value, says in self.faults(mx):
                with open(main, "w") as out:
                    out.write(good)
                with self.subTest(f"{name} = {value}"):
                    before = mx.pids()
                    mx.set(**{name: value})
                    where = rf"{main}:{self.line_of(main, value)}: {name}: "
                    for word in ("check", "reload"):
                        done = mx.tool("penstock", word)
                        self.assertEqual(done.returncode, EX_CONFIG, (word, done))
                        self.assertRegex(done.stdout + done.stderr, f"{where}.*({says})")
                    self.assertIn("goes on with what it has", done.stderr)
                    self.assertEqual(mx.pids(), before)
            before = len(peer.messages)
            send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail())
            peer.wait_messages(before + 1)

    def test_main_cf_and_master_cf_that_cannot_be_read(self):
        with Peer() as peer, Instance(relay_to(peer)) as mx, Instance(start=False) as other:
            for where in (mx, other):
                for file, line, says in [("main.cf", line, f"{name}.*({says})") for line, name, says in self.SYNTAX] + [
                        ("master.cf", "smtp inet n", "eight columns"), ("master.cf", "x unix - - n - - smtp -o", "-o"),
                        ("master.cf", "x what - - n - - smtp", "what")]:
                    with self.subTest(line=line, running=where is mx):
                        path = os.path.join(where.etc, file)
                        with open(path) as text:
                            good = text.read()
                        with open(path, "a") as out:
                            out.write(line + "\n")
                        try:
                            self.refused(where, where is mx, f"{path}:{self.line_of(path, line)}: ", says)
                        finally:
                            with open(path, "w") as out:
                                out.write(good)
                for file in ("main.cf", "master.cf"):
                    path = os.path.join(where.etc, file)
                    os.rename(path, path + ".away")
                    done = where.tool("penstock", "reload" if where is mx else "start")
                    os.rename(path + ".away", path)
                    self.assertEqual(done.returncode, EX_CONFIG, done)
                    self.assertRegex(done.stderr, f"{path}.*No such file")
            send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail())
            peer.wait_messages(1)

    def refused(self, instance, running, place, says):
        for word in ("check", "reload") if running else ("check", "start", "start-fg"):
            done = instance.tool("penstock", word)
            self.assertEqual(done.returncode, EX_CONFIG, (word, done))
            self.assertRegex(done.stdout + done.stderr, f"{place}.*{says}")
        if running:
            before = instance.log().count("going on as before")
            os.kill(instance.pids()["master"][0], signal.SIGHUP)  # not even so
            eventually(lambda: instance.log().count("going on as before") > before, "master refuses it")
            self.assertRegex(instance.log(), f"reload: .*{place}.*going on as before")

    def test_what_no_mail_would_meet_is_no_error(self):
        with Instance(start=False) as mx:
            mx.set(virtual_mailbox_maps="socketmap:unix:/nowhere/s:box", virtual_transport="lmtp:unix:/nowhere/lmtp",
                   alias_maps="", alias_database=f"lmdb:{mx.dir}/gone")
            done = mx.tool("penstock", "check")
            self.assertEqual(done.returncode, 0, done)
            self.assertNotRegex(done.stdout, "alias_database: .*gone|virtual_mailbox_maps: .*not allowed")
            mx.set(virtual_transport="virtual")  # which would have to believe who boxes belong to
            self.assertRegex(mx.tool("penstock", "check").stdout, "error: .*virtual_mailbox_maps: .*not allowed")

    def test_smtpd_starts_with_a_network_that_cannot_be_read(self):
        with Peer() as peer:
            mx = Instance({**relay_to(peer), "mynetworks": "127.0.0.0/8, [2001:db8::1]/64, 10.0.0.1/8"}, start=False)
            self.addCleanup(mx.close)
            done = mx.tool("penstock", "check")
            self.assertEqual(done.returncode, EX_CONFIG, done)
            self.assertRegex(done.stdout, r"error: .*mynetworks: .*write \[2001:db8::\]/64")
            mx.start()
            send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail())
            peer.wait_messages(1)

    def test_an_unset_name_is_told_with_its_line(self):
        with Instance(start=False) as mx:
            mx.set(relay_domains="$nowhere_set, b.example")
            done = mx.tool("penstock", "check")
            self.assertEqual(done.returncode, 0, done)  # it stands for nothing, as in Postfix
            self.assertRegex(done.stdout, r"warning: .*main\.cf:\d+: relay_domains: .*\$nowhere_set")

    def test_names_that_nobody_knows_are_told_with_what_to_write(self):
        with Dns({("mx.test.example", "A"): ["192.0.2.1"], ("there.example", "A"): ["192.0.2.2"],
                  ("by-mx.example", "MX"): [(10, "there.example")]}) as dns, \
                Instance(dns.settings(), start=False) as mx:
            mx.set(inet_interfaces="all", myhostname="mx.test.example", relayhost="[gone2.example]:587",
                   smtp_fallback_relay="by-mx.example, gone1.example", content_filter="smtp:[gone3.example]:10024",
                   virtual_transport="lmtp:inet:gone4.example:24",
                   smtpd_milters="inet:there.example:1, { inet:gone5.example:2, connect_timeout=1s }",
                   smtpd_sender_restrictions="check_policy_service inet:gone6.example:10023, permit_mynetwork, "
                                             "reject_unknwon_sender_domain",
                   header_checks="regexp:$config_directry/header_checks", mine="a", smtpd_banner="$minee $myhostnam")
            routes = mx.write("routes", "a.example smtp:[gone8.example]\nb.example local:gone.example\n"
                                        "c.example :there.example\n")
            hops = mx.write("hops", "# by sender\n@d.example [gone9.example]:587\n")
            mx.set(transport_maps=f"texthash:{routes}", sender_dependent_relayhost_maps=f"texthash:{hops}")
            mx.set_services({"extra": "inet n - n - - smtpd -o smtpd_proxy_filter=gone7.example:25 "
                                      "-o smtpd_helo_restrictions=permit_mynetworks,rejecct -o "
                                      "smtpd_data_restrictions=check_sender_access"})
            done = mx.tool("penstock", "check")
            self.assertEqual(done.returncode, EX_CONFIG, done)
            for setting, host in (("smtp_fallback_relay", "gone1"), ("relayhost", "gone2"), ("content_filter", "gone3"),
                                  ("virtual_transport", "gone4"), ("smtpd_milters", "gone5"),
                                  ("smtpd_sender_restrictions", "gone6"), ("smtpd_proxy_filter", "gone7")):
                self.assertRegex(done.stdout, rf"(main|master)\.cf:\d+: {setting}: {host}\.example has no address in "
                                              r"DNS; write: a host that exists")
            for place, setting, host in ((f"{routes}:1", "transport_maps", "gone8"),
                                         (f"{hops}:2", "sender_dependent_relayhost_maps", "gone9")):
                self.assertIn(f"{place}: {setting}: {host}.example has no address in DNS", done.stdout)
            for known in ("gone.example has", "there.example has", "by-mx.example has", "mx.test.example has"):
                self.assertNotIn(known, done.stdout)
            for wrong, right in (("permit_mynetwork: .*", "permit_mynetworks"),
                                 ("reject_unknwon_sender_domain: .*", "reject_unknown_sender_domain"),
                                 (r"\$config_directry, .*", "config_directory"), (r"\$minee, .*", "mine"),
                                 (r"\$myhostnam, .*", "myhostname")):
                self.assertRegex(done.stdout, rf"main\.cf:\d+: \w+: .*{wrong}; is {right} meant\?")
            # smtpd says the same at its start; here it is told once, with its line, also where master.cf has it.
            for once, place in (("permit_mynetwork:", r"main\.cf:\d+: smtpd_sender_restrictions: no restriction is"),
                                ("rejecct:", r"master\.cf:\d+: smtpd_helo_restrictions: no restriction is"),
                                ("check_sender_access ends", r"master\.cf:\d+: smtpd_data_restrictions: check_")):
                said = [line for line in done.stdout.splitlines() if once in line]
                self.assertEqual(len(said), 1, done.stdout)
                self.assertRegex(said[0], place)
            self.assertNotIn("nknown smtpd restriction", done.stdout)
            self.assertNotIn("no address in DNS", mx.tool("penstock", "check", "--no-dns").stdout)

    def test_what_programs_say_has_its_file_and_line(self):
        with Instance(start=False) as mx:
            mx.set(smtpd_milters="inet:nonsense", smtp_tls_security_level="secur", masquerade_classes="header_sendr",
                   smtpd_client_restrictions="check_policy_service inet:127.0.0.1, reject_rbl_client zen..example",
                   smtp_tls_CAfile="/no/file", content_filter="nowhere:[127.0.0.1]:1")
            mx.set_services({"extra": "inet n - n - - smtpd -o smtpd_milters=inet:other -o mynetworks=static:all"})
            done = mx.tool("penstock", "check", "--no-dns")
            self.assertEqual(done.returncode, EX_CONFIG, done)
            for file, says in (("main", "service .*: smtpd_milters: inet:nonsense: no such port"),
                               ("master", "service .*: smtpd_milters: inet:other: no such port"),
                               ("main", 'service .*: smtp_tls_security_level: no such level "secur"'),
                               ("main", 'masquerade_classes: "header_sendr" .*; write: header_sender'),
                               ("main", "check_policy_service: inet:127.0.0.1: .*no port"),
                               ("main", "reject_rbl_client: zen..example: not a domain"),
                               ("main", "/no/file: cannot be read"),
                               ("main", "content_filter: master.cf has no service nowhere"),
                               ("master", "mynetworks: service .*: static:all: everybody is in it")):
                self.assertRegex(done.stdout, rf"{file}\.cf:\d+: {says}")
            found = json.loads(mx.tool("penstock", "check", "--json", "--no-dns").stdout)
            self.assertIn("smtp_tls_CAfile", [one.get("setting") for one in found])

    def test_rules_that_cannot_be_read_are_told_and_the_rest_of_their_tables_serves(self):
        with Instance(start=False) as mx:
            nets = mx.write("nets", "127.0.0.1/8 REJECT bits\n10.0.0.0/8\n127.0.0.0/8 DUNNO\n0.0.0.0/0 REJECT other\n")
            rules = mx.write("rules", "/(unclosed/ REJECT\n/a/b/ REJECT\n/^bad@/ REJECT rule\n")
            words = mx.write("words", "one@sender.example\ntwo@sender.example REJECT word\n")
            mx.set(smtpd_client_restrictions=f"check_client_access cidr:{nets}",
                   smtpd_sender_restrictions=f"check_sender_access pcre:{rules}, check_sender_access texthash:{words}")
            for word, kind, status in (("check", "error", 78), ("start", "warning", 0), ("reload", "warning", 0)):
                done = mx.tool("penstock", word)
                self.assertEqual(done.returncode, status, (word, done))
                for setting, place in (("smtpd_client_restrictions", "nets, line 1"),
                                       ("smtpd_client_restrictions", "nets, line 2"),
                                       ("smtpd_sender_restrictions", "rules, line 1"),
                                       ("smtpd_sender_restrictions", "rules, line 2"),
                                       ("smtpd_sender_restrictions", "words, line 1")):
                    self.assertRegex(done.stdout + done.stderr,
                                     rf"{kind}: .*main\.cf:\d+: {setting}: .*{place}: .*passed over; put it right")
            for sender, answer in (("bad@sender.example", "554 5.7.1.*rule"), ("two@sender.example", "554 5.7.1.*word"),
                                   ("one@sender.example", "250")):
                with self.subTest(sender), Client(mx.port) as client:
                    client.expect(f"MAIL FROM:<{sender}>", "250")
                    self.assertRegex(client.command("RCPT TO:<postmaster@local.test.example>"), answer)

    def test_a_start_in_the_foreground_tells_what_is_wrong_too(self):
        with Instance(start=False) as mx:
            mx.set(smtpd_sender_restrictions=f"check_sender_access pcre:{mx.write('rules', '/(/ REJECT')}",
                   virtual_mailbox_maps=f"hash:{mx.dir}/gone")
            with open(mx.path("said"), "w") as said:
                front = subprocess.Popen([os.path.join(BIN, "penstock"), "-c", mx.etc, "start-fg"], stderr=said)
            try:
                mx.wait_log("all services are ready")
                with open(mx.path("said")) as text:
                    said = text.read()
                self.assertRegex(said, r"warning: .*main\.cf:\d+: smtpd_sender_restrictions: .*rules, line 1: ")
                self.assertRegex(said, r"warning: .*main\.cf:\d+: virtual_mailbox_maps: .*gone\.lmdb")
                mx.tool("penstock", "stop", check=True)
                self.assertEqual(front.wait(30), 0)
            finally:
                if front.poll() is None:
                    front.kill()
                    front.wait()

    def test_a_start_with_a_broken_table_says_so_and_serves_the_rest(self):
        with Peer() as peer, Instance(relay_to(peer), start=False) as mx:
            mx.set(virtual_mailbox_maps=f"hash:{mx.dir}/gone")
            done = mx.tool("penstock", "start")
            self.assertEqual(done.returncode, 0, done)
            self.assertRegex(done.stderr, r"warning: .*main\.cf:\d+: virtual_mailbox_maps: .*gone\.lmdb")
            with Client(mx.port) as client:
                client.expect("MAIL FROM:<ada@sender.example>", "250")
                client.expect("RCPT TO:<v@virtual.test.example>", "451")
                client.expect("RCPT TO:<a@rcpt.example>", "250")

    def test_after_the_repair_a_reload_takes_the_new_configuration(self):
        with Peer() as peer, Instance(relay_to(peer)) as mx:
            rules = mx.write("rules", "if /(/\n/x/ x\nendif\n")
            mx.set(virtual_alias_maps=f"regexp:{rules}", smtpd_banner="second banner")
            self.assertEqual(mx.tool("penstock", "reload").returncode, EX_CONFIG)
            with Client(mx.port) as client:
                self.assertNotIn("second", client.greeting)
            mx.write("rules", "/^(.*)@alias\\.example$/ $1@rcpt.example\n")
            mx.reload()

            def serves_the_new_one():
                with Client(mx.port) as client:
                    return "second" in client.greeting
            eventually(serves_the_new_one, "the new greeting")
            send(mx.port, "ada@sender.example", ["a@alias.example"], mail())
            self.assertEqual(peer.wait_messages(1)[0].recipients, ["a@rcpt.example"])

    def test_a_table_that_breaks_while_it_is_used_puts_mail_off(self):
        with Instance(start=False) as mx:
            table, whole = lmdb_of_two_pages(mx, "boxes")
            mx.set(virtual_mailbox_maps=f"hash:{table}")
            mx.start()
            before = mx.pids()

            def answer(code):
                def ask():
                    with Client(mx.port) as client:
                        client.expect("MAIL FROM:<ada@sender.example>", "250")
                        return client.command("RCPT TO:<user3@virtual.test.example>").startswith(code)
                return ask
            eventually(answer("250"), "it is there")
            for broken in (whole[:4096], b"", whole[:2 * 4096] + b"\xff" * (len(whole) - 2 * 4096), b"junk" * 9999):
                with open(table + ".new", "wb") as out:
                    out.write(broken)
                os.rename(table + ".new", table + ".lmdb")
                eventually(answer("451"), "the broken table is noticed")
            with open(table + ".new", "wb") as out:
                out.write(whole)
            os.rename(table + ".new", table + ".lmdb")
            eventually(answer("250"), "it is whole again")
            self.assertEqual(mx.pids(), before)


if __name__ == "__main__":
    unittest.main()
