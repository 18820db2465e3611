"""DNS lists for one test: Debian's rbldnsd behind Debian's unbound.

Use:   with DnsLists({"rbl.example": ("ip4set", ["192.0.2.2 :127.0.0.2:listed"])}, records=["a.example. MX 10 mx"],
                     silent=["dead.example"]) as dns:
           Instance(dns.settings())
lists:   zone -> type of the data set and its lines, as in rbldnsd(8)
records: of other names, whole, as unbound's local-data has them; the domains in `empty` have nothing else
silent:  zones whose server never answers
address: where unbound also listens on port 53 (root only), for programs that know no other port
"""
import os
import pwd
import shutil
import socket
import struct
import subprocess
import tempfile

import peers
from waiting import eventually, free_port

RBLDNSD = os.path.join(peers.ROOTS, "rbldnsd")
UNBOUND = os.path.join(peers.ROOTS, "unbound")


def unavailable():
    """Returns why there are no lists here, or None."""
    for root, program in ((RBLDNSD, "rbldnsd"), (UNBOUND, "unbound")):
        if not os.path.exists(os.path.join(root, "usr", "sbin", program)):
            return f"{program} is not unpacked (./check does it)"
    return None


class DnsLists:
    def __init__(self, lists, records=(), empty=(), silent=()):
        self.dir = tempfile.mkdtemp(prefix="pen-lists-")
        os.chmod(self.dir, 0o755)
        self.running, self.logs = [], []
        self.port, self.list_port = free_port(socket.SOCK_DGRAM), free_port(socket.SOCK_DGRAM)
        self.address = f"127.{64 + (os.getpid() >> 8) % 64}.{os.getpid() % 256}.53"
        self.silence = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)  # takes questions and says nothing
        self.silence.bind(("127.0.0.1", 0))
        self._start_lists(lists)
        self._start_resolver(lists, records, empty, silent)

    def _start_lists(self, lists):
        zones = []
        for zone, (kind, lines) in lists.items():
            with open(os.path.join(self.dir, zone), "w") as out:
                out.write(f"$SOA 60 ns.{zone} hostmaster.{zone} 1 600 300 86400 60\n$NS 60 ns.{zone}\n")
                out.write("".join(line + "\n" for line in lines))
            zones.append(f"{zone}:{kind}:{zone}")
        user = []
        if os.geteuid() == 0:
            user = ["-u", f"{pwd.getpwnam('nobody').pw_uid}:{pwd.getpwnam('nobody').pw_gid}"]
        self._run(RBLDNSD, "rbldnsd", "-n", "-4", "-b", f"127.0.0.1/{self.list_port}", "-w", self.dir, *user, *zones)

    def _start_resolver(self, lists, records, empty, silent):
        more = "".join(f'    local-zone: "{domain}." static\n' for domain in empty)
        more += "".join(f"    local-data: '{record}'\n" for record in records)
        if os.geteuid() == 0:
            more += f"    interface: {self.address}@53\n"
        for zones, port in ((lists, self.list_port), (silent, self.silence.getsockname()[1])):
            more += "".join(f'stub-zone:\n    name: "{zone}."\n    stub-addr: 127.0.0.1@{port}\n' for zone in zones)
        with open(os.path.join(self.dir, "unbound.conf"), "w") as out:
            out.write(f"""server:
    interface: 127.0.0.1@{self.port}
    access-control: 127.0.0.0/8 allow
    directory: "{self.dir}"
    chroot: ""
    username: ""
    pidfile: ""
    do-daemonize: no
    use-syslog: no
    logfile: ""
    module-config: "iterator"
    do-not-query-localhost: no
    local-zone: "example." transparent
    num-threads: 1
{more}
remote-control:
    control-enable: no
""")
        self._run(UNBOUND, "unbound", "-c", os.path.join(self.dir, "unbound.conf"), "-d")
        first = next(iter(lists))
        eventually(lambda: self._answers(first), lambda: "unbound answers: " + self.log())

    def _run(self, root, program, *arguments):
        library = os.path.join(root, "usr", "lib")
        paths = [os.path.join(library, d) for d in os.listdir(library)] if os.path.isdir(library) else []
        paths = [path for path in paths if path.endswith("-linux-gnu")]
        self.logs.append(os.path.join(self.dir, f"{program}.log"))
        with open(self.logs[-1], "ab") as log:
            self.running.append(subprocess.Popen([os.path.join(root, "usr", "sbin", program), *arguments],
                                                 cwd=self.dir, stdout=log, stderr=log,
                                                 env={**os.environ, "LD_LIBRARY_PATH": ":".join(paths)}))

    def _answers(self, zone):
        """Whether the first list is reached through the resolver: its SOA is there."""
        name = b"".join(bytes([len(label)]) + label.encode() for label in zone.split(".")) + b"\0"
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(0.3)
            s.connect(("127.0.0.1", self.port))
            try:
                s.send(struct.pack(">HHHHHH", 1, 0x0100, 1, 0, 0, 0) + name + struct.pack(">HH", 6, 1))
                reply = s.recv(4096)
            except OSError:
                reply = b""
        for process in self.running:
            if process.poll() is not None:
                raise AssertionError(f"{process.args[0]} ended: " + self.log())
        return len(reply) > 12 and reply[3] & 15 == 0 and reply[7] > 0

    def log(self):
        texts = []
        for path in self.logs:
            with open(path, errors="replace") as text:
                texts.append(text.read()[-2000:])
        return "\n".join(texts)

    def settings(self, **more):
        return {"dns_resolver_addresses": "127.0.0.1", "dns_resolver_port": str(self.port), **more}

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for process in self.running:
            process.terminate()
        for process in self.running:
            process.wait(timeout=30)
        self.silence.close()
        shutil.rmtree(self.dir, ignore_errors=True)
