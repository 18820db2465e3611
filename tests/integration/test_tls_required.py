"""If the configuration demands TLS, no mail goes in clear text."""
from harness import *


class TlsRequired(Suite):
    def test_mail_waits_where_tls_is_required_for_sending(self):
        required, ours = (
            r"dsn=4\.7\.4, status=deferred \(TLS is required",
            r"dsn=4\.7\.5, .*\(client TLS configuration problem",
        )
        dane = {"smtp_tls_security_level": "dane-only"}
        for settings, words in (
            ({"smtp_tls_security_level": "encrypt"}, required),
            ({"smtp_tls_security_level": "verify"}, required),
            ({**dane, "smtp_dns_support_level": "dnssec"}, required),
            (dane, ours),
            ({"smtp_enforce_tls": "yes"}, required),
        ):
            with self.subTest(settings), Peer() as peer, Instance({**relay_to(peer), **settings}) as mx:
                send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail())
                mx.wait_log(r"to=<a@rcpt\.example>.*" + words)
                self.assertEqual(len(peer.messages), 0)

    def test_a_transport_may_demand_it_by_itself(self):
        with Peer() as peer, Instance(relay_to(peer), {"smtp": None}, start=False) as mx:
            with open(mx.path("etc", "master.cf"), "a") as out:
                out.write("smtp unix - - n - - smtp -o smtp_tls_security_level=secure\n")
            mx.start()
            send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail())
            mx.wait_log(r"dsn=4\.7\.4, status=deferred")
            self.assertEqual(len(peer.messages), 0)

    def test_level_may_sends(self):
        with Peer() as peer, Instance({**relay_to(peer), "smtp_tls_security_level": "may"}) as mx:
            send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail())
            peer.wait_messages(1)


if __name__ == "__main__":
    unittest.main()
