"""header_checks, mime_header_checks, nested_header_checks and body_checks of incoming mail, each action by name; and
masquerading."""
import email
import os
import subprocess

from harness import *

BOX = "ada@virtual.test.example"
NESTED = (b"Subject: outer\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed;\r\n boundary=\"=b\"\r\n\r\n"
          b"--=b\r\nContent-Type: text/plain\r\nX-Part: one\r\n\r\npart text\r\n"
          b"--=b\r\nContent-Type: message/rfc822\r\n\r\nSubject: inner\r\nX-Inner: two\r\n\r\ninner text\r\n--=b--\r\n")


def text(*header, body="body"):
    return ("\r\n".join(header) + "\r\n\r\n" + body + "\r\n").encode()


class Checks(Suite):
    def instance(self, settings=None, header="", mime="", nested="", body="", boxes=("ada", "bob"), **more):
        """An instance with these rules as regexp tables."""
        pairs = {f"{n}@virtual.test.example": f"{n}/" for n in boxes}
        mx = Instance(
            {"virtual_mailbox_maps": inline(pairs), "smtpd_peername_lookup": "no", **(settings or {})},
            start=False,
            **more,
        )
        self.addCleanup(mx.close)
        for name, rules in (("header_checks", header), ("mime_header_checks", mime), ("nested_header_checks", nested),
                            ("body_checks", body)):
            if rules:
                mx.set(**{name: "regexp:" + mx.write(name, rules)})
            elif name not in (settings or {}):
                mx.set(**{name: ""})
        mx.start()
        return mx

    def box(self, mx, name="ada"):
        return [strip_trace(m, b"\n" if b"\r\n" not in m else b"\r\n")[1].replace(b"\r\n", b"\n")
                for m in mx.virtual_box(name).messages()]


