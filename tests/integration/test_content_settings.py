"""What incoming mail gains, converts, loses or is refused for, setting by setting."""
import email
import os
import pwd

from harness import *
from test_submission import Submission

ADA = "ada@virtual.test.example"
UTF8 = "caf\u00e9".encode()


def text(*header, body="body"):
    body = body if isinstance(body, bytes) else body.encode()
    return "\r\n".join(header).encode() + b"\r\n\r\n" + body + b"\r\n"


class Settings(Submission):
    def running(self, settings=None, **more):
        mx = self.instance({"smtpd_peername_lookup": "no", **(settings or {})}, **more)
        self.addCleanup(mx.close)
        return mx

    def arrived(self, mx, count=1):
        """Returns the last message's content after the trace fields, with line feeds."""
        mx.virtual_box("ada").wait(count)
        got = max(mx.virtual_box("ada").messages(), key=lambda m: m.count(b"number %d" % count))
        return strip_trace(got.replace(b"\r\n", b"\n"), b"\n")[1]

    def refusal(self, port, content):
        with self.assertRaises(Refused) as refused:
            send(port, "me@sender.example", [ADA], content)
        return refused.exception.reply


class Completed(Settings):
    def test_undisclosed_recipients_header(self):
        mx = self.running({"undisclosed_recipients_header": "To: undisclosed-recipients:;"})
        send(mx.port, "me@sender.example", [ADA], text("Subject: a", body="number 1"))
        self.assertIn(b"\nTo: undisclosed-recipients:;\n", self.arrived(mx, 1))
        send(mx.port, "me@sender.example", [ADA], text("Subject: a", "Cc: x@y.example", body="number 2"))
        self.assertNotIn(b"undisclosed", self.arrived(mx, 2))
        self.sendmail(mx, ADA, stdin="Subject: a\n\nnumber 3\n")
        self.assertIn(b"\nTo: undisclosed-recipients:;\n", self.arrived(mx, 3))
        mx.set(local_header_rewrite_clients="")
        mx.reload()
        eventually(lambda: self.stays(mx), "a stranger's header stays")

    def stays(self, mx):
        send(mx.port, "me@sender.example", [ADA], text("Subject: later"))
        mx.wait_empty_queue()
        return any(b"later" in m and b"undisclosed" not in m for m in mx.virtual_box("ada").messages())

    def test_what_is_no_header_field_is_not_added(self):
        mx = self.running({"undisclosed_recipients_header": "undisclosed"})
        send(mx.port, "me@sender.example", [ADA], text("Subject: a", body="number 1"))
        self.assertNotIn(b"undisclosed", self.arrived(mx))
        mx.wait_log("warning: undisclosed_recipients_header")

    def test_remote_header_rewrite_domain(self):
        mx = self.running(
            {
                "local_header_rewrite_clients": "",
                "remote_header_rewrite_domain": "domain.invalid",
                "append_dot_mydomain": "yes",
                "canonical_maps": inline({"old@sender.example": "new@sender.example"}),
            }
        )
        send(
            mx.port,
            "me@sender.example",
            [ADA],
            text("From: jo", "To: Bo <bo@host>, old@sender.example", body="number 1"),
        )
        got = email.message_from_bytes(self.arrived(mx))
        self.assertEqual(
            (got["From"], got["To"]), ("jo@domain.invalid", "Bo <bo@host.domain.invalid>, new@sender.example")
        )
        self.assertTrue(got["Date"] and got["Message-ID"])
        self.sendmail(mx, "-G", "-f", "me@sender.example", ADA, stdin="From: jo\n\nnumber 2\n")
        self.assertEqual(email.message_from_bytes(self.arrived(mx, 2))["From"], "jo@domain.invalid")
        self.sendmail(mx, "-f", "me@sender.example", ADA, stdin="From: jo\n\nnumber 3\n")
        self.assertEqual(email.message_from_bytes(self.arrived(mx, 3))["From"], "jo@mx.test.example")

    def test_without_remote_header_rewrite_domain_a_strangers_header_stays(self):
        mx = self.running({"local_header_rewrite_clients": ""})
        content = text("From: jo", "To: bo", body="number 1")
        send(mx.port, "me@sender.example", [ADA], content)
        self.assertEqual(self.arrived(mx), content.replace(b"\r\n", b"\n"))

    def test_force_mime_input_conversion(self):
        mx = self.running({"force_mime_input_conversion": "yes", "local_header_rewrite_clients": ""}, start=False)
        mx.set(body_checks="regexp:" + mx.write("body", "/^caf=C3=A9$/ PREPEND seen\n"))
        mx.start()
        labels = ("MIME-Version: 1.0", "Content-Type: text/plain; charset=utf-8", "Content-Transfer-Encoding: ")
        send(
            mx.port,
            "me@sender.example",
            [ADA],
            text(*labels[:2], labels[2] + "8bit", body=UTF8 + b"\r\nnumber 1"),
            mail="BODY=8BITMIME",
        )
        self.assertEqual(
            self.arrived(mx),
            "\n".join([*labels[:2], labels[2] + "quoted-printable", "", "seen", "caf=C3=A9", "number 1", ""]).encode(),
        )
        plain = text("Subject: unlabelled", body=UTF8 + b"\r\nnumber 2")
        send(mx.port, "me@sender.example", [ADA], plain)
        self.assertEqual(self.arrived(mx, 2), plain.replace(b"\r\n", b"\n"))
        parts = text(
            "MIME-Version: 1.0",
            'Content-Type: multipart/encrypted; boundary="b"',
            body="\r\n".join(
                [
                    "--b",
                    "Content-Type: application/pgp-encrypted",
                    "",
                    "Version: 1",
                    "--b",
                    "Content-Type: multipart/alternative; boundary=c",
                    "",
                    "--c",
                    "Content-Type: text/plain",
                    "",
                    "a=b number 3",
                    "--c",
                    "Content-Type: application/octet-stream",
                    "",
                    "=x",
                    "--c--",
                    "--b--",
                ]
            ),
        )
        send(mx.port, "me@sender.example", [ADA], parts)
        self.assertEqual(self.arrived(mx, 3), parts.replace(b"\r\n", b"\n"))

    def test_what_force_mime_input_conversion_changed_is_sent_as_7_bit(self):
        with Peer() as peer:
            mx = self.running({"force_mime_input_conversion": "yes", **relay_to(peer, "rcpt.example")})
            for label in ("8bit", "7bit"):  # the second label is wrong, and stays
                send(mx.port, ADA, [f"{label}@rcpt.example"], text("Content-Transfer-Encoding: " + label, body=UTF8),
                     mail="BODY=8BITMIME")
            peer.wait_messages(2)
            self.assertEqual({m.recipients[0]: "BODY=8BITMIME" in m.parameters for m in peer.messages},
                             {"8bit@rcpt.example": False, "7bit@rcpt.example": True})


