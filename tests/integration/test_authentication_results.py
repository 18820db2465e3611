"""SPF, DKIM, DMARC and ARC of incoming mail: what python3-dkim and OpenDKIM sign verifies, forged results go,
restrictions and policies act, and a silent DNS harms nobody else."""
import os
import re
import subprocess
import threading

import dkim_peers
import milter
import validating_dns
from harness import *
from policy_server import PolicyServer
from test_dkim import FORMS, MESSAGES, generate, pendkim

FROM = "anna@sender.example"
ADDRESS = "192.0.2.7"  # of the client, told by XCLIENT
XCLIENT = {"smtpd_authorized_xclient_hosts": "127.0.0.1", "smtpd_peername_lookup": "no",
           "smtpd_relay_restrictions": "permit_mynetworks, reject_unauth_destination"}
ALL = {**XCLIENT, "spf_verify": "yes", "dkim_verify": "yes", "dmarc_verify": "yes", "queue_inline_limit": "16k",
       "message_size_limit": "0"}
# A list of our own: tests must not depend on what Debian's says of .example.
SUFFIXES = "example\nco.example\n"
ZONE = {
    ("sender.example", "TXT"): [f"v=spf1 ip4:{ADDRESS} -all"],
    ("soft.example", "TXT"): ["v=spf1 ~all"],
    ("no.example", "TXT"): ["v=spf1 -all exp=why.no.example"],
    ("why.no.example", "TXT"): ["%{i} is not ours"],
    ("bad.example", "TXT"): ["v=spf1 nonsense"],
    ("deep.example", "TXT"): ["v=spf1 include:deep.example -all"],
    ("_dmarc.sender.example", "TXT"): ["v=DMARC1; p=reject; sp=quarantine"],
    ("_dmarc.strict.example", "TXT"): ["v=DMARC1; p=reject; adkim=s; aspf=s"],
    ("strict.example", "TXT"): [f"v=spf1 ip4:{ADDRESS} -all"],
    ("sub.strict.example", "TXT"): [f"v=spf1 ip4:{ADDRESS} -all"],
    ("_dmarc.none.example", "TXT"): ["v=DMARC1; p=none"],
    ("_dmarc.quarantine.example", "TXT"): ["v=DMARC1; p=quarantine"],
    ("_dmarc.part.example", "TXT"): ["v=DMARC1; p=reject; pct=0"],
}


def results(content, server=b"mx.test.example"):
    """Returns our field, unfolded; None: there is none. More than one is a mistake."""
    header, _ = split(content)
    found = [f for f in fields(header) if f.lower().startswith(b"authentication-results: " + server)]
    assert len(found) <= 1, found
    return re.sub(r"\s+", " ", found[0].decode()).strip() if found else None


def text_of(author, body=b"hello\r\n", extra=b""):
    return b"From: <" + author.encode() + b">\r\nTo: b@rcpt.example\r\nSubject: x\r\n" + extra + b"\r\n" + body


