"""Where mail goes: MX records, preferences, addresses, and name servers that answer badly."""
from harness import *


def world(dns, **more):
    settings = dns.settings()
    settings.update(more)
    return settings


class Failover(Suite):
    def setUp(self):
        # Hosts on several loopback addresses share one port, the one set for smtp.
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
        # Domains without a transport entry go by MX to the smtp transport, whose port is set for the test.
        return Instance(world(dns, smtp_tcp_port=str(self.port), **more))

    def test_the_best_preference_is_used_and_the_next_when_it_is_down(self):
        second = self.host("127.0.0.12")
        with Dns({("multi.example", "MX"): [(10, "mx1.multi.example"), (20, "mx2.multi.example")],
                  ("mx1.multi.example", "A"): ["127.0.0.11"], ("mx2.multi.example", "A"): ["127.0.0.12"]}) as dns:
            with self.run_with(dns) as mx:
                send(mx.port, "ada@sender.example", ["ben@multi.example"], mail("first is down"))
                second.wait_messages(1)
                first = self.host("127.0.0.11")
                # destdb remembers that mx1 was down; an administrator would flush.
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

    def hosts_of(self, domain, *addresses):
        """MX records of one domain, first address preferred, and the addresses of their hosts."""
        names = [f"mx{n}.{domain}" for n in range(len(addresses))]
        return {(domain, "MX"): [(10 * (n + 1), name) for n, name in enumerate(names)],
                **{(name, "A"): [address] for name, address in zip(names, addresses)}}

    def test_the_next_host_takes_what_the_first_one_puts_off_at_any_stage(self):
        groups, chunks = ["PIPELINING", "8BITMIME"], ["PIPELINING", "8BITMIME", "CHUNKING"]
        trials = [(verb, reply, features)
                  for verb in ("MAIL", "RCPT", "DATA", "DOT")
                  for reply in ("451 4.3.0 not now", "421 4.3.2 going away", DROP)
                  for features in ((groups, chunks, []) if verb in ("MAIL", "DOT") else (groups,))]
        records, hosts = {}, []
        for n, (verb, reply, features) in enumerate(trials):
            broken = self.host(f"127.0.2.{n + 1}", features=features)
            broken.replies[verb] = lambda session, line, reply=reply: reply
            hosts.append((broken, self.host(f"127.0.3.{n + 1}", features=features)))
            records.update(self.hosts_of(f"d{n}.example", broken.listener.getsockname()[0], f"127.0.3.{n + 1}"))
        with Dns(records) as dns, self.run_with(dns) as mx:
            for n, (verb, reply, features) in enumerate(trials):
                with self.subTest(verb=verb, reply="drop" if reply is DROP else reply, features=features):
                    broken, good = hosts[n]
                    send(mx.port, "ada@sender.example", [f"a@d{n}.example", f"b@d{n}.example"], mail())
                    self.assertEqual(good.wait_messages(1)[0].recipients, [f"a@d{n}.example", f"b@d{n}.example"])
                    self.assertEqual(broken.messages, [])
                    self.assertEqual(len(broken.sessions), 1)
            mx.wait_empty_queue()
            self.assertNotIn("status=deferred", mx.log())

    def test_each_recipient_goes_on_by_itself(self):
        first, second = self.host("127.0.0.11"), self.host("127.0.0.12")
        answers_of = {"<later": "450 4.2.1 later", "<no": "550 5.1.1 no such user"}
        first.replies["RCPT"] = lambda session, line: next((r for w, r in answers_of.items() if w in line), None)
        with Dns(self.hosts_of("multi.example", "127.0.0.11", "127.0.0.12")) as dns, self.run_with(dns) as mx:
            send(mx.port, "", ["ok@multi.example", "later@multi.example", "no@multi.example"], mail())
            self.assertEqual(second.wait_messages(1)[0].recipients, ["later@multi.example"])
            mx.wait_empty_queue()
            self.assertEqual([m.recipients for m in first.messages], [["ok@multi.example"]])
            self.assertEqual(len(second.messages), 1)
            self.assertRegex(mx.log(), r"to=<no@multi\.example>, .*status=bounced")

    def test_a_message_that_makes_every_host_hang_up_goes_to_each_once_and_waits(self):
        hosts = [self.host(f"127.0.0.{11 + n}") for n in range(2)]
        for host in hosts:
            host.replies["RCPT"] = lambda session, line: DROP if "poison" in line else None
        with Dns(self.hosts_of("multi.example", "127.0.0.11", "127.0.0.12")) as dns, self.run_with(dns) as mx:
            send(mx.port, "ada@sender.example", ["poison@multi.example"], mail())
            mx.wait_log(r"to=<poison@multi\.example>, .*status=deferred \(lost connection")
            send(mx.port, "ada@sender.example", ["other@multi.example"], mail())
            hosts[0].wait_messages(1)
            self.assertEqual([len(h.sessions) for h in hosts], [2, 1])

    def test_so_many_hosts_are_asked_in_one_round_as_may_be_and_retries_come_to_the_others(self):
        hosts = [self.host(f"127.0.0.{11 + n}") for n in range(3)]
        for host in hosts[:2]:
            host.replies["MAIL"] = lambda session, line: "451 4.3.0 not now"
        again = {"minimal_backoff_time": "1s", "maximal_backoff_time": "2s", "queue_run_delay": "1s"}
        with Dns(self.hosts_of("multi.example", "127.0.0.11", "127.0.0.12", "127.0.0.13")) as dns:
            with self.run_with(dns, smtp_mx_session_limit="0") as mx:
                send(mx.port, "ada@sender.example", ["a@multi.example"], mail())
                hosts[2].wait_messages(1)
            # Two hosts at once, but after a while a host that takes nothing is tried last.
            with self.run_with(dns, **again) as mx:
                send(mx.port, "ada@sender.example", ["b@multi.example"], mail())
                mx.wait_log(r"to=<b@multi\.example>, .*status=deferred")
                hosts[2].wait_messages(2)
                mx.wait_empty_queue()
            with self.run_with(dns, smtp_mx_session_limit="1") as mx:
                send(mx.port, "ada@sender.example", ["c@multi.example"], mail())
                mx.wait_log(r"to=<c@multi\.example>, .*status=deferred")
                self.assertEqual(len(hosts[2].messages), 2)

    def one_host_for(self, *domains):
        return {(domain, "MX"): [(10, "mx.host.example")] for domain in domains} | {
            ("mx.host.example", "A"): ["127.0.0.11"]}

    def test_domains_with_the_same_hosts_share_a_transaction(self):
        domains = [f"d{n}.example" for n in range(6)]
        host = self.host("127.0.0.11")
        with Dns(self.one_host_for(*domains)) as dns:
            with self.run_with(dns) as mx:
                send(mx.port, "ada@sender.example", [f"a@{d}" for d in domains], mail())
                mx.wait_empty_queue()
                self.assertEqual([sorted(m.recipients) for m in host.messages], [[f"a@{d}" for d in domains]])
            with self.run_with(dns, smtp_combine_domains="no") as mx:
                send(mx.port, "ada@sender.example", [f"b@{d}" for d in domains], mail())
                mx.wait_empty_queue()
                self.assertEqual(sorted(m.recipients for m in host.messages[1:]), [[f"b@{d}"] for d in domains])

    def test_a_host_that_takes_one_domain_in_a_transaction_gets_one_at_once_and_is_remembered(self):
        domains = [f"d{n}.example" for n in range(3)]
        host = self.host("127.0.0.11")
        mixed = []

        def one_domain(session, line):
            said = [c for c in session.commands if c.startswith(("MAIL", "RCPT"))]
            last = len(said) - 1 - [c[:4] for c in reversed(said)].index("MAIL")
            mine = {c.split("@")[1] for c in said[last + 1:]}
            if len(mine) > 1 and line.split("@")[1] != said[last + 1].split("@")[1]:
                mixed.append(line)
                return "451 4.3.0 Multiple destination domains per transaction is unsupported. Please try again."
            return None

        host.replies["RCPT"] = one_domain
        with Dns(self.one_host_for(*domains)) as dns, self.run_with(dns) as mx:
            send(mx.port, "ada@sender.example", [f"a@{d}" for d in domains], mail())
            mx.wait_empty_queue()
            self.assertEqual(sorted(m.recipients for m in host.messages), [[f"a@{d}"] for d in domains])
            self.assertEqual(len(mixed), 2)
            send(mx.port, "ada@sender.example", [f"b@{d}" for d in domains], mail())
            mx.wait_empty_queue()
            self.assertEqual((len(host.messages), len(mixed)), (6, 2))
            self.assertNotIn("status=deferred", mx.log())

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
