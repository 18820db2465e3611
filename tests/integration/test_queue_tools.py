"""pencat, penqueue, pensuper and penshape beyond simple orders: files, listings, malformed input."""
import os
import re
import shutil
import socket
import subprocess
import threading
import unittest

import test_orders
from harness import *


def submit(mx, *words, text="Subject: hello\n\nline one\nline two\n"):
    done = subprocess.run([os.path.join(BIN, "sendmail"), "-C", mx.etc, *words], input=text, text=True,
                          capture_output=True, timeout=60)
    assert done.returncode == 0, done


class Files(Suite):
    def dropped(self, mx):
        folder = mx.path("spool", "maildrop")
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder))]

    def test_a_submitted_file_is_shown_by_name_by_id_and_from_standard_input(self):
        with Instance() as mx:
            mx.stop()
            submit(mx, "-f", "ada@sender.example", "-N", "failure,delay", "-R", "hdrs", "-V", "id 7", "-B", "8BITMIME",
                   "bob@rcpt.example")
            path, = self.dropped(mx)
            identity = os.path.basename(path)
            whole = mx.tool("pencat", path, check=True).stdout
            for line in (
                "sender: ada@sender.example",
                "named_attribute: envelope_id=id 7",
                "named_attribute: ret_flags=2",
                "named_attribute: encoding=8bit",
                "named_attribute: protocol_name=local",
                "named_attribute: notify_flags=12",
                "recipient: bob@rcpt.example",
                "Subject: hello",
                "line two",
            ):
                self.assertIn(line + "\n", whole)
            by_id = whole.replace(path, f"maildrop/{identity}")
            self.assertEqual(mx.tool("pencat", identity, check=True).stdout, by_id)
            self.assertEqual(mx.tool("pencat", "-q", identity, check=True).stdout, by_id)
            with open(path) as given:
                done = subprocess.run([os.path.join(BIN, "pencat"), "-h"], stdin=given, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout), (0, "Subject: hello\n"))
            self.assertEqual(mx.tool("pencat", "-b", path, check=True).stdout, "\nline one\nline two\n")
            self.assertEqual(mx.tool("pencat", "-b", "-f", path, check=True).stdout,
                             f"{path}: \n{path}: line one\n{path}: line two\n")
            shown = lambda *options: mx.tool("pencat", *options, path, check=True).stdout
            self.assertEqual(shown("-h", "-b", "-o"), "        0 Subject: hello\n       15 \n       16 line one\n"
                             "       25 line two\n")
            self.assertEqual(shown("-s", "16", "-r"), "line one\nline two\n")
            self.assertEqual(shown("-b", "-o", "-s", "21"), "       21 one\n       25 line two\n")
            self.assertEqual(shown("-s", "1000"), "")
            self.assertEqual(shown("-o").replace("        0 ", "").count("recipient: bob@rcpt.example"), 2)
            self.assertEqual(shown("-d", "-b"), " 78 \n 78 line one\n 78 line two\n")
            for wrong in (("-s", "x"), ("-s", "-1")):
                self.assertEqual(mx.tool("pencat", *wrong, path).returncode, os.EX_USAGE)

    def test_the_heading_of_the_list_stands_over_its_columns(self):
        with Instance({"defer_transports": "local"}) as mx:
            send(mx.port, "ada@sender.example", ["postmaster@local.test.example"], mail())
            heading, line, *_ = mx.tool("penqueue", "-p", check=True).stdout.splitlines()
            columns = [(m.start(), m.end()) for m in re.finditer(r"-[^ ]+( [A-Z][^ ]*)?-", heading)]
            self.assertEqual(len(columns), 4, heading)
            shown = [line[begin:end].strip() for begin, end in columns[:3]] + [line[columns[3][0]:].strip()]
            self.assertRegex(shown[0], r"^[0-9A-Za-z]{10,17}[*!]?$")
            self.assertRegex(shown[1], r"^\d+$")
            self.assertRegex(shown[2], r"^\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d$")
            self.assertEqual(shown[3], "ada@sender.example")

    def test_standard_input_may_be_a_pipe(self):
        with Instance() as mx:
            mx.stop()
            submit(mx, "bob@rcpt.example", text="Subject: large\n\n" + "0123456789\n" * 100000)
            path, = self.dropped(mx)
            with open(path, "rb") as f:
                content = f.read()
            folder = mx.path("temporary")
            os.mkdir(folder)

            def piped(given):
                return subprocess.run([os.path.join(BIN, "pencat")], input=given, capture_output=True, timeout=60,
                                      env={**os.environ, "TMPDIR": folder})
            done = piped(content)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(
                done.stdout.decode(), mx.tool("pencat", path, check=True).stdout.replace(path, "standard input")
            )
            self.assertEqual(done.stdout.count(b"0123456789\n"), 100000)
            done = piped(content[:-500])
            self.assertEqual(done.returncode, os.EX_DATAERR)
            self.assertIn(b"without a trailer", done.stderr)
            for other in (b"", b"PENDROP", b"no such thing" * 100):
                self.assertEqual(piped(other).returncode, os.EX_DATAERR, other)
            self.assertEqual(os.listdir(folder), [])

    def test_what_sendmail_was_asked_for_is_shown(self):
        with Instance() as mx:
            mx.stop()
            for words, lines in (
                (["-F", "Ada L."], ["sender_fullname: Ada L."]),
                (["-G"], ["named_attribute: gateway=yes"]),
                (["-v"], ["named_attribute: traced=yes"]),
                (["-bv"], ["named_attribute: probe=yes"]),
                (["-O", "requiretls=yes"], ["named_attribute: requiretls=yes"]),
                (["-O", "smtputf8=yes"], ["named_attribute: smtputf8=yes"]),
            ):
                with self.subTest(words):
                    submit(mx, "-f", "ada@sender.example", *words, "bob@rcpt.example")
                    path, = self.dropped(mx)
                    shown = mx.tool("pencat", "-e", path, check=True).stdout
                    for line in lines:
                        self.assertIn(line + "\n", shown)
                    self.assertEqual(
                        len(re.findall(": (?:gateway|traced|probe|requiretls|smtputf8)=", shown)),
                        0 if words[0] == "-F" else 1,
                        shown,
                    )
                    os.unlink(path)

    def test_the_mode_of_a_copy_does_not_matter(self):
        with Instance() as mx:
            mx.stop()
            submit(mx, "bob@rcpt.example")
            path, = self.dropped(mx)
            copy = mx.write("copy", "")
            shutil.copyfile(path, copy)
            os.chmod(copy, 0o644)
            self.assertEqual(mx.tool("pencat", copy, check=True).stderr, "")
            os.chmod(path, 0o644)
            done = mx.tool("pencat", os.path.basename(path))
            self.assertEqual(done.returncode, os.EX_DATAERR)
            self.assertIn("its submission did not end\n", done.stderr)

    def test_a_word_is_an_id_before_it_is_a_file(self):
        with Instance() as mx:
            mx.stop()
            submit(mx, "bob@rcpt.example")
            path, = self.dropped(mx)
            identity = os.path.basename(path)
            folder = mx.path("elsewhere")
            os.mkdir(folder)
            with open(path, "rb") as f:
                other = f.read()
            with open(os.path.join(folder, identity), "wb") as out:
                out.write(other.replace(b"line one", b"LINE ONE"))

            def shown(*words):
                return subprocess.run(
                    [os.path.join(BIN, "pencat"), "-c", mx.etc, *words],
                    cwd=folder,
                    capture_output=True,
                    text=True,
                    timeout=60,
                )

            self.assertIn("line one\n", shown(identity).stdout)
            self.assertIn("LINE ONE\n", shown("./" + identity).stdout)
            os.unlink(path)
            mx.start()
            self.assertIn("LINE ONE\n", shown(identity).stdout)
            done = shown("-q", identity)
            self.assertEqual((done.returncode, done.stdout), (os.EX_DATAERR, ""))
            self.assertIn("no such message", done.stderr)

    def test_a_link_or_a_pipe_in_maildrop_is_not_followed_and_not_waited_for(self):
        with Instance() as mx:
            mx.stop()
            submit(mx, "bob@rcpt.example")
            path, = self.dropped(mx)
            moved = mx.path("moved")
            os.rename(path, moved)
            os.symlink(moved, path)
            done = mx.tool("pencat", os.path.basename(path))
            self.assertEqual((done.returncode, done.stdout), (os.EX_NOINPUT, ""))
            os.unlink(path)
            os.mkfifo(path)
            for word in (os.path.basename(path), path):
                done = mx.tool("pencat", word)
                self.assertEqual((done.returncode, done.stdout), (os.EX_DATAERR, ""))
                self.assertIn("not a regular file", done.stderr)
            os.unlink(path)

    @unittest.skipUnless(os.geteuid() == 0, "needs root to become somebody else")
    def test_an_ordinary_user_is_shown_no_message_in_the_queue(self):
        with Instance(test_orders.nobody()) as mx:
            identity = send(mx.port, "ada@one.example", ["a@rcpt.example"], mail("secret")).split()[-1]
            mx.tool("pencat", identity, check=True)
            done = subprocess.run(
                [os.path.join(BIN, "pencat"), "-c", mx.etc, identity],
                capture_output=True,
                text=True,
                timeout=60,
                user=65534,
                group=65534,
                extra_groups=[],
            )
            self.assertEqual((done.returncode, done.stdout), (os.EX_NOPERM, ""), done)

    def test_of_a_damaged_file_is_shown_what_there_is(self):
        with Instance() as mx:
            mx.stop()
            submit(mx, "bob@rcpt.example")
            path, = self.dropped(mx)
            with open(path, "rb") as f:
                whole = f.read()

            def damaged(content, said, shown):
                broken = mx.write("broken", "")
                with open(broken, "wb") as out:
                    out.write(content)
                done = mx.tool("pencat", broken)
                self.assertEqual(done.returncode, os.EX_DATAERR, done)
                self.assertRegex(done.stderr, said)
                self.assertIn(shown, done.stdout)
            at = whole.index(b"line one")
            damaged(whole[:at] + b"L" + whole[at + 1:], "checksum", "Line one\n")
            damaged(whole[:at + 4], "without a trailer|before its trailer", "recipient: bob@rcpt.example")
            damaged(whole[:60], "before its trailer", "message_size: ")
            damaged(b"no such thing" * 10, "not a submitted message", "")
            self.assertEqual(mx.tool("pencat", mx.path("nowhere")).returncode, os.EX_NOINPUT)
            self.assertEqual(mx.tool("pencat", "-q", path).returncode, os.EX_USAGE)

    def test_what_was_set_aside_is_shown_by_its_id(self):
        with Instance() as mx:
            mx.stop()
            submit(mx, "-f", "<>", "bob@rcpt.example", text="Received: x\n" * 60 + "\nround and round\n")
            identity = os.path.basename(self.dropped(mx)[0])
            mx.start()
            eventually(lambda: os.path.exists(mx.path("spool", "corrupt", identity)), "it is set aside")
            self.assertIn("round and round", mx.tool("pencat", identity, check=True).stdout)


