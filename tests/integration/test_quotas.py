"""check_sender_quota: counted over services, processes, kills and restarts."""
import os
import threading

from harness import *
from redis_server import PROGRAM, RedisServer

BOX = "ada@virtual.test.example"
SETTINGS = {"virtual_mailbox_maps": f"inline:{{ {{ {BOX} = ada/ }} }}", "smtpd_error_sleep_time": "0",
            "smtpd_authorized_xclient_hosts": "127.0.0.1", "smtpd_data_restrictions": "check_sender_quota"}


class Quotas(Suite):
    def data(self, port, login="ada", sender="a@x.example"):
        """Sends a message as this login; returns "ok", or the refusal of DATA."""
        with Client(port) as client:
            client.expect(f"XCLIENT LOGIN={login}", "220")
            client.expect("EHLO client.example", "250")
            try:
                client.send(sender, [BOX], mail())
            except Refused as refused:
                return refused.reply
            client.quit()
            return "ok"

    def test_messages_of_a_login_are_counted_over_services_and_processes(self):
        other = free_port()
        with Instance({**SETTINGS, "smtpd_quota_login_messages_per_hour": "20",
                       "smtpd_quota_maps": "inline:{ { root = unlimited }, { eve = messages_per_day=1 } }"},
                      {f"127.0.0.1:{other}": "inet n - n - - smtpd"}) as mx:
            results = []

            def send_some(port):
                for _ in range(12):
                    results.append(self.data(port))

            threads = [threading.Thread(target=send_some, args=(port,)) for port in (mx.port, other)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(results.count("ok"), 20)
            refused = [reply for reply in results if reply != "ok"]
            self.assertEqual(len(refused), 4)
            for reply in refused:
                self.assertRegex(reply, r"^450 4\.7\.1 <ada>: SASL login name rejected: quota of 20 messages per hour "
                                        r"exceeded, try again in \d+ seconds$")
            mx.wait_log(r"reject: DATA from .*<ada>: SASL login name rejected: .*sasl_username=<ada>")
            self.assertEqual(self.data(mx.port, "bob"), "ok")
            for _ in range(25):
                self.assertEqual(self.data(mx.port, "root"), "ok")
            self.assertEqual(self.data(mx.port, "eve"), "ok")
            self.assertIn("quota of 1 messages per day", self.data(other, "eve"))

    def test_counts_survive_a_restart_and_a_kill_and_a_refusal_can_be_final(self):
        with Instance({**SETTINGS, "smtpd_quota_sender_recipients_per_day": "3",
                       "smtpd_quota_reject_code": "550"}) as mx:
            for _ in range(3):
                self.assertEqual(self.data(mx.port), "ok")
            mx.stop()
            mx.start()
            self.assertRegex(self.data(mx.port), r"^550 5\.7\.1 <a@x\.example>: Sender address rejected: quota of 3 "
                                                 r"recipients per day exceeded, try again in \d+ seconds$")
            file = mx.path("data", "senders", "data.mdb")
            before = os.stat(file).st_mtime_ns
            for _ in range(3):
                self.assertEqual(self.data(mx.port, sender="b@x.example"), "ok")
            eventually(lambda: os.stat(file).st_mtime_ns != before, "counts are written")
            mx.kill("anvil")
            self.assertTrue(self.data(mx.port).startswith("550"))  # of the start

            def of_b():
                return self.data(mx.port, sender="b@x.example")

            # One write may have come between the messages: some of them count, not none.
            self.assertIn("550", [of_b()[:3] for _ in range(3)])

    @unittest.skipUnless(PROGRAM, "redis-server is not installed (scripts/install-dependencies --runtime-peers)")
    def test_hosts_of_a_cluster_count_together(self):
        with RedisServer() as redis:
            settings = {**SETTINGS, **redis.settings(), "smtpd_quota_login_messages_per_hour": "20",
                        "smtpd_quota_sender_recipients_per_day": "3"}
            with Instance(settings) as one, Instance(settings) as two:
                for mx in (one, two):
                    mx.wait_log(r"anvil\[\d+\]: .*quotas: shared through")
                results = []

                def send_some(port, sender):
                    for n in range(12):
                        results.append(self.data(port, sender=f"{sender}{n}@x.example"))

                threads = [threading.Thread(target=send_some, args=(mx.port, name)) for mx in (one, two)
                           for name in ("a", "b")]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                self.assertEqual(results.count("ok"), 20)
                for reply in results:
                    if reply != "ok":
                        self.assertRegex(reply, r"quota of 20 messages per hour exceeded, try again in \d+ seconds$")
                self.assertLess(3600, redis.words("TTL", "penstock:quota:login:ada"))
                # Recipients of a sender, whatever its login.
                for mx, login in ((one, "u"), (two, "v"), (one, "w")):
                    self.assertEqual(self.data(mx.port, login, "z@x.example"), "ok")
                self.assertIn("quota of 3 recipients per day", self.data(two.port, "x", "z@x.example"))
                self.assertEqual(redis.words("HGET", "penstock:quota:login:x", "hm"), None)  # counted for none
                # Without the server each host goes on from what it knows of all.
                redis.kill()
                two.wait_log(r"anvil\[\d+\]: warning: quotas: not shared for now")
                self.assertIn("quota of 20 messages per hour", self.data(two.port))
                self.assertEqual(self.data(two.port, "bob", "y@x.example"), "ok")
                redis.start()
                eventually(lambda: two.log().count("quotas: shared through") == 2, "they are shared again")
                self.assertEqual(self.data(two.port, "bob", "y@x.example"), "ok")


if __name__ == "__main__":
    unittest.main()
