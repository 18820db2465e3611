"""Sources of outgoing mail: pools, names, weights, warm-up, suspension, proxies."""
import csv
import json
import os
import re
import threading

import event_stream
import haproxy
import socks
from harness import *

SOON = {"minimal_backoff_time": "1s", "maximal_backoff_time": "2s", "queue_run_delay": "1s"}


class Egress(Suite):
    def instance(self, peer, sources, pool="", maps=None, **settings):
        """Started, with these sources."""
        way = relay_to(peer, "rcpt.example", "other.example") if peer else {}
        mx = Instance({**way, **SOON, **settings}, start=False)
        try:
            mx.set(egress_sources_file=mx.write("sources", sources), default_egress_pool=pool,
                   egress_pool_maps=inline(maps) if maps else "")
            mx.start()
        except BaseException:
            mx.close()
            raise
        return mx

    def sources(self, mx, *words):
        """By name, each with its groups by theirs."""
        found = {}
        for line in mx.tool("pendest", "--json", "sources", *words, check=True).stdout.splitlines():
            entry = json.loads(line)
            if entry["type"] == "source":
                found[entry["source"]] = {**entry, "groups": {}}
            else:
                found[entry["source"]]["groups"][entry["group"]] = entry
        return found

    def came_from(self, peer):
        return [m.session.address for m in peer.messages]

    def test_each_sender_has_the_address_and_the_name_of_its_pool(self):
        text = ("source a address=127.0.0.41 helo=a.out.example\nsource b address=127.0.0.42 helo=b.out.example\n"
                "source c address=127.0.0.43 helo=c.out.example weight=900\n"
                "pool usual a\npool bulk b\npool mixed a*100 c\n")
        maps = {"@bulk.example": "bulk", "news@mixed.example": "mixed", "plain@bulk.example": "none"}
        with Peer() as peer, self.instance(peer, text, "usual", maps=maps, recipient_delimiter="+") as mx:
            ways = {"joe@one.example": ("127.0.0.41", "EHLO a.out.example"),
                    "x@bulk.example": ("127.0.0.42", "EHLO b.out.example"),
                    "plain@bulk.example": ("127.0.0.1", "EHLO mx.test.example"),
                    "": ("127.0.0.41", "EHLO a.out.example")}
            for n, (sender, (address, helo)) in enumerate(ways.items(), 1):
                send(mx.port, sender, ["ada@rcpt.example"], mail())
                message = peer.wait_messages(n)[-1]
                self.assertEqual((message.sender, message.session.address, message.session.helo),
                                 (sender, address, helo))
            mx.wait_log(r"to=<ada@rcpt\.example>, relay=.*status=sent \(.*\), source=b\n")
            before = len(peer.messages)
            for _ in range(40):
                send(mx.port, "news+7@mixed.example", ["ada@rcpt.example"], mail())
            peer.wait_messages(before + 40)
            mixed = self.came_from(peer)[before:]
            self.assertEqual(set(mixed) - {"127.0.0.41", "127.0.0.43"}, set())
            self.assertGreater(mixed.count("127.0.0.43"), 25)  # nine of ten: 36, give or take two
            explained = json.loads(mx.tool("pendest", "--json", "explain", "ada@rcpt.example", "x@bulk.example",
                                           check=True).stdout)
            self.assertEqual(explained["decision"] in ("idle", "closed", "unused"), True, explained)
            self.assertEqual(peer.violations, [])
            # By hand a source is taken out, over a kill too, and what waits for it goes from the others.
            mx.tool("pendest", "suspend", "source:c", "moving", check=True)
            self.assertEqual(mx.tool("pendest", "suspend", "source:nobody").returncode, 65)
            mx.kill("qmgr")
            mx.flush()
            self.assertEqual(self.sources(mx, "c")["c"]["suspended"], "suspended: moving")
            before = len(peer.messages)
            for _ in range(6):
                send(mx.port, "news@mixed.example", ["ada@rcpt.example"], mail())
            peer.wait_messages(before + 6)
            self.assertEqual(set(self.came_from(peer)[before:]), {"127.0.0.41"})
            mx.tool("pendest", "suspend", "source:a", check=True)
            send(mx.port, "joe@one.example", ["bo@rcpt.example"], mail())
            mx.wait_log(r"to=<bo@rcpt\.example>, relay=none, .*dsn=4\.3\.2, status=deferred "
                        r"\(no source of pool usual can send to 127\.0\.0\.1: a: suspended\)")
            mx.tool("pendest", "resume", "source:a", check=True)
            mx.wait_empty_queue()
            listed = mx.tool("pendest", "sources", check=True).stdout
            self.assertRegex(listed, r"(?m)^suspended +\d+ c +127\.0\.0\.43, c\.out\.example; mixed; "
                                     r"suspended: moving$")
            self.assertRegex(listed, r"(?m)^in use +\d+ a +127\.0\.0\.41, a\.out\.example; usual, mixed$")

    def test_events_and_accounting_name_the_source(self):
        with Peer() as peer, Instance({**relay_to(peer), **SOON}, start=False) as mx:
            sources = mx.write("sources", "source b address=127.0.0.42\npool p b\n")
            mx.set(egress_sources_file=sources, default_egress_pool="p", **event_stream.files(mx))
            mx.start()
            send(mx.port, "joe@one.example", ["ada@rcpt.example"], mail())
            found = event_stream.wait_logged(mx, lambda e: [x for x in e if x["type"] == "delivered"], "the delivery")
            [delivered] = [e for e in found if e["type"] == "delivered"]
            self.assertEqual((delivered["source"], delivered["source_address"]), ("b", "127.0.0.42"))
            with open(os.path.join(event_stream.events_directory(mx), "accounting.csv"), newline="") as file:
                [row] = csv.DictReader(file)
            self.assertEqual((row["vmta"], row["dlvSourceIp"]), ("b", "127.0.0.42"))

    def test_a_message_that_is_put_off_keeps_its_source(self):
        seen = {}

        def greylist(session, line):
            tries = seen.setdefault(line, [])
            tries.append(session.address)
            return "450 4.2.0 Greylisted" if len(tries) < 3 else None

        text = "".join(f"source s{i} address=127.0.0.{50 + i}\n" for i in range(4)) + "pool p s0 s1 s2 s3\n"
        with Peer() as peer, self.instance(peer, text, "p") as mx:
            peer.replies["RCPT"] = greylist
            for i in range(12):
                send(mx.port, "joe@one.example", [f"r{i}@rcpt.example"], mail())
            peer.wait_messages(12, seconds=60)
            mx.wait_empty_queue()
            for line, tries in seen.items():
                self.assertEqual((len(tries), len(set(tries))), (3, 1), (line, tries))
            self.assertGreater(len(set(self.came_from(peer))), 1)

    def test_a_warm_up_sends_so_much_a_day_and_the_rest_from_the_others_over_restarts(self):
        text = ("source new address=127.0.0.61 warmup=yes\nsource old address=127.0.0.62\n"
                "source later address=127.0.0.63 warmup=2199-01-01\npool p new*10000 later*10000 old*1\n")
        with Peer() as peer, self.instance(peer, text, "p", egress_warmup_schedule="3 10") as mx:
            for n in range(1, 6):
                send(mx.port, "joe@one.example", ["ada@rcpt.example"], mail())
                peer.wait_messages(n)
            self.assertEqual(self.came_from(peer), ["127.0.0.61"] * 3 + ["127.0.0.62"] * 2)
            mx.wait_empty_queue()
            group = {"stage": 1, "limit": 3, "taken": 3, "accepted": 3}
            now = self.sources(mx)["new"]["groups"]["127.0.0.1"]
            self.assertEqual({k: now[k] for k in group}, group)
            self.assertEqual(self.sources(mx)["later"]["warmup_begins"], "2199-01-01")
            mx.stop()
            mx.start()
            now = self.sources(mx)["new"]["groups"]["127.0.0.1"]
            self.assertEqual({k: now[k] for k in group}, group)
            send(mx.port, "joe@one.example", ["ada@rcpt.example"], mail())
            self.assertEqual(peer.wait_messages(6)[-1].session.address, "127.0.0.62")
            mx.tool("pendest", "forget", "source:new", check=True)
            send(mx.port, "joe@one.example", ["ada@rcpt.example"], mail())
            self.assertEqual(peer.wait_messages(7)[-1].session.address, "127.0.0.61")

    def test_a_block_of_one_source_moves_its_mail_to_another(self):
        block = "550 5.7.1 Unfortunately, messages from [127.0.0.41] weren't sent. It is on our block list (S3150)."
        text = "source a address=127.0.0.41\nsource b address=127.0.0.42\npool p a*10000 b*1\n"
        for verb, most in (("MAIL", 4), ("GREETING", 0)):
            all_here = threading.Event()

            def refuse(session, line):
                if session.address == "127.0.0.41":
                    all_here.wait(120)
                    return block
                return None

            # Without PIPELINING few jobs are handed out ahead.
            with self.subTest(verb=verb), Peer(features=["8BITMIME"]) as peer, \
                    self.instance(peer, text, "p", default_destination_concurrency_limit="1") as mx:
                peer.replies[verb] = refuse
                for i in range(12):
                    send(mx.port, f"s{i}@one.example", [f"u{i}@rcpt.example"], mail())
                eventually(lambda: mx.log().count("(queue active)") == 12, "all are in the active set")
                all_here.set()
                peer.wait_messages(12, seconds=60)
                mx.wait_empty_queue()
                self.assertEqual(set(self.came_from(peer)), {"127.0.0.42"})
                # What waited behind the refused ones went over at once.
                self.assertLessEqual(mx.log().count("status=deferred") + mx.log().count("status=SOFTBOUNCE"), most)
                self.assertNotIn("status=bounced", mx.log())
                shown = self.sources(mx, "a")["a"]["groups"]["127.0.0.1"]
                self.assertIn("S3150", shown["blocked"])

    def test_a_proxy_that_fails_is_not_the_hosts_fault_and_its_mail_goes_from_another_source(self):
        text = (f"source far address=127.0.0.71 proxy=socks5://127.0.0.1:{free_port()}\n"
                "source near address=127.0.0.72\n"
                "source lost address=192.0.2.1\n"
                "pool p far*10000 near*1\npool alone far\npool q lost*10000 near*1\n")
        with Peer() as peer, self.instance(peer, text, "p", maps={"@alone.example": "alone", "@q.example": "q"}) as mx:
            for n in range(1, 4):
                send(mx.port, "joe@one.example", [f"r{n}@rcpt.example"], mail())
                self.assertEqual(peer.wait_messages(n)[-1].session.address, "127.0.0.72")
            mx.wait_log(r"source far rests for 30 s: proxy socks5://127\.0\.0\.1:\d+: Connection refused")
            self.assertNotIn("status=deferred", mx.log())
            self.assertIn("Connection refused", self.sources(mx)["far"]["resting"])
            send(mx.port, "joe@alone.example", ["ada@rcpt.example"], mail())
            mx.wait_log(r"to=<ada@rcpt\.example>, relay=none, .*status=deferred \(no source of pool alone can send to "
                        r"127\.0\.0\.1: far: proxy socks5://127\.0\.0\.1:\d+: Connection refused\)")
            # An address that this host does not have is the same.
            send(mx.port, "joe@q.example", ["bo@rcpt.example"], mail())
            self.assertEqual(peer.wait_messages(4)[-1].recipients, ["bo@rcpt.example"])
            mx.wait_log(r"source lost rests for 30 s: cannot send from 192\.0\.2\.1")
            shown = mx.tool("pendest", "show", "127.0.0.1", check=True).stdout
            self.assertNotIn("failing", shown)  # nothing speaks against the host
            checked = mx.tool("penstock", "check")
            self.assertRegex(checked.stdout, r"warning: .*sources, line 3: source lost cannot send: this host does not "
                                             r"have the address 192\.0\.2\.1")

    def test_check_finds_what_is_wrong_with_the_sources(self):
        with Peer() as peer, self.instance(peer, "source a address=127.0.0.41\npool p a\n", "p") as mx:
            path = mx.write("sources", "source a adress=127.0.0.41\npool p b\nsource c proxy=socks5://u:hidden@x:1\n")
            mx.set(egress_warmup_schedule="5 4")
            checked = mx.tool("penstock", "check")
            self.assertEqual(checked.returncode, 78, checked.stdout)
            for text in (rf'error: .*{re.escape(path)}, line 1: unknown word "adress"',
                         rf'error: .*{re.escape(path)}, line 2: unknown source "b"',
                         rf"error: .*{re.escape(path)}, line 3: the host of proxy is not an address",
                         r"error: \S+:\d+: default_egress_pool: there is no pool p",
                         r"error: \S+:\d+: egress_warmup_schedule: "):
                self.assertRegex(checked.stdout, text)
            self.assertNotIn("hidden", checked.stdout)

    @unittest.skipIf(socks.unavailable(), socks.unavailable())
    def test_mail_goes_through_danted_and_microsocks(self):
        with Peer() as peer, socks.Danted("127.0.0.81") as danted, \
                socks.Microsocks("127.0.0.82", "joe", "s:cret@7") as micro:
            text = (f"source d proxy=socks5://127.0.0.1:{danted.port} helo=d.out.example\n"
                    f"source m proxy=socks5://joe:s%3Acret%407@127.0.0.1:{micro.port} helo=m.out.example\n"
                    f"source w proxy=socks5://joe:wrong@127.0.0.1:{micro.port}\n"
                    "pool d d\npool m m\npool w w\n")
            maps = {f"@{p}.example": p for p in "dmw"}
            with self.instance(peer, text, maps=maps) as mx:
                for n, (domain, address) in enumerate((("d", "127.0.0.81"), ("m", "127.0.0.82")), 1):
                    send(mx.port, f"joe@{domain}.example", ["ada@rcpt.example"], mail(subject=domain))
                    message = peer.wait_messages(n)[-1]
                    self.assertEqual((message.session.address, message.session.helo),
                                     (address, f"EHLO {domain}.out.example"))
                send(mx.port, "joe@w.example", ["bo@rcpt.example"], mail())
                mx.wait_log(r"to=<bo@rcpt\.example>, .*: the proxy refuses user and password\)")
                self.assertNotIn("cret", mx.log())
                # What the proxies say of a host counts as the host's.
                eventually(lambda: all(s.closed for s in peer.sessions), "idle connections are closed")
                peer.close()
                send(mx.port, "joe@d.example", ["cy@rcpt.example"], mail())
                mx.wait_log(r"to=<cy@rcpt\.example>, .*status=deferred \(connect to 127\.0\.0\.1\[127\.0\.0\.1\]:\d+: "
                            r"Connection refused \(said the proxy\)\)")
                self.assertNotIn("resting", self.sources(mx)["d"])

    @unittest.skipIf(haproxy.unavailable(), haproxy.unavailable())
    def test_haproxy_is_told_whose_mail_it_is(self):
        port = free_port()
        boxes = {"mynetworks": "127.0.0.91/32", "virtual_mailbox_maps": inline({"ada@virtual.test.example": "ada/"})}
        behind = "inet n - n - - smtpd -o smtpd_upstream_proxy_protocol=haproxy"
        with Instance(boxes, {f"127.0.0.1:{port}": behind}) as receiver, \
                haproxy.Haproxy({"out": (port, "send-proxy-v2", "accept-proxy")}) as proxy:
            text = f"source h address=127.0.0.91 proxy=haproxy://127.0.0.1:{proxy.port('out')}\npool p h\n"
            far = {"virtual_mailbox_domains": "", "relay_domains": "virtual.test.example",
                   "transport_maps": inline({"virtual.test.example": f"smtp:[127.0.0.1]:{port}"})}
            with self.instance(None, text, "p", **far) as mx:
                send(mx.port, "joe@one.example", ["ada@virtual.test.example"], mail())
                Maildir(os.path.join(receiver.virtual_base, "ada")).wait()
                receiver.wait_log(r"client=\S+\[127\.0\.0\.91\]")
                mx.wait_log(r"to=<ada@virtual\.test\.example>, .*status=sent \(.*\), source=h\n")


if __name__ == "__main__":
    unittest.main()
