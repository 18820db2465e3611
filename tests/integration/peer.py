"""A scripted SMTP server, to which the instance under test delivers.

Use:     with Peer(features=["PIPELINING", "CHUNKING", "8BITMIME"]) as peer:
             peer.replies["RCPT"] = ["451 4.2.0 later"]           # once; then the usual answer
             peer.replies["MAIL"] = lambda session, line: "550 5.1.8 no" if "bad" in line else None
             … peer.wait_messages(1)[0].content
TLS:     Peer(tls=server_context(certificate)) offers STARTTLS until TLS is on; wrapped=True: TLS from the first byte.
Replies: keyed by verb (GREETING, EHLO, HELO, STARTTLS, AUTH, RESPONSE for the line that answers a 334, XFORWARD,
         MAIL, RCPT, DATA, BDAT, DOT for the end of data, RSET, NOOP, QUIT). A value is a reply, a list used up one by
         one, or a function(session, line) -> reply, or None for the usual one.
         DROP closes the connection instead of an answer; NOTHING: the command has its usual effect and no answer.
Keeps:   every accepted message (byte for byte, unstuffed), every session with all bytes read, and each violation of
         the protocol that can be seen at once.
"""
import errno
import re
import socket
import ssl
import threading
import time

from waiting import free_port

DROP = object()
NOTHING = object()
# RFC 2920 section 3.1: these end a group; a client that sends more behind them does not wait for the reply.
LAST_OF_GROUP = ("EHLO", "LHLO", "DATA", "VRFY", "EXPN", "QUIT", "NOOP")


