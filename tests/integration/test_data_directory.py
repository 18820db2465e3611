"""data_directory is root's, and what each program keeps in it is that program's alone; an older instance's is moved
over once, and loses nothing."""
import os
import stat

from harness import *
from instance import mail_owner
from test_queue_account import QUEUE, ids, mode_of, owner_of

MOVED = "is root's from now on"


@unittest.skipIf(os.geteuid() != 0, "only root can use several accounts")
class DataDirectory(Suite):
    def as_older_versions_left_it(self, mx, owner=None, mode=0o700):
        os.chown(mx.path("data"), *(ids(owner) if owner else (0, ids(mail_owner())[1])))
        os.chmod(mx.path("data"), mode)

    def look_at(self, mx, queue):
        data = mx.path("data")
        self.assertEqual((owner_of(data), mode_of(data)), ("root", 0o711 if queue != mail_owner() else 0o710))
        for name in ("senders", "senders.lock", "mta_sts", "tlsrpt", "dmarcrpt", "events", "penapi", "verify_cache",
                     "tls_ticket_keys"):
            self.assertEqual(owner_of(os.path.join(data, name)), mail_owner(), name)
            self.assertEqual(mode_of(os.path.join(data, name)) & 0o077, 0, name)
        self.assertEqual(owner_of(os.path.join(data, "destdb")), queue)

    def test_an_older_instance_is_moved_over_once_and_keeps_what_it_knows(self):
        for queue, older in ((mail_owner(), (mail_owner(), 0o700)), (QUEUE, (None, 0o1771))):
            with self.subTest(queue), Instance({"queue_owner": queue}) as mx:
                mx.stop()
                kept = [mx.path("data", name) for name in ("senders.lock", "destdb/data.mdb", "tls_ticket_keys")]
                before = [os.stat(path).st_ino for path in kept]
                self.assertNotIn(MOVED, mx.log())
                self.as_older_versions_left_it(mx, *older)
                for _ in range(2):
                    mx.start()
                    self.look_at(mx, queue)
                    self.assertEqual([os.stat(path).st_ino for path in kept], before)
                    mx.stop()
                self.assertEqual(mx.log().count(MOVED), 1)

    def test_a_start_that_was_killed_goes_on(self):
        with Instance({"queue_owner": mail_owner()}, start=False) as mx:
            # As it leaves them: root's directory, and what was made and not yet given away.
            os.makedirs(mx.path("data"), exist_ok=True)
            self.as_older_versions_left_it(mx, "root", 0o710)
            os.mkdir(mx.path("data", "senders"), 0o700)
            os.mknod(mx.path("data", "tls_ticket_keys"), 0o600 | stat.S_IFREG)
            mx.start()
            self.look_at(mx, mail_owner())

    def test_what_leads_elsewhere_stays_as_it_is_and_leads_root_nowhere(self):
        with Instance(start=False) as mx:
            os.makedirs(mx.path("data"), exist_ok=True)
            victim = mx.write("victim/file", "root's\n")
            os.symlink(os.path.dirname(victim), mx.path("data", "senders"))
            os.symlink(victim, mx.path("data", "senders.lock"))
            os.link(victim, mx.path("data", "tls_ticket_keys"))
            self.as_older_versions_left_it(mx, mail_owner())
            for name in ("senders", "senders.lock"):
                os.lchown(mx.path("data", name), *ids(mail_owner()))
            mx.start()
            for name in ("senders", "senders.lock", "tls_ticket_keys"):
                self.assertIn(f"data/{name} stays as it is", mx.log())
            self.assertEqual((owner_of(victim), owner_of(os.path.dirname(victim))), ("root", "root"))
            self.assertEqual(os.listdir(os.path.dirname(victim)), ["file"])
            send(mx.port, "ada@sender.example", ["postmaster@local.test.example"], mail("goes on"))

    def test_a_reload_makes_what_is_named_anew(self):
        with Instance({"address_verify_map": "btree:$data_directory/one"}) as mx:
            self.assertEqual(owner_of(mx.path("data", "one")), mail_owner())
            mx.set(address_verify_map="lmdb:$data_directory/two")
            mx.tool("penstock", "reload", check=True)
            eventually(lambda: os.path.exists(mx.path("data", "two.lock")), lambda: mx.log())
            self.assertEqual((owner_of(mx.path("data", "two")), mode_of(mx.path("data", "two"))), (mail_owner(), 0o700))

    def test_a_file_of_events_beside_what_others_keep_is_written_and_told(self):
        with Instance({"event_log_file": "$data_directory/events.json"}) as mx:
            self.assertIn("a file of events stands in", mx.log())
            self.assertIn("event_log_file", mx.tool("penstock", "check").stdout)
            send(mx.port, "ada@sender.example", ["postmaster@local.test.example"], mail("seen"))
            eventually(lambda: os.path.exists(mx.path("data", "events.json")) and
                       "received" in open(mx.path("data", "events.json")).read(), lambda: mx.log())


if __name__ == "__main__":
    unittest.main()
