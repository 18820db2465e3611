"""RFC rules for an SMTP client, seen by a scripted peer. Names hold the section's number or the RFC's.

Every Peer also watches for what is never allowed: commands before the greeting, anything behind a command that ends a
group, parameters that were not offered, MAIL within a transaction, wrong line ends.
"""
import os
import random
import re
import socket
import threading

from harness import *

FULL = ["PIPELINING", "8BITMIME", "CHUNKING", "SIZE 0", "DSN"]
KINDS = (FULL, ["PIPELINING", "8BITMIME", "SIZE 0", "DSN"], ["CHUNKING", "8BITMIME"], ["8BITMIME"])
SOON = {"minimal_backoff_time": "1s", "maximal_backoff_time": "1s", "queue_run_delay": "1s",
        "default_destination_concurrency_limit": "1", "initial_destination_concurrency": "1"}
TIMEOUTS = ("smtp_helo_timeout", "smtp_mail_timeout", "smtp_rcpt_timeout", "smtp_data_init_timeout",
            "smtp_data_xfer_timeout", "smtp_data_done_timeout", "smtp_rset_timeout", "smtp_quit_timeout")


def subject(message):
    """A message that the test wrote; a report by the instance has another header."""
    return next((f[9:] for f in fields(split(message.content)[0]) if f.startswith(b"Subject: ")), b"").decode()


