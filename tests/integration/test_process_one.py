"""Master as process 1 of a container: what others leave behind is its child, and it takes leave of it."""
import os
import signal
import subprocess

from harness import *


def children(pid):
    """State by process, of the children of a process."""
    found = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat") as file:
                state, parent = file.read().rsplit(")", 1)[1].split()[:2]
        except OSError:
            continue
        if int(parent) == pid:
            found[int(entry)] = state
    return found


@unittest.skipUnless(os.geteuid() == 0, "makes a name space for processes")
class ProcessOne(Suite):
    def test_no_zombie_is_left(self):
        with Instance({"local_transport": "discard:"}, start=False) as mx:
            front = subprocess.Popen(["unshare", "--pid", "--fork", "--mount-proc", os.path.join(BIN, "penstock"), "-c",
                                      mx.etc, "start-fg"])
            self.addCleanup(front.wait, 60)
            eventually(lambda: answers(mx.port), lambda: "it serves\n" + mx.log())
            master, = mx.pids()["master"]
            # Not a child of its own: master has it started by a process between them, which ends.
            helper = eventually(lambda: [pid for pid in mx.pids().get("become", []) if pid in children(master)],
                                "become has process 1 for its parent")
            for pid in helper:
                os.kill(pid, signal.SIGKILL)
            eventually(lambda: not set(helper) & set(children(master)), lambda: f"none is left: {children(master)}")
            self.assertNotIn("Z", children(master).values())
            # Its own programs it still misses.
            smtpd, = mx.pids()["smtpd"]
            os.kill(smtpd, signal.SIGKILL)
            mx.wait_log("smtpd pid .* killed by signal 9")
            os.kill(master, signal.SIGTERM)
            self.assertEqual(front.wait(60), 0)


if __name__ == "__main__":
    unittest.main()
