"""Tables served by other processes: a slow, hanging or dying one affects its users and nobody else."""
import os
import re
import select
import unittest

from client import Client
from instance import Instance, missing
from peer import Peer
from table_server import TableServer
from waiting import eventually

CONTENT = b"Subject: x\r\n\r\nhello\r\n"


def readable(clients):
    return select.select([c.socket for c in clients], [], [], 0)[0]


@unittest.skipIf(missing(), missing())
class TableServers(unittest.TestCase):
    def setUp(self):
        self.instance = Instance(start=False)
        self.addCleanup(self.instance.close)
        self.path = os.path.join(self.instance.dir, "tables")

    def start(self, **settings):
        self.instance.set(**settings)
        self.instance.start()

    def table(self, name="t"):
        return f"socketmap:unix:{self.path}:{name}"

    def clients(self, count):
        for _ in range(count):
            client = Client(self.instance.port)
            self.addCleanup(client.close)
            client.expect("MAIL FROM:<a@example.org>", "250")
            yield client

    def test_recipients_whose_look_up_hangs_hold_up_no_upload_and_no_other_recipient(self):
        answers = {f"{user}@virtual.test.example": "OK box/" for user in ("jo", "bo")}
        with TableServer(self.path, answers) as server:
            self.start(virtual_mailbox_maps=self.table(), default_process_limit="100")
            writing, asking = self.clients(2)
            writing.expect("RCPT TO:<jo@virtual.test.example>", "250")
            hanging = list(self.clients(20))
            for i, client in enumerate(hanging):
                client.raw(f"RCPT TO:<hang{i}@virtual.test.example>\r\n".encode())
            server.wait_held(20)
            asking.expect("RCPT TO:<bo@virtual.test.example>", "250")
            writing.expect("DATA", "354")
            writing.raw(b"Subject: large\r\n\r\n" + b"0123456789abcdef" * 4 * 16384 + b"\r\n.\r\n")
            self.assertTrue(writing.reply().startswith("250"))
            self.assertEqual(readable(hanging), [], "they have waited for what hangs")
            server.release()
            for client in hanging:
                self.assertTrue(client.reply().startswith(("550", "451")))

    def test_a_route_that_hangs_holds_up_no_other_route(self):
        with TableServer(self.path) as server, Peer() as peer:
            self.start(transport_maps=self.table(), relay_domains="there.example hang.example",
                       relayhost=f"[127.0.0.1]:{peer.port}",
                       smtpd_reject_unlisted_recipient="no")  # which looks up the route at RCPT
            for i in range(30):
                with Client(self.instance.port) as client:
                    client.send("a@example.org", [f"hang{i}@hang.example"], CONTENT)
            server.wait_held(30)
            with Client(self.instance.port) as client:
                client.send("a@example.org", ["jo@there.example"], CONTENT)
            self.assertEqual(peer.wait_messages(1)[0].recipients, ["jo@there.example"])
            server.release()

    def wait_look_ups(self, count):
        """Waits until trivial-rewrite reports, on SIGUSR1, that so many requests are in progress."""
        def told():
            self.instance.ask_status("trivial-rewrite")
            return re.findall(r"routes: .* under_way=(\d+)", self.instance.log())[-1:] == [str(count)]
        eventually(told, f"{count} look-ups under way")

    def test_all_the_look_ups_that_qmgr_asks_for_are_under_way_and_one_message_leaves_some_to_the_next(self):
        with TableServer(self.path) as server, Peer() as peer:
            self.start(transport_maps=self.table(), relay_domains="hang.example", relayhost=f"[127.0.0.1]:{peer.port}",
                       smtpd_reject_unlisted_recipient="no")
            for name, under_way in (("first", 455), ("second", 496)):  # of 500: 91 %, then the rest
                with Client(self.instance.port) as client:
                    client.send("a@example.org", [f"hang-{name}-{i}@hang.example" for i in range(1000)], CONTENT)
                self.wait_look_ups(under_way)
            server.release()

    def test_a_server_that_dies_is_a_temporary_error_and_comes_back(self):
        answers = {"jo@virtual.test.example": "OK box/"}
        with TableServer(self.path, answers):
            self.start(virtual_mailbox_maps=self.table())
            client, = self.clients(1)
            client.expect("RCPT TO:<jo@virtual.test.example>", "250")
            client.expect("RCPT TO:<die@virtual.test.example>", "451")
            client.expect("RCPT TO:<jo@virtual.test.example>", "250")
        client.expect("RCPT TO:<jo@virtual.test.example>", "451")
        with TableServer(self.path, answers):
            client.expect("RCPT TO:<jo@virtual.test.example>", "250")

    def test_lists_about_clients_may_be_served_too(self):
        with TableServer(self.path, {"127.0.0.1": "OK"}) as server:
            self.start(mynetworks=self.table(), mydestination=self.table("d"),
                       smtpd_relay_restrictions="permit_mynetworks, reject")
            client, = self.clients(1)
            client.expect("RCPT TO:<x@elsewhere.example>", "250")
            self.assertIn("127.0.0.1", server.asked)
            self.assertIn("elsewhere.example", server.asked)


if __name__ == "__main__":
    unittest.main()
