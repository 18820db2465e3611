"""pentrace: the dialogue of sessions as it happens, without passwords and content, and never in their way."""
import json
import os
import re
import shutil
import smtplib
import ssl
import tempfile

from certificates import Authority
from harness import *
from test_auth_server import FakeDovecot, b64, plain
from tracing import Trace

SETTINGS = {"smtpd_error_sleep_time": "0", "smtpd_peername_lookup": "no", "local_transport": "discard:",
            "transport_maps": inline({"sink.example": "discard:", "other.example": "discard:"})}
SECRET = "tr0ub4dor&3 horse"


class Incoming(Suite):
    def test_a_session_is_shown_whole_in_order_without_its_content(self):
        with Instance(SETTINGS) as mx, Trace(mx, "in") as trace:
            with Client(mx.port) as client:
                client.send("ada@a.example", ["bob@sink.example"], b"Subject: x\r\n\r\nhidden words\r\n")
                client.quit()
            trace.wait(r" \| disconnect from ")
            said = trace.dialogue()
            self.assertRegex(said[0], r"^= connect from \[127\.0\.0\.1\]:\d+$")
            self.assertRegex(said[1], r"^= client is \S+\[127\.0\.0\.1\]$")
            for line in ("> 220 mx.test.example ESMTP Penstock", "< EHLO client.example",
                         "< MAIL FROM:<ada@a.example>", "> 250 2.1.0 Ok", "< RCPT TO:<bob@sink.example>", "< DATA",
                         "> 354 End data with <CR><LF>.<CR><LF>", "= content, 28 octets", "< QUIT", "> 221 2.0.0 Bye"):
                self.assertIn(line, said)
            self.assertTrue(any(re.match(r"> 250 2\.0\.0 Ok: queued as \w+$", line) for line in said), said)
            self.assertLess(said.index("< DATA"), said.index("= content, 28 octets"))
            self.assertNotIn("hidden", trace.text())
            self.assertEqual(len({line.split(" ")[3] for line in trace.lines}), 1, "one session")

    def test_a_queue_directory_may_lie_deep(self):
        deep = os.path.join(self.folder(), "d" * 120)
        os.mkdir(deep)
        os.chmod(os.path.dirname(deep), 0o755)
        with Instance(SETTINGS, directory=deep) as mx, Trace(mx, "in") as trace:
            with Client(mx.port) as client:
                client.quit()
            trace.wait(r" \| disconnect from ")

    def test_passwords_are_never_shown(self):
        def then(peer, line):
            if line.startswith("AUTH\t"):
                number = line.split("\t")[1]
                asks = "resp=" not in line
                peer.sendall((f"CONT\t{number}\t{b64('Username:')}\n" if asks
                              else f"OK\t{number}\tuser=anna\n").encode())
            elif line.startswith("CONT\t"):
                number = line.split("\t")[1]
                self.rounds += 1
                peer.sendall((f"CONT\t{number}\t{b64('Password:')}\n" if self.rounds == 1
                              else f"OK\t{number}\tuser=anna\n").encode())

        self.rounds = 0
        with Instance({**SETTINGS, "smtpd_sasl_auth_enable": "yes", "smtpd_sasl_path": "private/auth",
                       "smtpd_sasl_type": "dovecot"}, start=False) as mx:
            os.makedirs(mx.path("spool", "private"), exist_ok=True)
            fake = FakeDovecot(then, path=mx.path("spool", "private", "auth"),
                               mechanisms=("PLAIN\tplaintext", "LOGIN\tplaintext"))
            self.addCleanup(fake.close)
            mx.start()
            with Trace(mx, "in") as trace:
                with Client(mx.port) as client:
                    client.expect("AUTH PLAIN " + plain("anna", SECRET), "235")
                    client.quit()
                with Client(mx.port) as client:
                    client.expect("AUTH LOGIN", "334")
                    client.expect(b64("anna"), "334")
                    client.expect(b64(SECRET), "235")
                    client.quit()
                with Client(mx.port) as client:
                    client.command("AUTH NOSUCH " + plain("anna", SECRET))
                    client.command(b64(SECRET))
                    client.quit()
                eventually(lambda: trace.text().count("| disconnect") >= 3, lambda: trace.text())
                said = trace.dialogue()
                self.assertIn("< AUTH PLAIN ***", said)
                self.assertIn("> 334 ***", said)
                self.assertEqual(said.count("> 235 2.7.0 Authentication successful"), 2)
                for secret in (SECRET, b64(SECRET), plain("anna", SECRET), b64("anna")):
                    self.assertNotIn(secret, trace.text())
            self.assertNotIn(b64(SECRET), mx.log())

    def test_tls_is_a_mark(self):
        directory = tempfile.mkdtemp(prefix="pen-test-")
        self.addCleanup(shutil.rmtree, directory)
        chain = os.path.join(directory, "chain")
        with open(chain, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as out:
            out.write(Authority(directory).issue("mx.test.example").text())
        settings = {**SETTINGS, "smtpd_tls_security_level": "may", "smtpd_tls_chain_files": chain}
        with Instance(settings) as mx, Trace(mx, "in") as trace:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            with smtplib.SMTP("127.0.0.1", mx.port) as client:
                client.starttls(context=context)
                client.ehlo()
                version, cipher = client.sock.version(), client.sock.cipher()[0]
            trace.wait(rf"= {re.escape(version)} with cipher {cipher} \(\d+ bits\)")
            trace.wait(r" \| disconnect")

    def test_only_sessions_that_fit_are_shown(self):
        with Instance(SETTINGS) as mx, Trace(mx, "in", "--client", "127.0.0.2") as near, \
                Trace(mx, "in", "--host", "says.example") as named:
            with Client(mx.port, source="127.0.0.2") as client:
                client.command("NOOP near")
                client.quit()
            with Client(mx.port, helo="says.example") as client:
                client.command("NOOP named")
                client.quit()
            near.wait(r" \| disconnect")
            named.wait(r" \| disconnect")
            self.assertIn("NOOP near", near.text())
            self.assertNotIn("NOOP named", near.text())
            self.assertIn("NOOP named", named.text())
            self.assertNotIn("NOOP near", named.text())
            self.assertIn("= connect from", named.text())  # also what came before it was known

    def test_a_recipient_shows_its_message_alone(self):
        with Instance(SETTINGS) as mx:
            with Trace(mx, "in", "--recipient", "bob@sink.example", "--json") as trace:
                with Client(mx.port) as client:
                    for name in ("eve@other.example", "bob@sink.example", "carl@other.example"):
                        client.send("ada@a.example", [name], mail())
                    client.quit()
                eventually(lambda: any('"kind":"end"' in line for line in trace.lines), lambda: trace.text())
                lines = [json.loads(line) for line in trace.lines]
                text = "\n".join(line["text"] for line in lines)
                self.assertIn("RCPT TO:<bob@sink.example>", text)
                self.assertIn("EHLO client.example", text)
                self.assertIn("queued as", text)
                self.assertNotIn("other.example", text)
                self.assertEqual({line["service"] for line in lines}, {str(mx.port)} | {lines[0]["service"]})
                self.assertEqual([line["time"] for line in lines], sorted(line["time"] for line in lines))

    def test_a_number_of_sessions_ends_the_trace(self):
        with Instance(SETTINGS) as mx, Trace(mx, "in", "--count", "1") as trace:
            with Client(mx.port) as first, Client(mx.port) as second:
                second.command("NOOP second")
                second.quit()
                first.command("NOOP first")
                first.quit()
            self.assertEqual(trace.ends(), 0)
            self.assertIn("NOOP first", trace.text())
            self.assertNotIn("NOOP second", trace.text())

    def test_a_stopped_reader_holds_no_session_and_is_told_what_it_missed(self):
        lines = 20_000
        with Instance({**SETTINGS, "trace_buffer_limit": "65536", "smtpd_junk_command_limit": "1000000"}) as mx, \
                Trace(mx, "in") as trace:
            trace.pause()
            text = "x" * 400
            with Client(mx.port) as client:
                for _ in range(lines):
                    client.command("NOOP " + text)
                client.quit()
            trace.go_on()
            gap = trace.wait(r"(\d+) lines are missing here")
            shown = sum("< NOOP" in line or "> 250 2.0.0 Ok" in line for line in trace.lines)
            self.assertGreater(int(gap[1]), lines)
            self.assertLess(shown, lines)
            with Client(mx.port) as client:
                client.command("NOOP later")
                client.quit()
            trace.wait("NOOP later")

    def test_there_may_be_so_many_readers(self):
        with Instance({**SETTINGS, "trace_subscriber_limit": "1"}) as mx, Trace(mx, "in"):
            second = mx.tool("pentrace", "in")
            self.assertEqual(second.returncode, 69)
            self.assertIn("trace_subscriber_limit", second.stderr)

    def test_a_reload_is_followed(self):
        with Instance(SETTINGS) as mx, Trace(mx, "in") as trace:
            mx.reload()
            trace.follows(2)
            with Client(mx.port) as client:
                client.command("NOOP anew")
                client.quit()
            trace.wait("NOOP anew")

    def test_nobody_else_may_look(self):
        if os.geteuid() != 0:
            self.skipTest("needs root, to be somebody else")
        with Instance(SETTINGS) as mx:
            place = next(name for name in os.listdir(mx.path("spool", "private")) if name.startswith("trace."))
            self.assertEqual(os.stat(mx.path("spool", "private")).st_mode & 0o067, 0)
            self.assertTrue(place)

    def test_where_no_service_fits_it_says_so(self):
        with Instance(SETTINGS) as mx:
            self.assertEqual(mx.tool("pentrace", "in", "--service", "nosuch").returncode, 78)
            mx.stop()
            done = mx.tool("pentrace", "in")
            self.assertEqual(done.returncode, 69)


class Outgoing(Suite):
    def relayed(self, peer, *words, settings=None):
        mx = Instance({**relay_to(peer, "b.example", "other.example"), "smtpd_peername_lookup": "no",
                       **(settings or {})})
        self.addCleanup(mx.close)
        trace = Trace(mx, "out", "--service", "smtp", *words)
        self.addCleanup(trace.close)
        return mx, trace

    def test_a_delivery_is_shown_with_its_replies(self):
        with Peer() as peer:
            mx, trace = self.relayed(peer)
            send(mx.port, "ada@a.example", ["bob@b.example"], mail(body="hidden words\r\n"))
            peer.wait_messages(1)
            trace.wait(r"= content of \w+, \d+ octets")
            trace.wait(r"^.* < 250 ")
            said = trace.dialogue()
            self.assertEqual(said[0], f"= connect to 127.0.0.1[127.0.0.1]:{peer.port}")
            for pattern in ("> EHLO mx.test.example", "> MAIL FROM:<ada@a.example>", "> RCPT TO:<bob@b.example>"):
                self.assertTrue(any(re.match(pattern, line) for line in said), (pattern, said))
            self.assertNotIn("hidden", trace.text())

    def test_a_refusal_and_a_host_that_is_not_there_are_shown(self):
        with Peer() as peer:
            peer.replies["RCPT"] = ["450 4.7.1 greylisted"]
            mx, trace = self.relayed(peer, "--recipient", "bob@b.example")
            send(mx.port, "ada@a.example", ["bob@b.example"], mail())
            trace.wait(r"< 450 4\.7\.1 greylisted")
        port = free_port()
        mx, trace = self.relayed(peer, settings={
            "transport_maps": inline({"b.example": f"smtp:[127.0.0.1]:{port}"})})
        send(mx.port, "ada@a.example", ["bob@b.example"], mail())
        trace.wait(rf"\| connect to 127\.0\.0\.1\[127\.0\.0\.1\]:{port}: Connection refused")

    def test_a_queue_id_shows_the_attempts_of_that_message(self):
        with Peer() as peer:
            peer.replies["RCPT"] = ["450 4.7.1 not yet"]
            mx, everything = self.relayed(peer)
            with Client(mx.port) as client:
                message = re.search(r"queued as (\w+)", client.send("ada@a.example", ["bob@b.example"], mail()))[1]
                everything.wait("450 4.7.1 not yet")
                with Trace(mx, "out", "--service", "smtp", "--queue-id", message) as trace:
                    client.send("ada@a.example", ["eve@b.example"], mail())
                    peer.wait_messages(1)
                    eventually(lambda: any(m["queue_id"] == message and m["queue_name"] == "deferred"
                                           for m in mx.queue()), lambda: f"it waits: {mx.queue()}")
                    mx.tool("penqueue", "-i", message, check=True)
                    peer.wait_messages(2)
                    trace.wait(rf"= content of {message}, \d+ octets")
                    self.assertIn("RCPT TO:<bob@b.example>", trace.text())
                    self.assertNotIn("eve@", trace.text())

    def test_other_messages_are_not_shown(self):
        with Peer() as peer:
            mx, trace = self.relayed(peer, "--domain", "b.example")
            for n in range(3):
                send(mx.port, "ada@a.example", [f"u{n}@other.example"], mail())
                peer.wait_messages(n + 1)
            send(mx.port, "ada@a.example", ["bob@b.example"], mail())
            trace.wait(r"> RCPT TO:<bob@b\.example>")
            trace.wait(r"= content of ")
            self.assertNotIn("other.example", trace.text())

    def test_a_flood_is_not_slowed_by_a_stopped_reader(self):
        with Peer() as peer:
            mx, trace = self.relayed(peer, settings={"trace_buffer_limit": "4096"})
            trace.pause()
            with Client(mx.port) as client:
                for n in range(300):
                    client.send("ada@a.example", [f"u{n}@b.example"], mail())
                client.quit()
            self.assertEqual(len(peer.wait_messages(300)), 300)
            mx.wait_empty_queue()
            trace.go_on()
            trace.wait("lines are missing here|RCPT TO:<u299@")

    def test_the_password_for_another_host_is_not_shown(self):
        with Peer(features=["PIPELINING", "AUTH PLAIN LOGIN"]) as peer:
            peer.replies["AUTH"] = ["235 2.7.0 welcome"]
            mx, trace = self.relayed(peer, settings={
                "smtp_sasl_auth_enable": "yes", "smtp_sasl_security_options": "noanonymous",
                "smtp_sasl_password_maps": inline({f"[127.0.0.1]:{peer.port}": f"anna:{SECRET.replace(' ', '')}"})})
            send(mx.port, "ada@a.example", ["bob@b.example"], mail())
            peer.wait_messages(1)
            trace.wait(r"> AUTH PLAIN \*\*\*")
            password = SECRET.replace(" ", "")
            for secret in (password, plain("anna", password), b64(password)):
                self.assertNotIn(secret, trace.text())
            self.assertTrue(any(plain("anna", password) in bytes(s.raw).decode() for s in peer.sessions),
                            "and it was sent")


if __name__ == "__main__":
    unittest.main()
