"""Independent implementations of DKIM: Debian's python3-dkim and OpenDKIM, unpacked privately.

Use:     dkim_peers.unpack()                                # raises unittest.SkipTest where that is not possible
         dkim_peers.python_verify([message, …], records)    # per message a list of True or False, one per signature
         dkim_peers.python_sign(message, domain=…, selector=…, key=FILE, …)
         dkim_peers.opendkim_verify(message, records, folder), opendkim_sign(message, folder, OPTION=VALUE, …)
         dkim_peers.opendkim_signature(message, CONF)       # {tag: value} of what it signs with that file, or None
         with dkim_peers.OpenDkim(CONF, folder) as filter:  # as a filter
             filter.signs("mail.example.com", "192.0.2.1", "a@sender.example")
         dkim_peers.unpack_arc();  dkim_peers.python_arc_sign(message, key=FILE, domain=…, selector=…, server=…)
         dkim_peers.python_arc_verify([message, …], records)
Records: DNS name -> TXT record. Messages are bytes with CRLF.
"""
import base64
import json
import os
import re
import socket
import struct
import subprocess
import sys
import unittest

import peers
from waiting import eventually

ROOT = os.path.join(peers.ROOTS, "dkim")
LIBRARIES = ":".join(os.path.join(ROOT, "usr/lib", part) for part in (f"{os.uname().machine}-linux-gnu", ""))
ARC = os.path.join(peers.ROOTS, "arc")
PYTHON = {**os.environ, "LD_LIBRARY_PATH": LIBRARIES,
          "PYTHONPATH": ":".join(os.path.join(root, "usr/lib/python3/dist-packages") for root in (ROOT, ARC))}
OPENDKIM = {**os.environ, "LD_LIBRARY_PATH": LIBRARIES}

VERIFY = """
import base64, dkim, json, sys
work = json.load(sys.stdin)
records = {name.encode(): text.encode() for name, text in work["records"].items()}
found = lambda name, timeout=5: records.get(name.rstrip(b"."))
out = []
for text in work["messages"]:
    message = dkim.DKIM(base64.b64decode(text))
    count = sum(1 for name, _ in message.headers if name.lower() == b"dkim-signature")
    good = []
    for index in range(count):
        try:
            good.append(bool(message.verify(index, dnsfunc=found)))
        except dkim.DKIMException:
            good.append(False)
    out.append(good)
json.dump(out, sys.stdout)
"""
SIGN = """
import base64, dkim, json, sys
work = json.load(sys.stdin)
for name in ("message", "privkey"): work[name] = base64.b64decode(work[name])
forms = tuple(word.encode() for word in work.pop("canonicalize"))
for name in ("selector", "domain", "signature_algorithm"): work[name] = work[name].encode()
sys.stdout.buffer.write(dkim.sign(canonicalize=forms, **work) + work["message"])
"""
ARC_VERIFY = """
import base64, dkim, json, sys
work = json.load(sys.stdin)
records = {name.encode(): text.encode() for name, text in work["records"].items()}
found = lambda name, timeout=5: records.get(name.rstrip(b"."))
words = [dkim.arc_verify(base64.b64decode(text), dnsfunc=found)[0] for text in work["messages"]]
json.dump([(word or b"ended").decode() for word in words], sys.stdout)
"""
ARC_SIGN = """
import base64, dkim, json, sys
work = json.load(sys.stdin)
message, key = base64.b64decode(work["message"]), base64.b64decode(work["key"])
lines = dkim.arc_sign(message, work["selector"].encode(), work["domain"].encode(), key, work["server"].encode())
sys.stdout.buffer.write(b"".join(line.rstrip(b"\\r\\n") + b"\\r\\n" for line in lines) + message)
"""


def _unpack(root, name):
    reason = peers.unavailable()
    if reason:
        raise unittest.SkipTest(reason)
    subprocess.run([os.path.join(peers.TOP, "scripts/unpack-peer"), root, *peers.PACKAGES[name]], check=True,
                   capture_output=True)


def unpack():
    _unpack(ROOT, "dkim")


def unpack_arc():
    """What python3-dkim needs for ARC besides."""
    _unpack(ARC, "arc")


def _python(script, work):
    done = subprocess.run([sys.executable, "-c", script], input=json.dumps(work).encode(), env=PYTHON,
                          capture_output=True, timeout=120)
    if done.returncode != 0:
        raise AssertionError(done.stderr.decode())
    return done.stdout


def _text(data):
    return base64.b64encode(data).decode()


def python_verify(messages, records):
    return json.loads(_python(VERIFY, {"messages": [_text(m) for m in messages], "records": records}))


def python_sign(message, key, domain, selector, algorithm="rsa-sha256", forms=("relaxed", "relaxed")):
    with open(key, "rb") as file:
        text = file.read()
    return _python(SIGN, {"message": _text(message), "privkey": _text(text), "domain": domain, "selector": selector,
                          "signature_algorithm": algorithm, "canonicalize": forms})


def python_arc_verify(messages, records):
    """Per message what is to be said of its chain: none, pass or fail; ended: its last seal holds, and says cv=fail."""
    return json.loads(_python(ARC_VERIFY, {"messages": [_text(m) for m in messages], "records": records}))


def python_arc_sign(message, key, domain, selector, server):
    """Seals a message. It needs an Authentication-Results: field of that server."""
    with open(key, "rb") as file:
        text = file.read()
    return _python(ARC_SIGN, {"message": _text(message), "key": _text(text), "domain": domain, "selector": selector,
                              "server": server})


