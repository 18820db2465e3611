"""What comes back to us: notices and feedback reports become events, whoever wrote them; one-click unsubscribing."""
import csv
import os
import unittest

import peers
from event_stream import events_directory, files, wait_logged
from harness import *
from srs_peers import srs
from test_penapi import Api, UNIX
from test_srs import secrets

OWNER = "owner-list@virtual.test.example"
VERP = "owner-list+gone=far.example@virtual.test.example"
HERE = {"virtual_mailbox_maps": inline({OWNER: "owner/", "fbl@virtual.test.example": "fbl/",
                                        "jo@virtual.test.example": "jo/"}), "recipient_delimiter": "+",
        "smtpd_authorized_verp_clients": "127.0.0.1"}


def seed(name):
    """A message of fuzz/corpus/returned_mail."""
    top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    with open(os.path.join(top, "fuzz/corpus/returned_mail", name), "rb") as message:
        return message.read()


def of(events, kind):
    return [e for e in events if e["type"] == kind]


class Returned(Suite):
    def instance(self, settings=None, services=None, start=True):
        mx = Instance({**HERE, **(settings or {})}, services, start=False)
        mx.set(**files(mx))
        if start:
            mx.start()
        return mx

    def wait(self, mx, kind, count=1):
        found = wait_logged(mx, lambda events: len(of(events, kind)) >= count, f"{count} of {kind}")
        self.assertEqual(len(of(found, kind)), count)
        return of(found, kind)

    def assertEvent(self, event, **fields):
        self.assertEqual({f: event.get(f) for f in fields}, fields)


