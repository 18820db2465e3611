"""Everything that an integration test needs, in one import: from harness import *."""
import os
import resource
import shutil
import tempfile
import unittest

from client import Client, Refused, mail, send
from dns import (GARBAGE, LOOP, POINTER_LOOP, REFUSED, SERVFAIL, SILENT, TRUNCATED, WRONG_ID, Dns)
from instance import BIN, LIBEXEC, PROGRAMS, TOP, Instance, Maildir, missing, sanitizers
from peer import DROP, NOTHING, Peer
from suspended import resume, suspend, suspended
from waiting import answers, eventually, free_port

__all__ = [
    "BIN",
    "Client",
    "DROP",
    "Dns",
    "GARBAGE",
    "Instance",
    "LIBEXEC",
    "LOOP",
    "Maildir",
    "NOTHING",
    "POINTER_LOOP",
    "PROGRAMS",
    "Peer",
    "REFUSED",
    "Refused",
    "SERVFAIL",
    "SILENT",
    "Suite",
    "TOP",
    "TRACE",
    "TRUNCATED",
    "WRONG_ID",
    "answers",
    "cases",
    "eventually",
    "fields",
    "free_port",
    "inline",
    "mail",
    "missing",
    "relay_to",
    "resume",
    "sanitizers",
    "send",
    "split",
    "strip_trace",
    "suspend",
    "suspended",
    "unittest",
    "without_trace",
]

TRACE = (b"received", b"return-path", b"x-original-to", b"delivered-to")


class Suite(unittest.TestCase):
    """Skips the tests if the programs are not built, but fails if PEN_BIN says that they are (as ctest does). In a
    sanitizer build a report of any program fails the test."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.addCleanup(sanitizers.assert_silent)  # cleanups run in reverse order: by then the instances have ended

    @classmethod
    def setUpClass(cls):
        reason = missing()
        if reason and "PEN_BIN" in os.environ:
            raise AssertionError(reason)
        if reason:
            raise unittest.SkipTest(reason)

    @classmethod
    def folder(cls):
        """Returns a directory of the class that everybody can read; it is removed with the class."""
        path = tempfile.mkdtemp(prefix="pen-test-")
        cls.addClassCleanup(shutil.rmtree, path, ignore_errors=True)
        os.chmod(path, 0o755)
        return path

    def need_descriptors(self, count):
        """Lets this process open so many files until the test ends; skips the test if that is not allowed."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard < count:
            self.skipTest(f"fewer than {count} descriptors are allowed here")
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count), hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))


def cases(*names):
    """A class decorator: makes a test test_<name> for each name; the class's case(name) does the work."""
    def add(cls):
        for name in names:
            def test(self, name=name):
                self.case(name)
            test.__name__ = f"test_{name}"
            test.__qualname__ = f"{cls.__qualname__}.{test.__name__}"
            setattr(cls, test.__name__, test)
        return cls
    return add


def inline(pairs):
    """Returns an inline: table for main.cf."""
    return "inline:{ " + ", ".join(f"{{ {k} = {v} }}" for k, v in pairs.items()) + " }"


def relay_to(peer, *domains):
    """Returns settings that route these domains to a peer."""
    hops = {d: f"smtp:[127.0.0.1]:{peer.port}" for d in domains or ("rcpt.example",)}
    return {"relay_domains": ", ".join(hops), "transport_maps": inline(hops)}


def split(content, end=b"\r\n"):
    """Returns header (with the end of its last line) and body (without the empty line)."""
    if content.startswith(end):
        return b"", content[len(end):]
    header, empty, body = content.partition(end + end)
    return (header + end, body) if empty else (content, b"")


def fields(header, end=b"\r\n"):
    """Returns the header's fields, unparsed, each with its continuation lines."""
    found = []
    for line in header.split(end)[:-1]:
        if line[:1] in (b" ", b"\t") and found:
            found[-1] += end + line
        else:
            found.append(line)
    return found


def strip_trace(content, end=b"\r\n"):
    """Returns (trace fields before the content, the rest byte for byte)."""
    trace = []
    rest = content
    while True:
        line, found, after = rest.partition(end)
        name = line.split(b":")[0].strip().lower()
        if not found or b":" not in line or name not in TRACE:
            return trace, rest
        while after[:1] in (b" ", b"\t"):
            more, found, tail = after.partition(end)
            line, after = line + end + more, tail
        trace.append(line)
        rest = after


def without_trace(delivered, original, end=b"\r\n"):
    """Returns None if `delivered` is trace fields and then the original byte for byte, else the difference."""
    if not delivered.endswith(original):
        # Content without a field may get the empty line that separates it from the trace fields.
        return f"content differs: ends {delivered[-120:]!r}, sent {original[-120:]!r}"
    head = delivered[:len(delivered) - len(original)]
    if not head.endswith(end):
        return f"trace fields do not end in a line: {head[-80:]!r}"
    bad = [f for f in fields(head, end) if f.split(b":")[0].strip().lower() not in TRACE and f]
    return f"fields added: {bad!r}" if bad else None
