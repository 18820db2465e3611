"""Notices of failure, delay and success: what senders and the postmaster get, and that none is lost."""
import collections
import email
import email.policy
import os
import re
import subprocess

from harness import *

SOON = {"minimal_backoff_time": "1s", "maximal_backoff_time": "1s"}


def report_of(message):
    """The three parts of a notice: text, status blocks, the returned message."""
    whole = email.message_from_bytes(message.content, policy=email.policy.default)
    assert whole.get_content_type() == "multipart/report", whole.get_content_type()
    text, status, returned = whole.iter_parts()
    return whole, text.get_content(), status.get_payload(), returned


def round_trip(back, far, **settings):
    """Senders at sender.example are reached by `back`, rcpt.example by `far`."""
    hops = {"sender.example": f"smtp:[127.0.0.1]:{back.port}", "rcpt.example": f"smtp:[127.0.0.1]:{far.port}",
            "postmaster.example": f"smtp:[127.0.0.1]:{back.port}"}
    return {"relay_domains": ", ".join(hops), "transport_maps": inline(hops), **settings}


class Notices(Suite):
    def test_late_mail_is_warned_of_once_and_its_delivery_told(self):
        with Peer() as back, Peer() as far:
            far.replies["RCPT"] = lambda session, line: "450 4.2.1 later" if "late@" in line else None
            with Instance(round_trip(back, far, delay_warning_time="1s", confirm_delay_cleared="yes", **SOON)) as mx:
                send(mx.port, "ada@sender.example", ["late@rcpt.example"], mail("slow", "text\r\n"), mail="ENVID=E1")
                send(mx.port, "ada@sender.example", ["late@rcpt.example"], mail("not told"), rcpt="NOTIFY=FAILURE")
                whole, text, status, returned = report_of(back.wait_messages(1)[0])
                self.assertEqual(whole["Subject"], "Delayed Mail (still being retried)")
                self.assertIn("more than 1 hour(s)", text)
                self.assertEqual(status[0]["Original-Envelope-Id"], "E1")
                self.assertEqual((status[1]["Action"], status[1]["Status"]), ("delayed", "4.2.1"))
                self.assertTrue(status[1]["Will-Retry-Until"])
                self.assertEqual(returned.get_content_type(), "text/rfc822-headers")
                mx.kill("qmgr")
                eventually(lambda: len(re.findall(r"status=deferred", mx.log())) >= 8, "more tries")
                far.replies.clear()
                mx.wait_empty_queue()
                whole, _, status, _ = report_of(back.messages[-1])
                self.assertEqual(whole["Subject"], "Successful Mail Delivery Report")
                self.assertEqual(status[1]["Final-Recipient"], "rfc822; late@rcpt.example")
                # A qmgr that was killed before it knew of the delivery may deliver the same notice again, but makes
                # no second one.
                self.assertEqual(len({report_of(m)[0]["Message-ID"] for m in back.messages}), 2)

    def test_success_is_told_as_relayed_and_as_expanded_where_nobody_else_will(self):
        with Peer() as back, Peer(["PIPELINING", "8BITMIME"]) as far:
            with Instance(round_trip(back, far), start=False) as mx:
                aliases = mx.write("aliases", "list@local.test.example a@rcpt.example, b@rcpt.example\n")
                mx.set(virtual_alias_maps=f"texthash:{aliases}")
                mx.start()
                send(mx.port, "ada@sender.example", ["one@rcpt.example"], mail(), mail="RET=FULL ENVID=a+2Bb",
                     rcpt="NOTIFY=SUCCESS ORCPT=rfc822;first+2Bhop@rcpt.example")
                _, _, status, returned = report_of(back.wait_messages(1)[0])
                self.assertEqual(status[0]["Original-Envelope-Id"], "a+b")
                self.assertEqual((status[1]["Action"], status[1]["Original-Recipient"]),
                                 ("relayed", "rfc822; first+hop@rcpt.example"))
                self.assertEqual(returned.get_content_type(), "text/rfc822-headers")
                send(
                    mx.port,
                    "ada@sender.example",
                    ["list@local.test.example"],
                    mail("all"),
                    rcpt="NOTIFY=SUCCESS,FAILURE",
                )
                _, _, status, _ = report_of(back.wait_messages(2)[1])
                self.assertEqual([(s["Final-Recipient"], s["Action"]) for s in status[1:]],
                                 [("rfc822; list@local.test.example", "expanded")])
                mx.wait_empty_queue()
                self.assertEqual(sorted(r for m in far.messages for r in m.recipients),
                                 ["a@rcpt.example", "b@rcpt.example", "one@rcpt.example"])
                self.assertEqual(len(back.messages), 2)
                self.assertEqual(far.violations, [])

    def test_the_postmaster_gets_copies_and_what_could_not_be_returned(self):
        with Peer() as back, Peer() as far:
            back.replies["RCPT"] = lambda session, line: "550 5.1.1 gone" if "eve@" in line else None
            far.replies["RCPT"] = "550 5.2.2 full"
            with Instance(round_trip(back, far, notify_classes="bounce, 2bounce",
                                     bounce_notice_recipient="copies@postmaster.example",
                                     **{"2bounce_notice_recipient": "oncall@postmaster.example"})) as mx:
                send(mx.port, "ada@sender.example", ["x@rcpt.example"], mail("private", "secret\r\n"))
                copy, notice = sorted(back.wait_messages(2), key=lambda m: m.sender == "")
                self.assertEqual((copy.sender, copy.recipients),
                                 ("double-bounce@mx.test.example", ["copies@postmaster.example"]))
                self.assertNotIn(b"secret", copy.content)
                self.assertIn(b"Subject: Postmaster Copy: Undelivered Mail\r\n", copy.content)
                self.assertEqual((notice.sender, notice.recipients), ("", ["ada@sender.example"]))
                mx.wait_empty_queue()
                send(mx.port, "eve@sender.example", ["x@rcpt.example"], mail("from eve"))
                mx.wait_empty_queue()
                double = [m for m in back.messages if m.recipients == ["oncall@postmaster.example"]]
                self.assertEqual([m.sender for m in double], ["double-bounce@mx.test.example"])
                self.assertIn(b"Subject: from eve\r\n", double[0].content)
                back.replies["RCPT"] = "550 5.1.1 nobody"
                send(mx.port, "eve@sender.example", ["x@rcpt.example"], mail("into the void"))
                mx.wait_log("undeliverable postmaster notification discarded")
                mx.wait_empty_queue()
                self.assertEqual(len(back.messages), 4)

    def test_with_soft_bounce_refused_mail_waits(self):
        with Peer() as back, Peer() as far:
            far.replies["RCPT"] = "550 5.1.1 nobody"
            with Instance(round_trip(back, far, soft_bounce="yes", **SOON)) as mx:
                send(mx.port, "ada@sender.example", ["x@rcpt.example"], mail())
                mx.wait_log(r"(?s)(dsn=5\.1\.1, status=SOFTBOUNCE .*){2}")
                self.assertEqual(back.messages, [])

    def test_notices_speak_in_the_words_of_the_template_file(self):
        with Peer() as back, Peer() as far:
            far.replies["RCPT"] = "550 5.1.1 nobody"
            with Instance(round_trip(back, far, enable_threaded_bounces="yes"), start=False) as mx:
                words = mx.write("bounce.cf", "failure_template = <<EOF\nCharset: utf-8\nSubject: Zurück\n\nEOF\n")
                mx.set(bounce_template_file=words)
                wrong = mx.tool("penstock", "check")
                self.assertRegex(
                    wrong.stdout,
                    r"error: \S+/main\.cf:\d+: bounce_template_file: \S+/bounce.cf: line 3: Subject: only ASCII",
                )
                self.assertNotEqual(wrong.returncode, 0)
                mx.start()  # it starts anyway: any text is better than none
                content = mail("lost")
                send(mx.port, "ada@sender.example", ["x@rcpt.example"], content)
                self.assertEqual(
                    report_of(back.wait_messages(1)[0])[0]["Subject"], "Undelivered Mail Returned to Sender"
                )
                mx.write(
                    "bounce.cf",
                    "failure_template = <<EOF\nCharset: utf-8\nFrom: Post <post>\nSubject: =?utf-8?q?Zur=C3=BCck?=\n"
                    "\nGrüße von $myhostname\nEOF\n",
                )
                mx.kill("bounce")
                send(mx.port, "ada@sender.example", ["x@rcpt.example"], content)
                whole, text, status, _ = report_of(back.wait_messages(2)[1])
                self.assertEqual((whole["Subject"], whole["From"]), ("Zurück", "Post <post@mx.test.example>"))
                self.assertIn("Grüße von mx.test.example\r\n", text)
                self.assertEqual(whole["In-Reply-To"], email.message_from_bytes(content)["Message-ID"])
                self.assertEqual(status[1]["Final-Recipient"], "rfc822; x@rcpt.example")

    def test_success_and_first_tries_are_told_in_the_words_of_the_template_file(self):
        with Peer() as back, Peer(["PIPELINING", "8BITMIME"]) as far:
            with Instance(round_trip(back, far), start=False) as mx:
                mx.set(
                    bounce_template_file=mx.write(
                        "bounce.cf",
                        "".join(
                            f"{kind}_template = <<EOF\nFrom: Post <{kind}>\nSubject: Of {kind}\n\n"
                            f"The words of {kind} by $myhostname\nEOF\n"
                            for kind in ("success", "verify")
                        ),
                    )
                )
                mx.start()
                send(mx.port, "ada@sender.example", ["x@rcpt.example"], mail(), rcpt="NOTIFY=SUCCESS")
                told = [report_of(back.wait_messages(1)[0])]
                for number, words in enumerate((["-v"], ["-bv"]), 2):  # a message and a probe
                    subprocess.run(
                        [
                            os.path.join(BIN, "sendmail"),
                            "-C",
                            mx.etc,
                            *words,
                            "-f",
                            "ada@sender.example",
                            "x@rcpt.example",
                        ],
                        input=b"Subject: s\n\ntext\n",
                        stdout=subprocess.DEVNULL,
                        check=True,
                        timeout=60,
                    )
                    told.append(report_of(back.wait_messages(number)[-1]))
                for kind, (whole, text, status, _) in zip(("success", "verify", "verify"), told):
                    self.assertEqual(
                        (whole["Subject"], whole["From"]), (f"Of {kind}", f"Post <{kind}@mx.test.example>")
                    )
                    self.assertIn(f"The words of {kind} by mx.test.example\r\n", text)
                    self.assertEqual(status[1]["Final-Recipient"], "rfc822; x@rcpt.example")

    def test_bounce_size_limit_says_up_to_where_the_whole_message_is_returned(self):
        with Peer() as back, Peer() as far:
            far.replies["RCPT"] = "550 5.1.1 nobody"
            with Instance(round_trip(back, far, bounce_size_limit="4000")) as mx:
                for number, (lines, kind) in enumerate(((20, "message/rfc822"), (100, "text/rfc822-headers")), 1):
                    send(
                        mx.port,
                        "ada@sender.example",
                        ["x@rcpt.example"],
                        mail(f"of {lines} lines", body=("x" * 60 + "\r\n") * lines),
                    )
                    notice = back.wait_messages(number)[-1]
                    self.assertEqual(report_of(notice)[3].get_content_type(), kind)
                    self.assertEqual(
                        notice.content.count(b"x" * 60 + b"\r\n"), lines if kind == "message/rfc822" else 0
                    )
                    self.assertIn(b"Subject: of %d lines\r\n" % lines, notice.content)

    def test_no_notice_is_lost_when_bounce_or_qmgr_is_killed(self):
        with Peer() as back, Peer() as far:
            far.replies["RCPT"] = lambda session, line: "550 5.1.1 nobody" if "no" in line else None
            with Instance(round_trip(back, far, **SOON)) as mx:
                total = 24
                for i in range(total):
                    send(mx.port, "ada@sender.example", [f"no{i}@rcpt.example", f"yes{i}@rcpt.example"], mail(str(i)))
                    if i % 8 == 5:
                        mx.kill("bounce" if i % 16 == 5 else "qmgr")
                        eventually(lambda: answers(mx.port), "smtpd answers")
                mx.wait_empty_queue(60)
                seen = collections.Counter(int(re.search(rb"Final-Recipient: rfc822; no(\d+)@", m.content)[1])
                                           for m in back.messages)
                self.assertEqual(sorted(seen), list(range(total)))

    def test_eight_bit_mail_is_converted_for_a_host_without_8bitmime_and_its_notice_too(self):
        head = "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\nContent-Transfer-Encoding: 8bit\r\n"
        text = "Grüße = süß \r\n" * 3
        body = ("--b\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n" + text +
                "--b\r\nContent-Type: text/plain\r\n\r\n.plain\r\n--b--\r\n")
        content = mail("hello", extra=head, body=body)
        big = mail("big", extra="MIME-Version: 1.0\r\nContent-Type: application/x-data\r\n"
                                "Content-Transfer-Encoding: 8bit\r\n", body="ü.\r\n" * 60000)
        plain = ["PIPELINING", "CHUNKING", "SIZE 0", "DSN"]
        with Peer(plain) as back, Peer(plain) as far:
            far.replies["RCPT"] = lambda session, line: "550 5.1.1 nobody" if "gone@" in line else None
            with Instance(round_trip(back, far)) as mx:
                send(mx.port, "ada@sender.example", ["ben@rcpt.example"], content, mail="BODY=8BITMIME")
                got = far.wait_messages(1)[0]
                self.assertEqual(got.via, "DATA")
                self.assertEqual(max(got.content) & 0x80, 0)
                parts = list(email.message_from_bytes(got.content).get_payload())
                self.assertEqual(parts[0].get_payload(decode=True) + b"\r\n", text.encode())
                self.assertEqual(parts[1].get_payload(decode=True).strip(), b".plain")
                send(mx.port, "ada@sender.example", ["ben@rcpt.example"], big, mail="BODY=8BITMIME")
                got = far.wait_messages(2)[1]
                self.assertEqual(
                    email.message_from_bytes(got.content).get_payload(decode=True), "ü.\r\n".encode() * 60000
                )
                send(mx.port, "ada@sender.example", ["gone@rcpt.example"], content, mail="BODY=8BITMIME")
                returned = report_of(back.wait_messages(1)[0])[3].get_payload()[0]
                self.assertEqual(max(back.messages[0].content) & 0x80, 0)
                self.assertEqual(returned.get_payload()[0].get_payload(decode=True) + b"\r\n", text.encode())
                self.assertEqual(back.violations + far.violations, [])


