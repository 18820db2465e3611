"""TLS reports (RFC 8460): from deliveries to the report at the domain's address."""
import email
import email.policy
import gzip
import http.server
import json
import os
import threading

import validating_dns
from certificates import Authority
from daily_reports import DailyReports, attached
from dns import Dns
from harness import *
from peer import server_context
from test_tls_client import Certified


def report_of(message):
    """Returns the report in the message."""
    return json.loads(attached(message))


class Https:
    """An HTTPS server that gives these codes in turn and keeps the posts: (path, type, body)."""

    def __init__(self, certificate, codes):
        self.got = got = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                got.append(
                    (self.path, self.headers["Content-Type"], self.rfile.read(int(self.headers["Content-Length"])))
                )
                self.send_response(codes[len(got) - 1])
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *arguments):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.socket = server_context(certificate).wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.server.shutdown()
        self.server.server_close()


def wait_gathered(mx, attempts):
    """Waits until tlsrpt reports, on SIGUSR1, that it has so many results."""
    def told():
        mx.ask_status("tlsrpt")
        return f"gathered: attempts {attempts}," in mx.log()
    eventually(told, f"{attempts} attempts with tlsrpt")


class TlsReports(Certified):
    def test_smtp_tlsrpt_skip_reused_handshakes(self):
        for skip, attempts in (("yes", 1), ("no", 2)):
            with self.subTest(skip), Peer(host="127.0.0.1", tls=server_context(self.right)) as peer, Dns(
                {("rcpt.example", "MX"): [(10, "mx.rcpt.example")], ("mx.rcpt.example", "A"): ["127.0.0.1"]}
            ) as dns, Instance(
                self.settings(
                    dns.settings(),
                    smtp_tcp_port=str(peer.port),
                    smtp_tls_security_level="may",
                    smtp_tlsrpt_enable="yes",
                    smtp_tlsrpt_skip_reused_handshakes=skip,
                    connection_max_age="1s",
                    relay_domains="rcpt.example",
                )
            ) as mx:
                for number in range(2):
                    send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail())
                    peer.wait_messages(number + 1)
                    eventually(lambda: peer.sessions[number].closed, "the connection is given back")
                self.assertEqual([s.resumed for s in peer.sessions], [False, True])
                wait_gathered(mx, attempts)

    def test_what_happened_is_reported_to_who_asks_for_it(self):
        record = "v=TLSRPTv1; rua=mailto:{}@reports.example"
        with Peer(tls=server_context(self.certificates["wrong CA"])) as peer, Peer() as inbox:
            # Each result is of one connection, and domains with the same hosts share connections: so each has its own
            # host here.
            hosts = {"good": "127.0.0.1", "clear": "127.0.0.2", "silent": "127.0.0.3", "twice": "127.0.0.4"}
            with (Peer(host="127.0.0.2", port=peer.port) as clear, Peer(host="127.0.0.3", port=peer.port) as silent,
                  Peer(host="127.0.0.4", port=peer.port) as twice):
                zone = {}
                for domain, host in hosts.items():
                    zone[f"{domain}.example", "MX"] = [(10, f"mx.{domain}.example")]
                    zone[f"mx.{domain}.example", "A"] = [host]
                for domain, count in (("good", 1), ("clear", 1), ("twice", 2)):
                    zone[f"_smtp._tls.{domain}.example", "TXT"] = [record.format(domain)] * count
                with Dns(zone) as dns, Instance(
                    self.settings(
                        dns.settings(),
                        smtp_tcp_port=str(peer.port),
                        smtp_tls_security_level="may",
                        smtp_tlsrpt_enable="yes",
                        tlsrpt_organization="Testers",
                        tlsrpt_contact="tls-team@test.example",
                        tlsrpt_sender="tls@mx.test.example",
                        relay_domains="example",
                        transport_maps=inline({"reports.example": f"smtp:[127.0.0.1]:{inbox.port}"}),
                    )
                ) as mx:
                    for domain in hosts:
                        send(mx.port, "ada@sender.example", [f"a@{domain}.example"], mail())
                    for one in (peer, clear, silent, twice):
                        one.wait_messages(1)
                    mx.wait_empty_queue()
                    wait_gathered(mx, len(hosts))
                    # The results outlive their program.
                    mx.stop()
                    mx.start()
                    with DailyReports(mx, "tlsrpt", "tls_report") as reports:
                        self.assertEqual(reports.send(), 2)
                        self.assertEqual(reports.send(), 0)  # each day once
                    messages = {m.recipients[0]: m for m in inbox.wait_messages(2)}
                    mx.wait_empty_queue()
                self.assertEqual(set(messages), {"good@reports.example", "clear@reports.example"})
                for domain, failed in (("good", 0), ("clear", 1)):
                    with self.subTest(domain):
                        sent = messages[f"{domain}@reports.example"]
                        self.assertEqual(sent.sender, "tls@mx.test.example")
                        message = email.message_from_bytes(sent.content, policy=email.policy.default)
                        self.assertEqual(message["TLS-Report-Domain"], f"{domain}.example")
                        self.assertEqual(message["TLS-Report-Submitter"], "mx.test.example")
                        self.assertEqual(message["TLS-Required"], "No")
                        self.assertEqual(message.get_content_type(), "multipart/report")
                        self.assertEqual(message.get_param("report-type"), "tlsrpt")
                        part = list(message.iter_parts())[1]
                        self.assertEqual(part.get_content_type(), "application/tlsrpt+gzip")
                        self.assertRegex(
                            part.get_filename(), rf"^mx\.test\.example!{domain}\.example!\d+!\d+\.json\.gz$"
                        )
                        report = report_of(sent)
                        self.assertEqual(report["organization-name"], "Testers")
                        self.assertEqual(report["contact-info"], "tls-team@test.example")
                        self.assertEqual(len(report["policies"]), 1)
                        policy = report["policies"][0]
                        self.assertEqual(
                            policy["policy"], {"policy-type": "no-policy-found", "policy-domain": f"{domain}.example"}
                        )
                        self.assertEqual(
                            policy["summary"],
                            {"total-successful-session-count": 1 - failed, "total-failure-session-count": failed},
                        )
                        if failed:
                            self.assertEqual(policy["failure-details"], [
                                {"result-type": "starttls-not-supported", "sending-mta-ip": "127.0.0.1",
                                 "receiving-mx-hostname": "mx.clear.example", "receiving-ip": "127.0.0.2",
                                 "failed-session-count": 1}])
                self.clean(peer, clear, silent, twice, inbox)

    def test_a_report_is_posted_until_it_is_taken_and_mailed_once(self):
        with Https(self.ca.issue("localhost"), [503, 201]) as server, Peer(
            tls=server_context(self.right)
        ) as peer, Peer() as inbox:
            zone = {
                ("good.example", "MX"): [(10, "mx.good.example")],
                ("mx.good.example", "A"): ["127.0.0.1"],
                ("_smtp._tls.good.example", "TXT"): [
                    f"v=TLSRPTv1; rua=https://localhost:{server.port}/tls,mailto:tls@reports.example"
                ],
            }
            with Dns(zone) as dns, Instance(
                self.settings(
                    dns.settings(),
                    smtp_tcp_port=str(peer.port),
                    smtp_tls_security_level="may",
                    smtp_tlsrpt_enable="yes",
                    tlsrpt_CAfile=self.ca.pem,
                    relay_domains="example",
                    transport_maps=inline({"reports.example": f"smtp:[127.0.0.1]:{inbox.port}"}),
                )
            ) as mx:
                send(mx.port, "ada@sender.example", ["a@good.example"], mail())
                peer.wait_messages(1)
                wait_gathered(mx, 1)
                with DailyReports(mx, "tlsrpt", "tls_report") as reports:
                    self.assertEqual(reports.send(), 1)  # one is mailed; the HTTPS server refuses it
                    mx.wait_log(r"TLS report for good\.example to https://localhost:\d+/tls: .*status 503")
                    self.assertEqual(reports.send(), 1)  # posted
                    self.assertEqual(reports.send(), 0)
                mx.wait_empty_queue()
                self.assertEqual(len(inbox.messages), 1)
            self.assertEqual([(path, kind) for path, kind, _ in server.got], [("/tls", "application/tlsrpt+gzip")] * 2)
            self.assertEqual(server.got[0][2], server.got[1][2])
            report = json.loads(gzip.decompress(server.got[1][2]))
            self.assertEqual(report["policies"][0]["summary"]["total-successful-session-count"], 1)

    def test_without_tlsrpt_mail_goes_all_the_same(self):
        with Peer(tls=server_context(self.right)) as peer:
            zone = {("good.example", "MX"): [(10, "mx.good.example")], ("mx.good.example", "A"): ["127.0.0.1"]}
            with Dns(zone) as dns, Instance(
                self.settings(
                    dns.settings(),
                    smtp_tcp_port=str(peer.port),
                    smtp_tls_security_level="may",
                    smtp_tlsrpt_enable="yes",
                    relay_domains="example",
                ),
                {"tlsrpt": None},
            ) as mx:
                send(mx.port, "ada@sender.example", ["a@good.example"], mail())
                peer.wait_messages(1)
                mx.wait_empty_queue()
                mx.wait_log(r"private/tlsrpt: .*; until the program is there, results of TLS are not reported")


