"""MTA-STS (RFC 8461) end to end: DNS, policy hosts and MX hosts, right and wrong, and the results for the mail.

Each case is a domain; the table of docs/tls-failure-cases.md has the section for each.
"""
import json
import os
import re

from certificates import Authority, Certificate
from daily_reports import DailyReports
from harness import *
from peer import server_context
from policy_host import PolicyHost, answer, policy
from test_tls_dane import without_certificate
from test_tlsrpt import report_of

SOON = {"minimal_backoff_time": "1s", "maximal_backoff_time": "4s", "queue_run_delay": "1s"}
RECORD = "v=STSv1; id=one;"


class Hosts(Suite):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.directory = cls.folder()
        cls.ca = Authority(os.path.join(cls.directory, "web"))
        cls.other_ca = Authority(os.path.join(cls.directory, "other"), "Other CA")
        contexts = {
            "right": cls.ca.issue("mx.right.example"),
            "wrong": cls.ca.issue("elsewhere.example"),
            "expired": cls.ca.issue_odd("mx.expired.example"),
            "untrusted": cls.other_ca.issue("mx.untrusted.example"),
            "selfsigned": Authority(os.path.join(cls.directory, "mx"), "mx.selfsigned.example").own,
            "commonname": cls.ca.issue_odd("mx.commonname.example", expired=False, names=False),
            "wild": cls.ca.issue("*.wild.example"),
            "a.deep": cls.ca.issue("*.deep.example"),
            "refuses": cls.ca.issue("mx.refuses.example"),
            "breaks": without_certificate(),
            "clear": None,
        }
        cls.peers, cls.addresses, port = {}, {}, 0
        for number, (kind, context) in enumerate(contexts.items(), 31):
            cls.addresses[kind] = f"127.0.0.{number}"
            context = server_context(context) if isinstance(context, Certificate) else context
            peer = Peer(host=cls.addresses[kind], port=port, tls=context)
            cls.addClassCleanup(peer.close)
            cls.peers[kind], port = peer, peer.port
        cls.peers["refuses"].replies["STARTTLS"] = lambda session, line: "454 4.7.0 TLS not available"
        cls.port = port

    @classmethod
    def zone(cls, more=(), **domains):
        """A name server with MX hosts by their kind, and the domains: name -> (TXT texts, MX kinds by preference)."""
        records = {(f"mx.{kind}.example", "A"): [address] for kind, address in cls.addresses.items()}
        for name, (texts, *kinds) in domains.items():
            records[f"{name}.example", "MX"] = [(10 * n, f"mx.{kind}.example") for n, kind in enumerate(kinds, 1)]
            records[f"mta-sts.{name}.example", "A"] = ["127.0.0.1"]
            if texts:
                records[f"_mta-sts.{name}.example", "TXT"] = texts
        records.update(more)
        return Dns(records, ttl=1)

    @classmethod
    def policy_host(cls, *domains):
        return PolicyHost(cls.ca.issue(*(f"mta-sts.{d}.example" for d in domains)))

    @classmethod
    def instance(cls, dns, hosts, **more):
        settings = {**SOON, **dns.settings(), "relay_domains": "example", "smtp_tcp_port": str(cls.port),
                    "smtp_tls_security_level": "may", "smtp_tls_loglevel": "1", "smtp_mta_sts_enable": "yes",
                    "smtp_mta_sts_CAfile": cls.ca.pem, "smtp_mta_sts_port": str(hosts.port), "smtp_mta_sts_wait": "5s",
                    "smtp_mta_sts_retry_time": "1s", **more}
        return Instance(settings)

    def explain(self, mx, domain):
        done = mx.tool("pendest", "--json", "explain", f"a@{domain}.example", check=True)
        return json.loads(done.stdout.splitlines()[0])["tls"]

    def at(self, kind, domain):
        return [m for m in self.peers[kind].messages if m.recipients == [f"a@{domain}.example"]]