class Checked(Suite):
    """An instance behind which a peer takes all mail; DNS is the test's."""

    settings = ALL

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        dkim_peers.unpack()
        cls.keys = {}
        zone = dict(ZONE)
        for selector, *kind in (("r1", "--rsa", "2048"), ("e1", "--ed25519")):
            file, name, text = generate(cls.folder(), "sender.example", selector, *kind)
            cls.keys[selector] = file
            zone[(name, "TXT")] = [[text[i:i + 255] for i in range(0, len(text), 255)]]
        cls.dns = Dns(zone)
        cls.addClassCleanup(cls.dns.__exit__)
        cls.peer = Peer()
        cls.addClassCleanup(cls.peer.close)
        suffixes = os.path.join(cls.folder(), "suffixes")
        with open(suffixes, "w") as out:
            out.write(SUFFIXES)
        os.chmod(os.path.dirname(suffixes), 0o755)
        cls.instance = Instance({**relay_to(cls.peer), **cls.dns.settings(), "dmarc_public_suffix_file": suffixes,
                                 **cls.settings})
        cls.addClassCleanup(cls.instance.close)

    def setUp(self):
        self.peer.messages.clear()

    def again(self):
        """Starts anew: after a reload a session may still get the settings of before."""
        self.instance.stop()
        self.instance.start()

    def client(self, address=ADDRESS, helo="h.example", login=""):
        client = Client(self.instance.port)
        client.expect(f"XCLIENT ADDR={address} NAME=[UNAVAILABLE]" + (f" LOGIN={login}" if login else ""), "220")
        client.expect(f"EHLO {helo}", "250")
        self.addCleanup(client.close)
        return client

    def sent(self, sender, content, **options):
        """Sends a message as the client; returns it as the peer got it."""
        self.peer.messages.clear()
        via = options.pop("via", "DATA")
        with self.client(**options) as client:
            client.send(sender, ["b@rcpt.example"], content, via=via, mail="BODY=8BITMIME")
        self.peer.wait_messages(1)
        return self.peer.messages[0].content

    def refused(self, sender, content):
        with self.client() as client, self.assertRaises(Refused) as refused:
            client.send(sender, ["b@rcpt.example"], content)
        return refused.exception.reply