# Domain -> the failure reported under its TLSA records; level dane, for one dane-only.
DANE = {"tlsa-good": None, "tlsa-mismatch": "validation-failure", "tlsa-unusable": "tlsa-invalid",
        "tlsa-bogus": "dnssec-invalid", "tlsa-required": "dane-required"}


class DaneReports(Certified):
    """Faults of DANE in DNS are reported by name (RFC 8460 section 4.3.2.1): signed zones, a real resolver."""

    def test_what_fails_for_dane_is_reported(self):
        if why := validating_dns.unavailable():
            self.skipTest(why)
        own = Authority(os.path.join(self.directory, "dane")).own
        with Peer(tls=server_context(own)) as peer, Peer() as inbox:
            right = "3 0 1 " + own.fingerprint().replace(":", "").lower()
            records = {
                "tlsa-good": [right],
                "tlsa-mismatch": ["3 1 1 " + "00" * 32],
                "tlsa-unusable": ["1 1 1 " + "00" * 32],
                "tlsa-bogus": [right],
                "tlsa-required": [],
            }
            zones = {
                f"{domain}.example": [
                    "@ MX 10 mx",
                    "mx A 127.0.0.1",
                    f'_smtp._tls TXT "v=TLSRPTv1; rua=mailto:{domain}@reports.example"',
                    *(f"_{peer.port}._tcp.mx TLSA {r}" for r in records[domain]),
                ]
                for domain in DANE
            }
            bogus = {"tlsa-bogus.example": zones.pop("tlsa-bogus.example")}
            with validating_dns.ValidatingDns(zones, bogus=bogus) as dns, Instance(
                self.settings(
                    dns.settings(),
                    smtp_tcp_port=str(peer.port),
                    smtp_tls_security_level="dane",
                    smtp_tlsrpt_enable="yes",
                    smtp_tls_policy_maps=inline({"tlsa-required.example": "dane-only"}),
                    minimal_backoff_time="1s", maximal_backoff_time="4s", queue_run_delay="1s",
                    tlsrpt_sender="tls@mx.test.example", relay_domains="example",
                    transport_maps=inline({"reports.example": f"smtp:[127.0.0.1]:{inbox.port}"}))) as mx:
                for domain in DANE:
                    send(mx.port, "ada@sender.example", [f"a@{domain}.example"], mail())
                for domain, result in DANE.items():
                    sent = result in (None, "tlsa-invalid")
                    mx.wait_log(rf"to=<a@{domain}\.example>, .*status={'sent' if sent else 'deferred'} ")

                def reported(missing=set(DANE)):
                    """Asks for reports until every domain has had one with the result that is awaited."""
                    with DailyReports(mx, "tlsrpt", "tls_report") as reports:
                        reports.send()
                    for message in inbox.messages:
                        domain = message.recipients[0].split("@")[0]
                        if DANE[domain] in self.results(message):
                            missing.discard(domain)
                    return not missing
                eventually(reported, lambda: "reports of " + ", ".join(
                    f"{m.recipients[0]}: {self.results(m)}" for m in inbox.messages))
                policies = [one["policy"] for m in inbox.messages for one in report_of(m)["policies"]
                            if m.recipients == ["tlsa-mismatch@reports.example"]]
                self.assertIn(["3 1 1 " + "00" * 32], [one.get("policy-string") for one in policies])
            self.clean(peer, inbox)

    def results(self, message):
        """The kinds of failure under the policy of type tlsa; None: success."""
        found = set()
        for one in report_of(message)["policies"]:
            if one["policy"]["policy-type"] == "tlsa":
                found.update(detail["result-type"] for detail in one.get("failure-details", ()))
                if one["summary"]["total-successful-session-count"]:
                    found.add(None)
        return found


if __name__ == "__main__":
    unittest.main()
