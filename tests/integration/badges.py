"""What a program shows at the sockets of others (lib/suite/ipc/badges.h), made from master's secret as a test finds it.

Use:     badges = Badges(store)                       # of a master that left its state there (service_store.py)
         badges.badge("anvil/unix", "smtpd")          # what smtpd shows to that service
         hello("sessions", "smtpd", badge)            # the first frame of a client
Knows:   docs/ipc.md, docs/who-may-talk.md.  Independent of lib/suite/ipc on purpose.
"""
import hashlib
import hmac
import json
import os
import struct

from queue_client import VERSION, text, varint

MAGIC, REVISION, PLACE = 0x4E455021, 5, 1 << 20
# docs/who-may-talk.md once more: conversation -> who serves it, who opens it ("*": all).
TALKS = {
    "enqueue": ("qmgr", "smtpd pickup qmqpd bounce verify local tlsrpt dmarcrpt"), "queue": ("qmgr", "penapi smtpd"),
    "destinations": ("qmgr", "penapi"), "route": ("trivial-rewrite", "qmgr"),
    "delivery": ("smtp lmtp local virtual pipe error retry discard", "qmgr"), "bounce": ("bounce", "qmgr"),
    "session_errors": ("bounce", "smtpd smtp lmtp"), "sessions": ("anvil", "smtpd qmgr penapi"),
    "clients": ("anvil", "smtpd"), "sender_memory": ("anvil", "smtpd"),
    "suppression": ("anvil", "smtpd qmgr"), "suppression_orders": ("anvil", "penapi"),
    "tls_report": ("tlsrpt", "smtp trivial-rewrite"), "dmarc_report": ("dmarcrpt", "smtpd"),
    "verify": ("verify", "smtpd"), "probed": ("verify", "qmgr"), "events": ("penevents", "*"),
    "logins": ("cyrus", "smtpd"),
    "tls_server_keys": ("keys", "smtpd"), "tls_client_keys": ("keys", "smtp lmtp"),
    "dkim_keys": ("keys", "smtpd pickup qmqpd bounce"), "trace": ("smtpd smtp lmtp", "")}
OF_USERS = {"queue", "destinations"}


def may_hold(program, conversation):
    clients = TALKS[conversation][1]
    return clients == "*" or program in clients.split()


def may_talk(client, server):
    return any(server in servers.split() and may_hold(client, name) for name, (servers, _) in TALKS.items())


def frame(index, fields):
    body = varint(0) + varint(index) + fields
    return struct.pack("<I", len(body)) + body


def hello(conversation, program="", badge=b""):
    return frame(0, varint(MAGIC) + text(conversation) + varint(VERSION) + varint(REVISION) + text(program) +
                 varint(len(badge)) + badge)


def enqueue(queue_id, transport="", filter="", hold=False, purpose=0, verp="", tenant=""):
    """A message that is handed in, with a body of its own."""
    body = b"Subject: x\r\n\r\nx\r\n"
    client = text("") * 2 + varint(0) + text("") * 6
    facts = varint(len(body)) + varint(14) + varint(10) + b"\0" * 3
    recipient = text("who@there.example") + text("") * 2 + varint(0)
    envelope = (text(queue_id) + varint(0) + text("ada@sender.example") + varint(1) + recipient + text("") +
                varint(0) * 2 + b"\0" + varint(0) + client + facts + text("") + varint(0) + text(transport) +
                text(filter) + bytes([hold]) + varint(purpose) + text(verp))
    return frame(2, varint(1) + envelope + varint(0) + varint(len(body)) + body + varint(0) + text("") + text(tenant))


def told(program):
    """A frame of events, with none in it."""
    return frame(0, text(program) + text("") + varint(1) + varint(0) + varint(0))


def state_of(store):
    """What master has left for the next one."""
    (memory,) = [fd for name, fd in store.kept if name == "state"]
    turns = []
    for at in (0, PLACE):
        turn, size, _ = struct.unpack("<QQQ", os.pread(memory, 24, at))
        turns.append((turn, os.pread(memory, size, at + 24) if turn else b""))
    return json.loads(max(turns)[1])


class Badges:
    def __init__(self, store):
        self.secret = state_of(store)["badge_secret"].encode()

    def badge(self, label, program):
        return hmac.new(self.secret, label.encode() + b"\0" + program.encode(), hashlib.sha256).digest()
