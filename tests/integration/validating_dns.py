"""A validating resolver with zones for one test: Debian's unbound, with zones that ldns-signzone signs with new keys.

Use:     zones = {"good.example": ["@ MX 10 mx", "mx A 127.0.0.1"]}
         with ValidatingDns(zones, unsigned={…}, expired={…}, bogus={…}) as dns:
             Instance(dns.settings())                # the resolver on a port of its own, and DNSSEC believed
Zones:   lines of a zone file, relative to the zone; every signed zone has a trust anchor of its own. unsigned: no trust
         anchor, so insecure. expired: signatures of last month. bogus: a record was changed after it was signed, the
         TLSA records or those of the type that bogus_type names.
"""
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile

import peers
from waiting import eventually, free_port

ROOT = os.path.join(peers.ROOTS, "unbound")
# Changes in a signed zone: type -> pattern in the file, and its replacement.
TAMPERED = {"TLSA": (r"(\sIN\s+TLSA\s+[0-9]+ [0-9]+ [0-9]+ )(..)", lambda m: m[1] + f"{int(m[2], 16) ^ 255:02x}"),
            "MX": (r"(\sIN\s+MX\s+)([0-9]+) ", lambda m: f"{m[1]}{int(m[2]) + 1} "),
            # As somebody would who sends in the domain's name.
            "TXT": (r"(-all|p=reject)", lambda m: {"-all": "+all", "p=reject": "p=none"}[m[1]]),
            "A": (r"(\sIN\s+A\s+127\.0\.0\.)([0-9]+)", lambda m: f"{m[1]}{int(m[2]) + 100}")}


def unavailable():
    """Returns why there is no resolver here, or None."""
    if not os.path.exists(os.path.join(ROOT, "usr", "sbin", "unbound")):
        return "unbound is not unpacked (scripts/unpack-peer var/peers/unbound unbound ldnsutils)"
    return None


class ValidatingDns:
    def __init__(self, signed, unsigned=None, expired=None, bogus=None, bogus_type=None):
        self.dir = tempfile.mkdtemp(prefix="pen-unbound-")
        library = os.path.join(ROOT, "usr", "lib")
        paths = [os.path.join(library, d) for d in os.listdir(library) if d.endswith("-linux-gnu")]
        self.environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(paths)}
        self.process = None
        config, self.first = [], next(iter(signed))
        for zone, lines in signed.items():
            config += self._signed(zone, lines)
        for zone, lines in (expired or {}).items():
            config += self._signed(zone, lines, "-i", "20200101", "-e", "20200201")
        for zone, lines in (bogus or {}).items():
            config += self._signed(zone, lines, tampered=(bogus_type or {}).get(zone, "TLSA"))
        for zone, lines in (unsigned or {}).items():
            self._write(zone, lines)
            config += self._serve(zone, f"{zone}.zone")
        self._start(config)

    def _write(self, zone, lines):
        with open(os.path.join(self.dir, f"{zone}.zone"), "w") as out:
            out.write(f"$ORIGIN {zone}.\n$TTL 300\n@ SOA ns hostmaster 1 3600 600 86400 60\n@ NS ns\nns A 127.0.0.1\n")
            out.write("".join(line + "\n" for line in lines))

    def _run(self, program, *arguments):
        done = subprocess.run(
            [os.path.join(ROOT, "usr", "bin", program), *arguments],
            cwd=self.dir,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        if done.returncode != 0:
            raise AssertionError(f"{program}: {done.stderr}")
        return done.stdout.strip()

    def _signed(self, zone, lines, *times, tampered=None):
        self._write(zone, lines)
        key = self._run("ldns-keygen", "-a", "ECDSAP256SHA256", "-k", "-r", "/dev/urandom", zone)
        self._run("ldns-signzone", *times, f"{zone}.zone", key)
        if tampered:
            path = os.path.join(self.dir, f"{zone}.zone.signed")
            with open(path) as file:
                text = file.read()
            text, changed = re.subn(*TAMPERED[tampered], text)
            if changed == 0:
                raise AssertionError(f"{zone} has no {tampered} record to change")
            with open(path, "w") as out:
                out.write(text)
        return [f'server: trust-anchor-file: "{key}.key"', *self._serve(zone, f"{zone}.zone.signed")]

    @staticmethod
    def _serve(zone, file):
        return [
            f'auth-zone: name: "{zone}."',
            f'    zonefile: "{file}"',
            "    for-upstream: yes",
            "    for-downstream: no",
            "    fallback-enabled: no",
        ]

    def _start(self, zones):
        self.port = free_port(socket.SOCK_DGRAM)
        with open(os.path.join(self.dir, "unbound.conf"), "w") as out:
            out.write(f"""server:
    interface: 127.0.0.1@{self.port}
    directory: "{self.dir}"
    chroot: ""
    username: ""
    pidfile: ""
    do-daemonize: no
    use-syslog: no
    logfile: ""
    module-config: "validator iterator"
    do-tcp: no
    do-not-query-localhost: no
    aggressive-nsec: no
""" + "\n".join(zones) + "\nremote-control:\n    control-enable: no\n")
        self.log = open(os.path.join(self.dir, "log"), "ab")
        self.process = subprocess.Popen(
            [os.path.join(ROOT, "usr", "sbin", "unbound"), "-c", "unbound.conf", "-d"],
            cwd=self.dir,
            env=self.environment,
            stdout=self.log,
            stderr=self.log,
        )
        eventually(self._answers, lambda: "unbound answers: " + open(self.log.name).read()[-2000:])

    def _answers(self):
        """Whether a look-up in the first zone is answered as secure."""
        name = b"".join(bytes([len(label)]) + label.encode() for label in ("ns." + self.first).split(".")) + b"\0"
        query = struct.pack(">HHHHHH", 1, 0x0120, 1, 0, 0, 0) + name + struct.pack(">HH", 1, 1)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(0.2)
            s.connect(("127.0.0.1", self.port))
            try:
                s.send(query)
                reply = s.recv(4096)
            except OSError:
                if self.process.poll() is not None:
                    raise AssertionError("unbound ended: " + open(self.log.name).read()[-2000:])
                return False
        return len(reply) > 12 and reply[3] & 0x2F == 0x20  # AD, and no error

    def settings(self, **more):
        return {"dns_resolver_addresses": "127.0.0.1", "dns_resolver_port": str(self.port),
                "smtp_dns_support_level": "dnssec", **more}

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=30)
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)