class Queued(Suite):
    queued, places, json = test_orders.Orders.queued, test_orders.Orders.places, test_orders.Orders.json


class Listings(Queued):
    def test_what_the_sender_asked_for_is_shown_of_a_message_in_the_queue(self):
        with Instance({**test_orders.nobody(), "content_filter": "smtp:[127.0.0.1]:1"}) as mx:
            with Client(mx.port) as client:
                client.expect("EHLO client.example", "250")
                client.expect("MAIL FROM:<ada@one.example> RET=FULL ENVID=QQ314159 BODY=8BITMIME SMTPUTF8", "250")
                client.expect("RCPT TO:<a@rcpt.example> NOTIFY=NEVER ORCPT=rfc822;first@rcpt.example", "250")
                client.expect("DATA", "354")
                client.raw(mail("x") + b".\r\n")
                identity = client.reply().split()[-1]
            shown = mx.tool("pencat", "-e", identity, check=True).stdout
            for line in (
                "named_attribute: envelope_id=QQ314159",
                "named_attribute: ret_flags=1",
                "named_attribute: encoding=8bit",
                "named_attribute: smtputf8=yes",
                "named_attribute: notify_flags=1",
                "named_attribute: dsn_orig_rcpt=rfc822;first@rcpt.example",
                "named_attribute: protocol_name=ESMTP",
                "named_attribute: helo_name=client.example",
                "content_filter: smtp:[127.0.0.1]:1",
            ):
                self.assertIn(line + "\n", shown)

    def test_j_has_the_address_as_it_was_given(self):
        with Instance(
            {
                **test_orders.nobody(),
                "virtual_alias_maps": "inline:{ first@rcpt.example=second@rcpt.example }",
                "virtual_alias_domains": "",
            }
        ) as mx:
            self.queued(mx, [("ada@one.example", "first@rcpt.example")])
            (recipient,) = self.json(mx)[0]["recipients"]
            self.assertEqual(
                (recipient["orig_address"], recipient["address"]), ("first@rcpt.example", "second@rcpt.example")
            )
            self.assertTrue(recipient["delay_reason"])

    def test_j_and_p_have_recipients_whose_sender_is_still_to_be_told(self):
        with Peer() as peer, Instance(relay_to(peer)) as mx:
            peer.replies["RCPT"] = lambda session, line: "550 5.1.1 nobody of that name" if "gone" in line else None
            send(mx.port, "ada@rcpt.example", ["gone@rcpt.example"], mail())
            peer.wait_messages(1)  # the notice: so bounce runs
            mx.wait_empty_queue()
            bounce = mx.pids()["bounce"]
            with suspended(*bounce):
                send(mx.port, "ada@rcpt.example", ["gone@rcpt.example"], mail())
                entry = eventually(
                    lambda: [e for e in self.json(mx) if e["recipients"][0].get("bounce_reason")], "bounced"
                )[0]
                self.assertEqual(
                    (entry["recipients"][0]["address"], entry["recipients"][0]["orig_address"]),
                    ("gone@rcpt.example", "gone@rcpt.example"),
                )
                self.assertIn("nobody of that name", entry["recipients"][0]["bounce_reason"])
                self.assertIn("nobody of that name", mx.tool("penqueue", "-p", check=True).stdout)
            mx.wait_empty_queue()


    def test_pencat_says_where_a_message_is(self):
        with Instance({**test_orders.nobody(), "minimal_backoff_time": "1000s"}) as mx:
            identity, = self.queued(mx, [("ada@one.example", "a@rcpt.example")])
            self.assertIn(f" deferred/{identity} ***\n", mx.tool("pencat", "-e", identity, check=True).stdout)
            mx.tool("pensuper", "-h", identity, check=True)
            self.assertIn(f" hold/{identity} ***\n", mx.tool("pencat", "-e", identity, check=True).stdout)
            mx.tool("pensuper", "-H", identity, check=True)
            eventually(lambda: self.places(mx, "deferred"), "it waits again")
            self.assertNotIn("hold", mx.tool("pencat", "-e", identity, check=True).stdout)


