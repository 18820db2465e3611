"""Orders for one message, for sets and for all; listings that stream; the log as text."""
import concurrent.futures
import json
import os
import pty
import re
import signal
import subprocess
import threading

from harness import *


def nobody():
    """Settings that relay to a port without listener: every message is deferred."""
    with Peer() as peer:
        settings = relay_to(peer)
        peer.close()
    return settings


class Orders(Suite):
    def queued(self, mx, messages):
        """Sends (sender, recipient) pairs and waits until all are deferred; returns their ids."""
        ids = [
            send(mx.port, sender, [recipient], mail(f"to {recipient}")).split()[-1] for sender, recipient in messages
        ]
        eventually(lambda: len(self.places(mx, "deferred")) == len(ids), "all are deferred")
        return ids

    def places(self, mx, name):
        return {e["queue_id"] for e in mx.queue() if e["queue_name"] == name}

    def json(self, mx, *words):
        return [json.loads(line) for line in mx.tool("penqueue", "-j", *words, check=True).stdout.splitlines()]

    def test_sets_are_chosen_by_what_messages_are(self):
        with Instance(nobody()) as mx:
            a, b, c, null = self.queued(
                mx,
                [
                    ("ada@one.example", "x@rcpt.example"),
                    ("bob@one.example", "y@rcpt.example"),
                    ("ada@two.example", "x@other.example"),
                    ("", "x@rcpt.example"),
                ],
            )
            everything = {a, b, c, null}

            def chosen(*words):
                done = mx.tool("pensuper", "-n", "-d", "ALL", *words, check=True)
                ids = {line.split()[0] for line in done.stdout.splitlines()}
                self.assertIn(f"Would delete: {len(ids)} message", done.stderr)
                self.assertEqual(ids, {e["queue_id"] for e in self.json(mx, *words)}, words)
                return ids
            self.assertEqual(chosen(), everything)
            self.assertEqual(chosen("--sender", "ADA@one.example"), {a})
            self.assertEqual(chosen("--sender", "@one.example"), {a, b})
            self.assertEqual(chosen("--sender", "<>"), {null})
            self.assertEqual(chosen("--recipient", "x@rcpt.example"), {a, null})
            self.assertEqual(chosen("--recipient", "@other.example"), {c})
            self.assertEqual(chosen("--domain", "rcpt.example"), {a, b, null})
            self.assertEqual(
                chosen("--domain", "rcpt.example", "--sender", "@one.example", "--recipient", "y@rcpt.example"), {b}
            )
            self.assertEqual(chosen("--older", "2h"), set())
            self.assertEqual(chosen("--reply", "REFUSED"), everything)
            self.assertEqual(chosen("--reply", "greylisted"), set())
            self.assertEqual(chosen("hold"), set())
            self.assertEqual(chosen("hold", "deferred"), everything)
            self.assertEqual({e["queue_id"] for e in mx.queue()}, everything, "a dry run does nothing")

            done = mx.tool("pensuper", "-d", "ALL", "--domain", "rcpt.example", "--sender", "@one.example", check=True)
            self.assertIn("Deleted: 2 messages", done.stderr)
            self.assertEqual({e["queue_id"] for e in mx.queue()}, {c, null})

    def test_what_cannot_be_meant_is_refused(self):
        with Instance(nobody()) as mx:
            for words in (["-d", "ALL", "--older", "soon"], ["-d", "ALL", "--sender", ""], ["--sender", "a@b.example"],
                          ["-h", "ALL", "maildrop"], ["-d", "ALL", "elsewhere"], ["-n"]):
                self.assertEqual(mx.tool("pensuper", *words).returncode, os.EX_USAGE, words)
            self.assertEqual(mx.tool("penqueue", "-f", "--sender", "a@b.example").returncode, os.EX_USAGE)
            passed_over = mx.tool("pensuper", "-d", "not an id", check=True)
            self.assertIn("not an id", passed_over.stderr)

    def test_hold_release_and_requeue_by_id_list_and_all(self):
        with Instance(nobody()) as mx:
            ids = self.queued(mx, [("ada@one.example", f"r{i}@rcpt.example") for i in range(12)])
            done = mx.tool("pensuper", "-h", ids[0], "-h", ids[1], "-h", ids[2], check=True)
            self.assertIn("Placed on hold: 3 messages", done.stderr)
            self.assertEqual(self.places(mx, "hold"), set(ids[:3]))
            self.assertIn("on hold: 9 messages", mx.tool("pensuper", "-h", "ALL", check=True).stderr)
            mx.flush()
            self.assertEqual(self.places(mx, "hold"), set(ids), "a flush leaves them")
            done = mx.tool("pensuper", "-H", "-", stdin="\n".join(ids[:5]) + "\n", check=True)
            self.assertIn("Released from hold: 5 messages", done.stderr)
            self.assertIn("hold: 7 messages", mx.tool("pensuper", "-H", "ALL", check=True).stderr)
            eventually(lambda: self.places(mx, "deferred") == set(ids), "tried and deferred again")
            self.assertIn("Requeued: 12 messages", mx.tool("pensuper", "-r", "ALL", check=True).stderr)
            eventually(lambda: self.places(mx, "deferred") == set(ids), "tried and deferred again")
            self.assertIn("Deleted: 1 message\n", mx.tool("pensuper", "-d", ids[3], check=True).stderr)
            self.assertIn("Deleted: 11 messages", mx.tool("pensuper", "-d", "ALL", check=True).stderr)
            self.assertEqual(mx.queue(), [])

    def test_a_flush_tries_all_one_site_or_one_message(self):
        settings = nobody()
        with Instance({**settings, "minimal_backoff_time": "1000s"}) as mx:
            ids = self.queued(mx, [("ada@one.example", f"u@site{i}.example") for i in range(4)])

            def tries():
                return [mx.log().count(f"to=<u@site{i}.example>") for i in range(4)]
            self.assertEqual(tries(), [1, 1, 1, 1])
            mx.tool("penqueue", "-i", ids[2], check=True)
            eventually(lambda: tries() == [1, 1, 2, 1], tries)
            mx.tool("penqueue", "-s", "site1.example", check=True)
            eventually(lambda: tries() == [1, 2, 2, 1], tries)
            mx.tool("penqueue", "-f", check=True)
            eventually(lambda: tries() == [2, 3, 3, 2], tries)
            # All, but for what is on hold, is counted where it is said how much is tried.
            mx.tool("pensuper", "-h", ids[0], check=True)
            for words, said in ((("penstock", "flush"), "flushed: 3 messages\n"),
                                (("penqueue", "-vf"), "3 messages are tried now\n")):
                eventually(lambda: [m["queue_name"] for m in mx.queue()].count("deferred") == 3, mx.queue)
                self.assertEqual(mx.tool(*words, check=True).stdout, said)
            mx.tool("pensuper", "-d", "ALL", check=True)
            self.assertEqual(mx.tool("penstock", "flush", check=True).stdout, "flushed: 0 messages\n")

    def test_an_id_that_is_not_in_the_queue_is_named(self):
        gone, text = "4bGNsx3Ynxz1kGz8", "4bGNsx3Ynxz1kGz8: no such message in the queue"
        with Instance({**nobody(), "minimal_backoff_time": "1000s"}) as mx:
            for words in (("penqueue", "-i"), ("penqueue", "-j"), ("penqueue", "-p"), ("pencat",)):
                with self.subTest(words):
                    done = mx.tool(*words, gone)
                    self.assertEqual((done.returncode, done.stdout), (os.EX_DATAERR, ""))
                    self.assertIn(text, done.stderr)
            for letter in "dhHref":
                with self.subTest(letter):
                    said = mx.tool("pensuper", "-" + letter, gone, check=True).stderr
                    self.assertIn(text, said)
                    self.assertTrue(said.endswith(": 0 messages\n"), said)
            for short in ("x", "4", "xy"):
                self.assertIn(f"{short}: no such message", mx.tool("pensuper", "-d", short, check=True).stderr)
            self.assertIn("none of these 2", mx.tool("pensuper", "-d", gone, "-d", gone[::-1], check=True).stderr)
            here, = self.queued(mx, [("ada@one.example", "u@site.example")])
            partly = mx.tool("penqueue", "-j", here, gone)
            self.assertEqual((partly.returncode, partly.stdout.count("\n")), (os.EX_DATAERR, 1))
            self.assertEqual(partly.stderr.count("no such message"), 1)
            mx.tool("pensuper", "-h", here, check=True)
            for words in (
                ("penqueue", "-i", here),
                ("penqueue", "-p", here),
                ("pensuper", "-h", here),
                ("pensuper", "-d", here),
            ):
                with self.subTest(words):
                    self.assertNotIn("no such", mx.tool(*words, check=True).stderr)

    def test_each_message_that_was_named_is_told_in_the_words_of_postsuper(self):
        with Instance({**nobody(), "minimal_backoff_time": "1000s"}) as mx:
            ids = self.queued(mx, [("ada@one.example", f"u{i}@site.example") for i in range(2)])
            for letter, one, all_of_them in (("h", "placed on hold", "Placed on hold"),
                                             ("H", "released from hold", "Released from hold"),
                                             ("h", "placed on hold", "Placed on hold"),
                                             ("e", "expired", "Force-expired"), ("d", "removed", "Deleted")):
                with self.subTest(letter):
                    said = mx.tool("pensuper", *[w for i in ids for w in ("-" + letter, i)], check=True).stderr
                    self.assertEqual(said, "".join(f"pensuper: {i}: {one}\n" for i in ids) +
                                     f"pensuper: {all_of_them}: 2 messages\n")
            for words in (["-s"], ["-p"], ["-S"]):
                self.assertEqual(mx.tool("pensuper", *words, check=True).stderr, "")

    def test_an_expired_set_goes_back_to_its_senders(self):
        with Instance(nobody()) as mx:
            self.queued(
                mx, [("ada@local.test.example", "a@rcpt.example"), ("ada@local.test.example", "b@other.example")]
            )
            said = mx.tool("pensuper", "-e", "ALL", "--domain", "rcpt.example", check=True).stderr
            self.assertIn("Force-expired: 1 message", said)
            eventually(lambda: "returned to sender" in mx.log(), "a notification")
            eventually(
                lambda: [r["address"] for e in mx.queue() if e["sender"] for r in e["recipients"]]
                == ["b@other.example"],
                "the other one stays",
            )

    def test_many_messages_are_listed_as_they_are_read_and_deleted_once_each(self):
        with Instance({**nobody(), "qmgr_message_active_limit": "50"}) as mx:
            recipients = [f"r{i}@d{i % 7}.example" for i in range(700)]
            with Client(mx.port) as client:
                for r in recipients:
                    client.expect("MAIL FROM:<ada@one.example>", "250")
                    client.expect(f"RCPT TO:<{r}>", "250")
                    client.expect("DATA", "354")
                    client.raw(mail(r) + b".\r\n")
                    self.assertRegex(client.reply(), "^250 ")
            eventually(lambda: len(self.places(mx, "deferred")) == 700, "all are deferred")
            # A reader that has seen enough ends the listing.
            listing = subprocess.Popen([os.path.join(BIN, "penqueue"), "-c", mx.etc, "-p"], stdout=subprocess.PIPE)
            listing.stdout.readline()
            listing.stdout.close()
            self.assertIn(listing.wait(30), (0, -signal.SIGPIPE))
            seen = [e["queue_id"] for e in self.json(mx)]
            self.assertEqual((len(seen), len(set(seen))), (700, 700))
            self.assertEqual(len(self.json(mx, *seen[10:30])), 20)
            self.assertIn(
                "Deleted: 100 messages", mx.tool("pensuper", "-d", "ALL", "--domain", "d3.example", check=True).stderr
            )
            # A site with more messages than the active set holds: each gets its turn.
            self.assertIn("100 messages", mx.tool("penqueue", "-v", "-s", "d4.example", check=True).stdout)
            # Also while all of them are being tried, a few at a time.
            mx.tool("penqueue", "-f", check=True)
            self.assertIn("Requeued: 600 messages", mx.tool("pensuper", "-r", "ALL", check=True).stderr)
            self.assertIn("Deleted: 600 messages", mx.tool("pensuper", "-d", "ALL", check=True).stderr)
            self.assertEqual(mx.queue(), [])
            mx.stop()
            mx.start()
            self.assertEqual(mx.queue(), [], "and a restart brings none of them back")

    def test_one_message_held_for_long_keeps_no_disk_for_those_held_after_it(self):
        with Instance({**nobody(), "queue_inline_limit": "1048576"}) as mx:
            def hold(*recipients):
                for recipient in recipients:
                    send(
                        mx.port, "ada@one.example", [recipient], mail(recipient, ("x" * 70 + "\r\n") * 2500)
                    )  # 176 KiB
                mx.tool("pensuper", "-h", "ALL", check=True)
                eventually(
                    lambda: {r["address"] for e in self.json(mx, "hold") for r in e["recipients"]} >= set(recipients),
                    "held",
                )

            def segments():
                lines = mx.tool("penqueue", "--log").stdout.splitlines()
                return sum(bool(re.match(r"segment-\d+: log hold ", line)) for line in lines)
            hold("a@old.example")
            for turn in range(3):
                hold(*(f"u{i}@new.example" for i in range(40)))  # 7 segments of 1 MiB
                self.assertEqual(len(self.places(mx, "hold")), 41)
                most = segments()
                mx.tool("pensuper", "-d", "ALL", "--domain", "new.example", check=True)
            self.assertGreaterEqual(most, 7)
            eventually(lambda: segments() <= 4, "the segments behind it are given back")
            self.assertEqual([r["address"] for e in self.json(mx, "hold") for r in e["recipients"]], ["a@old.example"])
            mx.kill_all()
            mx.start()
            mx.tool("pensuper", "-d", "ALL", "hold", check=True)
            self.assertEqual(mx.queue(), [])

    def test_a_listing_shows_what_is_being_tried_just_then(self):
        with Instance(nobody()) as mx:
            ids = set(self.queued(mx, [("ada@one.example", f"u{i}@rcpt.example") for i in range(20)]))
            with concurrent.futures.ThreadPoolExecutor() as beside:
                for look in range(60):
                    flush = beside.submit(mx.tool, "penqueue", "-f", check=True)
                    shown = [e["queue_id"] for e in self.json(mx)]
                    flush.result()
                    self.assertEqual(sorted(shown), sorted(ids), f"look {look}")

    def test_messages_are_shown_in_part_and_several_at_once(self):
        with Instance({**nobody(), "queue_inline_limit": "4096"}) as mx:
            small, large = self.queued(
                mx, [("ada@one.example", "a@rcpt.example"), ("ada@one.example", "b@rcpt.example")]
            )
            big = send(
                mx.port, "ada@one.example", ["c@rcpt.example"], mail("large", body="0123456789\r\n" * 40000)
            ).split()[-1]
            both = mx.tool("pencat", big, small, check=True).stdout
            self.assertEqual(re.findall(r"RECORDS \w+/(\w+) ", both), [big, small])
            self.assertEqual(both.count("0123456789\n"), 40000)
            self.assertNotIn("\r", both)
            head = mx.tool("pencat", "-h", small, check=True).stdout
            self.assertIn("Received:", head)
            body = mx.tool("pencat", "-b", big, check=True).stdout
            self.assertEqual(body.strip("\n"), "\n".join(["0123456789"] * 40000))
            self.assertNotIn("Received:", mx.tool("pencat", "-e", small, check=True).stdout)
            gone = mx.tool("pencat", "-e", "4bGNsx3Ynxz1kGz8", large)
            self.assertEqual(gone.returncode, os.EX_DATAERR)
            self.assertIn("4bGNsx3Ynxz1kGz8: no such message", gone.stderr)
            self.assertIn("b@rcpt.example", gone.stdout)

    def test_a_message_with_very_many_recipients_is_listed_and_shown_whole(self):
        with Instance({**nobody(), "smtpd_recipient_limit": "20000"}) as mx:
            recipients = [f"{'x' * 50}{i}@rcpt.example" for i in range(12000)]
            with Client(mx.port) as client:
                client.expect("MAIL FROM:<ada@one.example>", "250")
                for start in range(0, len(recipients), 500):
                    some = recipients[start:start + 500]
                    client.raw("".join(f"RCPT TO:<{r}>\r\n" for r in some).encode())
                    for _ in some:
                        self.assertRegex(client.reply(), "^250 ")
                client.expect("DATA", "354")
                client.raw(mail("to many") + b".\r\n")
                identity = client.reply().split()[-1]
            mx.tool("pensuper", "-h", identity, check=True, timeout=300)
            eventually(lambda: self.json(mx, "hold"), "held")
            entry, = self.json(mx, identity)
            self.assertEqual({r["address"] for r in entry["recipients"]}, set(recipients))
            shown = mx.tool("pencat", "-e", identity, check=True).stdout
            self.assertEqual(sum(line.startswith("recipient: ") for line in shown.splitlines()), 12000)

    def test_the_log_is_shown_as_text_running_or_not_and_damage_is_told(self):
        with Instance(nobody()) as mx:
            a, b = self.queued(mx, [("ada@one.example", f"{name}@rcpt.example") for name in "ab"])
            mx.tool("pensuper", "-d", a, check=True)
            running = mx.tool("penqueue", "--log")
            self.assertEqual(running.returncode, 0, running.stdout + running.stderr)
            self.assertRegex(running.stdout, rf"\d+:\d+ ENVELOPE +live .* {b} generation 1")
            self.assertRegex(running.stdout, rf"TOMBSTONE .* {a} ")
            # Written after a sync of the earlier messages: its record proves that they were there.
            send(mx.port, "ada@one.example", ["c@rcpt.example"], mail())
            eventually(lambda: len(self.places(mx, "deferred")) == 2, "deferred")
            mx.tool("pensuper", "-h", "ALL", "--recipient", "c@rcpt.example", check=True)
            mx.stop()
            log = mx.path("spool", "log")
            verbose = mx.tool("penqueue", "-v", "--log", log, check=True).stdout
            self.assertIn("recipient <b@rcpt.example>", verbose)
            self.assertIn("positions copy", verbose)
            where = [
                line.split()
                for line in verbose.splitlines()
                if " ENVELOPE " in line and b in line and "generation 1" in line
            ][0]
            use, offset = where[0].split(":")
            file = next(
                line.split(":")[0]
                for line in verbose.splitlines()
                if line.startswith("segment-") and f" use {use} " in line
            )
            with open(os.path.join(log, file), "r+b") as out:
                out.seek(int(offset) + 100)
                out.write(b"not what was written")
            hurt = mx.tool("penqueue", "--log", log)
            self.assertEqual(hurt.returncode, os.EX_DATAERR, hurt.stdout)
            self.assertRegex(hurt.stdout, rf"DAMAGE {use}:{offset} \d+ bytes: ")
            self.assertEqual(mx.tool("penqueue", "--log", os.path.join(log, "gone")).returncode, os.EX_NOINPUT)


