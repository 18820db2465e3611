"""Mail in by SMTP, out by SMTP and into mailboxes; undeliverable mail is returned."""
import email
import email.policy
import os
import pwd

from harness import *


class Delivery(Suite):
    def test_a_message_is_relayed_with_one_received_field_and_nothing_else(self):
        content = mail(body="one\r\n.two\r\n..three\r\n", to="ben@rcpt.example")
        with Peer() as peer, Instance(relay_to(peer)) as mx:
            reply = send(mx.port, "ada@sender.example", ["ben@rcpt.example"], content)
            self.assertRegex(reply, r"^250 2\.0\.0 .*queued as ")
            got = peer.wait_messages(1)[0]
            self.assertEqual(got.sender, "ada@sender.example")
            self.assertEqual(got.recipients, ["ben@rcpt.example"])
            self.assertIsNone(without_trace(got.content, content))
            trace, _ = strip_trace(got.content)
            self.assertEqual(len(trace), 1)
            self.assertTrue(trace[0].startswith(b"Received: from "), trace)
            self.assertIn(b"for <ben@rcpt.example>", trace[0])
            mx.wait_empty_queue()
            mx.wait_log(r"smtp\[\d+\]: \w+: to=<ben@rcpt\.example>, relay=\S+\[127\.0\.0\.1\]:\d+, .*status=sent \(")
            self.assertEqual(peer.violations, [])

    def test_several_recipients_of_one_host_travel_in_one_transaction(self):
        with Peer() as peer, Instance(relay_to(peer)) as mx:
            names = [f"u{i}@rcpt.example" for i in range(20)]
            send(mx.port, "ada@sender.example", names, mail())
            got = peer.wait_messages(1)
            mx.wait_empty_queue()
            self.assertEqual(len(got), 1)
            self.assertEqual(sorted(got[0].recipients), sorted(names))

    def test_a_virtual_mailbox_gets_the_message_with_return_path_and_lf_line_ends(self):
        content = mail(body="one\r\n.two\r\nFrom three\r\n", to="vera@virtual.test.example")
        box = {"vera@virtual.test.example": "vera/"}
        with Instance({"virtual_mailbox_maps": inline(box)}) as mx:
            send(mx.port, "ada@sender.example", ["vera@virtual.test.example"], content)
            text = mx.virtual_box("vera").wait(1)[0]
            self.assertIsNone(without_trace(text, content.replace(b"\r\n", b"\n"), b"\n"))
            trace, _ = strip_trace(text, b"\n")
            names = [t.split(b":")[0] for t in trace]
            self.assertEqual(names, [b"Return-Path", b"X-Original-To", b"Delivered-To", b"Received"])
            self.assertEqual(trace[0], b"Return-Path: <ada@sender.example>")
            self.assertEqual(mx.virtual_box("vera").leftovers(), [])
            mx.wait_log(r"to=<vera@virtual\.test\.example>, relay=virtual, .*dsn=2\.0\.0, status=sent "
                        r"\(delivered to maildir\)")
            if os.geteuid() == 0:
                self.assertEqual(os.stat(mx.virtual_box("vera").path).st_uid, mx.owner_uid)

    def test_a_virtual_mbox_holds_messages_one_after_the_other(self):
        box = {"olga@virtual.test.example": "olga"}
        with Instance({"virtual_mailbox_maps": inline(box)}) as mx:
            for i in range(3):
                send(mx.port, "ada@sender.example", ["olga@virtual.test.example"],
                     mail(f"number {i}", "From here\r\nto there\r\n"))
            mx.wait_empty_queue()
            with open(os.path.join(mx.virtual_base, "olga"), "rb") as raw:
                text = raw.read()
            self.assertEqual(text.count(b"\nFrom ") + 1, 3)
            self.assertEqual(text.count(b"\n>From here\nto there\n\n"), 3)

    def system_user(self):
        if os.geteuid() != 0:
            return pwd.getpwuid(os.geteuid()).pw_name
        for name in ("games", "nobody"):
            try:
                if pwd.getpwnam(name).pw_uid:
                    return name
            except KeyError:
                pass
        self.skipTest("no unprivileged system account")

    def test_a_system_user_gets_mail_as_himself_with_aliases_and_extension(self):
        user = self.system_user()
        aliases = inline({"postmaster": user})
        with Instance({"alias_maps": aliases, "recipient_delimiter": "+"}) as mx:
            for name in (user, user + "+ext", "postmaster"):
                send(mx.port, "ada@sender.example", [name + "@local.test.example"], mail(name))
            got = mx.spool_box(user).wait(3)
            mx.wait_empty_queue()
            self.assertEqual(len(got), 3)
            self.assertEqual(os.stat(mx.spool_box(user).path).st_uid, pwd.getpwnam(user).pw_uid)
            mx.wait_log(r"relay=local, .*status=sent \(delivered to maildir\)")

    def test_an_alias_for_several_becomes_a_new_message(self):
        user = self.system_user()
        with Peer() as peer:
            settings = relay_to(peer)
            aliases = mx_file = None
            settings["alias_maps"] = "texthash:/dev/null"
            with Instance(settings, start=False) as mx:
                aliases = mx.write("aliases", f"team {user}, far@rcpt.example\n")
                mx.set(alias_maps=f"texthash:{aliases}")
                mx.start()
                send(mx.port, "ada@sender.example", ["team@local.test.example"], mail("to the team"))
                far = peer.wait_messages(1)[0]
                self.assertEqual(far.recipients, ["far@rcpt.example"])
                self.assertIn(b"Delivered-To: team@local.test.example\r\n", far.content)
                mx.spool_box(user).wait(1)
                mx.wait_empty_queue()

    def test_a_loop_through_an_alias_ends_in_a_bounce(self):
        with Peer() as peer:
            settings = relay_to(peer, "sender.example")
            settings["alias_maps"] = inline({"round": "round2@local.test.example\\, x@sender.example"})
            with Instance(settings) as mx:
                content = mail("loop", extra="Delivered-To: nobody@local.test.example\r\n")
                send(mx.port, "ada@sender.example", ["nobody@local.test.example"], content)
                report = peer.wait_messages(1)[0]
                self.assertIn(b"5.4.6", report.content)

    def test_an_unknown_local_user_comes_back_as_a_failure_report(self):
        with Peer() as peer, Instance(relay_to(peer, "sender.example")) as mx:
            content = mail("lost", "my precious text\r\n")
            send(mx.port, "ada@sender.example", ["no-such-user@local.test.example"], content,
                 mail="ENVID=QQ1 RET=FULL", rcpt="ORCPT=rfc822;asked+2Bfor@local.test.example")
            got = peer.wait_messages(1)[0]
            self.assertEqual(got.sender, "")
            self.assertEqual(got.recipients, ["ada@sender.example"])
            report = email.message_from_bytes(got.content, policy=email.policy.default)
            self.assertEqual(report.get_content_type(), "multipart/report")
            self.assertEqual(report.get_param("report-type"), "delivery-status")
            self.assertEqual(report["Auto-Submitted"], "auto-replied")
            self.assertTrue(report["From"].startswith("MAILER-DAEMON@") or "MAILER-DAEMON@" in report["From"])
            self.assertTrue(report["Message-ID"] and report["Date"])
            parts = list(report.iter_parts())
            self.assertEqual([p.get_content_type() for p in parts],
                             ["text/plain", "message/delivery-status", "message/rfc822"])
            blocks = parts[1].get_payload()
            self.assertEqual(blocks[0]["Reporting-MTA"], "dns; mx.test.example")
            self.assertEqual(blocks[0]["Original-Envelope-Id"], "QQ1")
            self.assertTrue(blocks[0]["Arrival-Date"])
            self.assertEqual(blocks[1]["Final-Recipient"], "rfc822; no-such-user@local.test.example")
            self.assertEqual(blocks[1]["Original-Recipient"], "rfc822; asked+for@local.test.example")
            self.assertEqual(blocks[1]["Action"], "failed")
            self.assertEqual(blocks[1]["Status"], "5.1.1")
            self.assertIn(content, got.content)  # the original, byte for byte
            mx.wait_empty_queue()

    def test_a_refusal_of_the_next_host_comes_back_with_its_words(self):
        with Peer() as back, Peer() as far:
            far.replies["RCPT"] = lambda session, line: "550 5.2.2 mailbox full" if "full@" in line else None
            settings = {"relay_domains": "rcpt.example, sender.example",
                        "transport_maps": inline({"rcpt.example": f"smtp:[127.0.0.1]:{far.port}",
                                                  "sender.example": f"smtp:[127.0.0.1]:{back.port}"})}
            with Instance(settings) as mx:
                send(mx.port, "ada@sender.example", ["full@rcpt.example", "fine@rcpt.example"], mail())
                self.assertEqual(far.wait_messages(1)[0].recipients, ["fine@rcpt.example"])
                report = back.wait_messages(1)[0].content
                self.assertIn(b"Status: 5.2.2\r\n", report)
                self.assertRegex(report, rb"Diagnostic-Code: smtp; 550[ -]5\.2\.2 mailbox full")
                self.assertIn(b"Final-Recipient: rfc822; full@rcpt.example\r\n", report)
                self.assertNotIn(b"fine@rcpt.example\r\nAction", report)
                mx.wait_empty_queue()

    def test_no_report_is_made_for_the_null_sender_or_with_notify_never(self):
        with Peer() as peer, Instance(relay_to(peer, "sender.example")) as mx:
            send(mx.port, "", ["no-such-user@local.test.example"], mail())
            send(mx.port, "ada@sender.example", ["no-such-user@local.test.example"], mail(), rcpt="NOTIFY=NEVER")
            eventually(lambda: mx.log().count("status=bounced") >= 2, "both failed")
            mx.wait_empty_queue()
            send(mx.port, "ada@sender.example", ["ada@sender.example"], mail("last"))
            self.assertEqual([m.sender for m in peer.wait_messages(1)], ["ada@sender.example"])

    def test_a_success_notice_is_sent_when_asked_for(self):
        box = {"vera@virtual.test.example": "vera/"}
        with Peer() as peer:
            settings = relay_to(peer, "sender.example")
            settings["virtual_mailbox_maps"] = inline(box)
            with Instance(settings) as mx:
                send(mx.port, "ada@sender.example", ["vera@virtual.test.example"], mail(), rcpt="NOTIFY=SUCCESS")
                report = peer.wait_messages(1)[0]
                self.assertEqual(report.sender, "")
                self.assertIn(b"Action: delivered\r\n", report.content)

    def test_it_is_no_open_relay(self):
        with Peer() as peer:
            settings = relay_to(peer)
            settings["mynetworks"] = "192.0.2.0/24"
            with Instance(settings) as mx, Client(mx.port) as client:
                client.expect("MAIL FROM:<ada@sender.example>", "250")
                self.assertRegex(client.command("RCPT TO:<x@elsewhere.example>"), r"^[45]54 [45]\.7\.1 ")
                client.expect("RCPT TO:<x@rcpt.example>", "250")

    def test_links_in_a_mailbox_directory_have_no_effect(self):
        box = {"trap@virtual.test.example": "trap"}
        with Instance({"virtual_mailbox_maps": inline(box)}) as mx:
            victim = mx.write("victim", "precious\n")
            if os.geteuid() == 0:
                os.chown(victim, mx.owner_uid, mx.owner_gid)
            os.symlink(victim, os.path.join(mx.virtual_base, "trap"))
            send(mx.port, "ada@sender.example", ["trap@virtual.test.example"], mail())
            mx.wait_log(r"to=<trap@virtual\.test\.example>, .*status=deferred")
            with open(victim) as text:
                self.assertEqual(text.read(), "precious\n")


if __name__ == "__main__":
    unittest.main()
