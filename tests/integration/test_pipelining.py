"""Pipelining on the wire, with running programs: peers that break under it, and a stop in the middle."""
import collections
import json
import threading

from harness import *

FLOWS = {"whole transactions": ["PIPELINING", "CHUNKING", "8BITMIME"], "groups": ["PIPELINING", "8BITMIME"],
         "one by one": ["8BITMIME"]}


class Pipelining(Suite):
    def shown(self, mx, peer):
        done = mx.tool("pendest", "--json", "show", f"[127.0.0.1]:{peer.port}")
        return [e for e in map(json.loads, done.stdout.splitlines()) if e["type"] == "destination"]

    def test_a_peer_that_breaks_under_pipelining_is_remembered_over_a_restart_and_spoken_to_step_by_step(self):
        with Peer(features=["PIPELINING", "8BITMIME"]) as peer:
            ahead = []
            # Whether more than this line has arrived before it is answered.
            peer.replies["RCPT"] = lambda session, line: ahead.append(
                (session.number, not bytes(session.raw).endswith(line.encode() + b"\r\n"))) and None
            peer.replies["MAIL"] = ["354 what is this"]
            with Instance({**relay_to(peer), "minimal_backoff_time": "1s", "maximal_backoff_time": "2s",
                           "queue_run_delay": "1s"}) as mx:
                send(mx.port, "ada@sender.example", ["a@rcpt.example", "b@rcpt.example"], mail())
                peer.wait_messages(1)
                mx.wait_empty_queue()
                until = self.shown(mx, peer)[0]["step_by_step_until"]
                self.assertTrue([now for session, now in ahead if session > 0] and
                                not any(now for session, now in ahead if session > 0), ahead)
                # The knowledge must be on disk, not in the memory of a program.
                mx.stop()
                eventually(lambda: not mx.pids(), "stopped")
                mx.start()
                ahead.clear()
                send(mx.port, "ada@sender.example", ["c@rcpt.example", "d@rcpt.example"], mail())
                peer.wait_messages(2)
                self.assertEqual([now for _, now in ahead], [False, False])
                self.assertEqual(self.shown(mx, peer)[0]["step_by_step_until"], until)
                mx.tool("pendest", "forget", f"[127.0.0.1]:{peer.port}", check=True)
                eventually(lambda: all(s.closed for s in peer.sessions), "closed")
                send(mx.port, "ada@sender.example", ["e@rcpt.example", "f@rcpt.example"], mail())
                peer.wait_messages(3)
                self.assertIn(True, [now for _, now in ahead])

    def flushed(self, mx):
        try:
            mx.flush()
            return True
        except (OSError, ConnectionError):
            return False  # qmgr is being started again

    def test_a_delivery_is_recorded_while_the_peer_hangs_at_the_next_one(self):
        for verb in ("MAIL", "RCPT", "DATA"):
            with self.subTest(hangs_at=verb), Peer(features=["PIPELINING", "8BITMIME"]) as peer:
                over = threading.Event()

                def hangs(session, line):
                    if session.number == 0 and peer.messages:
                        over.wait(120)

                peer.replies[verb] = hangs
                with Instance({**relay_to(peer), "defer_transports": "smtp",
                               "smtp_destination_concurrency_limit": "1"}) as mx:
                    for n in range(2):
                        send(mx.port, "ada@sender.example", [f"r{n}@rcpt.example"], mail())
                    eventually(lambda: [e["queue_name"] for e in mx.queue()] == ["deferred"] * 2, "deferred")
                    mx.flush()  # both at once: the second one's commands follow the first one's content
                    peer.wait_messages(1)
                    mx.wait_log(": removed")
                    mx.kill("qmgr")
                    over.set()
                    eventually(lambda: self.flushed(mx) and len(peer.messages) > 1, "the second is delivered")
                    mx.wait_empty_queue()
                    self.assertEqual(sorted(r for m in peer.messages for r in m.recipients),
                                     ["r0@rcpt.example", "r1@rcpt.example"])

    def test_a_stop_under_load_sends_nothing_again_that_was_answered(self):
        for name, features in FLOWS.items():
            with self.subTest(flow=name), Peer(features=features) as peer:
                answered = collections.Counter()
                count = 120
                # The peer stops answering after some messages and continues once the stop has begun: the messages
                # that three connections hold then are answered, and the rest is left, however fast the machine is.
                stopping = threading.Event()
                peer.replies["RCPT"] = lambda session, line: (
                    len(peer.messages) >= count // 6 and not stopping.wait(60) and self.fail("no stop")) or None
                with Instance({**relay_to(peer), "smtp_destination_concurrency_limit": "3", "stop_drain_time": "20s",
                               "pipeline_window_messages": "4"}) as mx:
                    with Client(mx.port) as client:
                        for n in range(count):
                            client.send(f"s{n}@sender.example", [f"r{n}@rcpt.example"], mail())
                    peer.wait_messages(count // 6)
                    stop = threading.Thread(target=mx.stop)
                    stop.start()
                    mx.wait_log("terminating on signal")
                    stopping.set()
                    stop.join()
                    eventually(lambda: not mx.pids(), "stopped")
                    before = len(peer.messages)
                    self.assertLess(before, count, "nothing was left to do: no stop under load")
                    mx.start()
                    peer.wait_messages(count, seconds=60)
                    mx.wait_empty_queue()
                    answered.update(r for m in peer.messages for r in m.recipients)
                    twice = {r: n for r, n in answered.items() if n != 1}
                    self.assertEqual((twice, len(answered)), ({}, count))


if __name__ == "__main__":
    unittest.main()
