"""A service manager as systemd is one to us: it hears master, and keeps the descriptors that master leaves with it.

Use:     with Store(mx) as store:  store.start()  …  store.kill_master()  store.start()  …  store.stop()
"""
import array
import os
import signal
import socket
import threading

from instance import BIN
from waiting import eventually


class Store:
    def __init__(self, mx):
        self.mx, self.kept, self.messages, self.pid = mx, [], [], None
        self.lock = threading.Lock()
        self.path = os.path.join(mx.dir, "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        while True:
            try:
                data, extra, _, _ = self.socket.recvmsg(8192, socket.CMSG_SPACE(4 * 64))
            except OSError:
                return
            if not data:
                return
            fds = array.array("i")
            for level, kind, content in extra:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                    fds.frombytes(content[:len(content) - len(content) % fds.itemsize])
            words = dict(line.split("=", 1) for line in data.decode().split("\n"))
            with self.lock:
                self.messages.append(words)
                if words.get("FDSTORE") == "1":
                    self.kept += [(words["FDNAME"], fd) for fd in fds]
                elif words.get("FDSTOREREMOVE") == "1":
                    for _, fd in [k for k in self.kept if k[0] == words["FDNAME"]]:
                        os.close(fd)
                    self.kept = [k for k in self.kept if k[0] != words["FDNAME"]]
                else:
                    for fd in fds:
                        os.close(fd)

    def said(self, word):
        with self.lock:
            return sum(word in m for m in self.messages)

    def start(self):
        """Starts master with all that is kept, and waits until it says that it is ready."""
        before = self.said("READY")
        with self.lock:
            kept = list(self.kept)
        names = ":".join(name for name, _ in kept)
        command = os.path.join(BIN, "penstock")
        self.pid = os.fork()
        if self.pid == 0:
            try:
                high = [os.dup2(fd, 2000 + i, inheritable=False) for i, (_, fd) in enumerate(kept)]
                for i, fd in enumerate(high):
                    os.dup2(fd, 3 + i, inheritable=True)
                environment = {**os.environ, "NOTIFY_SOCKET": self.path}
                if kept:
                    environment |= {"LISTEN_FDS": str(len(kept)), "LISTEN_PID": str(os.getpid()),
                                    "LISTEN_FDNAMES": names}
                os.closerange(3 + len(kept), 1900)
                os.execve(command, [command, "-c", self.mx.etc, "start-fg"], environment)
            finally:
                os._exit(1)
        eventually(lambda: self.said("READY") > before, lambda: "master is ready\n" + self.mx.log())

    def kill_master(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self.pid = None

    def stop(self):
        """Ends master as a stop of the service does; returns its exit status."""
        os.kill(self.pid, signal.SIGTERM)
        _, status = os.waitpid(self.pid, 0)
        self.pid = None
        return os.waitstatus_to_exitcode(status)

    def let_go(self):
        """What systemd does when a service ends for good."""
        with self.lock:
            for _, fd in self.kept:
                os.close(fd)
            self.kept = []

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self.pid:
            self.kill_master()
        self.socket.shutdown(socket.SHUT_RDWR)
        self.reader.join(10)
        self.let_go()
        self.socket.close()