class Results(Checked):
    def test_what_python3_dkim_and_opendkim_sign_verifies(self):
        for name, content in MESSAGES.items():
            if name == "header alone":
                continue  # python3-dkim does not read it as a message
            for forms in FORMS:
                signed = dkim_peers.python_sign(content, self.keys["r1"], "sender.example", "r1", forms=forms)
                for via in ("DATA", "BDAT"):
                    said = results(self.sent(FROM, signed, via=via))
                    self.assertIn("dkim=pass header.d=sender.example header.i=@sender.example header.s=r1 "
                                  "header.a=rsa-sha256 header.b=", said, (name, forms, via))
                    self.assertIn("dmarc=pass header.from=sender.example policy.dmarc=reject", said)
            folder = os.path.dirname(self.keys["r1"])
            signed = dkim_peers.opendkim_sign(content, folder, Domain="sender.example", Selector="r1",
                                              KeyFile=self.keys["r1"], Canonicalization="relaxed/relaxed")
            self.assertIn("dkim=pass", results(self.sent(FROM, signed)), name)

    def test_each_signature_has_its_result_and_one_that_passes_is_enough(self):
        content = MESSAGES["plain"]
        signed = dkim_peers.python_sign(content, self.keys["r1"], "sender.example", "r1")
        changed = re.sub(rb"bh=(.)", lambda m: b"bh=B" if m[1] == b"A" else b"bh=A", signed, count=1)
        done = pendkim("-c", self.instance.etc, "sign", "-d", "sender.example", "-s", "e1", "--key", self.keys["e1"],
                       stdin=content)
        both = changed[:changed.index(b"From:")] + done.stdout
        said = results(self.sent("x@soft.example", both))
        self.assertEqual(re.findall(r"dkim=(\w+)", said), ["fail", "pass"], said)
        self.assertIn("header.s=e1 header.a=ed25519-sha256", said)
        self.assertIn("dmarc=pass", said)
        said = results(self.sent("x@soft.example", changed))
        self.assertIn('dkim=fail reason="the body has changed"', said)
        self.assertIn("dmarc=fail header.from=sender.example policy.dmarc=reject", said)
        # The author's own words changed on the way.
        said = results(self.sent("x@soft.example", signed.replace(b"Subject: one", b"Subject: two")))
        self.assertIn('dkim=fail reason="the signature is not for this header"', said)

    def test_spf_of_the_sender_and_of_the_helo_name(self):
        for sender, helo, expected in (
                (FROM, "h.example", "spf=pass smtp.mailfrom=anna@sender.example; spf=none smtp.helo=h.example"),
                ("x@no.example", "sender.example",
                 "spf=fail smtp.mailfrom=x@no.example; spf=pass smtp.helo=sender.example"),
                ("x@soft.example", "[192.0.2.7]", "spf=softfail smtp.mailfrom=x@soft.example; dkim"),
                ("", "sender.example", "spf=pass smtp.helo=sender.example; dkim=none"),
                ("x@deep.example", "h.example", 'spf=permerror reason="more than 10 terms that ask DNS"')):
            self.assertIn(expected, results(self.sent(sender, text_of("a@none.example"), helo=helo)))

    def test_dmarc(self):
        sub, strict = "a@deep.sub.sender.example", "a@strict.example"
        for sender, author, expected in (
                (FROM, FROM, "dmarc=pass header.from=sender.example policy.dmarc=reject"),
                (FROM, sub, "dmarc=pass header.from=deep.sub.sender.example policy.dmarc=quarantine"),
                ("x@soft.example", sub, "dmarc=fail header.from=deep.sub.sender.example policy.dmarc=quarantine"),
                ("x@soft.example", FROM, "dmarc=fail header.from=sender.example policy.dmarc=reject"),
                (strict, strict, "dmarc=pass header.from=strict.example policy.dmarc=reject"),
                ("x@sub.strict.example", strict, "dmarc=fail header.from=strict.example policy.dmarc=reject"),
                ("x@soft.example", "a@none.example", "dmarc=fail header.from=none.example policy.dmarc=none"),
                ("x@soft.example", "a@without.example", "dmarc=none header.from=without.example"),
                ("x@soft.example", "a@without.example>, <a@sender.example",
                 "dmarc=fail header.from=sender.example policy.dmarc=reject")):
            self.assertIn(expected, results(self.sent(sender, text_of(author))), (sender, author))
        content = text_of(FROM).replace(b"From:", b"X-From:")
        self.assertIn('dmarc=permerror reason="no From:"', results(self.sent(FROM, content)))

    def test_junk_in_from_makes_nothing_better(self):
        author = b"From: CEO <ceo@sender.example>"
        for junk in (b", x", b"\r\nFrom: x", b"\r\nFrom:", b", <x@localhost>", b", <x@[1.2.3.4]>", b"\0", b", a@b c@d",
                     b"".join(b", a@a%d.example" % i for i in range(6))):
            content = author + junk + text_of(FROM)[text_of(FROM).index(b"\r\nTo:"):]
            said = results(self.sent("x@soft.example", content))
            self.assertIn("header.from=sender.example policy.dmarc=reject", said, junk)
            said = results(self.sent(FROM, content))
            self.assertIn("dmarc=permerror", said, junk)
        for address in (b"ceo@sender.example.", b"ceo@" + b"a" * 64 + b".sender.example"):
            content = text_of(FROM).replace(FROM.encode(), address)
            self.assertIn("dmarc=fail header.from=sender.example policy.dmarc=reject",
                          results(self.sent("x@soft.example", content)).replace(
                              'reason="an address in From: without a domain" ', ""), address)

    def test_no_author_hides_on_top(self):
        for name in (b"From :", b"From\t:"):
            said = results(self.sent("x@soft.example", name + b" <ceo@sender.example>\r\n" + text_of("x@soft.example")))
            self.assertIn("dmarc=fail header.from=sender.example", said, name)
        for via in ("DATA", "BDAT"):
            got = self.sent("x@soft.example", b"From x@soft.example Sat Nov 21\r\n>From y\r\n" + text_of(FROM), via=via)
            self.assertIn(b"\r\nX-Mailbox-Line: From x@soft.example Sat Nov 21\r\nX-Mailbox-Line: >From y\r\nFrom:",
                          got)
            self.assertIn("dmarc=fail header.from=sender.example", results(got))

    def test_results_in_our_name_go_whoever_wrote_them_and_trusted_hosts_keep_theirs(self):
        forged = b"Authentication-Results: mx.test.example; dmarc=pass header.from=bank.example\r\n"
        folded = b"Authentication-Results:\r\n\t(x) MX.TEST.example 1;\r\n\tspf=pass\r\n"
        other = b"Authentication-Results: mx.other.example; spf=pass\r\n"
        content = text_of(FROM, body=b"x" * 70 + b"\r\n", extra=folded + other + forged)
        for body in (content, content + (b"y" * 78 + b"\r\n") * 10000):
            got = self.sent(FROM, forged + body)
            self.assertNotIn(b"bank.example", got)
            self.assertNotIn(b"MX.TEST", got)
            self.assertIn(other, got)
            self.assertIn("spf=pass smtp.mailfrom=anna@sender.example", results(got))
            self.assertTrue(got.endswith(split(body)[1]))
        for odd in (b" (x mx.test.example; dmarc=pass", b' "mx.test.example; dmarc=pass',
                    b" \x0bmx.test.example; dmarc=pass", b" mx.test.example\x0b; dmarc=pass",
                    b" \xc2\xa0mx.test.example; dmarc=pass"):
            self.assertNotIn(odd, self.sent(FROM, b"Authentication-Results:" + odd + b"\r\n" + text_of(FROM)))
        login = self.sent(FROM, forged + content, login="anna")
        self.assertIsNone(results(login))
        self.assertNotIn(b"bank.example", login)
        self.assertIn(forged, self.sent(FROM, forged + text_of(FROM), address="127.0.0.1"))

    def test_users_of_this_host_are_believed_where_its_clients_are(self):
        forged = b"Authentication-Results: mx.test.example;\n dkim=pass header.d=bank.example\n"
        for settings, stays in (({}, True), ({"authentication_results_exempt_clients": ""}, False),
                                ({"authentication_results_exempt_clients": "!127.0.0.1, static:all"}, False),
                                ({"authentication_results_exempt_clients": "", "spf_verify": "no"}, True)):
            with self.subTest(settings), Instance({
                    "spf_verify": "yes", "virtual_mailbox_maps": inline({"ada@virtual.test.example": "ada/"}),
                    **settings}) as mx:
                subprocess.run([os.path.join(BIN, "sendmail"), "-C", mx.etc, "-i", "-f", "eve@one.example",
                                "ada@virtual.test.example"], input=forged + b"Subject: x\nX-Kept: yes\n\nbody\n",
                               check=True)
                got, = mx.virtual_box("ada").wait(1)
                self.assertEqual(b"bank.example" in got, stays)
                self.assertIn(b"X-Kept: yes", got)

    def test_the_log_has_the_results(self):
        self.sent(FROM, text_of(FROM))
        self.instance.wait_log(r"smtpd\[\d+\]: \w+: authentication: spf=pass smtp\.mailfrom=anna@sender\.example "
                               r"spf=none smtp\.helo=h\.example dkim=none dmarc=pass header\.from=sender\.example")

    def test_header_checks_filters_and_policy_services_see_the_results(self):
        with milter.Milter({}) as filter, PolicyServer({}) as policy:
            self.instance.set(smtpd_milters=f"inet:127.0.0.1:{filter.port}",
                              smtpd_end_of_data_restrictions=f"check_policy_service inet:127.0.0.1:{policy.port}",
                              smtpd_recipient_restrictions=f"check_policy_service inet:127.0.0.1:{policy.port}")
            table = self.instance.write("checks", "/^Authentication-Results: mx.test.example;.*dmarc=fail/ "
                                        "PREPEND X-Forged: yes\n")
            self.instance.set(header_checks=f"regexp:{table}")
            self.again()
            try:
                got = self.sent("x@soft.example", text_of(FROM))
            finally:
                self.instance.set(smtpd_milters="", smtpd_end_of_data_restrictions="", header_checks="",
                                  smtpd_recipient_restrictions="")
                self.again()
            self.assertIn(b"\r\nX-Forged: yes\r\n", got)
            self.assertIn("Authentication-Results", repr(filter.events))
            at_rcpt, at_end = policy.asked
            self.assertEqual((at_rcpt["spf_result"], at_rcpt.get("dmarc_result")), ("softfail", None))
            self.assertEqual((at_end["spf_result"], at_end["dkim_result"], at_end["dmarc_result"]),
                             ("softfail", "none", "fail"))


