"""A DNS server under test control, on UDP and TCP of one loopback port, or of the one that is named.

Use:     with Dns({("example.org", "MX"): [(10, "mx.example.org")], ("mx.example.org", "A"): ["127.0.0.1"]}) as dns:
             … dns.port; dns.asked
Records: (name, type) -> list of rdata: A and AAAA text, MX (preference, name), CNAME a name, TXT text or its strings,
         TLSA "usage selector matching hex".
         An existing name without the type gives an empty answer, any other name NXDOMAIN.
Trouble: dns.trouble[name] = SERVFAIL | REFUSED | SILENT | WRONG_ID | TRUNCATED (TCP works) | GARBAGE | LOOP (a CNAME to
         itself) | POINTER_LOOP (compression that points to itself) | a function(query bytes) -> bytes or None.
"""
import socket
import struct
import threading

TYPES = {"A": 1, "NS": 2, "CNAME": 5, "SOA": 6, "PTR": 12, "MX": 15, "TXT": 16, "AAAA": 28, "SRV": 33,
         "TLSA": 52}
NAMES = {v: k for k, v in TYPES.items()}
SERVFAIL, REFUSED, SILENT, WRONG_ID, TRUNCATED, GARBAGE, LOOP, POINTER_LOOP = (
    "servfail", "refused", "silent", "wrong id", "truncated", "garbage", "loop", "pointer loop")


def encode_name(name):
    out = b""
    for label in name.rstrip(".").split("."):
        if label:
            out += bytes([len(label)]) + label.encode()
    return out + b"\0"


def rdata(kind, value):
    if kind == "A":
        return socket.inet_aton(value)
    if kind == "AAAA":
        return socket.inet_pton(socket.AF_INET6, value)
    if kind == "MX":
        return struct.pack(">H", value[0]) + encode_name(value[1])
    if kind == "SRV":
        return struct.pack(">HHH", *value[:3]) + encode_name(value[3])
    if kind in ("CNAME", "NS", "PTR"):
        return encode_name(value)
    if kind == "TXT":
        strings = [value[i:i + 255] for i in range(0, max(1, len(value)), 255)] if isinstance(value, str) else value
        return b"".join(bytes([len(s)]) + s.encode() for s in strings)
    if kind == "TLSA":
        usage, selector, matching, data = value.split()
        return bytes([int(usage), int(selector), int(matching)]) + bytes.fromhex(data)
    raise ValueError(kind)


class Dns:
    def __init__(self, records=None, ttl=60, host="127.0.0.1", port=0):
        self.records = {(n.lower(), t): v for (n, t), v in (records or {}).items()}
        self.trouble = {}
        self.ttl = ttl
        self.host = host
        self.asked = []
        for _ in range(50):
            self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self.udp.bind((host, port))
            self.port = self.udp.getsockname()[1]
            try:
                self.tcp = socket.create_server((host, self.port))
                break
            except OSError:
                self.udp.close()
        for work in (self._udp, self._tcp):
            threading.Thread(target=work, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for s in (self.udp, self.tcp):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            s.close()

    def set(self, name, kind, values):
        self.records[(name.lower(), kind)] = values

    def settings(self):
        """Returns the settings of main.cf for this server."""
        return {"dns_resolver_addresses": self.host, "dns_resolver_port": str(self.port)}

    def _udp(self):
        while True:
            try:
                query, client = self.udp.recvfrom(4096)
            except OSError:
                return
            reply = self._answer(query, tcp=False)
            if reply:
                try:
                    self.udp.sendto(reply, client)
                except OSError:
                    return

    def _tcp(self):
        while True:
            try:
                connection, _ = self.tcp.accept()
            except OSError:
                return
            threading.Thread(target=self._tcp_one, args=(connection,), daemon=True).start()

    def _tcp_one(self, connection):
        with connection:
            connection.settimeout(10)
            try:
                while True:
                    head = connection.recv(2, socket.MSG_WAITALL)
                    if len(head) < 2:
                        return
                    query = connection.recv(struct.unpack(">H", head)[0], socket.MSG_WAITALL)
                    reply = self._answer(query, tcp=True)
                    if reply:
                        connection.sendall(struct.pack(">H", len(reply)) + reply)
            except OSError:
                return

    @staticmethod
    def question(query):
        at, labels = 12, []
        while query[at]:
            labels.append(query[at + 1:at + 1 + query[at]].decode("latin-1"))
            at += query[at] + 1
        kind = struct.unpack(">H", query[at + 1:at + 3])[0]
        return ".".join(labels).lower(), NAMES.get(kind, str(kind)), query[12:at + 5]

    def _answer(self, query, tcp):
        try:
            name, kind, question = self.question(query)
        except (IndexError, struct.error):
            return None
        self.asked.append((name, kind))
        identity = query[:2]
        trouble = self.trouble.get(name)
        if callable(trouble):
            return trouble(query)
        if trouble == SILENT:
            return None
        if trouble == GARBAGE:
            return identity + b"\x81\x80" + b"\xff" * 60
        if trouble == SERVFAIL:
            return self._message(identity, question, [], 2)
        if trouble == REFUSED:
            return self._message(identity, question, [], 5)
        if trouble == TRUNCATED and not tcp:
            return self._message(identity, question, [], 0, truncated=True)
        if trouble == POINTER_LOOP:
            at = 12 + len(question)
            bad = struct.pack(">H", 0xC000 | at) + struct.pack(">HHIH", TYPES.get(kind, 1), 1, self.ttl, 0)
            return self._message(identity, question, [], 0, raw=bad)
        if trouble == LOOP:
            return self._message(identity, question, [(name, "CNAME", name)], 0)
        answers, at, seen = [], name, set()
        while (at, "CNAME") in self.records and kind != "CNAME" and at not in seen:
            seen.add(at)
            target = self.records[(at, "CNAME")]
            target = target[0] if isinstance(target, list) else target
            answers.append((at, "CNAME", target))
            at = target.lower()
        for value in self.records.get((at, kind), []):
            answers.append((at, kind, value))
        exists = any(n == at for n, _ in self.records)
        if trouble == WRONG_ID:
            identity = bytes([identity[0] ^ 0xFF, identity[1]])
        return self._message(identity, question, answers, 0 if exists else 3)

    def _message(self, identity, question, answers, code, truncated=False, raw=b""):
        flags = 0x8180 | code | (0x0200 if truncated else 0)
        authority = b""
        count = 0
        if not answers and not raw and code in (0, 3) and not truncated:
            # A negative answer has the zone's SOA (RFC 2308), so that it can be cached.
            soa = (encode_name("ns.test.example") + encode_name("root.test.example") +
                   struct.pack(">IIIII", 1, 3600, 600, 86400, self.ttl))
            authority = b"\0" + struct.pack(">HHIH", 6, 1, self.ttl, len(soa)) + soa
            count = 1
        body = b""
        for name, kind, value in answers:
            data = rdata(kind, value)
            body += encode_name(name) + struct.pack(">HHIH", TYPES[kind], 1, self.ttl, len(data)) + data
        answer_count = len(answers) + (1 if raw else 0)
        return identity + struct.pack(">HHHHH", flags, 1, answer_count, count, 0) + question + body + raw + authority
