"""A real haproxy in front of an SMTP server: Debian's package, unpacked privately.

Use:     with Haproxy({"plain": (mx.port, "send-proxy")}) as proxy: Client(proxy.port("plain"), source="127.0.0.9")
A front end for each name: the server's port, the words for haproxy's server line, and for its bind lines if there are
some.
"""
import os
import shutil
import subprocess
import tempfile

import peers
from waiting import eventually, free_port

ROOT = os.path.join(peers.ROOTS, "haproxy")


def unavailable():
    """Returns why there is no haproxy here, or None."""
    if not os.path.exists(os.path.join(ROOT, "usr", "sbin", "haproxy")):
        return "haproxy is not unpacked (scripts/unpack-peer var/peers/haproxy haproxy)"
    return None


class Haproxy:
    def __init__(self, fronts):
        self.dir = tempfile.mkdtemp(prefix="pen-haproxy-")
        self.ports = {name: free_port() for name in fronts}
        lines = ["defaults", "  mode tcp", "  timeout connect 5s", "  timeout client 60s", "  timeout server 60s"]
        for name, (port, words, *more) in fronts.items():
            bind = " ".join(more)
            lines += [f"listen {name}", f"  bind 127.0.0.1:{self.ports[name]} {bind}",
                      f"  bind [::1]:{self.ports[name]} {bind}",
                      f"  server mx 127.0.0.1:{port} {words}"]
        self.config = os.path.join(self.dir, "haproxy.cfg")
        with open(self.config, "w") as out:
            out.write("\n".join(lines) + "\n")
        library = os.path.join(ROOT, "usr", "lib")
        paths = [os.path.join(library, d) for d in os.listdir(library) if d.endswith("-linux-gnu")]
        self.log = open(os.path.join(self.dir, "log"), "w+")
        self.process = subprocess.Popen(
            [os.path.join(ROOT, "usr", "sbin", "haproxy"), "-db", "-f", self.config],
            env={**os.environ, "LD_LIBRARY_PATH": ":".join(paths)}, stdout=self.log, stderr=self.log)

    def port(self, name):
        return self.ports[name]

    def __enter__(self):
        try:
            pattern = [f":{port:04X} " for port in self.ports.values()]

            def listens():
                if self.process.poll() is not None:
                    self.log.seek(0)
                    raise AssertionError(f"haproxy has ended: {self.log.read()}")
                with open("/proc/net/tcp") as table:  # looking connects nowhere: the server has no clients but ours
                    found = [line for line in table if " 0A " in line]
                return all(any(p in line for line in found) for p in pattern)

            eventually(listens, "haproxy listens")
            return self
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *exc):
        self.process.kill()
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)