class Restrictions(Checked):
    settings = {**ALL, "smtpd_sender_restrictions": "reject_spf_fail, reject_spf_permerror, defer_spf_temperror, "
                "reject_spf_softfail", "spf_reject_code": "553", "dmarc_reject_action": "reject",
                "dmarc_quarantine_action": "hold", "dmarc_reject_code": "554",
                "dns_resolver_timeout": "60s"}  # beyond our own patience

    def test_each_restriction_refuses(self):
        content = text_of("a@none.example")
        for sender, reply in (
                ("x@no.example", "553 5.7.23 <x@no.example>: Sender address rejected: SPF fail: 192.0.2.7 may not send "
                 "for no.example; no.example explains: 192.0.2.7 is not ours"),
                ("x@soft.example", "553 5.7.23 <x@soft.example>: Sender address rejected: SPF softfail:"),
                ("x@bad.example", "553 5.7.24 <x@bad.example>: Sender address rejected: SPF of bad.example: SPF term "
                 '"nonsense"')):
            refused = self.refused(sender, content)
            self.assertTrue(refused.startswith(reply), refused)
        self.sent("x@without.example", content)

    def test_dmarc_refuses_and_holds(self):
        reply = self.refused("x@without.example", text_of(FROM))
        self.assertTrue(reply.startswith("554 5.7.26 <sender.example>: From address rejected: DMARC:"), reply)
        for author in ("a@quarantine.example", "a@part.example"):  # pct=0: no message is refused
            with self.client() as client:
                client.send("x@without.example", ["b@rcpt.example"], text_of(author))
            self.instance.wait_log(rf"hold: END-OF-MESSAGE from \S+: <{author[2:]}>: DMARC.*; from=<\S*> to=<\S+>")
        # Mail of another test may not have left the list yet.
        eventually(lambda: [m["queue_name"] for m in self.instance.queue()] == ["hold", "hold"], "two on hold")

    def test_a_silent_dns_puts_off_its_own_mail_and_nobody_elses(self):
        for name in ("silent.example", "_dmarc.silent.example"):
            self.dns.trouble[name] = SILENT
        replies = []

        def ask():
            replies.append(self.refused("x@silent.example", text_of(FROM)))

        waiting = [threading.Thread(target=ask) for _ in range(20)]
        for thread in waiting:
            thread.start()
        eventually(lambda: ("silent.example", "TXT") in self.dns.asked, "the question")
        # The others' questions are still without an answer.
        self.sent(FROM, text_of(FROM))
        self.assertEqual(replies, [])
        for thread in waiting:
            thread.join()
        self.assertEqual({r[:50] for r in replies}, {"451 4.7.24 <x@silent.example>: Sender address reje"})