class Refusing(Settings):
    def test_message_reject_characters(self):
        mx = self.running({"message_reject_characters": "\\0"})
        for content in (text("Subject: a\0b"), text("Subject: a", body=b"x\0y")):
            self.assertEqual(self.refusal(mx.port, content), "550 5.7.1 disallowed character")
        send(mx.port, "me@sender.example", [ADA], text("Subject: a", body="number 1"))
        self.arrived(mx)

    def test_message_strip_characters(self):
        mx = self.running({"message_strip_characters": "\\0\\033", "local_header_rewrite_clients": ""})
        send(mx.port, "me@sender.example", [ADA], text("Subject: a\0b", body=b"\x1b[1mnumber 1\0"))
        self.assertEqual(self.arrived(mx), b"Subject: ab\n\n[1mnumber 1\n")

    def test_no_header_body_checks_passes_over_them(self):
        port = free_port()
        mx = self.running({"message_reject_characters": "\\0", "strict_8bitmime": "yes"}, services={
            f"127.0.0.1:{port}": "inet n - n - - smtpd -o receive_override_options=no_header_body_checks"})
        send(port, "me@sender.example", [ADA], text("Subject: number 1", body=b"x\0y" + UTF8))
        mx.virtual_box("ada").wait(1)

    def test_strict_7bit_headers(self):
        mx = self.running({"strict_7bit_headers": "yes"})
        self.assertRegex(self.refusal(mx.port, b"Subject: " + UTF8 + b"\r\n\r\nbody\r\n"), r"^550 5\.6\.0 ")
        mx.wait_log(r"reject: mime-error 8-bit text in a message header: Subject: caf\S* from .*: 5\.6\.0 ")
        send(mx.port, "me@sender.example", [ADA], text("Subject: a", body=UTF8))
        mx.virtual_box("ada").wait(1)

    def test_strict_8bitmime_body(self):
        mx = self.running({"strict_8bitmime_body": "yes"})
        self.assertRegex(self.refusal(mx.port, text("Subject: a", body=UTF8)), r"^550 5\.6\.0 ")
        send(mx.port, "me@sender.example", [ADA], text("Content-Transfer-Encoding: 8bit", body=UTF8))
        mx.virtual_box("ada").wait(1)

    def test_strict_8bitmime(self):
        mx = self.running({"strict_8bitmime": "yes"})
        self.assertRegex(self.refusal(mx.port, text("Subject: a", body=UTF8)), r"^550 5\.6\.0 ")
        self.assertRegex(self.refusal(mx.port, b"Subject: " + UTF8 + b"\r\n\r\nbody\r\n"), r"^550 5\.6\.0 ")

    def test_strict_mime_encoding_domain(self):
        mx = self.running({"strict_mime_encoding_domain": "yes"})
        part = "Content-Type: message/rfc822"
        self.assertRegex(
            self.refusal(mx.port, text(part, "Content-Transfer-Encoding: base64", body="eA==")), r"^550 5\.6\.0 "
        )
        send(
            mx.port,
            "me@sender.example",
            [ADA],
            text(part, "Content-Transfer-Encoding: 8bit", body="Subject: a\r\n\r\nb"),
        )
        mx.virtual_box("ada").wait(1)


