"""Settings of the SMTP and LMTP client, of the proxy filter's client and of local deliveries, each by its name."""
import os

import test_local
from content_filter import Filter
from harness import *
from test_content_filters import CHECKED, Filtered
from test_local import TO, account

ALL = ("PIPELINING", "8BITMIME", "SIZE 0")


class Lmtp(Suite):
    def to(self, peer, settings=None, hop=None):
        return Instance({"relay_domains": "rcpt.example", "transport_maps": inline(
            {"rcpt.example": "lmtp:inet:" + (hop or f"127.0.0.1:{peer.port}")}), **(settings or {})})

    def test_lmtp_lhlo_name(self):
        with Peer(ALL, lmtp=True) as peer, self.to(peer, {"lmtp_lhlo_name": "its.name.example"}) as mx:
            send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail())
            peer.wait_messages(1)
            self.assertEqual(peer.sessions[0].commands[0], "LHLO its.name.example")

    def test_lmtp_tcp_port(self):
        with Peer(ALL, lmtp=True) as peer, self.to(peer, {"lmtp_tcp_port": str(peer.port)}, hop="127.0.0.1") as mx:
            send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail())
            peer.wait_messages(1)

    def test_lmtp_discard_lhlo_keywords(self):
        for discarded in ("", "size, 8BITMIME"):
            with self.subTest(discarded), Peer(ALL, lmtp=True) as peer, \
                    self.to(peer, {"lmtp_discard_lhlo_keywords": discarded}) as mx:
                send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail(body="caf\u00e9\r\n"), mail="BODY=8BITMIME")
                got, = peer.wait_messages(1)
                used = " ".join(got.parameters)
                self.assertEqual(("SIZE=" in used, "BODY=" in used, b"quoted-printable" in got.content),
                                 (True, True, False) if not discarded else (False, False, True))

    def test_lmtp_destination_recipient_limit(self):
        for limit, transactions in (("1", 3), ("2", 2), ("50", 1)):
            with self.subTest(limit), Peer(ALL, lmtp=True) as peer, \
                    self.to(peer, {"lmtp_destination_recipient_limit": limit}) as mx:
                send(mx.port, "ada@sender.example", [f"{n}@rcpt.example" for n in "abc"], mail())
                got = peer.wait_messages(transactions)
                mx.wait_empty_queue()
                self.assertEqual(len(peer.messages), transactions)
                self.assertEqual(sorted(r for m in got for r in m.recipients), [f"{n}@rcpt.example" for n in "abc"])

    def test_lmtp_assume_final(self):
        for assumed, action in (("no", b"relayed"), ("yes", b"delivered")):
            with self.subTest(assumed), Peer(ALL, lmtp=True) as peer, Peer() as back:
                hops = {"rcpt.example": f"lmtp:inet:127.0.0.1:{peer.port}", "sender.example": f"smtp:[127.0.0.1]:{back.port}"}
                with Instance({"relay_domains": ", ".join(hops), "transport_maps": inline(hops),
                               "lmtp_assume_final": assumed}) as mx:
                    send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail(), rcpt="NOTIFY=SUCCESS")
                    self.assertIn(b"\r\nAction: " + action + b"\r\n", back.wait_messages(1)[0].content.replace(
                        b" (to", b"\r\n"))


