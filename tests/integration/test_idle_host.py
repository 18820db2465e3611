"""Stop or reload of a host that was idle for longer than stop_drain_time: work in hand still has the whole time to
finish. Every program, and master itself, slept all that time, and must not count it as part of the drain."""
import os
import threading
import time

from harness import *
from test_crash import system_user

DRAIN = 8  # seconds: far more than an answer takes even on a busy machine
TO = "local.test.example"


def sleep_longer_than_a_drain():
    time.sleep(DRAIN + 2)  # the tested idleness: there is nothing to wait for


class IdleHost(Suite):
    def delivery(self, interrupt):
        """Gives the order by interrupt(mx); then the peer confirms the message."""
        reached, go_on = threading.Event(), threading.Event()

        def slow(session, line):
            reached.set()
            go_on.wait(60)
            return "250 2.0.0 taken"

        with Peer() as peer, Instance({**relay_to(peer), "stop_drain_time": f"{DRAIN}s"}) as mx:
            peer.replies["DOT"] = slow
            try:
                send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail("once"))
                self.assertTrue(reached.wait(30), "the peer has the end of the message")
                sleep_longer_than_a_drain()
                done = interrupt(mx)
            finally:
                go_on.set()
            done()
            mx.wait_empty_queue()
            self.assertEqual(len(peer.messages), 1, "the message was sent again")
            self.assertNotIn("killed by signal", mx.log())
            self.assertEqual(mx.log().count("status=sent"), 1)

    def reload(self, mx):
        mx.reload()
        mx.wait_log(r"master\[\d+\]: reload -- ")
        time.sleep(1)  # nothing may end in this small part of the drain
        return lambda: mx.wait_log(r"(?s)reload -- .*qmgr\[\d+\]: queue recovered")

    def stop(self, mx):
        """Stops in the background; afterwards the mail system is started again."""
        stopper = threading.Thread(target=mx.stop)
        stopper.start()
        mx.wait_log(r"master\[\d+\]: terminating on signal")
        time.sleep(1)  # nothing may end in this small part of the drain

        def then():
            stopper.join()
            mx.start()
        return then

    def test_a_reload_does_not_repeat_a_delivery_that_waits_for_its_reply(self):
        self.delivery(self.reload)

    def test_a_stop_does_not_repeat_a_delivery_that_waits_for_its_reply(self):
        self.delivery(self.stop)

    def command(self, mx):
        """Sends a message to a command that stops in the middle of its input until the gate opens; returns the files
        with its input so far and with its whole input."""
        out = os.path.join(mx.dir, "out")
        os.mkdir(out)
        os.chmod(out, 0o1777)
        os.mkfifo(f"{out}/gate")
        os.chmod(f"{out}/gate", 0o666)
        table = mx.write(
            "aliases",
            f'slow: "|echo begun >> {out}/runs; head -c 50000 > {out}/part; read go < {out}/gate; '
            f'cat >> {out}/part; mv {out}/part {out}/whole"\n',
        )
        mx.set(alias_maps=f"lmdb:{table}")
        mx.tool("penalias", f"lmdb:{table}", check=True)
        mx.start()
        # More than a delivery holds in memory: local still has a part of it when the command stops.
        send(mx.port, "ada@sender.example", [f"slow@{TO}"], mail("long", "line\r\n" * 350000))
        part = f"{out}/part"
        eventually(
            lambda: os.path.exists(part) and os.path.getsize(part) == 50000, "the command is in the middle of its input"
        )
        return out

    def test_a_stop_lets_a_command_read_its_whole_input(self):
        with Instance({"default_privs": system_user(), "stop_drain_time": f"{DRAIN}s"}, start=False) as mx:
            out = self.command(mx)
            sleep_longer_than_a_drain()
            then = self.stop(mx)
            with open(f"{out}/gate", "w") as gate:
                gate.write("go\n")
            then()
            mx.wait_empty_queue()
            with open(f"{out}/whole", "rb") as file:
                self.assertTrue(file.read().endswith(b"line\n" * 350000))
            with open(f"{out}/runs") as file:
                self.assertEqual(file.read(), "begun\n", "the command was run again")

    def test_a_command_that_a_stop_does_not_wait_for_sees_no_end_of_its_input(self):
        with Instance({"default_privs": system_user(), "stop_drain_time": "2s"}, start=False) as mx:
            out = self.command(mx)
            time.sleep(4)  # idle for longer than the drain takes
            began = time.monotonic()
            mx.stop()
            # qmgr keeps a part of the time
            self.assertGreaterEqual(time.monotonic() - began, 1, "the command had its time")
            # Opening the gate now has no effect: the command is gone, or ends because its input ends early.
            try:
                os.close(os.open(f"{out}/gate", os.O_WRONLY | os.O_NONBLOCK))
            except OSError:
                pass
            eventually(lambda: not any_process_in(out), "the command has ended")
            self.assertFalse(os.path.exists(f"{out}/whole"), "the command took a part for the whole message")


def any_process_in(folder):
    """Whether a process has the directory in its command line."""
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as raw:
                if folder.encode() in raw.read():
                    return True
        except OSError:
            pass
    return False


if __name__ == "__main__":
    unittest.main()
