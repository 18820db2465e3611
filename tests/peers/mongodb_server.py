#!/usr/bin/python3
"""A server that speaks MongoDB's protocol, for there is none in Debian: mongodb_server.py PORT ROWS [TLS_PORT CERT KEY]

ROWS is a JSON file: {"DATABASE.COLLECTION": [document, …], …}. The user "mail" has the password "secret"
(SCRAM-SHA-256, in the database admin); nobody else is told anything. It knows hello, ping, log-ins, find with getMore
(two documents in each batch) and what drivers say at the end. Filters are evaluated: equality with values, in arrays
and by dotted names, and the operators below; others are errors, as MongoDB makes them. A find in a collection "slow"
takes maxTimeMS, and ends as MongoDB ends it. Every filter is appended to ROWS.log, a document in JSON a line."""
import base64
import hashlib
import hmac
import json
import os
import socketserver
import ssl
import struct
import sys
import threading
import time

import bson

OP_REPLY, OP_QUERY, OP_MSG = 1, 2004, 2013
MORE_TO_COME = 2
BATCH = 2
USER, PASSWORD, ITERATIONS = "mail", "secret", 4096


class Refused(Exception):
    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


def values_at(document, path):
    """The values under a dotted name, and the elements of those that are arrays."""
    name, _, rest = path.partition(".")
    if isinstance(document, list):
        return [v for element in document for v in values_at(element, path)]
    if not isinstance(document, dict) or name not in document:
        return []
    value = document[name]
    if rest:
        return values_at(value, rest)
    return [value, *value] if isinstance(value, list) else [value]


def compares(values, wanted):
    if not isinstance(wanted, dict) or not any(k.startswith("$") for k in wanted):
        return any(type(v) is type(wanted) and v == wanted for v in values)
    return all(operator(values, name, operand) for name, operand in wanted.items())


def operator(values, name, operand):
    if name == "$eq":
        return compares(values, operand)
    if name == "$ne":
        return not compares(values, operand)
    if name == "$in":
        return any(compares(values, o) for o in operand)
    if name == "$nin":
        return not any(compares(values, o) for o in operand)
    raise Refused(2, f"unknown operator: {name}")


def matches(document, query):
    for name, wanted in query.items():
        if name == "$or":
            good = any(matches(document, q) for q in wanted)
        elif name == "$and":
            good = all(matches(document, q) for q in wanted)
        elif name.startswith("$"):
            raise Refused(2, f"unknown top level operator: {name}")
        else:
            good = compares(values_at(document, name), wanted)
        if not good:
            return False
    return True


def projected(document, projection):
    chosen = {k: v for k, v in projection.items() if k != "_id"}
    if any(chosen.values()):
        kept = {k: v for k, v in document.items() if k == "_id" or chosen.get(k)}
    else:
        kept = {k: v for k, v in document.items() if k not in chosen}
    if not projection.get("_id", 1):
        kept.pop("_id", None)
    return kept


class Login:
    """SCRAM-SHA-256 (RFC 7677), the server's half."""

    def first(self, payload):
        self.client_first = payload.decode().partition(",,")[2]
        fields = dict(f.split("=", 1) for f in self.client_first.split(","))
        self.user = fields["n"]
        self.salt = os.urandom(28)
        self.server_first = (f"r={fields['r']}{base64.b64encode(os.urandom(18)).decode()},"
                             f"s={base64.b64encode(self.salt).decode()},i={ITERATIONS}")
        return self.server_first.encode()

    def last(self, payload):
        text = payload.decode()
        without_proof, _, proof = text.rpartition(",p=")
        message = ",".join((self.client_first, self.server_first, without_proof)).encode()
        salted = hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), self.salt, ITERATIONS)

        def mac(key, text):
            return hmac.new(key, text, "sha256").digest()
        client_key = mac(salted, b"Client Key")
        signature = mac(hashlib.sha256(client_key).digest(), message)
        wanted = bytes(a ^ b for a, b in zip(client_key, signature))
        if self.user != USER or not hmac.compare_digest(wanted, base64.b64decode(proof)):
            raise Refused(18, "Authentication failed.")
        return b"v=" + base64.b64encode(mac(mac(salted, b"Server Key"), message))


