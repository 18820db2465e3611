"""penstock doctor beside a name server with good and bad zones, servers that answer and servers that do not."""
import hashlib
import json
import os
import re
import socket
import subprocess
import time
import unittest

from certificates import Authority, openssl
from dns import SILENT, Dns
from instance import BIN, Instance, missing
from peer import Peer
from waiting import eventually, free_port

HOST, DOMAIN, ADDRESS = "mx.test.example", "test.example", "192.0.2.25"


def zone():
    return {
        (HOST, "A"): [ADDRESS],
        ("25.2.0.192.in-addr.arpa", "PTR"): [HOST],
        (DOMAIN, "MX"): [(10, HOST)],
        (DOMAIN, "A"): ["192.0.2.80"],
        (DOMAIN, "TXT"): ["v=spf1 mx -all"],
        ("_dmarc." + DOMAIN, "TXT"): ["v=DMARC1; p=reject"],
    }


def greeting(port):
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        return connection.recv(500)


@unittest.skipIf(missing(), missing())
class Doctor(unittest.TestCase):
    def setUp(self):
        self.dns = Dns(zone())
        self.addCleanup(self.dns.__exit__)

    def instance(self, start=True, **settings):
        mx = Instance({"mydestination": f"$myhostname, {DOMAIN}, localhost", "myhostname": HOST,
                       "virtual_mailbox_domains": "", **self.dns.settings(), **settings}, start=start)
        self.addCleanup(mx.close)
        return mx

    def findings(self, mx, *words, status=None):
        done = mx.tool("penstock", "doctor", "--json", *words, timeout=120)
        found = json.loads(done.stdout)
        for one in found:
            if one["level"] != "ok" and one["area"] != "configuration":
                self.assertTrue(one["why"] and one["advice"], one)
        errors = any(one["level"] == "error" for one in found)
        self.assertEqual(done.returncode, 78 if errors else 0, done.stderr)
        return found

    def find(self, found, text):
        hits = [one for one in found if text in one["what"]]
        self.assertTrue(hits, f"nothing says {text!r}: {json.dumps(found, indent=1)}")
        return hits[0]

    def expect(self, found, level, text):
        one = self.find(found, text)
        self.assertEqual(one["level"], level, one)

    def test_an_instance_with_which_all_is_well(self):
        mx = self.instance()
        found = self.findings(mx)
        for text in (f"the name of {ADDRESS} in DNS (PTR) is {HOST}", f"mail for {DOMAIN} goes to {HOST}",
                     "allows " + ADDRESS, "the DMARC record", f"[127.0.0.1]:{mx.port} answers", "MiB are free for",
                     "a sync of a small file"):
            self.assertIn(self.find(found, text)["level"], ("ok", "warning"), text)
        self.expect(found, "note", "whether port 25 of other hosts is reached from here was not tried")
        bad = [one for one in found if one["area"] == "names" and one["level"] != "ok"]
        self.assertEqual(bad, [])
        self.assertEqual([n for n in os.listdir(mx.path("spool", "log")) if n.startswith(".doctor")], [])
        text = mx.tool("penstock", "doctor", timeout=120).stdout
        self.assertRegex(text, r"(?m)^ok +names: " + HOST)

    def test_zones_in_which_each_record_is_wrong(self):
        mx = self.instance(start=False)
        self.dns.set("25.2.0.192.in-addr.arpa", "PTR", ["host25.provider.example"])
        self.dns.set(DOMAIN, "TXT", ["v=spf1 ip4:198.51.100.1 -all"])
        self.dns.set(DOMAIN, "MX", [(10, "elsewhere.example")])
        del self.dns.records[("_dmarc." + DOMAIN, "TXT")]
        self.dns.set("_mta-sts." + DOMAIN, "TXT", ["v=STSv1; id=1"])
        found = self.findings(mx)
        self.expect(found, "warning", f"is host25.provider.example, not {HOST}")
        self.expect(found, "warning", "does not name " + ADDRESS)
        self.expect(found, "note", "goes to elsewhere.example")
        self.expect(found, "error", f"the mail host elsewhere.example of {DOMAIN} has no address")
        self.expect(found, "warning", "has no DMARC record")
        self.expect(found, "error", f"mta-sts.{DOMAIN} has no address in DNS")
        self.expect(found, "note", "the mail system is not running")
        self.dns.set(DOMAIN, "TXT", ["v=spf1 mx -all", "v=spf1 -all"])
        self.dns.set(DOMAIN, "MX", [(0, ".")])
        del self.dns.records[(HOST, "A")]
        self.dns.set(HOST, "TXT", ["here"])
        found = self.findings(mx)
        self.expect(found, "error", "2 SPF records")
        self.expect(found, "error", "null MX")
        self.expect(found, "error", "has no address in DNS")

    def test_a_name_server_that_does_not_answer_makes_nothing_wrong(self):
        mx = self.instance(start=False, dns_resolver_timeout="1s")
        for name in {n for n, _ in self.dns.records} | {"_mta-sts." + DOMAIN, "_25._tcp." + HOST}:
            self.dns.trouble[name] = SILENT
        began = time.monotonic()
        found = self.findings(mx)
        self.assertLess(time.monotonic() - began, 100)
        self.expect(found, "note", "DNS does not answer for " + HOST)
        names = [one for one in found if one["area"] == "names"]
        self.assertTrue(names)
        self.assertEqual([one for one in names if one["level"] != "note"], [])

    def test_without_network_nobody_is_asked(self):
        mx = self.instance(start=False)
        self.dns.asked.clear()
        found = self.findings(mx, "--no-network")
        self.assertEqual(self.dns.asked, [])
        areas = {one["area"] for one in found}
        self.assertTrue({"disk", "kernel"} <= areas, areas)
        self.assertFalse({"names", "servers"} & areas, areas)

    def test_certificates_and_what_dane_says_of_them(self):
        mx = self.instance(start=False)
        authority = Authority(os.path.join(mx.dir, "ca"))
        good, other = authority.issue(HOST), authority.issue("other.example")
        mx.set(smtpd_tls_security_level="may", smtpd_tls_cert_file=good.pem, smtpd_tls_key_file=good.key)
        key = openssl("x509", "-in", good.pem, "-noout", "-pubkey")
        der = subprocess.run(["openssl", "pkey", "-pubin", "-outform", "DER"], input=key.encode(),
                             capture_output=True, check=True).stdout
        record = "3 1 1 " + hashlib.sha256(der).hexdigest()
        self.dns.set("_25._tcp." + HOST, "TLSA", [record])
        found = self.findings(mx)
        self.expect(found, "ok", "is valid until")
        self.expect(found, "ok", f"a TLSA record of {HOST} is of {good.pem}")
        self.dns.set("_25._tcp." + HOST, "TLSA", ["3 1 1 " + "00" * 32])
        mx.set(smtpd_tls_cert_file=other.pem)
        found = self.findings(mx)
        self.expect(found, "error", f"no TLSA record of _25._tcp.{HOST}")
        self.expect(found, "warning", f"{other.pem} is not for the name {HOST}")
        self.expect(found, "error", f"{good.key} is not the key of {other.pem}")

    def test_keys_that_sign_are_compared_with_what_is_published(self):
        mx = self.instance(start=False)
        folder = os.path.join(mx.dir, "keys")
        os.makedirs(folder)
        keys = {}
        for selector in ("one", "two", "three"):
            done = subprocess.run([os.path.join(BIN, "pendkim"), "generate", "-d", DOMAIN, "-s", selector, "--dir",
                                   folder], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            keys[selector] = next(os.path.join(folder, n) for n in sorted(os.listdir(folder))
                                  if selector in n and n.endswith(".private"))
        table = mx.write("key.table", "".join(f"{s} {DOMAIN}:{s}:{keys[s]}\n" for s in keys))
        senders = mx.write("signing.table", f"*@{DOMAIN} one\n")
        mx.set(dkim_signing="yes", dkim_key_table=table, dkim_signing_table="refile:" + senders)

        def text(selector):
            line = subprocess.run([os.path.join(BIN, "pendkim"), "dns", "-d", DOMAIN, "-s", selector, "--key",
                                   keys[selector]], capture_output=True, text=True).stdout
            strings = line.split('"')[1::2]
            self.assertTrue(strings, line)
            return strings

        self.dns.set(f"one._domainkey.{DOMAIN}", "TXT", [text("one")])
        self.dns.set(f"two._domainkey.{DOMAIN}", "TXT", [text("one")])
        found = self.findings(mx)
        self.expect(found, "ok", f"one._domainkey.{DOMAIN} is in DNS")
        self.expect(found, "error", f"DNS has another key at two._domainkey.{DOMAIN}")
        self.expect(found, "error", f"three._domainkey.{DOMAIN} is not in DNS")
        # Those of one service that seals; and a table of senders that is not there, though the key that seals is.
        mx.set(arc_seal_key="one", dkim_signing_table="refile:" + os.path.join(mx.dir, "lost"))
        self.expect(self.findings(mx), "error", os.path.join(mx.dir, "lost"))
        mx.set(dkim_signing="no", arc_seal_key="", dkim_signing_table="")
        self.assertFalse([one for one in self.findings(mx) if "_domainkey" in one["what"]])
        master = os.path.join(mx.etc, "master.cf")
        with open(master) as file:
            text = file.read()
        self.assertRegex(text, r"(?m)^\S+ .* smtpd$")
        with open(master, "w") as file:
            file.write(re.sub(r"(?m)^(\S+ .* smtpd)$", r"\1\n  -o arc_seal_key=four", text, count=1))
        found = self.findings(mx)
        self.expect(found, "ok", f"one._domainkey.{DOMAIN} is in DNS")
        self.expect(found, "error", "arc_seal_key: ")

    def test_filters_policy_servers_and_tables_that_answer_and_that_do_not(self):
        with Peer() as there:
            gone = free_port()
            mx = self.instance(
                start=False, smtpd_milters=f"inet:127.0.0.1:{there.port}, inet:127.0.0.1:{gone}",
                smtpd_recipient_restrictions="permit_mynetworks, reject_unauth_destination, "
                                             f"check_policy_service inet:127.0.0.1:{gone}",
                virtual_alias_maps=f"socketmap:inet:127.0.0.1:{gone}:aliases",
                content_filter=f"smtp:[127.0.0.1]:{gone}", smtpd_proxy_filter=f"127.0.0.1:{there.port}",
                relayhost=f"[127.0.0.1]:{there.port}",
                canonical_maps="memcache:/nonexistent/memcache.cf")
            found = self.findings(mx)
            self.expect(found, "ok", f"filter at inet:127.0.0.1:{there.port} answers")
            self.expect(found, "warning", f"filter at inet:127.0.0.1:{gone} cannot be reached")
            self.expect(found, "warning", f"policy server at inet:127.0.0.1:{gone} cannot be reached")
            self.expect(found, "warning", "the server of the table at socketmap:")
            self.expect(found, "warning", f"content filter at [127.0.0.1]:{gone} cannot be reached")
            self.expect(found, "ok", f"filter at 127.0.0.1:{there.port} answers")
            self.expect(found, "ok", f"relayhost at [127.0.0.1]:{there.port} answers")
            self.find(found, "the server of the table at memcache:")
            # Mail goes out by that host: nobody asks for port 25 of others.
            self.assertFalse([one for one in found if "port 25" in one["what"]])
            mx.set(relayhost=f"[127.0.0.1]:{gone}")
            self.expect(self.findings(mx), "warning", f"relayhost at [127.0.0.1]:{gone} cannot be reached")

    def test_what_listens_in_the_place_of_our_service_is_found_out(self):
        mx = self.instance()
        mx.set(smtpd_banner="other.example ESMTP")
        mx.reload()
        eventually(lambda: b"other.example" in greeting(mx.port), "the new greeting")
        self.expect(self.findings(mx), "warning", f"without the name {HOST}")

    def test_a_configuration_that_cannot_be_read_is_the_only_finding(self):
        mx = self.instance(start=False)
        mx.set(message_size_limit="many")
        found = self.findings(mx)
        self.assertEqual({one["area"] for one in found}, {"configuration"})


if __name__ == "__main__":
    unittest.main()
