"""Gives a test process and its children a network of its own, where any address of 192.0.2.0/24 is this host's.

Loopback addresses are exempt from much that tests are about; these are not, and still nothing leaves the machine.
Use:     def setUpModule(): own_network.enter()     # skips the module with a reason if the kernel forbids it
"""
import ctypes
import fcntl
import os
import socket
import struct
import unittest

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
SIOCSIFFLAGS, SIOCSIFADDR, SIOCSIFNETMASK = 0x8914, 0x8916, 0x891C
IFF_UP_RUNNING = 0x41
ADDRESS, MASK = "192.0.2.1", "255.255.255.0"


def _interface(request, name, rest):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        fcntl.ioctl(s, request, struct.pack("16s24s", name, rest))


def _address(text):
    return struct.pack("=HH4s8x", socket.AF_INET, 0, socket.inet_aton(text))


def enter():
    """Call it once, before any thread is started."""
    uid, gid = os.getuid(), os.getgid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET if uid == 0 else CLONE_NEWUSER | CLONE_NEWNET) != 0:
        raise unittest.SkipTest("no network namespace can be made: " + os.strerror(ctypes.get_errno()))
    if uid != 0:  # the same ids inside, or this process would be nobody
        for file, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{file}", "w") as out:
                out.write(text)
    _interface(SIOCSIFFLAGS, b"lo", struct.pack("=h", IFF_UP_RUNNING))
    # On the loopback interface a whole network is local, not one address alone.
    _interface(SIOCSIFADDR, b"lo:1", _address(ADDRESS))
    _interface(SIOCSIFNETMASK, b"lo:1", _address(MASK))
