"""sendmail -bv and -v: probes that deliver nothing, and reports on the first try, for the sender."""
import os
import re

from harness import *
from test_crash import system_user
from test_submission import Submission

TO = "local.test.example"
ME = "bob@virtual.test.example"
SUBJECT = "Mail Delivery Status Report"


class Reports(Submission):
    def setUp(self):
        super().setUp()
        self.seen = set()

    def report(self, mx):
        """Returns the next such report in the sender's mailbox, whatever arrives there before it: the status of each
        recipient, the text for people, the parts."""
        def new():
            return [m for m in self.box(mx, "bob") if m["Message-ID"] not in self.seen and m["Subject"] == SUBJECT]
        report = eventually(new, lambda: f"a report, beside {[m['Subject'] for m in self.box(mx, 'bob')]}")[0]
        self.seen.add(report["Message-ID"])
        self.assertEqual(report["Return-Path"], "<>")
        parts = report.get_payload()
        fields = {p["Final-Recipient"].split("; ")[1]: (p["Action"], p["Status"])
                  for p in parts[1].get_payload()[1:]}
        return fields, " ".join(parts[0].get_payload().split()), parts

    def probe(self, mx, *to):
        self.sendmail(mx, "-bv", "-f", ME, *to, stdin="")

    def said(self, peer):
        return [c.split(" ")[0] for s in peer.sessions for c in s.commands]