class Lines(Checks):
    """Actions that change, drop or only log a line."""

    def test_ignore_strip_replace_prepend_warn_info_and_dunno(self):
        mx = self.instance(
            header="/^X-Ignore:/ IGNORE\n/^X-Strip:/ STRIP why not\n/^Subject: (.*)old/ REPLACE Subject: ${1}new\n"
            "/^To:/ PREPEND X-Before: to\n/^X-Warn:/ WARN look here\n/^X-Info:/ INFO\n/^X-Dunno:/ DUNNO\n"
            "/^X-/ REJECT not reached\n",
            body="/^drop me$/ IGNORE\n/^old (.*)$/ REPLACE new $1\n/^here$/ PREPEND there\n/^gone$/ STRIP\n"
            "/^warn/ WARN body\n",
        )
        send(
            mx.port,
            "me@sender.example",
            [BOX],
            text(
                "X-Ignore: a",
                " folded",
                "X-Strip: b",
                "Subject: very old",
                "To: x@y.example",
                "X-Warn: c",
                "X-Info: d",
                "X-Dunno: e",
                "Date: now",
                "Message-ID: <1@x>",
                "From: a@b.example",
                body="drop me\r\nold line\r\nhere\r\ngone\r\nwarn me\r\n..\r\nend",
            ),
        )
        mx.virtual_box("ada").wait(1)
        self.assertEqual(self.box(mx), [
            b"Subject: very new\nX-Before: to\nTo: x@y.example\nX-Warn: c\nX-Info: d\nX-Dunno: e\nDate: now\n"
            b"Message-ID: <1@x>\nFrom: a@b.example\n\nnew line\nthere\nhere\nwarn me\n..\nend\n"])
        who = (r"from unknown\[127\.0\.0\.1\]; from=<me@sender\.example> to=<ada@virtual\.test\.example> "
               r"proto=ESMTP helo=<client\.example>")
        for said in (
            rf"\w+: strip: header X-Strip: b {who}: why not",
            rf"replace: header Subject: very old {who}: Subject: very new",
            rf"prepend: header To: x@y.example {who}: X-Before: to",
            rf"warning: header X-Warn: c {who}: look here",
            rf"info: header X-Info: d {who}$",
            rf"replace: body old line {who}: new line",
            rf"prepend: body here {who}: there",
            rf"strip: body gone {who}",
            rf"warning: body warn me {who}: body",
        ):
            mx.wait_log(r"(?m)" + said)
        self.assertNotIn("X-Ignore", mx.log())

    def test_folded_fields_are_one_text_and_long_messages_keep_what_is_not_matched(self):
        mx = self.instance(header="/^Subject: one[[:space:]]+two/ REPLACE Subject: joined\n", body="/^x+$/ IGNORE\n")
        lines = [f"line {i} " + "y" * (i % 300) for i in range(20000)]
        send(
            mx.port,
            "me@sender.example",
            [BOX],
            text(
                "Subject: one",
                "\ttwo",
                "From: a@b.example",
                "Date: d",
                "Message-ID: <m@x>",
                body="xxx\r\n" + "\r\n".join(lines),
            ),
        )
        mx.virtual_box("ada").wait(1)
        self.assertEqual(self.box(mx)[0].decode(),
                         "Subject: joined\nFrom: a@b.example\nDate: d\nMessage-ID: <m@x>\n\n" + "\n".join(lines) + "\n")

    def test_kinds_of_headers_and_if_endif(self):
        mx = self.instance(
            {"local_header_rewrite_clients": ""},
            header="if /^Subject:/\n/outer/ REPLACE Subject: outer seen\nendif\n/^X-/ REJECT\n",
            mime="/^X-Part:/ IGNORE\n/^Content-Type: message/ PREPEND X-Mime: 1\n",
            nested="/^X-Inner:/ STRIP\n",
            body="/^--=b$/ WARN delimiter\n/text$/ REPLACE text\n",
        )
        send(mx.port, "me@sender.example", [BOX], NESTED)
        mx.virtual_box("ada").wait(1)
        wanted = NESTED.replace(b"Subject: outer", b"Subject: outer seen").replace(b"X-Part: one\r\n", b"").replace(
            b"X-Inner: two\r\n", b"").replace(b"Content-Type: message", b"X-Mime: 1\r\nContent-Type: message").replace(
            b"part text", b"text").replace(b"inner text", b"text")
        self.assertEqual(self.box(mx), [wanted.replace(b"\r\n", b"\n")])
        mx.wait_log("warning: body --=b from")

    def test_without_mime_processing_parts_are_body(self):
        mx = self.instance({"disable_mime_input_processing": "yes", "local_header_rewrite_clients": ""},
                           mime="/^X-Part:/ REJECT\n", nested="/./ REJECT\n")
        send(mx.port, "me@sender.example", [BOX], NESTED)
        mx.virtual_box("ada").wait(1)
        self.assertEqual(self.box(mx), [NESTED.replace(b"\r\n", b"\n")])

    def test_no_header_body_checks_for_one_service(self):
        port = free_port()
        mx = self.instance(header="/^Subject: bad/ REJECT\n", services={
            f"127.0.0.1:{port}": "inet n - n - - smtpd -o receive_override_options=no_header_body_checks"})
        with self.assertRaises(Refused):
            send(mx.port, "me@sender.example", [BOX], text("Subject: bad"))
        send(port, "me@sender.example", [BOX], text("Subject: bad"))
        mx.virtual_box("ada").wait(1)


