"""The backlog of one destination or sender does not hold up the mail of others: shown by order, not by time."""
import contextlib
import threading

from harness import *

SLICE = 100  # messages of one session


def flood(port, count, sender, domain):
    """Sends that many messages of one recipient each."""
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
            # Two connections: few messages wait on them compared with the backlog, as with the usual limits.
            with Instance({**settings, "qmgr_message_active_limit": "200", "smtp_destination_concurrency_limit": "2",
                           "minimal_backoff_time": "1s",
                           "maximal_backoff_time": "2s", "queue_run_delay": "1s"}) as mx:
                flood(mx.port, 600, "bulk@sender.example", "tarpit.example")
                for i in range(20):
                    send(mx.port, "ada@sender.example", [f"v{i}@good.example"], mail())
                # All of them arrive before the tarpit has answered anything: it is released only afterwards.
                peer.wait_messages(20, seconds=120)
                self.assertEqual(len(tarpit.messages), 0)
                self.assertFalse(opened.is_set())
                opened.set()
                got = tarpit.wait_messages(600, seconds=300)
                mx.wait_empty_queue()
                self.assertEqual(sorted(r for m in got for r in m.recipients),
                                 sorted(f"u{i}@tarpit.example" for i in range(600)))

    def test_dead_hosts_leave_workers_for_those_that_work(self):
        """Three in ten hosts never answer, and there are fewer workers than dead hosts."""
        go = threading.Event()
        with contextlib.ExitStack() as stack:
            live = [stack.enter_context(Peer()) for _ in range(14)]
            dead = [stack.enter_context(Peer()) for _ in range(6)]
            for peer in dead:
                peer.replies["GREETING"] = lambda session, line: go.wait(300) and None
            stack.callback(go.set)
            hosts = {f"h{i}.example": peer for i, peer in enumerate(dead + live)}
            settings = relay_to(live[0])
            settings["relay_domains"] = ", ".join(hosts)
            settings["transport_maps"] = inline({d: f"smtp:[127.0.0.1]:{peer.port}" for d, peer in hosts.items()})
            with Instance(settings, {"smtp": "unix - - n - 5 smtp"}) as mx:
                for n in range(5):
                    for domain in hosts:
                        send(mx.port, f"s{n}{domain}@sender.example", [f"u{n}@{domain}"], mail())
                for peer in live:
                    peer.wait_messages(5, seconds=200)
                # All of them arrived before any dead host answered, and some dead hosts had a connection.
                self.assertFalse(go.is_set())
                self.assertEqual(sum(len(peer.messages) for peer in dead), 0)
                self.assertGreater(sum(len(peer.sessions) for peer in dead), 0)
                mx.stop()

    def test_a_tarpit_with_its_usual_connections_leaves_a_small_active_set_to_others(self):
        """Twenty connections could carry more jobs than the active set has places."""
        opened = threading.Event()
        with Peer() as tarpit, Peer() as peer:
            tarpit.replies["MAIL"] = lambda session, line: opened.wait(300) and None
            settings = relay_to(tarpit, "tarpit.example")
            settings["relay_domains"] += ", good.example"
            settings["transport_maps"] = inline({"tarpit.example": f"smtp:[127.0.0.1]:{tarpit.port}",
                                                 "good.example": f"smtp:[127.0.0.1]:{peer.port}"})
            with Instance({**settings, "qmgr_message_active_limit": "100", "minimal_backoff_time": "1s",
                           "maximal_backoff_time": "2s", "queue_run_delay": "1s"}) as mx:
                flood(mx.port, 300, "bulk@sender.example", "tarpit.example")
                for i in range(20):
                    send(mx.port, "ada@sender.example", [f"v{i}@good.example"], mail())
                peer.wait_messages(20, seconds=120)
                self.assertEqual((len(tarpit.messages), opened.is_set()), (0, False))
                opened.set()
                got = tarpit.wait_messages(300, seconds=300)
                mx.wait_empty_queue()
                self.assertEqual(sorted(r for m in got for r in m.recipients),
                                 sorted(f"u{i}@tarpit.example" for i in range(300)))

    def test_a_message_does_not_wait_behind_hundreds_of_one_sender_for_the_same_host(self):
        opened = threading.Event()
        with Peer() as peer:
            peer.replies["MAIL"] = lambda session, line: opened.wait(300) and None
            with Instance({**relay_to(peer), "smtp_destination_concurrency_limit": "1"}) as mx:
                flood(mx.port, 400, "bulk@sender.example", "rcpt.example")
                send(mx.port, "ada@sender.example", ["other@rcpt.example"], mail())
                # Its route is known, so it waits with the others.
                eventually(lambda: len(mx.queue()) == 401, "all in the queue")
                mx.wait_log(r"from=<ada@sender\.example>, .*\(queue active\)")
                opened.set()
                got = peer.wait_messages(401, seconds=120)
                at = [m.recipients[0] for m in got].index("other@rcpt.example")
                # Before it came what was already on the connection, the sender's first ten, and one turn of the rest.
                self.assertLess(at, 100)


if __name__ == "__main__":
    unittest.main()