class AllCases(Hosts):
    """One instance for all cases, and one message for each. A case's domain is its name, with dots for underscores."""

    @classmethod
    def run_with(cls, hosts, records, zone, **settings):
        cls.hosts = hosts
        cls.addClassCleanup(hosts.__exit__)
        cls.dns = cls.zone(records, **zone)
        cls.addClassCleanup(cls.dns.__exit__)
        cls.mx = cls.instance(cls.dns, hosts, **settings)
        cls.addClassCleanup(cls.mx.close)

    def fate(self, domain, wanted, user="a"):
        """user: a different one for each message to the domain, to tell them apart."""
        send(self.mx.port, "ada@sender.example", [f"{user}@{domain}.example"], mail())
        # Mail for the second host may have been tried at the first, and then waited.
        return self.mx.wait_log(rf"to=<{user}@{re.escape(domain)}\.example>, .*status={wanted} .*").group(0)

    def tearDown(self):
        for peer in self.peers.values():
            self.assertEqual(peer.violations, [])


def domain_of(name):
    return name.replace("_", ".")


NOT_NAMED = "is not one that the MTA-STS policy of"
NOT_VERIFIED = "Server certificate not verified"
NOT_TRUSTED = "Server certificate not trusted"
# Results under a fetched policy: mode, mx patterns, MX hosts; the text of a deferral, or the host that gets the mail.
POLICIES = {
    "good": ("enforce", ["mx.right.example"], ["right"], "right"),
    "delegated": ("enforce", ["mx.right.example"], ["right"], "right"),  # record and policy host are aliases
    "split": ("enforce", ["mx.right.example"], ["right"], "right"),  # the record consists of two strings
    "linefeeds": ("enforce", ["mx.right.example"], ["right"], "right"),
    "firstcounts": ("enforce", ["mx.elsewhere.example"], ["right"], NOT_NAMED),  # the second line says testing
    "webwild": (
        "enforce",
        ["mx.right.example"],
        ["right"],
        "right",
    ),  # the policy host's certificate is *.webwild.example
    "wildcard": ("enforce", ["*.right.example"], ["right"], "right"),
    "toowild": (
        "enforce",
        ["*.example"],
        ["right"],
        "host mx.right.example " + NOT_NAMED + " toowild.example (enforce, id one) names",
    ),
    "mismatch": ("enforce", ["mx.elsewhere.example"], ["clear"], "host mx.clear.example " + NOT_NAMED),
    "second": ("enforce", ["mx.right.example"], ["clear", "right"], "right"),
    "secondbest": ("enforce", ["mx.wrong.example", "mx.right.example"], ["wrong", "right"], "right"),
    "nonebest": (
        "enforce",
        ["mx.wrong.example", "mx.expired.example"],
        ["wrong", "expired", "clear"],
        "Server certificate not ",
    ),
    "mxwrongname": ("enforce", ["mx.wrong.example"], ["wrong"], NOT_VERIFIED),
    "mxexpired": ("enforce", ["mx.expired.example"], ["expired"], NOT_TRUSTED),
    "mxuntrusted": ("enforce", ["mx.untrusted.example"], ["untrusted"], NOT_TRUSTED),
    "mxselfsigned": ("enforce", ["mx.selfsigned.example"], ["selfsigned"], NOT_TRUSTED),
    "mxcommonname": ("enforce", ["mx.commonname.example"], ["commonname"], NOT_VERIFIED),
    "mxwild": ("enforce", ["mx.wild.example"], ["wild"], "wild"),
    "mxdeep": ("enforce", ["mx.a.deep.example"], ["a.deep"], NOT_VERIFIED),
    "notls": ("enforce", ["mx.clear.example"], ["clear"], "TLS is required, but was not offered by host"),
    "mxrefuses": ("enforce", ["mx.refuses.example"], ["refuses"], "refused to start TLS"),
    "mxbreaks": ("enforce", ["mx.breaks.example"], ["breaks"], "TLS is required, but cannot be started"),
    "testing": ("testing", ["mx.right.example"], ["right"], "right"),
    "testmismatch": ("testing", ["mx.elsewhere.example"], ["clear"], "clear"),
    "testwrong": ("testing", ["mx.wrong.example"], ["wrong"], "wrong"),
    "testexpired": ("testing", ["mx.expired.example"], ["expired"], "expired"),
    "testnotls": ("testing", ["mx.clear.example"], ["clear"], "clear"),
    "testbreaks": ("testing", ["mx.breaks.example"], ["breaks"], "breaks"),
    "modenone": ("none", ["mx.elsewhere.example"], ["clear"], "clear"),
    "table": ("enforce", ["mx.elsewhere.example"], ["clear"], "clear"),
    # Lines out of their form name no host, and the policy stays, if there is another.
    "onlybadmx": ("enforce", ["*mx.right.example"], ["right"], "right"),
    "badmx": ("enforce", ["*mx.right.example", "mx.elsewhere.example"], ["right"], NOT_NAMED),
    "addressmx": ("enforce", ["192.0.2.86", "[192.0.2.86]", "mx_1.right.example"], ["untrusted"], NOT_NAMED),
    "oddmx": ("enforce", ["mx_1.untrusted.example", "", "mx.untrusted.example."], ["untrusted"], NOT_TRUSTED),
    "noline": ("enforce", ["mx.elsewhere.example"], ["clear"], NOT_NAMED),
}


