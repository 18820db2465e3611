"""Mail through Debian's filters, by Penstock and by Postfix: the same replies and the same header and body.

Each filter is started once, and both systems use it. Mail that the filters let pass goes on to a scripted server.
"""
import base64
import os
import re
import subprocess
import tempfile
import unittest

import dkim_peers
import dns_lists
import peers
from client import Client, Refused
from filter_servers import SPAM, VIRUS, ClamAv, OpenDkim, OpenDmarc, Rspamd, Script
from instance import Instance, missing
from peer import Peer
from waiting import eventually, free_port

HEADER = ("From: A <a@{domain}>\r\nTo: b@there.example\r\nSubject: {subject}\r\n"
          "Date: Tue, 24 Nov 2026 04:00:00 +0000\r\nMessage-ID: <1@sender.example>\r\n")
KEYS = {"sender.example": "v=DMARC1; p=reject", "plain.example": "v=DMARC1; p=none"}


def message(subject, body="hello\r\n", domain="sender.example", more=""):
    return (HEADER.format(domain=domain, subject=subject) + more + "\r\n" + body).encode()


def normal(content):
    """The header fields and the body, without what differs by nature: times, ids and the fields of each hop."""
    header, _, body = content.partition(b"\r\n\r\n")
    fields = re.split(rb"\r\n(?![ \t])", header)
    kept = []
    for field in fields:
        if field.lower().startswith((b"received:", b"x-rspamd-server:")):
            continue
        field = re.sub(rb"(?i)^(x-rspamd-queue-id|x-virus-scanned): .*", rb"\1: X", field)
        kept.append(re.sub(rb"\s+", b" ", field))
    return kept, body


def talk(port, content, sender="a@sender.example"):
    """The reply to the content, or to what was refused before."""
    try:
        return say(port, content, sender)
    except Refused as refused:
        return refused.reply


def say(port, content, sender):
    with Client(port) as client:
        client.expect(f"MAIL FROM:<{sender}>", "250")
        client.expect("RCPT TO:<b@there.example>", "250")
        client.expect("DATA", "354")
        client.raw(re.sub(rb"(?m)^\.", b"..", content) + b".\r\n")
        reply = client.reply()
        return re.sub(r"queued as \S+", "queued as ID", reply)


def new_key(folder):
    """Returns the file of a key of sender.example, and the records of its public half."""
    file = os.path.join(folder, "key")
    subprocess.run(["openssl", "genrsa", "-out", file, "2048"], check=True, capture_output=True)
    public = subprocess.run(["openssl", "rsa", "-in", file, "-pubout", "-outform", "DER"], check=True,
                            capture_output=True).stdout
    return file, {"s._domainkey.sender.example": f"v=DKIM1; k=rsa; p={base64.b64encode(public).decode()}"}


