"""Content filters behind and before the queue, mail that bypasses them, and copies (bcc)."""
import os
import subprocess
import threading

from content_filter import Filter
from harness import *

BOXES = ("ada", "bob", "eve", "copy", "sender")
# Work that the smtpd behind an after-queue filter skips because it is done; behind a before-queue filter it skips
# nothing.
DONE = "no_unknown_recipient_checks,no_address_mappings,no_header_body_checks,no_milters"
CHECKED = "no_unknown_recipient_checks"


class Filtered(Suite):
    """An instance whose mail passes `scan`, which gives it back to an smtpd of its own."""

    def instance(self, scan=None, settings=None, services=None, start=True, back=None, override=DONE):
        boxes = {f"{n}@virtual.test.example": f"{n}/" for n in BOXES}
        back = back or free_port()
        if scan is not None:
            scan.back = back
        return Instance(
            {
                "virtual_mailbox_maps": inline(boxes),
                "minimal_backoff_time": "1h",
                "maximal_backoff_time": "1h",
                "smtpd_error_sleep_time": "0",
                **(settings or {}),
            },
            {
                "scan": "unix - - n - 10 smtp\n  -o smtp_send_xforward_command=yes",
                f"127.0.0.1:{back}": "inet n - n - 100 smtpd\n"
                "  -o content_filter= -o smtpd_proxy_filter=\n"
                f"  -o receive_override_options={override}\n"
                "  -o smtpd_recipient_restrictions=permit_mynetworks,reject\n"
                "  -o smtpd_authorized_xforward_hosts=127.0.0.0/8",
                **(services or {}),
            },
            start=start,
        )

    def only(self, mx, box, count=1):
        """Returns a box's messages: exactly so many once the queue is empty."""
        mx.virtual_box(box).wait(count)
        mx.wait_empty_queue()
        found = mx.virtual_box(box).messages()
        self.assertEqual(len(found), count)
        return found