class Messages(Checks):
    """Actions on the whole message."""

    def test_reject_with_and_without_status_and_in_the_body(self):
        mx = self.instance(
            header="/^Subject: a/ REJECT\n/^Subject: b/ REJECT no b here\n/^Subject: c/ REJECT 4.7.1 later\n"
            "/^Subject: d/ REJECT 5.7.9 by policy\n",
            body="/^virus/ REJECT no viruses\n",
        )
        for subject, reply in (
            ("a", "550 5.7.1 message content rejected"),
            ("b", "550 5.7.1 no b here"),
            ("c", "451 4.7.1 later"),
            ("d", "550 5.7.9 by policy"),
            ("e", "550 5.7.1 no viruses"),
        ):
            with self.assertRaises(Refused) as refused:
                send(
                    mx.port,
                    "me@sender.example",
                    [BOX],
                    text("Subject: " + subject, body="virus\r\n" + "x\r\n" * 100000),
                )
            self.assertEqual(refused.exception.reply, reply)
        mx.wait_log(r"reject: header Subject: b from unknown\[127\.0\.0\.1\]; from=<me@sender\.example> "
                    r"to=<ada@virtual\.test\.example> proto=ESMTP helo=<client\.example>: 5\.7\.1 no b here")
        mx.wait_log(r"reject: body virus from .*: 5\.7\.1 no viruses")
        send(mx.port, "me@sender.example", [BOX], text("Subject: fine"))
        mx.virtual_box("ada").wait(1)
        mx.wait_empty_queue()
        self.assertEqual(len(self.box(mx)), 1)

    def test_discard(self):
        mx = self.instance(header="/^Subject: away/ DISCARD silently\n")
        send(mx.port, "me@sender.example", [BOX], text("Subject: away", body="x\r\n" * 100000))
        send(mx.port, "me@sender.example", [BOX], text("Subject: stays"))
        mx.virtual_box("ada").wait(1)
        mx.wait_empty_queue()
        self.assertEqual([b"away" in m for m in self.box(mx)], [False])
        mx.wait_log("discard: header Subject: away from .*: silently")

    def test_hold_and_release(self):
        mx = self.instance(header="/^Subject: wait/ HOLD\n")
        send(mx.port, "me@sender.example", [BOX], text("Subject: wait"))
        mx.wait_log("hold: header Subject: wait from")
        eventually(lambda: [m["queue_name"] for m in mx.queue()] == ["hold"], "it is on hold")
        mx.tool("pensuper", "-H", "ALL", check=True)
        mx.virtual_box("ada").wait(1)
        mx.wait_empty_queue()

    def test_redirect_and_bcc(self):
        mx = self.instance(header="/^Subject: other/ REDIRECT bob@virtual.test.example\n"
                                  "/^Subject: copy/ BCC bob@virtual.test.example\n")
        send(mx.port, "me@sender.example", [BOX], text("Subject: other"))
        mx.virtual_box("bob").wait(1)
        mx.wait_empty_queue()
        self.assertEqual(self.box(mx), [])
        send(mx.port, "me@sender.example", [BOX], text("Subject: copy"))
        mx.virtual_box("bob").wait(2)
        mx.virtual_box("ada").wait(1)
        mx.wait_log(r"redirect: header Subject: other from .*: bob@virtual\.test\.example")
        mx.wait_log(r"bcc: header Subject: copy from .*: bob@virtual\.test\.example")

    def test_filter(self):
        with Peer() as peer:
            mx = self.instance(header=f"/^Subject: scan/ FILTER smtp:[127.0.0.1]:{peer.port}\n")
            send(mx.port, "me@sender.example", [BOX], text("Subject: scan"))
            self.assertEqual(peer.wait_messages(1)[0].recipients, [BOX])
            mx.wait_empty_queue()
            self.assertEqual(self.box(mx), [])
            mx.wait_log("filter: header Subject: scan from")

    def test_pass_ends_all_looking(self):
        mx = self.instance(header="/^X-Trusted: yes/ PASS\n/^Subject:/ REJECT\n", body="/./ REJECT\n")
        send(mx.port, "me@sender.example", [BOX], text("X-Trusted: yes", "Subject: x"))
        mx.virtual_box("ada").wait(1)

    def test_a_table_that_is_gone_or_wrong_takes_no_mail_until_it_is_right(self):
        mx = self.instance(header="/^Subject: a/ WARN\n")
        path = mx.write("header_checks", "if /unclosed\n/./ WARN\nendif\n")
        os.utime(path, (1, 1))
        def refused(subject):
            try:
                send(mx.port, "me@sender.example", [BOX], text(f"Subject: {subject}"))
            except Refused as e:
                return e.reply
            return None
        eventually(lambda: (refused("before") or "").startswith("451 4.3.0"), "mail is put off")
        mx.wait_empty_queue()  # mail accepted before is still on its way
        taken = len(self.box(mx))
        mx.write("header_checks", "/^Subject: never/ WARN\n")
        eventually(lambda: refused("after") is None, "mail is taken again")
        mx.virtual_box("ada").wait(taken + 1)
        self.assertEqual(sum(b"Subject: after\n" in m for m in self.box(mx)), 1)


