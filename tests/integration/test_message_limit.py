"""Peers that take a few messages per connection and then close it: that is a habit, not a failure."""
from harness import *
from tools import Load, Sink, compare, missing_tools


class MessageLimit(Suite):
    def run_with(self, *sink_options, pen={}):
        if missing_tools():
            self.skipTest(missing_tools())
        with Sink(*sink_options) as sink, Instance({**relay_to(sink), **pen}) as mx:
            with Load(mx.port, "-n", "150", "-c", "5", "--domain", "rcpt.example", "--from", "ada@sender.example",
                      "--pipelining", "--limit", "60") as load:
                status, figures = load.wait()
                self.assertEqual((status, figures["taken"]), (0, 150))
                mx.wait_empty_queue()
                counts = sink.stop()
                self.assertNotIn("status=deferred", mx.log())
                self.assertEqual((counts["messages"], counts["duplicates"]), (150, 0))
                same, found = compare(load, sink)
                self.assertTrue(same, found)

    def test_421_after_three_messages(self):
        self.run_with("--max-messages", "3")

    def test_421_after_three_messages_with_chunking(self):
        self.run_with("--max-messages", "3", "--chunking")

    def test_421_after_one_message(self):
        self.run_with("--max-messages", "1", "--chunking")

    def test_421_after_two_messages_without_pipelining(self):
        self.run_with("--max-messages", "2", "--no-pipelining")


if __name__ == "__main__":
    unittest.main()
