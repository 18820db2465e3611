"""A content filter: an SMTP server that looks at each message and passes it back to the mail system.

Use:     with Filter(back=port) as scan: …                # port of the reinjection smtpd
             scan.verdict = lambda content: "550 5.7.1 no" if b"virus" in content else None
Works:   as SMTPD_PROXY_README and FILTER_README describe a filter: it answers the end of data only after the mail
         system has answered, with the same answer. It marks messages with X-Filtered:, and passes XFORWARD on.
"""
from client import Client, Refused
from peer import DROP, Peer

XFORWARD = "XFORWARD NAME ADDR PORT PROTO HELO IDENT SOURCE"


class Filter(Peer):
    def __init__(self, back=None, features=("8BITMIME", "DSN", XFORWARD), **more):
        self.back = back
        self.verdict = lambda content: None  # the filter's own reply, or DROP
        self.before = lambda message: None   # called with each message before it is passed back
        super().__init__(features=features, **more)

    def _take(self, connection, session, message, content):
        message.content = content
        reply = self.verdict(content)
        if reply is DROP:
            raise EOFError
        if reply is None and self.back is not None:
            self.before(message)
            reply = self._hand_back(message, b"X-Filtered: yes\r\n" + content)
        if reply is None or reply.startswith("2"):
            with self.changed:
                self.messages.append(message)
                self.changed.notify_all()
        self._send(connection, session, reply or "250 2.0.0 taken")

    def _hand_back(self, message, content):
        try:
            with Client(self.back, helo="filter.example") as client:
                if message.xforward and client.has("XFORWARD"):
                    known = next(f.split()[1:] for f in client.features if f.startswith("XFORWARD"))
                    words = [f"{n}={v}" for n, v in message.xforward.items() if n in known]
                    client.expect("XFORWARD " + " ".join(words), "250")
                return client.send(message.sender, message.recipients, content)
        except Refused as refused:
            return refused.reply
        except OSError as failure:
            return f"451 4.3.0 the mail system: {failure}"
