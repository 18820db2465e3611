"""session_classes: limits of SMTP sessions per class of hosts, incoming and outgoing together (seed 003)."""
import os
import signal
import socket

import own_network
from harness import *

SERVER = own_network.ADDRESS
INSIDE, OUTSIDE = "*.customer.fr", "*"
CUSTOMER = "*.customer.fr 8 8, * 3 3"  # the seed's own: a slow line, and users who send bursts
SOON = {"minimal_backoff_time": "1s", "maximal_backoff_time": "4s", "queue_run_delay": "1s"}


def setUpModule():
    own_network.enter()


class World:
    """Names and addresses of the tests: hosts inside customer.fr at .1xx, others at .2xx."""

    def __init__(self):
        records = {}
        for last in range(100, 250):
            name = f"h{last}.customer.fr" if last < 200 else f"h{last}.other.example"
            records[(f"{last}.2.0.192.in-addr.arpa", "PTR")] = [name]
            records[(name, "A")] = [f"192.0.2.{last}"]
        # A host that calls itself inside, and whose name does not lead back to it.
        records[("99.2.0.192.in-addr.arpa", "PTR")] = ["h100.customer.fr"]
        self.dns = Dns(records)
        self.port = free_port()

    def domain(self, domain, *hosts):
        """Mail for the domain goes to these last bytes of an address, each a preference of its own."""
        names = [f"h{last}.customer.fr" if last < 200 else f"h{last}.other.example" for last in hosts]
        self.dns.set(domain, "MX", [(10 * (i + 1), name) for i, name in enumerate(names)])

    def peer(self, last, **options):
        return Peer(host=f"192.0.2.{last}", port=self.port, **options)

    def instance(self, classes, *domains, **settings):
        return Instance({**self.dns.settings(), "inet_interfaces": f"127.0.0.1, {SERVER}", "mynetworks": "192.0.2.0/24",
                         "relay_domains": ", ".join(domains), "smtp_tcp_port": str(self.port),
                         "smtpd_client_connection_count_limit": "0", "session_classes": classes, **SOON, **settings})


