"""A service of smtpd with several processes: they share its port, its limits, its tickets and its orders."""
import contextlib
import os
import re
import signal
import socket
import tempfile

from certificates import Authority
from harness import *
from test_tls_server import TlsClient, client_context
from tracing import Trace

SETTINGS = {"smtpd_peername_lookup": "no", "local_transport": "discard:", "smtpd_error_sleep_time": "0",
            "smtpd_client_event_limit_exceptions": ""}


def several(port, processes=3, places=6):
    return {str(port): None, f"127.0.0.1:{port}": f"inet n - n - {places} smtpd -o smtpd_process_count={processes}"}


class SeveralProcesses(Suite):
    @contextlib.contextmanager
    def instance(self, settings=None, **form):
        with Instance({**SETTINGS, **(settings or {})}, start=False) as mx:
            mx.set_services(several(mx.port, **form))
            mx.start()
            yield mx

    def sessions(self, mx):
        """By process: how many are open."""
        count = {}
        for pid, what in re.findall(r"smtpd\[(\d+)\]: (connect|disconnect) from", mx.log()):
            count[int(pid)] = count.get(int(pid), 0) + (1 if what == "connect" else -1)
        return {pid: n for pid, n in count.items() if n > 0}

    def test_each_serves_its_part_of_the_limit_and_the_next_client_waits(self):
        with self.instance({"smtpd_client_connection_count_limit": "0"}) as mx, contextlib.ExitStack() as open_:
            clients = [open_.enter_context(Client(mx.port)) for _ in range(6)]
            # None takes a third one: so this does not hang on who is quick.
            eventually(lambda: sorted(self.sessions(mx).values()) == [2, 2, 2], lambda: str(self.sessions(mx)))
            waiting = socket.create_connection(("127.0.0.1", mx.port), timeout=60)
            self.addCleanup(waiting.close)
            waiting.settimeout(0.2)
            with self.assertRaises(TimeoutError):
                waiting.recv(1)
            clients[3].quit()
            waiting.settimeout(60)
            self.assertEqual(waiting.recv(3), b"220")
            for client in clients[:3]:
                client.send("a@x.example", ["b@local.test.example"], b"Subject: x\r\n\r\nx\r\n")

    def test_clients_are_counted_for_all_together(self):
        with self.instance({"smtpd_client_connection_count_limit": "3"}) as mx, contextlib.ExitStack() as open_:
            clients = [open_.enter_context(Client(mx.port)) for _ in range(3)]
            with self.assertRaises(Refused) as refused:
                Client(mx.port)
            self.assertTrue(refused.exception.reply.startswith("421"))
            clients[0].quit()

            def served():
                with contextlib.suppress(Refused):
                    Client(mx.port).close()
                    return True
            eventually(served, "one has ended")

    def test_one_that_dies_takes_its_own_sessions_alone(self):
        with self.instance(places=2, processes=2) as mx, Client(mx.port) as one, Client(mx.port) as other:
            eventually(lambda: len(self.sessions(mx)) == 2, "each has one")
            victim = next(iter(self.sessions(mx)))
            os.kill(victim, signal.SIGKILL)

            def lives(client):
                with contextlib.suppress(OSError):
                    return client.command("NOOP").startswith("250")
            self.assertEqual(sorted((bool(lives(one)), bool(lives(other)))), [False, True])
            eventually(lambda: len(mx.pids()["smtpd"]) == 2, "the dead one is started again")
            with Client(mx.port) as client:
                client.send("a@x.example", ["b@local.test.example"], b"Subject: x\r\n\r\nx\r\n")

    def test_tls_sessions_are_resumed_at_another_process(self):
        directory = tempfile.TemporaryDirectory(prefix="pen-several-")
        self.addCleanup(directory.cleanup)
        os.chmod(directory.name, 0o755)
        ca = Authority(directory.name)
        issued = ca.issue("mx.test.example")
        with self.instance({"smtpd_tls_security_level": "may", "smtpd_tls_cert_file": issued.pem,
                            "smtpd_tls_key_file": issued.key}, places=2, processes=2) as mx:
            context = client_context(ca)
            with TlsClient(mx.port, context) as first:
                session = first.starttls().tls.session
                with TlsClient(mx.port, context, session=session) as second:
                    self.assertTrue(second.starttls().tls.session_reused)
                    eventually(lambda: len(self.sessions(mx)) == 2, "they are with two processes")

    def test_traces_states_and_a_reload_reach_all(self):
        with self.instance(places=2, processes=2) as mx:
            shown = [s["service"] for s in mx.status()["services"] if s["program"] == "smtpd"]
            self.assertEqual(shown, [f"127.0.0.1:{mx.port}/inet", f"127.0.0.1:{mx.port}/inet#2"])
            with Trace(mx, "in", services=2) as trace, Client(mx.port), Client(mx.port):
                eventually(lambda: trace.text().count("< EHLO client.example") == 2, trace.text)
            before = set(mx.pids()["smtpd"])
            mx.set(smtpd_banner="$myhostname ESMTP new")
            mx.reload_whole()
            self.assertFalse(before & set(mx.pids()["smtpd"]))
            with Client(mx.port) as one, Client(mx.port) as other:
                self.assertEqual([c.greeting for c in (one, other)], ["220 mx.test.example ESMTP new"] * 2)
            mx.set_services(several(mx.port, processes=1))
            mx.reload_whole()
            self.assertEqual(len(mx.pids()["smtpd"]), 1)
            with Client(mx.port) as client:
                client.send("a@x.example", ["b@local.test.example"], b"Subject: x\r\n\r\nx\r\n")

    def test_traces_follow_the_processes_that_are_there(self):
        with self.instance(processes=2) as mx:
            mx.set_services(several(mx.port, processes=1))
            mx.reload_whole()
            mx.set_services(several(mx.port, processes=4))  # of which nobody is told
            with Trace(mx, "in", "--count", "1") as trace, Client(mx.port) as client:
                client.quit()
                self.assertEqual(trace.ends(), 0)
                self.assertEqual([n.split(": ", 2)[2] for n in trace.notes], ["following"])


