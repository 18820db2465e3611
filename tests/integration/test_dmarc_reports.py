"""DMARC aggregate reports (RFC 9990): from messages to the report at the address that the domain names."""
import xml.etree.ElementTree as ElementTree

from daily_reports import attached, send_reports
from dns import Dns
from harness import *
from test_authentication_results import ADDRESS, ALL, text_of


def report_of(message):
    """The report in the message, as XML."""
    return ElementTree.fromstring(attached(message))


def rows(report):
    """(address, count, disposition, dkim, spf, header From, override) of each record."""
    return [tuple(record.findtext(path) for path in (
        "row/source_ip", "row/count", "row/policy_evaluated/disposition", "row/policy_evaluated/dkim",
        "row/policy_evaluated/spf", "identifiers/header_from", "row/policy_evaluated/reason/type"))
        for record in report.iter("record")]


def wait_gathered(mx, results):
    """Waits until dmarcrpt reports, on SIGUSR1, that it has so many results."""
    def told():
        mx.ask_status("dmarcrpt")
        return f"gathered: results {results}," in mx.log()
    eventually(told, f"{results} results with dmarcrpt")


class DmarcReports(Suite):
    ZONE = {
        ("good.example", "TXT"): [f"v=spf1 ip4:{ADDRESS} -all"],
        ("_dmarc.good.example", "TXT"): ["v=DMARC1; p=reject; rua=mailto:dmarc@good.example,mailto:all@watch.example"],
        ("good.example._report._dmarc.watch.example", "TXT"): ["v=DMARC1"],
        ("quiet.example", "TXT"): [f"v=spf1 ip4:{ADDRESS} -all"],
        ("_dmarc.quiet.example", "TXT"): ["v=DMARC1; p=none"],
        ("_dmarc.victim.example", "TXT"): ["v=DMARC1; p=none; rua=mailto:everybody@stranger.example"],
    }

    def settings(self, peer, dns, **more):
        return {**ALL, **relay_to(peer, "rcpt.example", "good.example", "watch.example"), **dns.settings(),
                "dmarc_public_suffix_file": "",
                "dmarc_report_enable": "yes", "dmarc_report_organization": "Test & Co",
                "dmarc_report_contact": "abuse@test.example", "dmarc_report_sender": "reports@local.test.example",
                **more}

    def hand_in(self, mx, author, sender, expected="250"):
        with Client(mx.port) as client:
            client.expect(f"XCLIENT ADDR={ADDRESS} NAME=[UNAVAILABLE]", "220")
            client.expect("EHLO h.example", "250")
            client.expect(f"MAIL FROM:<{sender}>", "250")
            client.expect("RCPT TO:<b@rcpt.example>", "250")
            client.expect("DATA", "354")
            client.expect(text_of(author).decode() + ".", expected)

    def test_what_was_seen_is_reported_to_who_asks_and_consents(self):
        with Peer() as peer, Dns(self.ZONE) as dns, Instance(
                self.settings(peer, dns)) as mx:
            self.hand_in(mx, "a@good.example", "a@good.example")
            self.hand_in(mx, "a@good.example", "a@good.example")
            self.hand_in(mx, "a@good.example", "x@elsewhere.example")
            self.hand_in(mx, "a@quiet.example", "a@quiet.example")
            self.hand_in(mx, "a@victim.example", "a@victim.example")
            self.hand_in(mx, "a@nothing.example", "a@nothing.example")
            wait_gathered(mx, 5)  # nothing.example has no policy
            peer.wait_messages(6)  # none of them may come after the reports
            peer.messages.clear()
            self.assertEqual(send_reports(mx, "dmarcrpt", "dmarc_report"), 2)
            peer.wait_messages(2)
            got = {m.recipients[0]: report_of(m) for m in peer.messages}
            self.assertEqual(sorted(got), ["all@watch.example", "dmarc@good.example"])
            self.assertEqual({m.sender for m in peer.messages}, {"reports@local.test.example"})
            for report in got.values():
                self.assertEqual(report.findtext("report_metadata/org_name"), "Test & Co")
                self.assertEqual(report.findtext("report_metadata/email"), "abuse@test.example")
                self.assertEqual(report.findtext("policy_published/domain"), "good.example")
                self.assertEqual(report.findtext("policy_published/p"), "reject")
                self.assertEqual(sorted(rows(report)), [
                    (ADDRESS, "1", "none", "fail", "fail", "good.example", "local_policy"),
                    (ADDRESS, "2", "none", "fail", "pass", "good.example", None)])
            mx.wait_log("DMARC report for victim.example: everybody@stranger.example has not consented")
            self.assertEqual(send_reports(mx, "dmarcrpt", "dmarc_report"), 0, "what was sent is gone")

    def test_what_was_refused_is_reported_as_refused(self):
        with Peer() as peer, Dns(self.ZONE) as dns, Instance(
                self.settings(peer, dns, dmarc_reject_action="reject", smtpd_end_of_data_restrictions=(
                    "check_sender_access " + inline({"spam@good.example": "REJECT no spam"})))) as mx:
            self.hand_in(mx, "a@good.example", "x@elsewhere.example", "550")
            self.hand_in(mx, "a@good.example", "a@good.example")
            # It passes, and is refused all the same.
            self.hand_in(mx, "a@good.example", "spam@good.example", "554")
            wait_gathered(mx, 3)
            peer.wait_messages(1)
            peer.messages.clear()
            self.assertEqual(send_reports(mx, "dmarcrpt", "dmarc_report"), 2)
            peer.wait_messages(2)
            self.assertEqual(sorted(rows(report_of(peer.messages[0])), key=str),
                             [(ADDRESS, "1", "none", "fail", "pass", "good.example", None),
                              (ADDRESS, "1", "reject", "fail", "fail", "good.example", None),
                              (ADDRESS, "1", "reject", "fail", "pass", "good.example", "other")])

    def test_a_domain_of_which_nothing_was_taken_gets_no_report(self):
        with Peer() as peer, Dns(self.ZONE) as dns, Instance(
                self.settings(peer, dns, dmarc_reject_action="reject")) as mx:
            self.hand_in(mx, "a@good.example", "x@elsewhere.example", "550")
            wait_gathered(mx, 1)
            self.assertEqual(send_reports(mx, "dmarcrpt", "dmarc_report"), 0)
            mx.ask_status("dmarcrpt")
            mx.wait_log(r"domain days 0")

    def test_one_domain_s_limit_is_not_another_s_at_the_same_address(self):
        zone = {("_dmarc.large.example", "TXT"): ["v=DMARC1; p=none; rua=mailto:all@watch.example"],
                ("_dmarc.small.example", "TXT"): ["v=DMARC1; p=none; rua=mailto:all@watch.example!1"],
                ("large.example._report._dmarc.watch.example", "TXT"): ["v=DMARC1"],
                ("small.example._report._dmarc.watch.example", "TXT"): ["v=DMARC1"]}
        with Peer() as peer, Dns(zone) as dns, Instance(self.settings(peer, dns)) as mx:
            for domain in ("large.example", "small.example"):
                self.hand_in(mx, "a@" + domain, "a@" + domain)
            wait_gathered(mx, 2)
            peer.wait_messages(2)
            peer.messages.clear()
            self.assertEqual(send_reports(mx, "dmarcrpt", "dmarc_report"), 2)
            peer.wait_messages(2)
            counts = {report.findtext("policy_published/domain"): len(rows(report))
                      for report in map(report_of, peer.messages)}
            self.assertEqual(counts, {"large.example": 1, "small.example": 0})

    def test_what_has_gathered_outlives_a_stop(self):
        with Peer() as peer, Dns(self.ZONE) as dns, Instance(
                self.settings(peer, dns)) as mx:
            self.hand_in(mx, "a@good.example", "a@good.example")
            wait_gathered(mx, 1)
            peer.wait_messages(1)
            mx.stop()
            mx.start()
            peer.messages.clear()
            self.assertEqual(send_reports(mx, "dmarcrpt", "dmarc_report"), 2)

    def test_without_the_setting_nothing_gathers(self):
        with Peer() as peer, Dns(self.ZONE) as dns, Instance(
                self.settings(peer, dns, dmarc_report_enable="no")) as mx:
            self.hand_in(mx, "a@good.example", "a@good.example")
            self.assertEqual(send_reports(mx, "dmarcrpt", "dmarc_report"), 0)
            wait_gathered(mx, 0)


if __name__ == "__main__":
    unittest.main()