class Notices(Returned):
    def test_notices_to_addresses_of_verp_are_told_with_the_recipient_and_delivered(self):
        with self.instance() as mx:
            for number, name in enumerate(("postfix.eml", "exim.eml", "own.eml"), 1):
                send(mx.port, "", [VERP], seed(name))
                event = self.wait(mx, "returned", number)[-1]
                self.assertEvent(event, to="gone@far.example", known_by="verp", form="dsn", dsn="5.1.1",
                                 status="failed", message_id="<news1@lists.example>", client_address="127.0.0.1",
                                 returned_to=VERP, reason=None, **{"from": OWNER})
                self.assertIn("550 5.1.1 no such user here", event["reply"])
            box = mx.virtual_box("owner")
            box.wait(3)
            self.assertIn("returned: to=<gone@far.example>", mx.log())
            with open(os.path.join(events_directory(mx), "accounting.csv"), newline="") as text:
                rows = [r for r in csv.DictReader(text) if r["type"] == "rb"]
            self.assertEqual([(r["orig"], r["rcpt"], r["dsnStatus"], r["bounceCat"]) for r in rows],
                             [(OWNER, "gone@far.example", "5.1.1", "bad-mailbox")] * 3)

    def test_a_notice_of_no_known_form_still_says_whom_it_is_about(self):
        with self.instance() as mx:
            send(mx.port, "", [VERP], mail("Unzustellbar"))
            self.assertEvent(self.wait(mx, "returned")[0], to="gone@far.example", known_by="verp", form="unknown",
                             dsn=None, **{"from": OWNER})
            # An answer by a person to such an address is none; a notice by a person is, and that is said.
            send(mx.port, "ada@far.example", [VERP], mail("Re: News"))
            send(mx.port, "ada@far.example", [VERP], seed("postfix.eml"))
            self.assertEvent(self.wait(mx, "returned", 2)[1], form="dsn", reason="not from the null sender")
            mx.virtual_box("owner").wait(3)

    def test_what_is_listed_is_read_and_other_mail_is_not(self):
        with self.instance({"returned_mail_recipients": f"{OWNER}, bounce.example",
                            "virtual_alias_maps": inline({"x@bounce.example": OWNER}),
                            "virtual_alias_domains": "bounce.example"}) as mx:
            send(mx.port, "", ["jo@virtual.test.example"], seed("postfix.eml"))
            send(mx.port, "", [OWNER], seed("qmail.eml"))
            send(mx.port, "MAILER-DAEMON@there.example", ["x@bounce.example"], seed("exim_text.eml"))
            found = self.wait(mx, "returned", 4)
            self.assertEqual([(e["form"], e["to"], e["dsn"], e["known_by"], e["returned_to"]) for e in found],
                             [(form, to, dsn, "report", at)
                              for form, at in (("qmail", OWNER), ("exim", "x@bounce.example"))
                              for to, dsn in (("jo@there.example", "5.1.1"), ("al@far.example", "5.0.0"))])
            self.assertEqual(found[0]["from"], "owner@here.example")  # the Return-Path of what came back

    def test_a_bounce_of_our_own_mail_by_a_real_postfix_and_a_real_exim(self):
        if peers.unavailable():
            self.skipTest(peers.unavailable())
        with Peer() as far, self.instance() as mx:
            far.replies["RCPT"] = lambda session, line: "550 5.2.2 over quota" if "full@" in line else None
            number = 0
            for make in (peers.Postfix, peers.Exim):
                port = free_port()
                with make(port, far.port) as peer:
                    mx.set(transport_maps=inline({"far.example": f"smtp:[127.0.0.1]:{port}"}))
                    mx.reload_whole()
                    with Client(mx.port) as client:
                        client.send(OWNER, ["full@far.example"], mail("News"), mail="XVERP")
                    number += 1
                    notice = far.wait_messages(number)[-1]
                # The peer's relay is the other host here: what it was given for us comes to us.
                self.assertEqual(notice.recipients, ["owner-list+full=far.example@virtual.test.example"])
                send(mx.port, notice.sender, notice.recipients, notice.content)
                event = self.wait(mx, "returned", number)[-1]
                self.assertEvent(event, to="full@far.example", dsn="5.2.2", status="failed", known_by="verp",
                                 reporting_mta="peer.example", **{"from": OWNER})

    def test_discard_drops_what_could_be_read_and_only_that(self):
        with self.instance({"returned_mail_recipients": OWNER, "returned_mail_action": "discard"}) as mx:
            send(mx.port, "", [VERP], seed("postfix.eml"))
            send(mx.port, "", [OWNER, "jo@virtual.test.example"], seed("postfix.eml"))
            send(mx.port, "", [VERP], mail("Unzustellbar"))
            self.wait(mx, "returned", 3)
            box, jo = mx.virtual_box("owner"), mx.virtual_box("jo")
            box.wait(1)
            jo.wait(1)
            mx.wait_empty_queue()
            self.assertIn(b"Unzustellbar", box.messages()[0])
            self.assertEqual((len(box.messages()), len(jo.messages())), (1, 1))

    def test_addresses_of_others_are_none_of_ours(self):
        """Mail of a user here to another host's VERP address."""
        with Peer() as far, self.instance({"relayhost": f"[127.0.0.1]:{far.port}"}) as mx:
            send(mx.port, "", ["owner+jo=virtual.test.example@far.example"], seed("postfix.eml"))
            far.wait_messages(1)
            send(mx.port, "", [VERP], seed("postfix.eml"))
            self.assertEqual(self.wait(mx, "returned")[0]["returned_to"], VERP)

    def test_addresses_of_srs_lead_on_and_forged_and_old_ones_are_refused(self):
        with Peer() as far, self.instance({"relayhost": f"[127.0.0.1]:{far.port}", "srs_domain": "back.test.example",
                                           "returned_mail_action": "discard"}, start=False) as mx:
            mx.set(srs_secrets_file=secrets(mx, "a secret"))
            mx.start()
            good = srs("ada@sender.example", "back.test.example", "a secret")
            with Client(mx.port) as client:
                for bad in (srs("ada@sender.example", "back.test.example", "another"),
                            srs("ada@sender.example", "back.test.example", "a secret", days_ago=30)):
                    client.expect("MAIL FROM:<>", "250")
                    self.assertIn("5.1.1", client.expect(f"RCPT TO:<{bad}>", "550"))
                    client.expect("RSET", "250")
                client.send("", [good], seed("postfix.eml"))
            self.assertEvent(self.wait(mx, "returned")[0], to="gone@far.example", known_by="report", dsn="5.1.1",
                             returned_to=good, **{"from": "ada@sender.example"})
            # It is another's mail that came back: he gets it, whatever becomes of ours.
            self.assertEqual(far.wait_messages(1)[0].recipients, ["ada@sender.example"])


