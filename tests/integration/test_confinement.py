"""What programs may do: what the kernel says of each running program is compared with the table of docs/security.md."""
import ctypes
import errno
import os
import pwd
import re
import socket
import struct
import subprocess
import unittest

from harness import *
from instance import mail_owner

# The table once more. Nobody of these keeps any of root's rights.
CONFINED = {"smtpd", "smtp", "lmtp", "trivial-rewrite", "qmgr", "bounce", "pickup", "verify", "anvil", "tlsrpt",
            "dmarcrpt", "penevents", "error", "retry", "discard", "keys", "local", "virtual", "pipe", "spawn", "penapi",
            "qmqpd", "cyrus"}
# What the helper keeps, which is root (test_root_helper.py).
HELPS = {"setuid": 7, "setgid": 6, "setpcap": 8, "sys_chroot": 18, "dac_read_search": 2}
ALL_WORDS = ["privileges", "limits", "files", "calls"]


def status_of(pid):
    with open(f"/proc/{pid}/status") as text:
        return dict(line.rstrip("\n").split(":\t", 1) for line in text if ":\t" in line)


def helpers_of(mx):
    """The processes that stay root beside master, without those that they have made."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline") as text:
                words = text.read().split("\0")
            if words[:3] == ["become", "--helper", mx.etc] and status_of(name).get("State", "Z")[0] != "Z":
                found[int(name)] = int(status_of(name)["PPid"])
        except OSError:
            pass  # it has ended
    return [pid for pid, parent in found.items() if parent not in found]


def core_limit(pid):
    with open(f"/proc/{pid}/limits") as text:
        return next(line.split()[4:6] for line in text if line.startswith("Max core file size"))


def most_tasks(pid):
    with open(f"/proc/{pid}/limits") as text:
        return next(line.split()[2:4] for line in text if line.startswith("Max processes"))


def has_landlock(mx):
    return mx.status()["landlock"] > 0


def uses_every_program(mx):
    """Makes every kind of program run."""
    with Client(mx.port) as client:
        client.expect("MAIL FROM:<ada@sender.example>", "250")
    # Nothing else wakes these here.
    for service in ("private/spawned", "private/tlsrpt", "private/dmarcrpt", "private/verify", "private/retry",
                    "private/events", "private/keys", "private/cyrus", "public/penapi"):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(mx.path("spool", service))
    for who in ("who@there.example", "who@lmtp.example", "who@refused.example", "who@discarded.example",
                "box@virtual.test.example", "nobody-is-here@local.test.example", "who@piped.example"):
        done = subprocess.run([os.path.join(BIN, "sendmail"), "-C", mx.etc, "-f", "ada@local.test.example", who],
                              input=b"Subject: x\n\nx\n", capture_output=True, timeout=60)
        if done.returncode:
            raise AssertionError(done)


@unittest.skipIf(sanitizers.settings(), "a sanitizer's build is confined in part only")
class Confinement(Suite):
    SERVICES = {"piped": "unix - n n - 5 pipe\n  user=games argv=/bin/true",
                "spawned": "unix - n n - 5 spawn\n  user=games argv=/bin/cat",
                "lmtpd": "unix - - n - - lmtp", "penapi": "unix n - n - - penapi",
                f"127.0.0.1:{free_port()}": "inet n - n - - qmqpd"}
    SETTINGS = {"transport_maps": "inline:{ { there.example = smtp:[127.0.0.1]:1 } "
                                  "{ lmtp.example = lmtpd:inet:127.0.0.1:1 } { refused.example = error:no } "
                                  "{ discarded.example = discard: } { piped.example = piped: } }",
                "smtp_tlsrpt_enable": "yes"}

    def running(self, mx):
        """(program, pid) of every service that runs, after all were used."""
        uses_every_program(mx)
        wanted = {"smtp", "lmtp", "error", "discard", "local", "pipe", "bounce", "anvil", "pickup", "tlsrpt",
                  "dmarcrpt", "spawn", "virtual", "verify", "retry", "penevents", "keys", "penapi", "smtpd", "qmgr",
                  "trivial-rewrite", "qmqpd", "cyrus"}
        eventually(lambda: wanted <= {s["program"] for s in mx.status()["services"] if s["state"] == "serving"},
                   lambda: mx.status())
        eventually(lambda: all(s.get("confined") for s in mx.status()["services"] if s["state"] == "serving"),
                   lambda: mx.status())
        return [(s["program"], s["pid"], s["confined"]) for s in mx.status()["services"] if s["state"] == "serving"]

    def test_every_program_has_in_the_kernel_what_the_table_says(self):
        with Instance(self.SETTINGS, services=self.SERVICES) as mx:
            for program, pid, said in self.running(mx):
                with self.subTest(program):
                    kernel = status_of(pid)
                    self.assertIn(program, CONFINED)
                    self.assertEqual(kernel["NoNewPrivs"], "1")
                    self.assertEqual(kernel["Seccomp"], "2")
                    self.assertEqual(core_limit(pid), ["0", "0"])
                    self.assertLessEqual(int(most_tasks(pid)[1]), 16384)
                    words = [w for w in ALL_WORDS if w != "files" or has_landlock(mx)]
                    self.assertEqual(said.split(), words)
                    if os.geteuid() == 0:
                        self.assertNotIn("0", kernel["Uid"].split())
                        for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb"):
                            self.assertEqual(int(kernel[name], 16), 0, name)
                    self.check_children(program, pid)
            (helper,) = helpers_of(mx)
            self.check_helper(status_of(helper))
            self.assertNotIn("must not make", mx.log())
            self.assertNotIn("confinement is not whole", mx.log())

    def check_children(self, program, pid):
        """Nobody has one, but qmgr with an account of its own one that looks into maildrop for it, confined as well."""
        path = f"/proc/{pid}/task/{pid}/children"
        if not os.path.exists(path):
            return
        with open(path) as text:
            children = [int(child) for child in text.read().split()]
        if program != "qmgr" or status_of(pid)["Uid"].split()[0] == str(pwd.getpwnam(mail_owner()).pw_uid):
            return self.assertEqual(children, [])
        (keeper,) = [status_of(child) for child in children]
        self.assertEqual(keeper["Name"], "maildrop")
        self.assertEqual(set(keeper["Uid"].split()), {str(pwd.getpwnam(mail_owner()).pw_uid)})
        self.assertEqual((keeper["NoNewPrivs"], keeper["Seccomp"]), ("1", "2"))
        for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb"):
            self.assertEqual(int(keeper[name], 16), 0, name)

    def check_helper(self, helper):
        ours = status_of(os.getpid())
        self.assertEqual((helper["Name"], helper["Seccomp"]), ("become", ours["Seccomp"]))
        if os.geteuid() != 0:
            return
        whole = int(ours["CapBnd"], 16)
        for name in ("CapPrm", "CapEff"):
            self.assertEqual(int(helper[name], 16), whole & sum(1 << number for number in HELPS.values()), name)
        # Set-id programs work as commands.
        self.assertEqual(helper["NoNewPrivs"], ours["NoNewPrivs"])
        self.assertEqual(int(helper["CapBnd"], 16), whole)

    def test_status_says_what_is_in_force(self):
        with Instance() as mx:
            text = mx.tool("penstock", "status", check=True).stdout
            words = " ".join(w for w in ALL_WORDS if w != "files" or has_landlock(mx))
            self.assertRegex(text, rf"confined \({words}\): .*qmgr/unix")

    def test_the_check_names_who_would_be_root(self):
        with Instance(services={"rooted": "unix - n n - - smtp", **self.SERVICES}, start=False) as mx:
            said = mx.tool("penstock", "check").stdout
            self.assertEqual(re.findall(r"service (\S+): column unpriv is n", said), ["rooted/unix"])

    def test_without_landlock_as_in_a_container_the_rest_holds_and_it_is_told(self):
        with Instance({"virtual_mailbox_maps": "inline:{ { box@virtual.test.example = box } }"}, start=False) as mx:
            def penstock(word):
                done = subprocess.run([os.path.join(BIN, "penstock"), "-c", mx.etc, word], capture_output=True,
                                      text=True, timeout=60, preexec_fn=without_landlock)
                self.assertNotEqual(done.returncode, 70, done)
                return done.stdout + done.stderr
            penstock("start")
            send(mx.port, "ada@sender.example", ["box@virtual.test.example"], mail("one"))
            mx.wait_log(r"to=<box@virtual\.test\.example>.*status=sent")
            self.assertRegex(penstock("status"), r"confined \(privileges limits calls\): .*qmgr/unix")
            self.assertIn("confine_files: this kernel has no Landlock", penstock("check"))
            self.assertEqual(len(re.findall(r"master\[\d+\]: .*Landlock", mx.log())), 1, mx.log())
            (pid,) = [s["pid"] for s in mx.status()["services"] if s["program"] == "smtpd"]
            kernel = status_of(pid)
            self.assertEqual((kernel["NoNewPrivs"], kernel["Seccomp"]), ("1", "2"))

    def test_each_setting_turns_its_part_off(self):
        off = {"confine_privileges": "no", "confine_system_calls": "no", "confine_files": "no", "confine_limits": "no"}
        with Instance(off) as mx:
            for program in ("smtpd", "qmgr"):
                kernel = status_of(mx.pids()[program][0])
                self.assertEqual((kernel["NoNewPrivs"], kernel["Seccomp"]), ("0", "0"))
            self.assertIn("confined (nothing)", mx.tool("penstock", "status").stdout)
            said = mx.tool("penstock", "check").stdout
            for name in off:
                self.assertIn(f"{name} = no", said)

    def test_one_service_can_be_free_and_the_others_not(self):
        with Instance(services={"free": "unix - - n - - smtp\n  -o confine_system_calls=no",
                                "held": "unix - - n - - smtp"},
                      settings={"transport_maps": "inline:{ { a.example = free:[127.0.0.1]:1 } "
                                                  "{ b.example = held:[127.0.0.1]:1 } }"}) as mx:
            for domain in ("a.example", "b.example"):
                send(mx.port, "ada@sender.example", [f"who@{domain}"], mail())
            found = eventually(lambda: {s["service"]: s["confined"] for s in mx.status()["services"]
                                        if s["service"] in ("free/unix", "held/unix") and s.get("confined")}
                               if sum("confined" in s for s in mx.status()["services"]
                                      if s["service"] in ("free/unix", "held/unix")) == 2 else None, "both run")
            self.assertNotIn("calls", found["free/unix"])
            self.assertIn("calls", found["held/unix"])

    def test_a_file_that_no_setting_names_is_opened_when_it_is_said_to_be(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")
        with Instance(start=False) as mx:
            if not has_landlock_here():
                self.skipTest("no Landlock here")
            table = mx.write("elsewhere/more", "who@there.example REJECT by the other file\n")
            # A link to a place that the name does not show, behind the back of who looks at links once.
            mx.write("etc-more/list", f"texthash:{table}\n")
            mx.set(smtpd_sender_restrictions=f"check_sender_access texthash:{mx.dir}/late/table",
                   confine_extra_files=f"{mx.dir}/elsewhere")
            os.makedirs(f"{mx.dir}/late")
            mx.write("late/table", "")
            mx.start()
            os.unlink(f"{mx.dir}/late/table")
            os.symlink(table, f"{mx.dir}/late/table")

            def answer():
                with Client(mx.port) as client:
                    client.expect("MAIL FROM:<who@there.example>", "250")
                    return client.command("RCPT TO:<postmaster@local.test.example>")
            eventually(lambda: "by the other file" in str(answer()), answer)


def without_landlock():
    """From here on, as on a kernel that has none: its three system calls are unknown."""
    load, if_less, if_more, answer = (0x20, 0, 0, 0), (0x35, 0, 2, 444), (0x25, 1, 0, 446), 0x06
    lines = [load, if_less, if_more, (answer, 0, 0, 0x50000 | errno.ENOSYS), (answer, 0, 0, 0x7fff0000)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *line) for line in lines))
    program = struct.pack("@HP", len(lines), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() != 0:
        libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    if libc.prctl(22, 2, program, 0, 0) != 0:  # PR_SET_SECCOMP
        raise OSError(ctypes.get_errno(), "prctl")


def has_landlock_here():
    return ctypes.CDLL(None).syscall(444, 0, 0, 1) >= 2


if __name__ == "__main__":
    unittest.main()