class Submitted(Checks):
    def sendmail(self, mx, stdin, *words):
        subprocess.run(
            [os.path.join(BIN, "sendmail"), "-C", mx.etc, "-i", *words], input=stdin.encode(), check=True, timeout=60
        )

    def test_what_is_refused_comes_back_to_its_sender(self):
        mx = self.instance(header="/^Subject: bad/ REJECT no such subjects\n")
        self.sendmail(mx, "Subject: bad\n\nthe text\n", "-f", "bob@virtual.test.example", BOX)
        mx.virtual_box("bob").wait(1)
        notice = email.message_from_bytes(mx.virtual_box("bob").messages()[0])
        self.assertEqual(notice.get_content_type(), "multipart/report")
        said = notice.as_string()
        self.assertIn("Status: 5.7.1", said)
        self.assertIn("no such subjects", said)
        self.assertIn("the text", said)
        mx.wait_empty_queue()
        self.assertEqual(self.box(mx), [])
        mx.wait_log(r"reject: header Subject: bad from local; from=<bob@virtual\.test\.example> "
                    r"to=<ada@virtual\.test\.example>: 5\.7\.1 no such subjects")

    def test_masquerading_and_canonical_maps_reach_the_header(self):
        mx = self.instance(
            {
                "masquerade_domains": "test.example",
                "masquerade_exceptions": "root",
                "virtual_mailbox_domains": "virtual.test.example other.example",
                "canonical_maps": inline({"old@other.example": "new@host.test.example"}),
            },
            boxes=("ada",),
        )
        self.sendmail(
            mx,
            "From: Me <me@a.test.example>\nTo: root@b.test.example, old@other.example\n"
            "Cc: plain (a comment)\nBcc: secret@x.example\nSubject: me@a.test.example\n\nme@a.test.example\n",
            "-f",
            "me@a.test.example",
            BOX,
        )
        mx.virtual_box("ada").wait(1)
        got = mx.virtual_box("ada").messages()[0].replace(b"\r\n", b"\n").decode()
        for wanted in (
            "From: Me <me@test.example>\n",
            "To: root@b.test.example, new@test.example\n",
            "Cc: plain@test.example (a comment)\n",
            "Subject: me@a.test.example\n",
            "\n\nme@a.test.example\n",
            "Return-Path: <me@test.example>\n",
        ):
            self.assertIn(wanted, got)
        self.assertNotIn("secret", got)


class Smtp(Checks):
    def test_fields_that_no_message_keeps_and_fields_that_lack(self):
        mx = self.instance({"always_add_missing_headers": "yes", "local_header_rewrite_clients": ""})
        send(
            mx.port,
            "me@sender.example",
            [BOX],
            text("Bcc: x@y.example", "Return-Path: <z@y.example>", "Subject: s", "To: plain"),
        )
        mx.virtual_box("ada").wait(1)
        got = self.box(mx)[0].decode()
        self.assertTrue(got.startswith("Subject: s\nTo: plain\n"), got)
        for name in ("Message-Id: ", "Date: ", "From: me@sender.example\n"):
            self.assertIn("\n" + name, got)