class Probes(Reports):
    """sendmail -bv"""

    def test_hosts_are_asked_up_to_rcpt_and_their_words_reported(self):
        with Peer() as peer:
            peer.replies["RCPT"] = lambda s, line: "550 5.1.1 <no@rcpt.example>: nobody here" if "<no@" in line else \
                "451 4.7.1 greylisted, try again" if "<later@" in line else None
            with self.instance(relay_to(peer)) as mx:
                self.probe(mx, "yes@rcpt.example", "no@rcpt.example", "later@rcpt.example")
                fields, text, parts = self.report(mx)
                self.assertEqual(fields, {"yes@rcpt.example": ("deliverable", "2.1.5"),
                                          "no@rcpt.example": ("undeliverable", "5.1.1"),
                                          "later@rcpt.example": ("undeliverable", "4.7.1")})
                self.assertIn("<yes@rcpt.example>: deliverable via 127.0.0.1: 250 2.1.5 ok", text)
                self.assertRegex(
                    text, r"<no@rcpt\.example>: undeliverable: host .* said: 550 5\.1\.1 <no@rcpt\.example>: nobody"
                )
                self.assertRegex(
                    text, r"<later@rcpt\.example>: undeliverable for now: host .* said: 451 4\.7\.1 greylisted"
                )
                for part in parts[1].get_payload()[1:]:
                    self.assertEqual(part["Remote-MTA"], "dns; 127.0.0.1")
                    self.assertRegex(part["Diagnostic-Code"], r"^smtp; \d\d\d \d\.")
                self.assertIn("Subject: probe", parts[2].as_string())
                mx.wait_empty_queue()
                mx.wait_log(
                    r"smtp\[\d+\]: \w+: to=<yes@rcpt\.example>, .*dsn=2\.1\.5, status=deliverable \(250 2\.1\.5 ok\)"
                )
                mx.wait_log(r"to=<later@rcpt\.example>, .*dsn=4\.7\.1, status=undeliverable \(host ")
                eventually(lambda: "RSET" in self.said(peer), "RSET")
                self.assertFalse({"DATA", "BDAT"} & set(self.said(peer)))
                mx.flush()
                self.probe(mx, "yes@rcpt.example")  # queued behind anything that might be retried
                self.report(mx)
                self.assertEqual(self.said(peer).count("RCPT"), 4)
                self.assertEqual((peer.messages, peer.violations, len(self.box(mx, "bob"))), ([], [], 2))

    def test_a_host_that_cannot_be_reached_is_an_answer_and_is_not_tried_again(self):
        peer = Peer()
        peer.close()
        with self.instance({**relay_to(peer), "minimal_backoff_time": "1s", "maximal_backoff_time": "1s"}) as mx:
            self.probe(mx, "x@rcpt.example", "x@no-such-name.example")
            fields, text, _ = self.report(mx)
            self.assertEqual(fields["x@rcpt.example"], ("undeliverable", "4.4.1"))
            self.assertEqual(fields["x@no-such-name.example"][0], "undeliverable")
            self.assertIn("<x@rcpt.example>: undeliverable for now: connect to 127.0.0.1", text)
            mx.wait_empty_queue()
            self.assertEqual(len(re.findall(r"to=<x@rcpt\.example>", mx.log())), 1)

    def test_every_transport_says_what_it_would_do(self):
        user = system_user()
        with Peer(lmtp=True) as lmtp:
            hops = {
                "lmtp.example": f"lmtp:inet:[127.0.0.1]:{lmtp.port}",
                "pipe.example": "robot:",
                "error.example": "error:5.2.1 closed for good",
                "retry.example": "retry:4.2.1 come back",
                "hole.example": "discard:into the hole",
            }
            with self.instance(
                {"relay_domains": ", ".join(hops), "transport_maps": inline(hops), "default_privs": user}, start=False
            ) as mx:
                out = os.path.join(mx.dir, "out")
                os.mkdir(out, 0o1777)
                os.chmod(out, 0o1777)
                mx.set_services(
                    {"robot": f"unix - n n - 5 pipe user={user} argv=/bin/touch {out}/robot ${{recipient}}"}
                )
                file = mx.write(
                    "aliases",
                    f'robot: "|/bin/touch {out}/alias"\narchive: {out}/archive\n'
                    f"team: {user}, far@rcpt.example, \"|/bin/touch {out}/team\"\n",
                )
                mx.set(alias_maps=f"lmdb:{file}", alias_database=f"lmdb:{file}")
                mx.tool("penalias", f"lmdb:{file}", check=True)
                mx.start()
                self.probe(
                    mx,
                    "a@lmtp.example",
                    "a@pipe.example",
                    "a@error.example",
                    "a@retry.example",
                    "a@hole.example",
                    f"robot@{TO}",
                    f"archive@{TO}",
                    f"team@{TO}",
                    f"{user}@{TO}",
                    f"no-such-user@{TO}",
                    "ada@virtual.test.example",
                    "nobody@virtual.test.example",
                )
                fields, text, _ = self.report(mx)
                good, bad = ("deliverable", "2.0.0"), "undeliverable"
                self.assertEqual(
                    fields,
                    {
                        "a@lmtp.example": ("deliverable", "2.1.5"),
                        "a@pipe.example": good,
                        "a@error.example": (bad, "5.2.1"),
                        "a@retry.example": (bad, "4.2.1"),
                        "a@hole.example": good,
                        f"robot@{TO}": good,
                        f"archive@{TO}": good,
                        f"team@{TO}": good,
                        f"{user}@{TO}": good,
                        f"no-such-user@{TO}": (bad, "5.1.1"),
                        "ada@virtual.test.example": good,
                        "nobody@virtual.test.example": (bad, "5.1.1"),
                    },
                )
                for wanted in (
                    f"<a@pipe.example>: deliverable: delivers to command: /bin/touch {out}/robot a@pipe.example",
                    f"<robot@{TO}>: deliverable: delivers to command: /bin/touch {out}/alias",
                    f"<archive@{TO}>: deliverable: delivers to file: {out}/archive",
                    f"delivers to command: /bin/touch {out}/team; forwards to ",
                    f"<{user}@{TO}>: deliverable: delivers to maildir",
                    "<ada@virtual.test.example>: deliverable: delivers to maildir",
                    "<a@hole.example>: deliverable: into the hole",
                ):
                    self.assertIn(wanted, text)
                mx.wait_empty_queue()
                self.assertEqual(
                    (os.listdir(out), self.box(mx, "ada"), lmtp.messages, lmtp.violations), ([], [], [], [])
                )
                self.assertFalse(os.path.exists(os.path.join(mx.mail_spool, user)))

    def test_virtual_aliases_are_followed_and_bcc_filters_and_checks_are_not(self):
        with Peer() as peer:
            settings = {
                **relay_to(peer),
                "virtual_alias_domains": "alias.example",
                "always_bcc": "eve@virtual.test.example",
                "content_filter": "smtp:[127.0.0.1]:9",
                "soft_bounce": "yes",
                "local_recipient_maps": inline({"known": "x"}),
                "virtual_alias_maps": inline({"team@alias.example": "ada@virtual.test.example, x@rcpt.example"}),
            }
            with self.instance(settings) as mx:
                self.probe(mx, "team@alias.example", "none@alias.example")
                fields, _, parts = self.report(mx)
                self.assertEqual(fields, {"ada@virtual.test.example": ("deliverable", "2.0.0"),
                                          "x@rcpt.example": ("deliverable", "2.1.5"),
                                          "none@alias.example": ("undeliverable", "5.1.1")})
                originals = [p["Original-Recipient"] for p in parts[1].get_payload()[1:]]
                self.assertEqual(originals.count("rfc822; team@alias.example"), 2)
                mx.wait_empty_queue()
                self.assertEqual((peer.messages, self.box(mx, "eve")), ([], []))

    def test_messages_on_the_same_connections_do_not_notice_probes(self):
        for features in (("PIPELINING", "8BITMIME", "CHUNKING"), ("PIPELINING",), ()):
            with self.subTest(features=features), Peer(features=features) as peer:
                peer.replies["RCPT"] = lambda s, line: "550 5.1.1 no" if "<no" in line else None
                # One connection carries everything.
                with self.instance({**relay_to(peer), "smtp_destination_concurrency_limit": "1"}) as mx:
                    for i in range(20):
                        send(mx.port, ME, [f"u{i}@rcpt.example"], mail(str(i)))
                        if i % 2:
                            self.probe(mx, f"p{i}@rcpt.example", f"no{i}@rcpt.example")
                    peer.wait_messages(20)
                    mx.virtual_box("bob").wait(10)
                    mx.wait_empty_queue()
                    self.assertEqual(sorted(m.recipients[0] for m in peer.messages),
                                     sorted(f"u{i}@rcpt.example" for i in range(20)))
                    self.assertEqual((peer.violations, len(self.box(mx, "bob"))), ([], 10))

    def test_a_probe_outlives_the_queue_manager_and_is_answered_once(self):
        with Peer() as peer:
            gone = []
            peer.replies["RCPT"] = lambda s, line: NOTHING if not gone else None
            with self.instance(relay_to(peer)) as mx:
                self.probe(mx, "x@rcpt.example")
                eventually(lambda: "RCPT" in self.said(peer), "the host is asked")
                gone.append(1)
                mx.kill("qmgr")
                fields, _, _ = self.report(mx)
                self.assertEqual(fields, {"x@rcpt.example": ("deliverable", "2.1.5")})
                mx.wait_empty_queue()
                self.assertEqual((peer.messages, len(self.box(mx, "bob"))), ([], 1))


