"""Every message arrives as it was sent: by DATA and BDAT, to peers of every kind, and into a Maildir.

Only trace fields come before the content; the body is the same byte for byte. PEN_CORPUS=DIR adds every file below
DIR (with line ends made CRLF). A peer without 8BITMIME gets 8-bit messages unchanged, too, and without BODY=
(docs/pipelining.md). Only a bare CR is changed, to a space (cleanup_replace_stray_cr_lf); NUL is kept.
"""
import itertools
import os
import re

from harness import *

OWN = os.path.join(TOP, "tests", "corpus")


def load():
    found = {}
    for folder in filter(None, (OWN, os.environ.get("PEN_CORPUS"))):
        for where, _, names in os.walk(folder):
            for name in sorted(names):
                if name.endswith(".md") or name.startswith("."):
                    continue
                path = os.path.join(where, name)
                with open(path, "rb") as raw:
                    content = raw.read()
                if folder != OWN:
                    # As a client would send it: CRLF line ends, at least one line.
                    content = content.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
                    if not content.endswith(b"\r\n"):
                        content += b"\r\n"
                found[os.path.relpath(path, folder)] = content
    return found


def arrives(content):
    """Returns what a bare CR becomes (RFC 5321 section 2.3.8): a space, and nothing in front of a line end."""
    return re.sub(rb"\r(?!\n)", b" ", re.sub(rb"\r+\r\n", b"\r\n", content))


CORPUS = load()
CORPUS["nul"] = mail("NUL", "a\0b\r\n\0\r\n.\0\r\n")
CORPUS["stray-cr"] = mail("CR", "a\rb\r\r\n\r.\r\n.\rx\r\n")
# Clients are strangers: for its own hosts Penstock completes a header that lacks From, Date or Message-ID. Lines over
# 998 bytes would be broken for peers without CHUNKING (smtp_line_length_limit, as in Postfix). Return-Path: and the
# like would be dropped.
STRANGERS = {"local_header_rewrite_clients": "", "message_drop_headers": "", "smtp_line_length_limit": "0"}


def differs(delivered, original, end=b"\r\n"):
    """As without_trace, but content that starts with text that is no field may get an empty line before it."""
    problem = without_trace(delivered, original, end)
    if problem and without_trace(delivered, end + original, end) is None:
        first = original.split(end)[0]
        if b":" not in first or first[:1] in (b" ", b"\t"):
            return None
    # A header without the empty line at its end may get one.
    if problem and delivered.endswith(end) and without_trace(delivered[:-len(end)], original, end) is None:
        return None if end + end not in original else problem
    return problem


class Corpus(Suite):
    loads_the_machine = True

    def through(self, features):
        # No conversion here: test_notices.py tests 8-bit content for hosts without 8BITMIME.
        settings = {"disable_mime_output_conversion": "yes", **STRANGERS}
        with Peer(features=features) as peer, Instance({**relay_to(peer), **settings}) as mx:
            eight = any(f == "8BITMIME" for f in features)
            names = sorted(CORPUS)
            sent = {}
            for via in ("DATA", "BDAT"):
                with Client(mx.port) as client:
                    self.assertTrue(client.has("CHUNKING") and client.has("8BITMIME"), client.features)
                    for i, name in enumerate(names):
                        content = CORPUS[name]
                        is_eight = any(b > 127 for b in content)
                        address = f"m{i}.{via.lower()}@rcpt.example"
                        client.send("ada@sender.example", [address], content, via=via, chunk=7000,
                                    mail="BODY=8BITMIME" if is_eight else "")
                        sent[address] = (name, arrives(content), is_eight)
            peer.wait_messages(len(sent), seconds=120)
            mx.wait_empty_queue()
            seen = {}
            for message in peer.messages:
                for address in message.recipients:
                    self.assertNotIn(address, seen, "delivered twice")
                    seen[address] = message
            self.assertEqual(sorted(seen), sorted(sent))
            for address, (name, content, is_eight) in sent.items():
                with self.subTest(message=name, to=address):
                    self.assertIsNone(differs(seen[address].content, content))
                    self.assertEqual(seen[address].via, "BDAT" if "CHUNKING" in features else "DATA")
                    self.assertEqual("BODY=8BITMIME" in seen[address].parameters, eight and is_eight)
            known = [] if eight else [v for v in peer.violations if "8-bit content" in v]
            self.assertEqual(len(known), 0 if eight else sum(s[2] for s in sent.values()))
            self.assertEqual([v for v in peer.violations if v not in known], [])

    def test_without_chunking_long_lines_are_broken_at_998_bytes_and_nothing_else_changes(self):
        content = mail(body="x" * 5000 + "\r\n." + "y" * 2000 + "\r\nshort\r\n")
        with Peer(features=["8BITMIME"]) as peer, Instance(relay_to(peer)) as mx:
            send(mx.port, "ada@sender.example", ["a@rcpt.example"], content)
            got = peer.wait_messages(1)[0].content
            self.assertLessEqual(max(len(line) for line in got.split(b"\r\n")), 998)
            self.assertTrue(got.replace(b"\r\n ", b"").endswith(content.split(b"\r\n\r\n")[1]))

    def test_into_a_maildir(self):
        with Instance({"virtual_mailbox_maps": inline({"@virtual.test.example": "all/"}), **STRANGERS}) as mx:
            sent = {}
            for via in ("DATA", "BDAT"):
                with Client(mx.port) as client:
                    for i, name in enumerate(sorted(CORPUS)):
                        address = f"m{i}.{via.lower()}@virtual.test.example"
                        client.send("ada@sender.example", [address], CORPUS[name], via=via, mail="BODY=8BITMIME")
                        sent[address] = name
            texts = mx.virtual_box("all").wait(len(sent), seconds=120)
            mx.wait_empty_queue()
            self.assertEqual(len(texts), len(sent))
            seen = {}
            for text in texts:
                trace, _ = strip_trace(text, b"\n")
                self.assertTrue(trace[0].startswith(b"Return-Path: "))
                to = [t for t in trace if t.startswith(b"Delivered-To: ")][0].split(b" ")[1].decode()
                seen[to] = text
            self.assertEqual(sorted(seen), sorted(sent))
            for address, name in sent.items():
                with self.subTest(message=name, to=address):
                    self.assertIsNone(differs(seen[address], arrives(CORPUS[name]).replace(b"\r\n", b"\n"), b"\n"))


def add(features):
    name = "test_to_a_peer_with_" + ("_".join(f.lower() for f in features) or "nothing")
    setattr(Corpus, name, lambda self: self.through(list(features)))


for count in range(4):
    for chosen in itertools.combinations(("PIPELINING", "CHUNKING", "8BITMIME"), count):
        add(chosen)

if __name__ == "__main__":
    unittest.main()