class DamagedMessages(Queued):
    """pencat reports the damage of each message, shows what is left, and continues with the next."""
    WAITS = {"minimal_backoff_time": "1000s", "maximal_backoff_time": "2000s"}

    def test_content_that_is_lost_or_cut_short(self):
        with Instance({**test_orders.nobody(), **self.WAITS, "queue_inline_limit": "4096"}) as mx:
            gone, cut, whole = (
                send(
                    mx.port, "ada@one.example", [f"{name}@rcpt.example"], mail(name, f"{name} body\r\n" * 40000)
                ).split()[-1]
                for name in ("gone", "cut", "whole")
            )
            eventually(lambda: len(self.places(mx, "deferred")) == 3, "all are deferred")
            mx.stop()
            folder, files = mx.path("spool", "spool"), {}
            for name in os.listdir(folder):
                with open(os.path.join(folder, name), "rb") as raw:
                    head = raw.read(1024)
                files.update({i: os.path.join(folder, name) for i in (gone, cut, whole) if i.encode() in head})
            os.unlink(files[gone])
            os.truncate(files[cut], 4096 + 100000)
            for up in (False, True):
                if up:
                    mx.start()
                done = mx.tool("pencat", gone, "4bGNsx3Ynxz1kGz8", cut, whole)
                self.assertEqual(done.returncode, os.EX_DATAERR, done.stderr)
                self.assertRegex(
                    done.stderr,
                    f"{gone}: its content cannot be opened: .*{os.path.basename(files[gone])}.*No such file",
                )
                self.assertRegex(
                    done.stderr, f"{cut}: its content in {files[cut]} is cut short, after 100000 of [0-9]+ bytes"
                )
                self.assertIn("4bGNsx3Ynxz1kGz8: no such message", done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 3, done.stderr)
                self.assertEqual(done.stdout.count("whole body\n"), 40000)
                self.assertTrue(done.stdout.endswith(f"*** MESSAGE FILE END deferred/{whole} ***\n"))
                for name in ("gone", "cut", "whole"):
                    self.assertIn(f"\nrecipient: {name}@rcpt.example\n", done.stdout)
                self.assertNotIn("gone body", done.stdout)
                self.assertGreater(done.stdout.count("cut body\n"), 5000)
                done = mx.tool("pencat", "-h", gone, whole)
                self.assertEqual(done.returncode, os.EX_DATAERR, done.stderr)
                self.assertIn("Subject: whole\n", done.stdout)
                self.assertEqual(mx.tool("pencat", whole).returncode, 0)

    def test_an_envelope_that_is_damaged_is_told_from_one_that_is_not_there(self):
        with Instance({**test_orders.nobody(), **self.WAITS, "queue_inline_limit": "200k"}) as mx:
            def queue(names):
                ids = [
                    send(mx.port, "ada@one.example", [f"{n}@rcpt.example"], mail(n, f"key-{n}-end\r\n" * 5000)).split()[
                        -1
                    ]
                    for n in names
                ]
                known.extend(ids)
                eventually(lambda: len(self.places(mx, "deferred")) == len(known), "all are deferred")
            known = []
            queue(["hit"])  # first in its segment, which the others fill: so a footer names it
            queue([f"spared{n:02}" for n in range(30)])
            folder = mx.path("spool", "log")
            for name in os.listdir(folder):
                if name.startswith("segment-"):
                    with open(os.path.join(folder, name), "r+b") as raw:
                        for found in re.finditer(b"key-hit-end", raw.read()):
                            raw.seek(found.start())
                            raw.write(b"KEY")
            done = mx.tool("pencat", "4bGNsx3Ynxz1kGz8", *known)
            self.assertEqual(done.returncode, os.EX_DATAERR, done.stderr)
            self.assertRegex(
                done.stderr, f"{known[0]}: its envelope is damaged, record [0-9]+:[0-9]+ in penqueue --log: "
            )
            self.assertIn("4bGNsx3Ynxz1kGz8: no such message", done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 2, done.stderr)
            self.assertEqual(re.findall(r"RECORDS deferred/(\S+)", done.stdout), known[1:])
            self.assertEqual(done.stdout.count("key-spared29-end\n"), 5000)


