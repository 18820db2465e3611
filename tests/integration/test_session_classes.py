"""session_classes: limits of SMTP sessions per class of hosts, incoming and outgoing together."""
import json
import socket
import threading
import time

import own_network
from harness import *
from test_penapi import UNIX, Api

SERVER = own_network.ADDRESS
INSIDE, OUTSIDE = "*.customer.fr", "*"
CUSTOMER = "*.customer.fr 8 8, * 3 3"  # docs/origins.md: a slow line, and users who send bursts
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
            records[(f"d{last}.example", "MX")] = [(10, name)]
        # A host that claims to be inside, but whose name does not lead back to it.
        records[("99.2.0.192.in-addr.arpa", "PTR")] = ["h100.customer.fr"]
        self.dns = Dns(records)
        self.port = free_port()

    def instance(self, classes, **settings):
        """Relays mail for d100.example … d249.example to the host of the same number."""
        return Instance({**self.dns.settings(), "inet_interfaces": f"127.0.0.1, {SERVER}", "mynetworks": "192.0.2.0/24",
                         "relay_domains": "example", "smtp_tcp_port": str(self.port),
                         "smtpd_client_connection_count_limit": "0", "session_classes": classes, **SOON, **settings})


    def sockets_out(self):
        """The sockets of a process that are connected to the peers, in any state; closed ones belong to no process."""
        with open("/proc/net/tcp") as table:
            rows = [line.split() for line in table.readlines()[1:]]
        return sum(int(row[2].split(":")[1], 16) == self.port and row[9] != "0" for row in rows)

    def connections_out(self):
        """Open and opening connections to the peers in the kernel's table, from the makers' side. The table is read
        in parts, so this is no snapshot."""
        with open("/proc/net/tcp") as table:
            rows = [line.split() for line in table.readlines()[1:]]
        return {
            (row[1], row[2]) for row in rows if int(row[2].split(":")[1], 16) == self.port and row[3] in ("01", "02")
        }

    def sessions_out(self):
        """The number of connections at one moment: those found both before and after it."""
        return len(self.connections_out() & self.connections_out())