@cases(*POLICIES)
class Policies(AllCases):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        hosts = cls.policy_host(*POLICIES)
        for name, (mode, mx, _, _) in POLICIES.items():
            hosts.policies[f"{name}.example"] = policy(mode, *mx)
        hosts.policies["linefeeds.example"] = policy("enforce", "mx.right.example").replace("\r", "")
        hosts.policies["firstcounts.example"] += "mode: testing\r\nmax_age: 0\r\n"
        hosts.policies["noline.example"] = "just text\r\n# a comment\r\n" + hosts.policies["noline.example"]
        hosts.certificates["webwild.example"] = cls.ca.issue("*.webwild.example")
        aliases = {("_mta-sts.delegated.example", "CNAME"): ["_mta-sts.provider.example"],
                   ("_mta-sts.provider.example", "TXT"): [RECORD],
                   ("mta-sts.delegated.example", "CNAME"): ["mta-sts.provider.example"],
                   ("mta-sts.provider.example", "A"): ["127.0.0.1"],
                   ("_mta-sts.split.example", "TXT"): [("v=STSv1; ", "id=one;")]}
        texts = {"delegated": [], "split": []}
        cls.run_with(
            hosts,
            aliases,
            {name: (texts.get(name, [RECORD]), *kinds) for name, (_, _, kinds, _) in POLICIES.items()},
            smtp_tls_policy_maps=inline({"table.example": "may"}),
            smtp_mta_sts_wait="60s",
        )

    def case(self, name):
        outcome = POLICIES[name][3]
        if outcome in self.peers:
            self.fate(name, "sent")
            self.assertEqual(len(self.at(outcome, name)), 1)
        else:
            self.assertIn(outcome, self.fate(name, "deferred"))
            self.assertEqual([m for kind in self.peers for m in self.at(kind, name)], [])
        # Each policy is fetched once, for any number of messages; if the table decides, none is fetched.
        self.assertEqual(self.hosts.fetches[f"{name}.example"], 0 if name == "table" else 1)

    def test_an_enforced_policy_is_told_and_its_host_asked_for_by_name(self):
        self.fate("good", "sent", "told")
        taken = [m for m in self.peers["right"].messages if m.recipients == ["told@good.example"]]
        self.assertEqual([m.session.tls for m in taken], ["TLSv1.3"])
        self.assertRegex(self.mx.log(), r"Verified TLS connection established to mx\.right\.example\[")
        self.assertIn("mx.right.example", self.peers["right"].tls.asked)
        self.assertRegex(
            self.explain(self.mx, "good"), r"^secure, by MTA-STS policy of good\.example \(enforce, id one, "
        )

    def test_what_a_policy_in_testing_would_hold_is_logged(self):
        self.fate("testmismatch", "sent", "logged")
        self.mx.wait_log(
            r"MTA-STS policy of testmismatch\.example \(testing\): host mx\.clear\.example is none of those"
        )
        self.assertRegex(
            self.explain(self.mx, "testing"), r"^may, by smtp_tls_security_level; MTA-STS policy of .*\(testing"
        )

    def test_an_entry_of_the_policy_table_is_told(self):
        self.assertRegex(self.explain(self.mx, "table"), r"^may, by smtp_tls_policy_maps \(table\.example\)$")