class Gate:
    """A Peer's answers to RCPT: for addresses with "wait" none before open(), then a deferral."""

    def __init__(self):
        self.reached, self.opened = threading.Event(), threading.Event()

    def __call__(self, session, line):
        if "wait" in line:
            self.reached.set()
            self.opened.wait(120)
        return "450 4.2.1 later"

    def open(self):
        self.opened.set()


class Expired(Suite):
    """pensuper -e and -f, with messages deferred, in delivery or on hold."""
    queued, places, json = Orders.queued, Orders.places, Orders.json

    def setUp(self):
        self.back, self.far, self.gate = Peer(), Peer(), Gate()
        self.far.replies["RCPT"] = "450 4.2.1 later"
        for end in (self.back.close, self.far.close, self.gate.open):
            self.addCleanup(end)

    def instance(self):
        hops = {
            "sender.example": f"smtp:[127.0.0.1]:{self.back.port}",
            "rcpt.example": f"smtp:[127.0.0.1]:{self.far.port}",
        }
        return Instance(
            {
                "relay_domains": ", ".join(hops),
                "transport_maps": inline(hops),
                "minimal_backoff_time": "1h",
                "maximal_backoff_time": "1h",
            }
        )

    def returned(self, *recipients):
        """Shows that exactly these were returned to ada, each in its own notice."""
        got = self.back.wait_messages(len(recipients))
        self.assertEqual({(m.sender, *m.recipients) for m in got}, {("", "ada@sender.example")})
        self.assertEqual(sorted(re.search(rb"Final-Recipient: rfc822; (\S+)", m.content)[1].decode() for m in got),
                         sorted(recipients))

    def entry(self, mx, identity):
        entry, = self.json(mx, identity)
        return entry["queue_name"], entry["forced_expire"]

    def test_what_is_on_hold_stays_there_and_comes_back_when_it_is_released(self):
        with self.instance() as mx:
            held, other = self.queued(
                mx, [("ada@sender.example", f"{name}@rcpt.example") for name in ("held", "other")]
            )
            mx.tool("pensuper", "-h", held, check=True)
            self.assertEqual(self.entry(mx, held), ("hold", False))
            self.assertIn("Force-expired: 2 messages", mx.tool("pensuper", "-e", "ALL", check=True).stderr)
            self.returned("other@rcpt.example")
            self.assertEqual(self.entry(mx, held), ("hold", True))
            self.assertIn(f"{held}! ", mx.tool("penqueue", "-p", check=True).stdout)
            mx.kill_all()
            mx.start()
            self.assertEqual(self.entry(mx, held), ("hold", True), "a restart changes nothing")
            self.assertIn("Released from hold: 1 message\n", mx.tool("pensuper", "-H", held, check=True).stderr)
            self.returned("other@rcpt.example", "held@rcpt.example")
            mx.wait_empty_queue()

    def test_f_brings_back_what_is_on_hold_at_once(self):
        with self.instance() as mx:
            names = ("one", "two", "kept", "waits")
            one, two, kept, waits = self.queued(mx, [("ada@sender.example", f"{name}@rcpt.example") for name in names])
            mx.tool("pensuper", "-h", one, "-h", two, "-h", kept, check=True)
            mx.tool("pensuper", "-e", two, check=True)
            done = mx.tool("pensuper", "-f", "-", stdin=f"{one}\n{two}\n{waits}\n", check=True)
            self.assertIn("Force-expired: 3 messages", done.stderr)
            self.returned("one@rcpt.example", "two@rcpt.example", "waits@rcpt.example")
            eventually(lambda: [e["queue_id"] for e in mx.queue()] == [kept], "the other one alone is left")
            self.assertEqual(self.entry(mx, kept), ("hold", False))

    def test_an_order_that_was_reported_outlives_the_queue_manager(self):
        with self.instance() as mx:
            waits, = self.queued(mx, [("ada@sender.example", "wait@rcpt.example")])
            self.far.replies["RCPT"] = self.gate
            self.assertIn("Force-expired: 1 message\n", mx.tool("pensuper", "-e", waits, check=True).stderr)
            self.assertTrue(self.gate.reached.wait(60), "it is tried once more")
            self.assertEqual(self.entry(mx, waits), ("active", True))
            self.assertEqual(mx.kill("qmgr"), 1)
            self.gate.open()
            self.returned("wait@rcpt.example")
            mx.wait_empty_queue()


