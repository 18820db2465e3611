"""Tables in databases through the running suite, with SQLite, which needs no server: every kind of look-up, a database
that is broken and mended, unknown parameters told."""
import contextlib
import os
import re
import select
import socket
import sqlite3
import unittest

from client import Client
from instance import Instance, missing
from waiting import eventually

CONTENT = b"Subject: x\r\n\r\nhello\r\n"
ROWS = [("alias", "info", "jo"), ("alias", "jo", "jo"),
        ("virtual", "o'brien@virtual.test.example", "jo@virtual.test.example"),
        ("virtual", "all@virtual.test.example", "jo@virtual.test.example"),
        ("virtual", "all@virtual.test.example", "bo@virtual.test.example"),
        ("box", "jo@virtual.test.example", "jo/"), ("box", "bo@virtual.test.example", "bo/"),
        ("access", "bad@example.org", "REJECT bad sender")]


@unittest.skipIf(missing(), missing())
class Databases(unittest.TestCase):
    def setUp(self):
        self.instance = Instance(start=False)
        self.addCleanup(self.instance.close)
        self.database = os.path.join(self.instance.dir, "mail.sqlite")
        self.fill(self.database)

    @staticmethod
    def fill(path):
        db = sqlite3.connect(path)
        db.execute("CREATE TABLE t (kind TEXT, k TEXT, v TEXT)")
        db.executemany("INSERT INTO t VALUES (?, ?, ?)", ROWS)
        db.commit()
        db.close()
        os.chmod(path, 0o644)

    def table(self, kind, more=""):
        path = os.path.join(self.instance.dir, kind + ".cf")
        with open(path, "w") as f:
            f.write(f"dbpath = {self.database}\nquery = SELECT v FROM t WHERE kind = '{kind}' AND k = '%s'\n{more}")
        return "sqlite:" + path

    def start(self, **settings):
        self.instance.set(**settings)
        self.instance.start()

    def client(self, sender="a@example.org"):
        client = Client(self.instance.port)
        self.addCleanup(client.close)
        client.expect(f"MAIL FROM:<{sender}>", "250")
        return client

    def test_recipients_aliases_and_mailboxes_come_from_the_database(self):
        self.start(virtual_mailbox_maps="proxy:" + self.table("box"), virtual_alias_maps=self.table("virtual"))
        client = self.client()
        client.expect("RCPT TO:<nobody@virtual.test.example>", "550")
        client.expect("RCPT TO:<' OR '1'='1@virtual.test.example>", "5")
        client.expect("RCPT TO:<o'brien@virtual.test.example>", "250")
        client.expect("RCPT TO:<all@virtual.test.example>", "250")
        client.expect("RSET", "250")
        with Client(self.instance.port) as sender:
            sender.send("a@example.org", ["o'brien@virtual.test.example", "all@virtual.test.example"], CONTENT)
        self.instance.wait_empty_queue()
        for user, count in (("jo", 2), ("bo", 1)):  # jo by both addresses
            self.assertEqual(len(self.instance.virtual_box(user).messages()), count, self.instance.log())

    def test_restrictions_ask_the_database(self):
        self.start(smtpd_sender_restrictions="check_sender_access " + self.table("access"))
        self.client().expect("RCPT TO:<jo@local.test.example>", "250")
        self.client("bad@example.org").expect("RCPT TO:<jo@local.test.example>", "554")

    @unittest.skipUnless(os.geteuid() == 0, "needs another account for mail")
    def test_check_tells_of_a_database_that_only_another_account_can_read(self):
        self.instance.set(mail_owner="mail", virtual_mailbox_maps="proxy:" + self.table("box"))
        os.chmod(self.instance.dir, 0o755)
        said = "cannot be read by mail_owner (mail), as whom SQLite opens it"

        def check():
            done = self.instance.tool("penstock", "check")
            return done.stdout + done.stderr

        self.assertNotIn(said, check())
        os.chmod(self.database, 0o640)
        self.assertRegex(check(), rf"warning: .*virtual_mailbox_maps: {self.database} {re.escape(said)}")

    def test_a_database_that_is_broken_means_later_until_it_is_mended(self):
        self.start(virtual_mailbox_maps=self.table("box"))
        client = self.client()
        client.expect("RCPT TO:<jo@virtual.test.example>", "250")
        os.rename(self.database, self.database + ".away")
        client.expect("RCPT TO:<jo@virtual.test.example>", "451")
        client.expect("RCPT TO:<nobody@virtual.test.example>", "451")
        with open(self.database, "wb") as f:
            f.write(b"no database" * 1000)
        client.expect("RCPT TO:<jo@virtual.test.example>", "451")
        os.rename(self.database + ".away", self.database)
        client.expect("RCPT TO:<jo@virtual.test.example>", "250")
        client.expect("RCPT TO:<nobody@virtual.test.example>", "550")

    def ask(self, table, key):
        return self.instance.tool("penmap", "-q", key, table)

    def test_penmap_asks_and_tells_what_has_no_effect(self):
        table = self.table("box", "querry = x\n")
        found = self.ask(table, "jo@virtual.test.example")
        self.assertEqual((found.returncode, found.stdout), (0, "jo/\n"))
        self.assertIn("unknown parameter querry", found.stderr)
        self.assertEqual(self.ask(table, "nobody").returncode, 1)
        os.remove(self.database)
        failed = self.ask(table, "jo@virtual.test.example")
        self.assertEqual(failed.returncode, 75)
        self.assertIn("unable to open database file", failed.stderr)

    def test_ten_databases_that_hang_hold_up_nobody_who_asks_another(self):
        """Servers that take connections and never answer, each asked for ten things at once."""
        servers = [socket.create_server(("127.0.0.1", 0), backlog=64) for _ in range(10)]
        taken = []
        self.addCleanup(lambda: [s.close() for s in servers + taken])
        classes, senders = {}, []
        for i, server in enumerate(servers):
            server.setblocking(False)
            file = self.instance.write(f"hangs{i}.cf", f"hosts = 127.0.0.1:{server.getsockname()[1]}\nquery = GET %s\n")
            classes[f"hangs{i}"] = f"check_recipient_access redis:{file}"
            senders.append(f"h{i}.example = hangs{i}")
        self.start(smtpd_restriction_classes=", ".join(classes), **classes, smtpd_client_connection_count_limit="0",
                   smtpd_sender_restrictions=f"check_sender_access inline:{{ {', '.join(senders)} }}, "
                                             f"check_sender_access {self.table('access')}")
        pids = self.instance.pids()["smtpd"]

        def threads():
            return sum(len(os.listdir(f"/proc/{pid}/task")) for pid in pids)
        at_rest = threads()
        waiting = []
        for i in range(10):
            for j in range(10):
                waiting.append(self.client(f"a@h{i}.example"))
                waiting[-1].raw(b"RCPT TO:<u%d@local.test.example>\r\n" % j)

        def all_hang():
            for server in servers:
                with contextlib.suppress(BlockingIOError):
                    while True:
                        taken.append(server.accept()[0])
            return len(taken) >= 64
        eventually(all_hang, lambda: f"{len(taken)} connections; {self.instance.log()}")
        for n in range(3):
            self.client().expect("RCPT TO:<jo@local.test.example>", "250")
            self.client("bad@example.org").expect("RCPT TO:<jo@local.test.example>", "554")
        self.assertLessEqual(len(taken), 64 + 10)
        self.assertLessEqual(threads() - at_rest, 10 * 8 + 8 + 2)  # ten pools, that of SQLite, closing what rests
        self.assertEqual([c for c in waiting if select.select([c.socket], [], [], 0)[0]], [])  # they do hang
        for s in servers + taken:
            s.close()
        for client in waiting:
            self.assertRegex(client.reply(), "^451 ")

    def test_the_old_form_has_its_parameters_in_main_cf(self):
        self.start(virtual_mailbox_maps="sqlite:boxes", boxes_dbpath=self.database,
                   boxes_query="SELECT v FROM t WHERE kind = 'box' AND k = '%s'")
        client = self.client()
        client.expect("RCPT TO:<jo@virtual.test.example>", "250")
        client.expect("RCPT TO:<nobody@virtual.test.example>", "550")
        self.assertEqual(self.ask("sqlite:boxes", "bo@virtual.test.example").stdout, "bo/\n")
        self.assertNotIn("sqlite:boxes", self.instance.tool("penstock", "check").stdout)

    def test_check_names_a_table_that_cannot_work(self):
        self.instance.set(virtual_mailbox_maps=self.table("box", "expansion_limit = many\n"))
        check = self.instance.tool("penstock", "check")
        self.assertIn("expansion_limit: expected a number", check.stdout + check.stderr)
        self.instance.set(virtual_mailbox_maps=self.table("box", "querry = x\n"))
        check = self.instance.tool("penstock", "check")
        self.assertIn("unknown parameter querry", check.stdout + check.stderr)


if __name__ == "__main__":
    unittest.main()