GOOD = policy("enforce", "mx.elsewhere.example")
# Each would hold the mail if it were believed, because the MX host has no TLS and another name: TXT records; the
# policy host's answer, None: a little now and then, without end; the failure that is reported.
NO_POLICY = {
    "norecord": ([], GOOD, None),
    "severalrecords": ([RECORD, "v=STSv1; id=two;"], GOOD, None),
    "badrecord": (["v=STSv1; id=;"], GOOD, None),
    "noid": (["v=STSv1;"], GOOD, None),
    "otherversion": (["v=STSv2; id=one;"], GOOD, None),
    "otherrecord": (["v=spf1 -all"], GOOD, None),
    "servfail": ([RECORD], GOOD, None),
    "sub_parent": ([], GOOD, None),  # parent.example has a record and a policy
    "redirect": (
        [RECORD],
        answer("", "302 Found", more="Location: https://mta-sts.target.example/\r\n"),
        "HTTP status 302",
    ),
    "moved": (
        [RECORD],
        answer(GOOD, "301 Moved Permanently", more="Location: https://mta-sts.target.example/\r\n"),
        "HTTP status 301",
    ),
    "notfound": ([RECORD], answer(GOOD, "404 Not Found"), "HTTP status 404"),
    "servererror": ([RECORD], answer(GOOD, "500 Internal Server Error"), "HTTP status 500"),
    "html": ([RECORD], answer(GOOD, kind="text/html"), 'content type "text/html" is not text/plain'),
    "untyped": ([RECORD], lambda c: c.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + GOOD.encode()), "is not text/plain"),
    "oversized": ([RECORD], answer(GOOD + "x: y\r\n" * 11000), "larger than 64 kilobytes"),
    "header": ([RECORD], answer(GOOD, more="".join(f"X-{n}: {'y' * 900}\r\n" for n in range(60))),
               "the header of the answer is too large"),
    "badversion": ([RECORD], GOOD.replace("STSv1", "STSv2"), "version \"STSv2\" is not STSv1"),
    "noversion": ([RECORD], GOOD.replace("version: STSv1\r\n", ""), "it has no version"),
    "badmode": ([RECORD], GOOD.replace("enforce", "always"), "mode \"always\" is not enforce, testing or none"),
    "nomode": ([RECORD], GOOD.replace("mode: enforce\r\n", ""), "it has no mode"),
    "badage": ([RECORD], GOOD.replace("max_age: ", "max_age: -"), "is no number of seconds"),
    "noage": ([RECORD], GOOD[:GOOD.index("max_age")], "it has no max_age"),
    "nomx": ([RECORD], policy("enforce"), "it names no mx"),
    "empty": ([RECORD], "", "it has no version"),
    "cut": (
        [RECORD],
        lambda c: c.sendall(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 999\r\n\r\n" + GOOD.encode()
        ),
        "could not be fetched",
    ),
    "nothttp": ([RECORD], lambda c: c.sendall(b"220 mx ESMTP\r\n"), "could not be fetched"),
    "hangsup": ([RECORD], lambda c: None, "could not be fetched"),
    "slow": ([RECORD], None, None),
    "noaddress": ([RECORD], GOOD, "its policy host mta-sts.noaddress.example has no address"),
    "refused": ([RECORD], GOOD, "could not be fetched"),  # nothing listens there
    "wrongname": ([RECORD], GOOD, "could not be fetched"),
    "expired": ([RECORD], GOOD, "certificate has expired"),
    "untrusted": ([RECORD], GOOD, "self-signed certificate in certificate chain"),
    "selfsigned": ([RECORD], GOOD, "self-signed certificate"),
    "commonname": ([RECORD], GOOD, "could not be fetched"),
    "a_toodeep": ([RECORD], GOOD, "could not be fetched"),  # *.toodeep.example is not mta-sts.a.toodeep.example
}


