"""A policy server under test control, and Debian's real ones as peers.

Use:     with PolicyServer({"no@x.example": "REJECT no"}) as server: … f"inet:127.0.0.1:{server.port}" …
         server.asked                          # the attributes of each request, in order
         with Postgrey(port) as greylist: …    # also Postfwd(port, rules); needs what peers.unavailable() needs
Actions: by recipient; others get DUNNO. "hang" is never answered, "close" ends the connection. As a program of its own
         (python3 policy_server.py PORT [ACTION]) it can be killed.
"""
import os
import socketserver
import subprocess
import sys
import threading

import peers
from waiting import eventually, free_port


class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        while True:
            asked = []
            while (line := self.rfile.readline()) not in (b"\n", b""):
                asked.append(tuple(line.decode().rstrip("\n").split("=", 1)))
            if line == b"":
                return
            action = self.server.policy.answer(dict(asked), asked)
            if action == "close":
                return
            if action == "hang":
                self.rfile.read()
                return
            try:
                self.wfile.write(f"action={action}\n\n".encode())
            except OSError:
                return


class Listening(socketserver.ThreadingTCPServer):
    allow_reuse_address, daemon_threads, request_queue_size = True, True, 256


class PolicyServer:
    def __init__(self, actions=None, otherwise="DUNNO", port=None):
        self.actions, self.otherwise = actions or {}, otherwise
        self.asked, self.lines = [], []
        self.server = Listening(("127.0.0.1", port or free_port()), Handler)
        self.server.policy = self
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    def answer(self, attributes, lines):
        self.asked.append(attributes)
        self.lines.append(lines)
        return self.actions.get(attributes["recipient"], self.otherwise)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *exc):
        self.server.shutdown()
        self.server.server_close()

    def wait_asked(self, count):
        return eventually(lambda: len(self.asked) >= count and self.asked,
                          lambda: f"{len(self.asked)} of {count} requests")


class Killable:
    """The same as a process."""

    def __init__(self, port, action="DUNNO"):
        self.process = subprocess.Popen([sys.executable, __file__, str(port), action], stdout=subprocess.PIPE)
        if self.process.stdout.readline() != b"ready\n":
            raise RuntimeError("the policy server did not start")

    def wait_asked(self):
        if self.process.stdout.readline() != b"asked\n":
            raise RuntimeError("nobody asked")

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class Server(peers.Peer):
    """A server of the package set `policy`, in a namespace of its own."""

    package = "policy"

    def launch(self, *command):
        started = self.run(*command)
        if started.returncode != 0:
            raise RuntimeError(started.stdout)
        peers.wait_port(self.port)


class Postgrey(Server):
    def start(self):
        folder = os.path.join(self.dir, "lib/postgrey")
        os.makedirs(folder)
        os.chown(folder, 8, 8)
        for name in ("whitelist_clients", "whitelist_recipients"):
            self.write(f"etc/postgrey/{name}", "")
        self.launch("/usr/sbin/postgrey", "--daemonize", f"--inet=127.0.0.1:{self.port}", "--delay=1", "--user=mail",
                    "--group=mail", "--pidfile=/var/lib/postgrey/pid", "--greylist-text=Greylisted, come again")


class Postfwd(Server):
    def __init__(self, port, rules):
        super().__init__(port)
        self.rules = rules

    def start(self):
        path = self.write("etc/postfwd.cf", self.rules)
        os.chmod(path, 0o644)
        self.launch("/usr/sbin/postfwd1", "--daemon", "--file", "/etc/postfwd.cf", "--interface", "127.0.0.1", "--port",
                    str(self.port), "--user", "mail", "--group", "mail", "--pidfile", "/tmp/postfwd.pid", "--nodns")


if __name__ == "__main__":
    class Told(PolicyServer):
        def answer(self, attributes, lines):
            print("asked", flush=True)
            return super().answer(attributes, lines)

    with Told(otherwise=sys.argv[2], port=int(sys.argv[1])) as told:
        print("ready", flush=True)
        told.thread.join()