class Outgoing(Suite):
    def with_peer(self, features=FULL, settings=None, domains=("rcpt.example",), **options):
        peer = Peer(features=features, **options)
        self.addCleanup(peer.close)
        relay = {**relay_to(peer, *domains), **SOON, "local_header_rewrite_clients": "", **(settings or {})}
        if options.get("lmtp"):
            relay["transport_maps"] = relay["transport_maps"].replace("smtp:[127.0.0.1]", "lmtp:inet:127.0.0.1")
        mx = Instance(relay)
        mx.__enter__()
        self.addCleanup(mx.close)
        return peer, mx

    def submit(self, mx, *names, sender="", to=None, **options):
        with Client(mx.port) as client:
            for name in names:
                client.send(sender, to or [f"{name}@rcpt.example"], mail(name), **options)

    def outcome(self, mx, address, status):
        mx.wait_log(rf"to=<{address}>, .*status={status}")

    # -- routing

    def world(self, records, **settings):
        dns = Dns(records)
        self.addCleanup(dns.__exit__)
        mx = Instance({**dns.settings(), **SOON, **settings}, start=False)
        self.addCleanup(mx.close)
        mx.set(smtp_tcp_port=str(mx.port), smtp_connect_timeout="2s")  # the hosts differ by their addresses
        mx.start()
        return dns, mx

    def host(self, mx, address, **options):
        peer = Peer(host=address, port=mx.port, **options)
        self.addCleanup(peer.close)
        return peer

    def test_c01_equal_preferences_share_the_load_and_worse_ones_have_none(self):
        dns, mx = self.world(
            {
                ("many.example", "MX"): [(10, "a.many.example"), (20, "c.many.example"), (10, "b.many.example")],
                ("a.many.example", "A"): ["127.0.0.21"],
                ("b.many.example", "A"): ["127.0.0.22"],
                ("c.many.example", "A"): ["127.0.0.23"],
            },
            default_destination_concurrency_limit="20",
            initial_destination_concurrency="20",
        )
        peers = [self.host(mx, f"127.0.0.2{i}") for i in (1, 2, 3)]
        for peer in peers:
            peer.delay = 0.005  # so that no connection takes all the mail
        for i in range(60):
            send(mx.port, "a@s.example", ["x@many.example"], mail(str(i)))
        mx.wait_empty_queue()
        counts = [len(p.messages) for p in peers]
        self.assertEqual((sum(counts), counts[2]), (60, 0))
        self.assertGreater(min(counts[:2]), 0, counts)

    def test_c04_the_other_addresses_of_a_host_are_tried(self):
        dns, mx = self.world({("two.example", "A"): ["127.0.0.24", "127.0.0.25"]}, smtp_randomize_addresses="no")
        second = self.host(mx, "127.0.0.25")  # nobody listens on the first
        send(mx.port, "a@s.example", ["x@two.example"], mail("c04"))
        second.wait_messages(1)
        mx.wait_empty_queue()

    def test_c05_this_host_among_the_mx_hides_itself_and_what_is_not_better(self):
        records = {("far.example", "MX"): [(10, "a.far.example"), (20, "me.far.example"), (20, "c.far.example"),
                                           (30, "d.far.example")],
                   ("self.example", "MX"): [(10, "me.far.example"), (20, "d.far.example")],
                   ("a.far.example", "A"): ["127.0.0.26"], ("me.far.example", "A"): ["127.0.0.1"],
                   ("c.far.example", "A"): ["127.0.0.27"], ("d.far.example", "A"): ["127.0.0.28"]}
        dns, mx = self.world(records)
        worse = [self.host(mx, a) for a in ("127.0.0.27", "127.0.0.28")]
        send(mx.port, "", ["x@far.example"], mail("c05"))  # the better host is down
        send(mx.port, "", ["x@self.example"], mail("c05 self"))
        mx.wait_log(r"to=<x@self\.example>, .*dsn=5\.4\.6, status=bounced .*loops back to myself")
        self.outcome(mx, "x@far.example", "deferred")
        better = self.host(mx, "127.0.0.26")
        mx.flush()
        better.wait_messages(1)
        mx.wait_empty_queue()
        self.assertEqual([p.sessions for p in worse], [[], []])

    def test_7505_2_a_null_mx_beside_others_is_none(self):
        dns, mx = self.world({("odd.example", "MX"): [(0, "."), (10, "a.odd.example")],
                              ("a.odd.example", "A"): ["127.0.0.29"]})
        peer = self.host(mx, "127.0.0.29")
        send(mx.port, "a@s.example", ["x@odd.example"], mail("7505"))
        peer.wait_messages(1)
        mx.wait_empty_queue()

    def test_6531_3_dns_is_asked_for_the_a_label(self):
        dns, mx = self.world({("xn--bcher-kva.example", "A"): ["127.0.0.30"]})
        peer = self.host(mx, "127.0.0.30", features=FULL + ["SMTPUTF8"])
        send(mx.port, "a@s.example", ["x@bücher.example"], mail("6531"), mail="SMTPUTF8")
        peer.wait_messages(1)
        mx.wait_empty_queue()
        self.assertIn("SMTPUTF8", peer.messages[0].parameters)
        self.assertEqual(
            {n for n, _ in dns.asked if "example" in n and "s.example" not in n}, {"xn--bcher-kva.example"}
        )

    # -- greeting, replies

    def test_c07_nothing_is_sent_before_the_greeting(self):
        peer, mx = self.with_peer()
        submitted = threading.Event()
        peer.replies["GREETING"] = lambda session, line: submitted.wait(30) and None
        self.submit(mx, "one", "two")
        peer.wait_sessions(1)
        submitted.set()  # Peer looks for early words now
        peer.wait_messages(2)
        mx.wait_empty_queue()
        self.assertEqual(peer.violations, [])

    def test_c08_helo_where_ehlo_is_unknown(self):
        for i, refusal in enumerate(("500 what", "502 5.5.1 no", "550 no")):
            with self.subTest(refusal):
                peer, mx = self.with_peer()
                peer.replies["EHLO"] = lambda session, line, refusal=refusal: refusal
                self.submit(mx, "helo")
                self.assertEqual(peer.wait_messages(1)[0].session.helo, "HELO mx.test.example")
                mx.wait_empty_queue()
                self.assertEqual(peer.violations, [])

    def test_c10_replies_are_read_by_their_first_digit_in_any_shape(self):
        long = "\r\n".join(f"250-2.0.0 line {i} " + "x" * 400 for i in range(100)) + "\r\n250 2.0.0 last"
        for features in KINDS:
            for trickle in (False, True):
                with self.subTest(features=features, trickle=trickle):
                    peer, mx = self.with_peer(features)
                    peer.trickle = trickle
                    odd = {"o299@": "299 fine", "o459@": "459 not today", "o599@": "599 never", "bare@": "250"}
                    peer.replies["RCPT"] = lambda s, line: next((r for a, r in odd.items() if a in line), None)
                    peer.replies["DOT"] = [long, "250-2.0.0 two\r\n250 2.0.0 lines"]
                    self.submit(mx, "long", "lines", "usual")
                    self.submit(mx, "odd", to=[a + "rcpt.example" for a in odd])
                    self.outcome(mx, "o299@rcpt.example", "sent")
                    self.outcome(mx, "bare@rcpt.example", "sent")
                    self.outcome(mx, "o459@rcpt.example", "deferred")
                    self.outcome(mx, "o599@rcpt.example", "bounced")
                    odd["o459@"] = "250 now"
                    mx.flush()
                    self.outcome(mx, "o459@rcpt.example", "sent")
                    mx.wait_empty_queue()
                    self.assertEqual(
                        [sum(subject(m) == n for m in peer.messages) for n in ("long", "lines", "usual")], [1, 1, 1]
                    )
                    self.assertEqual(peer.violations, [])

    def test_c11_and_c12_each_recipient_has_its_own_fate(self):
        for features in KINDS:
            with self.subTest(features):
                peer, mx = self.with_peer(features, domains=("rcpt.example", "sender.example"))
                fate = {
                    "full@": ["452 4.2.2 full", "552 5.2.2 no more", "452 4.5.3 too many"],
                    "gone@": ["550 5.1.1 gone"] * 9,
                }
                peer.replies["RCPT"] = lambda s, line: next(
                    (f.pop(0) for a, f in fate.items() if a in line and f), None
                )
                self.submit(
                    mx,
                    "mixed",
                    sender="ada@sender.example",
                    to=["fine@rcpt.example", "full@rcpt.example", "gone@rcpt.example"],
                )
                self.outcome(mx, "fine@rcpt.example", "sent")
                self.outcome(mx, "gone@rcpt.example", "bounced")
                eventually(lambda: mx.flush() or mx.queue() == [], lambda: f"empty: {mx.queue()}")
                mixed = [m.recipients for m in peer.messages if subject(m) == "mixed"]
                self.assertEqual(sorted(sum(mixed, [])), ["fine@rcpt.example", "full@rcpt.example"])
                self.assertNotIn("full@", bounced(mx.log()))
                reports = [m for m in peer.messages if m.recipients == ["ada@sender.example"]]
                self.assertEqual([m.sender for m in reports], [""])
                self.assertIn(b"gone@rcpt.example", reports[0].content)
                self.assertNotIn(b"Final-Recipient: rfc822; full@", reports[0].content)
                self.assertEqual(peer.violations, [])

    def test_c13_and_c16_defaults_are_no_shorter_than_the_rfc_says(self):
        with Instance(start=False) as mx:
            for names, seconds in ((("smtp_helo_timeout", "smtp_mail_timeout", "smtp_rcpt_timeout"), 300),
                                   (("smtp_data_init_timeout",), 120), (("smtp_data_xfer_timeout",), 180),
                                   (("smtp_data_done_timeout",), 600)):
                for name in names:
                    text = mx.tool("penconf", "-d", "-h", name, check=True).stdout.strip()
                    self.assertGreaterEqual(int(text.rstrip("s")), seconds, name)
            self.assertEqual(mx.tool("penconf", "-d", "-h", "maximal_queue_lifetime", check=True).stdout.strip(), "5d")

    def test_c16_a_peer_that_says_nothing_is_left_and_the_mail_kept(self):
        for features in KINDS:
            for stage in ("GREETING", "EHLO", "MAIL", "RCPT", "DATA", "DOT"):
                if stage == "DATA" and "CHUNKING" in features:
                    continue
                with self.subTest(stage=stage, features=features):
                    peer, mx = self.with_peer(features, {t: "1s" for t in TIMEOUTS})
                    silent = threading.Event()
                    peer.replies[stage] = lambda session, line: None if silent.is_set() else NOTHING
                    self.submit(mx, stage)
                    # In a group the next reply comes, and does not fit.
                    self.outcome(
                        mx, f"{stage}@rcpt.example", "deferred" if "PIPELINING" in features else "deferred .*timed out"
                    )
                    silent.set()
                    eventually(lambda: mx.flush() or mx.queue() == [], lambda: f"empty: {mx.queue()}")
                    self.assertIn(stage, [subject(m) for m in peer.messages])

    # -- transactions, one after the other on one connection

    def batch(self, mx, peer, names):
        """Submits while the peer holds its greeting back, so that one connection gets all messages; waits for the
        end."""
        ready = threading.Event()
        peer.replies["GREETING"] = lambda session, line: ready.wait(30) and None
        self.submit(mx, *names)
        ready.set()
        eventually(lambda: mx.flush() or mx.queue() == [], lambda: f"empty: {mx.queue()}", 60)

    def faulty(self, features, stage, fault, duplicates):
        peer, mx = self.with_peer(features, {t: "2s" for t in TIMEOUTS})
        names = [f"n{i}" for i in range(8)]
        seen = []

        def answer(session, line):
            with peer.changed:
                seen.append(line)
                return fault if len(seen) == 3 else None
        peer.replies[stage] = answer
        self.batch(mx, peer, names)
        got = [subject(m) for m in peer.messages]
        self.assertEqual(sorted(set(got)), names, mx.log()[-3000:])
        for message in peer.messages:  # never under another message's envelope
            self.assertEqual(message.recipients, [subject(message) + "@rcpt.example"])
        if not duplicates:
            self.assertEqual(sorted(got), names)
        self.assertEqual(peer.violations, [])
        self.assertGreaterEqual(len(seen), 3)

    def test_c17_c18_c19_trouble_in_the_middle_of_a_session_loses_and_mixes_nothing(self):
        for features in KINDS:
            for stage in ("MAIL", "RCPT", "DATA", "DOT"):
                if stage == "DATA" and "CHUNKING" in features:
                    continue
                for what, fault in (("451", "451 4.3.0 later"), ("421", "421 4.3.2 closing"), ("drop", DROP),
                                    ("nothing", NOTHING)):
                    with self.subTest(features=features, stage=stage, fault=what):
                        self.faulty(features, stage, fault, what in ("drop", "nothing"))

    def test_c19_a_refusal_is_credited_to_its_own_message_when_replies_are_merged_or_missing(self):
        for features in KINDS:
            for stage, fault in (("MAIL", NOTHING), ("DOT", NOTHING), ("DOT", "250 2.0.0 ok\r\n250 2.0.0 ok"),
                                 ("MAIL", "250 2.1.0 ok\r\n250 2.1.0 ok")):
                if fault is not NOTHING and "CHUNKING" in features and "PIPELINING" in features:
                    continue  # undetectable there: docs/pipelining.md
                with self.subTest(features=features, stage=stage, fault=fault or "nothing"):
                    peer, mx = self.with_peer(features, {t: "2s" for t in TIMEOUTS})
                    names, count = [f"n{i}" for i in range(8)], []
                    once = threading.Lock()

                    def answer(session, line, verb):
                        if verb == "DOT" and session.last_rcpt.startswith("n4@"):
                            return "554 5.7.1 not n4"
                        with once:
                            if verb == stage:
                                count.append(line)
                                return fault if len(count) == 3 else None

                    def rcpt(session, line):
                        session.last_rcpt = line[9:]

                    peer.replies.update(
                        {
                            "RCPT": rcpt,
                            "DOT": lambda s, l: answer(s, l, "DOT"),
                            "MAIL": lambda s, l: answer(s, l, "MAIL"),
                        }
                    )
                    self.batch(mx, peer, names)
                    self.outcome(mx, "n4@rcpt.example", "bounced")
                    self.assertEqual(sorted({subject(m) for m in peer.messages}), [n for n in names if n != "n4"])
                    self.assertEqual(bounced(mx.log()), {"n4@rcpt.example"})

    def test_2920_4_random_replies_to_a_pipelined_session_are_accounted_exactly(self):
        seed = int(os.environ.get("PEN_SEED", "0")) or random.randrange(1 << 30)
        for features in KINDS:
            dice = random.Random(seed)
            with self.subTest(seed=seed, features=features):
                peer, mx = self.with_peer(features)
                refused = set()

                def dot(session, line):
                    with peer.changed:
                        reply = dice.choice([None] * 5 + ["451 4.3.0 later", "554 5.7.1 never", "421 4.3.2 closing"])
                        if reply and reply[0] == "5":
                            refused.add(session.last_rcpt)
                        return reply

                def rcpt(session, line):
                    session.last_rcpt = line[9:].split(">")[0]
                peer.replies.update({"DOT": dot, "RCPT": rcpt})
                names = [f"n{i}" for i in range(40)]
                self.batch(mx, peer, names)
                self.assertEqual(sorted([subject(m) + "@rcpt.example" for m in peer.messages] + list(refused)),
                                 sorted(n + "@rcpt.example" for n in names))
                self.assertEqual(bounced(mx.log()) & {n + "@rcpt.example" for n in names}, refused)
                self.assertEqual(peer.violations, [])

    def test_2920_2_a_354_without_recipients_gets_an_empty_message(self):
        peer, mx = self.with_peer(["PIPELINING", "8BITMIME"])
        peer.replies["RCPT"] = lambda s, line: "550 5.1.1 gone" if "gone@" in line else None
        peer.replies["DATA"] = lambda s, line: "354 all the same"
        self.batch(mx, peer, ["one", "gone", "two"])
        self.assertEqual(sorted(m.recipients for m in peer.messages if m.recipients),
                         [["one@rcpt.example"], ["two@rcpt.example"]])
        self.assertEqual(len(peer.sessions), 1)
        self.assertIn(b"DATA\r\n.\r\n", bytes(peer.sessions[0].raw))

    def test_c19_the_next_message_follows_one_whose_recipients_were_all_refused(self):
        for features in KINDS:
            with self.subTest(features):
                peer, mx = self.with_peer(features)
                peer.replies["RCPT"] = lambda s, line: "550 5.1.1 gone" if "gone@" in line else None
                self.batch(mx, peer, ["one", "gone", "two"])
                self.assertEqual(
                    sorted(m.recipients for m in peer.messages), [["one@rcpt.example"], ["two@rcpt.example"]]
                )
                self.assertEqual(len(peer.sessions), 1)
                self.assertEqual(peer.violations, [])

    def test_2920_5_a_thousand_recipients_through_a_small_window(self):
        settings = {"smtp_destination_recipient_limit": "1000"}
        for features in KINDS[:2]:
            with self.subTest(features):
                peer, mx = self.with_peer(features, settings)
                peer.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
                peer.replies["RCPT"] = lambda s, line: "250-2.1.5 " + "y" * 450 + "\r\n250 2.1.5 " + "x" * 450
                names = [f"user{i}@rcpt.example" for i in range(1000)]
                self.submit(mx, "thousand", to=names)
                got = peer.wait_messages(1)
                mx.wait_empty_queue()
                self.assertEqual([sorted(m.recipients) for m in got], [sorted(names)])

    def test_c15_one_transaction_for_the_recipients_of_a_host(self):
        peer, mx = self.with_peer(domains=("rcpt.example", "other.example"))
        self.submit(mx, "c15", to=["a@rcpt.example", "b@rcpt.example", "c@rcpt.example"])
        mx.wait_empty_queue()
        self.assertEqual(
            [m.recipients for m in peer.messages], [["a@rcpt.example", "b@rcpt.example", "c@rcpt.example"]]
        )

    # -- extensions

    def test_9422_recipients_beyond_what_a_host_takes_follow_at_once(self):
        everybody = [f"u{n}@{domain}.example" for n in range(3) for domain in ("one", "two", "three")]
        for limit, most in (("RCPTMAX=4", 4), ("RCPTDOMAINMAX=2", 6)):
            with self.subTest(limit):
                peer, mx = self.with_peer(features=FULL + ["LIMITS " + limit], domains=("one.example", "two.example",
                                          "three.example"), settings={"minimal_backoff_time": "1h"})
                self.submit(mx, "m", sender="s@sender.example", to=everybody)
                mx.wait_empty_queue()
                self.assertEqual(sorted(r for m in peer.messages for r in m.recipients), sorted(everybody))
                self.assertLessEqual(max(len(m.recipients) for m in peer.messages), most)
                self.assertNotIn("status=deferred", mx.log())

    def test_9422_who_is_left_over_waits_where_nobody_was_taken(self):
        peer, mx = self.with_peer(features=FULL + ["LIMITS RCPTMAX=1"], settings={"minimal_backoff_time": "1h"})
        peer.replies["RCPT"] = lambda session, line: "451 4.7.1 later"
        self.submit(mx, "m", sender="s@sender.example", to=["a@rcpt.example", "b@rcpt.example"])
        self.outcome(mx, "a@rcpt.example", "deferred")
        self.outcome(mx, "b@rcpt.example", "deferred")
        self.assertEqual(len([c for s in peer.sessions for c in s.commands if c.startswith("RCPT")]), 1)

    def test_1870_2_the_size_is_told_and_a_message_over_the_peer_s_limit_not_sent(self):
        peer, mx = self.with_peer(["PIPELINING", "SIZE 2000"], domains=("rcpt.example", "sender.example"))
        self.submit(mx, "small")
        got = peer.wait_messages(1)[0]
        self.assertIn(f"SIZE={len(got.content)}", got.parameters)
        send(
            mx.port, "", ["big@rcpt.example"], mail("big", "x" * 900 + "\r\n" + "x" * 900 + "\r\n" + "x" * 900 + "\r\n")
        )
        mx.wait_log(r"to=<big@rcpt\.example>, .*dsn=5\.3\.4, status=bounced")
        self.assertFalse([c for s in peer.sessions for c in s.commands if "big@" in c])

    def test_3461_3_dsn_parameters_are_passed_on_where_they_are_understood(self):
        for features in (FULL, ["PIPELINING", "CHUNKING", "8BITMIME"]):
            peer, mx = self.with_peer(features)
            send(mx.port, "ada@sender.example", ["b@rcpt.example"], mail("dsn"), mail="RET=HDRS ENVID=QQ+2B1",
                 rcpt="NOTIFY=FAILURE,DELAY ORCPT=rfc822;asked+2Bfor@first.example")
            got = peer.wait_messages(1)[0]
            mx.wait_empty_queue()
            dsn = "DSN" in features
            self.assertEqual(
                {p for p in got.parameters if p[:4] in ("RET=", "ENVI")}, {"RET=HDRS", "ENVID=QQ+2B1"} if dsn else set()
            )
            self.assertEqual(
                set(got.recipient_parameters[0]),
                {"NOTIFY=FAILURE,DELAY", "ORCPT=rfc822;asked+2Bfor@first.example"} if dsn else set(),
            )
            self.assertEqual(peer.violations, [])

    def test_3461_4_and_5_a_success_report_where_the_next_host_will_not_make_it(self):
        for features, wanted in ((FULL, 0), (["PIPELINING"], 1)):
            peer, mx = self.with_peer(features, domains=("rcpt.example", "sender.example"))
            send(
                mx.port,
                "ada@sender.example",
                ["b@rcpt.example"],
                mail("success"),
                rcpt="NOTIFY=SUCCESS,FAILURE",
                mail="ENVID=E1",
            )
            peer.wait_messages(1 + wanted)
            mx.wait_empty_queue()
            reports = [m for m in peer.messages if m.recipients == ["ada@sender.example"]]
            self.assertEqual(len(reports), wanted)
            for report in reports:
                self.assertEqual(report.sender, "")
                self.assertIn(b"\r\nAction: relayed\r\n", report.content)
                self.assertIn(b"Original-Envelope-Id: E1\r\n", report.content)

    def test_2033_1_each_lmtp_recipient_has_its_own_reply_after_the_dot(self):
        for features in (FULL, ["PIPELINING"], []):
            with self.subTest(features):
                peer, mx = self.with_peer(features, lmtp=True)
                fate = {"full@rcpt.example": "452 4.2.2 full", "bad@rcpt.example": "550 5.7.1 no"}
                peer.replies["DOT"] = lambda s, recipient: fate.get(recipient)
                peer.replies["RCPT"] = lambda s, line: "550 5.1.1 gone" if "gone@" in line else None
                self.submit(
                    mx,
                    "lmtp",
                    to=[
                        "a@rcpt.example",
                        "full@rcpt.example",
                        "gone@rcpt.example",
                        "bad@rcpt.example",
                        "z@rcpt.example",
                    ],
                )
                for name, status in (
                    ("a", "sent"),
                    ("z", "sent"),
                    ("full", "deferred"),
                    ("bad", "bounced"),
                    ("gone", "bounced"),
                ):
                    self.outcome(mx, name + "@rcpt.example", status)
                fate.clear()
                eventually(lambda: mx.flush() or mx.queue() == [], lambda: f"empty: {mx.queue()}")
                self.assertEqual(peer.messages[-1].recipients, ["full@rcpt.example"])
                self.assertTrue(all(s.helo.startswith("LHLO ") for s in peer.sessions))
                self.assertEqual(peer.violations, [])

    def test_2033_3_without_lmtp_recipients_no_reply_is_awaited(self):
        for features in (FULL, ["PIPELINING"], []):
            with self.subTest(features):
                peer, mx = self.with_peer(features, lmtp=True)
                peer.replies["RCPT"] = lambda s, line: "550 5.1.1 gone" if "gone@" in line else None
                self.batch(mx, peer, ["one", "gone", "two"])
                self.outcome(mx, "gone@rcpt.example", "bounced")
                self.assertEqual(
                    sorted(m.recipients for m in peer.messages), [["one@rcpt.example"], ["two@rcpt.example"]]
                )

    def test_6531_2_only_what_needs_smtputf8_needs_it_of_the_peer(self):
        peer, mx = self.with_peer(FULL)
        raw = mail("sübject")
        for name, to, content in (
            ("ascii", "ascii@rcpt.example", mail("ascii")),
            ("address", "bén@rcpt.example", mail("x")),
            ("header", "header@rcpt.example", raw),
        ):
            send(mx.port, "", [to], content, mail="SMTPUTF8 BODY=8BITMIME")
        mx.wait_log(r"to=<b.+n@rcpt\.example>, .*dsn=5\.6\.7, status=bounced")
        mx.wait_log(r"to=<header@rcpt\.example>, .*dsn=5\.6\.7, status=bounced")
        mx.wait_empty_queue()
        self.assertEqual([m.recipients for m in peer.messages], [["ascii@rcpt.example"]])
        self.assertEqual(peer.violations, [])


def bounced(log):
    return {m.group(1) for m in re.finditer(r"to=<([^>]*)>, .*status=bounced", log)}


if __name__ == "__main__":
    unittest.main()
