"""Snapshots: a copy of the queue made while mail flows, which a new instance recovers; moving and merging queues."""
import glob
import json
import os
import shutil
import subprocess
import threading
import unittest

from client import Client, mail, send
from instance import BIN, Instance, missing
from peer import Peer
from queue_client import QueueClient
from waiting import eventually

SENDER, RECIPIENTS = "a@sender.example", ["b@elsewhere.example"]


def waiting_instance(port=1, **settings):
    """An instance whose mail goes to a port where nobody may listen: it is deferred."""
    return Instance({"transport_maps": f"static:smtp:[127.0.0.1]:{port}", "relay_domains": "elsewhere.example",
                     "minimal_backoff_time": "1h", "maximal_backoff_time": "1h", "queue_run_delay": "1h",
                     "destdb_backend": "lmdb", **settings})


def subject_of(content):
    text = content.decode("latin-1") if isinstance(content, bytes) else content
    return next(l for l in text.split("\r\n") if l.startswith("Subject: "))[9:]


@unittest.skipIf(missing(), missing())
class Snapshots(unittest.TestCase):
    def setUp(self):
        self.peer = Peer()
        self.addCleanup(self.peer.close)

    def instance(self, port=1, **settings):
        mx = waiting_instance(port, **settings)
        self.addCleanup(mx.close)
        return mx

    def snapshot(self, mx, name="copy", status=0):
        directory = os.path.join(mx.dir, name)
        done = mx.tool("penstock", "snapshot", directory, timeout=300)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return directory if status == 0 else done.stdout + done.stderr

    def restored(self, directory, port, **settings):
        """A new instance with the queue of the snapshot, not started."""
        other = Instance({"transport_maps": f"static:smtp:[127.0.0.1]:{port}", "relay_domains": "elsewhere.example",
                          **settings}, start=False)
        self.addCleanup(other.close)
        done = other.tool("penstock", "restore", directory)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("delivered twice", done.stderr)
        return other

    def arrived(self):
        return sorted(subject_of(m.content) for m in self.peer.messages)

    def wait_deferred(self, mx, count):
        eventually(lambda: len([m for m in mx.queue() if m["queue_name"] == "deferred"]) >= count,
                   lambda: f"{count} deferred: {mx.queue()}")

    def test_a_stopped_instance_moves_with_large_bodies_held_mail_and_submissions(self):
        mx = self.instance()
        large = "x" * 78 + "\r\n"
        for i in range(3):
            send(mx.port, SENDER, RECIPIENTS, mail(f"small {i}"))
        send(mx.port, SENDER, RECIPIENTS, mail("large", large * 5000))
        send(mx.port, SENDER, RECIPIENTS, mail("held"))
        self.wait_deferred(mx, 5)
        held = next(m["queue_id"] for m in mx.queue() if m["message_size"] < 2000)
        self.assertEqual(mx.tool("pensuper", "-h", held).returncode, 0)
        mx.stop()
        submitted = subprocess.run([os.path.join(BIN, "sendmail"), "-C", mx.etc, "-f", "a@sender.example",
                                    "b@elsewhere.example"], input="Subject: submitted\n\nhello\n", text=True,
                                   capture_output=True)
        self.assertEqual(submitted.returncode, 0, submitted.stderr)
        directory = self.snapshot(mx)
        other = self.restored(directory, self.peer.port)
        other.start()
        other.flush()
        self.peer.wait_messages(5)
        eventually(lambda: [m["queue_id"] for m in other.queue()] == [held], lambda: f"one held: {other.queue()}")
        self.assertEqual(other.queue()[0]["queue_name"], "hold")
        found = self.arrived()
        self.assertEqual(len(found), 5)
        self.assertIn("large", found)
        self.assertIn("submitted", found)
        content = next(m.content for m in self.peer.messages if subject_of(m.content) == "large")
        self.assertEqual(content.decode().count(large), 5000)
        self.assertEqual(other.tool("pensuper", "-H", "ALL").returncode, 0)
        self.peer.wait_messages(6)
        other.wait_empty_queue()
        self.assertEqual(len(set(self.arrived())), 6)  # nothing twice

    def test_a_copy_made_under_load_has_what_was_acknowledged_before_and_nothing_that_was_delivered(self):
        """The ledger of acknowledged messages against the copy, after both instances were killed."""
        with Peer() as first:
            mx = self.instance(first.port, smtp_destination_concurrency_limit="3", queue_log_segment_size="1m")
            for i in range(40):
                send(mx.port, SENDER, RECIPIENTS, mail(f"delivered {i}"))
            first.wait_messages(40)
            mx.wait_empty_queue()
            mx.set(transport_maps="static:smtp:[127.0.0.1]:1")
            mx.reload()
            eventually(lambda: self.goes_nowhere(mx), "mail stays in the queue")
            waiting = [f"waiting {i}" for i in range(120)]
            for i, name in enumerate(waiting):
                body = "y" * 70 + "\r\n"
                send(mx.port, SENDER, RECIPIENTS, mail(name, body * (4000 if i % 10 == 0 else 3)))
            stop, taken = threading.Event(), []

            def load(number):
                with Client(mx.port) as client:
                    i = 0
                    while not stop.is_set():
                        client.send(SENDER, RECIPIENTS, mail(f"load {number}-{i}", "z\r\n" * 300))
                        taken.append(f"load {number}-{i}")
                        i += 1

            threads = [threading.Thread(target=load, args=(n,)) for n in range(4)]
            for t in threads:
                t.start()
            try:
                eventually(lambda: len(taken) > 50, "load flows")
                acknowledged = list(taken)
                directory = self.snapshot(mx)
                self.assertGreater(len(taken), len(acknowledged))  # mail flowed meanwhile
            finally:
                stop.set()
                for t in threads:
                    t.join()
            mx.kill_all()
        other = self.restored(directory, self.peer.port)
        other.start()
        other.flush()
        other.wait_empty_queue(120)
        found = self.arrived()
        wanted = set(waiting + acknowledged)
        self.assertEqual(wanted - set(found), set())
        self.assertEqual([n for n in found if n.startswith("delivered") or n.startswith("probe")], [])
        self.assertEqual(len(found), len(set(found)), "a message came twice")
        log = subprocess.run([os.path.join(BIN, "penqueue"), "--log", os.path.join(directory, "log")],
                             capture_output=True, text=True, errors="replace")
        self.assertNotIn("DAMAGE", log.stdout)

    def goes_nowhere(self, mx):
        """Whether the changed transport is used; the message that tries it is removed."""
        send(mx.port, SENDER, RECIPIENTS, mail("probe"))

        def settled():
            queue = mx.queue()
            return [] if any(m["queue_name"] != "deferred" for m in queue) else [queue]

        queue = eventually(settled, "the probe is settled")[0]
        mx.tool("pensuper", "-d", "ALL")
        return bool(queue)

    def test_a_new_queue_manager_is_copied_and_a_directory_without_its_facts_is_no_snapshot(self):
        mx = self.instance()
        send(mx.port, SENDER, RECIPIENTS, mail("one"))
        self.wait_deferred(mx, 1)
        mx.kill("qmgr")
        directory = self.snapshot(mx)  # a new one answers
        self.assertTrue(os.path.exists(os.path.join(directory, "snapshot.json")))
        os.remove(os.path.join(directory, "snapshot.json"))
        other = Instance(start=False)
        self.addCleanup(other.close)
        done = other.tool("penstock", "restore", directory)
        self.assertEqual(done.returncode, 65)
        self.assertIn("no whole snapshot", done.stderr)

    def test_while_a_queue_is_copied_positions_stay_and_afterwards_they_are_saved(self):
        mx = self.instance()

        def positions():
            with open(mx.path("spool", "log", "positions"), "rb") as file:
                return file.read()

        def load():
            with Client(mx.port) as client:
                for i in range(80):
                    client.send(SENDER, RECIPIENTS, mail(f"m{i}", "q" * 70 + "\r\n" + "p\r\n" * 5000))

        load()
        for end in (lambda client: self.assertTrue(client.thaw()), lambda client: None):
            with QueueClient(mx.path("spool", "public", "qmgr")) as client:
                ends = client.freeze()
                before = positions()
                load()
                self.assertEqual(positions(), before)
                later = client.freeze()
                self.assertEqual(positions(), before)
                self.assertGreater(later[0], ends[0])  # the journal went on
                end(client)
            # With Thaw, and when the tool is gone without a word.
            def saved():
                load()
                return positions() != before
            eventually(saved, "positions are saved again")

    def test_a_directory_that_holds_something_is_left_alone(self):
        mx = self.instance()
        mx.write("kept/file", "text")
        self.assertIn("exists", self.snapshot(mx, "kept", status=73).lower())
        with open(os.path.join(mx.dir, "kept", "file")) as text:
            self.assertEqual(text.read(), "text")

    @unittest.skipIf(os.geteuid() != 0, "without root there is nobody whose files a link could lead to")
    def test_links_that_a_program_left_in_its_store_lead_root_nowhere(self):
        mx = self.instance()
        secret = os.path.join(mx.dir, "secret")
        with open(secret, "w") as out:
            out.write("root alone knows this")
        os.chmod(secret, 0o600)
        found = glob.glob(os.path.join(mx.dir, "instance", "data", "*", "data.mdb"))
        stores = [os.path.dirname(path) for path in found]
        self.assertTrue(stores)
        for number, name in enumerate(("lock.mdb", "data.mdb")):
            for store in stores:
                path = os.path.join(store, name)
                if os.path.lexists(path):
                    os.unlink(path)
                os.symlink(secret, path)
            copy = self.snapshot(mx, f"copy{number}")
            with open(secret) as kept:
                self.assertEqual(kept.read(), "root alone knows this")
            for where, _, names in os.walk(copy):
                for one in names:
                    with open(os.path.join(where, one), "rb") as made:
                        self.assertNotIn(b"root alone knows this", made.read(), one)

    def test_a_queue_that_cannot_be_read_is_not_taken_for_an_empty_one(self):
        mx = self.instance()
        directory = self.snapshot(mx)
        other = Instance(start=False)
        self.addCleanup(other.close)
        os.makedirs(other.path("spool"), exist_ok=True)
        with open(other.path("spool", "log"), "w"):
            pass  # no directory
        done = other.tool("penstock", "restore", directory)
        self.assertEqual(done.returncode, 66, done.stdout)
        self.assertIn("is there mail in the queue?", done.stderr)
        self.assertIn("Not a directory", done.stderr)

    def test_a_queue_with_mail_is_not_overwritten_but_merged_each_message_once(self):
        mx, other = self.instance(), self.instance()
        for i in range(5):
            send(mx.port, SENDER, RECIPIENTS, mail(f"mine {i}"))
            send(other.port, "a@sender.example", ["b@elsewhere.example", "c@elsewhere.example"],
                 mail(f"theirs {i}", "w" * 70 + "\r\n" + "v\r\n" * (60000 if i == 0 else 1)))
        self.wait_deferred(mx, 5)
        self.wait_deferred(other, 5)
        held = other.queue()[0]["queue_id"]
        self.assertEqual(other.tool("pensuper", "-h", held).returncode, 0)
        ids = {m["queue_id"] for m in other.queue()}
        other.stop()
        directory = self.snapshot(other)
        done = mx.tool("penstock", "restore", directory)
        self.assertEqual(done.returncode, 69, done.stdout)
        mx.stop()
        done = mx.tool("penstock", "restore", directory)
        self.assertEqual(done.returncode, 69, done.stdout)
        self.assertIn("holds 5 messages", done.stderr)
        mx.start()
        done = mx.tool("penstock", "restore", directory, "--merge", timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("took 5 messages", done.stdout)
        again = mx.tool("penstock", "restore", directory, "--merge", timeout=300)
        self.assertEqual(again.returncode, 0, again.stdout + again.stderr)
        queue = {m["queue_id"]: m for m in mx.queue()}
        self.assertEqual(len(queue), 10)
        self.assertTrue(ids <= set(queue), "ids are kept")
        self.assertEqual([i for i, m in queue.items() if m["queue_name"] == "hold"], [held])
        mx.set(transport_maps=f"static:smtp:[127.0.0.1]:{self.peer.port}")
        mx.reload_whole()
        self.assertEqual(mx.tool("pensuper", "-H", "ALL").returncode, 0)
        mx.flush()
        self.peer.wait_messages(10)
        mx.flush()
        mx.wait_empty_queue()
        self.assertEqual(len(self.arrived()), 10)
        self.assertEqual(len(set(self.arrived())), 10)
        third = self.instance()
        done = third.tool("penstock", "restore", directory, "--merge")
        self.assertEqual(done.returncode, 69)
        self.assertIn("merged already", done.stderr)

    def test_configuration_and_data_come_along_to_a_place_where_there_is_none(self):
        mx = self.instance()
        send(mx.port, SENDER, RECIPIENTS, mail("one"))
        self.wait_deferred(mx, 1)
        directory = self.snapshot(mx)
        with open(os.path.join(directory, "snapshot.json")) as text:
            self.assertEqual(json.load(text)["config_directory"], mx.etc)
        self.assertTrue(os.path.exists(os.path.join(directory, "data", "destdb", "data.mdb")))
        # While it runs, and while its queue has mail, nothing is put there, and no configuration is left behind.
        elsewhere = mx.path("elsewhere", "etc")
        for reason in (" runs: penstock stop first", " holds 1 messages"):
            done = subprocess.run([os.path.join(BIN, "penstock"), "restore", directory, "--to", elsewhere],
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 69, done.stdout + done.stderr)
            self.assertIn(reason, done.stderr)
            self.assertFalse(os.path.exists(elsewhere))
            mx.stop()
        # The host is lost: the same places are empty again.
        mx.kill_all()
        for name in ("etc", "spool", "data"):
            shutil.rmtree(mx.path(name))
        done = subprocess.run([os.path.join(BIN, "penstock"), "restore", directory, "--to", mx.etc],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        mx.set(transport_maps=f"static:smtp:[127.0.0.1]:{self.peer.port}")
        mx.start()
        mx.flush()
        self.peer.wait_messages(1)
        self.assertEqual(self.arrived(), ["one"])


if __name__ == "__main__":
    unittest.main()
