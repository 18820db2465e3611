"""The units for systemd: what they forbid, rated by systemd itself, and the mail system at work under their filters."""
import configparser
import os
import pwd
import re
import socket
import subprocess
import tempfile

from harness import *
from unit_filter import CONF, bounded, lines, members, permitted, under_filter

UNITS = ("penstock.service", "penstock@.service", "penstock-relay@.service")
# setpriv, which does systemd's work here, is under the filter already.
IDENTITY = {"setresuid", "setresgid", "setgroups", "setreuid", "setregid", "capset"}


def wanted():
    """The calls of the table of programs (lib/suite/confine), and those that put the table in force."""
    with open(os.path.join(TOP, "lib", "suite", "confine", "system_calls.h")) as text:
        arrays = re.findall(r"constexpr auto (k\w+) = std::to_array<std::string_view>\(\{(.*?)\}\);", text.read(), re.S)
    calls = {"landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self", "seccomp"}
    for name, body in arrays:
        if name not in ("kFatalCalls", "kTriedCalls"):
            calls |= set(re.findall(r'"(\w+)"', body))
    return calls


def await_log(path, pattern):
    def found():
        if os.path.exists(path):
            with open(path) as text:
                return re.search(pattern, text.read())
        return None
    eventually(found, f"{path} has {pattern!r}", 120)


class Units(Suite):
    def test_ratings(self):
        for unit, limit in zip(UNITS, (36, 36, 20)):
            done = subprocess.run(["systemd-analyze", "security", "--offline=yes", f"--threshold={limit}",
                                   os.path.join(CONF, unit)], capture_output=True, text=True)
            self.assertEqual((unit, done.returncode, done.stderr), (unit, 0, ""), done.stdout)
            self.assertIn("Overall exposure level", done.stdout)

    def test_programs_outlive_master_under_each(self):
        for unit in UNITS:
            self.assertEqual((unit, *lines(unit, "KillMode")), (unit, "process"))
            self.assertEqual((unit, *lines(unit, "FileDescriptorStoreMax")), (unit, "1024"))

    def test_the_profile_for_apparmor_is_read(self):
        done = subprocess.run(["apparmor_parser", "--skip-kernel-load", "--skip-cache", os.path.join(
            TOP, "debian", "apparmor", "usr.libexec.penstock.master")], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_profiles_for_ufw_are_of_the_ports_that_master_cf_has(self):
        profiles = configparser.ConfigParser()
        with open(os.path.join(TOP, "debian", "ufw")) as text:
            profiles.read_file(text)
        ports = {int(profiles[name]["ports"].removesuffix("/tcp")) for name in profiles.sections()}
        with open(os.path.join(CONF, "master.cf")) as text:
            services = re.findall(r"^#?(\w+)\s+inet\s.*\ssmtpd$", text.read(), re.M)
        self.assertEqual(ports, {socket.getservbyname(name, "tcp") for name in services})
        for name in profiles.sections():
            self.assertTrue(profiles[name]["title"] and profiles[name]["description"], name)

    def test_the_filters_permit_what_the_programs_call(self):
        # Names that this systemd does not know are of newer kernels, or of other processors.
        for unit in UNITS:
            self.assertEqual((unit, sorted((wanted() & members("@known")) - permitted(unit))), (unit, []))

    def goes_through(self, front, etc, log, port, to, prefix=(), reload=()):
        """Mail goes through, and every program is confined as without the filter. reload: what ExecReload is run by."""
        try:
            await_log(log, "all services are ready")
            send(port, "a@sender.example", [to], b"Subject: x\r\n\r\nx\r\n")
            await_log(log, "status=sent")
            status = subprocess.run([*prefix, os.path.join(BIN, "penstock"), "-c", etc, "status"],
                                    capture_output=True, text=True, timeout=60)
            done = subprocess.run([*(reload or prefix), os.path.join(BIN, "penstock"), "-c", etc, "reload"],
                                  capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(status.stdout + status.stderr,
                             r"confined \(privileges limits (files )?calls\): .*qmgr/unix")
            front.terminate()
            self.assertEqual(front.wait(timeout=60), 0)
            with open(log) as text:
                self.assertNotIn("confinement is not whole", text.read())
        finally:
            if front.poll() is None:
                front.kill()
                front.wait()

    def test_mail_goes_through_under_the_filters_of_units_with_root(self):
        for unit in UNITS[:2]:
            # ExecReload has the unit's rights: less than root's, and master is closed to who has less.
            with self.subTest(unit), Instance(
                    {"virtual_mailbox_maps": "static:box/"}, start=False) as mx:
                front = subprocess.Popen([os.path.join(BIN, "penstock"), "-c", mx.etc, "start-fg"],
                                         preexec_fn=under_filter(permitted(unit), lines(unit, "SystemCallErrorNumber")))
                self.goes_through(front, mx.etc, mx.path("log", "mail.log"), mx.port, "someone@virtual.test.example",
                                  reload=bounded(unit) if os.geteuid() == 0 else ())

    @unittest.skipIf(os.geteuid() != 0, "becomes another account")
    def test_mail_goes_through_under_the_filter_of_the_unit_without_root(self):
        unit, port = UNITS[2], free_port()
        user = pwd.getpwnam("nobody")
        with tempfile.TemporaryDirectory() as directory:
            os.chown(directory, user.pw_uid, user.pw_gid)
            place = os.path.join(directory, "mx")
            without_root = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups",
                            "--no-new-privs", "--inh-caps=-all,+net_bind_service",
                            "--ambient-caps=-all,+net_bind_service", "--bounding-set=-all,+net_bind_service"]
            tool = [*without_root, os.path.join(BIN, "penstock")]
            subprocess.run([*tool, "init", place, "--port", str(port)], check=True, capture_output=True, timeout=60)
            front = subprocess.Popen([*tool, "-c", place + "/etc", "start-fg"],
                                     preexec_fn=under_filter(permitted(unit) | IDENTITY,
                                                             lines(unit, "SystemCallErrorNumber")))
            self.goes_through(front, place + "/etc", place + "/log/mail.log", port, "nobody@localhost",
                              without_root)


if __name__ == "__main__":
    unittest.main()
