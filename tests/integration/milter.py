"""A scripted filter that speaks the Milter protocol, written from its description and not from ours."""
import os
import socket
import struct
import threading

ADD_HEADERS, CHANGE_BODY, ADD_RCPT, DEL_RCPT, CHANGE_HEADERS, QUARANTINE, CHANGE_FROM, ADD_RCPT_PAR = (
    1, 2, 4, 8, 16, 32, 64, 128)
NO_CONNECT, NO_HELO, NO_MAIL, NO_RCPT, NO_BODY, NO_HEADERS, NO_EOH, NR_HEADERS, NO_UNKNOWN, NO_DATA, SKIP, RCPT_REJ = (
    1 << n for n in range(12))
NR_ALL = 0xFF000 | NR_HEADERS
LEADING_SPACE = 1 << 20
CONTINUE, ACCEPT, REJECT, TEMPFAIL, DISCARD, SHUTDOWN, SKIPPED, PROGRESS = (bytes([c]) for c in b"cartd4sp")


CUT = b"the filter dies here"


def reply(text):
    return b"y" + text.replace("%", "%%").encode() + b"\0"


def add(name, value):
    return b"h" + name.encode() + b"\0" + value.encode() + b"\0"


def insert(index, name, value):
    return b"i" + struct.pack(">I", index) + name.encode() + b"\0" + value.encode() + b"\0"


def change(index, name, value):
    return b"m" + struct.pack(">I", index) + name.encode() + b"\0" + value.encode() + b"\0"


def body(text):
    return b"b" + text


def add_rcpt(address, parameters=None):
    if parameters is None:
        return b"+" + address.encode() + b"\0"
    return b"2" + address.encode() + b"\0" + parameters.encode() + b"\0"


def del_rcpt(address):
    return b"-" + address.encode() + b"\0"


def change_from(address, parameters=None):
    return b"e" + address.encode() + b"\0" + (parameters.encode() + b"\0" if parameters is not None else b"")


def quarantine(reason):
    return b"q" + reason.encode() + b"\0"


class Milter:
    """answers: event code -> packets (several, or one) or a function of (filter, data) that returns them.

    Events that are not named get CONTINUE. `hang` holds codes that get no answer at all, `cut` codes at which the
    connection is closed; the packet CUT closes it as well. events: of all sessions, in order: (code, data, macros).
    path: of a unix socket, in place of a port."""

    def __init__(self, answers=None, actions=0x1FF, protocol=0, version=6, macros=b"", port=0, path=None):
        if path:
            self.server = socket.socket(socket.AF_UNIX)
            self.server.bind(path)
            os.chmod(path, 0o666)
            self.server.listen()
        else:
            self.server = socket.create_server(("127.0.0.1", port))
            self.port = self.server.getsockname()[1]
        self.lock = threading.Lock()
        self.connections = 0
        self.open = set()
        self.release = threading.Event()
        self.script(answers, actions, protocol, version, macros)
        threading.Thread(target=self.accept, daemon=True).start()

    def script(self, answers=None, actions=0x1FF, protocol=0, version=6, macros=b"", hang="", cut=""):
        """What the next sessions meet; forgets earlier events."""
        self.answers, self.actions, self.protocol, self.version = dict(answers or {}), actions, protocol, version
        self.macros, self.hang, self.cut = macros, hang, cut
        self.events = []

    def codes(self):
        with self.lock:
            return "".join(code for code, _, _ in self.events)

    def accept(self):
        while True:
            try:
                connection, _ = self.server.accept()
            except OSError:
                return
            self.connections += 1
            self.open.add(connection)
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        try:
            with connection:
                self.converse(connection)
        except OSError:
            pass
        finally:
            self.open.discard(connection)

    def converse(self, connection):
        def take(size):  # unbuffered: what has arrived beyond it can be looked at
            return connection.recv(size, socket.MSG_WAITALL)
        answers, hang, cut, protocol = self.answers, self.hang, self.cut, self.protocol
        no_reply = {"C": 0x1000, "H": 0x2000, "M": 0x4000, "R": 0x8000, "T": 0x10000, "U": 0x20000, "N": 0x40000,
                    "B": 0x80000, "L": NR_HEADERS}
        macros = {}
        while True:
            head = take(4)
            if len(head) < 4:
                return
            packet = take(struct.unpack(">I", head)[0])
            code, data = chr(packet[0]), packet[1:]
            if code == "D":
                words = data[1:].split(b"\0")
                macros = dict(zip((w.decode() for w in words[::2]), (w.decode() for w in words[1::2])))
                continue
            if code == "O":
                self.offered = struct.unpack(">III", data)
                self.send(connection, b"O" + struct.pack(">III", self.version, self.actions, protocol) + self.macros)
                continue
            with self.lock:
                self.events.append((code, data, macros))
            macros = {}
            if code in cut:
                return
            if code in hang:
                self.release.wait(120)
                return
            if code == "Q":
                return
            if code in "AK" or protocol & no_reply.get(code, 0):
                continue
            answer = answers.get(code, CONTINUE)
            if callable(answer):
                answer = answer(self, data)
            for part in [answer] if isinstance(answer, bytes) else answer:
                if part is CUT:
                    return
                self.send(connection, part)

    @staticmethod
    def send(connection, packet):
        connection.sendall(struct.pack(">I", len(packet)) + packet)

    def close(self):
        self.release.set()
        try:
            self.server.shutdown(socket.SHUT_RDWR)  # wakes accept()
        except OSError:
            pass
        self.server.close()
        for connection in list(self.open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()
