"""penstock tls probe: what other hosts offer in TLS, and what their certificates are worth."""
from certificates import Authority
from dns import Dns
from harness import *

NAME = "mx.test.example"


class Probe(Suite):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.ca = Authority(cls.folder())
        cls.dns = Dns({("dest.example", "MX"): [(20, "other.test.example"), (10, NAME)],
                       (NAME, "A"): ["127.0.0.1"], ("other.test.example", "A"): ["127.0.0.1"],
                       (f"_25._tcp.{NAME}", "TLSA"): ["3 1 1 " + "00" * 32]})
        cls.addClassCleanup(cls.dns.__exit__)

    def instance(self, **more):
        certificate = self.ca.issue(NAME)
        mx = Instance({"smtpd_tls_security_level": "may", "smtpd_tls_cert_file": certificate.pem,
                       "smtpd_tls_key_file": certificate.key, "smtp_tls_CAfile": self.ca.pem, **self.dns.settings(),
                       **more})
        self.addCleanup(mx.close)
        return mx

    def probe(self, mx, *words, port=None):
        done = mx.tool("penstock", "tls", "probe", "-p", str(port or mx.port), *words)
        self.assertEqual(done.stderr, "")
        return done.returncode, done.stdout

    def test_the_hosts_of_a_domain_are_asked_in_their_order(self):
        mx = self.instance()
        status, said = self.probe(mx, "dest.example")
        self.assertEqual(status, 1)
        first, second = said.split("other.test.example[127.0.0.1]", 1)
        self.assertRegex(first, rf"Verified TLS connection established to {NAME}\[127.0.0.1\]:\d+: TLSv1.3 with cipher")
        self.assertRegex(first, rf"certificate of {NAME}, issued by Test CA, for {NAME}\n"
                                r"  its fingerprint [0-9A-F:]{95}, that of its key [0-9A-F:]{95}\n"
                                r"  trusted and of this host\n")
        self.assertIn("  not of this host: ", second)
        self.assertEqual(self.probe(mx, f"[{NAME}]")[0], 0)
        # No mail was begun.
        mx.wait_log(r"disconnect from \S+ ehlo=1 starttls=1 quit=1 commands=3")

    def test_hosts_without_tls_or_without_an_answer_are_named(self):
        mx = self.instance(smtp_tls_CAfile="", smtpd_discard_ehlo_keywords="starttls")
        self.assertEqual(self.probe(mx, f"[{NAME}]"), (69, f"{NAME}[127.0.0.1]:{mx.port}: does not offer STARTTLS\n"))
        mx.set(smtpd_discard_ehlo_keywords="")
        mx.reload_whole()
        status, said = self.probe(mx, f"[{NAME}]")
        self.assertEqual(status, 1)  # the system does not know the authority
        self.assertIn("  not trusted: ", said)
        status, said = self.probe(mx, "[127.0.0.1]", port=free_port())
        self.assertEqual(status, 69)
        self.assertIn("Connection refused", said)
        self.assertEqual(self.probe(mx, "none.example")[0], 69)

    def test_tls_from_the_first_byte_and_wrong_words(self):
        mx = self.instance(smtpd_tls_wrappermode="yes")
        self.assertEqual(self.probe(mx, "-w", f"[{NAME}]")[0], 0)
        for words in ((), ("a@b.example",), ("-p", "0", "a.example"), ("-x",)):
            with self.subTest(words):
                self.assertEqual(mx.tool("penstock", "tls", "probe", *words).returncode, 64)


if __name__ == "__main__":
    unittest.main()
