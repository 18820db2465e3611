"""Where mail goes: MX records, preferences, addresses, and name servers that answer badly."""
from harness import *


def world(dns, **more):
    settings = dns.settings()
    settings.update(more)
    return settings


class Failover(Suite):
    def setUp(self):
        # Hosts on several loopback addresses share one port: the one that smtp is told to use.
        self.port = free_port()
        self.peers = []

    def tearDown(self):
        for peer in self.peers:
            peer.close()

    def host(self, address, **options):
        peer = Peer(host=address, port=self.port, **options)
        self.peers.append(peer)
        return peer

    def run_with(self, dns, **more):
        # Domains without a transport entry go by MX to the smtp transport; its port is set for the test.
        return Instance(world(dns, smtp_tcp_port=str(self.port), **more))

    def test_the_best_preference_is_used_and_the_next_when_it_is_down(self):
        second = self.host("127.0.0.12")
        with Dns({("multi.example", "MX"): [(10, "mx1.multi.example"), (20, "mx2.multi.example")],
                  ("mx1.multi.example", "A"): ["127.0.0.11"], ("mx2.multi.example", "A"): ["127.0.0.12"]}) as dns:
            with self.run_with(dns) as mx:
                send(mx.port, "ada@sender.example", ["ben@multi.example"], mail("first is down"))
                second.wait_messages(1)
                first = self.host("127.0.0.11")
                # destdb remembers that mx1 was down; a flush is what an administrator would do.
                mx.wait_empty_queue()
                self.assertEqual(first.messages, [])

    def test_a_first_host_that_refuses_with_421_is_passed_over(self):
        first, second = self.host("127.0.0.11"), self.host("127.0.0.12")
        first.replies["GREETING"] = lambda session, line: "421 4.3.2 not now"
        with Dns({("multi.example", "MX"): [(10, "mx1.multi.example"), (20, "mx2.multi.example")],
                  ("mx1.multi.example", "A"): ["127.0.0.11"], ("mx2.multi.example", "A"): ["127.0.0.12"]}) as dns:
            with self.run_with(dns) as mx:
                send(mx.port, "ada@sender.example", ["ben@multi.example"], mail())
                second.wait_messages(1)
                mx.wait_empty_queue()

    def test_without_mx_the_address_is_used_and_a_cname_is_followed(self):
        host = self.host("127.0.0.13")
        with Dns({("plain.example", "A"): ["127.0.0.13"], ("alias.example", "CNAME"): ["plain.example"]}) as dns:
            with self.run_with(dns) as mx:
                send(mx.port, "ada@sender.example", ["a@plain.example"], mail())
                send(mx.port, "ada@sender.example", ["b@alias.example"], mail())
                host.wait_messages(2)
                mx.wait_empty_queue()

    def test_an_unusable_mx_does_not_fall_back_to_the_address(self):
        host = self.host("127.0.0.13")
        with Dns({("bad.example", "MX"): [(10, "gone.bad.example")], ("bad.example", "A"): ["127.0.0.13"]}) as dns:
            with self.run_with(dns) as mx:
                send(mx.port, "", ["a@bad.example"], mail())
                mx.wait_log(r"to=<a@bad\.example>, .*status=(bounced|deferred)")
                self.assertEqual(host.sessions, [])

    def test_a_null_mx_fails_at_once_with_5_1_10(self):
        with Dns({("null.example", "MX"): [(0, ".")], ("null.example", "A"): ["127.0.0.13"]}) as dns:
            with self.run_with(dns) as mx:
                send(mx.port, "", ["a@null.example"], mail())
                mx.wait_log(r"to=<a@null\.example>, .*dsn=5\.1\.10, status=bounced")

    def test_no_such_domain_fails_and_trouble_of_the_name_server_waits(self):
        with Dns() as dns:
            dns.trouble["sick.example"] = SERVFAIL
            with self.run_with(dns) as mx:
                send(mx.port, "", ["a@missing.example"], mail())
                send(mx.port, "", ["a@sick.example"], mail())
                mx.wait_log(r"to=<a@missing\.example>, .*dsn=5\.[14]\.4, status=bounced")
                mx.wait_log(r"to=<a@sick\.example>, .*dsn=4\.4\.3, status=deferred")

    def test_hostile_answers_never_deliver_or_lose_mail_and_good_domains_go_on(self):
        host = self.host("127.0.0.13")
        kinds = (SILENT, WRONG_ID, GARBAGE, LOOP, POINTER_LOOP, REFUSED)
        with Dns({("good.example", "A"): ["127.0.0.13"]}) as dns:
            for i, kind in enumerate(kinds):
                dns.trouble[f"bad{i}.example"] = kind
            with self.run_with(dns, dns_resolver_timeout="1s") as mx:
                for i in range(len(kinds)):
                    send(mx.port, "ada@good.example", [f"a@bad{i}.example"], mail())
                send(mx.port, "ada@good.example", ["a@good.example"], mail("good"))
                host.wait_messages(1)
                for i, kind in enumerate(kinds):
                    with self.subTest(kind=kind):
                        mx.wait_log(rf"to=<a@bad{i}\.example>, .*status=(deferred|bounced)", seconds=60)

    def test_a_truncated_answer_is_asked_for_again_by_tcp(self):
        host = self.host("127.0.0.13")
        with Dns({("big.example", "MX"): [(10, "mx.big.example")], ("mx.big.example", "A"): ["127.0.0.13"]}) as dns:
            dns.trouble["big.example"] = TRUNCATED
            with self.run_with(dns) as mx:
                send(mx.port, "ada@sender.example", ["a@big.example"], mail())
                host.wait_messages(1)


if __name__ == "__main__":
    unittest.main()
