"""Sessions with errors: the postmaster's notices by notify_classes, on both sides of SMTP."""
import base64
import email
import email.policy
import socket

from harness import *

EVERY = "data, policy, protocol, resource, software"
SENDER = "MAIL FROM:<ada@sender.example>"


def post(back, hops=None, **settings):
    """The postmaster's mail goes to `back`."""
    hops = {"postmaster.example": f"smtp:[127.0.0.1]:{back.port}", **(hops or {})}
    return {
        "relay_domains": ", ".join(hops),
        "transport_maps": inline(hops),
        "notify_classes": EVERY,
        "error_notice_recipient": "errors@postmaster.example",
        "bounce_notice_recipient": "bounces@postmaster.example",
        "smtpd_error_sleep_time": "0",
        "minimal_backoff_time": "1h",
        "maximal_backoff_time": "1h",
        **settings,
    }


def talk(port, *lines):
    """Sends each line after the reply to the one before; reads to the end of the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as s, s.makefile("rb") as replies:
        def reply():
            while (line := replies.readline()) and line[3:4] == b"-":
                pass
        reply()
        for line in ("EHLO client.example", *lines):
            s.sendall(line.encode() + b"\r\n")
            reply()
        s.shutdown(socket.SHUT_WR)
        replies.read()


class Postmaster(Suite):
    def notice(self, back, number):
        """Returns header and text of the n-th notice."""
        message = back.wait_messages(number)[number - 1]
        self.assertEqual(message.sender, "double-bounce@mx.test.example")
        whole = email.message_from_bytes(message.content, policy=email.policy.default)
        self.assertEqual(whole["Auto-Submitted"], "auto-generated")
        self.assertEqual(whole["To"], f"Postmaster <{message.recipients[0]}>")
        return whole, whole.get_content().replace("\r\n", "\n")


class Server(Postmaster):
    def test_each_class_has_its_notice(self):
        refusals = {
            "protocol": ("FROB",),
            "policy": (SENDER, "RCPT TO:<x@elsewhere.example>"),
            "software": (SENDER, "RCPT TO:<software@postmaster.example>"),
            "data": (SENDER, "RCPT TO:<data@postmaster.example>"),
            "bounce": (SENDER, "RCPT TO:<nobody@virtual.test.example>"),
        }
        tables = inline({"software@": "no_such_restriction", "data@": "check_client_access fail:away"})
        with Peer() as back:
            with Instance(
                post(
                    back,
                    notify_classes="bounce, " + EVERY,
                    smtpd_relay_restrictions="reject_unauth_destination",
                    smtpd_recipient_restrictions="check_recipient_access " + tables,
                )
            ) as mx:
                for number, (name, lines) in enumerate(refusals.items(), 1):
                    talk(mx.port, *lines, "QUIT")
                    whole, text = self.notice(back, number)
                    self.assertRegex(whole["Subject"], r"^Penstock SMTP server: errors from \S+\[127\.0\.0\.1\]$")
                    self.assertRegex(text, rf"^Errors of class (2bounce, )?{name} in a session with ")
                    self.assertRegex(
                        text, r"\n Out: 220 .*\n In:  EHLO client\.example\n(?: Out: 250-.*\n)+ Out: 250 .*\n"
                    )
                    self.assertRegex(text, rf"\n In:  {lines[-1]}\n Out: [45]")
                    self.assertRegex(text, r"\n In:  QUIT\n Out: 221 ")
                    self.assertEqual(
                        back.messages[-1].recipients,
                        ["bounces@postmaster.example" if name == "bounce" else "errors@postmaster.example"],
                    )
                talk(mx.port, "NOOP")  # no error
                # A server answers the next client only after it has reported this one.
                talk(mx.port, "WHAT", "QUIT")
                self.assertIn("\n In:  WHAT\n", self.notice(back, len(refusals) + 1)[1])

    def test_what_no_class_asks_for_is_not_told(self):
        with Peer() as back:
            with Instance(
                post(back, notify_classes="policy", smtpd_relay_restrictions="reject_unauth_destination")
            ) as mx:
                talk(mx.port, "FROB", "QUIT")
                talk(mx.port, SENDER, "RCPT TO:<x@elsewhere.example>", "QUIT")
                whole, text = self.notice(back, 1)  # it is the first, so the session before caused none
                self.assertIn("class policy", text)
                talk(mx.port, "FROB", "QUIT")
                talk(mx.port, SENDER, "RCPT TO:<y@elsewhere.example>", "QUIT")
                self.assertIn("RCPT TO:<y@elsewhere.example>", self.notice(back, 2)[1])

    def test_no_credentials_and_no_content_are_in_a_notice(self):
        secret = base64.b64encode(b"\0ada\0open-sesame").decode()
        with Peer() as back:
            with Instance(post(back)) as mx:
                talk(
                    mx.port,
                    "AUTH PLAIN " + secret,
                    "AUTH LOGIN",
                    secret,
                    SENDER,
                    "DATA",
                    "my private words",
                    "QUIT",
                )
                _, text = self.notice(back, 1)
                self.assertIn("\n In:  AUTH PLAIN ***\n", text)
                self.assertIn("\n In:  DATA\n Out: 554 ", text)
                for hidden in (secret, "private"):
                    self.assertNotIn(hidden, text)


class Client(Postmaster):
    def test_each_class_has_its_notice(self):
        with Peer() as back, Peer() as far, Peer() as closed:
            hops = {
                "protocol.example": f"smtp:[127.0.0.1]:{far.port}",
                "data.example": f"unmapped:[127.0.0.1]:{far.port}",
                "resource.example": f"elsewhere:[127.0.0.1]:{far.port}",
                "software.example": f"bare:[127.0.0.1]:{closed.port}",
            }
            services = {
                "unmapped": "unix - - n - 10 smtp\n  -o smtp_generic_maps=fail:away",
                "elsewhere": "unix - - n - 10 smtp\n  -o smtp_bind_address=192.0.2.1 "
                             "-o smtp_bind_address_enforce=yes",
                "bare": "unix - - n - 10 smtp\n  -o smtp_tls_CAfile=/nonexistent/ca.pem",
            }
            far.replies["MAIL"] = "501 5.5.4 what is that"
            with Instance(
                post(back, hops, smtp_tls_policy_maps=inline({f"[127.0.0.1]:{closed.port}": "encrypt"})), services
            ) as mx:
                for number, name in enumerate(("protocol", "data", "resource", "software"), 1):
                    send(mx.port, "ada@sender.example", [f"x@{name}.example"], mail("private words"))
                    whole, text = self.notice(back, number)
                    port = closed.port if name == "software" else far.port
                    self.assertRegex(
                        whole["Subject"], rf"^Penstock SMTP client: errors from 127\.0\.0\.1\[127\.0\.0\.1\]:{port}$"
                    )
                    self.assertIn(f"Errors of class {name} in a session with ", text)
                    self.assertNotIn("private", text)
                    if name == "protocol":
                        self.assertRegex(text, r"\n In:  220 .*\n Out: EHLO mx\.test\.example\n")
                        self.assertRegex(text, r"\n Out: MAIL FROM:<ada@sender\.example>")
                        self.assertIn("\n In:  501 5.5.4 what is that\n", text)

    def test_a_notice_that_meets_errors_itself_makes_no_other(self):
        for settings in ({}, {"smtp_generic_maps": inline({"@mx.test.example": "postmaster@out.example"})}):
            with self.subTest(**settings), Peer() as back:
                back.replies["MAIL"] = "501 5.5.4 what is that"
                with Instance(post(back, **settings)) as mx:
                    talk(mx.port, "FROB", "QUIT")
                    mx.wait_log(r"to=<errors@postmaster\.example>.*dsn=5\.5\.4")
                    mx.wait_empty_queue()
                    eventually(lambda: all(s.closed for s in back.sessions), "smtp has told what it tells")
                    talk(mx.port, "FROB", "QUIT")
                    eventually(
                        lambda: mx.log().count("postmaster notice of errors from localhost") == 2, "the next notice"
                    )
                    mx.wait_empty_queue()
                    self.assertNotIn("postmaster notice of errors from 127.0.0.1", mx.log())

    def test_a_host_is_told_of_once(self):
        with Peer() as back, Peer() as far:
            far.replies["MAIL"] = "501 5.5.4 what is that"
            hops = {"far.example": f"smtp:[127.0.0.1]:{far.port}"}
            with Instance(post(back, hops)) as mx:
                for number in range(1, 4):
                    send(mx.port, "ada@sender.example", ["x@far.example"], mail("words"))
                    mx.wait_log(rf"(?s)(to=<x@far\.example>.*dsn=5\.5\.4.*){{{number}}}")
                    eventually(lambda: all(s.closed for s in far.sessions), "smtp has told what it tells")
                    self.assertIn("SMTP client: errors from 127.0.0.1", self.notice(back, 1)[0]["Subject"])
                talk(mx.port, "FROB", "QUIT")
                self.assertIn("SMTP server: errors from", self.notice(back, 2)[0]["Subject"])
                self.assertEqual(mx.log().count("postmaster notice of errors from 127.0.0.1"), 1)


if __name__ == "__main__":
    unittest.main()
