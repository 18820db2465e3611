"""Tenants: whose a message is, by login, sender and field; their shares, turns and weights; what is shown; one-click
unsubscribing."""
import contextlib
import json
import os
import threading
import unittest
from collections import Counter

from harness import *
from table_server import TableServer
from test_penapi import TOKEN, UNIX, Api, token_file

UNSUBSCRIBE = b"List-Unsubscribe: <https://u.example/1>\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n"


class Tenants(Suite):
    def instance(self, peer, settings):
        return Instance({"relayhost": f"[127.0.0.1]:{peer.port}", "smtpd_authorized_xclient_hosts": "127.0.0.1",
                         **settings})

    def listed(self, mx, *choice):
        lines = mx.tool("penqueue", "-j", *choice, check=True).stdout.splitlines()
        return sorted(json.loads(line).get("tenant", "") for line in lines)

    def test_a_tenant_by_login_and_by_domain_outlives_the_queue_manager_and_is_shown(self):
        with Peer() as peer, self.instance(peer, {
                "tenant_identity": "sasl_login, sender_domain", "tenant_maps": inline({"one.example": "acme"}),
                "tenant_weight_maps": inline({"acme": "300"}), "tenant_active_share": "40"}) as mx:
            peer.replies["RCPT"] = lambda session, line: "451 4.2.0 later"
            with Client(mx.port) as client:
                client.expect("XCLIENT LOGIN=Anna", "220")
                client.expect("EHLO client.example", "250")
                client.send("x@two.example", ["ada@far.example"], mail())
            with Client(mx.port) as client:
                client.send("x@one.example", ["bo@far.example"], mail())
            mx.wait_log(r"to=<ada@far.example>.*status=deferred")
            mx.wait_log(r"to=<bo@far.example>.*status=deferred")
            mx.wait_log(r"from=<x@two.example>.*\(queue active\), tenant=anna")
            mx.kill("qmgr")
            self.assertEqual(self.listed(mx), ["acme", "anna"])
            self.assertEqual(self.listed(mx, "--tenant", "acme"), ["acme"])
            self.assertEqual(self.listed(mx, "--tenant", "nobody"), [])
            queue = [json.loads(line) for line in mx.tool("penqueue", "-j", check=True).stdout.splitlines()]
            self.assertEqual(len(queue), 2)
            for message in queue:
                text = mx.tool("pencat", message["queue_id"], check=True).stdout
                self.assertIn("named_attribute: tenant=" + message["tenant"] + "\n", text)

    def test_tools_and_the_api_choose_by_tenant(self):
        with Peer() as peer, self.instance(peer, {"tenant_identity": "sender_domain", "penapi_token_file":
                                                  token_file(self.folder())}) as mx:
            mx.set_services(dict([UNIX]))
            mx.reload()
            peer.replies["RCPT"] = lambda session, line: "451 4.2.0 later"
            for sender in ("x@one.example", "y@one.example", "x@two.example"):
                send(mx.port, sender, ["ada@far.example"], mail())
            eventually(lambda: len([m for m in mx.queue() if m["queue_name"] == "deferred"]) == 3, "three wait")
            self.assertEqual(self.listed(mx, "--tenant", "ONE.example"), ["one.example"] * 2)
            api = Api(mx)

            def shown(choice):
                return sorted(m["tenant"] for m in api.get("/api/v1/queue" + choice)["messages"])

            eventually(lambda: shown("") == ["one.example", "one.example", "two.example"], "the API answers")
            self.assertEqual(shown("?tenant=two.example"), ["two.example"])
            self.assertEqual(shown("?tenant=nobody"), [])
            # An order is about nobody else's mail.
            mx.tool("pensuper", "-h", "ALL", "--tenant", "two.example", check=True)
            self.assertEqual(self.listed(mx, "hold"), ["two.example"])
            status, content = api.ask("/api/v1/queue/delete", "POST", {"filter": {"tenant": "one.example"}}, TOKEN)
            self.assertEqual((status, content["count"]), (200, 2))
            self.assertEqual(self.listed(mx), ["two.example"])
            mx.tool("pensuper", "-d", "ALL", "--tenant", "one.example", check=True)
            self.assertEqual(self.listed(mx), ["two.example"])
            mx.tool("pensuper", "-d", "ALL", "--tenant", "two.example", check=True)
            self.assertEqual(self.listed(mx), [])

    def test_the_field_counts_of_some_clients_and_is_taken_out_of_all_mail(self):
        with Peer() as peer:
            for clients, tenant in (("127.0.0.1", "acme"), ("192.0.2.1", "one.example")):
                with self.instance(peer, {"tenant_identity": "header, sender_domain", "tenant_header": "X-Customer",
                                          "tenant_header_clients": clients}) as mx:
                    with Client(mx.port) as client:
                        client.send("x@one.example", ["ada@far.example"], b"X-Customer: Acme\r\n" + mail())
                    self.assertNotIn(b"X-Customer", peer.wait_messages(1)[0].content)
                    mx.wait_log(r"\(queue active\), tenant=" + tenant)
                    peer.messages.clear()

    def test_a_table_that_fails_puts_the_mail_off(self):
        with Peer() as peer, self.instance(peer, {"tenant_identity": "sender_domain",
                                                  "tenant_maps": "fail:broken"}) as mx, Client(mx.port) as client:
            client.expect("MAIL FROM:<x@one.example>", "250")
            client.expect("RCPT TO:<ada@far.example>", "250")
            client.expect("DATA", "354")
            client.expect("Subject: x\r\n\r\nx\r\n.", "451")

    def test_mail_without_one_click_unsubscribing_is_noted_or_refused(self):
        with Peer() as peer, self.instance(peer, {
                "tenant_identity": "sender_domain",
                "list_unsubscribe_check_maps": inline({"tenant:news.example": "reject",
                                                       "w@warn.example": "warn"})}) as mx:
            with Client(mx.port) as client:
                for sender, head, code in (("a@news.example", b"", "550"), ("a@news.example", UNSUBSCRIBE, "250"),
                                           ("w@warn.example", b"", "250"), ("a@warn.example", b"", "250")):
                    client.expect(f"MAIL FROM:<{sender}>", "250")
                    client.expect("RCPT TO:<ada@far.example>", "250")
                    client.expect("DATA", "354")
                    said = client.expect((head + b"Subject: x\r\n\r\nx\r\n.").decode(), code)
                    if code == "550":
                        self.assertIn("5.7.1", said)
                        self.assertIn("List-Unsubscribe", said)
            self.assertEqual(len(peer.wait_messages(3)), 3)
            mx.wait_log(r"warning: END-OF-MESSAGE .*from=<w@warn.example>")


