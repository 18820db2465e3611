"""DANE (RFC 7672) end to end: zones signed here, a real validating resolver, peers with and without the right
certificate.

Each case is a domain, with its name; the table of docs/tls-failure-cases.md has the section for each.
"""
import base64
import hashlib
import os
import ssl

import validating_dns
from certificates import Authority, openssl
from harness import *
from peer import server_context
from policy_host import PolicyHost, policy

SOON = {"minimal_backoff_time": "1s", "maximal_backoff_time": "4s"}
NOT_TRUSTED = "Server certificate not trusted"
NOT_OFFERED = "TLS is required, but was not offered by host"
NO_RECORDS = "has no secure TLSA records"
CANNOT_BE_USED = "cannot be used"
NOT_SECURE = "are not secure in DNS"
NOT_FOUND = "Host not found, try again"


def digest(pem, kind="sha256"):
    """The digest of a PEM text's first block."""
    return hashlib.new(kind, base64.b64decode(pem.split("-----")[2])).hexdigest()


def key(certificate, kind="sha256"):
    """The digest of its public key, for "3 1 1"."""
    return digest(openssl("x509", "-in", certificate.pem, "-noout", "-pubkey"), kind)


def whole_key(certificate):
    """Its public key, for "3 1 0"."""
    return base64.b64decode(openssl("x509", "-in", certificate.pem, "-noout", "-pubkey").split("-----")[2]).hex()


def whole(path):
    """The digest of a certificate, for "2 0 1"."""
    with open(path) as file:
        return digest(file.read())


