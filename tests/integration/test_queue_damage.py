"""Queue files damaged between two starts: intact mail is delivered, losses are reported, and mail flows on."""
import os
import re
import shutil
import subprocess

from harness import *
from instance import queue_owner

SOON = {"minimal_backoff_time": "1s", "maximal_backoff_time": "2s", "queue_run_delay": "1s"}
TOLD = r"queue log damaged|not whole records"


class QueueDamage(Suite):
    COUNT = 20

    def fill(self, mx):
        """Messages that cannot leave; each body contains its key."""
        for i in range(self.COUNT):
            send(mx.port, "ada@sender.example", ["u@rcpt.example"], mail(str(i), f"key-{i:04}-end\r\n" * 20))
        eventually(lambda: len(mx.queue()) == self.COUNT, "all queued")

    def folder(self, mx):
        return mx.path("spool", "log")

    def segments(self, mx):
        folder = self.folder(mx)
        return sorted(os.path.join(folder, n) for n in os.listdir(folder) if n.startswith("segment-"))

    def keys_in(self, path):
        with open(path, "rb") as raw:
            return {int(k) for k in re.findall(rb"key-(\d{4})-end", raw.read())}

    def stopped(self, damage):
        """Fills a queue, kills everything, calls damage(mx), starts again: yields instance and peer."""
        down = Peer()
        port = down.port
        down.close()
        settings = {**relay_to(down), **SOON}
        with Instance(settings) as mx:
            self.fill(mx)
            mx.kill_all()
            spared = damage(mx)
            with Peer(port=port) as peer:
                mx.start()
                mx.wait_log("queue recovered")
                self.check(mx, peer, spared)

    def arrived(self, peer):
        return {int(re.search(rb"key-(\d{4})-end", m.content).group(1)) for m in peer.messages
                if b"key-" in m.content}

    def check(self, mx, peer, spared):
        """Shows that undamaged messages arrive, and new mail too."""
        send(mx.port, "ada@sender.example", ["u@rcpt.example"], mail("new", "key-9999-end\r\n"))
        mx.flush()
        eventually(lambda: self.arrived(peer) >= spared | {9999},
                   lambda: f"missing {sorted((spared | {9999}) - self.arrived(peer))}", 60)
        mx.wait_empty_queue(60)

    def test_flipped_bits_cost_one_message(self):
        hit = 7

        def damage(mx):
            for path in self.segments(mx):
                with open(path, "r+b") as f:
                    content = f.read()
                    for m in re.finditer(b"key-%04d-end" % hit, content):
                        f.seek(m.start())
                        f.write(b"KEY")
            return set(range(self.COUNT)) - {hit}

        def told(mx, peer, spared):
            QueueDamage.check(self, mx, peer, spared)
            self.assertNotIn(hit, self.arrived(peer))
            mx.wait_log(TOLD)

        self.check = told
        self.stopped(damage)

    def test_a_damaged_segment_is_kept_for_a_person(self):
        def damage(mx):
            # Damage the headers of all segments with mail, so that the mail cannot be told from stale bytes.
            hit = [p for p in self.segments(mx) if self.keys_in(p)]
            for path in hit:
                with open(path, "r+b") as f:
                    f.write(b"\xff" * 1024)
            self.hit = len(hit)
            return set()

        def kept(mx, peer, spared):
            QueueDamage.check(self, mx, peer, spared)
            mx.wait_log("header is unreadable")
            names = lambda: [n for n in os.listdir(self.folder(mx)) if n.startswith("damaged-segment-")]
            eventually(lambda: len(names()) == self.hit, lambda: f"{self.hit} files set aside: {names()}")
            for name in names():
                self.assertTrue(self.keys_in(os.path.join(self.folder(mx), name)), name + " holds what it held")

        self.check = kept
        self.stopped(damage)

    def test_a_segment_lost_or_cut_short(self):
        def damage(mx):
            with_mail = [p for p in self.segments(mx) if self.keys_in(p)]
            gone = self.keys_in(with_mail[0])
            os.unlink(with_mail[0])
            if len(with_mail) > 1:
                os.truncate(with_mail[-1], 512 * 1024)  # beyond all written data
            return set(range(self.COUNT)) - gone

        self.stopped(damage)

    def test_positions_overwritten_cost_nothing(self):
        def damage(mx):
            path = os.path.join(self.folder(mx), "positions")
            with open(path, "r+b") as f:
                f.write(os.urandom(os.path.getsize(path)))
            return set(range(self.COUNT))

        def told(mx, peer, spared):
            QueueDamage.check(self, mx, peer, spared)
            mx.wait_log("restart positions are unreadable")

        self.check = told
        self.stopped(damage)

    def test_foreign_files_are_left_alone(self):
        def damage(mx):
            folder = self.folder(mx)
            os.mkdir(os.path.join(folder, "segment-00000999"))
            os.mkfifo(os.path.join(folder, "segment-00000998"))
            for name in ("notes.txt", "segment-1", "segment-00000001~"):
                with open(os.path.join(folder, name), "w") as out:
                    out.write("left here")
            return set(range(self.COUNT))

        self.stopped(damage)

    def test_links_among_the_files_lead_nowhere(self):
        kept = b"somebody else's" + b"\0" * 100000

        def damage(mx):
            self.victims = [os.path.join(mx.dir, name) for name in ("linked", "named_twice")]
            for path in self.victims:
                with open(path, "wb") as out:
                    out.write(kept)
                if os.geteuid() == 0:
                    shutil.chown(path, queue_owner())  # writable: only qmgr's caution protects the file
            for folder, name in ((self.folder(mx), "segment-"), (mx.path("spool", "spool"), "body-")):
                os.symlink(self.victims[0], os.path.join(folder, name + "00000102"))
                os.link(self.victims[1], os.path.join(folder, name + "00000103"))
                os.symlink(os.path.join(mx.dir, "nowhere"), os.path.join(folder, name + "00000104"))
            return set(range(self.COUNT))

        def untouched(mx, peer, spared):
            QueueDamage.check(self, mx, peer, spared)
            large = mail("large", "0123456789abcdef\r\n" * 20000)  # has a file of its own
            for _ in range(5):
                send(mx.port, "ada@sender.example", ["u@rcpt.example"], large)
            eventually(lambda: sum(m.content.endswith(large) for m in peer.messages) == 5, "the large ones arrive")
            mx.wait_empty_queue()
            for path in self.victims:
                with open(path, "rb") as raw:
                    self.assertEqual(raw.read(), kept, path)
            self.assertFalse(os.path.exists(os.path.join(mx.dir, "nowhere")))

        self.check = untouched
        self.stopped(damage)

    def test_a_file_of_the_wrong_owner_stops_mail_until_it_is_put_right(self):
        down = Peer()
        port = down.port
        down.close()
        with Instance({**relay_to(down), **SOON}) as mx:
            self.fill(mx)
            mx.kill_all()
            path = next(p for p in self.segments(mx) if self.keys_in(p))
            before = os.stat(path)
            if os.geteuid() == 0:
                os.chown(path, 0, 0)
            else:
                os.chmod(path, 0)
            # Do not wait for it: it watches for a while whether qmgr starts.
            starter = subprocess.Popen([os.path.join(BIN, "penstock"), "-c", mx.etc, "start"],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.addCleanup(starter.wait)
            mx.wait_log(r"cannot be used, for the reason in the next line")
            mx.wait_log(re.escape(os.path.basename(path)) + r".*ermission denied")
            eventually(lambda: answers(mx.port), "smtpd answers")
            with self.assertRaises((Refused, ConnectionError)) as refusal:
                # smtpd itself waits a minute for the queue manager
                send(mx.port, "ada@sender.example", ["u@rcpt.example"], mail("refused"), timeout=120)
            if isinstance(refusal.exception, Refused):
                self.assertRegex(refusal.exception.reply, r"^4\d\d ")
            os.chown(path, before.st_uid, before.st_gid)
            os.chmod(path, 0o600)
            with Peer(port=port) as peer:
                mx.stop()
                mx.start()
                mx.wait_log("queue recovered: epoch [2-9]")
                QueueDamage.check(self, mx, peer, set(range(self.COUNT)))


if __name__ == "__main__":
    unittest.main()
