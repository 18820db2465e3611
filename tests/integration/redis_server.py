"""Runs a real redis-server for one test, on a free port or a socket, without files; and sends it commands.

Use:     with RedisServer() as redis:
             Instance({**redis.settings(), …})
             redis.words("KEYS", "*"); redis.pause(); redis.resume(); redis.kill(); redis.start()
"""
import os
import re
import shlex
import shutil
import socket
import subprocess
import tempfile

from suspended import resume, suspend
from waiting import eventually, free_port

PROGRAM = shutil.which("redis-server")
PAGE = os.path.join(os.path.dirname(__file__), "../../docs/destdb-cluster.md")


class RedisServer:
    def __init__(self, password=None, unix=False, certificate=None, authority=None, acl=False):
        """acl: instances are a user with the access list of the page; denied() is what it did not permit. With a
        certificate (certificates.py) it serves TLS on another port too, and asks clients for certificates of the
        authority's, if there is one."""
        self.dir = tempfile.mkdtemp(prefix="pen-redis-")
        os.chmod(self.dir, 0o755)
        self.port = 0 if unix else free_port()
        self.path = os.path.join(self.dir, "socket") if unix else None
        self.password = password
        self.certificate, self.authority = certificate, authority
        self.tls_port = free_port() if certificate else 0
        self.process = None
        self.access = _access_list() if acl else None
        self.start()

    def settings(self, **more):
        """Returns the settings of an instance that shares through it; destinations on loopback count, too."""
        server = f"unix:{self.path}" if self.path else f"inet:127.0.0.1:{self.port}"
        login = {"destdb_redis_user": "penstock", "destdb_redis_password": "secret"} if self.access else {}
        return {"destdb_backend": "redis", "destdb_redis_server": server, "destdb_unshared_networks": "", **login,
                **more}

    def start(self):
        options = [
            "--port",
            str(self.port),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
            "--dir",
            self.dir,
        ]
        if self.path:
            options += ["--unixsocket", self.path, "--unixsocketperm", "777"]
        if self.password:
            options += ["--requirepass", self.password]
        if self.certificate:
            options += ["--tls-port", str(self.tls_port), "--tls-cert-file", self.certificate.pem, "--tls-key-file",
                        self.certificate.key]
            options += (["--tls-ca-cert-file", self.authority.pem] if self.authority else ["--tls-auth-clients", "no",
                        "--tls-ca-cert-file", self.certificate.pem])
        with open(os.path.join(self.dir, "log"), "ab") as log:
            self.process = subprocess.Popen([PROGRAM, *options], stdout=log, stderr=log)
        eventually(self._answers, "redis-server answers")
        if self.access:
            self.words(*self.access)

    def denied(self):
        """Commands that the access list did not permit."""
        return self.words("ACL", "LOG")

    def _answers(self):
        try:
            return self.words("PING") == "PONG"
        except OSError:
            return False

    def pause(self):
        suspend(self.process.pid)

    def resume(self):
        resume(self.process.pid)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        self.kill()
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def words(self, *words):
        """Sends one command on a connection of its own; returns text (latin-1), a number, None, or a list of these."""
        kind, where = (socket.AF_UNIX, self.path) if self.path else (socket.AF_INET, ("127.0.0.1", self.port))
        with socket.socket(kind, socket.SOCK_STREAM) as s:
            s.settimeout(10)
            s.connect(where)
            with s.makefile("rb") as answers:
                if self.password:
                    s.sendall(_encoded(["AUTH", self.password]))
                    _decoded(answers)
                s.sendall(_encoded(words))
                return _decoded(answers)

    def leases(self):
        """Returns the key of each destination with leases: {host: connections}."""
        found = {}
        for key in self.words("KEYS", "penstock:l:*"):
            flat = self.words("HGETALL", key)
            found[key] = {host: int(said.split()[0]) for host, said in zip(flat[::2], flat[1::2])}
        return found

    def said(self, host):
        """Returns the last report of the host whose name begins so, raw: it changes with each report."""
        for key in self.words("KEYS", "penstock:l:*"):
            flat = self.words("HGETALL", key)
            for name, word in zip(flat[::2], flat[1::2]):
                if name.startswith(host):
                    return word
        return None

    def held(self):
        """Returns the connections of all hosts to all destinations, by their reports."""
        return sum(sum(hosts.values()) for hosts in self.leases().values())


def _access_list():
    with open(PAGE) as page:
        command = re.search(r"redis-cli (ACL SETUSER penstock (?:.*\\\n)*.*)\n", page.read())[1]
    return shlex.split(command.replace("\\\n", ""))


def _encoded(words):
    parts = [str(w).encode("latin-1") for w in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts)


def _decoded(answers):
    line = answers.readline()
    if not line:
        raise ConnectionError("redis closed the connection")
    kind, rest = line[:1], line[1:].rstrip(b"\r\n").decode("latin-1")
    if kind == b"-":
        raise OSError(rest)
    if kind == b":":
        return int(rest)
    if kind == b"$":
        return None if rest == "-1" else answers.read(int(rest) + 2)[:-2].decode("latin-1")
    if kind == b"*":
        return [_decoded(answers) for _ in range(int(rest))]
    return rest