def without_certificate():
    """A server with which no handshake succeeds."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.asked = []
    return context


class Zones(Suite):
    """Peers at addresses of their own, all at one port, and the zones whose MX hosts they are."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if why := validating_dns.unavailable():
            raise unittest.SkipTest(why)
        cls.directory = cls.folder()
        cls.ca = Authority(os.path.join(cls.directory, "ca"))
        cls.other_ca = Authority(os.path.join(cls.directory, "other"), "Other CA")
        cls.make_peers()
        cls.make_zones()

    @classmethod
    def make_peers(cls):
        ca = cls.ca
        own = ca.issue("mx.ee.example")
        old = ca.issue_odd("nobody.elsewhere.example")
        contexts = {
            "own": server_context(own), "plain": None, "old": server_context(old),
            "ta": server_context(ca.issue("mx.ta.example")),
            "ta-domain": server_context(ca.issue("ta-domain.example", "ta-insecure-mx.example")),
            "ta-expired": server_context(ca.issue_odd("mx.ta-expired.example", chain=True)),
            "ta-missing": server_context(ca.issue_odd("mx.ta-missing.example", expired=False)),
            "ta-other": server_context(cls.other_ca.issue("mx.ta-other.example")),
            "refuses": server_context(own), "breaks": without_certificate(),
        }
        cls.peers, cls.addresses, port = {}, {}, 0
        for number, (kind, context) in enumerate(contexts.items(), 13):
            cls.addresses[kind] = f"127.0.0.{number}"
            peer = Peer(host=cls.addresses[kind], port=port, tls=context)
            cls.addClassCleanup(peer.close)
            cls.peers[kind], port = peer, peer.port
        cls.peers["refuses"].replies["STARTTLS"] = lambda session, line: "454 4.7.0 TLS not available"
        cls.port = port
        cls.right, cls.wrong = "3 1 1 " + key(own), "3 1 1 " + "00" * 32
        cls.strong, cls.wrong_strong = "3 1 2 " + key(own, "sha512"), "3 1 2 " + "00" * 64
        cls.entire, cls.old = "3 1 0 " + whole_key(own), "3 1 1 " + key(old)
        cls.anchor = "2 0 1 " + whole(ca.pem)

    @classmethod
    def zone(cls, *records, host="own", name="mx", mx=True):
        """Adds an MX host, its address, and these TLSA records for it."""
        found = ["@ MX 10 mx"] if mx else []
        found.append(f"{name} A {cls.addresses[host]}")
        return found + [f"_{cls.port}._tcp.{name} TLSA {r}" for r in records]

    @classmethod
    def make_zones(cls):
        zone, right, wrong, anchor = cls.zone, cls.right, cls.wrong, cls.anchor
        service = f"_{cls.port}._tcp"
        signed = {
            "ee": zone(right), "several": zone(wrong, right), "mismatch": zone(wrong), "none": zone(),
            "ee-old": zone(cls.old, host="old"),
            "pkix": zone("0 0 1 " + "00" * 32, "1 1 1 " + right[6:]),
            "selector": zone("3 2 1 " + right[6:]),
            "matching": zone("3 1 9 " + right[6:]),
            "length": zone("3 1 1 aabb"),
            "whole-broken": zone("3 1 0 3000", "2 0 0 3000"),
            "unusable-stripped": zone("1 1 1 " + right[6:], host="plain"),
            "unusable-breaks": zone("1 1 1 " + right[6:], host="breaks"),
            "mixed": zone("1 1 1 " + "00" * 32, "3 1 9 aabb", right), "mixed-wrong": zone("1 1 1 " + right[6:], wrong),
            "agility-strong": zone(cls.strong, wrong), "agility-weak": zone(cls.wrong_strong, right),
            "agility-whole": zone(cls.entire, cls.wrong_strong),
            "stripped": zone(right, host="plain"),
            "refused": zone(right, host="refuses"),
            "breaks": zone(right, host="breaks"),
            "ta": zone(anchor, host="ta"),
            "ta-name": zone(anchor, host="ta"),
            "ta-domain": zone(anchor, host="ta-domain"),
            "ta-expired": zone(anchor, host="ta-expired"),
            "ta-missing": zone(anchor, host="ta-missing"),
            "ta-other": zone(anchor, host="ta-other"),
            "alias": ["@ MX 10 mx", "mx CNAME mx.ee.example."],
            "alias-own": ["@ MX 10 mx", f"mx CNAME mx.none.example.", f"{service}.mx TLSA {right}"],
            "alias-out": ["@ MX 10 mx", "mx CNAME mx.insecure.example.", f"{service}.mx TLSA {right}"],
            "records-alias": [*zone(), f"{service}.mx CNAME {service}.mx.ee.example."],
            "records-alias-out": [*zone(), f"{service}.mx CNAME {service}.mx.insecure.example."],
            "mx-out": ["@ MX 10 mx.insecure.example."],
            "no-mx": [f"@ A {cls.addresses['own']}", f"{service} TLSA {right}"],
            "null-mx": ["@ MX 0 ."],
            "second": ["@ MX 10 bad", f"bad A {cls.addresses['ta']}", f"{service}.bad TLSA {wrong}", *zone(right)[1:],
                       "@ MX 20 mx"],
            "both": [*zone(wrong), '_mta-sts TXT "v=STSv1; id=one;"', "mta-sts A 127.0.0.1"],
        }
        unsigned = {"insecure": zone(wrong), "mx-in": ["@ MX 10 mx.ee.example."],
                    "ta-insecure-mx": ["@ MX 10 mx.ta-domain.example."]}
        bogus = {"bogus-tlsa": zone(right), "bogus-mx": zone(right), "bogus-address": zone(right)}

        def named(zones):
            return {f"{name}.example": lines for name, lines in zones.items()}
        cls.dns = validating_dns.ValidatingDns(
            named(signed), unsigned=named(unsigned), expired=named({"expired": zone(right)}), bogus=named(bogus),
            bogus_type={"bogus-mx.example": "MX", "bogus-address.example": "A"})
        cls.addClassCleanup(cls.dns.__exit__)

    @classmethod
    def instance(cls, level, **more):
        return Instance(cls.dns.settings(**SOON, smtp_tcp_port=str(cls.port), smtp_tls_security_level=level,
                                         smtp_tls_loglevel="1", relay_domains="example", **more))

    def fate(self, mx, domain):
        send(mx.port, "ada@sender.example", [f"a@{domain}"], mail())
        return mx.wait_log(rf"to=<a@{domain}>, .*status=.*").group(0)

    def taken(self, domain):
        return [m for peer in self.peers.values() for m in peer.messages if m.recipients == [f"a@{domain}"]]