class AfterQueue(Filtered):
    def after(self, scan, settings=None, **more):
        return self.instance(scan, {"content_filter": f"scan:[127.0.0.1]:{scan.port}", **(settings or {})}, **more)

    def test_mail_goes_through_the_filter_once_with_what_aliases_made_of_it(self):
        with Filter() as scan, self.after(
            scan,
            {
                "virtual_alias_maps": inline(
                    {"all@virtual.test.example": "ada@virtual.test.example, bob@virtual.test.example"}
                ),
                "always_bcc": "copy@virtual.test.example",
            },
        ) as mx:
            content = mail("through", body=".dot\r\nend\r\n")
            reply = send(mx.port, "s@sender.example", ["all@virtual.test.example"], content)
            for box in ("ada", "bob", "copy"):
                got = self.only(mx, box)[0].replace(b"\n", b"\r\n")
                self.assertTrue(got.endswith(content), got)
                self.assertEqual(got.count(b"X-Filtered: yes"), 1)
                self.assertEqual(got.count(b"\r\nReceived: "), 2)
            self.assertEqual(len(scan.messages), 1)
            self.assertEqual(
                sorted(scan.messages[0].recipients), [f"{n}@virtual.test.example" for n in ("ada", "bob", "copy")]
            )
            self.assertEqual(scan.violations, [])
            # Log and filter know the original client.
            first = reply.split()[-1]
            told = scan.messages[0].xforward
            self.assertEqual([told[n] for n in ("ADDR", "HELO", "PROTO", "IDENT", "SOURCE")],
                             ["127.0.0.1", "client.example", "ESMTP", first, "REMOTE"])
            mx.wait_log(rf"client=\S+\[127\.0\.0\.1\], orig_queue_id={first}, orig_client=localhost\[127\.0\.0\.1\]")

    def test_local_submission_is_filtered_and_system_mail_is_not(self):
        with Filter() as scan, self.after(scan) as mx:
            done = subprocess.run([os.path.join(BIN, "sendmail"), "-C", mx.etc, "-f", "sender@virtual.test.example",
                                   "ada@virtual.test.example"], input=b"Subject: local\n\nhello\n", timeout=60)
            self.assertEqual(done.returncode, 0)
            self.assertIn(b"X-Filtered: yes", self.only(mx, "ada")[0])
            scan.verdict = lambda content: "550 5.7.1 looks like a worm"
            send(mx.port, "sender@virtual.test.example", ["bob@virtual.test.example"], mail("worm"))
            notice = self.only(mx, "sender")[0]
            self.assertIn(b"looks like a worm", notice)
            self.assertNotIn(b"X-Filtered: yes", notice)
            self.assertEqual(mx.virtual_box("bob").messages(), [])

    def test_mail_waits_while_the_filter_is_down_and_pencat_tells_why(self):
        port = free_port()
        with self.instance(settings={"content_filter": "scan:", "default_filter_nexthop": f"[127.0.0.1]:{port}"},
                           back=(back := free_port())) as mx:
            reply = send(mx.port, "s@sender.example", ["ada@virtual.test.example"], mail("late"))
            eventually(lambda: [m for m in mx.queue() if m["queue_name"] == "deferred"], "deferred")
            self.assertIn("Connection refused", mx.queue()[0]["recipients"][0]["delay_reason"])
            self.assertIn("content_filter: scan:\n", mx.tool("pencat", "-e", reply.split()[-1], check=True).stdout)
            with Filter(back, port=port):
                mx.flush()
                self.assertIn(b"X-Filtered: yes", self.only(mx, "ada")[0])

    def test_a_filter_that_dies_in_the_middle_of_the_data_gets_the_mail_again(self):
        with Filter() as scan, self.after(scan) as mx:
            scan.cut_data = [100_000]
            send(
                mx.port,
                "s@sender.example",
                ["ada@virtual.test.example"],
                mail("cut", body="x" * 70 + "\r\n" + "y\r\n" * 100_000),
            )
            eventually(lambda: [m for m in mx.queue() if m["queue_name"] == "deferred"], "deferred")
            self.assertEqual(mx.virtual_box("ada").messages(), [])
            mx.flush()
            self.only(mx, "ada")

    def test_no_mail_is_lost_when_qmgr_dies_while_it_is_in_the_filter(self):
        with Filter() as scan, self.after(scan, {"minimal_backoff_time": "1s"}) as mx:
            there, go_on = threading.Event(), threading.Event()
            self.addCleanup(go_on.set)

            def wait(message):
                there.set()
                go_on.wait(60)
            scan.before = wait
            send(mx.port, "s@sender.example", ["ada@virtual.test.example"], mail("in flight"))
            self.assertTrue(there.wait(60))
            self.assertEqual(mx.kill("qmgr"), 1)
            go_on.set()
            # At least once: both the filter and the next qmgr may repeat it.
            mx.virtual_box("ada").wait(1, 60)
            eventually(lambda: self.flushed_empty(mx), lambda: f"queue empty: {mx.log()[-3000:]}", 60)
            for got in mx.virtual_box("ada").messages():
                self.assertIn(b"Subject: in flight", got)

    def flushed_empty(self, mx):
        try:
            mx.flush()
            return mx.queue() == []
        except (OSError, ConnectionError):
            return False  # qmgr is being started again

    def test_a_filter_that_hands_back_to_where_the_mail_came_from_is_no_endless_loop(self):
        with Filter() as scan, self.after(scan, {"hopcount_limit": "5"}) as mx:
            scan.back = mx.port
            send(mx.port, "sender@virtual.test.example", ["ada@virtual.test.example"], mail("round"))
            self.assertIn(b"too many hops", self.only(mx, "sender")[0])
            self.assertEqual(mx.virtual_box("ada").messages(), [])
            self.assertLessEqual(len(scan.messages), 5)

    def test_a_filter_action_counts_for_all_recipients_and_before_content_filter(self):
        with Filter() as scan, Filter() as other, self.after(
                scan, {"smtpd_recipient_restrictions": "check_recipient_access " + inline(
                    {"bob@virtual.test.example": f"FILTER other:[127.0.0.1]:{other.port}"})},
                services={"other": "unix - - n - 10 smtp"}) as mx:
            other.back = scan.back
            send(mx.port, "s@sender.example", ["ada@virtual.test.example"], mail("one"))
            self.only(mx, "ada")
            self.assertEqual((len(scan.messages), len(other.messages)), (1, 0))
            send(mx.port, "s@sender.example", ["ada@virtual.test.example", "bob@virtual.test.example"], mail("two"))
            self.only(mx, "bob")
            self.only(mx, "ada", 2)
            self.assertEqual((len(scan.messages), len(other.messages)), (1, 1))
            mx.wait_log(
                r"filter: RCPT from \S+: <bob@virtual\.test\.example>: Recipient address triggers FILTER other:"
            )