class RecipientsInUtf8(Suite):
    def test_an_orcpt_in_utf8_is_passed_on_and_comes_back(self):
        for features, passed in (["SMTPUTF8"], "andré@first.example"), ([], r"andr\x{E9}@first.example"):
            with self.subTest(features), Peer() as back, Peer(["PIPELINING", "8BITMIME", "DSN", *features]) as far:
                far.replies["RCPT"] = lambda session, line: "550 5.1.1 nobody" if "gone@" in line else None
                with Instance(round_trip(back, far, smtputf8_enable="yes")) as mx:
                    for to in ("here", "gone"):
                        send(mx.port, "ada@sender.example", [to + "@rcpt.example"], mail("plain"),
                             mail="SMTPUTF8 RET=HDRS", rcpt="NOTIFY=FAILURE ORCPT=utf-8;andré@first.example")
                    got = far.wait_messages(1)[0]
                    self.assertEqual(got.recipient_parameters, [["NOTIFY=FAILURE", "ORCPT=utf-8;" + passed]])
                    self.assertEqual("SMTPUTF8" in got.parameters, bool(features))
                    # Nothing else in this notice is beyond ASCII, so it may go to a host without SMTPUTF8.
                    notice = back.wait_messages(1)[0]
                    _, _, status, returned = report_of(notice)
                    self.assertEqual(status[1]["Original-Recipient"], r"utf-8; andr\x{E9}@first.example")
                    self.assertEqual(returned.get_content_type(), "text/rfc822-headers")
                    mx.wait_empty_queue()
                    self.assertEqual((far.violations, back.violations), ([], []))

    def test_a_header_that_comes_back_in_utf8_is_of_the_global_form(self):
        with Peer(["PIPELINING", "8BITMIME", "SMTPUTF8"]) as back, Peer(["PIPELINING", "8BITMIME", "SMTPUTF8"]) as far:
            far.replies["RCPT"] = "550 5.1.1 nobody"
            with Instance(round_trip(back, far, smtputf8_enable="yes")) as mx:
                send(
                    mx.port,
                    "ada@sender.example",
                    ["bén@rcpt.example"],
                    mail("grüße"),
                    mail="SMTPUTF8 BODY=8BITMIME RET=HDRS",
                    rcpt="ORCPT=utf-8;andré@first.example",
                )
                notice = back.wait_messages(1)[0]
                self.assertIn("SMTPUTF8", notice.parameters)
                text = notice.content.decode()
                self.assertIn("\r\nContent-Type: message/global-headers\r\n", text)
                self.assertIn("\r\nFinal-Recipient: utf-8; bén@rcpt.example\r\n", text)
                self.assertIn("\r\nOriginal-Recipient: utf-8; andré@first.example\r\n", text)
                self.assertIn("\r\nSubject: grüße\r\n", text)