class SignedZones(Checked):
    """Records of zones that are signed, behind a resolver that validates them."""

    settings = {**ALL, "dmarc_reject_action": "reject"}

    @classmethod
    def setUpClass(cls):
        if why := validating_dns.unavailable():
            raise unittest.SkipTest(why)
        super().setUpClass()
        names = ("good.example", "plain.example", "forged.example", "expired.example")
        cls.signers, zones = {}, {}
        for domain in names:
            cls.signers[domain], _, text = generate(cls.folder(), domain, "s1", "--rsa", "2048")
            parts = " ".join(f'"{text[i:i + 255]}"' for i in range(0, len(text), 255))
            zones[domain] = [f'@ TXT "v=spf1 ip4:{ADDRESS} -all"', '_dmarc TXT "v=DMARC1; p=reject"',
                             f"s1._domainkey TXT {parts}"]
        good, plain, forged, expired = ({name: zones[name]} for name in names)
        cls.zones = validating_dns.ValidatingDns(good, unsigned=plain, bogus=forged, expired=expired,
                                                 bogus_type={"forged.example": "TXT"})
        cls.addClassCleanup(cls.zones.__exit__)
        cls.instance.set(**cls.zones.settings())
        cls.instance.stop()
        cls.instance.start()

    def signed(self, domain):
        return dkim_peers.python_sign(text_of("a@" + domain), self.signers[domain], domain, "s1")

    def test_what_signed_zones_say_is_believed_and_what_is_forged_is_not(self):
        for domain in ("good.example", "plain.example"):
            said = results(self.sent("x@" + domain, self.signed(domain)))
            for method in ("spf=pass", "dkim=pass", "dmarc=pass"):
                self.assertIn(method, said)
        # The policy of a zone that is signed acts.
        self.assertEqual(self.refused("x@plain.example", text_of("a@good.example"))[:10], "550 5.7.26")
        # Behind a forged or an expired signature nobody knows what a domain says, so none of it counts: neither that
        # everybody may send for it, nor its policy, nor its key.
        for domain in ("forged.example", "expired.example"):
            said = results(self.sent("x@" + domain, self.signed(domain)))
            self.assertIn(f'spf=temperror reason="no answer from DNS about {domain}"', said)
            self.assertIn('dmarc=temperror reason="no answer from DNS about the policy"', said)
            if domain == "expired.example":  # of the other one the key is as it was signed
                self.assertIn("dkim=temperror", said)