def server_context(certificate, **minimum):
    """A TLS context for a Peer, from a certificates.Certificate; .asked keeps the names that clients ask for."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.pem, certificate.key)
    for name, value in minimum.items():
        setattr(context, name, value)
    context.asked = []
    context.sni_callback = lambda sock, name, ctx: context.asked.append(name)
    return context


class Message:
    def __init__(self, session, sender, parameters):
        self.session, self.sender, self.parameters = session, sender, parameters
        self.recipients = []
        self.recipient_parameters = []
        self.xforward = dict(session.xforward)
        self.content = b""
        self.at = None  # when its end came, on the monotonic clock
        self.via = None


class Session:
    def __init__(self, number):
        self.number = number
        self.began = time.monotonic()
        self.raw = bytearray()   # all bytes from the client
        self.commands = []       # command lines, decoded
        self.helo = None
        self.xforward = {}       # what XFORWARD said about the current message
        self.closed = False
        self.tls = None          # the version, once TLS is on
        self.cipher = None       # its name
        self.resumed = False
        self.address = None      # the client's
        self.certificate = None  # the client's, as ssl.getpeercert() gives it
        self.broken_tls = None   # why a handshake failed
        self.silent = False


def _listen(host, port):
    """Port 0: a port that the kernel gives to no connection, so that a closed peer can open it again."""
    while True:
        try:
            return socket.create_server((host, port or free_port()), backlog=200)
        except OSError as e:
            if port or e.errno != errno.EADDRINUSE:
                raise


class Peer:
    def __init__(self, features=("PIPELINING", "8BITMIME", "CHUNKING", "SIZE 0", "DSN"), port=0, host="127.0.0.1",
                 lmtp=False, tls=None, wrapped=False):
        self.features = list(features)
        self.tls, self.wrapped = tls, wrapped
        self.replies = {}
        self.lmtp = lmtp
        self.sessions = []
        self.messages = []
        self.violations = []
        self.trickle = False  # replies byte by byte
        self.cut_data = []  # the connection is closed after so many bytes of DATA content; used up one by one
        self.delay = 0.0  # before each reply, for tests that need a slow peer
        self.changed = threading.Condition()
        self.listener = _listen(host, port)
        self.port = self.listener.getsockname()[1]
        self.threads = []
        self.stopping = False
        self.acceptor = threading.Thread(target=self._accept, daemon=True)
        self.acceptor.start()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def close(self):
        self.stopping = True
        try:
            self.listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.listener.close()

    def wait_messages(self, count=1, seconds=30.0):
        end = time.monotonic() + seconds
        with self.changed:
            while len(self.messages) < count:
                left = end - time.monotonic()
                if left <= 0 or not self.changed.wait(left):
                    raise AssertionError(f"after {seconds:g} s {len(self.messages)} of {count} messages at the peer")
            return list(self.messages)

    def wait_sessions(self, count=1, seconds=30.0):
        end = time.monotonic() + seconds
        with self.changed:
            while len(self.sessions) < count:
                left = end - time.monotonic()
                if left <= 0 or not self.changed.wait(left):
                    raise AssertionError(f"after {seconds:g} s {len(self.sessions)} of {count} sessions at the peer")
            return list(self.sessions)

    # -- inside

    def _accept(self):
        while not self.stopping:
            try:
                connection, address = self.listener.accept()
            except OSError:
                return
            connection.settimeout(120)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            session = Session(len(self.sessions))
            session.address = address[0]
            with self.changed:
                self.sessions.append(session)
                self.changed.notify_all()
            thread = threading.Thread(target=self._serve, args=(connection, session), daemon=True)
            thread.start()

    def _violation(self, session, text):
        with self.changed:
            self.violations.append(f"session {session.number}: {text}")

    def _scripted(self, verb, session, line, usual):
        entry = self.replies.get(verb)
        with self.changed:
            if isinstance(entry, list):
                entry = entry.pop(0) if entry else None
        if callable(entry):
            entry = entry(session, line)
        if entry is NOTHING:
            session.silent = True  # for the next reply
            return usual
        return usual if entry is None else entry

    def _serve(self, connection, session):
        try:
            if self.wrapped:
                connection = self._start_tls(connection, session)
            reader = _Reader(connection, session)
            while self._talk(connection, session, reader) == "STARTTLS":
                connection = self._start_tls(connection, session)
                reader = _Reader(connection, session)
        except (OSError, EOFError):
            pass
        finally:
            connection.close()
            with self.changed:
                session.closed = True
                self.changed.notify_all()

    def _send(self, connection, session, reply):
        if self.delay:
            time.sleep(self.delay)
        if reply is DROP:
            raise EOFError
        if session.silent:
            session.silent = False
            return
        data = reply.encode() + b"\r\n"
        for part in [data[i:i + 1] for i in range(len(data))] if self.trickle else [data]:
            connection.sendall(part)

    def _start_tls(self, connection, session):
        try:
            connection = self.tls.wrap_socket(connection, server_side=True)
        except OSError as failure:
            session.broken_tls = str(failure)
            raise
        with self.changed:
            session.tls, session.resumed = connection.version(), connection.session_reused
            session.certificate = connection.getpeercert(True)
            session.cipher = connection.cipher()[0]
            self.changed.notify_all()
        return connection

    def _talk(self, connection, session, reader):
        """Reads commands until QUIT, or until the client may begin TLS."""
        if session.tls is None or self.wrapped:
            self._greet(connection, session, reader)
        return self._commands(connection, session, reader)

    def _greet(self, connection, session, reader):
        greeting = self._scripted("GREETING", session, "", "220 peer.example ESMTP")
        if reader.early():
            self._violation(session, "the client spoke before the greeting")
        self._send(connection, session, greeting)

    def _commands(self, connection, session, reader):
        message = None
        esmtp = False
        while True:
            raw = reader.line()
            if not raw.endswith(b"\r\n") or b"\r" in raw[:-2] or b"\0" in raw:
                self._violation(session, f"command line is not clean: {raw!r}")
            line = raw.rstrip(b"\r\n").decode("utf-8", "surrogateescape")
            session.commands.append(line)
            verb = line.split(" ")[0].upper()
            if verb in LAST_OF_GROUP and reader.buffer:
                self._violation(session, f"{verb} is followed by {bytes(reader.buffer[:60])!r} before its answer")
            if verb in ("EHLO", "LHLO"):
                esmtp, message = True, None
                session.helo = line
                offers = ["peer.example"] + self.features
                if self.tls and session.tls is None:
                    offers.append("STARTTLS")
                usual = "\r\n".join(f"250{'-' if i < len(offers) - 1 else ' '}{text}"
                                    for i, text in enumerate(offers))
                reply = self._scripted("EHLO", session, line, usual)
                esmtp = reply is not DROP and reply.startswith("250")
                self._send(connection, session, reply)
            elif verb == "HELO":
                message = None
                session.helo = line
                self._send(connection, session, self._scripted("HELO", session, line, "250 peer.example"))
            elif verb == "STARTTLS":
                if reader.buffer:
                    self._violation(session, f"STARTTLS is followed by {bytes(reader.buffer[:60])!r}")
                usual = "220 2.0.0 go ahead" if self.tls and session.tls is None else "502 5.5.1 what?"
                reply = self._scripted("STARTTLS", session, line, usual)
                self._send(connection, session, reply)
                if reply.startswith("220"):
                    return "STARTTLS"
            elif verb == "AUTH":
                if not any(f.startswith("AUTH ") for f in self.features):
                    self._violation(session, "AUTH was not offered")
                reply = self._scripted("AUTH", session, line, "535 5.7.8 no")
                self._send(connection, session, reply)
                while reply.startswith("334"):
                    response = reader.line().rstrip(b"\r\n").decode()
                    session.commands.append(response)
                    reply = self._scripted("RESPONSE", session, response, "535 5.7.8 no")
                    self._send(connection, session, reply)
            elif verb == "MAIL":
                match = re.match(r"MAIL FROM:<([^>]*)>(.*)", line, re.I | re.S)
                reply = self._scripted("MAIL", session, line, "250 2.1.0 ok")
                if not match:
                    self._violation(session, f"MAIL cannot be read: {line}")
                elif not esmtp and match.group(2).strip():
                    self._violation(session, f"parameters without EHLO: {line}")
                elif message is not None and reply is not DROP and reply.startswith("2"):
                    self._violation(session, "MAIL within a transaction")
                for word in match.group(2).split() if match else []:
                    name = word.split("=")[0].upper()
                    known = {"SIZE": "SIZE", "BODY": "8BITMIME", "RET": "DSN", "ENVID": "DSN",
                             "SMTPUTF8": "SMTPUTF8", "REQUIRETLS": "REQUIRETLS",
                             "MT-PRIORITY": "MT-PRIORITY"}.get(name)
                    if known == "REQUIRETLS" and session.tls is None:
                        self._violation(session, "REQUIRETLS in clear text")
                    if known is None or not any(f.split()[0] == known for f in self.features):
                        self._violation(session, f"{word} was not offered")
                if match and reply is not DROP and reply.startswith("2"):
                    message = Message(session, match.group(1), match.group(2).split())
                self._send(connection, session, reply)
            elif verb == "RCPT":
                match = re.match(r"RCPT TO:<([^>]*)>(.*)", line, re.I | re.S)
                usual = "250 2.1.5 ok" if message is not None else "503 5.5.1 MAIL first"
                reply = self._scripted("RCPT", session, line, usual)
                if match and message is not None and reply is not DROP and reply.startswith("2"):
                    message.recipients.append(match.group(1))
                    message.recipient_parameters.append(match.group(2).split())
                self._send(connection, session, reply)
            elif verb == "DATA":
                usual = "354 go on" if message and message.recipients else "503 5.5.1 no recipients"
                reply = self._scripted("DATA", session, line, usual)
                self._send(connection, session, reply)
                if reply.startswith("3"):
                    with self.changed:
                        cut = self.cut_data.pop(0) if self.cut_data else None
                    content = reader.data(cut)
                    if message is not None:
                        message.via = "DATA"
                        self._take(connection, session, message, content)
                    else:
                        self._send(connection, session, "554 5.5.1 no transaction")
                    message = None
            elif verb == "BDAT":
                if not any(f.split()[0] == "CHUNKING" for f in self.features):
                    self._violation(session, "BDAT was not offered")
                words = line.split()
                chunk = reader.exactly(int(words[1]))
                last = len(words) > 2 and words[2].upper() == "LAST"
                if message is None or not message.recipients:
                    self._send(connection, session, "503 5.5.1 no recipients")
                    message = None if last else message
                    continue
                message.content += chunk
                if last:
                    message.via = "BDAT"
                    self._take(connection, session, message, message.content)
                    message = None
                else:
                    self._send(connection, session, self._scripted("BDAT", session, line, "250 2.0.0 ok"))
            elif verb == "XFORWARD":
                offered = next((f.split()[1:] for f in self.features if f.split()[0] == "XFORWARD"), [])
                for word in line.split()[1:]:
                    name, _, value = word.partition("=")
                    session.xforward[name] = value
                    if name not in offered or message is not None:
                        self._violation(session, f"{word} was not offered, or within a transaction")
                self._send(connection, session, self._scripted("XFORWARD", session, line, "250 2.0.0 ok"))
            elif verb == "RSET":
                message = None
                self._send(connection, session, self._scripted("RSET", session, line, "250 2.0.0 ok"))
            elif verb == "NOOP":
                self._send(connection, session, self._scripted("NOOP", session, line, "250 2.0.0 ok"))
            elif verb == "QUIT":
                self._send(connection, session, self._scripted("QUIT", session, line, "221 2.0.0 bye"))
                return
            else:
                self._violation(session, f"unknown command {line!r}")
                self._send(connection, session, "500 5.5.2 what?")

    def _take(self, connection, session, message, content):
        message.content, message.at = content, time.monotonic()
        if any(b > 127 for b in content) and not any(f.startswith("8BITMIME") for f in self.features):
            self._violation(session, "8-bit content, and 8BITMIME was not offered")
        replies = []
        for recipient in message.recipients if self.lmtp else [None]:
            replies.append(self._scripted("DOT", session, recipient or "", "250 2.0.0 taken"))
        if any(r is not DROP and r.startswith("2") for r in replies):
            with self.changed:
                self.messages.append(message)
                self.changed.notify_all()
        for reply in replies:
            self._send(connection, session, reply)


class _Reader:
    def __init__(self, connection, session):
        self.connection, self.session, self.buffer = connection, session, bytearray()

    def early(self):
        """Whether bytes have arrived that nobody asked for. EOFError: the client has left without a word."""
        patience = self.connection.gettimeout()
        self.connection.settimeout(0)
        try:
            self._more()
        except (BlockingIOError, ssl.SSLWantReadError):
            pass
        finally:
            self.connection.settimeout(patience)
        return bool(self.buffer)

    def _more(self):
        chunk = self.connection.recv(65536)
        if not chunk:
            raise EOFError
        self.session.raw += chunk
        self.buffer += chunk

    def line(self):
        while b"\n" not in self.buffer:
            self._more()
        end = self.buffer.index(b"\n") + 1
        line = bytes(self.buffer[:end])
        del self.buffer[:end]
        return line

    def exactly(self, size):
        while len(self.buffer) < size:
            self._more()
        chunk = bytes(self.buffer[:size])
        del self.buffer[:size]
        return chunk

    def data(self, cut=None):
        """Reads up to exactly CRLF.CRLF, and unstuffs: nothing else ends the content."""
        while True:
            if cut is not None and len(self.buffer) >= cut:
                raise EOFError
            if self.buffer.startswith(b".\r\n"):
                del self.buffer[:3]
                return b""
            end = self.buffer.find(b"\r\n.\r\n")
            if end >= 0:
                raw = bytes(self.buffer[:end + 2])
                del self.buffer[:end + 5]
                break
            self._more()
        out = raw.replace(b"\r\n.", b"\r\n")
        return out[1:] if out.startswith(b".") else out