class Input(Queued):
    def test_a_line_that_is_no_id_is_told_and_the_others_are_done(self):
        with Instance(test_orders.nobody()) as mx:
            one, two, three = self.queued(mx, [("ada@one.example", f"{n}@rcpt.example") for n in "abc"])
            done = mx.tool("pensuper", "-d", "-", stdin=f"{one}\n--\n\n(temporary failure)\n{three}\n")
            self.assertEqual(done.returncode, 0, done)
            self.assertEqual(len(re.findall("warning: not a queue id", done.stderr)), 2)
            self.assertIn("Deleted: 2 messages", done.stderr)
            self.assertEqual({e["queue_id"] for e in mx.queue()}, {two})

    def test_a_site_that_is_no_destination_is_refused(self):
        with Instance(test_orders.nobody()) as mx:
            for site in ("bad domain!!", "", "@", "a..example", "[", "[]", "[1.2.3.4]:", ".example"):
                with self.subTest(site):
                    done = mx.tool("penqueue", "-s", site)
                    self.assertEqual(done.returncode, os.EX_USAGE, done)
            for site in (
                "rcpt.example",
                "@rcpt.example",
                "[192.0.2.1]",
                "[mx.example]:2525",
                "bücher.example",
                "[ipv6:2001:db8::1]",
            ):
                with self.subTest(site):
                    mx.tool("penqueue", "-s", site, check=True)


