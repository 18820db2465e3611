"""Broken configurations and tables: check, start and reload report them with their place, and a running mail system
continues with what it has."""
import os
import signal

from harness import *

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
        text = mx.write("rules", "# first\n/^ok$/ x\n/(unclosed/ y\n")
        words = mx.write("rules.pcre", "/^ok$/ x\n\n/*broken/ y\n")
        nets = mx.write("nets", "10.0.0.0/8 x\n10.0.0.1/8 y\n")
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

    def test_an_unset_name_is_told_with_its_line(self):
        with Instance(start=False) as mx:
            mx.set(relay_domains="$nowhere_set, b.example")
            done = mx.tool("penstock", "check")
            self.assertEqual(done.returncode, 0, done)  # it stands for nothing, as in Postfix
            self.assertRegex(done.stdout, r"warning: .*main\.cf:\d+: relay_domains: .*\$nowhere_set")

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
            rules = mx.write("rules", "/(/ x\n")
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