class SeveralClients(Suite):
    def test_connections_go_to_each_in_turn_and_what_one_had_goes_on_when_it_dies(self):
        with Peer() as near, Peer() as far, Instance(
                {"smtp_tls_security_level": "none", "transport_maps": inline(
                    {"near.example": f"out:[127.0.0.1]:{near.port}", "far.example": f"out:[127.0.0.1]:{far.port}"})},
                {"out": "unix - - n - 100 smtp -o smtp_process_count=2"}) as mx:
            held = []
            near.replies["DOT"] = lambda session, line: held.append(session) or (NOTHING if len(held) == 1 else None)
            with Client(mx.port) as client:
                client.send("a@x.example", ["b@near.example"], mail())
                eventually(lambda: held, "the first message is with its peer")
                client.send("a@x.example", ["b@far.example"], mail())
            far.wait_messages(1)
            mx.wait_log(r"to=<b@far\.example>.*status=sent")
            self.assertEqual(len(mx.pids()["smtp"]), 2)
            shown = {s["service"]: s.get("pid") for s in mx.status()["services"] if s["service"].startswith("out")}
            self.assertEqual(set(shown), {"out/unix", "out/unix#2"})
            done = int(re.search(r"smtp\[(\d+)\]: \w+: to=<b@far\.example>", mx.log()).group(1))
            busy = next(pid for pid in shown.values() if pid != done)
            os.kill(busy, signal.SIGKILL)
            # The content was out, so the message may have been taken: it is deferred, and tried again.
            mx.wait_log(r"to=<b@near\.example>.*status=deferred")
            mx.flush()
            near.wait_messages(2)
            mx.wait_empty_queue()


if __name__ == "__main__":
    unittest.main()