class Classes(Suite):
    def setUp(self):
        self.world = World()
        self.addCleanup(self.world.dns.__exit__)
        self.clients = []
        self.addCleanup(self.hang_up)
        self.go_on = threading.Event()
        self.addCleanup(self.go_on.set)

    def peers(self, *lasts, hold=False):
        """Hosts that take mail; with hold, none answers the end of a message before self.go_on."""
        found = []
        for last in lasts:
            peer = Peer(host=f"192.0.2.{last}", port=self.world.port)
            self.addCleanup(peer.close)
            if hold:
                peer.replies["DOT"] = lambda session, line: [self.go_on.wait(60)] and None
            found.append(peer)
        return found

    def mail_to(self, mx, *lasts, name="u"):
        """Connects as a client that belongs to no class."""
        for last in lasts:
            send(mx.port, "ada@sender.example", [f"{name}@d{last}.example"], mail())

    def hang_up(self):
        while self.clients:
            self.clients.pop().close()

    def enter(self, mx, last, host=SERVER):
        """Connects a client that stays."""
        client = Client(mx.port, host, source=f"192.0.2.{last}" if host == SERVER else None)
        self.clients.append(client)
        return client

    def assertRefused(self, mx, last):
        with socket.create_connection((SERVER, mx.port), 30, (f"192.0.2.{last}", 0)) as client:
            said = client.makefile("rb").read()  # reads to the end: the server hangs up
        self.assertEqual(said, b"421 4.7.0 mx.test.example Error: too many sessions\r\n")

    def counts(self, mx):
        """Returns class -> (incoming, outgoing), from penstock status."""
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

    def test_the_example_of_the_origin_eight_inside_and_three_elsewhere(self):
        with self.world.instance(CUSTOMER) as mx:
            for last in range(100, 108):
                self.enter(mx, last)
            for last in range(200, 203):
                self.enter(mx, last)
            self.wait_counts(mx, inside=(8, 0), outside=(3, 0))

    def test_a_class_that_holds_its_refuse_limit_refuses_and_the_other_does_not(self):
        with self.world.instance(CUSTOMER) as mx:
            mx.set_services(dict([UNIX]))
            mx.reload_whole()
            outside = [self.enter(mx, last) for last in range(200, 203)]
            self.assertRefused(mx, 210)
            self.assertRefused(mx, 99)  # its name is not verified
            mx.wait_log(r"warning: hostname h100\.customer\.fr does not resolve to address 192\.0\.2\.99")
            self.assertEqual(Api(mx).figures("/metrics?compat=postfix")
                             ["postfix_smtpd_forward_confirmed_reverse_dns_errors_total"], 1)
            for last in range(100, 107):
                self.enter(mx, last)
            mx.wait_log(r"warning: Session limit exceeded: 3 sessions or more in class \* "
                        r"from h210\.other\.example\[192\.0\.2\.210\]")
            outside[0].quit()
            self.wait_counts(mx, inside=(7, 0), outside=(2, 0))
            self.enter(mx, 210).quit()
            # A connection that is cut off frees its place, too.
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
            for last in range(201, 211):  # no mask matches: no limit
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

    # -- outgoing

    def test_outgoing_connections_wait_at_the_total_limit_and_nothing_is_deferred(self):
        with self.world.instance(CUSTOMER) as mx:
            peers = self.peers(200, 201, 202, 203, 204, hold=True)
            self.mail_to(mx, 200, 201, 202)
            self.wait_counts(mx, inside=(0, 0), outside=(0, 3))
            self.mail_to(mx, 203, 204)
            eventually(lambda: mx.status()["session_classes"][1]["outgoing_waits"], "mail waits")
            # A lease counts before its connection is made.
            eventually(
                lambda: self.world.sessions_out() == 3, lambda: f"three connections, not {self.world.sessions_out()}"
            )
            self.assertEqual([e["queue_name"] for e in mx.queue()], ["active"] * 5)
            inside = self.peers(100)[0]
            self.mail_to(mx, 100)  # the other class has room
            inside.wait_messages(1)
            self.assertEqual((peers[3].sessions, peers[4].sessions), ([], []))
            self.go_on.set()
            for peer in peers:
                peer.wait_messages(1)
            mx.wait_empty_queue()
            self.assertNotIn("status=deferred", mx.log())
            self.assertEqual([len(peer.sessions) for peer in peers], [1] * 5)

    def explain(self, mx, recipient):
        return json.loads(mx.tool("pendest", "--json", "explain", recipient, check=True).stdout)

    def test_explain_names_the_class_its_limits_its_counts_and_who_waits(self):
        with self.world.instance(CUSTOMER) as mx:
            free = self.explain(mx, "u@d200.example")
            self.assertEqual((free["decision"], free["hosts"][0]["session_class"], free["session_classes"]),
                             ("unused", OUTSIDE, [{"class": OUTSIDE, "total_limit": 3, "refuse_limit": 3, "incoming": 0,
                                                   "outgoing": 0, "hosts_in_line": 0}]))
            peers = self.peers(200, 201, 202, 203, hold=True)
            self.enter(mx, 210)
            self.mail_to(mx, 200, 201)
            self.wait_counts(mx, outside=(1, 2))
            self.mail_to(mx, 202)
            eventually(lambda: self.explain(mx, "u@d202.example")["hosts"][0]["waits_for_session"], "mail waits")
            full = self.explain(mx, "u@d202.example")
            self.assertEqual((full["decision"], full["session_classes"]),
                             ("wait", [{"class": OUTSIDE, "total_limit": 3, "refuse_limit": 3, "incoming": 1,
                                        "outgoing": 2, "hosts_in_line": 1}]))
            text = mx.tool("pendest", "explain", "u@d202.example", check=True).stdout
            self.assertIn(
                "class        *: outgoing sessions wait at 3, clients are refused at 3; 2 outgoing (leases of "
                "qmgr) and 1 incoming now: full, hosts in line for a session: 1\n",
                text,
            )
            self.assertRegex(text, r"level 1 .*h202\.other\.example.*, session class \* \(waits for a session to end\)")
            self.assertRegex(mx.tool("pendest", "show", "h202.other.example", check=True).stdout,
                             r"session class +\*: it waits for a session to end")
            inside = self.explain(mx, "u@d100.example")  # the other class has room
            self.assertEqual(
                (inside["decision"], inside["hosts"][0]["session_class"], inside["session_classes"][0]["total_limit"]),
                ("unused", INSIDE, 8),
            )
            self.go_on.set()
            for peer in peers[:3]:
                peer.wait_messages(1)

    def test_explain_says_so_when_anvil_does_not_answer(self):
        with self.world.instance(CUSTOMER) as mx:
            self.enter(mx, 100)  # anvil runs
            anvil = mx.pids()["anvil"][0]
            with suspended(anvil):
                seen = self.explain(mx, "u@d200.example")
            self.assertEqual((seen["decision"], seen["session_classes"][0]["total_limit"]), ("unused", 3))
            self.assertIn("anvil cannot be asked", seen["session_classes"][0]["unknown"])

    def to_anvil(self):
        """Connections to anvil's socket in the kernel's table (of our own network): taken by anvil, or waiting."""
        with open("/proc/net/unix") as table:
            rows = [line.split() for line in table]
        return sum(len(row) == 8 and row[5] in ("02", "03") and row[7].endswith("private/anvil") for row in rows)

    def test_explains_share_one_question_to_anvil(self):
        with self.world.instance(CUSTOMER) as mx:
            self.enter(mx, 100)  # anvil runs
            before = self.to_anvil()
            self.assertGreater(before, 0)
            anvil = mx.pids()["anvil"][0]
            with suspended(anvil):
                seen = []
                asking = [
                    threading.Thread(target=lambda: seen.append(self.explain(mx, "u@d200.example"))) for _ in range(12)
                ]
                for thread in asking:
                    thread.start()
                most = 0
                while any(thread.is_alive() for thread in asking):
                    most = max(most, self.to_anvil() - before)
                    asking[0].join(0.02)
            self.assertEqual(len(seen), 12)
            self.assertTrue(all("anvil cannot be asked" in e["session_classes"][0]["unknown"] for e in seen), seen)
            # One question; the next may come before anvil has noticed that nobody waits for the first any more.
            self.assertIn(most, (1, 2))

    def test_incoming_and_outgoing_sessions_are_one_count(self):
        with self.world.instance(CUSTOMER) as mx:
            (busy, waits) = self.peers(200, 201, hold=True)
            client = self.enter(mx, 210)
            self.enter(mx, 211)
            self.mail_to(mx, 200)
            self.wait_counts(mx, outside=(2, 1))
            self.assertRefused(mx, 212)  # all its sessions are busy
            self.mail_to(mx, 201)
            eventually(lambda: mx.status()["session_classes"][1]["outgoing_waits"], "mail waits")
            client.quit()
            waits.wait_sessions(1)
            self.wait_counts(mx, outside=(1, 2))
            self.assertRefused(mx, 213)
            self.go_on.set()
            busy.wait_messages(1)
            waits.wait_messages(1)

    def test_eight_inside_in_both_directions_beside_a_full_outside(self):
        with self.world.instance(CUSTOMER) as mx:
            for last in range(200, 203):
                self.enter(mx, last)
            self.peers(*range(100, 106), hold=True)
            self.mail_to(mx, *range(100, 106))
            self.wait_counts(mx, inside=(0, 6), outside=(3, 0))
            self.enter(mx, 110)
            self.enter(mx, 111)
            self.wait_counts(mx, inside=(2, 6), outside=(3, 0))
            mx.wait_log("every session class is full")
            self.go_on.set()
            self.enter(mx, 112)

    def test_an_idle_outgoing_connection_closes_for_a_client(self):
        with self.world.instance("192.0.2.128/25 9 9, *.customer.fr 2 2, * 1 1") as mx:
            peers = self.peers(100, 101)
            began = self.idle_connections(mx, 100, 101)
            self.enter(mx, 102)
            eventually(lambda: any(p.sessions[0].closed for p in peers), "one is closed")
            counts, closed = self.counts(mx), sum(p.sessions[0].closed for p in peers)
            self.skip_if_late(began)
            self.assertEqual((counts["*.customer.fr"], closed), ((1, 1), 1))

    def test_a_client_is_let_in_when_the_connection_that_makes_way_is_closed_on_the_wire(self):
        with self.world.instance("*.customer.fr 1 1") as mx:
            peer, = self.peers(100)
            peer.replies["QUIT"] = lambda session, line: [self.go_on.wait(60)] and None
            self.idle_connections(mx, 100)
            self.enter(mx, 102)
            self.assertEqual(self.world.sockets_out(), 0)

    def skip_if_late(self, began):
        """Idle connections close by themselves after two seconds, which would hide the effect."""
        if time.monotonic() - began > 1.9:
            self.skipTest("too slow here to see what closed before its time")

    def idle_connections(self, mx, *lasts):
        """Sends mail to one host after the other; the connections stay open. Returns when the first fell idle, or
        earlier."""
        began = time.monotonic()
        for count, last in enumerate(lasts):
            self.mail_to(mx, last)
            eventually(lambda: mx.log().count("status=sent") > count, "delivered")
        return began

    def test_an_idle_outgoing_connection_closes_for_another_host_of_the_class(self):
        with self.world.instance("*.customer.fr 2 2") as mx:
            first = self.peers(100, 101)
            third, fourth = self.peers(102, 103)
            began = self.idle_connections(mx, 100, 101)
            self.mail_to(mx, 102)
            third.wait_messages(1)
            eventually(lambda: any(p.sessions[0].closed for p in first), "one is closed")
            closed = [p.sessions[0].closed for p in first]
            self.skip_if_late(began)
            self.assertEqual(closed, [True, False])
            self.mail_to(mx, 103)
            fourth.wait_messages(1)
            self.assertNotIn("status=deferred", mx.log())

    def test_a_refuse_limit_above_the_total_lets_clients_in_while_outgoing_mail_waits(self):
        with self.world.instance("* 1 3") as mx:
            peer = self.peers(200)[0]
            clients = [self.enter(mx, last) for last in (210, 211, 212)]
            self.mail_to(mx, 200)
            eventually(lambda: mx.status()["session_classes"][0]["outgoing_waits"], "mail waits")
            clients[0].quit()
            clients[1].quit()
            self.wait_counts(mx, outside=(1, 0))
            self.assertEqual(peer.sessions, [])
            clients[2].quit()
            peer.wait_messages(1)

    def test_hosts_at_one_address_are_counted_by_the_name_of_the_mx_host(self):
        with self.world.instance(CUSTOMER) as mx:
            self.world.dns.set("shared.customer.fr", "A", ["192.0.2.150"])
            self.world.dns.set("shared.other.example", "A", ["192.0.2.150"])
            self.world.dns.set("d1.example", "MX", [(10, "shared.customer.fr")])
            self.world.dns.set("d2.example", "MX", [(10, "shared.other.example")])
            peer = self.peers(150, hold=True)[0]
            self.mail_to(mx, 1, 2)
            self.wait_counts(mx, inside=(0, 1), outside=(0, 1))
            self.go_on.set()
            peer.wait_messages(2)

    def test_many_hosts_share_three_sessions_without_a_failure(self):
        with self.world.instance("* 3 3") as mx:
            lasts = range(200, 220)
            peers = self.peers(*lasts)
            most = 0
            for round_ in range(10):
                self.mail_to(mx, *lasts, name=f"u{round_}")
                most = max(most, self.world.sessions_out())

            def ended():
                nonlocal most
                most = max(most, self.world.sessions_out())
                return all(len(p.messages) == 10 for p in peers)
            eventually(ended, lambda: f"all delivered: {[len(p.messages) for p in peers]}", 60)
            self.assertLessEqual(most, 3)
            self.assertNotIn("status=deferred", mx.log())
            mx.wait_empty_queue()
            self.wait_counts(mx, outside=(0, 0))

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
            self.assertTrue(outside[0].command("NOOP").startswith("250"))  # the sessions are not affected
            mx.kill("anvil")
            outside[0].quit()
            self.wait_counts(mx, inside=(1, 0), outside=(2, 0))

    def test_counts_are_right_after_anvil_is_killed_under_outgoing_mail(self):
        with self.world.instance(CUSTOMER) as mx:
            peers = self.peers(200, 201, 202, 203, hold=True)
            self.mail_to(mx, 200, 201)
            self.enter(mx, 210)
            self.wait_counts(mx, outside=(1, 2))
            self.mail_to(mx, 202, 203)
            for _ in range(3):
                mx.kill("anvil")
                self.wait_counts(mx, outside=(1, 2))
                self.assertRefused(mx, 211)
            eventually(
                lambda: self.world.sessions_out() == 2, lambda: f"two connections, not {self.world.sessions_out()}"
            )
            self.go_on.set()
            for peer in peers:
                peer.wait_messages(1)
            self.assertNotIn("status=deferred", mx.log())

    def test_counts_are_right_after_qmgr_is_killed(self):
        with self.world.instance(CUSTOMER) as mx:
            peers = self.peers(200, 201, 202, 203, hold=True)
            self.mail_to(mx, 200, 201)
            self.enter(mx, 210)
            self.wait_counts(mx, outside=(1, 2))
            self.mail_to(mx, 202)
            mx.kill("qmgr")
            self.go_on.set()
            for peer in peers[:3]:
                peer.wait_messages(1)
            mx.wait_empty_queue()
            self.wait_counts(mx, outside=(1, 0))
            self.mail_to(mx, 203)
            peers[3].wait_messages(1)

    def test_counts_are_right_after_smtp_is_killed(self):
        with self.world.instance(CUSTOMER) as mx:
            peers = self.peers(200, 201, 202, 203)
            mails = []
            for peer in peers:
                peer.replies["MAIL"] = lambda session, line: [mails.append(line), self.go_on.wait(60)] and None
            self.mail_to(mx, 200, 201, 202)
            self.wait_counts(mx, outside=(0, 3))
            eventually(lambda: len(mails) == 3, "every delivery has begun")
            self.mail_to(mx, 203)
            mx.kill("smtp")
            eventually(lambda: sum(len(p.sessions) for p in peers) >= 6, "they are tried again")
            self.wait_counts(mx, outside=(0, 3))
            eventually(
                lambda: self.world.sessions_out() == 3, lambda: f"three connections, not {self.world.sessions_out()}"
            )
            self.go_on.set()
            for peer in peers:
                peer.wait_messages(1)
            mx.wait_empty_queue()
            self.wait_counts(mx, outside=(0, 0))

    def test_while_anvil_does_not_answer_clients_are_let_in_up_to_what_smtpd_counts_itself(self):
        with self.world.instance(CUSTOMER) as mx:
            self.enter(mx, 200)
            pid = eventually(lambda: mx.pids().get("anvil"), "anvil runs")[0]
            with suspended(pid):
                self.enter(mx, 201)
                self.enter(mx, 202)
                self.assertRefused(mx, 203)
            self.wait_counts(mx, inside=(0, 0), outside=(3, 0))

    def test_a_reload_changes_the_limits_and_sessions_that_live_are_counted(self):
        with self.world.instance("* 3 3") as mx:
            self.enter(mx, 200)
            self.enter(mx, 201)
            self.peers(202, 203, hold=True)
            self.mail_to(mx, 202)
            self.wait_counts(mx, outside=(2, 1))
            mx.set(session_classes="*.customer.fr 1 1, * 5 4")
            mx.reload()
            eventually(lambda: (self.counts(mx) or {}).get(INSIDE) is not None, "the new classes")
            eventually(
                lambda: (self.counts(mx) or {}).get(OUTSIDE, (0, 0))[0] == 2, lambda: f"two clients: {self.counts(mx)}"
            )
            self.enter(mx, 100)
            self.assertRefused(mx, 101)

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
