"""A service with all its places taken runs with stress = yes: those who idle are sent away, until there is room."""
import re
import socket

from harness import *

SETTINGS = {
    "mynetworks": "192.0.2.1/32",
    "relay_domains": "",
    "smtpd_banner": "$myhostname [$stress]",
    "smtpd_timeout": "${stress?{1}:{300}}s",
    "smtpd_error_sleep_time": "0",
}


def greeting(port):
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        return client.makefile("r").readline().strip()


class Stress(Suite):
    def test_idle_clients_make_room_and_the_usual_settings_come_back(self):
        port = free_port()
        name = f"127.0.0.1:{port}"
        with Instance(SETTINGS | {"default_process_limit": "4"}, {name: "inet n - n - - smtpd"}) as mx:
            self.assertTrue(greeting(port).endswith("[]"))
            idle = [Client(port, ehlo=False) for _ in range(4)]
            mx.wait_log(f'service "{name}" has reached its process limit "4"')
            self.assertTrue(greeting(port).endswith("[yes]"))  # in the place of one that idled
            for client in idle:
                self.assertRegex(client.reply(), r"421 4\.4\.2 ")
                client.close()
            mx.wait_log(rf'service "{name}" has \d sessions: it no longer runs with stress = yes', 60)
            self.assertTrue(greeting(port).endswith("[]"))
            with Client(port, ehlo=False) as client:  # the limits of usual times, too
                for _ in range(3):
                    self.assertRegex(client.command("NONSENSE"), "^5")
            self.assertEqual(len(re.findall("has reached its process limit", mx.log())), 1)

    def test_what_master_cf_says_of_stress_is_kept(self):
        for value in ("", "yes"):
            port = free_port()
            with Instance(SETTINGS, {f"127.0.0.1:{port}": f"inet n - n - 2 smtpd -o stress={value}"
                                     " -o smtpd_timeout=300s"}) as mx:
                with Client(port, ehlo=False), Client(port, ehlo=False) as second:
                    second.quit()
                    self.assertTrue(greeting(port).endswith(f"[{value}]"))
                    self.assertNotIn("has reached its process limit", mx.log())

    def test_many_clients_under_test_shorten_the_tests(self):
        # The first ones wait for their greeting a minute and more; with nine of ten, further ones wait a second.
        port = free_port()
        with Instance({**SETTINGS, "postscreen_pre_queue_limit": "10", "postscreen_client_connection_count_limit": "50",
                       "postscreen_greet_wait": "${stress?{1}:{100}}s", "postscreen_cache_map": ""},
                      {f"127.0.0.1:{port}": "inet n - n - 1 postscreen", "smtpd": "pass - - n - - smtpd"}) as mx:
            waiting = [socket.create_connection(("127.0.0.1", port)) for _ in range(8)]
            eventually(lambda: len(re.findall(r"CONNECT from \[", mx.log())) == 8, "eight clients")
            self.assertNotIn("STRESS", mx.log())
            with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
                mx.wait_log("entering STRESS mode with 9 connections")
                lines = client.makefile("r")
                self.assertTrue(lines.readline().startswith("220-"))
                self.assertTrue(lines.readline().startswith("220 "))
            for client in waiting:
                client.close()
            mx.wait_log("leaving STRESS mode with 7 connections")


if __name__ == "__main__":
    unittest.main()