# case -> results at dane and dane-only: "verified", "encrypted" (the certificate is not checked), "returned: " and
# text, or the text of a deferral. A domain is named like its case.
EXPECTED = {
    "ee": ("verified", "verified"),
    "several": ("verified", "verified"),
    "mismatch": (NOT_TRUSTED, NOT_TRUSTED),
    "ee_old": ("verified", "verified"),  # expired, and for another name: neither matters
    "none": ("encrypted", NO_RECORDS),
    "pkix": ("encrypted", CANNOT_BE_USED),
    "selector": ("encrypted", CANNOT_BE_USED),
    "matching": ("encrypted", CANNOT_BE_USED),
    "length": ("encrypted", CANNOT_BE_USED),
    "whole_broken": ("encrypted", CANNOT_BE_USED),
    "unusable_stripped": (NOT_OFFERED, CANNOT_BE_USED),
    "unusable_breaks": ("TLS is required, but cannot be started", CANNOT_BE_USED),
    "mixed": ("verified", "verified"),
    "mixed_wrong": (NOT_TRUSTED, NOT_TRUSTED),
    "agility_strong": ("verified", "verified"),
    "agility_weak": (NOT_TRUSTED, NOT_TRUSTED),
    "agility_whole": ("verified", "verified"),
    "stripped": (NOT_OFFERED, NOT_OFFERED),
    "refused": ("refused to start TLS", "refused to start TLS"),
    "breaks": ("TLS is required, but cannot be started", "TLS is required, but cannot be started"),
    "ta": ("verified", "verified"),
    "ta_name": (NOT_TRUSTED, NOT_TRUSTED),  # its certificate is for mx.ta.example
    "ta_domain": ("verified", "verified"),  # for the domain, not for the host
    "ta_insecure_mx": (NOT_TRUSTED, NOT_SECURE),  # the same host, but the way to it is not secure
    "ta_expired": (NOT_TRUSTED, NOT_TRUSTED),
    "ta_missing": (NOT_TRUSTED, NOT_TRUSTED),  # the anchor is not in the chain of the server
    "ta_other": (NOT_TRUSTED, NOT_TRUSTED),
    "alias": ("verified", "verified"),
    "alias_own": ("verified", "verified"),  # its target has no records: those of its own name count
    "alias_out": ("verified", "verified"),  # leads to an insecure zone: the records of its own name count
    "records_alias": ("verified", "verified"),
    "records_alias_out": ("encrypted", NO_RECORDS),
    "mx_out": ("encrypted", NO_RECORDS),
    "no_mx": ("verified", "verified"),
    "null_mx": ("returned: does not accept mail", "returned: does not accept mail"),
    "insecure": ("encrypted", NOT_SECURE),
    "mx_in": ("verified", NOT_SECURE),
    "expired": (NOT_FOUND, NOT_FOUND),
    "bogus_mx": (NOT_FOUND, NOT_FOUND),
    "bogus_address": (NOT_FOUND, NOT_FOUND),
    "bogus_tlsa": ("TLSA look-up error for mx.bogus-tlsa.example", "TLSA look-up error for mx.bogus-tlsa.example"),
}


class AtLevel(Zones):
    """One instance for all cases, and one message for each."""
    LEVEL, AT = None, None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.mx = cls.instance(cls.LEVEL)
        cls.addClassCleanup(cls.mx.close)

    def case(self, name):
        domain, wanted = f"{name.replace('_', '-')}.example", EXPECTED[name][self.AT]
        line = self.fate(self.mx, domain)
        if wanted in ("verified", "encrypted"):
            self.assertIn("status=sent", line)
            self.assertEqual(self.taken(domain)[-1].session.tls, "TLSv1.3")
            # Connections without demands are shared by hosts: the log names the first.
            host = {"mx_in": "mx.ee.example", "no_mx": domain}.get(name, f"mx.{domain}")
            verified = f"Verified TLS connection established to {host}[" in self.mx.log()
            self.assertEqual(verified, wanted == "verified")
        else:
            returned = wanted.startswith("returned: ")
            self.assertIn("status=bounced" if returned else "status=deferred", line)
            self.assertIn(wanted.removeprefix("returned: "), line)
            self.assertEqual(self.taken(domain), [])
        for peer in self.peers.values():
            self.assertEqual(peer.violations, [])