class OwnMail(Settings):
    def test_internal_mail_filter_classes(self):
        for classes, seen in (("", False), ("bounce", True), ("notify", False)):
            with self.subTest(classes):
                mx = self.running({"internal_mail_filter_classes": classes}, start=False)
                mx.set(header_checks="regexp:" + mx.write("header", "/^Subject: Undelivered/ PREPEND X-Seen: yes\n"))
                mx.start()
                send(mx.port, ADA, ["no-such-user@local.test.example"], text("Subject: a"))
                mx.virtual_box("ada").wait(1)
                self.assertEqual(b"\nX-Seen: yes" in mx.virtual_box("ada").messages()[0].replace(b"\r", b""), seen)

    def test_notices_to_the_postmaster_of_class_notify(self):
        mx = self.running({"internal_mail_filter_classes": "notify", "notify_classes": "protocol",
                           "error_notice_recipient": ADA}, start=False)
        mx.set(header_checks="regexp:" + mx.write("header", "/^Subject: .*errors from/ PREPEND X-Seen: yes\n"))
        mx.start()
        with Client(mx.port) as client:
            client.command("NONSENSE")
            client.command("QUIT")
        mx.virtual_box("ada").wait(1)
        self.assertIn(b"\nX-Seen: yes", mx.virtual_box("ada").messages()[0].replace(b"\r", b""))

    def test_a_notice_that_checks_refuse_is_held(self):
        mx = self.running({"internal_mail_filter_classes": "bounce"}, start=False)
        mx.set(header_checks="regexp:" + mx.write("header", "/^Subject: Undelivered/ REJECT not this\n"))
        mx.start()
        send(mx.port, ADA, ["no-such-user@local.test.example"], text("Subject: a"))
        mx.wait_log(r"bounce\[\d+\]: \w+: reject: header Subject: Undelivered")
        eventually(lambda: [m["queue_name"] for m in mx.queue()] == ["hold"], "the notice is held")
        self.assertEqual(mx.virtual_box("ada").messages(), [])


