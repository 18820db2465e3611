"""RFC rules for an SMTP server, on the wire. Names hold the section's number or the RFC's.

Most are dialogues: what the client says and how each answer begins (a regular expression). All share one instance
with the settings of SHARED; others have their own.
"""
import email.utils
import re
import select
import socket

from harness import *

EHLO = ("EHLO client.example", r"250-mx\.test\.example")
MAIL = ("MAIL FROM:<ada@sender.example>", "250 2.1.0 ")
RCPT = ("RCPT TO:<ben@rcpt.example>", "250 2.1.5 ")
DATA = ("DATA", "354 ")
TAKEN = r"250 2\.0\.0 .*queued as "
SHARED = {"smtpd_recipient_limit": "100", "message_size_limit": "100000", "hopcount_limit": "101",
          "smtpd_error_sleep_time": "0", "smtpd_hard_error_limit": "1000", "local_header_rewrite_clients": "",
          "local_recipient_maps": inline({"known": "x", "postmaster": "x", "Case": "x"}), "append_at_myorigin": "yes",
          "smtputf8_enable": "yes"}


def lines(*parts):
    return "\r\n".join(parts)


# name -> steps of one session. A step: (line or lines sent at once, pattern of the reply, …one pattern for each reply).
DIALOGUES = {
    "s03_ehlo_says_how_many_recipients_a_message_may_have": [
        ("EHLO client.example", r".*\n250[- ]LIMITS RCPTMAX=100\n")],
    "s03_ehlo_lists_the_host_and_one_keyword_a_line": [
        ("EHLO client.example", r"250-mx\.test\.example\n(250-[A-Z0-9]+( [ -~]+)?\n)+250 [A-Z0-9]+( [ -~]+)?$")],
    "s04_helo_has_no_extensions": [
        ("HELO client.example", r"250 mx\.test\.example$"),
        ("MAIL FROM:<a@s.example> SIZE=10", "555 5.5.4 |501 5.5.4 "),
        ("MAIL FROM:<a@s.example> BODY=8BITMIME", "555 |501 "),
        MAIL,
        ("RCPT TO:<b@rcpt.example> NOTIFY=NEVER", "555 |501 "),
        RCPT,
    ],
    "s05_ehlo_again_resets": [
        EHLO,
        MAIL,
        RCPT,
        EHLO,
        ("RCPT TO:<b@rcpt.example>", "503 5.5.1 "),
        ("DATA", "503 5.5.1 "),
    ],
    "s06_an_odd_ehlo_name_is_no_reason_to_refuse": [
        ("EHLO not-my-name.invalid", "250-"), MAIL, RCPT, ("RSET", "250 2"), ("EHLO x_y!z", "250-"), MAIL, RCPT],
    "s07_address_literals": [
        ("EHLO [127.0.0.1]", "250-"), ("EHLO [IPv6:::1]", "250-"), ("MAIL FROM:<a@[127.0.0.1]>", "250 "),
        ("RCPT TO:<known@[127.0.0.1]>", "250 "), ("RSET", "250 "), ("MAIL FROM:<a@[IPv6:2001:db8::1]>", "250 "),
        ("RCPT TO:<a@[IPv6:2001:db8::2]>", "250 |554 5.7.1 |550 "), ("RSET", "250 "),
        ("MAIL FROM:<a@[1.2.3.999]>", "501 5.1.7 ")],
    "s08_mail_without_ehlo_is_answered": [("MAIL FROM:<a@s.example>", "250 2.1.0 |503 5.5.1 ")],
    "s09_a_second_mail_is_out_of_order": [EHLO, MAIL, ("MAIL FROM:<c@s.example>", "503 5.5.1 "), RCPT],
    "s10_rcpt_needs_mail_and_data_needs_rcpt": [
        EHLO,
        ("RCPT TO:<b@rcpt.example>", "503 5.5.1 "),
        ("DATA", "503 5.5.1 "),
        MAIL,
        ("DATA", "(503|554) 5.5.1 "),
        RCPT,
    ],
    "s11_the_null_sender": [EHLO, ("MAIL FROM:<>", "250 2.1.0 "), RCPT, ("RSET", "250"), ("MAIL FROM: <>", "250|501")],
    "s12_postmaster_needs_no_domain": [
        EHLO, MAIL, ("RCPT TO:<postmaster>", "250 2.1.5 "), ("RCPT TO:<PostMaster>", "250 2.1.5 "),
        ("RCPT TO:<POSTMASTER@local.test.example>", "250 2.1.5 "), ("RCPT TO:<postmaster@LOCAL.test.example>", "250 ")],
    "s13_commands_in_any_case": [
        ("eHlO Client.Example", "250-"), ("mAiL fRoM:<a@s.example> sIzE=10 BoDy=8bItMiMe", "250 2.1.0 "),
        ("rCpT tO:<b@rcpt.example> nOtIfY=never", "250 2.1.5 "), ("nOoP", "250 "), ("rSeT", "250 "), ("qUiT", "221 ")],
    "s14_long_addresses_and_lines": [
        EHLO, (f"MAIL FROM:<{'l' * 64}@{'.'.join(['d' * 60] * 4)}.example>", "250 2.1.0 "),
        (f"RCPT TO:<{'l' * 64}@rcpt.example>", "250 2.1.5 "),
        (f"RCPT TO:<{'l' * 65}@rcpt.example>", "250 2.1.5 |501 5.1.3 |550 "),
        (f"RCPT TO:<a@{'d' * 64}.example>", "250 |501 |550 "),
        (f"NOOP {'x' * 505}", "250 "), (f"NOOP {'x' * 2030}", "250 "), (f"NOOP {'x' * 2100}", "500 5.5.2 "),
        (f"NOOP {'x' * 70000}", "500 5.5.2 "), ("NOOP", "250 "), ("RCPT TO:<b@rcpt.example>", "250 2.1.5 ")],
    "s17_and_3030_data_and_bdat_do_not_mix": [
        EHLO,
        MAIL,
        RCPT,
        ("BDAT 5\r\nhello", "250 2.0.0 "),
        ("DATA", "503 5.5.1 "),
        ("RCPT TO:<c@rcpt.example>", "503 "),
        ("RSET", "250 "),
        MAIL,
        RCPT,
        DATA,
        ("text\r\n.", TAKEN),
    ],
    "s21_rset": [
        EHLO,
        ("RSET", "250 2.0.0 "),
        MAIL,
        RCPT,
        ("RSET", "250 2.0.0 "),
        ("RCPT TO:<b@rcpt.example>", "503 "),
        ("RSET now", "501 5.5.4 "),
        MAIL,
        RCPT,
    ],
    "s22_noop_and_quit": [
        ("NOOP", "250 "),
        ("NOOP some words", "250 "),
        EHLO,
        MAIL,
        ("NOOP", "250 "),
        RCPT,
        ("QUIT", "221 2.0.0 "),
        None,
    ],
    "s23_vrfy_help_and_unknown_commands": [
        EHLO,
        ("VRFY known@local.test.example", "25[02] 2."),
        ("VRFY nobody-here@local.test.example", "550 5.1.1 "),
        ("VRFY", "501 5.5.4 "),
        ("HELP", "214 2|502 "),
        ("EXPN list", "502 5.5.1 |550 |252 "),
        ("FOO bar", "500 5.5.2 "),
        ("", "500 5.5.2 "),
        ("\x01\x02", "500 5.5.2 "),
        ("é", "500 5.5.2 "),
        ("NOOP", "250 "),
    ],
    "s31_source_routes_are_dropped": [
        EHLO,
        ("MAIL FROM:<@one.example,@two.example:a@s.example>", "250 "),
        ("RCPT TO:<@one.example,@two.example:b@rcpt.example>", "250 "),
        ("RCPT TO:<@one.example b@rcpt.example>", "501 "),
    ],
    "s33_unknown_parameters": [
        EHLO, ("MAIL FROM:<a@s.example> FOO=1", "555 5.5.4 "), ("MAIL FROM:<a@s.example> =1", "(501|555) 5.5.4 "),
        ("MAIL FROM:<a@s.example> BODY=FOO", "50[14] 5.5.4 "), MAIL, ("RCPT TO:<b@rcpt.example> FOO", "555 5.5.4 "),
        ("RCPT TO:<b@rcpt.example> SIZE=1", "555 5.5.4 "), RCPT],
    "s35_an_unknown_user_is_refused_for_good": [
        EHLO, MAIL, ("RCPT TO:<nobody-here@local.test.example>", "550 5.1.1 "), ("RCPT TO:<known@local.test.example>",
                                                                                 "250 2.1.5 ")],
    "s37_white_space_and_bad_syntax": [
        EHLO,
        ("MAIL FROM: <a@s.example>", "250 |501 "),
        ("RSET ", "250 "),
        ("MAIL FROM:<a@s.example>  ", "250 "),
        ("RCPT TO: <b@rcpt.example>", "250 |501 "),
        ("RSET", "250 "),
        ("MAIL FROM <a@s.example>", "501 5.5.4 "),
        ("MAIL", "501 5.5.4 "),
        ("MAIL FROM:", "501 "),
        ("MAIL FROM:<a@s.example", "501 "),
        ("MAIL FROM:<a@b@c.example>", "501 "),
        ("MAIL FROM:<a@s.example>x", "501 |555 "),
        ("MAIL FROM:<a b@s.example>", "501 "),
        ("MAIL TO:<a@s.example>", "501 "),
        ("MAIL FROM:<a@>", "501 "),
        ("MAIL FROM:<a..b@-.example>", "250 |501 "),
        ("RSET", "250 "),
        MAIL,
        ("RCPT TO:<>", "501 "),
        ("RCPT", "501 "),
        ("RCPT TO:", "501 "),
        RCPT,
    ],
    "1870_1_size_is_announced_and_checked": [
        ("EHLO c.example", r".*\n250[- ]SIZE 100000\n"),
        ("MAIL FROM:<a@s.example> SIZE=100000", "250 "),
        ("RSET", "250 "),
        ("MAIL FROM:<a@s.example> SIZE=100001", "552 5.3.4 "),
        ("MAIL FROM:<a@s.example> SIZE=99999999999999999999", "552 5.3.4 "),
        ("MAIL FROM:<a@s.example> SIZE=999999999999999999999", "501 |552 "),
        ("MAIL FROM:<a@s.example> SIZE=x", "501 "),
        ("MAIL FROM:<a@s.example> SIZE=", "501 "),
        ("MAIL FROM:<a@s.example> SIZE=-1", "501 "),
        ("MAIL FROM:<a@s.example> SIZE=0", "250 "),
    ],
    "1870_3_a_declared_size_too_small_is_only_a_hint": [
        EHLO, ("MAIL FROM:<a@s.example> SIZE=1", "250 "), RCPT, DATA, ("x" * 990 + "\r\n.", TAKEN)],
    "6152_1_body_types": [
        ("EHLO c.example", r".*\n250[- ]8BITMIME\n"),
        ("MAIL FROM:<a@s.example> BODY=7BIT", "250 "),
        ("RSET", "250 "),
        ("MAIL FROM:<a@s.example> BODY=8BITMIME", "250 "),
        ("RSET", "250 "),
        ("MAIL FROM:<a@s.example> BODY=", "50[14] "),
        ("MAIL FROM:<a@s.example> BODY=7BIT BODY=7BIT", "501 "),
    ],
    "2920_2_data_after_refused_recipients": [
        EHLO, (lines("MAIL FROM:<a@s.example>", "RCPT TO:<no@local.test.example>", "RCPT TO:<x@far.example>", "DATA"),
               "250 ", "550 5.1.1 ", "250 |[45]54 ", "354 |5[05][34] 5.5.1 "), ],
    "3030_1_chunks": [
        EHLO, MAIL, RCPT, ("BDAT 0", "250 "), ("BDAT 6\r\nhello\r", "250 "), ("BDAT 1\r\n\n", "250 "),
        ("BDAT 0 LAST", TAKEN), MAIL, RCPT, ("BDAT 5 last\r\nab\r\nc", TAKEN)],
    "3030_2_chunks_out_of_order_are_read_off": [
        EHLO, ("BDAT 6\r\nNOOP\r\n", "503 5.5.1 "), MAIL, ("BDAT 6\r\nQUIT\r\n", "(503|554) 5.5.1 "),
        ("NOOP", "250 ")],
    "3030_2_after_a_failed_last_chunk_the_next_transaction_is_clean": [
        EHLO, MAIL, ("RCPT TO:<nobody-here@local.test.example>", "550 "), ("BDAT 6 LAST\r\nhello!", "(503|554) "),
        ("MAIL FROM:<next@s.example>", "250 2.1.0 "), RCPT],
    "3030_2_after_a_chunk_over_the_limit_the_next_transaction_is_clean": [
        EHLO, MAIL, RCPT, ("BDAT 120000 LAST\r\n" + "x" * 120000, "552 5.3.4 "),
        ("MAIL FROM:<next@s.example>", "250 2.1.0 "), RCPT],
    "3030_3_rset_between_chunks": [
        EHLO, MAIL, RCPT, ("BDAT 5\r\nhello", "250 "), ("RSET", "250 "), ("BDAT 1 LAST\r\nx", "503 "), MAIL, RCPT,
        ("BDAT 3 LAST\r\n.\r\n", TAKEN)],
    "3030_4_binarymime_is_not_offered_and_refused": [
        ("EHLO c.example", r"(?!.*BINARYMIME)"), ("MAIL FROM:<a@s.example> BODY=BINARYMIME", "50[14] 5.5.4 |555 ")],
    "3461_1_dsn_parameters": [
        ("EHLO c.example", r".*\n250[- ]DSN\n"),
        ("MAIL FROM:<a@s.example> RET=FULL ENVID=a+2Bb", "250 "),
        ("RSET", "250 "),
        ("MAIL FROM:<a@s.example> RET=HDRS", "250 "),
        ("RSET", "250 "),
        ("MAIL FROM:<a@s.example> RET=ALL", "501 "),
        ("MAIL FROM:<a@s.example> RET=FULL RET=FULL", "501 "),
        ("MAIL FROM:<a@s.example> ENVID=a+2", "501 "),
        ("MAIL FROM:<a@s.example> ENVID=a+0A", "501 "),
        MAIL,
        ("RCPT TO:<b@rcpt.example> NOTIFY=SUCCESS,FAILURE,DELAY ORCPT=rfc822;b@rcpt.example", "250 "),
        ("RCPT TO:<c@rcpt.example> NOTIFY=", "501 "), ("RCPT TO:<c@rcpt.example> NOTIFY=SOMETIMES", "501 "),
        ("RCPT TO:<c@rcpt.example> ORCPT=b@rcpt.example", "501 "),
        ("RCPT TO:<c@rcpt.example> ORCPT=rfc822;a+2", "501 "),
        # Slips of others, which Postfix takes as well.
        ("RCPT TO:<c@rcpt.example> ORCPT=rfc822;a+3db=c@rcpt.example", "250 "),
        ("RCPT TO:<d@rcpt.example> ORCPT=rfc822;", "250 ")],
    "3461_2_never_stands_alone": [
        EHLO, MAIL, ("RCPT TO:<b@rcpt.example> NOTIFY=NEVER,FAILURE", "501 "), ("RCPT TO:<b@rcpt.example> NOTIFY=NEVER",
                                                                                 "250 ")],
    "6531_1_addresses_beyond_ascii_need_smtputf8": [
        ("EHLO c.example", r".*\n250[- ]SMTPUTF8\n"),
        ("MAIL FROM:<añb@s.example>", "55[03] 5.6.7 "),
        ("MAIL FROM:<añb@s.example> SMTPUTF8", "250 "),
        ("RCPT TO:<bén@rcpt.example>", "250 "),
        ("RSET", "250 "),
        MAIL,
        ("RCPT TO:<bén@rcpt.example>", "55[03] 5.6.7 "),
        ("RSET", "250 "),
        ("MAIL FROM:<a@s.example> SMTPUTF8=1", "501 "),
    ],
}