class Interrupting:
    """Stands in front of qmgr's socket. It cuts conversations when the tool has asked, as a reload would: the first
    `cuts` of them, or with later=True those whose answer has begun. Others pass."""

    def __init__(self, mx, cuts, later=False):
        self.front = mx.path("spool", "public", "qmgr")
        self.cuts, self.later, self.asked = cuts, later, 0
        self.back = self.front + ".behind"
        os.rename(self.front, self.back)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(self.front)
        os.chmod(self.front, 0o666)
        self.listener.listen(20)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                tool, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(tool,), daemon=True).start()

    def serve(self, tool):
        try:
            self.talk(tool)
        except (EOFError, OSError):
            pass  # one end has closed

    def talk(self, tool):
        qmgr = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        qmgr.connect(self.back)
        with tool, qmgr:
            for sender, other in (tool, qmgr), (qmgr, tool):  # who is there
                other.sendall(self.frame(sender))
            request = self.frame(tool)
            self.asked += 1
            cut = self.asked <= self.cuts
            if cut and not self.later:
                return
            qmgr.sendall(request)
            while True:
                tool.sendall(self.frame(qmgr))
                if cut:
                    return

    @staticmethod
    def frame(sock):
        def exactly(size):
            data = sock.recv(size, socket.MSG_WAITALL)
            if len(data) < size:
                raise EOFError
            return data
        head = exactly(4)
        return head + exactly(int.from_bytes(head, "little"))

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        os.rename(self.back, self.front)


