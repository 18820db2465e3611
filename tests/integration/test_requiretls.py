"""REQUIRETLS and TLS-Required: No (RFC 8689): what is offered, what goes where, what is returned."""
import smtplib
import ssl

from harness import *
from peer import server_context
from test_tls_client import Certified, NAME

FEATURES = ("PIPELINING", "8BITMIME", "CHUNKING", "SIZE 0", "DSN")
SENDER = "ada@sender.example"


class RequireTls(Certified):
    def received_with_tls(self, **more):
        return self.settings(smtpd_tls_security_level="may", smtpd_tls_cert_file=self.right.pem,
                             smtpd_tls_key_file=self.right.key, smtp_requiretls_policy="enforce", **more)

    def submit(self, mx, recipients, content=None, sender=SENDER, options=("REQUIRETLS",)):
        context = ssl.create_default_context(cafile=self.ca.pem)
        context.check_hostname = False
        client = smtplib.SMTP("127.0.0.1", mx.port, local_hostname="client.example")
        try:
            client.ehlo()
            self.assertFalse(client.has_extn("requiretls"))
            client.starttls(context=context)
            client.ehlo()
            self.assertTrue(client.has_extn("requiretls"))
            client.sendmail(sender, recipients, content or mail(), mail_options=list(options))
        finally:
            client.close()

    def test_it_goes_only_to_verified_servers_that_offer_it_and_comes_back_else(self):
        offering = FEATURES + ("REQUIRETLS",)
        peers = {
            "good": Peer(offering, tls=server_context(self.right)),
            "plain": Peer(FEATURES, tls=server_context(self.right)),
            "wrong": Peer(offering, tls=server_context(self.certificates["wrong name"])),
            "other": Peer(offering, tls=server_context(self.certificates["wrong CA"])),
            "clear": Peer(offering),
            "back": Peer(FEATURES),
        }
        unknown = Peer(offering, tls=server_context(self.right))
        hops = {f"{name}.example": f"[127.0.0.1]:{peer.port}" for name, peer in peers.items()}
        hops["sender.example"] = hops.pop("back.example")
        hops["unknown.example"] = f"[127.0.0.1]:{unknown.port}"
        policy = inline(
            {hops[f"{name}.example"]: f"secure match={NAME}" for name in ("good", "plain", "wrong", "other", "clear")}
        )
        expected = {
            "plain": r"5\.7\.30, status=bounced \(REQUIRETLS is needed, but host \S+ does not offer it",
            "wrong": r"5\.7\.10, status=bounced \(REQUIRETLS asks for a verified server, but the certificate",
            "other": r"5\.7\.10, status=bounced \(REQUIRETLS asks for a verified server, but the certificate",
            "clear": r"5\.7\.10, status=bounced \(REQUIRETLS asks for TLS, which host \S+ does not offer",
            "unknown": r"5\.7\.10, status=bounced \(REQUIRETLS asks for a verified server, and \S+ has no name",
        }
        with Instance(
            self.received_with_tls(
                relay_domains=", ".join(hops),
                transport_maps=inline({d: "smtp:" + h for d, h in hops.items()}),
                smtp_tls_security_level="may",
                smtp_tls_policy_maps=policy,
            )
        ) as mx:
            recipients = [f"a@{name}.example" for name in ("good", *expected)]
            self.submit(mx, recipients, mail(body="secret\r\n"))
            arrived = peers["good"].wait_messages(1)[0]
            self.assertIn("REQUIRETLS", arrived.parameters)
            for name, words in expected.items():
                with self.subTest(name):
                    mx.wait_log(rf"to=<a@{name}\.example>, .*dsn={words}")
            notices = peers["back"].wait_messages(1)
            mx.wait_empty_queue()
            for notice in notices:  # redacted: no REQUIRETLS, and nothing but the header
                self.assertEqual(notice.sender, "")
                self.assertNotIn(b"secret", notice.content)
            told = b"".join(n.content for n in peers["back"].messages)
            for name in expected:
                self.assertIn(f"a@{name}.example".encode(), told)
            # Other mail for the same hosts is not affected.
            send(mx.port, SENDER, ["b@plain.example", "b@unknown.example"], mail())
            self.assertNotIn("REQUIRETLS", peers["plain"].wait_messages(1)[0].parameters)
            unknown.wait_messages(1)
            # A message without a sender to notify goes anyway (section 5), with REQUIRETLS where it is offered.
            self.submit(mx, ["c@plain.example", "c@good.example"], sender="")
            self.assertNotIn("REQUIRETLS", peers["plain"].wait_messages(2)[1].parameters)
            self.assertIn("REQUIRETLS", peers["good"].wait_messages(2)[1].parameters)
            mx.wait_empty_queue()
        for name in ("wrong", "other", "clear"):
            self.assertEqual(peers[name].messages, [], name)
        self.clean(*peers.values(), unknown)
        for peer in (*peers.values(), unknown):
            peer.close()

    def test_lmtp_requiretls_policy_and_requiretls_redact_dsn(self):
        for policy, redact, fate in (
            ("enforce", "yes", "bounced"),
            ("enforce", "no", "bounced"),
            ("opportunistic", "yes", "sent"),
        ):
            with self.subTest(policy=policy, redact=redact), Peer(
                FEATURES, lmtp=True, tls=server_context(self.right)
            ) as peer, Peer(FEATURES + ("REQUIRETLS",), tls=server_context(self.right)) as back:
                hops = {
                    "rcpt.example": f"lmtp:inet:127.0.0.1:{peer.port}",
                    "sender.example": f"smtp:[127.0.0.1]:{back.port}",
                }
                with Instance(
                    self.received_with_tls(
                        relay_domains=", ".join(hops),
                        transport_maps=inline(hops),
                        smtp_tls_security_level="may",
                        smtp_tls_policy_maps=inline({f"[127.0.0.1]:{back.port}": f"secure match={NAME}"}),
                        lmtp_tls_security_level="may",
                        lmtp_tls_CAfile=self.ca.pem,
                        lmtp_requiretls_policy=policy,
                        requiretls_redact_dsn=redact,
                    )
                ) as mx:
                    self.submit(mx, ["a@rcpt.example"], mail(body="secret\r\n"))
                    mx.wait_log(rf"to=<a@rcpt\.example>, .*status={fate}")
                    if fate == "sent":
                        self.assertNotIn("REQUIRETLS", peer.wait_messages(1)[0].parameters)
                    else:
                        self.assertEqual("REQUIRETLS" in back.wait_messages(1)[0].parameters, redact == "no")

    def test_it_goes_on_through_a_chain_of_servers(self):
        with Peer(FEATURES + ("REQUIRETLS",), tls=server_context(self.right)) as peer:
            last = f"[127.0.0.1]:{peer.port}"
            with Instance(
                self.received_with_tls(
                    relay_domains="rcpt.example",
                    transport_maps=inline({"rcpt.example": "smtp:" + last}),
                    smtp_tls_policy_maps=inline({last: f"secure match={NAME}"}),
                )
            ) as second:
                hop = f"[127.0.0.1]:{second.port}"
                with Instance(
                    self.received_with_tls(
                        relay_domains="rcpt.example",
                        transport_maps=inline({"rcpt.example": "smtp:" + hop}),
                        smtp_tls_policy_maps=inline({hop: f"secure match={NAME}"}),
                    )
                ) as first:
                    self.submit(first, ["a@rcpt.example"], mail(body="through two\r\n"))
                    arrived = peer.wait_messages(1)[0]
                    self.assertIn("REQUIRETLS", arrived.parameters)
                    self.assertTrue(arrived.content.endswith(b"through two\r\n"))
                    # Both hops used TLS, and the second would not have relayed it to a server without.
                    self.assertEqual(arrived.content.count(b"with ESMTPS "), 2)
                    first.wait_empty_queue()
                    second.wait_empty_queue()
            self.clean(peer)

    def test_a_crash_does_not_forget_it(self):
        with Peer(FEATURES + ("REQUIRETLS",), tls=server_context(self.right)) as peer:
            hop = f"[127.0.0.1]:{peer.port}"
            with Instance(
                self.received_with_tls(
                    relay_domains="rcpt.example",
                    transport_maps=inline({"rcpt.example": "smtp:" + hop}),
                    smtp_tls_policy_maps=inline({hop: f"secure match={NAME}"}),
                    minimal_backoff_time="1s",
                    maximal_backoff_time="2s",
                    queue_run_delay="1s",
                )
            ) as mx:
                # It defers until told otherwise: the log line comes before the record of the delivery, so the message
                # may be retried right after the crash.
                peer.replies["MAIL"] = lambda session, line: "451 4.3.0 later"
                self.submit(mx, ["a@rcpt.example"])
                queue_id = mx.wait_log(r": (\w+): to=<a@rcpt\.example>.*status=deferred").group(1)
                mx.kill_all()
                mx.start()
                self.assertIn("requiretls=yes", mx.tool("pencat", "-e", queue_id, check=True).stdout)
                del peer.replies["MAIL"]
                mx.flush()
                self.assertIn("REQUIRETLS", peer.wait_messages(1)[0].parameters)
                mx.wait_empty_queue()
            self.clean(peer)

    def test_tls_required_no_is_noted_and_no_more_than_a_wish(self):
        with Peer(FEATURES) as clear, Peer(FEATURES, tls=server_context(self.certificates["wrong CA"])) as other:
            hops = {"clear.example": f"[127.0.0.1]:{clear.port}", "other.example": f"[127.0.0.1]:{other.port}"}
            with Instance(
                self.received_with_tls(
                    relay_domains=", ".join(hops),
                    transport_maps=inline({d: "smtp:" + h for d, h in hops.items()}),
                    smtp_dns_support_level="dnssec",
                    smtp_tls_policy_maps=inline(
                        {hops["clear.example"]: "dane-only", hops["other.example"]: "secure match=x.example"}
                    ),
                )
            ) as mx:
                send(mx.port, SENDER, ["a@clear.example", "a@other.example"], mail(extra="TLS-Required: No\r\n"))
                clear.wait_messages(1)  # the recipient's policy is ignored
                mx.wait_log(r"to=<a@other\.example>.*status=deferred")  # the administrator's is not
                send(mx.port, SENDER, ["b@clear.example"], mail(extra="TLS-Required: No\r\nTLS-Required: No\r\n"))
                mx.wait_log(r"to=<b@clear\.example>.*dsn=4\.7\.4, status=deferred")
            self.assertEqual(other.messages, [])
            self.clean(clear, other)


if __name__ == "__main__":
    unittest.main()