class Filters(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        if reason := missing() or peers.unavailable() or dns_lists.unavailable():
            raise unittest.SkipTest(reason)
        dkim_peers.unpack()

    def both(self, filters, contents, settings=None):
        """name -> reply and what arrived, of Penstock, after the same was seen of Postfix. contents: name -> content,
        or sender and content."""
        settings = {"milter_default_action": "tempfail", "milter_content_timeout": "60s",
                    "myhostname": "mx.test.example", "smtpd_peername_lookup": "no",
                    "smtpd_milters": ", ".join(f"inet:127.0.0.1:{one.port}" for one in filters), **(settings or {})}
        seen = []
        for kind in ("penstock", "postfix"):
            with Peer(features=["8BITMIME", "SMTPUTF8"]) as sink:
                own = {**settings, "relayhost": f"[127.0.0.1]:{sink.port}"}
                if kind == "penstock":
                    server = Instance(own)
                else:
                    server = peers.Postfix(free_port(), settings="".join(f"{k} = {v}\n" for k, v in own.items()))
                with server:
                    found = {}
                    for name, content in contents.items():
                        before = len(sink.messages)
                        sender, content = content if isinstance(content, tuple) else ("a@sender.example", content)
                        reply = talk(server.port, content, sender)
                        arrived = None
                        if reply.startswith("250") and "discard" not in sender:
                            eventually(lambda: len(sink.messages) > before, f"{name} by {kind}: {reply}")
                            came = sink.messages[before]
                            arrived = (came.sender, sorted(came.recipients), *normal(came.content))
                        found[name] = (reply, arrived)
                    seen.append(found)
        ours, theirs = seen
        for name in contents:
            with self.subTest(message=name):
                self.assertEqual(ours[name], theirs[name])
        return ours

    def test_every_action_at_every_stage_by_libmilter(self):
        asks = [f"{action}-{stage}" for stage in ("mail", "rcpt", "data", "header", "eoh", "body", "eom")
                for action in ("reject", "tempfail", "discard", "accept", "reply")
                if (action, stage) != ("reply", "header")]  # libmilter drops the text there
        asks += [f"{edit}-eom" for edit in ("add", "change", "recipients", "sender", "body", "progress")]
        with Script(free_port()) as script:
            found = self.both([script], {ask: (f"a-{ask}@sender.example", message(ask)) for ask in asks})
        self.assertEqual(found["reply-eom"][0], "550-5.7.9 refused at eom\n550 5.7.9 by libmilter")
        self.assertEqual(found["recipients-eom"][1][1], ["c@there.example"])

    def test_what_opendkim_signs_verifies_after_the_way_through_the_suite(self):
        contents = [message("plain"), message("eight bits", "\u00e4\u00f6\r\n" * 50),
                    message("dots and blanks", ".dot  \r\n..two\t \r\n\r\n\r\n"), message("empty", ""),
                    message("folded", more="X-Long: " + "\r\n\t".join(f"part{n} of a long field" for n in range(40))
                            + "\r\nReferences: " + "\r\n ".join(f"<{n}@sender.example>" for n in range(60)) + "\r\n"),
                    message("large", "line of a large body\r\n" * 20000)]
        with tempfile.TemporaryDirectory() as folder:
            key, keys = new_key(folder)
            for forms in ("simple/simple", "relaxed/simple", "relaxed/relaxed"):
                with OpenDkim(free_port(), sign_with=key, forms=forms) as signer, Peer(features=["8BITMIME"]) as sink, \
                        Instance({"relayhost": f"[127.0.0.1]:{sink.port}", "milter_default_action": "tempfail",
                                  "smtpd_milters": f"inet:127.0.0.1:{signer.port}"}) as mx:
                    with Client(mx.port) as client:  # all in one session
                        for content in contents:
                            client.send("a@sender.example", ["b@there.example"], content)
                    came = sink.wait_messages(len(contents))
                    verified = dkim_peers.python_verify([one.content for one in came], keys)
                    self.assertEqual(verified, [[True]] * len(contents), forms)

    def test_clamav_refuses_a_virus_and_marks_the_rest(self):
        with ClamAv(free_port()) as scanner:
            found = self.both([scanner], {
                "clean": message("clean"),
                "virus": message("virus", VIRUS + "\r\n"),
                "virus in an attachment": message("attached", more="MIME-Version: 1.0\r\nContent-Type: "
                                                  "application/octet-stream\r\nContent-Transfer-Encoding: base64\r\n",
                                                  body="UEVOU1RPQ0stVEVTVC1WSVJVUy0wMTIzNDU2Nzg5\r\n"),
                "clean again": message("again", "x" * 900 + "\r\n" + "y\r\n" * 20000),
            })
        self.assertEqual(found["virus"][0], "550 5.7.1 rejected due to virus: Penstock.Test.UNOFFICIAL")
        self.assertEqual(found["virus in an attachment"][0], found["virus"][0])
        self.assertIn(b"X-Virus-Status: Clean", found["clean"][1][2])

    def test_rspamd_refuses_marks_and_rewrites(self):
        with Rspamd(free_port()) as rspamd:
            found = self.both([rspamd], {
                "ham": message("ham"),
                "reject": message("reject", SPAM.format("X") + "\r\n"),
                "add header": message("mark", SPAM.format("Y") + "\r\n"),
                "rewrite subject": message("offer", SPAM.format("Z") + "\r\n"),
                "8 bits, long lines": message("bits", "ä" * 400 + "\r\n.dot\r\n"),
            })
        self.assertRegex(found["reject"][0], "^554 5.7.1 ")
        self.assertTrue(any(field.lower().startswith(b"x-spam") for field in found["add header"][1][2]),
                        found["add header"])
        self.assertIn(b"Subject: [spam] offer", found["rewrite subject"][1][2])

    def test_opendmarc_believes_the_results_that_opendkim_wrote_before_it(self):
        with tempfile.TemporaryDirectory() as folder:
            key, keys = new_key(folder)
            records = [f'_dmarc.{domain}. TXT "{policy}"' for domain, policy in KEYS.items()]
            signed = dkim_peers.python_sign(message("signed"), key, "sender.example", "s")
            with dns_lists.DnsLists({"list.example": ("ip4set", ["192.0.2.2 :127.0.0.2:x"])}, records=records,
                                    empty=["sender.example", "plain.example"]) as dns, \
                    OpenDkim(free_port(), keys) as dkim, OpenDmarc(free_port(), dns.address) as dmarc:
                found = self.both([dkim, dmarc], {
                    "signed": signed,
                    "forged": message("forged"),
                    "broken": signed.replace(b"hello", b"hallo"),
                    "no policy to speak of": message("none", domain="plain.example"),
                    "signed again": signed,
                })
        self.assertRegex(found["forged"][0], "^550 5.7.1 .*DMARC")
        self.assertEqual(found["broken"][0], found["forged"][0])
        results = b" ".join(found["signed"][1][2])
        self.assertIn(b"dkim=pass", results)
        self.assertIn(b"dmarc=pass", results)


if __name__ == "__main__":
    unittest.main()