class Server(Suite):
    loads_the_machine = True

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.peer = Peer(features=["PIPELINING", "8BITMIME", "CHUNKING", "SIZE 0", "DSN", "SMTPUTF8"])
        # Without the pattern of the default, by which a line that begins with no letter ends the session.
        cls.mx = Instance({**relay_to(cls.peer), **SHARED, "smtpd_forbidden_commands": "CONNECT GET POST"})

    @classmethod
    def tearDownClass(cls):
        cls.mx.close()
        cls.peer.close()

    def client(self, **options):
        client = Client(self.mx.port, **options)
        self.addCleanup(client.close)
        return client

    def took(self, sent, count=1):
        """Returns the messages at the peer with this text, once there are so many and the queue is empty."""
        found = []

        def check():
            found[:] = [m for m in list(self.peer.messages) if sent in m.content]
            return len(found) >= count
        eventually(check, lambda: f"{count} message(s) with {sent!r}, there are {len(found)}")
        self.mx.wait_empty_queue()
        check()
        self.assertEqual(len(found), count)
        return found

    def talk(self, steps):
        client = self.client(ehlo=False)
        for i, step in enumerate(steps):
            if step is None:
                self.assertEqual(client.file.read(), b"", "bytes after the end")
                continue
            text, *patterns = step
            # A chunk ends by its length; everything else is lines.
            chunk = re.match(r"BDAT \d+.*\r\n", text, re.I) is not None
            client.raw(text.encode("utf-8", "surrogateescape") + (b"" if chunk else b"\r\n"))
            for pattern in patterns:
                reply = client.reply()
                self.assertRegex(reply, re.compile(r"\A(?:" + pattern + ")", re.S), f"step {i}: {text[:100]!r}")

    def test_s01_the_server_speaks_first(self):
        self.assertRegex(self.client(ehlo=False).greeting, r"^220 mx\.test\.example ")

    def test_s02_a_refused_client_may_only_quit(self):
        with Instance({"smtpd_client_restrictions": "reject", "smtpd_delay_reject": "no"}) as mx:
            with self.assertRaises(Refused) as caught:
                Client(mx.port)
            self.assertRegex(caught.exception.reply, r"^554 ")
            client = object.__new__(Client)
            client.socket = socket.create_connection(("127.0.0.1", mx.port), timeout=30)
            client.file = client.socket.makefile("rb")
            self.assertRegex(client.reply(), r"^554 ")
            for line in ("EHLO c.example", "MAIL FROM:<>", "NOOP"):
                self.assertRegex(client.command(line), r"^503 ")
            self.assertRegex(client.command("QUIT"), r"^221 ")
            client.close()

    def test_s13_the_case_of_the_local_part_is_kept(self):
        send(self.mx.port, "AdA@Sender.example", ["BeN@RCPT.example"], mail("s13"))
        got = self.took(b"Subject: s13\r\n")[0]
        self.assertEqual(got.sender.split("@")[0], "AdA")
        self.assertEqual(got.recipients[0].split("@")[0], "BeN")

    def test_s14_text_lines_of_1000_octets_and_hundred_recipients(self):
        content = mail("s14", "x" * 998 + "\r\n" + "y" * 998 + "\r\n")
        names = [f"u{i}@rcpt.example" for i in range(100)]
        send(self.mx.port, "a@s.example", names, content)
        got = self.took(b"Subject: s14\r\n", 2)  # smtp_destination_recipient_limit is 50
        self.assertEqual(sorted(r for m in got for r in m.recipients), sorted(names))
        self.assertIsNone(without_trace(got[0].content, content))

    def test_s15_recipients_over_the_limit_get_452_and_the_rest_deliver(self):
        client = self.client()
        client.expect(*MAIL)
        replies = [client.command(f"RCPT TO:<u{i}@rcpt.example>")[:10] for i in range(102)]
        self.assertEqual(set(replies[:100]), {"250 2.1.5 "})
        self.assertEqual(set(replies[100:]), {"452 4.5.3 "})
        client.expect(*DATA)
        client.raw(mail("s15") + b".\r\n")
        self.assertRegex(client.reply(), TAKEN)
        self.assertEqual(sum(len(m.recipients) for m in self.took(b"Subject: s15\r\n", 2)), 100)

    def test_s16_a_message_over_the_limit_is_refused_after_the_data_and_the_session_goes_on(self):
        client = self.client()
        for via in ("DATA", "BDAT"):
            with self.assertRaises(Refused) as caught:
                client.send(
                    "a@s.example", ["b@rcpt.example"], mail("s16", ("x" * 98 + "\r\n") * 1001), via=via, chunk=200000
                )
            self.assertRegex(caught.exception.reply, r"^552 5\.3\.4 ", via)
            client.expect("RSET", "250")
            # Exactly at the limit it is taken.
            head = mail("s16 " + via, "")
            client.send("a@s.example", ["b@rcpt.example"], head + b"z" * (100000 - len(head) - 2) + b"\r\n", via=via)
            self.took(b"Subject: s16 " + via.encode() + b"\r\n")

    def test_s17_dots_at_line_starts(self):
        body = ".\r\n..\r\n.x\r\n...\r\n. \r\nx.\r\n.."
        for via in ("DATA", "BDAT"):
            content = mail("s17 " + via, body + "\r\n")
            self.client().send("a@s.example", ["b@rcpt.example"], content, via=via)
            self.assertIsNone(without_trace(self.took(b"Subject: s17 " + via.encode())[0].content, content))

    def smuggle(self, policy, number):
        ends = [a + b"." + b for a in (b"\n", b"\r", b"\r\n") for b in (b"\n", b"\r", b"\r\n") if a + b != b"\r\n\r\n"]
        ends += [b"\r\n\0.\r\n", b"\r\n.\0\r\n", b"\r\n.\r\r\n", b"\r\r\n.\r\r\n", b"\n\r\n.\n\r\n", b"\r\n. \r\n"]
        for i, end in enumerate(ends):
            for via in ("DATA", "BDAT"):
                for after in (b"MAIL FROM:<evil@x.example>\r\nRCPT TO:<victim@rcpt.example>\r\nDATA\r\nevil\r\n", b""):
                    mark = f"s18-{policy}-{i}-{via}-{len(after)}"
                    content = mail(mark, "text") + end + after
                    with Client(number) as client:
                        try:
                            if via == "DATA":  # deliberately not dot-stuffed
                                client.expect(*MAIL), client.expect(*RCPT), client.expect(*DATA)
                                client.raw(content + b"\r\n.\r\n")
                                client.reply()
                            else:
                                client.send("ada@sender.example", ["ben@rcpt.example"], content + b"\r\n", via="BDAT")
                            client.quit()
                        except Refused as refused:
                            self.assertRegex(refused.reply, r"^5\d\d |^421 ")
                        except ConnectionError:
                            pass
                    yield mark, end

    def test_s18_only_crlf_dot_crlf_ends_data_whatever_the_policy(self):
        for policy in ("no", "normalize", "note", "reject"):
            with Peer(features=["8BITMIME"]) as peer, Instance({**relay_to(peer), **SHARED,
                                                               "smtpd_forbid_bare_newline": policy,
                                                               "smtpd_forbid_bare_newline_exclusions": ""}) as mx:
                marks = [mark for mark, _ in self.smuggle(policy, mx.port)]
                mx.wait_empty_queue()
                for message in peer.messages:
                    self.assertEqual((message.sender, message.recipients), ("ada@sender.example", ["ben@rcpt.example"]))
                    self.assertEqual(sum(message.content.count(f"Subject: {m}\r\n".encode()) for m in marks), 1)
                    # Outside content there is neither a bare CR nor a bare LF (2.3.8).
                    self.assertNotIn(b"\r", message.content.replace(b"\r\n", b""))
                    self.assertNotIn(b"\n", message.content.replace(b"\r\n", b""))
                if policy == "reject":
                    self.assertLess(len(peer.messages), len(marks))
                else:
                    self.assertEqual(len(peer.messages), len(marks))
                self.assertEqual(peer.violations, [])

    def test_s19_a_cut_before_the_end_delivers_nothing(self):
        before = len(self.peer.messages)
        whole = mail("s19")
        for part in (b"", b"Subj", whole, whole + b".", whole + b".\r"):
            with Client(self.mx.port) as client:
                client.expect(*MAIL), client.expect(*RCPT), client.expect(*DATA)
                client.raw(part)
        for part in (b"BDAT 5 LAST\r\nhell", b"BDAT 5\r\nhello", b"BDAT 5 LAST\r"):
            with Client(self.mx.port) as client:
                client.expect(*MAIL), client.expect(*RCPT)
                client.raw(part)
        send(self.mx.port, "a@s.example", ["b@rcpt.example"], mail("after s19"))
        self.took(b"after s19")
        self.assertEqual(len(self.peer.messages), before + 1)

    def test_s20_what_got_250_survives_a_kill_of_everything(self):
        with Peer() as peer:
            settings, port = relay_to(peer), peer.port
            peer.close()
            with Instance(settings) as mx:
                send(mx.port, "a@s.example", ["b@rcpt.example"], mail("s20"))
                mx.kill_all()
                with Peer(port=port) as up:
                    mx.start()
                    mx.flush()
                    self.assertIn(b"Subject: s20", up.wait_messages(1)[0].content)

    def test_s24_a_time_out_is_told_with_421_and_s25_is_five_minutes_by_default(self):
        self.assertIn("300", self.mx.tool("penconf", "-d", "smtpd_timeout", check=True).stdout)
        with Instance({"smtpd_timeout": "1s"}) as mx:
            rcpt = ("RCPT TO:<postmaster@local.test.example>", "250")
            for steps in ((), (EHLO,), (EHLO, MAIL), (EHLO, MAIL, rcpt), (EHLO, MAIL, rcpt, DATA)):
                client = Client(mx.port, ehlo=False)
                for line, code in steps:
                    client.expect(line, code[:3])
                self.assertRegex(client.reply(), r"^421 4\.4\.2 ")
                self.assertEqual(client.file.read(), b"")
                client.close()

    def test_s26_the_received_field(self):
        send(self.mx.port, "a@s.example", ["b@rcpt.example"], mail("s26 one"))
        send(self.mx.port, "a@s.example", ["b@rcpt.example", "c@rcpt.example"], mail("s26 two"))
        one, two = self.took(b"Subject: s26 one")[0], self.took(b"Subject: s26 two")[0]
        field = re.sub(rb"\r\n\s+", b" ", fields(split(one.content)[0])[0]).decode()
        match = re.match(r"Received: from client\.example \((\S+ )?\[127\.0\.0\.1\]\) by mx\.test\.example \([^)]*\) "
                         r"with E?SMTP id (\S+) for <b@rcpt\.example>; (.*)$", field)
        self.assertTrue(match, field)
        self.assertIsNotNone(email.utils.parsedate_to_datetime(match.group(3)).tzinfo)
        self.assertRegex(match.group(3), r" [+-]\d{4}( \(|$)")
        self.assertNotIn(b"for <", fields(split(two.content)[0])[0])

    def test_s26_the_mailbox_in_received_has_a_domain(self):
        with Instance({"local_recipient_maps": "", "local_transport": f"smtp:[127.0.0.1]:{self.peer.port}",
                       "myorigin": "local.test.example"}) as mx:
            send(mx.port, "a@s.example", ["bob"], mail("s26 bob"))
            trace = fields(split(self.took(b"Subject: s26 bob")[0].content)[0])[0]
            self.assertIn(b"for <bob@local.test.example>;", trace)

    def test_s27_and_s29_fields_and_bytes_pass_unchanged(self):
        content = (b"Received: from a by b; Sat, 21 Nov 2026 08:00:00 +0000\r\nrEcEiVeD :\r\n\tfrom c by d\r\n"
                   b"Subject: s27\r\nX-Odd:\r\n \r\nX-8: \xe9\xff\r\nNo-Date: yes\r\n\r\n\xe9\0 \r\n\t\r\n")
        send(self.mx.port, "a@s.example", ["b@rcpt.example"], content)
        got = self.took(b"Subject: s27")[0].content
        self.assertTrue(got.endswith(b"\r\n" + content), got)
        self.assertEqual(len(fields(got[:-len(content)])), 1)

    def test_s28_return_path_is_added_at_final_delivery_only(self):
        with Peer() as peer, Instance({**relay_to(peer), "virtual_mailbox_maps": inline(
                {"vera@virtual.test.example": "vera/"})}) as mx:
            send(mx.port, "a@s.example", ["b@rcpt.example", "vera@virtual.test.example"], mail("s28"))
            text = mx.virtual_box("vera").wait(1)[0]
            self.assertEqual([f for f in fields(split(text, b"\n")[0], b"\n") if f.startswith(b"Return-Path:")],
                             [b"Return-Path: <a@s.example>"])
            self.assertNotIn(b"Return-Path", peer.wait_messages(1)[0].content)

    def test_s30_too_many_hops(self):
        for count, wanted in ((99, True), (101, False)):
            content = b"Received: from a by b; Sat, 21 Nov 2026 08:00:00 +0000\r\n" * count + mail(f"s30 {count}")
            if wanted:
                send(self.mx.port, "a@s.example", ["b@rcpt.example"], content)
                self.took(b"Subject: s30 99")
            else:
                with self.assertRaises(Refused) as caught:
                    send(self.mx.port, "a@s.example", ["b@rcpt.example"], content)
                self.assertRegex(caught.exception.reply, r"^554 5\.4\.[06] ")

    def test_s32_quoted_local_parts_keep_their_meaning(self):
        for given, forms in {
            r'"a b"': [r'"a b"'],
            r'"a\"b"': [r'"a\"b"'],
            r'"ab"': ["ab", '"ab"'],
            r'"a\b"': ["ab", '"ab"'],
            '"a@b"': ['"a@b"'],
            '"a>b"': ['"a>b"'],
            '""': ['""'],
        }.items():
            with self.subTest(given), Client(self.mx.port) as client:
                client.expect(f"MAIL FROM:<{given}@s.example>", "250")
                client.expect(f"RCPT TO:<{given}@rcpt.example>", "250")
                client.expect(*DATA)
                client.raw(mail("s32 " + given.encode().hex()) + b".\r\n")
                self.assertRegex(client.reply(), TAKEN)
                message = self.took(b"Subject: s32 " + given.encode().hex().encode() + b"\r\n")[0]
                for verb, domain in (("MAIL FROM:<", "s.example>"), ("RCPT TO:<", "rcpt.example>")):
                    self.assertTrue(any(c.startswith(verb + f + "@" + domain) for f in forms for c in
                                        message.session.commands), (given, message.session.commands))

    def test_s34_a_stop_in_any_state_says_421_or_closes_and_keeps_what_was_taken(self):
        with Peer() as peer, Instance(relay_to(peer)) as mx:
            states = []
            for steps in ((), (EHLO,), (EHLO, MAIL), (EHLO, MAIL, RCPT), (EHLO, MAIL, RCPT, DATA)):
                client = Client(mx.port, ehlo=False)
                for step in steps:
                    client.expect(step[0], step[1][:3])
                states.append(client)
            send(mx.port, "a@s.example", ["b@rcpt.example"], mail("s34"))
            mx.stop()
            for client in states:
                try:
                    self.assertRegex(client.reply(), r"^421 ")
                except ConnectionError:
                    pass
                client.close()
            mx.start()
            self.assertIn(b"Subject: s34", peer.wait_messages(1)[0].content)
            mx.wait_empty_queue()
            self.assertEqual(len(peer.messages), 1)

    def test_s36_every_accepted_recipient_gets_it(self):
        with Peer() as peer, Instance({**relay_to(peer), "virtual_mailbox_maps": inline(
                {"vera@virtual.test.example": "vera/"})}) as mx:
            send(mx.port, "a@s.example", ["b@rcpt.example", "vera@virtual.test.example"], mail("s36"))
            peer.wait_messages(1)
            mx.virtual_box("vera").wait(1)
            mx.wait_empty_queue()

    def test_2034_1_every_reply_after_ehlo_has_a_code_of_its_class(self):
        seen = 0
        for steps in DIALOGUES.values():
            client = self.client()
            for text in [s[0] for s in steps if isinstance(s, tuple) and "\r\n" not in s[0] and
                         not s[0].upper().startswith(("EHLO", "HELO", "DATA", "QUIT"))]:
                reply = client.command(text)
                for line in reply.split("\n"):
                    seen += 1
                    self.assertRegex(line, r"^([245])\d\d[ -]\1\.\d{1,3}\.\d{1,3} ", text[:100])
        self.assertGreater(seen, 100)

    GROUP = (
        b"EHLO c.example\r\n",
        b"MAIL FROM:<a@s.example>\r\nRCPT TO:<b@rcpt.example>\r\nRCPT TO:<no@local.test.example>\r\n"
        b"RCPT TO:<c@rcpt.example>\r\nDATA\r\n",
    )

    def test_2920_1_a_group_cut_anywhere_has_the_same_answers(self):
        wanted = ["250 2.1.0", "250 2.1.5", "550 5.1.1", "250 2.1.5", "354 End "]
        hello, group = self.GROUP
        with Client(self.mx.port) as client:
            for cut in range(len(group) + 1):
                client.raw(group[:cut])
                select.select([client.socket], [], [], 0)  # only a pause: both parts may still arrive as one
                client.raw(group[cut:])
                self.assertEqual([client.reply()[:9].ljust(8) for _ in wanted][:4], wanted[:4], cut)
                client.raw(mail(f"2920-1 {cut}") + b".\r\n")
                self.assertRegex(client.reply(), TAKEN)
            for byte in group:
                client.raw(bytes([byte]))
            self.assertEqual([client.reply()[:4] for _ in wanted], [w[:4] for w in wanted])
            client.raw(b".\r\n")
            self.assertRegex(client.reply(), TAKEN)

    def test_2920_4_the_next_transaction_in_the_group_of_the_data(self):
        group = self.GROUP[1]
        for tail in (b"", b"RSET\r\n"):
            with Client(self.mx.port) as client:
                for i in range(20):
                    client.raw(group if i == 0 else b"")
                    self.assertEqual([client.reply()[:3] for _ in range(5)], ["250", "250", "550", "250", "354"])
                    client.raw(mail(f"2920-4 {len(tail)} {i};") + b".\r\n" + (tail + group if i < 19 else b"QUIT\r\n"))
                    self.assertRegex(client.reply(), TAKEN)
                    if tail and i < 19:
                        self.assertRegex(client.reply(), "^250 ")
                self.assertRegex(client.reply(), "^221 ")
        for size in (0, 6):
            self.took(b"Subject: 2920-4 %d " % size, 20)

    def test_3030_1_a_transaction_of_chunks_in_one_write_and_cut_anywhere(self):
        content = mail("3030-1", "a\r\n.\r\nb\n.\nc\r.\r\r\n")
        chunks = b"".join(b"BDAT %d%s\r\n" % (len(p), b" LAST" if last else b"") + p for p, last in
                          ((content[:7], False), (b"", False), (content[7:50], False), (content[50:], True)))
        group = b"MAIL FROM:<a@s.example>\r\nRCPT TO:<b@rcpt.example>\r\n" + chunks
        with Client(self.mx.port) as client:
            for cut in range(len(group)):
                client.raw(group[:cut])
                client.raw(group[cut:])
                self.assertEqual(
                    [client.reply()[:9] for _ in range(6)], ["250 2.1.0", "250 2.1.5"] + ["250 2.0.0"] * 4, cut
                )
        for message in self.took(b"Subject: 3030-1\r\n", len(group)):
            self.assertTrue(message.content.endswith(b"\r\n\r\na\r\n.\r\nb\r\n.\r\nc . \r\n"), message.content[-60:])

    def test_2033_2_there_is_no_lmtp_on_the_smtp_port(self):
        self.assertRegex(self.client(ehlo=False).command("LHLO c.example"), "^50[02] ")

    def test_7505_a_sender_domain_with_a_null_mx_may_be_refused(self):
        with Dns({("null.example", "MX"): [(0, ".")], ("fine.example", "A"): ["127.0.0.1"]}) as dns:
            with Instance({**dns.settings(), "smtpd_sender_restrictions": "reject_unknown_sender_domain"}) as mx:
                with Client(mx.port) as client:
                    for sender, wanted in (("a@null.example", r"^550 5\.7\.27 "), ("a@fine.example", "^250 "),
                                           ("a@gone.example", r"^450 4\.1\.8 ")):
                        client.expect(f"MAIL FROM:<{sender}>", "250")
                        self.assertRegex(client.command("RCPT TO:<known@local.test.example>"), wanted)
                        client.expect("RSET", "250")


for name, steps in DIALOGUES.items():
    setattr(Server, "test_" + name, lambda self, steps=steps: self.talk(steps))

if __name__ == "__main__":
    unittest.main()