class Sealed(Checked):
    """Mail that a list has changed and sealed."""

    settings = {**ALL, "arc_trusted_sealers": "lists.example", "dmarc_reject_action": "reject"}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        dkim_peers.unpack_arc()
        cls.sealers = {}
        for domain in ("lists.example", "other.example"):
            cls.sealers[domain], name, text = generate(cls.folder(), domain, "arc")
            cls.dns.set(name, "TXT", [[text[i:i + 255] for i in range(0, len(text), 255)]])

    def seal(self, content, domain, said):
        content = f"Authentication-Results: mx.{domain}; {said}\r\n".encode() + content
        return dkim_peers.python_arc_sign(content, self.sealers[domain], domain, "arc", f"mx.{domain}")

    def test_what_a_trusted_sealer_saw_counts(self):
        passed = "arc=none; dmarc=pass header.from=sender.example"
        sealed = self.seal(text_of(FROM), "lists.example", passed)
        said = results(self.sent("list@without.example", sealed))
        self.assertIn("arc=pass header.d=lists.example", said)
        self.assertIn('dmarc=fail reason="passed at lists.example, says ARC" header.from=sender.example '
                      "policy.dmarc=reject", said)
        # Another one before it makes no difference.
        twice = self.seal(self.seal(text_of(FROM), "other.example", passed), "lists.example",
                          "arc=pass; dmarc=pass header.from=sender.example")
        self.assertIn("arc=pass header.d=lists.example", results(self.sent("list@without.example", twice)))

    def test_nobody_elses_seals_count(self):
        passed = "arc=none; dmarc=pass header.from=sender.example"
        sealed = self.seal(text_of(FROM), "lists.example", passed)
        for content in (text_of(FROM), self.seal(text_of(FROM), "other.example", passed),
                        self.seal(text_of(FROM), "lists.example", "arc=none; dmarc=fail header.from=sender.example"),
                        sealed.replace(b"hello", b"hallo"), sealed.replace(b"dmarc=pass", b"dmarc=Pass", 1)):
            self.assertTrue(self.refused("list@without.example", content).startswith("550 5.7.26"), content)


if __name__ == "__main__":
    unittest.main()
