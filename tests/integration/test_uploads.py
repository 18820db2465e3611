"""Many large messages uploaded at once: all arrive as they were sent, and qmgr does not hold their files open."""
import glob
import hashlib
import os
import random

from harness import *
from uploads import BodySink, pieces_of, upload

CLIENTS, SIZE = 150, 1 << 20


class Uploads(Suite):
    def test_large_messages_uploaded_at_once_arrive_intact(self):
        with BodySink() as sink, Instance({**relay_to(sink), "smtpd_client_connection_count_limit": "0"}) as mx:
            figures = upload(mx, [SIZE] * CLIENTS)
            self.assertEqual(figures.refused, [])
            sink.wait(CLIENTS, 120)
            self.assertEqual(sink.bodies, figures.sent)
            mx.wait_empty_queue(60)
            self.assertLessEqual(figures.files, CLIENTS)
            # One connection and one file for each upload, and a copy of the descriptor during a write.
            self.assertLess(figures.descriptors["smtpd"], 3 * CLIENTS + 100)

    def test_mixed_sizes_up_to_the_limit_share_the_files_of_the_pool(self):
        rounds, inline = 3, 8192
        small, middle, large = 16, 6, 4
        dice = random.Random(12)
        settings = {
            "message_size_limit": "60000000",
            "queue_inline_limit": str(inline),
            "smtpd_client_connection_count_limit": "0",
        }
        with BodySink() as sink, Instance({**relay_to(sink), **settings}) as mx:
            def at_rest():
                told = mx.figures()
                return told["spool_files"] == told["spool_files_free"] and int(told["spool_files"])

            sent = {}
            for n in range(rounds):
                sizes = [1024] + [dice.randrange(1024, inline - 1024) for _ in range(small)]
                sizes += [
                    int(inline * 2 * 16 ** dice.random()) for _ in range(middle)
                ]  # to 256 KiB: a file at their end
                sizes += [52428800] + [
                    int(600000 * 14 ** dice.random()) for _ in range(large - 1)
                ]  # from their beginning on
                dice.shuffle(sizes)
                figures = upload(mx, sizes, first=len(sent))
                self.assertEqual(figures.refused, [])
                sent.update(figures.sent)
                sink.wait(len(sent), 120)
                mx.wait_empty_queue(60)
                # As many files as were used at once, and no more in later rounds.
                files = eventually(at_rest, "every file is free again")
                self.assertGreaterEqual(files, large)
                self.assertLessEqual(files, large + middle)
            self.assertEqual(sink.bodies, sent)

    def begin(self, mx, key, parameters):
        """Sends a transaction up to the end of its header; returns the client."""
        client = Client(mx.port)
        self.addCleanup(client.close)
        client.expect(f"MAIL FROM:<a@sender.example> {parameters}", "250")
        client.expect(f"RCPT TO:<u{key}@rcpt.example>", "250")
        client.expect("DATA", "354")
        client.raw(f"Subject: large\r\nX-Key: {key}\r\n\r\n".encode())
        return client

    def test_a_lease_is_as_large_as_the_declared_size_and_content_may_be_larger(self):
        def sizes():
            return [os.stat(f).st_size for f in glob.glob(mx.path("spool", "**", "body-*"), recursive=True)]

        with BodySink() as sink, Instance(relay_to(sink)) as mx:
            for key, declared, size in ((0, 9_000_000, 900_000), (1, 1000, 3_000_000)):
                client = self.begin(mx, key, f"SIZE={declared}")
                *most, last = pieces_of(key, size)
                for piece in most:
                    client.raw(piece)
                eventually(lambda: max(sizes(), default=0) >= declared, "a file is leased")
                client.raw(last + b".\r\n")
                self.assertTrue(client.reply().startswith("250"))
            sink.wait(2, 60)
            for key, size in ((0, 900_000), (1, 3_000_000)):
                self.assertEqual(sink.bodies[key], hashlib.sha256(b"".join(pieces_of(key, size))).hexdigest())

    def test_clients_that_declare_the_most_and_send_nothing_get_no_file(self):
        clients = 100
        with BodySink() as sink, Instance({**relay_to(sink), "smtpd_client_connection_count_limit": "0"}) as mx:
            waiting = [self.begin(mx, key, "SIZE=10240000") for key in range(clients)]
            figures = upload(mx, [1 << 20], first=clients)
            self.assertEqual(figures.refused, [])
            self.assertLessEqual(figures.files, 1)  # the files may have been too short-lived to be seen
            for client in waiting:
                client.raw(b"short\r\n.\r\n")
                self.assertTrue(client.reply().startswith("250"))
            sink.wait(clients + 1, 60)
            self.assertEqual(int(mx.figures()["spool_files"]), 1)


if __name__ == "__main__":
    unittest.main()
