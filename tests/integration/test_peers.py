"""Other servers on both sides: Postfix and Exim send and receive mail, Dovecot takes LMTP."""
import glob
import os
import shutil
import smtplib
import subprocess
import tempfile

import peers
from harness import *

OWN = sorted(glob.glob(os.path.join(TOP, "tests", "corpus", "*.eml")))


def messages():
    """Messages of the corpus with a complete header, so that no server has a reason to change or refuse them."""
    picked = {}
    for path in OWN:
        name = os.path.basename(path)
        if name[:2] in ("01", "02", "06", "07", "08", "09", "14", "15", "17", "18", "19", "21", "23", "24"):
            with open(path, "rb") as raw:
                picked[name] = raw.read()
    return picked


class Peers(Suite):
    loads_the_machine = True

    def setUp(self):
        reason = peers.unavailable()
        if reason:
            self.skipTest(reason)

    def check(self, wanted, got):
        """Shows that each body arrived once, with its header fields in order."""
        self.assertEqual(len(got), len(wanted))
        for name, content in wanted.items():
            header, body = split(content)
            key = [f for f in fields(header) if f.startswith(b"Message-ID:")][0]
            mine = [g for g in got if key in g]
            self.assertEqual(len(mine), 1, name)
            their_header, their_body = split(mine[0])
            self.assertEqual(their_body, body, name)
            kept = iter(fields(their_header))
            for field in fields(header):
                self.assertTrue(any(field == k for k in kept), (name, field))

    def through(self, make):
        """Client → Penstock → the other server → Penstock → a peer that records."""
        wanted = messages()
        with Peer() as sink:
            port = free_port()
            settings = {
                "relay_domains": "there.example, back.example",
                "local_header_rewrite_clients": "",
                "message_drop_headers": "",
                "transport_maps": inline(
                    {"there.example": f"smtp:[127.0.0.1]:{port}", "back.example": f"smtp:[127.0.0.1]:{sink.port}"}
                ),
                "smtp_line_length_limit": "0",
                "hopcount_limit": "100",
            }
            with Instance({**settings, "transport_maps": inline({"there.example": f"smtp:[127.0.0.1]:{port}"})}) as out:
                with Instance(
                    {
                        "relay_domains": "there.example",
                        "transport_maps": inline({"there.example": f"smtp:[127.0.0.1]:{sink.port}"}),
                        "local_header_rewrite_clients": "",
                        "message_drop_headers": "",
                    }
                ) as back:
                    with make(port, back.port) as other:
                        with Client(out.port) as client:
                            for name, content in wanted.items():
                                client.send("ada@sender.example", ["ben@there.example"], content, mail="BODY=8BITMIME")
                        try:
                            sink.wait_messages(len(wanted), seconds=90)
                        except AssertionError:
                            print(other.log()[-4000:])
                            raise
                        out.wait_empty_queue(60)
                        back.wait_empty_queue(60)
                        self.check(wanted, [m.content for m in sink.messages])
                        self.assertEqual(sink.violations, [])

    def test_postfix_receives_from_it_and_sends_to_it(self):
        self.through(lambda port, back: peers.Postfix(port=port, relay_port=back))

    def test_exim_receives_from_it_and_sends_to_it(self):
        self.through(lambda port, back: peers.Exim(port=port, relay_port=back))

    def test_a_stock_exim_that_refuses_long_lines_gets_none(self):
        """Debian's ACL, with CHUNKING on, as it is by default."""
        refuses = ("deny message = maximum allowed line length is 998 octets, got $max_received_linelength\n"
                   "       condition = ${if > {$max_received_linelength}{998}}\n  accept")
        people = b", ".join(b"user%03d@some.example" % n for n in range(120))
        content = mail(body="x" * 1500 + "\r\n").replace(b"\r\nSubject:", b"\r\nCc: " + people + b"\r\nSubject:", 1)
        with Peer() as sink:
            port = free_port()
            with Instance({"relay_domains": "there.example",
                           "transport_maps": inline({"there.example": f"smtp:[127.0.0.1]:{port}"})}) as mx:
                with peers.Exim(port=port, relay_port=sink.port, data=refuses):
                    send(mx.port, "ada@sender.example", ["ben@there.example"], content)
                    got = sink.wait_messages(1)[0].content
                    mx.wait_log(r"to=<ben@there\.example>, .*status=sent ")
                    mx.wait_log(r"breaking line > 998 bytes with <CR><LF>SPACE: 2 of them for ")
            self.assertIn(b"x" * 998 + b"\r\n " + b"x" * 502 + b"\r\n", got)
            header = got[:got.index(b"\r\n\r\n")]
            self.assertIn(people, header.replace(b"\r\n ", b" "))

    def lmtp(self, nexthop, dovecot):
        wanted = messages()
        settings = {"relay_domains": "box.example", "transport_maps": inline({"box.example": nexthop}),
                    "local_header_rewrite_clients": "", "message_drop_headers": "", "smtp_line_length_limit": "0"}
        with Instance(settings) as mx:
            with Client(mx.port) as client:
                for content in wanted.values():
                    client.send("ada@sender.example", ["ben@box.example"], content, mail="BODY=8BITMIME")
            eventually(lambda: len(dovecot.messages("ben")) >= len(wanted),
                       lambda: f"Dovecot has {len(dovecot.messages('ben'))}\n{dovecot.log()[-2000:]}", 60)
            mx.wait_empty_queue()
            got = [g.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n") for g in dovecot.messages("ben")]
            self.check(wanted, got)

    def test_dovecot_takes_lmtp_over_tcp(self):
        with peers.Dovecot(port=free_port()) as dovecot:
            self.lmtp(f"lmtp:inet:127.0.0.1:{dovecot.port}", dovecot)

    def test_dovecot_takes_lmtp_over_a_unix_socket(self):
        with peers.Dovecot(port=free_port()) as dovecot:
            self.lmtp(f"lmtp:unix:{dovecot.socket}", dovecot)

    def test_the_end_of_one_peer_ends_no_other(self):
        """The kernel gives the number of a mount namespace that has ended to the next one, which is another test's."""
        with tempfile.TemporaryDirectory(prefix="pen-test-") as folder:
            for name in ("etc", "spool", "lib", "log", "run"):
                os.mkdir(os.path.join(folder, name))
            tree = os.path.join(peers.ROOTS, "postfix")
            subprocess.run([os.path.join(TOP, "tests/peers/enter"), tree, folder, "/bin/true"], check=True)
            with open(os.path.join(folder, "holder")) as text:
                holder = int(text.read())
            leaving = subprocess.Popen([os.path.join(TOP, "tests/peers/leave"), folder])
            eventually(lambda: not os.path.exists(f"/proc/{holder}/ns/mnt"), "the peer has ended")
            with subprocess.Popen(["unshare", "-m", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
                self.assertEqual(leaving.wait(), 0)
                self.assertEqual(other.communicate(b"alive")[0], b"alive")

    def test_smtplib_and_swaks_deliver(self):
        with Peer() as sink, Instance(relay_to(sink)) as mx:
            with smtplib.SMTP("127.0.0.1", mx.port, "client.example") as client:
                client.sendmail("ada@sender.example", ["a@rcpt.example"], mail("smtplib").decode())
            count = 1
            if shutil.which("swaks"):
                subprocess.run(["swaks", "--server", f"127.0.0.1:{mx.port}", "--from", "ada@sender.example", "--to",
                                "b@rcpt.example", "--pipeline"], check=True, capture_output=True, timeout=60)
                count = 2
            sink.wait_messages(count)
            mx.wait_empty_queue()

    def test_smtp_source_sends_many_sessions_to_smtp_sink(self):
        """Twenty sessions at once, several messages each, through to a counting sink."""
        with peers.Postfix(port=free_port()) as postfix:
            port = free_port()
            sink = subprocess.Popen([os.path.join(TOP, "tests/peers/enter"), postfix.root, postfix.dir,
                                     "/usr/sbin/smtp-sink", "-u", "nobody", "-c", f"127.0.0.1:{port}", "100"],
                                    stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
            try:
                peers.wait_port(port)
                with Instance(
                    {
                        "relay_domains": "rcpt.example",
                        "transport_maps": inline({"rcpt.example": f"smtp:[127.0.0.1]:{port}"}),
                    }
                ) as mx:
                    done = postfix.run(
                        "/usr/sbin/smtp-source",
                        "-s",
                        "20",
                        "-m",
                        "500",
                        "-l",
                        "4096",
                        "-f",
                        "a@s.example",
                        "-t",
                        "b@rcpt.example",
                        f"127.0.0.1:{mx.port}",
                    )
                    self.assertEqual(done.returncode, 0, done.stdout)
                    mx.wait_empty_queue(60)
                    self.assertEqual(mx.log().count("status=sent"), 500)
                    self.assertEqual(mx.log().count("status=deferred") + mx.log().count("status=bounced"), 0)
            finally:
                sink.kill()
                sink.wait()


if __name__ == "__main__":
    unittest.main()