class Classes(Suite):
    def setUp(self):
        self.world = World()
        self.addCleanup(self.world.dns.__exit__)
        self.clients = []
        self.addCleanup(self.hang_up)

    def hang_up(self):
        while self.clients:
            self.clients.pop().close()

    def enter(self, mx, last, host=SERVER):
        """A client that stays."""
        client = Client(mx.port, host, source=f"192.0.2.{last}" if host == SERVER else None)
        self.clients.append(client)
        return client

    def assertRefused(self, mx, last):
        with socket.create_connection((SERVER, mx.port), 30, (f"192.0.2.{last}", 0)) as client:
            said = client.makefile("rb").read()  # to its end: it is hung up on
        self.assertEqual(said, b"421 4.7.0 mx.test.example Error: too many sessions\r\n")

    def counts(self, mx):
        """Class -> (incoming, outgoing), as penstock status says."""
        classes = (mx.status() or {}).get("session_classes")
        if not isinstance(classes, list):
            return None
        return {c["class"]: (c["incoming"], c["outgoing"]) for c in classes}

    def wait_counts(self, mx, **expected):
        wanted = {{"inside": INSIDE, "outside": OUTSIDE}.get(k, k): v for k, v in expected.items()}

        def right():
            now = self.counts(mx)
            return now is not None and all(now.get(k) == v for k, v in wanted.items())
        eventually(right, lambda: f"counts {wanted}, are {self.counts(mx)}\n{mx.log()[-3000:]}")

    # -- incoming

    def test_the_seeds_example_eight_inside_and_three_elsewhere(self):
        with self.world.instance(CUSTOMER) as mx:
            for last in range(100, 108):
                self.enter(mx, last)
            for last in range(200, 203):
                self.enter(mx, last)
            self.wait_counts(mx, inside=(8, 0), outside=(3, 0))

    def test_a_class_that_holds_its_refuse_limit_refuses_and_the_other_does_not(self):
        with self.world.instance(CUSTOMER) as mx:
            outside = [self.enter(mx, last) for last in range(200, 203)]
            self.assertRefused(mx, 210)
            self.assertRefused(mx, 99)  # its name is not verified
            for last in range(100, 107):
                self.enter(mx, last)
            mx.wait_log(r"warning: Session limit exceeded: 3 sessions or more in class \* "
                        r"from h210\.other\.example\[192\.0\.2\.210\]")
            outside[0].quit()
            self.wait_counts(mx, inside=(7, 0), outside=(2, 0))
            self.enter(mx, 210).quit()
            # One that is cut off is gone as well.
            outside[1].close()
            self.wait_counts(mx, inside=(7, 0), outside=(1, 0))

    def test_the_first_mask_that_fits_decides(self):
        with self.world.instance("h100.customer.fr 9 1, 192.0.2.104/30 9 2, *.customer.fr 9 3, 192.0.2.200 9 1") as mx:
            self.enter(mx, 100)
            self.assertRefused(mx, 100)
            self.enter(mx, 104)
            self.enter(mx, 107)
            self.assertRefused(mx, 105)
            for last in (108, 109, 110):
                self.enter(mx, last)
            self.assertRefused(mx, 111)
            self.enter(mx, 200)
            self.assertRefused(mx, 200)
            for last in range(201, 211):  # no mask fits: no limit
                self.enter(mx, last)
            self.assertEqual(self.counts(mx), {"h100.customer.fr": (1, 0), "192.0.2.104/30": (2, 0),
                                               "*.customer.fr": (3, 0), "192.0.2.200": (1, 0)})

    def test_loopback_is_exempt_unless_a_mask_names_it(self):
        with self.world.instance("* 1 1") as mx:
            for _ in range(3):
                self.enter(mx, 1, host="127.0.0.1")
            self.assertEqual(self.counts(mx), {"*": (0, 0)})
        with self.world.instance("127.0.0.0/8 9 2, * 1 1") as mx:
            self.enter(mx, 1, host="127.0.0.1")
            self.enter(mx, 1, host="127.0.0.1")
            with self.assertRaises(Refused):
                self.enter(mx, 1, host="127.0.0.1")

    def test_without_classes_anvil_is_not_started_and_nothing_is_shown(self):
        with self.world.instance("") as mx:
            self.enter(mx, 100)
            self.assertNotIn("anvil", mx.pids())
            self.assertNotIn("session_classes", mx.status())
            self.assertNotIn("session class", mx.tool("penstock", "status").stdout)

    def test_with_every_class_full_nobody_is_accepted_until_a_session_ends(self):
        with self.world.instance("*.customer.fr 2 2, * 1 1") as mx:
            inside = [self.enter(mx, last) for last in (100, 101)]
            outside = self.enter(mx, 200)
            mx.wait_log("every session class is full")
            with socket.create_connection((SERVER, mx.port), source_address=("192.0.2.102", 0)) as waiting:
                accepted = len(mx.log())
                self.enter(mx, 1, host="127.0.0.1")  # no class, and a socket of its own
                self.assertNotIn("192.0.2.102", mx.log())
                waiting.settimeout(0.5)
                with self.assertRaises(TimeoutError):
                    waiting.recv(100)
                inside[0].quit()
                waiting.settimeout(30)
                self.assertTrue(waiting.recv(100).startswith(b"220 "))
                self.assertIn("192.0.2.102", mx.log()[accepted:])
            outside.quit()
            inside[1].quit()
            self.wait_counts(mx, inside=(0, 0), outside=(0, 0))

    # -- crashes

    def test_counts_are_right_after_smtpd_is_killed(self):
        with self.world.instance(CUSTOMER) as mx:
            for last in (100, 101, 200, 201, 202):
                self.enter(mx, last)
            self.wait_counts(mx, inside=(2, 0), outside=(3, 0))
            mx.kill("smtpd")
            self.wait_counts(mx, inside=(0, 0), outside=(0, 0))
            for last in range(200, 203):
                eventually(lambda: answers(mx.port), "smtpd is back")
                self.enter(mx, last)
            self.assertRefused(mx, 203)

    def test_counts_are_right_after_anvil_is_killed(self):
        with self.world.instance(CUSTOMER) as mx:
            outside = [self.enter(mx, last) for last in (200, 201, 202)]
            self.enter(mx, 100)
            self.wait_counts(mx, inside=(1, 0), outside=(3, 0))
            for _ in range(3):
                mx.kill("anvil")
                self.wait_counts(mx, inside=(1, 0), outside=(3, 0))
                self.assertRefused(mx, 210)
            self.assertTrue(outside[0].command("NOOP").startswith("250"))  # sessions noticed nothing
            mx.kill("anvil")
            outside[0].quit()
            self.wait_counts(mx, inside=(1, 0), outside=(2, 0))

    def test_while_anvil_does_not_answer_clients_are_let_in_up_to_what_smtpd_counts_itself(self):
        with self.world.instance(CUSTOMER) as mx:
            self.enter(mx, 200)
            pid = eventually(lambda: mx.pids().get("anvil"), "anvil runs")[0]
            os.kill(pid, signal.SIGSTOP)
            try:
                self.enter(mx, 201)
                self.enter(mx, 202)
                self.assertRefused(mx, 203)
            finally:
                os.kill(pid, signal.SIGCONT)
            self.wait_counts(mx, inside=(0, 0), outside=(3, 0))

    # -- wrong values

    def test_a_wrong_entry_is_named_by_check_and_start(self):
        with self.world.instance("", ) as mx:
            mx.stop()
            mx.set(session_classes="*.customer.fr 8 8, 192.0.2.1/24 20 10, * 3 3")
            for words in ("check", "start"):
                done = mx.tool("penstock", words)
                self.assertEqual(done.returncode, 78, words)
                self.assertRegex(done.stdout + done.stderr,
                                 r'main\.cf:\d+: session_classes: entry 2 \("192\.0\.2\.1/24 20 10"\): .*has bits set '
                                 "beyond its mask")
            mx.set(session_classes="* 3 3")
            self.assertEqual(mx.tool("penstock", "check").returncode, 0)
            mx.set_services({"anvil": None})
            self.assertIn("needs the service anvil", mx.tool("penstock", "check").stdout)

    def test_status_tells_limits_and_counts(self):
        with self.world.instance(CUSTOMER) as mx:
            self.enter(mx, 100)
            for last in (200, 201, 202):
                self.enter(mx, last)
            self.assertRefused(mx, 203)
            self.wait_counts(mx, inside=(1, 0), outside=(3, 0))
            self.assertEqual(mx.status()["session_classes"][1],
                             {"class": "*", "total_limit": 3, "refuse_limit": 3, "incoming": 3, "outgoing": 0,
                              "refused": 1, "outgoing_waits": False})
            self.assertRegex(mx.tool("penstock", "status").stdout, r"(?m)^\* +3 +0 +3 +3 +1$")


if __name__ == "__main__":
    unittest.main()