class Hosts(Suite):
    def test_lmtp_mx_session_limit(self):
        for limit, taken in (("1", 0), ("2", 1)):
            with self.subTest(limit), Peer(ALL, lmtp=True, host="127.0.0.11") as first, \
                    Peer(ALL, lmtp=True, host="127.0.0.12", port=first.port) as second, \
                    Dns({("box.example", "A"): ["127.0.0.11", "127.0.0.12"]}) as dns:
                asked = []
                for peer in (first, second):  # whichever is asked first
                    peer.replies["MAIL"] = lambda session, line: asked.append(line) or (
                        "451 4.3.0 not now" if len(asked) == 1 else None)
                hop = f"lmtp:inet:box.example:{first.port}"
                with Instance({**dns.settings(), "relay_domains": "rcpt.example", "lmtp_mx_session_limit": limit,
                               "transport_maps": inline({"rcpt.example": hop})}) as mx:
                    send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail())
                    mx.wait_log(r"to=<a@rcpt\.example>.*status=" + ("sent" if taken else "deferred"))
                    self.assertEqual(len(first.messages) + len(second.messages), taken)

    def test_allow_min_user(self):
        for allowed in ("no", "yes"):
            with self.subTest(allowed), Peer() as peer, Instance({**relay_to(peer), "allow_min_user": allowed}) as mx:
                send(mx.port, "", ["-v@rcpt.example"], mail())
                mx.wait_log(r"to=<-v@rcpt\.example>.*" + ("status=sent" if allowed == "yes" else
                            r"dsn=5\.1\.3, status=bounced \(bad address syntax\)"))
                self.assertEqual(len(peer.messages), allowed == "yes")


class Proxy(Filtered):
    def before(self, scan, settings):
        return self.instance(scan, {"smtpd_proxy_filter": f"127.0.0.1:{scan.port}", **settings}, override=CHECKED)

    def test_smtpd_proxy_ehlo(self):
        with Filter() as scan, self.before(scan, {"smtpd_proxy_ehlo": "its.name.example"}) as mx:
            send(mx.port, "s@sender.example", ["ada@virtual.test.example"], mail())
            self.only(mx, "ada")
            self.assertEqual(scan.sessions[0].commands[0], "EHLO its.name.example")

    def test_smtpd_proxy_timeout(self):
        with Filter() as scan:
            scan.replies["MAIL"] = lambda session, line: NOTHING
            with self.before(scan, {"smtpd_proxy_timeout": "1s"}) as mx, Client(mx.port) as client:
                with self.assertRaises(Refused) as no:
                    client.send("s@sender.example", ["ada@virtual.test.example"], mail())
                self.assertEqual(no.exception.reply, "451 4.3.0 Error: queue file write error")
                mx.wait_log(r"warning: proxy filter \S+: .*(timed out|timeout|in time)")


class Bodies(Suite):
    def test_body_checks_size_limit(self):
        with Instance({"body_checks_size_limit": "100"}, start=False) as mx:
            mx.set(body_checks="regexp:" + mx.write("body", "/^virus/ REJECT\n"),
                   virtual_mailbox_maps=inline({"ada@virtual.test.example": "ada/"}))
            mx.start()
            to = ["ada@virtual.test.example"]
            with self.assertRaises(Refused):
                send(mx.port, "ada@sender.example", to, mail(body="x" * 98 + "\r\nvirus\r\n"))
            send(mx.port, "ada@sender.example", to, mail(body="x" * 99 + "\r\nvirus\r\n"))  # CRLF counts as one


class Commands(Suite):
    out, read, aliases = test_local.Local.out, test_local.Local.read, test_local.Local.aliases

    def test_command_execution_directory_and_its_filter(self):
        user, settings = account()
        with Instance({**settings, "recipient_delimiter": "+", "execution_directory_expansion_filter": "/abcdefghijklmnopqrstuvwxyz"},
                      start=False) as mx:
            out = self.out(mx)
            for name in ("plain", "with_dot"):
                os.mkdir(out + name)
                os.chmod(out + name, 0o755)
            os.chmod(mx.dir, 0o755)
            self.aliases(mx, f'where: "|pwd >> {out}where"\n')
            mx.set(command_execution_directory=out + "$extension")
            mx.start()
            for extension in ("plain", "with.dot"):
                send(mx.port, "ada@sender.example", [f"where+{extension}@{TO}"], mail())
                mx.wait_empty_queue()
            self.assertEqual(self.read(out + "where").split(), [out + "plain", out + "with_dot"])
            send(mx.port, "ada@sender.example", [f"where+gone@{TO}"], mail())
            mx.wait_log(rf"to=<where\+gone@{TO}>, .*status=deferred")
