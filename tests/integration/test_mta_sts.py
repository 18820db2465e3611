"""MTA-STS (RFC 8461) end to end: DNS, policy hosts and MX hosts that do right and wrong, and what becomes of the mail."""
import email
import email.policy
import gzip
import json
import os
import shutil
import tempfile

from certificates import Authority
from harness import *
from peer import server_context
from policy_host import PolicyHost, answer, policy
from test_tlsrpt import Reports

SOON = {"minimal_backoff_time": "1s", "maximal_backoff_time": "4s", "queue_run_delay": "1s"}
RECORD = "v=STSv1; id=one;"


class MtaSts(Suite):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.directory = tempfile.mkdtemp(prefix="pen-sts-")
        cls.addClassCleanup(shutil.rmtree, cls.directory, ignore_errors=True)
        os.chmod(cls.directory, 0o755)
        cls.ca = Authority(os.path.join(cls.directory, "web"))
        cls.other_ca = Authority(os.path.join(cls.directory, "other"), "Other CA")
        certificates = {"right": cls.ca.issue("mx.right.example"), "wrong": cls.ca.issue("elsewhere.example"),
                        "expired": cls.ca.issue_odd("mx.expired.example"),
                        "untrusted": cls.other_ca.issue("mx.untrusted.example"), "clear": None}
        cls.peers, cls.addresses, port = {}, {}, 0
        for number, (kind, certificate) in enumerate(certificates.items(), 31):
            cls.addresses[kind] = f"127.0.0.{number}"
            peer = Peer(host=cls.addresses[kind], port=port, tls=certificate and server_context(certificate))
            cls.addClassCleanup(peer.close)
            cls.peers[kind], port = peer, peer.port
        cls.port = port

    def zone(self, more=(), **domains):
        """A name server with MX hosts by their kind, and the domains: name -> (TXT texts, MX kinds by preference)."""
        records = {(f"mx.{kind}.example", "A"): [address] for kind, address in self.addresses.items()}
        for name, (texts, *kinds) in domains.items():
            records[f"{name}.example", "MX"] = [(10 * n, f"mx.{kind}.example") for n, kind in enumerate(kinds, 1)]
            records[f"mta-sts.{name}.example", "A"] = ["127.0.0.1"]
            if texts:
                records[f"_mta-sts.{name}.example", "TXT"] = texts
        records.update(more)
        return Dns(records, ttl=1)

    def policy_host(self, *domains):
        return PolicyHost(self.ca.issue(*(f"mta-sts.{d}.example" for d in domains)))

    def instance(self, dns, hosts, **more):
        settings = {**SOON, **dns.settings(), "relay_domains": "example", "smtp_tcp_port": str(self.port),
                    "smtp_tls_security_level": "may", "smtp_tls_loglevel": "1", "smtp_mta_sts_enable": "yes",
                    "smtp_mta_sts_CAfile": self.ca.pem, "smtp_mta_sts_port": str(hosts.port), "smtp_mta_sts_wait": "1s",
                    "smtp_mta_sts_retry_time": "1s", **more}
        return Instance(settings)

    def explain(self, mx, domain):
        done = mx.tool("pendest", "--json", "explain", f"a@{domain}.example", check=True)
        return json.loads(done.stdout.splitlines()[0])["tls"]

    def at(self, kind, domain):
        return [m for m in self.peers[kind].messages if m.recipients == [f"a@{domain}.example"]]

    # How mail fares by a policy that was had: mode, mx patterns, MX hosts; the words of a deferral, or where it goes.
    POLICIES = {
        "good": ("enforce", ["mx.right.example"], ["right"], "right"),
        "wildcard": ("enforce", ["*.right.example"], ["right"], "right"),
        "toowild": ("enforce", ["*.example"], ["right"], "host mx.right.example is not one that the MTA-STS policy of "
                    "toowild.example (enforce, id one) names"),
        "mismatch": ("enforce", ["mx.elsewhere.example"], ["clear"], "host mx.clear.example is not one that"),
        "second": ("enforce", ["mx.right.example"], ["clear", "right"], "right"),
        "secondbest": ("enforce", ["mx.wrong.example", "mx.right.example"], ["wrong", "right"], "right"),
        "mxwrongname": ("enforce", ["mx.wrong.example"], ["wrong"], "Server certificate not verified"),
        "mxexpired": ("enforce", ["mx.expired.example"], ["expired"], "Server certificate not trusted"),
        "mxuntrusted": ("enforce", ["mx.untrusted.example"], ["untrusted"], "Server certificate not trusted"),
        "notls": ("enforce", ["mx.clear.example"], ["clear"], "TLS is required, but was not offered by host"),
        "testing": ("testing", ["mx.right.example"], ["right"], "right"),
        "testmismatch": ("testing", ["mx.elsewhere.example"], ["clear"], "clear"),
        "testwrong": ("testing", ["mx.wrong.example"], ["wrong"], "wrong"),
        "modenone": ("none", ["mx.elsewhere.example"], ["clear"], "clear"),
        "table": ("enforce", ["mx.elsewhere.example"], ["clear"], "clear"),
    }

    def test_what_policies_demand_of_mx_hosts(self):
        with self.policy_host(*self.POLICIES) as hosts:
            for domain, (mode, mx, _, _) in self.POLICIES.items():
                hosts.policies[f"{domain}.example"] = policy(mode, *mx)
            zone = {domain: ([RECORD], *kinds) for domain, (_, _, kinds, _) in self.POLICIES.items()}
            with self.zone(**zone) as dns, \
                    self.instance(dns, hosts, smtp_tls_policy_maps=inline({"table.example": "may"})) as mx:
                for domain in self.POLICIES:
                    send(mx.port, "ada@sender.example", [f"a@{domain}.example"], mail())
                for domain, (_, _, _, outcome) in self.POLICIES.items():
                    with self.subTest(domain=domain):
                        # What goes to the second host may have been tried at the first, and then waited.
                        wanted = "sent" if outcome in self.peers else "deferred"
                        line = mx.wait_log(rf"to=<a@{domain}\.example>, .*status={wanted} .*").group(0)
                        if wanted == "deferred":
                            self.assertIn(outcome, line)
                            self.assertEqual([m for kind in self.peers for m in self.at(kind, domain)], [])
                        else:
                            self.assertEqual(len(self.at(outcome, domain)), 1)
                self.assertEqual(self.at("right", "good")[0].session.tls, "TLSv1.3")
                self.assertRegex(mx.log(), r"Verified TLS connection established to mx\.right\.example\[")
                self.assertIn("MTA-STS policy of testmismatch.example (testing): host mx.clear.example is none of those",
                              mx.log())
                self.assertRegex(self.explain(mx, "good"), r"^secure, by MTA-STS policy of good\.example \(enforce, id one, ")
                self.assertRegex(self.explain(mx, "testing"), r"^may, by smtp_tls_security_level; MTA-STS policy of .*\(testing")
                self.assertRegex(self.explain(mx, "table"), r"^may, by smtp_tls_policy_maps \(table\.example\)$")
                # Each was fetched once, however many asked; where the table decides nothing is asked for.
                self.assertEqual(hosts.fetches.pop("table.example", 0), 0)
                self.assertEqual(set(hosts.fetches.values()), {1})
                self.assertIn("mx.right.example", self.peers["right"].tls.asked)
                for peer in self.peers.values():
                    self.assertEqual(peer.violations, [])

    # Domain -> its policy's mode and mx, the MX host, the failure that is reported under type sts.
    REPORTED = {
        "told-good": ("enforce", "mx.right.example", "right", None),
        "told-mxuntrusted": ("enforce", "mx.untrusted.example", "untrusted", "certificate-not-trusted"),
        "told-testgood": ("testing", "mx.right.example", "right", None),
        "told-testwrong": ("testing", "mx.wrong.example", "wrong", "certificate-host-mismatch"),
        "told-testexpired": ("testing", "mx.expired.example", "expired", "certificate-expired"),
        "told-testclear": ("testing", "mx.clear.example", "clear", "starttls-not-supported"),
        "told-unnamed": ("enforce", "mx.elsewhere.example", "right", "validation-failure"),
        "told-gone": (None, None, "right", "sts-policy-fetch-error"),
        "told-nonsense": ("nonsense", "mx.right.example", "right", "sts-policy-invalid"),
        "told-badweb": ("enforce", "mx.right.example", "right", "sts-webpki-invalid"),
    }

    def test_what_fails_under_policies_is_reported(self):
        with Peer() as inbox, self.policy_host(*self.REPORTED) as hosts:
            hosts.certificates["told-badweb.example"] = self.ca.issue("elsewhere.example")
            for domain, (mode, mx, _, _) in self.REPORTED.items():
                if mode:
                    hosts.policies[f"{domain}.example"] = policy(mode, mx)
            wish = {(f"_smtp._tls.{domain}.example", "TXT"): [f"v=TLSRPTv1; rua=mailto:{domain}@reports.example"]
                    for domain in self.REPORTED}
            zone = {domain: ([RECORD], kind) for domain, (_, _, kind, _) in self.REPORTED.items()}
            with self.zone(wish, **zone) as dns, self.instance(
                    dns, hosts, smtp_tlsrpt_enable="yes", tlsrpt_sender="tls@mx.test.example",
                    transport_maps=inline({"reports.example": f"smtp:[127.0.0.1]:{inbox.port}"})) as mx:
                for domain in self.REPORTED:
                    send(mx.port, "ada@sender.example", [f"a@{domain}.example"], mail())
                for domain, (mode, _, _, result) in self.REPORTED.items():
                    held = result is not None and mode == "enforce" and domain != "told-badweb"
                    mx.wait_log(rf"to=<a@{domain}\.example>, .*status={'deferred' if held else 'sent'} ")

                def reported(missing=set(self.REPORTED)):
                    """Asks for what has gathered until every domain has had a report with the result that is awaited."""
                    with Reports(mx) as reports:
                        reports.send()
                    for message in inbox.messages:
                        domain = message.recipients[0].split("@")[0]
                        if self.result_of(message) == (self.REPORTED[domain][3] or "success"):
                            missing.discard(domain)
                    return not missing
                eventually(reported, lambda: "reports of " + ", ".join(
                    f"{m.recipients[0]}: {self.result_of(m)}" for m in inbox.messages))

    def result_of(self, message):
        """The kind of failure under the policy of type sts, or success; None: the report is of something else."""
        whole = email.message_from_bytes(message.content, policy=email.policy.default)
        report = json.loads(gzip.decompress(list(whole.iter_parts())[1].get_content()))
        for one in report["policies"]:
            if one["policy"]["policy-type"] == "sts":
                if "failure-details" in one:
                    return one["failure-details"][0]["result-type"]
                return "success" if one["summary"]["total-successful-session-count"] else None
        return None

    def test_policies_that_cannot_be_had_hold_no_mail(self):
        """Each would hold the mail if it were believed: the MX host has no TLS and another name."""
        good = policy("enforce", "mx.elsewhere.example")
        # name -> TXT records, what the policy host says, what is told of it
        cases = {
            "norecord": ([], good, None),
            "severalrecords": ([RECORD, "v=STSv1; id=two;"], good, None),
            "badrecord": (["v=STSv1; id=;"], good, None),
            "otherrecord": (["v=spf1 -all"], good, None),
            "redirect": ([RECORD], answer("", "302 Found", more="Location: https://mta-sts.target.example/\r\n"),
                         "HTTP status 302"),
            "notfound": ([RECORD], answer(good, "404 Not Found"), "HTTP status 404"),
            "html": ([RECORD], answer(good, kind="text/html"), 'content type "text/html" is not text/plain'),
            "untyped": ([RECORD], lambda c: c.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + good.encode()), "is not text/plain"),
            "oversized": ([RECORD], answer(good + "x: y\r\n" * 11000), "larger than 64 kilobytes"),
            "header": ([RECORD], answer(good, more="".join(f"X-{n}: {'y' * 900}\r\n" for n in range(60))),
                       "the header of the answer is too large"),
            "badpolicy": ([RECORD], good.replace("STSv1", "STSv2"), "version \"STSv2\" is not STSv1"),
            "empty": ([RECORD], "", "it has no version"),
            "cut": ([RECORD], lambda c: c.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 999\r\n\r\n" +
                                               good.encode()), "could not be fetched"),
            "nothttp": ([RECORD], lambda c: c.sendall(b"220 mx ESMTP\r\n"), "could not be fetched"),
            "slow": ([RECORD], None, None),
            "wrongname": ([RECORD], good, "could not be fetched"),
            "expired": ([RECORD], good, "certificate has expired"),
            "untrusted": ([RECORD], good, "self-signed certificate in certificate chain"),
            "selfsigned": ([RECORD], good, "self-signed certificate"),
            "commonname": ([RECORD], good, "could not be fetched"),
        }
        with self.policy_host(*(set(cases) - {"wrongname"})) as hosts:
            for domain, (_, says, _) in cases.items():
                hosts.policies[f"{domain}.example"] = hosts.never_ends if says is None else says
            odd = hosts.certificates
            odd["expired.example"] = self.ca.issue_odd("mta-sts.expired.example")
            odd["untrusted.example"] = self.other_ca.issue("mta-sts.untrusted.example")
            odd["selfsigned.example"] = Authority(os.path.join(self.directory, "own"), "mta-sts.selfsigned.example").own
            odd["commonname.example"] = self.ca.issue_odd("mta-sts.commonname.example", expired=False, names=False)
            zone = {domain: (texts, "clear") for domain, (texts, _, _) in cases.items()}
            with self.zone(**zone) as dns, self.instance(dns, hosts) as mx:
                for domain in cases:
                    send(mx.port, "ada@sender.example", [f"a@{domain}.example"], mail())
                for domain, (texts, _, told) in cases.items():
                    with self.subTest(domain=domain):
                        mx.wait_log(rf"to=<a@{domain}\.example>, .*status=sent ")
                        self.assertEqual(len(self.at("clear", domain)), 1)
                        if told:
                            self.assertIn(told, self.explain(mx, domain))
                        else:
                            self.assertEqual(self.explain(mx, domain), "may, by smtp_tls_security_level")
                        if texts != [RECORD]:
                            self.assertEqual(hosts.fetches[f"{domain}.example"], 0)
                self.assertNotIn("target.example", [name for name, _ in dns.asked])
                self.assertTrue(all(r.startswith("GET /.well-known/mta-sts.txt HTTP/1.1\r\nHost: mta-sts.")
                                    for r in hosts.requests), hosts.requests)

    def test_a_policy_lasts_over_outages_and_restarts_until_its_domain_takes_it_back(self):
        with self.policy_host("life") as hosts, self.zone(life=([RECORD], "clear")) as dns:
            hosts.policies["life.example"] = policy("enforce", "mx.clear.example")
            with self.instance(dns, hosts) as mx:
                count = 0

                def held():
                    nonlocal count
                    count += 1
                    send(mx.port, f"s{count}@sender.example", ["a@life.example"], mail())
                    eventually(lambda: [m for m in mx.queue() if m["sender"].startswith(f"s{count}@")
                                        and "TLS is required, but was not offered" in json.dumps(m)],
                               lambda: f"the policy holds the mail: {mx.queue()}")
                    self.assertEqual(self.at("clear", "life"), [])
                held()
                # Neither DNS nor HTTPS, and all of our processes die: the cache is on disk.
                hosts.policies.clear()
                dns.trouble["_mta-sts.life.example"] = SERVFAIL
                dns.trouble["mta-sts.life.example"] = SERVFAIL
                mx.kill_all()
                mx.start()
                held()
                self.assertIn("(enforce, id one", self.explain(mx, "life"))
                # Another id, and its policy cannot be had: the old one stays.
                dns.trouble.clear()
                dns.set("_mta-sts.life.example", "TXT", ["v=STSv1; id=two;"])
                mx.reload()
                held()
                mx.wait_log("warning: MTA-STS policy of life.example: not fetched: HTTP status 404; the one that is known")
                # Now it can.
                hosts.policies["life.example"] = policy("none")
                mx.reload()

                def flushed():  # the qmgr that the reload replaces may still be the one that takes the call
                    try:
                        mx.flush()
                        return True
                    except ConnectionError:
                        return False
                eventually(flushed, "qmgr takes the order")
                mx.wait_empty_queue()
                self.assertEqual(len(self.at("clear", "life")), 3)
                self.assertEqual(self.explain(mx, "life"), "may, by smtp_tls_security_level")


if __name__ == "__main__":
    unittest.main()