class Replaced(Suite):
    """qmgr is replaced, for example by a reload, after a tool has asked and before it gets an answer."""

    def held(self, mx, count):
        for _ in range(count):
            send(mx.port, "ada@sender.example", ["u@rcpt.example"], mail())
        mx.tool("pensuper", "-h", "ALL", check=True)
        eventually(lambda: [m["queue_name"] for m in mx.queue()] == ["hold"] * count, "on hold")

    def test_a_listing_is_asked_for_again(self):
        with Instance() as mx:
            self.held(mx, 3)
            whole = mx.tool("penqueue", "-p", check=True)
            with Interrupting(mx, 3) as between:
                again = mx.tool("penqueue", "-p", check=True)
                self.assertEqual((again.stdout, again.stderr, between.asked), (whole.stdout, "", 4))

    def test_a_listing_that_has_begun_is_not_begun_twice(self):
        with Instance() as mx:
            self.held(mx, 3)
            with Interrupting(mx, 1, later=True) as between:
                done = mx.tool("penqueue", "-p")
                self.assertEqual((done.returncode, between.asked), (os.EX_UNAVAILABLE, 1))
                self.assertIn("the queue manager went away", done.stderr)

    def test_an_order_is_given_again_and_says_so(self):
        with Instance() as mx:
            self.held(mx, 2)
            with Interrupting(mx, 1) as between:
                done = mx.tool("pensuper", "-d", "ALL", check=True)
                self.assertIn("replaced before it answered: the order is given again", done.stderr)
                self.assertEqual(between.asked, 2)
            self.assertEqual(mx.queue(), [])

    def test_a_destination_is_asked_for_again(self):
        with Instance() as mx, Interrupting(mx, 2) as between:
            done = mx.tool("pendest", "suspend", "slow.example", check=True)
            self.assertEqual((done.stderr, between.asked), ("", 3))

    def test_who_is_cut_off_each_time_gives_up(self):
        with Instance() as mx, Interrupting(mx, 100) as between:
            for command in ("penqueue", "-p"), ("penstock", "flush"), ("pendest", "suspend", "slow.example"):
                with self.subTest(command):
                    between.asked = 0
                    done = mx.tool(*command)
                    self.assertEqual((done.returncode, between.asked), (os.EX_UNAVAILABLE, 6))
                    self.assertIn("the queue manager went away", done.stderr)


if __name__ == "__main__":
    unittest.main()
