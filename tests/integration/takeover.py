"""Takes a running program over: makes it do system calls of the test's choice, as a stranger's code in it would.

Use:     with Taken(pid) as program:
             text = program.text("/etc/shadow")                # an address in its memory
             program.call("openat", AT_FDCWD, text, os.O_RDONLY)    # what the kernel answers: -errno is an error
             program.call("execve", text, 0, 0)                # Refused: a filter of system calls stopped it
             program.give_in("execve", text, 0, 0)             # the same, and the program hears of it; its exit status
Needs:   the right to trace, and x86_64: missing() says which is not there.
Ends:    the program goes on where it was, as if nothing had been.
"""
import ctypes
import os
import platform
import signal
import struct

PEEK, POKE, CONT, GETREGS, SETREGS, ATTACH, DETACH, GETSIGINFO = 1, 4, 7, 12, 13, 16, 17, 0x4202
WALL = 0x40000000
AT_FDCWD = -100
CALLS = {"read": 0, "close": 3, "mmap": 9, "munmap": 11, "socket": 41, "connect": 42, "fork": 57, "execve": 59, "kill":
         62, "ptrace": 101, "unlinkat": 263, "openat": 257, "process_vm_readv": 310, "listen": 50, "rt_sigaction": 13,
         "sendto": 44, "socketpair": 53, "fcntl": 72, "ftruncate": 77, "fchmod": 91, "fallocate": 285, "mprotect": 10,
         "pread64": 17, "pwrite64": 18, "dup": 32, "link": 86, "splice": 275, "pipe2": 293}
NAMES = ("r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss fs_base gs_base ds "
         "es fs gs").split()
PLACE = 65536
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long


class Refused(Exception):
    """A filter of system calls has stopped the call."""


def trace(request, pid, address=0, data=0):
    ctypes.set_errno(0)
    value = libc.ptrace(request, pid, address, data)
    if ctypes.get_errno():
        raise OSError(ctypes.get_errno(), f"ptrace {request}")
    return value


def missing():
    if platform.machine() != "x86_64":
        return "system calls of another processor are not known here"
    ready, other = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setgroups([])
        os.setresuid(65534, 65534, 65534)  # not dumpable from here on
        os.write(other, b"x")
        signal.pause()
        os._exit(0)
    try:
        os.read(ready, 1)
        trace(ATTACH, pid)
        os.waitpid(pid, WALL)
        trace(DETACH, pid)
        return None
    except OSError as why:
        return f"here nobody may take a process over: {why}"
    finally:
        os.close(ready)
        os.close(other)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


class Taken:
    def __init__(self, pid):
        self.pid = pid
        self.used = 0
        self.held = []

    def __enter__(self):
        trace(ATTACH, self.pid)
        try:
            _, status = os.waitpid(self.pid, WALL)
            assert os.WIFSTOPPED(status), status
            self.saved = self._registers()
            with open(f"/proc/{self.pid}/maps") as maps:
                code = next(line for line in maps if " r-xp " in line and "/libexec/" in line)
            # The end of the program's own code, where nothing is that runs.
            self.code = int(code.split()[0].split("-")[1], 16) - 16
            self.word = trace(PEEK, self.pid, self.code)
            trace(POKE, self.pid, self.code, struct.unpack("<q", b"\x0f\x05\xcc\xcc\xcc\xcc\xcc\xcc")[0])
            self.place = self.call("mmap", 0, PLACE, 3, 0x22, -1, 0)
            assert self.place > 0, self.place
        except BaseException:
            trace(DETACH, self.pid)
            raise
        return self

    def __exit__(self, kind, value, trace_back):
        if self.pid is None:
            return
        self.call("munmap", self.place, PLACE)
        trace(POKE, self.pid, self.code, self.word)
        self._set(self.saved)
        trace(DETACH, self.pid)
        for number in self.held:  # what came in between
            os.kill(self.pid, number)

    def text(self, words):
        return self.bytes(words.encode() + b"\0")

    def bytes(self, data):
        """Copies into its memory."""
        at = self.place + self.used
        data += b"\0" * (-len(data) % 8)
        self.used += len(data)
        assert self.used <= PLACE
        for i in range(0, len(data), 8):
            trace(POKE, self.pid, at + i, struct.unpack("<q", data[i:i + 8])[0])
        return at

    def room(self, size):
        """Memory of its own."""
        return self.bytes(b"\0" * size)

    def memory(self, at, size):
        with open(f"/proc/{self.pid}/mem", "rb") as memory:
            memory.seek(at)
            return memory.read(size)

    def call(self, name, *arguments):
        self._begin(name, arguments)
        while True:
            status = self._go_on(0)
            if not os.WIFSTOPPED(status):
                self.pid = None
                raise AssertionError(f"{name} has ended the program: {status}")
            stopped = os.WSTOPSIG(status)
            if stopped == signal.SIGTRAP:
                return self._answer()
            if stopped == signal.SIGSYS and self._refused():
                self._go_on(0)
                raise Refused(name)
            self.held.append(stopped)

    def give_in(self, name, *arguments):
        """For a call that is refused: the program gets the signal and does what it does then. Its end, or Refused."""
        self._begin(name, arguments)
        deliver = 0
        while True:
            status = self._go_on(deliver)
            if not os.WIFSTOPPED(status):
                self.pid = None
                return os.waitstatus_to_exitcode(status)
            if os.WSTOPSIG(status) == signal.SIGTRAP:
                raise Refused(name)
            deliver = os.WSTOPSIG(status)

    def _begin(self, name, arguments):
        registers = dict(self.saved)
        registers.update(zip(("rdi", "rsi", "rdx", "r10", "r8", "r9"), [a & (1 << 64) - 1 for a in arguments]))
        registers.update(rax=CALLS[name], orig_rax=(1 << 64) - 1, rip=self.code,
                         rsp=(self.saved["rsp"] - 4096) & ~15)
        self._set(registers)

    def _go_on(self, deliver):
        trace(CONT, self.pid, 0, deliver)
        return os.waitpid(self.pid, WALL)[1]

    def _answer(self):
        value = self._registers()["rax"]
        return value - (1 << 64) if value >> 63 else value

    def _refused(self):
        info = ctypes.create_string_buffer(128)
        trace(GETSIGINFO, self.pid, 0, ctypes.addressof(info))
        return struct.unpack_from("<iii", info.raw)[2] == 1  # SYS_SECCOMP

    def _registers(self):
        registers = (ctypes.c_ulonglong * len(NAMES))()
        trace(GETREGS, self.pid, 0, ctypes.addressof(registers))
        return dict(zip(NAMES, registers))

    def _set(self, values):
        registers = (ctypes.c_ulonglong * len(NAMES))(*(values[name] for name in NAMES))
        trace(SETREGS, self.pid, 0, ctypes.addressof(registers))
