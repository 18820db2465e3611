"""DANE (RFC 7672) end to end: zones signed here, a real validating resolver, peers with and without the right certificate."""
import base64
import hashlib
import os
import shutil
import tempfile

import validating_dns
from certificates import Authority, openssl
from harness import *
from peer import server_context

SOON = {"minimal_backoff_time": "1s", "maximal_backoff_time": "4s"}
HOST = "127.0.0.13"


def sha256(pem):
    """Of the first block of a PEM text."""
    return hashlib.sha256(base64.b64decode(pem.split("-----")[2])).hexdigest()


def spki(certificate):
    """Of its public key, as "3 1 1" wants it."""
    return sha256(openssl("x509", "-in", certificate.pem, "-noout", "-pubkey"))


def whole(path):
    """Of a certificate, as "2 0 1" wants it."""
    with open(path) as file:
        return sha256(file.read())


class Dane(Suite):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if why := validating_dns.unavailable():
            raise unittest.SkipTest(why)
        cls.directory = tempfile.mkdtemp(prefix="pen-dane-")
        cls.addClassCleanup(shutil.rmtree, cls.directory, ignore_errors=True)
        cls.ca = Authority(os.path.join(cls.directory, "ca"))
        own = cls.ca.issue("mx.ee.example")
        cls.peer = Peer(host=HOST, tls=server_context(own))
        cls.addClassCleanup(cls.peer.close)
        cls.plain = Peer(host="127.0.0.14", port=cls.peer.port)
        cls.addClassCleanup(cls.plain.close)
        certificate = cls.ca.issue("mx.ta.example")
        cls.anchored = Peer(host="127.0.0.15", port=cls.peer.port, tls=server_context(certificate))
        cls.addClassCleanup(cls.anchored.close)
        right, wrong = "3 1 1 " + spki(own), "3 1 1 " + "00" * 32
        anchor = "2 0 1 " + whole(cls.ca.pem)

        def zone(*records, host=HOST, name="mx"):
            return ["@ MX 10 mx", f"{name} A {host}",
                    *(f"_{cls.peer.port}._tcp.{name} TLSA {r}" for r in records)]
        signed = {
            "ee.example": zone(right),
            "several.example": zone(wrong, right),
            "mismatch.example": zone(wrong),
            "none.example": zone(),
            "unusable.example": zone("0 0 1 " + "00" * 32, "3 1 9 aabb"),
            "stripped.example": zone(right, host="127.0.0.14"),
            "ta.example": zone(anchor, host="127.0.0.15"),
            "tawrong.example": zone(anchor, host="127.0.0.15"),  # its certificate is for mx.ta.example
            "alias.example": ["@ MX 10 mx", "mx CNAME mx.ee.example."],
            "out.example": ["@ MX 10 mx", "mx CNAME mx.insecure.example.",
                            f"_{cls.peer.port}._tcp.mx TLSA {right}"],
            "mxout.example": ["@ MX 10 mx.insecure.example."],
            "second.example": ["@ MX 10 bad", "bad A 127.0.0.15", f"_{cls.peer.port}._tcp.bad TLSA {wrong}", *zone(right)[1:],
                               "@ MX 20 mx"],
        }
        cls.dns = validating_dns.ValidatingDns(
            signed, unsigned={"insecure.example": zone(wrong), "mxin.example": ["@ MX 10 mx.ee.example."]},
            expired={"expired.example": zone(right)}, bogus={"bogus.example": zone(right)})
        cls.addClassCleanup(cls.dns.__exit__)

    def fate(self, mx, domain):
        send(mx.port, "ada@sender.example", [f"a@{domain}"], mail())
        return mx.wait_log(rf"to=<a@{domain}>, .*status=.*").group(0)

    def instance(self, level, **more):
        return Instance(self.dns.settings(**SOON, smtp_tcp_port=str(self.peer.port), smtp_tls_security_level=level,
                                          smtp_tls_loglevel="1", relay_domains="example", **more))

    # domain -> at dane, at dane-only: "verified", "encrypted", or the words of a deferral
    EXPECTED = {
        "ee.example": ("verified", "verified"),
        "several.example": ("verified", "verified"),
        "mismatch.example": ("Server certificate not trusted", "Server certificate not trusted"),
        "none.example": ("encrypted", "has no secure TLSA records"),
        "unusable.example": ("encrypted", "cannot be used"),
        "stripped.example": ("TLS is required, but was not offered by host", "TLS is required, but was not offered by host"),
        "ta.example": ("verified", "verified"),
        "tawrong.example": ("Server certificate not trusted", "Server certificate not trusted"),
        "alias.example": ("verified", "verified"),
        "out.example": ("verified", "verified"),
        "mxout.example": ("encrypted", "has no secure TLSA records"),
        "insecure.example": ("encrypted", "are not secure in DNS"),
        "mxin.example": ("verified", "are not secure in DNS"),
        "expired.example": ("Host not found, try again", "Host not found, try again"),
        "bogus.example": ("TLSA look-up error for mx.bogus.example", "TLSA look-up error for mx.bogus.example"),
    }

    def level(self, level, at):
        with self.instance(level) as mx:
            for domain, outcomes in self.EXPECTED.items():
                with self.subTest(level=level, domain=domain):
                    line, wanted = self.fate(mx, domain), outcomes[at]
                    if wanted not in ("verified", "encrypted"):
                        self.assertIn("status=deferred", line)
                        self.assertIn(wanted, line)
                        continue
                    self.assertIn("status=sent", line)
                    taken = [m for peer in (self.peer, self.anchored) for m in peer.messages if m.recipients == [f"a@{domain}"]]
                    self.assertEqual(taken[-1].session.tls, "TLSv1.3")
                    # Connections that nothing is asked of are shared by hosts: the log names the first.
                    host = {"mxin.example": "mx.ee.example"}.get(domain, f"mx.{domain}")
                    verified = f"Verified TLS connection established to {host}[" in mx.log()
                    self.assertEqual(verified, wanted == "verified")
        for peer in (self.peer, self.plain, self.anchored):
            self.assertEqual(peer.violations, [])
        self.assertEqual(self.plain.messages, [])

    def test_level_dane(self):
        self.level("dane", 0)

    def test_level_dane_only(self):
        self.level("dane-only", 1)

    def test_insecure_mx_records_count_as_the_setting_says_and_explain_tells(self):
        with self.instance("dane", smtp_tls_dane_insecure_mx_policy="encrypt") as mx:
            self.assertIn("status=sent", self.fate(mx, "mxin.example"))
            self.assertRegex(mx.log(), r"Untrusted TLS connection established to mx\.ee\.example\[")
            told = mx.tool("pendest", "explain", "a@mxin.example", check=True).stdout
            self.assertIn("the MX records of mxin.example are not secure in DNS", told)
            self.assertIn("dane, by smtp_tls_security_level", mx.tool("pendest", "explain", "a@ee.example", check=True).stdout)

    def test_the_next_host_is_used_where_one_does_not_match_its_records(self):
        with self.instance("dane") as mx:
            send(mx.port, "ada@sender.example", ["a@second.example"], mail())
            mx.wait_log(r"to=<a@second\.example>, .*status=sent ")
            self.assertRegex(mx.log(), r"Untrusted TLS connection established to bad\.second\.example\[")
            self.assertRegex(mx.log(), r"Verified TLS connection established to mx\.second\.example\[")
        self.assertEqual([m for m in self.anchored.messages if m.recipients == ["a@second.example"]], [])

    def test_a_policy_of_one_next_hop_asks_for_dane(self):
        with self.instance("may", smtp_tls_policy_maps=inline({"ee.example": "dane-only"})) as mx:
            self.assertIn("status=sent", self.fate(mx, "ee.example"))
            self.assertRegex(mx.log(), r"Verified TLS connection established to mx\.ee\.example\[")
            self.assertIn("status=sent", self.fate(mx, "none.example"))


if __name__ == "__main__":
    unittest.main()
