"""Real SOCKS5 servers: Debian's dante-server (danted) and microsocks, unpacked privately.

Use:     with Danted(external="127.0.0.66") as proxy: … proxy.port
         with Microsocks(external="127.0.0.67", user="joe", password="secret") as proxy: …
Both listen on 127.0.0.1 and connect from the external address.
"""
import os
import shutil
import subprocess
import tempfile

import peers
from waiting import eventually, free_port

ROOT = os.path.join(peers.ROOTS, "socks")


def unavailable():
    """Returns why there are none here, or None."""
    if os.geteuid() != 0:
        return "danted wants to be started by root"
    if not os.path.exists(os.path.join(ROOT, "usr", "sbin", "danted")):
        return "they are not unpacked (scripts/unpack-peer var/peers/socks dante-server microsocks)"
    return None


class _Server:
    def start(self, words):
        library = os.path.join(ROOT, "usr", "lib")
        paths = [os.path.join(library, d) for d in os.listdir(library) if d.endswith("-linux-gnu")]
        self.log = open(os.path.join(self.dir, "log"), "w+")
        self.process = subprocess.Popen(words, env={**os.environ, "LD_LIBRARY_PATH": ":".join(paths)},
                                        stdout=self.log, stderr=self.log)

    def listens(self):
        if self.process.poll() is not None:
            self.log.seek(0)
            raise AssertionError(f"the proxy has ended: {self.log.read()}")
        with open("/proc/net/tcp") as table:
            return any(f":{self.port:04X} " in line and " 0A " in line for line in table)

    def __enter__(self):
        try:
            eventually(self.listens, "the proxy listens")
            return self
        except BaseException:
            self.__exit__()
            raise

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()  # danted ends its children
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def __exit__(self, *exc):
        self.stop()
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)


class Danted(_Server):
    def __init__(self, external):
        self.dir = tempfile.mkdtemp(prefix="pen-danted-")
        self.port = free_port()
        config = os.path.join(self.dir, "danted.conf")
        with open(config, "w") as out:
            out.write(f"logoutput: stderr\ninternal: 127.0.0.1 port = {self.port}\nexternal: {external}\n"
                      "clientmethod: none\nsocksmethod: none\nuser.privileged: root\nuser.unprivileged: nobody\n"
                      "client pass { from: 127.0.0.0/8 to: 0.0.0.0/0 }\n"
                      "socks pass { from: 127.0.0.0/8 to: 127.0.0.0/8 }\n")
        self.start([os.path.join(ROOT, "usr", "sbin", "danted"), "-f", config, "-N", "1",
                    "-p", os.path.join(self.dir, "pid")])


class Microsocks(_Server):
    def __init__(self, external, user, password):
        self.dir = tempfile.mkdtemp(prefix="pen-microsocks-")
        self.port = free_port()
        self.start([os.path.join(ROOT, "usr", "bin", "microsocks"), "-i", "127.0.0.1", "-p", str(self.port),
                    "-u", user, "-P", password, "-b", external])
