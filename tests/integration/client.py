"""SMTP clients for tests: one sends a whole message by DATA or BDAT, one sends single lines."""
import socket


class Refused(Exception):
    """A reply other than the expected one; .reply holds it."""

    def __init__(self, command, reply):
        super().__init__(f"{command!r} -> {reply!r}")
        self.command, self.reply = command, reply


class Client:
    def __init__(self, port, host="127.0.0.1", helo="client.example", timeout=60, ehlo=True, source=None):
        self.socket = socket.create_connection((host, port), timeout=timeout, source_address=source and (source, 0))
        self.file = self.socket.makefile("rb")
        self.greeting = self.reply()
        self.features = []
        if not self.greeting.startswith("220"):
            self.close()
            raise Refused("", self.greeting)
        if ehlo:
            self.features = [line[4:] for line in self.expect(f"EHLO {helo}", "250").split("\n")[1:]]

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def close(self):
        try:
            self.socket.close()
        finally:
            self.file.close()

    def raw(self, data):
        self.socket.sendall(data)

    def reply(self):
        lines = []
        while True:
            line = self.file.readline()
            if not line:
                raise ConnectionError("connection closed by the server")
            lines.append(line.decode("utf-8", "replace").rstrip("\r\n"))
            if line[3:4] != b"-":
                return "\n".join(lines)

    def command(self, line):
        self.raw(line.encode("utf-8", "surrogateescape") + b"\r\n")
        return self.reply()

    def expect(self, line, code):
        reply = self.command(line)
        if not reply.startswith(code):
            raise Refused(line, reply)
        return reply

    def has(self, feature):
        return any(f.split()[0].upper() == feature for f in self.features if f)

    def send(self, sender, recipients, content, via="DATA", mail="", rcpt="", chunk=65536):
        """Sends one message; the content has CRLF line ends. Returns the final reply (a 250)."""
        self.expect(f"MAIL FROM:<{sender}>{' ' + mail if mail else ''}", "250")
        for address in recipients:
            self.expect(f"RCPT TO:<{address}>{' ' + rcpt if rcpt else ''}", "250")
        if via == "DATA":
            self.expect("DATA", "354")
            stuffed = content.replace(b"\r\n.", b"\r\n..")
            if stuffed.startswith(b"."):
                stuffed = b"." + stuffed
            self.raw(stuffed + b".\r\n")
            reply = self.reply()
        else:
            rest = content
            while True:
                part, rest = rest[:chunk], rest[chunk:]
                self.raw(f"BDAT {len(part)}{'' if rest else ' LAST'}\r\n".encode() + part)
                reply = self.reply()
                if not rest or not reply.startswith("250"):
                    break
        if not reply.startswith("250"):
            raise Refused("end of data", reply)
        return reply

    def quit(self):
        self.command("QUIT")
        self.close()


def send(port, sender, recipients, content, timeout=60, **options):
    """Sends one message over a connection of its own; returns the reply to the end of data."""
    with Client(port, timeout=timeout) as client:
        reply = client.send(sender, recipients, content, **options)
        client.quit()
        return reply


def mail(subject="test", body="hello\r\n", sender="a@sender.example", to="b@example.org", extra=""):
    """Returns a small correct message as bytes."""
    return (f"From: {sender}\r\nTo: {to}\r\nSubject: {subject}\r\nDate: Sat, 21 Nov 2026 08:00:00 +0000\r\n"
            f"Message-ID: <{abs(hash((subject, body)))}@sender.example>\r\n{extra}\r\n{body}").encode()