class Progress(Suite):
    def test_a_terminal_shows_how_far_an_order_for_some_thousand_messages_is(self):
        gate, many = Gate(), 2000
        self.addCleanup(gate.open)
        with Peer() as far, Peer() as nobody_there:
            far.replies["RCPT"] = gate
            hops = {
                "rcpt.example": f"smtp:[127.0.0.1]:{nobody_there.port}",
                "wait.example": f"smtp:[127.0.0.1]:{far.port}",
            }
            nobody_there.close()
            with Instance(
                {
                    "relay_domains": ", ".join(hops),
                    "transport_maps": inline(hops),
                    "minimal_backoff_time": "1h",
                    "maximal_backoff_time": "1h",
                }
            ) as mx:
                with Client(mx.port) as client:
                    for i in range(many):
                        client.raw(f"MAIL FROM:<ada@one.example>\r\nRCPT TO:<r{i}@rcpt.example>\r\nDATA\r\n".encode())
                        self.assertEqual([client.reply()[:3] for _ in range(3)], ["250", "250", "354"])
                        client.raw(mail() + b".\r\n")
                        self.assertRegex(client.reply(), "^250 ")
                send(mx.port, "ada@one.example", ["u@wait.example"], mail())
                self.assertTrue(gate.reached.wait(60), "a delivery for which the order waits")
                ours, theirs = pty.openpty()
                try:
                    order = subprocess.Popen([os.path.join(BIN, "pensuper"), "-c", mx.etc, "-h", "ALL"], stderr=theirs)
                    os.close(theirs)
                    shown = b""
                    while not re.search(rb"\rPlacing on hold: \[#{30}\] 100%%  %d messages" % many, shown):
                        shown += os.read(ours, 65536)
                    gate.open()
                    try:
                        while part := os.read(ours, 65536):
                            shown += part
                    except OSError:
                        pass  # nobody reads the terminal any more
                    self.assertEqual(order.wait(60), 0)
                finally:
                    os.close(ours)
                self.assertTrue(
                    shown.decode().endswith(f"\r\033[Kpensuper: Placed on hold: {many + 1} messages\r\n"), shown[-300:]
                )
                quiet = mx.tool("pensuper", "-d", "ALL", check=True)
                self.assertEqual(
                    quiet.stderr,
                    f"pensuper: Deleted: {many + 1} messages\n",
                    "what is no terminal is shown the end alone",
                )


if __name__ == "__main__":
    unittest.main()
