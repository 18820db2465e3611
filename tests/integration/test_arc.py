"""ARC: what the running suite seals is verified by python3-dkim, and chains that one of the two begins the other
continues."""
import os
import re
import shutil
import signal
import unittest

import dkim_peers
import milter
from harness import *
from instance import mail_owner
from test_authentication_results import ALL, FROM, Checked, results, text_of
from test_dkim import MESSAGES, generate, pendkim


def sets(content):
    """The sets of the chain, the first one first: (results, message signature, seal), unfolded."""
    found = {}
    for field in fields(split(content)[0]):
        name, _, value = re.sub(r"\s+", " ", field.decode(errors="replace")).partition(":")
        if name.lower().startswith("arc-"):
            found.setdefault(int(re.search(r"\bi=(\d+)", value)[1]), {})[name.lower()] = value.strip()
    assert sorted(found) == list(range(1, len(found) + 1)), found
    return [tuple(found[i][n] for n in ("arc-authentication-results", "arc-message-signature", "arc-seal"))
            for i in sorted(found)]


class Sealing(Checked):
    """An instance that seals as relay.example with RSA; its key process has the key."""

    @classmethod
    def make_settings(cls):
        keys = os.path.join(cls.folder(), "arc-keys")
        os.makedirs(keys)
        cls.records, lines = {}, []
        for selector, *kind in (("a1", "--rsa", "2048"), ("a2", "--ed25519")):
            file, name, text = generate(keys, "relay.example", selector, *kind)
            cls.records[name] = text
            lines.append(f"{selector} relay.example:{selector}:{file}\n")
        cls.list_key, name, text = generate(cls.folder(), "lists.example", "arc")
        cls.records[name] = text
        cls.table = os.path.join(keys, "table")
        with open(cls.table, "w") as out:
            out.write("".join(lines))
        for name in os.listdir(keys):
            shutil.chown(os.path.join(keys, name), mail_owner())
        return {**ALL, "dkim_key_table": cls.table, "arc_seal_key": "a1", "mailbox_size_limit": "0",
                "virtual_mailbox_limit": "0"}

    @classmethod
    def setUpClass(cls):
        cls.settings = cls.make_settings()
        super().setUpClass()
        dkim_peers.unpack_arc()
        for name, text in cls.records.items():
            cls.dns.set(name, "TXT", [[text[i:i + 255] for i in range(0, len(text), 255)]])

    def verdict(self, content):
        return dkim_peers.python_arc_verify([content], self.records)[0]

    def by_list(self, content, said="spf=pass smtp.mailfrom=sender.example"):
        content = f"Authentication-Results: mx.lists.example; {said}\r\n".encode() + content
        return dkim_peers.python_arc_sign(content, self.list_key, "lists.example", "arc", "mx.lists.example")

    def signed(self):
        """How often the key process has signed."""
        before = len(self.instance.log())
        os.kill(self.instance.pids()["keys"][0], signal.SIGUSR1)
        return int(eventually(lambda: re.search(r"keys\[\d+\]: status: signed: .* (\d+) for DKIM",
                                                self.instance.log()[before:]), self.instance.log)[1])

    def test_every_kind_of_content_is_sealed_and_verifies(self):
        names, sealed, long, before = [], [], 0, self.signed()
        for name, content in MESSAGES.items():
            if name == "header alone":
                continue  # python3-dkim does not read it as a message
            got = self.sent(FROM, content)
            if max(map(len, content.split(b"\r\n"))) > 998:  # smtp breaks these, and would break a seal
                self.assertEqual(sets(got), [])
                self.assertTrue(got.replace(b"\r\n ", b"").endswith(content))
                long += 1
                continue
            names.append(name)
            sealed.append(got)
            (said, message, seal), = sets(sealed[-1])
            self.assertEqual(said, "i=1; " + results(sealed[-1]).partition(": ")[2])
            self.assertIn("arc=none; dmarc=pass", said)
            self.assertIn("a=rsa-sha256; c=relaxed/relaxed; d=relay.example; s=a1;", message)
            self.assertIn("cv=none; d=relay.example; s=a1;", seal)
        self.assertEqual(long, 1)
        self.assertEqual(self.signed() - before, 2 * len(sealed))
        verdicts = dkim_peers.python_arc_verify(sealed, self.records)
        self.assertEqual(dict(zip(names, verdicts)), {name: "pass" for name in names})
        self.assertEqual([self.verdict(sealed[0].replace(b"hello", b"hallo")),
                          self.verdict(sealed[0].replace(b"dmarc=pass", b"dmarc=fail", 1))], ["fail", "fail"])

    def test_chains_go_on_from_one_to_the_other(self):
        listed = self.sent("list@lists.example", self.by_list(text_of(FROM)))
        self.assertEqual(len(sets(listed)), 2)
        said, _, seal = sets(listed)[1]
        self.assertIn("arc=pass header.d=lists.example", said)
        self.assertIn("i=2; a=rsa-sha256;", seal)
        self.assertIn("cv=pass; d=relay.example;", seal)
        self.assertEqual(self.verdict(listed), "pass")
        # The list gets its own mail back, and so do we: what we sealed is a chain like others.
        again = self.sent("list@lists.example", self.by_list(listed, "arc=pass"))
        self.assertEqual([re.search(r"cv=\w+; d=[\w.]+|cv=\w+", s[2])[0][:7] for s in sets(again)],
                         ["cv=none", "cv=pass", "cv=pass", "cv=pass"])
        self.assertIn("arc=pass header.d=lists.example", sets(again)[3][0])
        self.assertEqual(self.verdict(again), "pass")
        # With the other key, of Ed25519, the RSA seals before it still count.
        self.instance.set(arc_seal_key="a2")
        self.addCleanup(self.again)
        self.addCleanup(self.instance.set, arc_seal_key="a1")
        self.again()
        newest = self.sent("list@lists.example", listed)
        self.assertIn("i=3; a=ed25519-sha256;", sets(newest)[2][2])
        self.assertIn("cv=pass;", sets(newest)[2][2])
        # python3-dkim 1.1.4 knows no such seals: we judge it ourselves.
        self.assertIn("arc=pass header.d=relay.example", sets(self.sent(FROM, newest))[3][0])

    def test_a_broken_chain_is_called_broken_once(self):
        broken = self.by_list(text_of(FROM)).replace(b"hello", b"hallo")
        listed = self.sent("list@lists.example", broken)
        said, _, seal = sets(listed)[1]
        self.assertIn('arc=fail reason="the body has changed"', said)
        self.assertIn("cv=fail;", seal)
        self.assertEqual(self.verdict(listed), "ended")
        self.assertEqual(len(sets(self.sent("list@lists.example", listed))), 2)
        # Where DNS says nothing now the chain is neither good nor bad, and stays as it is.
        self.dns.trouble["arc._domainkey.lists.example"] = SERVFAIL
        self.addCleanup(self.dns.trouble.clear)
        self.again()
        self.assertEqual(len(sets(self.sent("list@lists.example", self.by_list(text_of(FROM))))), 1)

    def test_only_mail_of_others_is_sealed(self):
        own = self.sent(FROM, text_of(FROM), login="anna")
        self.assertEqual(sets(own), [])
        self.assertEqual(sets(self.sent(FROM, text_of(FROM), address="127.0.0.1")), [])

    def test_what_filters_change_is_sealed_as_they_leave_it(self):
        changes = [milter.change(1, "Subject", "two"), milter.body(b"another\r\n"), milter.CONTINUE]
        with milter.Milter({"E": changes}) as filter:
            self.instance.set(smtpd_milters=f"inet:127.0.0.1:{filter.port}")
            self.addCleanup(self.again)
            self.addCleanup(self.instance.set, smtpd_milters="")
            self.again()
            for content in (text_of(FROM), MESSAGES["large"]):
                sealed = self.sent(FROM, content)
                self.assertIn(b"another\r\n", sealed)
                self.assertEqual(len(sets(sealed)), 1)
                self.assertEqual(self.verdict(sealed), "pass")
            self.assertNotIn("ARC-Seal", repr(filter.events))

    def test_a_long_field_in_a_chain_costs_no_byte(self):
        body = b"".join(b"line %d\r\n" % i for i in range(60000))
        got = self.sent(FROM, text_of(FROM, body, extra=b"ARC-Seal: " + b"x" * 5000 + b"\r\n"))
        self.assertTrue(got.endswith(b"\r\n\r\n" + body), got[-100:])

    def test_forwarded_mail_keeps_its_seal(self):
        self.instance.set(virtual_alias_maps="inline:{ { old@mine.example = b@rcpt.example } }",
                          virtual_alias_domains="mine.example", alias_maps="inline:{ { lists = far@rcpt.example } }")
        self.addCleanup(self.again)
        self.addCleanup(self.instance.set, virtual_alias_maps="", virtual_alias_domains="", alias_maps="")
        self.again()
        for to in ("old@mine.example", "lists@local.test.example"):
            self.peer.messages.clear()
            with self.client() as client:
                client.send(FROM, [to], text_of(FROM))
            got = self.peer.wait_messages(1)[0].content
            self.assertEqual(len(sets(got)), 1)
            self.assertEqual(self.verdict(got), "pass", got)

    def test_without_the_key_mail_waits_and_check_says_why(self):
        says_why = r"arc_seal_key: .*: other: there is no such key in the key table: mail that .* is put off"
        self.assertNotRegex(self.instance.tool("penstock", "check").stdout, says_why)
        said = pendkim("check", "-c", self.instance.etc).stdout.decode()
        self.assertEqual(sorted(line.split()[0] for line in said.splitlines()), ["a1", "a2"])
        self.instance.set(arc_seal_key="other")
        self.addCleanup(self.again)
        self.addCleanup(self.instance.set, arc_seal_key="a1")
        self.again()
        self.assertTrue(self.refused(FROM, text_of(FROM)).startswith("451 4.7.5"))
        self.assertRegex(self.instance.tool("penstock", "check").stdout, says_why)
        done = pendkim("check", "-c", self.instance.etc)
        self.assertEqual(done.returncode, 1)
        self.assertIn("arc_seal_key", done.stdout.decode())


if __name__ == "__main__":
    unittest.main()