class HeadersInUtf8(Suite):
    def outcome(self, setting, to):
        """What the peer without SMTPUTF8 got of a message with a header in UTF-8, and the bounce, if any."""
        with Peer() as back, Peer(["PIPELINING", "8BITMIME", "CHUNKING"]) as far:
            settings = round_trip(back, far, smtputf8_enable="yes", smtp_utf8_header_without_smtputf8=setting)
            with Instance(settings) as mx:
                content = mail("grüße")
                send(mx.port, "ada@sender.example", [to], content, mail="SMTPUTF8 BODY=8BITMIME")
                # Sent after it, so that the log then has the result of the first.
                send(mx.port, "ada@sender.example", ["last@rcpt.example"], mail("ascii"))
                eventually(lambda: any(m.recipients == ["last@rcpt.example"] for m in far.messages), "the last arrives")
                mx.wait_empty_queue()
                self.assertEqual((far.violations, back.violations), ([], []))
                got = [m for m in far.messages if m.recipients != ["last@rcpt.example"]]
                for m in got:
                    self.assertIsNone(without_trace(m.content, content))
                    self.assertNotIn("SMTPUTF8", m.parameters)
                return got, [report_of(m) for m in back.messages]

    def returned(self, setting, to, why):
        got, notices = self.outcome(setting, to)
        self.assertEqual((got, len(notices)), ([], 1))
        whole, text, _, _ = notices[0]
        self.assertEqual(whole["Subject"], "Undelivered Mail Returned to Sender")
        self.assertIn(
            "SMTPUTF8 is required, but was not offered by host 127.0.0.1[127.0.0.1]: " + why, " ".join(text.split())
        )
        self.assertIn("\nStatus: 5.6.7\n", whole.as_string().replace("\r\n", "\n"))

    def test_a_host_without_smtputf8_gets_such_mail_where_that_is_asked_for(self):
        got, notices = self.outcome("yes", "plain@rcpt.example")
        self.assertEqual((len(got), notices), (1, []))

    def test_else_it_comes_back_and_the_notice_says_that_it_is_the_header(self):
        self.returned("no", "plain@rcpt.example", "the message header is in UTF-8")

    def test_mail_to_an_address_in_utf8_always_comes_back(self):
        for setting in ("no", "yes"):
            with self.subTest(setting=setting):
                self.returned(
                    setting,
                    "bén@rcpt.example",
                    "the recipient's address is in UTF-8" if setting == "yes" else "the message header is in UTF-8",
                )


if __name__ == "__main__":
    unittest.main()