@cases(*EXPECTED)
class AtDane(AtLevel):
    LEVEL, AT = "dane", 0


@cases(*EXPECTED)
class AtDaneOnly(AtLevel):
    LEVEL, AT = "dane-only", 1


class Around(Zones):
    """The effect of settings and other policies."""

    def test_insecure_mx_records_count_as_the_setting_says_and_explain_tells(self):
        with self.instance("dane", smtp_tls_dane_insecure_mx_policy="encrypt") as mx:
            self.assertIn("status=sent", self.fate(mx, "mx-in.example"))
            self.assertRegex(mx.log(), r"Untrusted TLS connection established to mx\.ee\.example\[")
            told = mx.tool("pendest", "explain", "a@mx-in.example", check=True).stdout
            self.assertIn("the MX records of mx-in.example are not secure in DNS", told)
            self.assertIn(
                "dane, by smtp_tls_security_level", mx.tool("pendest", "explain", "a@ee.example", check=True).stdout
            )

    def test_the_next_host_is_used_where_one_does_not_match_its_records(self):
        with self.instance("dane") as mx:
            send(mx.port, "ada@sender.example", ["a@second.example"], mail())
            mx.wait_log(r"to=<a@second\.example>, .*status=sent ")
            self.assertRegex(mx.log(), r"Untrusted TLS connection established to bad\.second\.example\[")
            self.assertRegex(mx.log(), r"Verified TLS connection established to mx\.second\.example\[")
        self.assertEqual([m for m in self.peers["ta"].messages if m.recipients == ["a@second.example"]], [])

    def test_a_policy_of_one_next_hop_asks_for_dane(self):
        with self.instance("may", smtp_tls_policy_maps=inline({"ee.example": "dane-only"})) as mx:
            self.assertIn("status=sent", self.fate(mx, "ee.example"))
            self.assertRegex(mx.log(), r"Verified TLS connection established to mx\.ee\.example\[")
            self.assertIn("status=sent", self.fate(mx, "none.example"))

    def test_the_name_of_the_records_is_asked_for(self):
        """Section 8.1: SNI is the TLSA base domain, which is the alias's target if that has the records."""
        for peer in self.peers.values():
            if peer.tls:
                peer.tls.asked.clear()
        with self.instance("dane") as mx:
            for domain, name in (("alias.example", "mx.ee.example"), ("alias-own.example", "mx.alias-own.example"),
                                 ("no-mx.example", "no-mx.example")):
                self.assertIn("status=sent", self.fate(mx, domain))
                self.assertIn(name, self.peers["own"].tls.asked)

    def test_failing_dane_is_not_overridden_by_an_mta_sts_policy(self):
        """RFC 8461 section 2: not even a policy that the host fulfils."""
        own = self.ca.issue("mta-sts.both.example")
        with PolicyHost(own) as hosts:
            hosts.policies["both.example"] = policy("enforce", "mx.both.example")
            with self.instance("dane", smtp_mta_sts_enable="yes", smtp_mta_sts_CAfile=self.ca.pem,
                               smtp_mta_sts_port=str(hosts.port)) as mx:
                line = self.fate(mx, "both.example")
                self.assertIn("status=deferred", line)
                self.assertIn(NOT_TRUSTED, line)
            self.assertEqual(hosts.fetches["both.example"], 0)
        self.assertEqual(self.taken("both.example"), [])

    def test_a_resolver_that_is_not_believed_secures_nothing(self):
        with self.instance("dane", smtp_dns_support_level="enabled") as mx:
            line = self.fate(mx, "ee.example")
            self.assertIn("status=deferred", line)
            self.assertIn("level dane needs smtp_dns_support_level = dnssec", line)


if __name__ == "__main__":
    unittest.main()
