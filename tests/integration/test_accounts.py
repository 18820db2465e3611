"""virtual stores mail with the rights of one account after the other: each owns its mail, and nothing touches
others."""
import glob
import os
import signal
import subprocess

from harness import *

FIRST = 30000
DOMAIN = "virtual.test.example"


def confined(mx):
    """The processes that store mail for one account after the other: pid -> uid it has now."""
    found = {}
    for pid in mx.pids().get("become", []):
        try:
            with open(f"/proc/{pid}/status") as text:
                status = dict(line.rstrip("\n").split(":\t", 1) for line in text if ":\t" in line)
        except OSError:
            continue  # it has just ended
        if status.get("CapBnd") == "00000000000000c0":
            found[pid] = int(status["Uid"].split()[1])
    return found


@unittest.skipIf(os.geteuid() != 0, "only root can deliver as others")
class Accounts(Suite):
    def instance(self, count, last="Maildir/", start=True, **settings):
        """An instance in which u0 to u<count - 1> each have an account and a directory of their own."""
        names = [f"u{n}" for n in range(count)]
        mx = Instance(
            {
                "virtual_mailbox_maps": inline({f"{n}@{DOMAIN}": f"{n}/{last}" for n in names}),
                "virtual_uid_maps": inline({f"{name}@{DOMAIN}": FIRST + n for n, name in enumerate(names)}),
                "virtual_gid_maps": inline({f"{name}@{DOMAIN}": FIRST + 1000 + n for n, name in enumerate(names)}),
                **settings,
            },
            start=start,
        )
        for n, name in enumerate(names):
            os.mkdir(os.path.join(mx.virtual_base, name), 0o700)
            os.chown(os.path.join(mx.virtual_base, name), FIRST + n, FIRST + 1000 + n)
        return mx

    def test_mail_for_many_accounts_is_stored_as_each_of_them(self):
        with self.instance(40) as mx:
            send(mx.port, "ada@sender.example", [f"u{n}@{DOMAIN}" for n in range(40)], mail("for all"))
            mx.wait_empty_queue()
            for n in range(40):
                box = mx.virtual_box(f"u{n}/Maildir")
                self.assertEqual(len(box.messages()), 1)
                self.assertEqual(box.leftovers(), [])
                for path in glob.glob(box.path) + glob.glob(box.path + "/*") + glob.glob(box.path + "/new/*"):
                    status = os.stat(path)
                    self.assertEqual((status.st_uid, status.st_gid), (FIRST + n, FIRST + 1000 + n), path)
                    self.assertEqual(status.st_mode & 0o077, 0, path)

    def test_a_mailbox_that_cannot_be_locked_holds_up_no_other_account(self):
        with self.instance(12, "mbox", deliver_lock_attempts="1000", deliver_lock_delay="1s") as mx:
            lock = os.path.join(mx.virtual_base, "u0", "mbox.lock")
            with open(lock, "w"):
                os.chown(lock, FIRST, FIRST + 1000)
            for n in range(12):
                send(mx.port, "ada@sender.example", [f"u{n}@{DOMAIN}"], mail("hangs"))
            mx.wait_log(r"(?s)" + r".*status=sent" * 11)
            self.assertFalse(os.path.exists(lock.removesuffix(".lock")))
            os.unlink(lock)
            mx.wait_empty_queue()
            with open(lock.removesuffix(".lock"), "rb") as box:
                self.assertEqual(box.read().count(b"\nSubject: hangs"), 1)

    def test_what_a_killed_process_had_in_hand_is_not_sent_and_comes_once(self):
        with self.instance(2, "mbox", deliver_lock_attempts="1000", deliver_lock_delay="1s") as mx:
            lock = os.path.join(mx.virtual_base, "u0", "mbox.lock")
            with open(lock, "w"):
                os.chown(lock, FIRST, FIRST + 1000)
            send(mx.port, "ada@sender.example", [f"u0@{DOMAIN}"], mail("killed"))

            def at_work():
                return [pid for pid, uid in confined(mx).items() if uid == FIRST]
            for pid in eventually(at_work, "a process stores as the account"):
                os.kill(pid, signal.SIGKILL)
            mx.wait_log(r"to=<u0@.*status=deferred \(delivery process ended without an answer\)")
            self.assertNotIn("status=sent", mx.log())
            self.assertFalse(os.path.exists(lock.removesuffix(".lock")))
            os.unlink(lock)
            mx.flush()
            mx.wait_empty_queue()
            with open(lock.removesuffix(".lock"), "rb") as box:
                self.assertEqual(box.read().count(b"\nSubject: killed"), 1)

    def test_without_the_right_to_confine_them_each_account_has_a_process_of_its_own(self):
        """As in a container without CAP_SETPCAP."""
        with self.instance(3, start=False) as mx:
            subprocess.run(
                ["setpriv", "--bounding-set", "-setpcap", os.path.join(BIN, "penstock"), "-c", mx.etc, "start"],
                check=True,
                stdout=subprocess.DEVNULL,
            )
            for n in range(3):
                send(mx.port, "ada@sender.example", [f"u{n}@{DOMAIN}"], mail("mine"))
            mx.wait_empty_queue()
            for n in range(3):
                self.assertEqual(
                    os.stat(glob.glob(mx.virtual_box(f"u{n}/Maildir").path + "/new/*")[0]).st_uid, FIRST + n
                )
            self.assertEqual(mx.log().count("each account has a delivery process of its own, which is slower: "), 1)
            self.assertEqual(confined(mx), {})

    def test_an_account_below_the_lowest_and_a_directory_of_another_are_refused(self):
        with self.instance(3, virtual_minimum_uid=str(FIRST + 1)) as mx:
            os.chown(os.path.join(mx.virtual_base, "u1"), FIRST + 2, FIRST + 1002)
            send(mx.port, "ada@sender.example", [f"u{n}@{DOMAIN}" for n in range(3)], mail("mine"))
            mx.wait_log(r"to=<u0@.*status=deferred \(recipient u0@\S+ uid 30000 is below virtual_minimum_uid\)")
            mx.wait_log(r"to=<u1@.*status=deferred \(.*Permission denied")
            mx.wait_log(r"to=<u2@.*status=sent")
            self.assertEqual([len(mx.virtual_box(f"u{n}/Maildir").messages()) for n in range(3)], [0, 0, 1])


if __name__ == "__main__":
    unittest.main()
