"""AUTH in the SMTP server: a real Dovecot decides, clients of all kinds log in."""
import base64
import os
import re
import subprocess

import peers
from dovecot_auth import FakeDovecot
from harness import *

LOGINS = {"anna@local.test.example": "secret one", "berta": "b\u00e4r"}


def b64(text):
    return base64.b64encode(text if isinstance(text, bytes) else text.encode()).decode()


def plain(user, password):
    return b64(f"\0{user}\0{password}")


def settings(path, **more):
    return {"smtpd_sasl_auth_enable": "yes", "smtpd_sasl_type": "dovecot", "smtpd_sasl_path": path,
            "mynetworks": "192.0.2.1/32", "smtpd_recipient_limit": "100",
            "smtpd_relay_restrictions": "permit_sasl_authenticated, reject_unauth_destination",
            "smtpd_error_sleep_time": "0", "local_transport": "discard:",
            "relay_domains": "", "transport_maps": inline({"out.example": "discard:"}), **more}


@unittest.skipIf(peers.unavailable(), peers.unavailable())
class WithDovecot(Suite):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.dovecot = peers.Dovecot(free_port(), logins=LOGINS, auth_port=free_port())
        cls.addClassCleanup(cls.dovecot.stop)
        cls.dovecot.start()
        cls.mx = Instance(settings(f"inet:127.0.0.1:{cls.dovecot.auth_port}", smtpd_sasl_authenticated_header="yes",
                                   broken_sasl_auth_clients="yes",
                                   smtpd_sender_login_maps=inline({"anna@local.test.example": "anna@local.test.example",
                                                                   "@berta.example": "anna@local.test.example berta"}),
                                   smtpd_sender_restrictions="reject_sender_login_mismatch"))
        cls.addClassCleanup(cls.mx.close)

    def client(self):
        client = Client(self.mx.port)
        self.addCleanup(client.close)
        return client

    def test_ehlo_offers_what_dovecot_has_and_the_options_allow(self):
        line = next(f for f in self.client().features if f.startswith("AUTH "))
        self.assertEqual(set(line.split()[1:]), {"PLAIN", "LOGIN", "CRAM-MD5", "SCRAM-SHA-1", "SCRAM-SHA-256"})
        self.assertIn("AUTH=" + line[5:], self.client().features)

    def test_a_client_that_is_not_logged_in_does_not_relay(self):
        client = self.client()
        client.expect("MAIL FROM:<x@out.example>", "250")
        client.expect("RCPT TO:<y@out.example>", "554 5.7.1")

    def test_plain_in_one_line_and_in_two(self):
        for client, lines in ((self.client(), [("AUTH PLAIN " + plain("berta", "b\u00e4r"), "235 2.7.0")]),
                              (self.client(), [("auth plain", "334 "), (plain("berta", "b\u00e4r"), "235 2.7.0")])):
            for line, code in lines:
                client.expect(line, code)
            client.expect("AUTH PLAIN", "503 5.5.1")
            reply = client.send("x@berta.example", ["y@out.example"], mail())
            queue_id = re.search(r"queued as (\w+)", reply)[1]
            self.mx.wait_log(rf"{queue_id}: client=\S+\[127.0.0.1\], sasl_method=PLAIN, sasl_username=berta\n")
            client.expect("MAIL FROM:<x@berta.example>", "250")
            client.expect("AUTH PLAIN", "503 5.5.1")
            client.quit()
        self.mx.wait_log(r"disconnect from \S+ ehlo=1 auth=1/3 mail=2 ")

    def test_login_word_by_word(self):
        client = self.client()
        self.assertEqual(client.command("AUTH LOGIN"), "334 " + b64("Username:"))
        self.assertEqual(client.command(b64("berta")), "334 " + b64("Password:"))
        client.expect(b64("b\u00e4r"), "235")

    def test_wrong_password_is_logged_as_tools_expect_it_and_the_session_goes_on(self):
        client = self.client()
        client.expect("AUTH PLAIN " + plain("anna@local.test.example", "guess"), "535 5.7.8")
        self.mx.wait_log(r"warning: \S+\[127.0.0.1\]: SASL PLAIN authentication failed: [^\n]*"
                         r", sasl_username=anna@local.test.example\n")
        client.expect("AUTH NOSUCH", "535 5.7.8 Error: authentication failed: Invalid authentication mechanism")
        client.expect("AUTH ANONYMOUS " + b64("x"), "535 5.7.8")  # Dovecot offers it, the options forbid it
        client.expect("AUTH PLAIN " + plain("anna@local.test.example", "secret one"), "235")

    def test_what_is_no_response_ends_the_exchange(self):
        client = self.client()
        client.expect("AUTH PLAIN", "334")
        client.expect("*", "501 5.7.0")
        client.expect("AUTH PLAIN a=b=", "501 5.5.2")
        client.expect("AUTH PLAIN", "334")
        client.expect("dGhpcyBpcyBubyBnb29k!", "501 5.5.2")
        client.expect("AUTH PLAIN x y", "501 5.5.4")
        client.expect("AUTH", "501 5.5.4")
        client.expect("NOOP", "250")

    def test_long_responses_hurt_nobody(self):
        others = self.client()
        others.expect("AUTH LOGIN", "334")
        client = self.client()
        client.expect("AUTH PLAIN", "334")
        client.expect("A" * 12292, "500 5.5.6")
        client.expect("AUTH PLAIN", "334")
        client.expect(plain("x" * 9000, "y"), "535")
        client.expect("AUTH PLAIN", "334")
        client.expect(plain("x" * 5000, "y"), "535")
        client.raw(b"NOOP\r\n")
        self.assertTrue(client.reply().startswith("250"))
        others.expect(b64("berta"), "334")  # Dovecot has not hung up
        others.expect(b64("b\u00e4r"), "235")

    def test_swaks_speaks_every_mechanism(self):
        for mechanism in ("PLAIN", "LOGIN", "CRAM-MD5"):
            done = subprocess.run(["swaks", "--server", f"127.0.0.1:{self.mx.port}", "--auth", mechanism, "--auth-user",
                                   "anna@local.test.example", "--auth-password", "secret one", "--from",
                                   "anna@local.test.example", "--to", "y@out.example"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.mx.wait_log(f"sasl_method={mechanism}, sasl_username=anna@local.test.example")

    def test_who_may_use_which_sender_address(self):
        def rcpt(client, sender):
            client.command("RSET")
            client.expect(f"MAIL FROM:<{sender}>", "250")
            return client.command("RCPT TO:<y@local.test.example>")
        stranger = self.client()
        self.assertRegex(rcpt(stranger, "anna@local.test.example"),
                         "^553 5.7.1 <anna@local.test.example>: Sender address rejected: not logged in$")
        self.assertRegex(rcpt(stranger, "any@elsewhere.example"), "^250")
        self.assertRegex(rcpt(stranger, ""), "^250")
        berta = self.client()
        berta.expect("AUTH PLAIN " + plain("berta", "b\u00e4r"), "235")
        self.assertRegex(rcpt(berta, "anna@local.test.example"), "^553 5.7.1 .* not owned by user berta$")
        self.assertRegex(rcpt(berta, "any@elsewhere.example"), "^553 5.7.1 .* not owned by user berta$")
        self.assertRegex(rcpt(berta, "any@berta.example"), "^250")
        anna = self.client()
        anna.expect("AUTH PLAIN " + plain("anna@local.test.example", "secret one"), "235")
        self.assertRegex(rcpt(anna, "Anna@LOCAL.test.example"), "^250")

    def test_the_header_and_the_log_name_who_sent_it(self):
        with Peer() as sink:
            self.mx.set(
                transport_maps=inline({"out.example": "discard:", "sink.example": f"smtp:[127.0.0.1]:{sink.port}"})
            )
            self.mx.reload_whole()
            client = self.client()
            client.expect("AUTH PLAIN " + plain("berta", "b\u00e4r"), "235")
            client.send("x@berta.example", ["y@sink.example"], mail(), mail="AUTH=e+3Dmc2@example.com")

            def again():  # the programs that the reload replaces may have taken it, with the old table
                try:
                    self.mx.flush()
                except ConnectionError:
                    pass
                return sink.messages
            eventually(again, "delivered by the new table")
            content = sink.messages[0].content
            self.assertRegex(
                content,
                rb"\A(?:Received: from client.example \(\S+ \[127.0.0.1\]\)\r\n"
                rb"\t\(Authenticated sender: berta\)\r\n\tby mx.test.example \(Penstock\) with ESMTPA id )",
            )
            self.mx.wait_log(r"sasl_username=berta, sasl_sender=e=mc2@example.com\n")

    def test_dovecot_killed_in_the_middle_and_back(self):
        client = self.client()
        client.expect("AUTH LOGIN", "334")
        self.dovecot.kill_auth()
        reply = client.command(b64("berta"))
        self.assertTrue(reply.startswith(("454 4.7.0", "334")), reply)  # 334: the kill came after the answer
        if reply.startswith("334"):
            client.expect("*", "501")

        def back():
            return client.command("AUTH PLAIN " + plain("berta", "b\u00e4r")).startswith("235")
        eventually(back, "Dovecot's master has started it again")
        client.send("x@berta.example", ["y@out.example"], mail())


class WithoutDovecot(Suite):
    def test_no_service_means_try_later_and_mail_goes_on(self):
        with Instance(settings("private/auth")) as mx, Client(mx.port) as client:
            self.assertFalse(client.has("AUTH"))
            client.expect("AUTH PLAIN " + plain("a", "b"), "454 4.7.0")
            client.send("x@out.example", ["y@local.test.example"], mail())
            # The service appears: without restart or reload the waiting client may log in.
            os.makedirs(mx.path("spool", "private"), exist_ok=True)

            def then(peer, line):
                if line.startswith("AUTH\t"):
                    peer.sendall(f"OK\t{line.split(chr(9))[1]}\tuser=a\n".encode())
            fake = FakeDovecot(then, path=mx.path("spool", "private", "auth"))
            self.addCleanup(fake.close)
            eventually(lambda: client.command("AUTH PLAIN " + plain("a", "b")).startswith("235"), "a log-in")
            with Client(mx.port) as other:
                self.assertTrue(other.has("AUTH"))

    def test_one_that_is_lost_or_talks_nonsense_is_a_temporary_failure(self):
        answers = [b"FAIL\t\n", b"OK\t{id}\n", b"CONT\t{id}\t*nonsense*\n", b"x" * 20000 + b"\n",
                   b"FAIL\t{id}\ttemp\treason=database\n", None]
        left = list(answers)

        def then(peer, line):
            if not line.startswith("AUTH\t"):
                return None
            answer = left.pop(0)
            if answer is None:
                return False
            peer.sendall(answer.replace(b"{id}", line.split("\t")[1].encode()))
            return None
        fake = FakeDovecot(then)
        self.addCleanup(fake.close)
        with Instance(settings(f"inet:127.0.0.1:{fake.port}")) as mx, Client(mx.port) as client:
            for answer in answers:
                with self.subTest(answer=answer):
                    client.expect("AUTH PLAIN " + plain("a", "b"), "454 4.7.0")
                    client.expect("NOOP", "250")
            self.assertEqual(left, [])
            self.assertNotIn("authentication failed", mx.log())  # the words that lock clients out


if __name__ == "__main__":
    unittest.main()