def _opendkim(message, folder, options):
    with open(os.path.join(folder, "message"), "wb") as out:
        out.write(message)
    with open(os.path.join(folder, "opendkim.conf"), "w") as out:
        out.writelines(f"{name} {value}\n" for name, value in options.items())
    done = subprocess.run([os.path.join(ROOT, "usr/sbin/opendkim"), "-x", os.path.join(folder, "opendkim.conf"), "-t",
                           os.path.join(folder, "message"), "-v", "-v"], env=OPENDKIM, capture_output=True, timeout=60)
    if b"INSHEADER" not in done.stdout:
        raise AssertionError(f"opendkim: {done.returncode} {done.stdout} {done.stderr}")
    return done.stdout


def opendkim_verify(message, records, folder):
    """Returns the word for each signature, as pass or fail."""
    keys = os.path.join(folder, "public")
    with open(keys, "w") as out:
        out.writelines(f"{name} {text}\n" for name, text in records.items())
    said = _opendkim(message, folder, {"Mode": "v", "TestPublicKeys": keys})
    return re.findall(r"\bdkim=(\w+)", said.decode(errors="replace"))


def opendkim_sign(message, folder, **options):
    said = _opendkim(message, folder, {"Mode": "s", "RequireSafeKeys": "no", **options})
    value = re.search(rb"hname='DKIM-Signature' hvalue='(.*?)'\n", said, re.S)[1]
    value = b"\r\n".join(value.replace(b"\r\n", b"\n").split(b"\n"))
    return b"DKIM-Signature:" + (b"" if value[:1] in b" \t" else b" ") + value + b"\r\n" + message


def _tags(value):
    value = re.sub(r"\s+", "", value)
    return dict(tag.split("=", 1) for tag in value.split(";") if tag)


def signature_of(message):
    """The tags of the first DKIM-Signature field, {} of its values; None: there is none."""
    header = message[:message.index(b"\r\n\r\n")].decode(errors="replace")
    found = re.search(r"(?im)^DKIM-Signature:((?:.*\r\n[ \t])*.*)", header)
    return _tags(found[1]) if found else None


def opendkim_signature(message, conf):
    path = conf + ".message"
    with open(path, "wb") as out:
        out.write(message)
    done = subprocess.run([os.path.join(ROOT, "usr/sbin/opendkim"), "-x", conf, "-t", path, "-v", "-v"], env=OPENDKIM,
                          capture_output=True, timeout=60)
    if b"SMFIS_ACCEPT" not in done.stdout + done.stderr:
        raise AssertionError(f"opendkim: {done.returncode} {done.stdout[-500:]} {done.stderr[-500:]}")
    found = re.search(rb"hname='DKIM-Signature' hvalue='(.*?)'\n", done.stdout, re.S)
    return _tags(found[1].decode()) if found else None


class OpenDkim:
    """OpenDKIM as a filter, and who asks it as an MTA does."""

    def __init__(self, conf, folder):
        self.path = os.path.join(folder, "filter")
        if os.path.exists(self.path):
            os.remove(self.path)
        self.process = subprocess.Popen([os.path.join(ROOT, "usr/sbin/opendkim"), "-x", conf, "-f", "-p",
                                         "local:" + self.path], env=OPENDKIM)
        eventually(self._answers, "opendkim answers")

    def _answers(self):
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(self.path)
            return True
        except OSError:
            return False

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.process.terminate()
        self.process.wait()

    def signs(self, name, address, author):
        with socket.socket(socket.AF_UNIX) as self.connection:
            self.connection.connect(self.path)
            self.connection.settimeout(60)
            self._send(b"O", struct.pack("!III", 6, 0x1FF, 0))
            silent = struct.unpack("!III", self._receive()[1][:12])[2]  # steps that it wants no part of or answers not
            family = b"6" if ":" in address else b"4"
            steps = [(b"C", name.encode() + b"\0" + family + struct.pack("!H", 25) + address.encode() + b"\0", 1, 12),
                     (b"H", b"a.example\0", 2, 13), (b"M", b"<" + author.encode() + b">\0", 4, 14),
                     (b"R", b"<b@rcpt.example>\0", 8, 15)]
            for field in (f"From: {author}", "To: b@rcpt.example", "Date: Sat, 21 Nov 2026 08:00:00 +0000"):
                steps.append((b"L", field.replace(": ", "\0", 1).encode() + b"\0", 0x20, 7))
            steps += [(b"N", b"", 0x40, 18), (b"B", b"x\r\n", 0x10, 19)]
            for code, data, unwanted, unanswered in steps:
                if silent & unwanted:
                    continue
                self._send(code, data)
                if not silent & 1 << unanswered and self._receive()[0] != b"c":
                    return False  # it has decided: nothing to do with this message
            self._send(b"E", b"")
            signed = False
            while True:
                code, data = self._receive()
                signed = signed or b"DKIM-Signature" in data
                if code in (b"c", b"a", b"r", b"t", b"d", b"y"):
                    return signed

    def _send(self, code, data):
        self.connection.sendall(struct.pack("!I", len(data) + 1) + code + data)

    def _receive(self):
        size = struct.unpack("!I", self.connection.recv(4, socket.MSG_WAITALL))[0]
        data = self.connection.recv(size, socket.MSG_WAITALL)
        return data[:1], data[1:]