class Senders(Settings):
    def test_local_login_sender_maps(self):
        me = pwd.getpwuid(os.getuid()).pw_name
        with self.instance({"recipient_delimiter": "+", "local_login_sender_maps": inline(
                {me: "jo jo@sender.example @list.example"})}) as mx:
            for sender in ("jo", "jo+x", "jo@sender.example", "jo+x@sender.example", "any@list.example"):
                self.sendmail(mx, "-f", sender, ADA)
            for sender in ("bo@sender.example", me, "<>", "jo+x%victim.example", "jo+a!root"):
                self.assertIn("local_login_sender_maps", self.sendmail(mx, "-f", sender, ADA, status=os.EX_NOPERM))
            mx.virtual_box("ada").wait(5)
            mx.set(local_login_sender_maps="texthash:/nonexistent")
            self.sendmail(mx, "-f", "jo@sender.example", ADA, status=os.EX_TEMPFAIL)
            mx.set(local_login_sender_maps=inline({"nobody": "*"}))
            self.sendmail(mx, ADA, status=os.EX_NOPERM)
            self.assertEqual(self.names(mx), [])

    def test_empty_address_local_login_sender_maps_lookup_key(self):
        me = pwd.getpwuid(os.getuid()).pw_name
        with self.instance({"local_login_sender_maps": inline({me: "none"}),
                            "empty_address_local_login_sender_maps_lookup_key": "none"}) as mx:
            self.sendmail(mx, "-f", "<>", ADA)
            mx.virtual_box("ada").wait(1)
            self.sendmail(mx, "-f", "none", ADA, status=os.EX_NOPERM)


class Utf8(Settings):
    SUBJECT = "Subject: caf\u00e9\n\nbody\n"

    def with_peer(self, **settings):
        """An instance that sends to a host without SMTPUTF8; the log has the results."""
        peer = Peer()
        self.addCleanup(peer.close)
        return peer, self.running({**relay_to(peer, "rcpt.example"), **settings})

    def test_smtputf8_autodetect_classes_sendmail(self):
        peer, mx = self.with_peer()
        self.sendmail(mx, "-f", ADA, "x@rcpt.example", stdin=self.SUBJECT)
        mx.wait_log(r"to=<x@rcpt\.example>, .*dsn=5\.6\.7, status=bounced")
        send(
            mx.port, ADA, ["x@rcpt.example"], b"Subject: " + UTF8 + b"\r\n\r\nbody\r\n"
        )  # class smtpd is not in the default
        peer.wait_messages(1)
        self.sendmail(mx, "-f", ADA, "x@rcpt.example", stdin="Subject: a\n\ncaf\u00e9\n")
        peer.wait_messages(2)

    def test_smtputf8_autodetect_classes_smtpd(self):
        peer, mx = self.with_peer(smtputf8_autodetect_classes="smtpd")
        send(mx.port, ADA, ["x@rcpt.example"], b"Subject: " + UTF8 + b"\r\n\r\nbody\r\n")
        mx.wait_log(r"to=<x@rcpt\.example>, .*dsn=5\.6\.7, status=bounced")
        self.sendmail(mx, "-f", ADA, "x@rcpt.example", stdin=self.SUBJECT)
        peer.wait_messages(1)

    def test_with_smtputf8_enable_off_nothing_is_detected(self):
        peer, mx = self.with_peer(smtputf8_autodetect_classes="all", smtputf8_enable="no")
        self.sendmail(mx, "-f", ADA, "x@rcpt.example", stdin=self.SUBJECT)
        peer.wait_messages(1)

    def test_smtputf8_autodetect_classes_forward(self):
        peer, mx = self.with_peer(smtputf8_autodetect_classes="forward", alias_maps=inline({"list": "x@rcpt.example"}))
        send(mx.port, ADA, ["x@rcpt.example"], b"Subject: " + UTF8 + b"\r\n\r\nbody\r\n")
        peer.wait_messages(1)
        send(mx.port, ADA, ["list@local.test.example"], b"Subject: " + UTF8 + b"\r\n\r\nbody\r\n")
        mx.wait_log(r"to=<x@rcpt\.example>, .*dsn=5\.6\.7, status=bounced")