class Sent(Checks):
    """smtp_header_checks and its like, and smtp_generic_maps."""

    def test_smtp_checks_change_what_is_sent_and_nothing_in_the_queue(self):
        for features in (["PIPELINING", "8BITMIME", "CHUNKING"], ["PIPELINING"], []):
            with self.subTest(features), Peer(features=features) as peer:
                peer.replies["DOT"] = ["451 4.2.0 once more"]
                mx = Instance({**relay_to(peer), "local_header_rewrite_clients": "", "minimal_backoff_time": "1s",
                               "maximal_backoff_time": "1s", "queue_run_delay": "1s"}, start=False)
                self.addCleanup(mx.close)
                for name, rules in (
                    ("header", "/^X-Gone:/ IGNORE\n/^Subject:/ REPLACE Subject: seen\n/^To:/ REJECT\n"),
                    ("mime_header", "/^X-Part:/ STRIP\n"),
                    ("nested_header", "/^X-Inner:/ PREPEND X-Before: 1\n"),
                    ("body", "/^part text$/ REPLACE .changed\n"),
                ):
                    mx.set(**{f"smtp_{name}_checks": "regexp:" + mx.write(name, rules)})
                mx.start()
                content = b"X-Gone: a\r\n b\r\nTo: x@y.example\r\n" + NESTED.replace(
                    b"inner text", b"inner \xe4 text\r\n" + b"y" * 70 + b"\r\n" + b"z" * 300000)
                send(mx.port, "me@sender.example", ["u@rcpt.example"], content)
                got = strip_trace(peer.wait_messages(1, seconds=60)[0].content)[1]
                wanted = (
                    content.replace(b"X-Gone: a\r\n b\r\n", b"")
                    .replace(b"Subject: outer", b"Subject: seen")
                    .replace(b"X-Part: one\r\n", b"")
                    .replace(b"X-Inner", b"X-Before: 1\r\nX-Inner")
                    .replace(b"part text", b".changed")
                )
                if "8BITMIME" in features:
                    wanted = wanted.replace(b"z" * 300000, b"\r\n ".join(
                        [b"z" * 998] + [b"z" * 997] * ((300000 - 998) // 997) + [b"z" * ((300000 - 998) % 997)]))
                    self.assertEqual(got, wanted)
                else:
                    self.assertTrue(got.startswith(wanted[:60]), got[:200])
                    self.assertIn(b"=E4", got)
                mx.wait_empty_queue()
                mx.wait_log("replace: header Subject: outer: Subject: seen")
                mx.wait_log("warning: .*smtp_header_checks: no action that can be done here: REJECT")
                self.assertEqual(peer.violations, [])

    def test_generic_addresses_leave_and_local_mail_keeps_its_own(self):
        with Peer() as peer:
            mx = self.instance({**relay_to(peer), "local_header_rewrite_clients": "", "smtp_generic_maps": inline(
                {"me@in.example": "me@isp.example", "@hidden.example": "all@isp.example"})})
            send(mx.port, "me@in.example", ["u@rcpt.example", BOX],
                 text("From: Me <me@in.example>", "To: u@rcpt.example, x@hidden.example", "Subject: me@in.example"))
            message = peer.wait_messages(1)[0]
            self.assertEqual(message.sender, "me@isp.example")
            self.assertEqual(strip_trace(message.content)[1], text(
                "From: Me <me@isp.example>", "To: u@rcpt.example, all@isp.example", "Subject: me@in.example"))
            mx.virtual_box("ada").wait(1)
            self.assertIn(b"From: Me <me@in.example>", self.box(mx)[0])
            mx.wait_empty_queue()

    def test_lmtp_has_settings_of_its_own(self):
        with Peer(lmtp=True) as peer:
            mx = Instance(
                {
                    "relay_domains": "rcpt.example",
                    "local_header_rewrite_clients": "",
                    "transport_maps": inline({"rcpt.example": f"lmtp:[127.0.0.1]:{peer.port}"}),
                },
                start=False,
            )
            self.addCleanup(mx.close)
            mx.set(smtp_header_checks="regexp:" + mx.write("s", "/^To:/ IGNORE\n"),
                   lmtp_header_checks="regexp:" + mx.write("l", "/^Subject:/ IGNORE\n"))
            mx.start()
            send(mx.port, "me@sender.example", ["u@rcpt.example"], text("Subject: x", "To: y@z.example"))
            self.assertEqual(strip_trace(peer.wait_messages(1)[0].content)[1], text("To: y@z.example"))
            mx.wait_empty_queue()

    def test_a_table_that_cannot_be_read_keeps_mail_in_the_queue(self):
        with Peer() as peer:
            mx = Instance({**relay_to(peer), "minimal_backoff_time": "1s", "maximal_backoff_time": "1s"}, start=False)
            self.addCleanup(mx.close)
            mx.set(smtp_header_checks="regexp:" + os.path.join(mx.dir, "rules"))
            mx.start()
            send(mx.port, "me@sender.example", ["u@rcpt.example"], mail("waits"))
            mx.wait_log("status=deferred")
            self.assertEqual(peer.messages, [])
            mx.write("rules", "/^Subject: waits/ REPLACE Subject: goes\n")
            self.assertIn(b"Subject: goes\r\n", peer.wait_messages(1, seconds=60)[0].content)
            mx.wait_empty_queue()


if __name__ == "__main__":
    unittest.main()
