"""Many large messages uploaded at once: all of them arrive as they were sent, and qmgr does not hold their files open."""
import random

from harness import *
from uploads import BodySink, upload

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
            # One connection and one file for each upload, and its copy while a write is under way.
            self.assertLess(figures.descriptors["smtpd"], 3 * CLIENTS + 100)

    def test_mixed_sizes_up_to_the_limit_share_the_files_of_the_pool(self):
        rounds, inline = 3, 8192
        small, middle, large = 16, 6, 4
        dice = random.Random(12)
        settings = {"message_size_limit": "60000000", "queue_inline_limit": str(inline), "smtpd_client_connection_count_limit": "0"}
        with BodySink() as sink, Instance({**relay_to(sink), **settings}) as mx:
            def at_rest():
                told = mx.figures()
                return told["spool_files"] == told["spool_files_free"] and int(told["spool_files"])

            sent = {}
            for n in range(rounds):
                sizes = [1024] + [dice.randrange(1024, inline - 1024) for _ in range(small)]
                sizes += [int(inline * 2 * 16 ** dice.random()) for _ in range(middle)]  # to 256 KiB: a file at their end
                sizes += [52428800] + [int(600000 * 14 ** dice.random()) for _ in range(large - 1)]  # from their beginning
                dice.shuffle(sizes)
                figures = upload(mx, sizes, first=len(sent))
                self.assertEqual(figures.refused, [])
                sent.update(figures.sent)
                sink.wait(len(sent), 120)
                mx.wait_empty_queue(60)
                # As many files as there were at once, and no more in the later rounds.
                files = eventually(at_rest, "every file is free again")
                self.assertGreaterEqual(files, large)
                self.assertLessEqual(files, large + middle)
            self.assertEqual(sink.bodies, sent)


if __name__ == "__main__":
    unittest.main()
