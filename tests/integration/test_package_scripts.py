"""The scripts of the Debian package, without the package: debian/upgrade-instances, as-owner, preinst, prerm."""
import glob
import os
import stat
import subprocess

import test_upgrade
from harness import *

SCRIPT = os.path.join(TOP, "debian", "upgrade-instances")
# The account of an instance without root, as of penstock-relay@.service.
OWNER = "daemon"
OTHERS = glob.glob("/etc/penstock*") + glob.glob("/var/spool/penstock*")


def environment(first, commands=BIN):
    """The instances are those that `first` lists."""
    return {"PATH": f"{commands}:{BIN}:/usr/sbin:/usr/bin:/sbin:/bin", "MAIL_CONFIG": first.etc}


def removal():
    """What the package does before it is removed."""
    with open(os.path.join(TOP, "debian", "penstock.prerm")) as file:
        return file.read().replace("/usr/libexec/penstock/", os.path.join(TOP, "debian", ""))


def run_both(mx, relay):
    """As root, and as another account."""
    mx.set(multi_instance_directories=relay.etc)
    subprocess.run(["chown", "-R", f"{OWNER}:", relay.root], check=True)
    mx.start()
    subprocess.run(["setpriv", "--reuid", OWNER, "--regid", OWNER, "--init-groups", os.path.join(BIN, "penstock"), "-c",
                    relay.etc, "start"], check=True, timeout=60, capture_output=True)
    eventually(lambda: answers(relay.port), lambda: "it serves\n" + relay.log())


@unittest.skipIf(OTHERS, "this host has instances that the scripts would find")
class UpgradeInstances(Suite):
    def run_script(self, first, commands=BIN):
        return subprocess.run(["/bin/sh", SCRIPT], capture_output=True, text=True, timeout=300,
                              env=environment(first, commands))

    @unittest.skipUnless(os.geteuid() == 0, "only root can run instances of two accounts")
    def test_an_instance_of_another_account_is_not_passed_over(self):
        folder = self.folder()
        os.chmod(folder, 0o755)
        programs = os.path.join(folder, "next")
        version = test_upgrade.other_version(programs)
        with Instance(start=False) as mx, Instance(start=False) as relay:
            run_both(mx, relay)
            for one in (mx, relay):
                one.set(daemon_directory=programs)
            done = self.run_script(mx)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(done.stdout.count(f"done: version {version} runs"), 2, done.stdout + done.stderr)
            self.assertIn(f"upgrade: done: version {version} runs", relay.log())
            self.assertTrue(answers(mx.port) and answers(relay.port))
            # Removal stops both.
            done = subprocess.run(["/bin/sh", "-c", removal(), "prerm", "remove"], capture_output=True, text=True,
                                  timeout=300, env=environment(mx))
            self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
            self.assertFalse(answers(mx.port) or answers(relay.port))

    def test_one_of_which_nothing_can_be_told_is_named(self):
        with Instance(start=False) as mx:
            mx.set(message_size_limit="many")
            done = self.run_script(mx)
            self.assertEqual(done.returncode, 75)
            self.assertRegex(done.stderr, f"{mx.etc} is passed over, .*: .*message_size_limit")

    def test_a_master_that_is_too_old_is_started_anew(self):
        """It knows no signal for an upgrade: a command stands in for what the tool says of one."""
        folder = self.folder()
        os.chmod(folder, 0o755)
        penstock = os.path.join(folder, "penstock")
        with open(penstock, "w") as file:
            file.write(f"""#!/bin/sh
case " $* " in
*" upgrade "*) echo "penstock: too old" >&2; exit 69;;
esac
exec {BIN}/penstock "$@"
""")
        os.chmod(penstock, stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)
        with Instance() as mx:
            before = mx.status()["master"]
            done = self.run_script(mx, folder)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn(f"{mx.etc} is stopped and started", done.stderr)
            self.assertNotEqual(mx.status()["master"], before)
            self.assertTrue(answers(mx.port))

    def test_one_that_does_not_run_is_left_alone(self):
        with Instance(start=False) as mx:
            done = self.run_script(mx)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))


@unittest.skipIf(OTHERS, "this host has instances that the scripts would find")
class StepBack(Suite):
    def preinst(self, mx):
        with open(os.path.join(TOP, "debian", "penstock.preinst")) as file:
            text = file.read().replace("#QUEUE_FORMAT#", "1").replace("#PAYLOAD_LAYOUT#", "6")
        path = os.path.join(self.folder(), "preinst")
        with open(path, "w") as file:
            file.write(text)
        return subprocess.run(["/bin/sh", path, "upgrade", "0.2.0"], capture_output=True, text=True, timeout=60,
                              env=environment(mx))

    def test_a_queue_that_is_not_read_is_told_wherever_it_is(self):
        log = os.path.join(self.folder(), "elsewhere")
        with Instance({"queue_log_directory": log}) as mx:
            mx.stop()
            done = self.preinst(mx)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            mark = os.path.join(log, "payload-layout")
            for layout, status in ((6, 0), (7, 1)):
                with open(mark, "w") as file:
                    file.write(f"layout {layout}\n")
                done = self.preinst(mx)
                self.assertEqual(done.returncode, status, done.stderr)
            self.assertRegex(done.stderr, f"messages in {log} may have layout 7, and this version reads up to 6")
            os.unlink(mark)
            segment = next(os.path.join(log, n) for n in sorted(os.listdir(log)) if n.startswith("segment-"))
            with open(segment, "r+b") as file:
                file.seek(8)
                file.write((1000).to_bytes(4, "little"))
            done = self.preinst(mx)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, f"{segment} has format 1000, and this version reads up to 1")


if __name__ == "__main__":
    unittest.main()
