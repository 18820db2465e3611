"""Speaks the queue conversation (lib/suite/ipc/queue.h) from a test: lists the queue as qmgr has it.

Frames: docs/ipc.md. Independent of penqueue on purpose: the tools are tested against it, not by themselves.
"""
import socket
import struct

VERSION = 8
PLACES = ("incoming", "active", "deferred", "hold", "maildrop")
OUTCOMES = ("ok", "not_found", "denied", "failed")


def varint(n):
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def text(value):
    raw = value.encode()
    return varint(len(raw)) + raw


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def varint(self):
        value = shift = 0
        while True:
            b = self.data[self.at]
            self.at += 1
            value |= (b & 0x7F) << shift
            shift += 7
            if b < 0x80:
                return value

    def signed(self):
        n = self.varint()
        return (n >> 1) ^ -(n & 1)

    def text(self):
        n = self.varint()
        self.at += n
        return self.data[self.at - n:self.at].decode("utf-8", "replace")


class QueueClient:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(30)
        self.socket.connect(path)
        self._send(varint(0), varint(0x4E455021) + text("queue") + varint(VERSION))
        self._frame()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.socket.close()

    def _send(self, index, fields):
        body = varint(0) + index + fields
        self.socket.sendall(struct.pack("<I", len(body)) + body)

    def _exactly(self, size):
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise ConnectionError("qmgr closed the connection")
            data += part
        return data

    def _frame(self):
        size = struct.unpack("<I", self._exactly(4))[0]
        reader = Reader(self._exactly(size))
        reader.varint()
        return reader

    def freeze(self):
        """Keeps segments and spool files from being used again until thaw() or the end of this client. Returns how far
        each log is durable: interval -> (use, offset)."""
        self._send(varint(5), varint(1))
        r = self._frame()
        kind = r.varint()
        if kind == 4:
            raise AssertionError("not frozen: it was used again, or may not be")
        assert kind == 6, kind
        r.varint()
        return {r.signed(): (r.varint(), r.varint()) for _ in range(r.varint())}

    def thaw(self):
        """Returns whether nothing was used again."""
        self._send(varint(6), varint(1))
        r = self._frame()
        assert r.varint() == 4
        r.varint()
        return OUTCOMES[r.varint()] == "ok"

    def list(self):
        self._send(varint(0), varint(1) + text("") + text(""))
        entries = []
        while True:
            r = self._frame()
            kind = r.varint()
            if kind == 4:
                r.varint()
                outcome = OUTCOMES[r.varint()]
                if outcome != "ok":
                    raise RuntimeError(f"list: {outcome}")
                return entries
            if kind != 0:
                continue
            r.varint()
            entry = {"queue_name": PLACES[r.varint()], "queue_id": r.text(), "arrival_time": r.signed() // 1000000,
                     "message_size": r.varint(), "sender": r.text(), "recipients": []}
            for _ in range(r.varint()):
                entry["recipients"].append({"address": r.text(), "delay_reason": r.text()})
            entry["next_try"] = r.signed() // 1000000
            entries.append(entry)

    def flush(self):
        self._send(varint(1), varint(2) + varint(5) + varint(1) + text("") + varint(0))
        while True:
            r = self._frame()
            if r.varint() == 4:
                r.varint()
                outcome = OUTCOMES[r.varint()]
                if outcome != "ok":
                    raise RuntimeError(f"flush: {outcome}")
                return r.varint()

    def status(self):
        """Returns qmgr's counters: name -> text."""
        self._send(varint(3), varint(1))
        while True:
            r = self._frame()
            if r.varint() == 3:
                r.varint()
                return {r.text(): r.text() for _ in range(r.varint())}
