"""Independent implementations of SRS: one of ours in Python, Debian's postsrsd and Mail::SRS, unpacked privately.

Use:     srs(sender, domain, secret, days_ago=0)            # an SRS0 address, by the rules of docs/srs.md
         srs_peers.unpack()                                 # raises unittest.SkipTest where that is not possible
         with srs_peers.Postsrsd(domain, secret_file) as p: p.forward(address); p.reverse(address)   # None: none
         srs_peers.mail_srs("forward", secret, [(address, domain), …])                               # also "reverse"
"""
import base64
import hashlib
import hmac
import json
import os
import socket
import subprocess
import time
import unittest

import peers
from waiting import free_port

ROOT = os.path.join(peers.ROOTS, "srs")
DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"

PERL = r"""
use Mail::SRS; use JSON::PP;
my ($what, $secret) = @ARGV;
my $srs = Mail::SRS->new(Secret => [split /\n/, $secret], MaxAge => 49);
my @out;
for my $pair (@{decode_json(join "", <STDIN>)}) {
  my $made = eval { $what eq "forward" ? $srs->forward(@$pair) : $srs->reverse($pair->[0]) };
  push @out, $made;
}
print encode_json(\@out);
"""


def srs(sender, domain, secret, days_ago=0):
    local, host = sender.rsplit("@", 1)
    day = int(time.time() // 86400 - days_ago) % 1024
    stamp = DIGITS[day >> 5] + DIGITS[day & 31]
    digest = hmac.new(secret.encode(), (stamp + host + local).lower().encode(), hashlib.sha1).digest()
    return f"SRS0={base64.b64encode(digest)[:4].decode()}={stamp}={host}={local}@{domain}"


def unpack():
    if os.geteuid() != 0:
        raise unittest.SkipTest("unpacking packages needs root")
    done = subprocess.run([os.path.join(peers.TOP, "scripts/unpack-peer"), ROOT, "postsrsd", "libmail-srs-perl"],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise unittest.SkipTest("cannot unpack postsrsd: " + done.stderr.strip()[-200:])


class Postsrsd:
    def __init__(self, domain, secret_file):
        self.ports = {"forward": free_port(), "reverse": free_port()}
        self.process = subprocess.Popen(
            [os.path.join(ROOT, "usr/sbin/postsrsd"), "-4", "-l", "127.0.0.1", "-f", str(self.ports["forward"]),
             "-r", str(self.ports["reverse"]), "-d", domain, "-s", secret_file, "-a", "="])

    def __enter__(self):
        for port in self.ports.values():
            peers.wait_port(port)
        return self

    def __exit__(self, *exc):
        self.process.kill()
        self.process.wait()

    def ask(self, what, address):
        with socket.create_connection(("127.0.0.1", self.ports[what]), timeout=10) as connection:
            connection.sendall(f"get {address}\n".encode())
            with connection.makefile() as answer:
                code, _, text = answer.readline().strip().partition(" ")
        return text if code == "200" else None

    def forward(self, address):
        return self.ask("forward", address)

    def reverse(self, address):
        return self.ask("reverse", address)


def mail_srs(what, secret, pairs):
    done = subprocess.run(["perl", "-I", os.path.join(ROOT, "usr/share/perl5"), "-e", PERL, what, secret],
                          input=json.dumps(pairs), capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)
