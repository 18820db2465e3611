"""What a unit for systemd forbids the mail system, put into force without systemd.

Use:     if unit_filter.missing(): skip
         Popen([*unit_filter.bounded(unit), "penstock", …, "start-fg"], preexec_fn=unit_filter.enforced(unit))
Needs:   systemd-analyze, which knows what is in @system-service; libseccomp.
"""
import ctypes
import errno
import os
import re
import shutil
import subprocess

from instance import TOP

CONF = os.path.join(TOP, "conf")


def missing():
    return None if shutil.which("systemd-analyze") else "no systemd-analyze here"


def lines(unit, name):
    with open(os.path.join(CONF, unit)) as text:
        return re.findall(rf"^{name}=(.*)$", text.read(), re.M)


def members(group):
    """The system calls of one of systemd's groups."""
    found = set()
    out = subprocess.run(["systemd-analyze", "syscall-filter", group], capture_output=True, text=True, check=True)
    for word in (line.strip() for line in out.stdout.split("\n")[1:]):
        if word.startswith("@"):
            found |= members(word)
        elif word and not word.startswith("#"):
            found.add(word)
    return found


def permitted(unit):
    """As systemd.exec(5) has it: the first line allows, later ones add, or take away after ~."""
    calls = set()
    for text in lines(unit, "SystemCallFilter"):
        names = set()
        for word in text.lstrip("~").split():
            names |= members(word) if word.startswith("@") else {word}
        calls = calls - names if text.startswith("~") else calls | names
    return calls


def under_filter(calls, otherwise):
    """For a child before exec: any other call ends the process, as systemd has it by default, or fails."""
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p

    def apply():
        kill_process, allow, fail = 0x80000000, 0x7fff0000, 0x00050000
        refused = fail | getattr(errno, otherwise[0]) if otherwise else kill_process
        context = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(refused)))
        for name in calls | {"execve"}:
            number = library.seccomp_syscall_resolve_name(name.encode())
            if number >= 0:
                assert library.seccomp_rule_add(context, ctypes.c_uint32(allow), number, 0) == 0, name
        assert library.seccomp_load(context) == 0

    return apply


def rights(unit):
    """CapabilityBoundingSet=, as setpriv has it."""
    return ",+".join(word.removeprefix("CAP_").lower() for text in lines(unit, "CapabilityBoundingSet")
                     for word in text.split())


def bounded(unit):
    """The beginning of a command that has these rights of root's and no more."""
    return ["setpriv", f"--bounding-set=-all,+{rights(unit)}"]


def enforced(unit):
    """For a child before exec: the unit's system calls, and MemoryDenyWriteExecute= where this kernel has it."""
    filtered = under_filter(permitted(unit), lines(unit, "SystemCallErrorNumber"))

    def apply():
        if lines(unit, "MemoryDenyWriteExecute") == ["yes"]:
            ctypes.CDLL(None).prctl(65, 1, 0, 0, 0)  # PR_SET_MDWE
        filtered()

    return apply
