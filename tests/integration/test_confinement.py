"""What programs may do: what the kernel says of each running program is compared with the table of docs/security.md."""
import os
import re
import socket
import subprocess
import unittest

from harness import *

# The table once more: by name, what a program keeps. None: its bounding set stays whole.
USERS = {"setuid", "setgid", "chown", "dac_override", "dac_read_search", "fowner", "kill"}
KEEPS = {"local": USERS, "virtual": USERS, "pipe": USERS | {"sys_chroot"}, "spawn": None}
CONFINED = {"smtpd", "smtp", "lmtp", "trivial-rewrite", "qmgr", "bounce", "pickup", "verify", "anvil", "tlsrpt",
            "error", "retry", "discard"}
NUMBERS = {"chown": 0, "dac_override": 1, "dac_read_search": 2, "fowner": 3, "kill": 5, "setgid": 6, "setuid": 7,
           "sys_chroot": 18}
ALL_WORDS = ["privileges", "limits", "files", "calls"]


def as_set(names):
    return sum(1 << NUMBERS[name] for name in names)


def status_of(pid):
    with open(f"/proc/{pid}/status") as text:
        return dict(line.rstrip("\n").split(":\t", 1) for line in text if ":\t" in line)


def core_limit(pid):
    with open(f"/proc/{pid}/limits") as text:
        return next(line.split()[4:6] for line in text if line.startswith("Max core file size"))


def has_landlock(mx):
    return mx.status()["landlock"] > 0


def uses_every_program(mx):
    """Makes every kind of program run."""
    with Client(mx.port) as client:
        client.expect("MAIL FROM:<ada@sender.example>", "250")
    for service in ("spawned", "tlsrpt", "verify", "retry"):  # nothing else wakes them here
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(mx.path("spool", "private", service))
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
                "lmtpd": "unix - - n - - lmtp"}
    SETTINGS = {"transport_maps": "inline:{ { there.example = smtp:[127.0.0.1]:1 } "
                                  "{ lmtp.example = lmtpd:inet:127.0.0.1:1 } { refused.example = error:no } "
                                  "{ discarded.example = discard: } { piped.example = piped: } }",
                "smtp_tlsrpt_enable": "yes"}

    def running(self, mx):
        """(program, pid) of every service that runs, after all were used."""
        uses_every_program(mx)
        wanted = {"smtp", "lmtp", "error", "discard", "local", "pipe", "bounce", "anvil", "pickup", "tlsrpt",
                  "spawn", "virtual", "verify", "retry"}
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
                    if program in CONFINED:
                        self.assertEqual(kernel["NoNewPrivs"], "1")
                        self.assertEqual(kernel["Seccomp"], "2")
                        self.assertEqual(core_limit(pid), ["0", "0"])
                        words = [w for w in ALL_WORDS if w != "files" or has_landlock(mx)]
                        self.assertEqual(said.split(), words)
                    else:
                        self.assertEqual(kernel["NoNewPrivs"], "0")
                        self.assertEqual(kernel["Seccomp"], "0")
                        self.assertEqual(core_limit(pid)[0], "0")
                        self.assertEqual(said.split(), ["privileges", "limits"])
                    if os.geteuid() == 0:
                        keeps = KEEPS.get(program, set())
                        if keeps is not None:
                            self.assertEqual(int(kernel["CapBnd"], 16), as_set(keeps))
                        self.assertEqual(int(kernel["CapPrm"], 16), as_set(USERS if keeps is None else keeps))
                        self.assertEqual(int(kernel["CapAmb"], 16), 0)
                    self.assertFalse(os.path.exists(f"/proc/{pid}/task/{pid}/children")
                                     and program in CONFINED
                                     and open(f"/proc/{pid}/task/{pid}/children").read().strip())
            self.assertNotIn("must not make", mx.log())
            self.assertNotIn("confinement is not whole", mx.log())

    def test_status_says_what_is_in_force(self):
        with Instance() as mx:
            text = mx.tool("penstock", "status", check=True).stdout
            words = " ".join(w for w in ALL_WORDS if w != "files" or has_landlock(mx))
            self.assertRegex(text, rf"confined \({words}\): .*qmgr/unix")

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


def has_landlock_here():
    import ctypes
    return ctypes.CDLL(None).syscall(444, 0, 0, 1) >= 2


if __name__ == "__main__":
    unittest.main()