@cases(*NO_POLICY)
class NoPolicy(AllCases):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        domains = {domain_of(name): row for name, row in NO_POLICY.items()}
        hosts = cls.policy_host(*(set(domains) - {"wrongname"}), "parent")
        for domain, (_, says, _) in domains.items():
            hosts.policies[f"{domain}.example"] = hosts.never_ends if says is None else says
        hosts.policies["parent.example"] = GOOD
        odd = hosts.certificates
        odd["expired.example"] = cls.ca.issue_odd("mta-sts.expired.example")
        odd["untrusted.example"] = cls.other_ca.issue("mta-sts.untrusted.example")
        odd["selfsigned.example"] = Authority(os.path.join(cls.directory, "own"), "mta-sts.selfsigned.example").own
        odd["commonname.example"] = cls.ca.issue_odd("mta-sts.commonname.example", expired=False, names=False)
        odd["a.toodeep.example"] = cls.ca.issue("*.toodeep.example")
        cls.run_with(
            hosts,
            {
                ("_mta-sts.parent.example", "TXT"): [RECORD],
                ("mta-sts.parent.example", "A"): ["127.0.0.1"],
                ("mta-sts.noaddress.example", "A"): [],
                ("mta-sts.refused.example", "A"): ["127.0.0.99"],
            },
            {domain: (texts, "clear") for domain, (texts, _, _) in domains.items()},
        )
        cls.dns.trouble["_mta-sts.servfail.example"] = SERVFAIL

    def case(self, name):
        domain, (texts, _, told) = domain_of(name), NO_POLICY[name]
        self.fate(domain, "sent")
        self.assertEqual(len(self.at("clear", domain)), 1)
        if told:
            self.assertIn(told, self.explain(self.mx, domain))
        else:
            self.assertEqual(self.explain(self.mx, domain), "may, by smtp_tls_security_level")
        if texts != [RECORD] or name == "servfail":
            self.assertEqual(self.hosts.fetches[f"{domain}.example"], 0)
            self.assertEqual(self.hosts.fetches["parent.example"], 0)
        self.assertNotIn("target.example", [asked for asked, _ in self.dns.asked])
        for request in self.hosts.requests:
            self.assertTrue(request.startswith("GET /.well-known/mta-sts.txt HTTP/1.1\r\nHost: mta-sts."), request)


