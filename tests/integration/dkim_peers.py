"""Independent implementations of DKIM: Debian's python3-dkim and OpenDKIM, unpacked privately.

Use:     dkim_peers.unpack()                                # raises unittest.SkipTest where that is not possible
         dkim_peers.python_verify([message, …], records)    # per message a list of True or False, one per signature
         dkim_peers.python_sign(message, domain=…, selector=…, key=FILE, …)
         dkim_peers.opendkim_verify(message, records, folder), opendkim_sign(message, folder, OPTION=VALUE, …)
         dkim_peers.unpack_arc();  dkim_peers.python_arc_sign(message, key=FILE, domain=…, selector=…, server=…)
Records: DNS name -> TXT record. Messages are bytes with CRLF.
"""
import base64
import json
import os
import re
import subprocess
import sys
import unittest

import peers

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