class Connection(socketserver.StreamRequestHandler):
    def handle(self):
        self.login, self.known, self.cursors = None, False, {}
        while True:
            head = self.rfile.read(16)
            if len(head) < 16:
                return
            size, number, _, kind = struct.unpack("<iiii", head)
            body = self.rfile.read(size - 16)
            if kind == OP_QUERY:
                end = body.index(b"\0", 4) + 1 + 8
                reply = self.answer(bson.BSON(body[end:]).decode())
                out = struct.pack("<iqii", 8, 0, 0, 1) + bson.BSON.encode(reply)
                kind = OP_REPLY
            else:
                flags, = struct.unpack("<I", body[:4])
                assert body[4] == 0, "one document"
                reply = self.answer(bson.BSON(body[5:]).decode())
                if flags & MORE_TO_COME:
                    continue
                out = struct.pack("<IB", 0, 0) + bson.BSON.encode(reply)
            self.wfile.write(struct.pack("<iiii", 16 + len(out), 1, number, kind) + out)
            self.wfile.flush()

    def answer(self, command):
        name = next(iter(command))
        call = getattr(self, name.lower(), None)
        try:
            if call is None:
                raise Refused(59, f"no such command: '{name}'")
            if name in ("find", "getMore") and not self.known:
                raise Refused(13, f"command {name} requires authentication")
            return {**call(command), "ok": 1.0}
        except Refused as refused:
            return {"ok": 0.0, "code": refused.code, "codeName": "Refused", "errmsg": str(refused)}

    def hello(self, command):
        said = {"helloOk": True, "ismaster": True, "isWritablePrimary": True, "maxBsonObjectSize": 16777216,
                "maxMessageSizeBytes": 48000000, "maxWriteBatchSize": 100000, "logicalSessionTimeoutMinutes": 30,
                "minWireVersion": 0, "maxWireVersion": 17, "readOnly": False}
        if "saslSupportedMechs" in command:
            said["saslSupportedMechs"] = ["SCRAM-SHA-256"]
        return said

    ismaster = hello

    def ping(self, _):
        return {}

    endsessions = killcursors = ping

    def saslstart(self, command):
        if command["mechanism"] != "SCRAM-SHA-256":
            raise Refused(334, "Unsupported mechanism")
        self.login = Login()
        return {"conversationId": 1, "done": False, "payload": self.login.first(command["payload"])}

    def saslcontinue(self, command):
        if not command["payload"]:
            self.known = True
            return {"conversationId": 1, "done": True, "payload": b""}
        return {"conversationId": 1, "done": False, "payload": self.login.last(command["payload"])}

    def find(self, command):
        where = f"{command['$db']}.{command['find']}"
        query = command.get("filter", {})
        with self.server.lock, open(sys.argv[2] + ".log", "a") as log:
            log.write(json.dumps(query) + "\n")
        if command["find"] == "slow":
            time.sleep(command["maxTimeMS"] / 1000)
            raise Refused(50, "operation exceeded time limit")
        with open(sys.argv[2]) as text:
            rows = json.load(text).get(where, [])
        found = [projected(d, command.get("projection", {})) for d in rows if matches(d, query)]
        return self.batch(where, found, "firstBatch")

    def getmore(self, command):
        where, rest = self.cursors.pop(command["getMore"])
        return self.batch(where, rest, "nextBatch")

    def batch(self, where, documents, name):
        now, rest = documents[:BATCH], documents[BATCH:]
        cursor = len(self.cursors) + 1 if rest else 0
        if rest:
            self.cursors[cursor] = where, rest
        return {"cursor": {"id": bson.Int64(cursor), "ns": where, name: now}}


class Listener(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
    request_queue_size = 128
    context = None
    lock = threading.Lock()

    def get_request(self):
        connection, address = super().get_request()
        if self.context:
            connection = self.context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return connection, address

    def handle_error(self, request, address):
        if not isinstance(sys.exc_info()[1], OSError):  # a client that is gone, or gave up its handshake
            super().handle_error(request, address)


def main():
    plain = Listener(("127.0.0.1", int(sys.argv[1])), Connection)
    if len(sys.argv) > 3:
        guarded = Listener(("127.0.0.1", int(sys.argv[3])), Connection)
        guarded.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        guarded.context.load_cert_chain(sys.argv[4], sys.argv[5])
        threading.Thread(target=guarded.serve_forever, daemon=True).start()
    plain.serve_forever()


if __name__ == "__main__":
    main()