class MtaSts(Hosts):
    # Domain -> its policy's mode and mx, the MX host, the failure reported under type sts.
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
                    """Asks for reports until every domain has had one with the result that is awaited."""
                    with DailyReports(mx, "tlsrpt", "tls_report") as reports:
                        reports.send()
                    for message in inbox.messages:
                        domain = message.recipients[0].split("@")[0]
                        if self.result_of(message) == (self.REPORTED[domain][3] or "success"):
                            missing.discard(domain)
                    return not missing
                eventually(reported, lambda: "reports of " + ", ".join(
                    f"{m.recipients[0]}: {self.result_of(m)}" for m in inbox.messages))

    def result_of(self, message):
        """The kind of failure under the policy of type sts, or success; None: the report is about something else."""
        for one in report_of(message)["policies"]:
            if one["policy"]["policy-type"] == "sts":
                if "failure-details" in one:
                    return one["failure-details"][0]["result-type"]
                return "success" if one["summary"]["total-successful-session-count"] else None
        return None

    def test_smtp_mta_sts_fetch_timeout_ends_a_fetch(self):
        with self.policy_host("endless") as hosts, self.zone(endless=([RECORD], "clear")) as dns:
            hosts.policies["endless.example"] = hosts.never_ends
            with self.instance(dns, hosts, smtp_mta_sts_fetch_timeout="1s") as mx:
                send(mx.port, "ada@sender.example", ["a@endless.example"], mail())
                eventually(lambda: "could not be fetched" in self.explain(mx, "endless"), "the fetch is given up")

    def test_authorities_that_cannot_be_read_take_no_protection_away(self):
        with self.policy_host("unread", "known") as hosts, self.zone(unread=([RECORD], "clear"),
                                                                     known=([RECORD], "untrusted")) as dns:
            hosts.policies["unread.example"] = policy("enforce", "mx.elsewhere.example")
            hosts.policies["known.example"] = policy("enforce", "mx.untrusted.example")
            authorities = os.path.join(self.folder(), "authorities.pem")

            def allow(mode):
                with open(self.ca.pem) as trusted, open(authorities, "w") as file:
                    file.write(trusted.read())
                os.chmod(authorities, mode)
            allow(0o644)
            with self.instance(dns, hosts, smtp_mta_sts_CAfile=authorities) as mx:
                send(mx.port, "ada@sender.example", ["a@known.example"], mail())
                mx.wait_log(r"to=<a@known\.example>, .*status=deferred .*not trusted")
                # The account of the programs is not root's, so that root's own file is out of its reach.
                allow(0o600)
                send(mx.port, "ada@sender.example", ["a@unread.example", "b@known.example"], mail())
                line = mx.wait_log(r"to=<a@unread\.example>, .*dsn=([\d.]+), status=(\w+) .*").group(0)
                self.assertIn("dsn=4.3.5, status=deferred", line)
                self.assertIn("smtp_mta_sts_CAfile", line)
                mx.wait_log(r"to=<b@known\.example>, .*status=deferred ")
                mx.wait_log("warning: MTA-STS policy of unread.example: not fetched: .*mail waits")
                self.assertEqual(self.at("clear", "unread") + self.at("untrusted", "known"), [])
                # When it can be read again, the policy decides.
                allow(0o644)
                mx.wait_log(r"to=<a@unread\.example>, .*status=deferred .*is not one that the MTA-STS policy of")

    def test_smtp_mta_sts_refresh_time_fetches_a_policy_again(self):
        for time, again in (("1s", True), ("1d", False)):
            with self.subTest(time), self.policy_host("fresh") as hosts, self.zone(fresh=([RECORD], "right")) as dns:
                hosts.policies["fresh.example"] = policy("enforce", "mx.right.example")
                with self.instance(dns, hosts, smtp_mta_sts_refresh_time=time) as mx:
                    def asked():
                        send(mx.port, "ada@sender.example", ["a@fresh.example"], mail())
                        mx.wait_empty_queue()
                        return hosts.fetches["fresh.example"] >= (2 if again else 1)
                    eventually(asked, f"the policy is fetched: {hosts.fetches}")
                    if not again:
                        asked()
                        self.assertEqual(hosts.fetches["fresh.example"], 1)

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
                # DNS and HTTPS fail, and all our processes die: the cache is on disk.
                hosts.policies.clear()
                dns.trouble["_mta-sts.life.example"] = SERVFAIL
                dns.trouble["mta-sts.life.example"] = SERVFAIL
                mx.kill_all()
                mx.start()
                held()
                self.assertIn("(enforce, id one", self.explain(mx, "life"))
                # The id changes, but the new policy cannot be fetched: the old one stays.
                dns.trouble.clear()
                dns.set("_mta-sts.life.example", "TXT", ["v=STSv1; id=two;"])
                mx.reload()
                held()
                mx.wait_log(
                    "warning: MTA-STS policy of life.example: not fetched: HTTP status 404; the one that is known"
                )
                # Now it can be fetched.
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
