"""A service manager that starts master in the foreground hears when it is ready, reloads, stops, and that it lives."""
import os
import socket
import subprocess

from harness import *


class Manager:
    """The receiving end of systemd's notification socket, until the test ends."""

    def __init__(self, test, folder):
        self.path = os.path.join(folder, "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.socket.settimeout(60)
        test.addCleanup(self.socket.close)

    def next(self, word):
        """Waits for the next message with that assignment; a message is a dict."""
        while True:
            message = dict(line.split("=", 1) for line in self.socket.recv(4096).decode().split("\n"))
            if word in message:
                return message


class ServiceManager(Suite):
    def start(self, mx, manager, **variables):
        environment = {**os.environ, "NOTIFY_SOCKET": manager.path, **variables}
        return subprocess.Popen([os.path.join(BIN, "penstock"), "-c", mx.etc, "start-fg"], env=environment)

    def test_the_units_with_root_differ_in_their_instance_alone(self):
        def lines(unit):
            with open(os.path.join(TOP, "conf", unit)) as text:
                return text.read().split("[Service]")[1].splitlines()
        one, any_other = lines("penstock.service"), lines("penstock@.service")
        self.assertEqual([line.replace(" -c /etc/penstock-%i", "") for line in any_other], one)
        self.assertEqual(sum("%i" in line for line in any_other), 2)

    def test_start_reload_stop(self):
        with Instance(start=False) as mx:
            manager = Manager(self, mx.dir)
            front = self.start(mx, manager)
            ready = manager.next("READY")
            self.assertEqual(ready["MAINPID"], str(front.pid))
            self.assertRegex(ready["STATUS"], r"^\d+ services, \d+ serving")
            self.assertTrue(answers(mx.port), "it serves when it says so")
            for pids in mx.pids().values():
                for pid in pids:
                    if pid != front.pid:
                        with open(f"/proc/{pid}/environ", "rb") as environment:
                            self.assertNotIn(b"NOTIFY_SOCKET", environment.read())
            # The manager reads while the order runs: master waits a second for one that does not.
            reload = subprocess.Popen([os.path.join(BIN, "penstock"), "-c", mx.etc, "reload"],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.assertGreater(int(manager.next("RELOADING")["MONOTONIC_USEC"]), 0)
            manager.next("READY")
            self.assertEqual(reload.wait(60), 0)
            mx.set(inet_protocols="nonsense")  # a reload that changes nothing ends too
            os.kill(front.pid, 1)
            manager.next("RELOADING")
            manager.next("READY")
            front.terminate()
            manager.next("STOPPING")
            self.assertEqual(front.wait(timeout=60), 0)

    def test_health_is_what_clients_get(self):
        with Instance(start=False) as mx:
            health = lambda: (lambda done: (done.returncode, done.stdout + done.stderr))(
                mx.tool("penstock", "health", timeout=60))
            self.assertEqual(health(), (69, "penstock: the mail system is not running\n"))
            mx.start()
            self.assertEqual(health(), (0, ""))
            suspend(*mx.pids()["smtpd"])
            status, said = health()
            self.assertEqual(status, 75, said)
            self.assertRegex(said, rf"the service {mx.port}/inet does not answer: .*no greeting in time")
            self.assertEqual(mx.tool("penstock", "status").returncode, 0, "master runs all the same")
            resume(*mx.pids()["smtpd"])
            self.assertEqual(health(), (0, ""))
            # A service that master was not told of yet is none that is ill.
            mx.set_services({f"127.0.0.1:{free_port()}": "inet n - n - - smtpd"})
            self.assertEqual(health(), (0, ""))

    def test_the_watchdog_is_fed_by_masters_own_loop(self):
        with Instance(start=False) as mx:
            manager = Manager(self, mx.dir)
            front = self.start(mx, manager, WATCHDOG_USEC="200000")
            for _ in range(5):
                self.assertEqual(manager.next("WATCHDOG")["WATCHDOG"], "1")
            suspend(front.pid)
            manager.socket.settimeout(1)
            with self.assertRaises(TimeoutError):
                while True:
                    manager.next("WATCHDOG")
            resume(front.pid)
            manager.socket.settimeout(60)
            manager.next("WATCHDOG")
            front.terminate()
            self.assertEqual(front.wait(timeout=60), 0)

    def test_a_manager_that_is_gone_stops_no_mail(self):
        with Instance(start=False) as mx:
            manager = Manager(self, mx.dir)
            manager.socket.close()
            front = self.start(mx, manager, WATCHDOG_USEC="200000")
            mx.wait_log("all services are ready")
            mx.wait_log("warning: the service manager cannot be told how it goes")
            send(mx.port, "a@sender.example", ["b@local.test.example"], b"Subject: x\r\n\r\nx\r\n")
            mx.wait_log("status=")
            front.terminate()
            self.assertEqual(front.wait(timeout=60), 0)
            self.assertEqual(mx.log().count("service manager cannot be told"), 1)


if __name__ == "__main__":
    unittest.main()