class Traced(Reports):
    """sendmail -v"""

    def test_the_first_try_is_reported_whatever_came_of_it_and_nothing_after_it(self):
        with Peer() as peer:
            late = ["451 4.7.1 greylisted"]
            peer.replies["RCPT"] = lambda s, line: late[0] if late and "<late@" in line else \
                "550 5.1.1 nobody" if "<no@" in line else None
            with self.instance({**relay_to(peer), "minimal_backoff_time": "1s", "maximal_backoff_time": "1s",
                                "queue_run_delay": "1s"}) as mx:
                self.sendmail(mx, "-v", "-f", ME, "late@rcpt.example", "now@rcpt.example", "no@rcpt.example",
                              "ada@virtual.test.example")
                mx.virtual_box("bob").wait(2)
                # The bounce comes second.
                self.seen = {m["Message-ID"] for m in self.box(mx, "bob") if m["Subject"].startswith("Undelivered")}
                self.assertEqual(len(self.seen), 1)
                fields, text, _ = self.report(mx)
                self.assertEqual(
                    fields,
                    {
                        "late@rcpt.example": ("delayed", "4.7.1"),
                        "now@rcpt.example": ("delivered", "2.0.0"),
                        "no@rcpt.example": ("failed", "5.1.1"),
                        "ada@virtual.test.example": ("delivered", "2.0.0"),
                    },
                )
                self.assertIn("<late@rcpt.example>: delayed: host", text)
                late.clear()
                peer.wait_messages(2)
                mx.wait_empty_queue()
                self.assertEqual(len(self.box(mx, "bob")), 2)

    def test_notify_has_no_say_in_reports_that_were_asked_for(self):
        with Peer() as peer:
            settings = {
                **relay_to(peer),
                "virtual_alias_domains": "alias.example",
                "always_bcc": "eve@virtual.test.example",
                "virtual_alias_maps": inline({"team@alias.example": "ada@virtual.test.example, x@rcpt.example"}),
            }
            with self.instance(settings) as mx:
                for notify in "never", "success":
                    with self.subTest(notify):
                        self.sendmail(mx, "-v", "-N", notify, "-f", ME, "team@alias.example")
                        fields, text, _ = self.report(mx)
                        self.assertEqual(set(fields) - {"team@alias.example"},
                                         {"ada@virtual.test.example", "x@rcpt.example"}, text)
                        self.assertNotIn("eve", text)
                        mx.wait_empty_queue()
                self.assertEqual([m["Subject"] for m in self.box(mx, "bob") if m["Message-ID"] not in self.seen],
                                 ["Successful Mail Delivery Report"])

    def test_nobody_is_told_of_a_first_try_without_a_sender(self):
        with self.instance() as mx:
            self.sendmail(mx, "-v", "-f", "<>", "ada@virtual.test.example")
            mx.virtual_box("ada").wait(1)
            mx.wait_empty_queue()
            self.assertEqual(self.box(mx, "bob"), [])


if __name__ == "__main__":
    unittest.main()
