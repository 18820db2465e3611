"""Several instances on one host: the list, commands for all of them, postmulti, and what two may not share."""
import json
import os
import re
import subprocess
import tempfile
import unittest

from client import mail, send
from instance import BIN, Instance, missing
from waiting import answers, eventually, free_port


@unittest.skipIf(missing(), missing())
class Instances(unittest.TestCase):
    def setUp(self):
        self.mx = Instance(start=False)
        self.addCleanup(self.mx.close)
        self.links = tempfile.TemporaryDirectory()
        self.addCleanup(self.links.cleanup)
        # The name decides, as with the link that the package of Postfix's commands has.
        self.postmulti = os.path.join(self.links.name, "postmulti")
        os.symlink(os.path.join(BIN, "penstock"), self.postmulti)

    def multi(self, *words, status=0):
        done = subprocess.run([self.postmulti, "-c", self.mx.etc, *words], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, status, f"postmulti {words}: {done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def penstock(self, *words, status=0):
        done = subprocess.run([os.path.join(BIN, "penstock"), "-c", self.mx.etc, *words], capture_output=True,
                              text=True, timeout=120)
        self.assertEqual(done.returncode, status, f"penstock {words}: {done.stdout}{done.stderr}")
        return done.stdout

    def listed(self):
        return {one["name"]: one for one in json.loads(self.penstock("list", "--json"))}

    def setting(self, directory, name):
        done = subprocess.run([os.path.join(BIN, "penconf"), "-c", directory, "-h", name], capture_output=True,
                              text=True)
        return done.stdout.strip()

    def create(self, name="out", group="mx"):
        self.multi("-e", "create", "-I", name, "-G", group)
        return self.mx.path(f"penstock-{name}", "etc")

    def set_enabled(self, etc):
        done = subprocess.run([os.path.join(BIN, "penconf"), "-c", etc, "-e", "multi_instance_enable=yes"])
        self.assertEqual(done.returncode, 0)

    def serve(self, etc, port):
        """Gives the instance a port of its own and has it serve."""
        file = os.path.join(etc, "master.cf")
        with open(file) as text:
            lines = re.sub(rf"^{self.mx.port}(\s+inet)", rf"{port}\1", text.read(), flags=re.M)
        with open(file, "w") as out:
            out.write(lines)
        done = subprocess.run([os.path.join(BIN, "penconf"), "-c", etc, "-e", "master_service_disable="])
        self.assertEqual(done.returncode, 0)

    def test_a_new_instance_is_made_listed_set_up_run_with_the_others_and_destroyed(self):
        self.multi("-e", "init")
        self.assertIn("postmulti -p", self.setting(self.mx.etc, "multi_instance_wrapper"))
        etc = self.create()
        self.assertEqual(self.setting(self.mx.etc, "multi_instance_directories"), etc)
        self.assertEqual(self.setting(etc, "multi_instance_name"), "out")
        self.assertEqual(self.setting(etc, "master_service_disable"), "inet")
        self.assertEqual(self.setting(etc, "authorized_submit_users"), "")
        self.assertEqual(self.setting(etc, "queue_directory"), self.mx.path("penstock-out", "spool"))
        line = next(l for l in self.multi("-l").split("\n") if l.startswith("out"))
        self.assertEqual(line.split(), ["out", "mx", "n", etc])
        self.assertEqual([json.loads(line) for line in self.multi("-l", "-j").splitlines()],  # as Postfix 3.11 has it
                         [{"name": "-", "group": "-", "enabled": "y", "config_directory": self.mx.etc},
                          {"name": "out", "group": "mx", "enabled": "n", "config_directory": etc}])

        # It is not enabled: a start checks it, and starts the first one.
        self.penstock("-a", "start")
        eventually(lambda: answers(self.mx.port), "the first instance serves")
        self.assertEqual({n: o["running"] for n, o in self.listed().items()}, {"": True, "out": False})

        port = free_port()
        self.serve(etc, port)
        self.multi("-e", "enable", "-i", "out")
        self.assertTrue(self.listed()["out"]["enabled"])
        self.penstock("-g", "mx", "start")
        eventually(lambda: answers(port), "the second instance serves")
        self.assertTrue(all(one["running"] for one in self.listed().values()))

        # Its queue is its own.
        send(port, "a@sender.example", ["b@elsewhere.example"], mail())
        deferred = self.penstock("-i", "out", "-x", "penqueue", "-j")
        self.assertIn("b@elsewhere.example", deferred)
        self.assertNotIn("b@elsewhere.example", self.penstock("-i", "-", "-x", "penqueue", "-j"))

        # Neither while it is enabled, nor while it runs, nor while there is mail in it.
        self.assertIn("disable it", self.multi("-e", "destroy", "-i", "out", status=1))
        self.multi("-e", "disable", "-i", "out")
        self.assertIn("stop it", self.multi("-e", "destroy", "-i", "out", status=1))
        self.penstock("-a", "stop")  # it is left alone, but not when it is named
        self.assertEqual({n: o["running"] for n, o in self.listed().items()}, {"": False, "out": True})
        self.penstock("-i", "out", "stop")
        self.assertFalse(self.listed()["out"]["running"])
        self.multi("-e", "enable", "-i", "out")
        self.penstock("-a", "start")
        order = [l for l in self.penstock("-a", "stop").split("\n") if l.endswith(":")]
        self.assertEqual([("out" in l) for l in order], [True, False], order)
        self.assertFalse(any(one["running"] for one in self.listed().values()))
        self.multi("-e", "disable", "-i", "out")
        self.assertIn("1 messages in its queue", self.multi("-e", "destroy", "-i", "out", status=1))
        self.assertTrue(os.path.exists(os.path.join(etc, "main.cf")))
        subprocess.run([os.path.join(BIN, "pensuper"), "-c", etc, "-d", "ALL"], check=True, capture_output=True)
        self.multi("-e", "destroy", "-i", "out")
        self.assertEqual(self.setting(self.mx.etc, "multi_instance_directories"), "")
        self.assertFalse(os.path.exists(etc))
        self.assertFalse(os.path.exists(self.mx.path("penstock-out", "spool")))
        self.assertTrue(os.path.exists(self.mx.etc))

    def test_a_command_for_each_finds_its_instance_in_its_environment(self):
        etc = self.create()
        script = 'echo "$MAIL_CONFIG $multi_instance_name $queue_directory $multi_instance_enable"'
        lines = self.multi("-x", "-a", "sh", "-c", script).strip().split("\n")
        self.assertEqual(lines[1].split(), [etc, "out", self.mx.path("penstock-out", "spool"), "no"])
        self.assertTrue(lines[0].startswith(self.mx.etc))
        reverse = self.multi("-x", "-R", "sh", "-c", script).strip().split("\n")
        self.assertEqual(reverse, lines[::-1])
        # One that fails does not keep the next from its own, and is told.
        self.assertEqual(len(self.multi("-x", "-a", "sh", "-c", script + "; exit 3", status=1).strip().split("\n")), 2)

    def test_instances_are_imported_assigned_and_deported(self):
        other = Instance(start=False)
        self.addCleanup(other.close)
        self.multi("-e", "import", "-I", "old", "-G", "a", f"config_directory={other.etc}")
        self.assertEqual(self.listed()["old"]["directory"], other.etc)
        self.multi("-e", "assign", "-i", "old", "-I", "new", "-G", "b")
        self.assertEqual(self.listed()["new"]["group"], "b")
        self.multi("-e", "deport", "-i", "new")
        self.assertNotIn("new", self.listed())
        self.assertTrue(os.path.exists(os.path.join(other.etc, "main.cf")))

    def test_two_instances_with_one_queue_or_one_port_are_found_by_check(self):
        etc = self.create()
        self.serve(etc, self.mx.port)
        self.assertIn("where the instance", self.multi("-e", "enable", "-i", "out", status=1))
        self.set_enabled(etc)
        done = self.mx.tool("penstock", "check", "--no-dns")
        self.assertEqual(done.returncode, 78)
        self.assertRegex(done.stdout, rf"listens on .*:{self.mx.port}, where the instance")
        with open(os.path.join(etc, "master.cf")) as text:
            lines = text.read().replace(f"{self.mx.port} ", f"{free_port()} ")
        with open(os.path.join(etc, "master.cf"), "w") as out:
            out.write(lines)
        self.assertNotIn("where the instance", self.mx.tool("penstock", "check", "--no-dns").stdout)
        with open(os.path.join(etc, "main.cf"), "a") as out:
            out.write(f"queue_directory = {self.mx.path('spool')}\ndata_directory = {self.mx.path('data')}\n")
        text = self.mx.tool("penstock", "check", "--no-dns").stdout
        self.assertRegex(text, "error: .*queue_directory")
        self.assertRegex(text, "error: .*data_directory")

    def test_lists_of_commands_say_what_is_done_to_instances_that_are_not_enabled(self):
        self.create()
        self.mx.set(postmulti_control_commands="status", postmulti_stop_commands="logrotate")
        # status is a control command now: the one that is not enabled is left out, and so for logrotate.
        self.assertNotIn("out", self.penstock("-a", "status", status=69))
        self.mx.set(postmulti_control_commands="reload", postmulti_start_commands="status")
        done = subprocess.run([os.path.join(BIN, "penstock"), "-c", self.mx.etc, "-i", "out", "status"],
                              capture_output=True, text=True, timeout=60)
        self.assertNotIn("not running", done.stdout + done.stderr)  # it was checked instead
        self.assertTrue(done.stdout)
        self.assertEqual(done.stdout, self.penstock("-i", "out", "check"))


if __name__ == "__main__":
    unittest.main()
