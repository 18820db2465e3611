"""Reloads under load: no message refused, lost, deferred or delivered twice."""
import re
import time

from harness import *
from tools import Load, Sink, compare, missing_tools


class Reload(Suite):
    def reload_five_times(self, sink_options=(), load_options=()):
        if missing_tools():
            self.skipTest(missing_tools())
        with Sink(*sink_options) as sink, Instance(relay_to(sink)) as mx:
            # More than it can send: it is stopped when the last new queue manager works.
            with Load(mx.port, "-n", "1000000", "-c", "20", "-m", "50", "--rate", "600", "--domain", "rcpt.example",
                      "--from", "ada@sender.example", "--pipelining", "--limit", "600", *load_options) as load:
                for i in range(5):
                    before = mx.log().count("queue recovered")
                    time.sleep(0.5)  # a time of load between reloads: there is nothing to wait for
                    mx.reload()
                    eventually(lambda: mx.log().count("queue recovered") > before, "the new queue manager works")
                status, figures = load.stop()
                self.assertEqual((status, figures["refused"]), (0, 0), figures)
                self.assertGreater(figures["taken"], 0)
                mx.wait_empty_queue()
                counts = sink.stop()
                same, found = compare(load, sink)
                self.assertTrue(same, found)
                self.assertEqual((counts["messages"], counts["duplicates"]), (figures["taken"], 0))
                self.assertEqual(re.findall(r".*status=deferred.*|.*(?:error|panic|fatal):.*", mx.log())[:5], [])
                longest = max(float(d) for d in re.findall(r" delay=([\d.]+),", mx.log()))
                self.assertLess(longest, 290, "no message waits for a retry")

    def test_small_messages(self):
        self.reload_five_times()

    def test_messages_with_bodies_in_the_spool(self):
        self.reload_five_times(load_options=("-s", "40000"))

    def test_a_slow_peer(self):
        self.reload_five_times(("--dot-delay", "50"))


if __name__ == "__main__":
    unittest.main()
