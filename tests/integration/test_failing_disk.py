"""A disk that fails under the running programs (bench/slowsync.cc, preloaded): syncs and writes that end with EIO
defer mail and lose no acknowledged message; short writes change nothing."""
import os
import select
import shutil
import struct
import tempfile

from harness import *
from uploads import BodySink, upload

LIBRARY = os.path.join(os.path.dirname(BIN), "bench", "slowsync.so")
SOON = {"minimal_backoff_time": "1s", "maximal_backoff_time": "2s", "queue_run_delay": "1s"}
LOG, BODIES = "/spool/log", "/spool/spool/body-"
LINE = "x" * 70 + "\r\n"


class FailingDisk(Suite):
    def setUp(self):
        if sanitizers:
            self.skipTest("a sanitizer wants to be loaded first, and sees the calls before the library")
        self.assertTrue(os.path.exists(LIBRARY), LIBRARY)
        self.dir = tempfile.mkdtemp(prefix="pen-failing-")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.counters = os.path.join(self.dir, "counters")
        with open(self.counters, "wb") as out:
            out.write(bytes(24))
        os.chmod(self.counters, 0o666)

    def instance(self, settings, seed=1):
        kept = "MAIL_CONFIG MAIL_DEBUG MAIL_LOGTAG TZ LANG=C"
        return Instance(
            {
                **settings,
                "confine_extra_files": os.path.dirname(self.faults()),
                "import_environment": f"{kept} LD_PRELOAD={LIBRARY} SLOWSYNC_COUNT={self.counters} "
                f"SLOWSYNC_FAULTS={self.faults()} SLOWSYNC_SEED={seed}",
            },
            directory=self.dir,
        )

    def faults(self):
        """The file that says what fails, in a directory of its own, for programs may read that one only."""
        folder = os.path.join(self.dir, "failing")
        os.makedirs(folder, exist_ok=True)
        return os.path.join(folder, "faults")

    def fails(self, *faults):
        """Sets the faults: "sync", "write", "full" or "short", each with a part of the path. Earlier ones end."""
        path = self.faults()
        with open(path + ".new", "w") as out:
            out.writelines(f"{what} {where}\n" for what, where in faults)
        os.rename(path + ".new", path)

    def fault_count(self):
        with open(self.counters, "rb") as raw:
            return struct.unpack("<QQ", raw.read(16))[1]

    def attempt(self, mx, name, content, timeout=60):
        """Whether the message was acknowledged in that time. If not, it was refused, or the connection has ended."""
        try:
            send(mx.port, "ada@sender.example", [f"{name}@rcpt.example"], content, timeout)
            return True
        except Refused as e:
            self.assertRegex(e.reply, "^4")
        except OSError:
            pass
        return False

    def content_started(self, mx):
        """Whether a part of a body has been written to its spool file."""
        folder = mx.path("spool", "spool")
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), "rb") as raw:
                raw.seek(4096)
                if raw.read(1) not in (b"", b"\0"):
                    return True
        return False

    def assert_arrived(self, peer, sent):
        """Shows that these messages arrived, once each, byte for byte, and no others."""
        self.assertEqual(
            sorted(m.recipients[0] for m in peer.messages), sorted(f"{name}@rcpt.example" for name in sent)
        )
        for m in peer.messages:
            self.assertIsNone(without_trace(m.content, sent[m.recipients[0].partition("@")[0]]))

    def test_a_log_that_cannot_be_synced(self):
        self.a_queue_is_kept_while_the_log_fails("sync", "fdatasync")

    def test_a_log_that_cannot_be_written(self):
        self.a_queue_is_kept_while_the_log_fails("write", "write")

    def test_a_log_that_cannot_be_synced_for_a_minute(self):
        self.the_minute_runs_out("sync")

    def test_a_log_that_cannot_be_written_for_a_minute(self):
        self.the_minute_runs_out("write")

    def test_a_log_that_has_no_room_to_write(self):
        with Peer() as peer, self.instance(relay_to(peer)) as mx, Client(mx.port, timeout=120) as client:
            client.expect("MAIL FROM:<ada@sender.example>", "250")
            client.expect("RCPT TO:<waiting@rcpt.example>", "250")
            client.expect("DATA", "354")
            self.fails(("full", LOG))
            client.raw(mail("waiting") + b".\r\n")
            mx.wait_log(
                "error: the disk of queue_log_directory is full.*free space there.*stays in it.*put off with 4xx"
            )
            mx.wait_log("fatal: .*write .*/spool/log/.*No space left on device")
            # The next qmgr ends as well, with the same message.
            eventually(lambda: mx.log().count("disk of queue_log_directory is full") >= 2, "a start in vain")
            self.fails()
            self.assertRegex(client.reply(), "^250 ")
            peer.wait_messages(1, 60)
            mx.wait_empty_queue()

    def the_minute_runs_out(self, what):
        """The log fails for longer than smtpd waits for a queue manager: the client gets its answer."""
        with Peer() as peer, self.instance(relay_to(peer)) as mx, Client(mx.port, timeout=120) as client:
            self.fails((what, LOG))
            with self.assertRaises(Refused) as refused:
                client.send("ada@sender.example", ["patient@rcpt.example"], mail("patient", LINE))
            self.assertRegex(refused.exception.reply, r"^451 4\.3\.\d ")
            self.fails()
            eventually(lambda: self.attempt(mx, "after", mail("after")), "mail is taken again", 60)

    def a_queue_is_kept_while_the_log_fails(self, what, call):
        down = Peer()
        port = down.port
        down.close()  # nothing can leave for now
        with self.instance({**relay_to(down), **SOON}) as mx:
            sent = {f"before{n}": mail(f"before {n}", LINE * 20 * n) for n in range(10)}
            for name, content in sent.items():
                self.assertTrue(self.attempt(mx, name, content))
            waiting, given_up = mail("waiting", LINE), mail("given up", LINE)
            with Client(mx.port, timeout=120) as client:
                client.expect("MAIL FROM:<ada@sender.example>", "250")
                client.expect("RCPT TO:<waiting@rcpt.example>", "250")
                client.expect("DATA", "354")
                self.fails((what, LOG))
                client.raw(waiting + b".\r\n")
                mx.wait_log(
                    "error: the disk of queue_log_directory does not take or give data.*look at the kernel's log"
                )
                mx.wait_log(f"fatal: .*{call} .*/spool/log/.*Input/output error")
                self.assertFalse(self.attempt(mx, "givenup", given_up, timeout=1))
                # It is started again and again, and logs it each time.
                eventually(lambda: mx.log().count("does not take or give data") >= 3, "three starts in vain")
                self.assertEqual(select.select([client.socket], [], [], 0)[0], [], "an answer while nothing is kept")
                self.fails()
                # smtpd has kept the message, and gives it to the next qmgr under the same id.
                self.assertRegex(client.reply(), "^250 ")
                sent["waiting"] = waiting
            sent["after"] = mail("after", LINE)
            self.assertTrue(self.attempt(mx, "after", sent["after"]))
            with Peer(port=port) as up:
                mx.flush()
                expected = {f"{name}@rcpt.example" for name in sent}
                eventually(lambda: expected <= {m.recipients[0] for m in up.messages}, "all that was acknowledged", 60)
                mx.wait_empty_queue(60)
                # This message was neither acknowledged nor refused: it may be there.
                if any(m.recipients == ["givenup@rcpt.example"] for m in up.messages):
                    sent["givenup"] = given_up
                self.assert_arrived(up, sent)

    def test_a_spool_that_cannot_be_written_or_synced(self):
        large = mail("large", LINE * 40000)
        with Peer() as peer, self.instance(relay_to(peer)) as mx:
            pids = mx.pids()
            with Client(mx.port) as client:
                client.expect("MAIL FROM:<ada@sender.example>", "250")
                client.expect("RCPT TO:<unwritten@rcpt.example>", "250")
                client.expect("DATA", "354")
                client.raw(large[:1 << 20])
                eventually(lambda: self.content_started(mx), "smtpd has a spool file and writes to it")
                self.fails(("write", BODIES))
                client.raw(large[1 << 20:] + b".\r\n")
                self.assertRegex(client.reply(), r"^451 4\.3\.0 ")
                mx.wait_log("smtpd.* spool file: write: .*Input/output error: 451 ")
                # A new message gets no file from the queue manager, which writes to the file first.
                with self.assertRaises(Refused) as refused:
                    client.send("ada@sender.example", ["unleased@rcpt.example"], large)
                self.assertRegex(refused.exception.reply, r"^451 4\.3\.0 ")
                # Small messages need no file: they are accepted all the time.
                small = mail("small", LINE)
                client.send("ada@sender.example", ["small@rcpt.example"], small)
                self.fails(("sync", BODIES))
                with self.assertRaises(Refused) as refused:
                    client.send("ada@sender.example", ["unsynced@rcpt.example"], large)
                self.assertRegex(refused.exception.reply, r"^451 4\.3\.0 ")
                mx.wait_log("smtpd.* spool file: fdatasync: .*Input/output error: 451 ")
                self.fails()
                client.send("ada@sender.example", ["after@rcpt.example"], large)
            peer.wait_messages(2, 60)
            mx.wait_empty_queue()
            self.assert_arrived(peer, {"small": small, "after": large})
            for program in ("qmgr", "smtpd"):
                self.assertEqual(mx.pids()[program], pids[program])

    def test_short_writes_under_load(self):
        self.fails(("short", LOG), ("short", BODIES))
        with BodySink() as sink, self.instance(
            {**relay_to(sink), "smtpd_client_connection_count_limit": "0"}, seed=7
        ) as mx:
            figures = upload(mx, [1024 * 2 ** (n % 12) for n in range(120)])  # to 2 MiB
            self.assertEqual(figures.refused, [])
            sink.wait(len(figures.sent), 120)
            self.assertEqual(sink.bodies, figures.sent)
            mx.wait_empty_queue(60)
            self.assertGreater(self.fault_count(), 120)

    def test_what_short_writes_left_is_read_after_a_crash(self):
        self.fails(("short", LOG), ("short", BODIES))
        down = Peer()
        port = down.port
        down.close()
        with self.instance({**relay_to(down), **SOON}) as mx:
            sent = {f"u{n}": mail(str(n), f"{n} {LINE}" * (1 + n * n)) for n in range(30)}
            for name, content in sent.items():
                self.assertTrue(self.attempt(mx, name, content))
            mx.flush()
            mx.kill_all()
            mx.start()
            mx.wait_log("queue recovered.*\n(.*\n)*.*queue recovered")
            self.assertNotIn("queue log damaged", mx.log())
            self.assertGreater(self.fault_count(), 30)
            with Peer(port=port) as up:
                mx.flush()
                up.wait_messages(len(sent), 60)
                mx.wait_empty_queue(60)
                self.assert_arrived(up, sent)


if __name__ == "__main__":
    unittest.main()
