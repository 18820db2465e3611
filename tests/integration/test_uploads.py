"""Many large messages uploaded at once: all of them arrive as they were sent, and qmgr does not hold their files open."""
from harness import *
from uploads import BodySink, upload

CLIENTS, SIZE = 150, 1 << 20


class Uploads(Suite):
    def test_large_messages_uploaded_at_once_arrive_intact(self):
        with BodySink() as sink, Instance({**relay_to(sink), "smtpd_client_connection_count_limit": "0"}) as mx:
            figures = upload(mx, CLIENTS, SIZE)
            self.assertEqual(figures.refused, [])
            sink.wait(CLIENTS, 120)
            self.assertEqual(sink.bodies, figures.sent)
            mx.wait_empty_queue(60)
            self.assertLessEqual(figures.files, CLIENTS)
            # One connection and one file for each upload, and its copy while a write is under way.
            self.assertLess(figures.descriptors["smtpd"], 3 * CLIENTS + 100)


if __name__ == "__main__":
    unittest.main()
