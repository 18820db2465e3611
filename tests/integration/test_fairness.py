"""What one destination or one sender has waiting does not hold up the mail of others: by order and events, not by time."""
import threading

from harness import *

SLICE = 100  # messages of one session


def flood(port, count, sender, domain):
    """So many messages of one recipient each."""
    for begin in range(0, count, SLICE):
        with Client(port) as client:
            for i in range(begin, min(count, begin + SLICE)):
                client.send(sender, [f"u{i}@{domain}"], mail())
            client.quit()


class Fairness(Suite):
    def test_a_tarpit_with_more_messages_than_the_active_set_holds_delays_nobody(self):
        opened = threading.Event()
        with Peer() as tarpit, Peer() as peer:
            tarpit.replies["MAIL"] = lambda session, line: opened.wait(300) and None
            settings = relay_to(tarpit, "tarpit.example")
            settings["relay_domains"] += ", good.example"
            settings["transport_maps"] = inline({"tarpit.example": f"smtp:[127.0.0.1]:{tarpit.port}",
                                                 "good.example": f"smtp:[127.0.0.1]:{peer.port}"})
            # Two connections: what stands on their backlogs is small beside what waits, as with the usual limits.
            with Instance({**settings, "qmgr_message_active_limit": "200", "smtp_destination_concurrency_limit": "2",
                           "minimal_backoff_time": "1s",
                           "maximal_backoff_time": "2s", "queue_run_delay": "1s"}) as mx:
                flood(mx.port, 600, "bulk@sender.example", "tarpit.example")
                for i in range(20):
                    send(mx.port, "ada@sender.example", [f"v{i}@good.example"], mail())
                # All of them arrive while the tarpit has answered nothing: it lets go only after that.
                peer.wait_messages(20, seconds=120)
                self.assertEqual(len(tarpit.messages), 0)
                self.assertFalse(opened.is_set())
                opened.set()
                got = tarpit.wait_messages(600, seconds=300)
                mx.wait_empty_queue()
                self.assertEqual(sorted(r for m in got for r in m.recipients),
                                 sorted(f"u{i}@tarpit.example" for i in range(600)))

    def test_a_message_does_not_wait_behind_hundreds_of_one_sender_for_the_same_host(self):
        opened = threading.Event()
        with Peer() as peer:
            peer.replies["MAIL"] = lambda session, line: opened.wait(300) and None
            with Instance({**relay_to(peer), "smtp_destination_concurrency_limit": "1"}) as mx:
                flood(mx.port, 400, "bulk@sender.example", "rcpt.example")
                send(mx.port, "ada@sender.example", ["other@rcpt.example"], mail())
                # Its route is known, so it waits where the others do.
                eventually(lambda: len(mx.queue()) == 401, "all in the queue")
                mx.wait_log(r"from=<ada@sender\.example>, .*\(queue active\)")
                opened.set()
                got = peer.wait_messages(401, seconds=120)
                at = [m.recipients[0] for m in got].index("other@rcpt.example")
                # Before it: what stood on the connection already, the sender's first ten, one turn of the rest.
                self.assertLess(at, 100)


if __name__ == "__main__":
    unittest.main()