class Complaints(Returned):
    def test_feedback_reports_are_told_and_counted(self):
        with self.instance({"returned_mail_recipients": "fbl@virtual.test.example"}, dict([UNIX])) as mx:
            send(mx.port, "staff@there.example", ["fbl@virtual.test.example"], seed("rfc5965.eml"))
            event = self.wait(mx, "feedback")[0]
            # The provider has made the recipient unreadable; the sender's address says who he was.
            self.assertEvent(event, feedback_type="abuse", to="jo@there.example", known_by="verp",
                             source_address="192.0.2.1", reported_domain="here.example",
                             user_agent="SomeGenerator/1.0", reporting_mta="mail.there.example",
                             message_id="8787KJKJ3K4J3K4J3K4J3.mail@here.example",
                             reported_arrival="Thu, 8 Mar 2026 14:00:00 EDT", **{"from": "owner-list@here.example"})
            send(mx.port, "", ["fbl@virtual.test.example"], seed("rfc6591.eml"))
            self.assertEvent(self.wait(mx, "feedback", 2)[1], feedback_type="auth-failure", auth_failure="bodyhash",
                             delivery_result="reject", to=None, known_by=None)
            mx.virtual_box("fbl").wait(2)
            send(mx.port, "", [VERP], seed("postfix.eml"))
            self.wait(mx, "returned")
            figures = Api(mx).figures()
            for name, count in (('feedback_reports_total{type="abuse"}', 1),
                                ('feedback_reports_total{type="auth_failure"}', 1),
                                ('feedback_reports_total{type="fraud"}', 0),
                                ('returned_mail_total{action="failed"}', 1),
                                ('returned_mail_total{action="delayed"}', 0)):
                self.assertEqual(figures["penstock_smtpd_" + name], count, name)


class Unsubscribing(Returned):
    def test_mail_of_named_senders_needs_the_fields(self):
        fields = (b"List-Unsubscribe: <https://here.example/u>\r\n"
                  b"List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n")
        with self.instance({"list_unsubscribe_check_maps":
                            inline({"news.example": "reject", "soft@news.example": "warn"})}) as mx:
            to = ["jo@virtual.test.example"]
            with Client(mx.port) as client:
                for sender, content, code in (
                        ("a@news.example", mail("x"), "550"), ("a@news.example", fields + mail("x"), "250"),
                        ("soft@news.example", mail("x"), "250"), ("b@other.example", mail("x"), "250")):
                    client.expect(f"MAIL FROM:<{sender}>", "250")
                    client.expect(f"RCPT TO:<{to[0]}>", "250")
                    client.expect("DATA", "354")
                    reply = client.command(content.decode() + "\r\n.")
                    self.assertTrue(reply.startswith(code), (sender, reply))
            mx.virtual_box("jo").wait(3)
            self.assertRegex(mx.log(), r"reject: END-OF-MESSAGE from \S+: 550 5.7.1 .*one-click unsubscribing "
                                       r"\(RFC 8058\): there is no List-Unsubscribe field; from=<a@news.example>")
            self.assertRegex(mx.log(), "warning: END-OF-MESSAGE .* from=<soft@news.example>")


if __name__ == "__main__":
    unittest.main()