class BeforeQueue(Filtered):
    def before(self, scan, settings=None, **more):
        return self.instance(
            scan, {"smtpd_proxy_filter": f"127.0.0.1:{scan.port}", **(settings or {})}, override=CHECKED, **more
        )

    def test_the_filters_word_is_the_clients(self):
        with Filter() as scan, self.before(scan) as mx:
            small, large = mail("small", body=".\r\n..\r\n"), mail("large", body="0123456789abcde\r\n" * 70_000)
            for via, content in (("DATA", small), ("BDAT", small), ("DATA", large), ("BDAT", large)):
                reply = send(
                    mx.port,
                    "s@sender.example",
                    ["ada@virtual.test.example", "bob@virtual.test.example"],
                    content,
                    via=via,
                )
                self.assertRegex(reply, r"^250 2\.0\.0 Ok: queued as ")
            for box in ("ada", "bob"):
                for got, content in zip(sorted(self.only(mx, box, 4), key=len), (small, small, large, large)):
                    got = got.replace(b"\n", b"\r\n")
                    self.assertTrue(got.endswith(content))
                    self.assertEqual(got.count(b"X-Filtered: yes"), 1)
            self.assertEqual(scan.violations, [])
            told = scan.messages[0].xforward
            self.assertEqual([told[n] for n in ("ADDR", "HELO", "PROTO")], ["127.0.0.1", "client.example", "ESMTP"])
            mx.wait_log(r"NOQUEUE: client=\S+\[127\.0\.0\.1\]")
            mx.wait_log(
                r"NOQUEUE: proxy-accept: END-OF-MESSAGE: 250 2\.0\.0 Ok: queued as \S+; from=<s@sender\.example>"
            )
            mx.wait_log(r"orig_client=localhost\[127\.0\.0\.1\]")

    def test_results_that_come_with_the_mail_do_not_reach_the_filter(self):
        forged = b"Authentication-Results: mx.test.example;\r\n dkim=pass header.d=bank.example\r\n"
        content = forged + b"X-Kept: yes\r\n" + forged.replace(b":", b" :").upper() + mail("forged", "x\r\n" * 50_000)
        for exempt, arrives in (("", False), ("127.0.0.0/8", True)):  # of hosts that are exempt all is taken
            settings = {"dkim_verify": "yes", "authentication_results_exempt_clients": exempt}
            with self.subTest(exempt), Filter() as scan, self.before(scan, settings) as mx:
                for via in ("DATA", "BDAT"):
                    send(mx.port, "s@sender.example", ["ada@virtual.test.example"], content, via=via)
                self.only(mx, "ada", 2)
                for message in scan.messages:
                    self.assertEqual(b"bank.example" in message.content.lower(), arrives)
                    self.assertEqual(b"authentication-results" in message.content.lower(), arrives)
                    self.assertIn(b"X-Kept: yes\r\n", message.content)

    def test_aliases_and_copies_come_behind_the_filter_and_once(self):
        with Filter() as scan, self.before(
            scan,
            {
                "virtual_alias_maps": inline(
                    {"all@virtual.test.example": "ada@virtual.test.example, bob@virtual.test.example"}
                ),
                "always_bcc": "copy@virtual.test.example",
            },
        ) as mx:
            send(mx.port, "s@sender.example", ["all@virtual.test.example"], mail("once"))
            for box in ("ada", "bob", "copy"):
                self.only(mx, box)
            self.assertEqual([m.recipients for m in scan.messages], [["all@virtual.test.example"]])

    def test_the_size_limit_holds_for_what_goes_to_the_filter(self):
        with Filter() as scan, self.before(scan, {"message_size_limit": "100000"}) as mx:
            for line in (b"From ada@sender.example Sun Nov  1\r\n", b">From x\r\n", b"X: y\r\n", b"\r\n"):
                with self.subTest(line), self.assertRaises(Refused) as refused:
                    send(mx.port, "s@sender.example", ["ada@virtual.test.example"], line * (200_000 // len(line)))
                self.assertEqual(refused.exception.reply[:9], "552 5.3.4")
            self.assertEqual(scan.messages, [])

    def test_no_stray_end_smuggles_a_message_past_it(self):
        with Filter() as scan, self.before(scan, {"smtpd_forbid_bare_newline": "normalize"}) as mx:
            for end in (b"\n.\n", b"\n.\r\n", b"\r\n.\n", b"\r.\r", b"\r\n.\r", b"\r.\r\n"):
                content = mail("smuggle") + b"text" + end + (
                    b"MAIL FROM:<evil@x.example>\r\nRCPT TO:<bob@virtual.test.example>\r\nDATA\r\nevil\r\n")
                for via in ("DATA", "BDAT"):
                    with self.subTest(end=end, via=via), Client(mx.port) as client:
                        client.expect("MAIL FROM:<s@sender.example>", "250")
                        client.expect("RCPT TO:<ada@virtual.test.example>", "250")
                        if via == "BDAT":
                            client.raw(b"BDAT %d LAST\r\n" % len(content) + content)
                        else:
                            client.expect("DATA", "354")
                            client.raw(content + b".\r\n")
                        client.reply()
            mx.wait_empty_queue()
            self.assertGreaterEqual(len(scan.messages), 6)
            self.assertEqual({(m.sender, *m.recipients) for m in scan.messages},
                             {("s@sender.example", "ada@virtual.test.example")})
            self.assertEqual(scan.violations, [])
            self.assertEqual(mx.virtual_box("bob").messages(), [])

    def test_what_it_refuses_is_refused(self):
        with Filter() as scan, self.before(scan) as mx:
            scan.replies["RCPT"] = lambda session, line: "550-5.1.1 not\r\n550 5.1.1 here" if "eve@" in line else None
            scan.verdict = lambda content: "554 5.7.1 a worm" if b"worm" in content else None
            with Client(mx.port) as client:
                client.expect("MAIL FROM:<s@sender.example>", "250")
                self.assertEqual(client.command("RCPT TO:<eve@virtual.test.example>"), "550-5.1.1 not\n550 5.1.1 here")
                client.expect("RCPT TO:<ada@virtual.test.example>", "250")
                client.expect("DATA", "354")
                client.raw(mail("worm") + b".\r\n")
                self.assertEqual(client.reply(), "554 5.7.1 a worm")
                # The session continues.
                client.send("s@sender.example", ["ada@virtual.test.example"], mail("clean"))
            self.assertIn(b"Subject: clean", self.only(mx, "ada")[0])
            mx.wait_log(r"NOQUEUE: proxy-reject: END-OF-MESSAGE: 554 5\.7\.1 a worm; from=<s@sender\.example> "
                        r"to=<ada@virtual\.test\.example> proto=ESMTP helo=<client\.example>")

    def test_the_smtpd_behind_hears_whether_the_header_is_to_be_completed(self):
        for clients, source in (("permit_mynetworks", "LOCAL"), ("", "REMOTE")):
            with self.subTest(source), Filter() as scan, self.before(
                scan, {"local_header_rewrite_clients": clients}
            ) as mx:
                send(mx.port, "s@sender.example", ["ada@virtual.test.example"], b"Subject: bare\r\n\r\nhello\r\n")
                got = self.only(mx, "ada")[0]
                self.assertEqual(scan.messages[0].xforward["SOURCE"], source)
                for field in (b"\nDate: ", b"\nMessage-ID: ", b"\nFrom: "):
                    self.assertEqual(field.lower() in got.lower(), source == "LOCAL", (field, got))
                self.assertNotIn(b"\nDate: ", scan.messages[0].content.replace(b"\r\n", b"\n"))

    def test_nothing_that_a_client_asks_for_vanishes_where_the_filter_offers_little(self):
        to, content = "ada@virtual.test.example", mail("asked", body="x" * 70 + "\r\n")
        for options in ("", "speed_adjust"):
            with self.subTest(options), Filter(features=("SIZE 0",)) as scan, self.before(
                    scan, {"smtpd_proxy_options": options, "message_size_limit": "0"}) as mx, Client(mx.port) as client:
                with self.assertRaises(Refused) as no:
                    client.send("s@sender.example", [to], content, mail="SMTPUTF8")
                self.assertEqual(no.exception.reply,
                                 "553 5.6.7 SMTPUTF8 is required, but was not offered by the content filter")
                client.expect("RSET", "250")
                client.send(
                    "s@sender.example", [to], content, mail="RET=HDRS ENVID=e1", rcpt="NOTIFY=NEVER ORCPT=rfc822;a@b"
                )
                said = scan.messages[0]
                self.assertEqual([w for w in said.parameters if not w.startswith("SIZE=")], ["ENVID=e1", "RET=HDRS"])
                self.assertEqual(said.recipient_parameters, [["NOTIFY=NEVER", "ORCPT=rfc822;a@b"]])
                client.send("s@sender.example", [to], content, mail=f"SIZE={len(content)}")
                client.send("s@sender.example", [to], content, mail="SIZE=" + 20 * "9")  # too large a number to add to
                sizes = [[int(w[5:]) for w in m.parameters if w.startswith("SIZE=")] for m in scan.messages]
                if not options:
                    self.assertEqual(sizes[0], [])  # nothing was announced
                    self.assertEqual(sizes[2], [2**64 - 1])
                for said, size in zip(scan.messages, sizes):
                    for s in size:
                        self.assertLessEqual(len(said.content), s)
                self.assertEqual(len(sizes[1]), 1)
                # The client gets the filter's reply.
                scan.replies["MAIL"] = lambda session, line: "555 5.5.4 RET is not known" if "RET=" in line else None
                with self.assertRaises(Refused) as no:
                    client.send("s@sender.example", [to], content, mail="RET=FULL")
                self.assertEqual(no.exception.reply, "555 5.5.4 RET is not known")

    def test_nothing_is_taken_while_the_filter_is_down(self):
        port = free_port()
        for options in ("", "speed_adjust"):
            with self.subTest(options), self.instance(settings={"smtpd_proxy_filter": f"127.0.0.1:{port}",
                                                                 "smtpd_proxy_options": options}) as mx:
                with Client(mx.port) as client:
                    with self.assertRaises(Refused) as no:
                        client.send("s@sender.example", ["ada@virtual.test.example"], mail("no"))
                    self.assertEqual(no.exception.reply, "451 4.3.0 Error: queue file write error")
                    self.assertEqual(no.exception.command == "end of data", options != "")
                    client.expect("RSET", "250")
                self.assertEqual(mx.queue(), [])
                mx.wait_log(r"warning: proxy filter \S+: connect: ")

    def test_a_filter_is_found_by_its_name(self):
        with Dns({("scan.invalid", "A"): ["127.0.0.1"]}) as dns, Filter() as scan:
            settings = {"smtpd_proxy_filter": f"scan.invalid:{scan.port}", "dns_resolver_port": str(dns.port)}
            with self.instance(scan, settings, override=CHECKED) as mx:
                send(mx.port, "s@sender.example", ["ada@virtual.test.example"], mail("by name"))
                self.only(mx, "ada")
                self.assertEqual(len(scan.messages), 1)

    def test_a_filter_that_dies_has_nothing(self):
        for options in ("", "speed_adjust"):
            with self.subTest(options), Filter() as scan, self.before(scan, {"smtpd_proxy_options": options}) as mx:
                content = mail("cut", body="y\r\n" * 200_000)
                scan.cut_data = [100_000]
                for _ in ("in the middle of the data", "before its reply"):
                    with Client(mx.port) as client:
                        with self.assertRaises(Refused) as no:
                            client.send("s@sender.example", ["ada@virtual.test.example"], content)
                        self.assertEqual(no.exception.reply, "451 4.3.0 Error: queue file write error")
                        scan.verdict = lambda content: DROP
                scan.verdict = lambda content: None
                send(mx.port, "s@sender.example", ["ada@virtual.test.example"], content)
                self.only(mx, "ada")

    def test_a_client_that_goes_in_the_middle_leaves_the_filter_without_a_message(self):
        with Filter() as scan, self.before(scan) as mx:
            with Client(mx.port) as client:
                client.expect("MAIL FROM:<s@sender.example>", "250")
                client.expect("RCPT TO:<ada@virtual.test.example>", "250")
                client.expect("DATA", "354")
                client.raw(mail("half", body="y\r\n" * 200_000))
            eventually(lambda: scan.sessions and scan.sessions[0].closed, "the filter's session has ended")
            self.assertEqual(scan.messages, [])
            self.assertEqual(mx.queue(), [])

    def test_with_speed_adjust_the_filter_hears_of_a_message_when_it_is_whole(self):
        with Filter() as scan, self.before(scan, {"smtpd_proxy_options": "speed_adjust"}) as mx:
            content = mail("whole", body="y\r\n" * 100_000)
            with Client(mx.port) as client:
                client.expect("MAIL FROM:<s@sender.example>", "250")
                client.expect("RCPT TO:<ada@virtual.test.example>", "250")
                client.expect("RCPT TO:<bob@virtual.test.example>", "250")
                client.expect("DATA", "354")
                client.raw(content)
                self.assertEqual(scan.sessions, [])
                client.raw(b".\r\n")
                self.assertTrue(client.reply().startswith("250 2.0.0 Ok: queued as"))
                scan.replies["RCPT"] = lambda session, line: "450 4.2.1 busy" if "bob@" in line else None
                with self.assertRaises(Refused) as no:
                    client.send("s@sender.example", ["ada@virtual.test.example", "bob@virtual.test.example"], content)
                self.assertEqual(no.exception.reply, "450 4.2.1 busy")
            self.assertTrue(self.only(mx, "ada")[0].replace(b"\n", b"\r\n").endswith(content))
            self.only(mx, "bob")

    def test_a_promise_is_kept_when_qmgr_dies_while_the_mail_is_in_the_filter(self):
        with Filter() as scan, self.before(scan) as mx:
            scan.before = lambda message: mx.kill("qmgr")
            with Client(mx.port) as client:
                try:
                    client.send("s@sender.example", ["ada@virtual.test.example"], mail("kept"))
                except Refused as refused:
                    self.assertTrue(refused.reply.startswith("4"), refused.reply)
                    scan.before = lambda message: None
                    eventually(lambda: self.taken(client, mail("kept")), "taken by the next qmgr")
            self.only(mx, "ada")

    def taken(self, client, content):
        try:
            client.expect("RSET", "250")
            return client.send("s@sender.example", ["ada@virtual.test.example"], content)
        except Refused:
            return None

    def test_a_filter_that_is_the_service_itself_is_found_out(self):
        with self.instance(start=False) as mx:
            mx.set(smtpd_proxy_filter=f"127.0.0.1:{mx.port}")
            mx.start()
            with Client(mx.port) as client:
                client.expect("MAIL FROM:<s@sender.example>", "250")
                self.assertEqual(
                    client.command("RCPT TO:<ada@virtual.test.example>"), "451 4.3.5 Server configuration error"
                )
            mx.wait_log("mail loop: smtpd_proxy_filter of service")


class Shipped(Filtered):
    def example(self, back, before):
        """The example services at the end of conf/master.cf, before or behind the queue, and its options of smtp."""
        with open(os.path.join(TOP, "conf", "master.cf")) as file:
            lines = file.read().split("\n")
        services, below_smtp, into, chosen = {}, [], None, True
        for line in lines[next(i for i, l in enumerate(lines) if l.startswith("#scan ")):]:
            if line.startswith("# "):
                into = below_smtp if "below smtp:" in line else into
            if line[:8] in ("# behind", "# before", "# both"):
                chosen = line == "# both" or line.startswith("# before") == before
            if line.startswith("#  -o ") and chosen:
                into.append(line[1:])
            elif line[:1] == "#" and line[1:2] not in (" ", ""):
                name, rest = line[1:].replace("10026", str(back)).split(None, 1)
                into = services[name] = [rest]
        return {name: "\n".join(rest) for name, rest in services.items()}, below_smtp

    def test_the_example_in_master_cf_works_behind_and_before_the_queue(self):
        back = free_port()
        for before in (False, True):
            services, below_smtp = self.example(back, before)
            self.assertEqual(sorted(services), [f"127.0.0.1:{back}", "scan"])
            self.assertEqual("no_address_mappings" in services[f"127.0.0.1:{back}"], not before)
            with self.subTest(before_queue=before), Filter() as scan, self.instance(
                    scan, {} if before else {"content_filter": f"scan:[127.0.0.1]:{scan.port}"}, services, start=False,
                    back=back) as mx:
                if before:
                    options = "\n".join(below_smtp).replace("10025", str(scan.port))
                    with open(os.path.join(mx.etc, "master.cf")) as file:
                        text = file.read()
                    line = next(l for l in text.split("\n") if l.split()[1:2] == ["inet"] and str(back) not in l)
                    with open(os.path.join(mx.etc, "master.cf"), "w") as file:
                        file.write(text.replace(line, line + "\n" + options))
                mx.start()
                send(mx.port, "s@sender.example", ["ada@virtual.test.example"], mail("shipped"))
                self.assertIn(b"X-Filtered: yes", self.only(mx, "ada")[0])
                mx.wait_log(r"penstock/reinject/smtpd\[\d+\]: \S+: client=\S+, .*orig_client=localhost\[127\.0\.0\.1\]")
                if before:
                    mx.wait_log("NOQUEUE: proxy-accept: ")


class Copies(Filtered):
    def test_copies_go_to_whom_the_tables_say(self):
        with self.instance(settings={
                "always_bcc": "copy@virtual.test.example",
                "transport_maps": inline({"gone.example": "error:5.1.1 gone"}),
                "smtpd_reject_unlisted_recipient": "no",  # which would refuse the recipient at RCPT
                "sender_bcc_maps": inline({"s@sender.example": "eve@virtual.test.example"}),
                "recipient_bcc_maps": inline({"ada@virtual.test.example": "bob@virtual.test.example"})}) as mx:
            send(mx.port, "s@sender.example", ["ada@virtual.test.example"], mail("copied"))
            for box in ("ada", "bob", "eve", "copy"):
                self.assertIn(f"X-Original-To: {box}@virtual.test.example\n".encode(), self.only(mx, box)[0])
            # A notice is the system's own mail: nobody gets a copy.
            send(mx.port, "sender@virtual.test.example", ["x@gone.example"], mail("returned"))
            self.only(mx, "sender")
            self.only(mx, "copy", 2)

    def test_the_original_recipient_can_be_forgotten(self):
        aliases = {"virtual_alias_maps": inline({"a@virtual.test.example": "ada@virtual.test.example",
                                                 "b@virtual.test.example": "ada@virtual.test.example"})}
        to = ["a@virtual.test.example", "b@virtual.test.example"]
        with self.instance(settings=aliases) as mx:
            send(mx.port, "s@sender.example", to, mail("twice"))
            found = b"".join(self.only(mx, "ada", 2))
            self.assertIn(b"X-Original-To: a@virtual.test.example\n", found)
            self.assertIn(b"X-Original-To: b@virtual.test.example\n", found)
        with self.instance(settings={**aliases, "enable_original_recipient": "no"}) as mx:
            send(mx.port, "s@sender.example", to, mail("once"))
            self.only(mx, "ada")

    def test_mail_on_hold_by_an_access_table_waits_for_its_release(self):
        with self.instance(settings={"smtpd_sender_restrictions": "check_sender_access " + inline(
                {"s@sender.example": "HOLD", "r@sender.example": "REDIRECT eve@virtual.test.example"})}) as mx:
            queue_id = send(mx.port, "s@sender.example", ["ada@virtual.test.example"], mail("held")).split()[-1]
            eventually(lambda: [m for m in mx.queue() if m["queue_name"] == "hold"], "on hold")
            mx.kill("qmgr")
            eventually(lambda: answers(mx.port), "smtpd")
            send(
                mx.port,
                "r@sender.example",
                ["ada@virtual.test.example", "bob@virtual.test.example"],
                mail("redirected"),
            )
            mx.virtual_box("eve").wait(1)
            self.assertEqual([m["queue_name"] for m in mx.queue() if m["queue_id"] == queue_id], ["hold"])
            mx.tool("pensuper", "-H", queue_id, check=True)
            self.only(mx, "ada")
            self.only(mx, "eve")
            self.assertEqual(mx.virtual_box("bob").messages(), [])


if __name__ == "__main__":
    unittest.main()