class Shares(Suite):
    """What a tenant has of the active set and of turns."""

    def send_some(self, mx, sender, to, count):
        with Client(mx.port) as client:
            for i in range(count):
                client.send(sender, [to % i], mail())

    def hung(self, peer):
        """From now on the peer greets nobody, until the event."""
        answers = threading.Event()
        peer.replies["GREETING"] = lambda session, line: answers.wait(120) and None
        self.addCleanup(answers.set)
        return answers

    @contextlib.contextmanager
    def two_hosts(self, **settings):
        """An instance, a host that hangs, and one that takes mail. Half of twenty messages are a tenant's share, and
        no other rule makes room."""
        with Peer() as dead, Peer() as alive:
            hops = {"dead.example": f"smtp:[127.0.0.1]:{dead.port}", "alive.example": f"smtp:[127.0.0.1]:{alive.port}"}
            answers = self.hung(dead)
            with Instance({"relay_domains": ", ".join(hops), "transport_maps": inline(hops),
                           "tenant_identity": "sender_domain", "qmgr_message_active_limit": "20",
                           "tenant_active_share": "50", "active_share_limit": "100", **settings}) as mx:
                try:
                    yield mx, dead, alive, answers
                finally:
                    answers.set()

    def parked(self, mx):
        return int(mx.figures().get("parked_by_share", 0))

    def test_who_floods_a_dead_host_has_his_share_and_delays_nobody(self):
        with self.two_hosts() as (mx, dead, alive, answers):
            self.send_some(mx, "x@flood.example", "d%d@dead.example", 40)
            eventually(lambda: self.parked(mx) == 30, lambda: f"thirty are beyond the share: {self.parked(mx)}")

            def places():
                return Counter(m["queue_name"] for m in mx.queue())

            eventually(lambda: places() == {"active": 10, "deferred": 30}, lambda: f"thirty wait: {places()}")
            # More than what is left of the active set, all while the flood waits.
            self.send_some(mx, "x@calm.example", "a%d@alive.example", 15)
            alive.wait_messages(15)
            self.assertEqual(dead.messages, [])
            # What waits comes when there is room, long before the time of its log.
            answers.set()
            dead.wait_messages(40)
            self.all_came_once(mx, dead, alive)

    def all_came_once(self, mx, dead, alive):
        mx.wait_empty_queue()
        self.assertEqual(sorted(r for m in dead.messages for r in m.recipients),
                         sorted(f"d{i}@dead.example" for i in range(40)))
        self.assertEqual(len(alive.messages), 15)

    def test_what_is_beyond_a_share_outlives_the_queue_manager(self):
        with self.two_hosts(minimal_backoff_time="1s", maximal_backoff_time="3s") as (mx, dead, alive, answers):
            self.send_some(mx, "x@flood.example", "d%d@dead.example", 40)
            eventually(lambda: self.parked(mx) >= 30, "thirty are beyond the share")
            mx.kill("qmgr")
            # It begins with all of them in its files, and with nothing remembered.
            self.send_some(mx, "x@calm.example", "a%d@alive.example", 15)
            alive.wait_messages(15)
            eventually(lambda: len(mx.queue()) == 40, "all are there")
            eventually(lambda: self.parked(mx) >= 30, "those that come by their log's time wait again")
            self.assertEqual(dead.messages, [])
            mx.kill("qmgr")
            answers.set()
            dead.wait_messages(40)
            self.all_came_once(mx, dead, alive)

    def turns(self, mx, peer, tenants, before=lambda: None, domain="rcpt.example"):
        """Has 24 messages of each tenant wait for the first connection to this host, and says who had how many of the
        first 24."""
        answers = self.hung(peer)
        active = mx.log().count("(queue active)")
        for tenant in tenants:
            self.send_some(mx, "x@" + tenant, "r%d@" + domain, 24)
        eventually(lambda: mx.log().count("(queue active)") == active + 48, "all are active")
        before()
        answers.set()
        first = peer.wait_messages(48, seconds=60)[:24]
        mx.wait_empty_queue()
        return Counter(m.sender.partition("@")[2] for m in first)

    ONE = {"tenant_identity": "sender_domain", "smtp_destination_concurrency_limit": "1",
           "initial_destination_concurrency": "1", "connection_backlog_threshold": "1"}

    def test_a_weight_from_a_table_that_hangs_counts_when_it_is_known(self):
        path = os.path.join(self.folder(), "weights")
        with TableServer(path, {"hang.example": "OK 300"}) as server, Peer() as peer, Peer() as other, \
                Instance({**self.ONE, "relay_domains": "rcpt.example, other.example", "transport_maps": inline(
                    {"rcpt.example": f"smtp:[127.0.0.1]:{peer.port}",
                     "other.example": f"smtp:[127.0.0.1]:{other.port}"}),
                    "tenant_weight_maps": f"socketmap:unix:{path}:weights"}) as mx:
            # Nobody waits for the table.
            shares = self.turns(mx, peer, ("hang.example", "b.example"))
            server.wait_held(1)
            self.assertLess(abs(shares["hang.example"] - shares["b.example"]), 8, shares)

            def known():
                server.release()
                eventually(lambda: server.answered >= 2, "both are answered")
                for _ in range(3):
                    mx.queue()  # the queue manager has got so far, too

            shares = self.turns(mx, other, ("hang.example", "b.example"), known, "other.example")
            self.assertGreaterEqual(shares["hang.example"], 15, shares)
            self.assertGreaterEqual(shares["b.example"], 3, shares)

    def test_changed_weights_count_after_a_reload_for_what_waits_already(self):
        with Peer() as peer, Instance({**relay_to(peer), **self.ONE,
                                       "tenant_weight_maps": inline({"one.example": "300"})}) as mx:
            def change():
                begun, active = mx.log().count("queue recovered"), mx.log().count("(queue active)")
                mx.set(tenant_weight_maps=inline({"two.example": "300"}))
                mx.reload()
                eventually(lambda: mx.log().count("queue recovered") == begun + 1, "the new queue manager works")
                eventually(lambda: mx.log().count("(queue active)") == active + 48, "all are active again")

            shares = self.turns(mx, peer, ("one.example", "two.example"), change)
            self.assertGreaterEqual(shares["two.example"], 15, shares)
            self.assertGreaterEqual(shares["one.example"], 3, shares)


if __name__ == "__main__":
    unittest.main()
