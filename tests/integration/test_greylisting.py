"""check_greylist: put off, passed, known; over several services, restarts and kills."""
import os
import re
import time

from harness import *
from redis_server import PROGRAM, RedisServer

PUT_OFF = re.compile(r"450 4\.2\.0 <ada@virtual\.test\.example>: Recipient address rejected: "
                     r"Greylisted, try again in (\d+) seconds$")
BOX = "ada@virtual.test.example"
SETTINGS = {"mynetworks": "192.0.2.1/32", "virtual_mailbox_maps": f"inline:{{ {{ {BOX} = ada/ }} }}",
            "smtpd_recipient_restrictions": "check_greylist", "smtpd_error_sleep_time": "0",
            "smtpd_relay_restrictions": "reject_unauth_destination", "smtpd_peername_lookup": "no"}


class Greylisting(Suite):
    def rcpt(self, port, sender, source="127.0.0.1"):
        """The reply to RCPT TO."""
        with Client(port, source=source) as client:
            client.expect(f"MAIL FROM:<{sender}>", "250")
            reply = client.command(f"RCPT TO:<{BOX}>")
            client.quit()
            return reply

    def passes(self, port, sender, **options):
        """Comes back until it may pass."""
        eventually(lambda: self.rcpt(port, sender, **options).startswith("250"), f"{sender} passes")

    def test_a_message_passes_at_the_second_try_and_tells_its_delay(self):
        with Instance({**SETTINGS, "smtpd_greylist_delay": "2s"}) as mx:
            self.assertRegex(self.rcpt(mx.port, "a@x.example"), PUT_OFF)
            mx.wait_log(r"NOQUEUE: reject: RCPT from unknown\[127\.0\.0\.1\]: 450 4\.2\.0 .*Greylisted, try again in ")
            first = time.monotonic()

            def delivered():
                try:
                    return send(mx.port, "a@x.example", [BOX], mail())
                except Refused as refused:
                    self.assertRegex(refused.reply, PUT_OFF)
                    return None

            eventually(delivered, "the second try passes")
            (message,) = Maildir(os.path.join(mx.virtual_base, "ada")).wait()
            delay = int(re.search(rb"^X-Greylist: delayed (\d+) seconds by mx\.test\.example; ", message, re.M)[1])
            self.assertLessEqual(abs(delay - (time.monotonic() - first)), 5)
            send(mx.port, "a@x.example", [BOX], mail())
            both = Maildir(os.path.join(mx.virtual_base, "ada")).wait(2)
            self.assertEqual([b"X-Greylist" in m for m in both].count(True), 1)

    def test_a_client_that_came_back_often_is_known_to_all_services_and_after_a_restart(self):
        other = free_port()
        with Instance({**SETTINGS, "smtpd_greylist_delay": "1s", "smtpd_greylist_known_after": "2"},
                      {f"127.0.0.1:{other}": "inet n - n - - smtpd"}) as mx:
            self.rcpt(mx.port, "1@x.example")
            self.passes(mx.port, "1@x.example")
            self.passes(other, "2@x.example")
            self.assertTrue(self.rcpt(other, "3@x.example", source="127.0.0.99").startswith("250"))  # one network
            self.assertRegex(self.rcpt(mx.port, "3@x.example", source="127.0.9.1"), PUT_OFF)
            mx.reload()
            self.assertTrue(self.rcpt(mx.port, "4@x.example").startswith("250"))
            mx.stop()
            mx.start()
            self.assertTrue(self.rcpt(mx.port, "5@x.example").startswith("250"))
            self.assertRegex(self.rcpt(mx.port, "5@x.example", source="127.0.8.1"), PUT_OFF)

    def test_a_kill_loses_nothing_that_was_written_and_a_damaged_file_is_set_aside(self):
        with Instance({**SETTINGS, "smtpd_greylist_delay": "1h", "smtpd_greylist_window": "2h"}) as mx:
            self.rcpt(mx.port, "1@x.example")
            data = mx.path("data", "senders", "data.mdb")
            eventually(lambda: os.path.exists(data), "the file")
            size = os.stat(data).st_mtime_ns

            def written():
                return os.stat(data).st_mtime_ns != size

            eventually(written, "the triplet is written")
            first = int(PUT_OFF.match(self.rcpt(mx.port, "1@x.example"))[1])
            mx.kill("anvil")
            eventually(lambda: int(PUT_OFF.match(self.rcpt(mx.port, "1@x.example"))[1]) < first, "the wait goes on")
            mx.stop()
            with open(data, "r+b") as file:
                file.truncate(5000)
            mx.start()
            self.assertRegex(self.rcpt(mx.port, "1@x.example"), PUT_OFF)
            mx.wait_log(r"anvil\[\d+\]: warning: .*set aside as .*greylisting and quotas begin anew")

    def test_nobody_is_put_off_while_anvil_cannot_be_asked(self):
        with Instance(SETTINGS, {"anvil": None}) as mx:
            self.assertTrue(self.rcpt(mx.port, "1@x.example").startswith("250"))

    @unittest.skipUnless(PROGRAM, "redis-server is not installed (scripts/install-dependencies --runtime-peers)")
    def test_hosts_of_a_cluster_share_who_was_put_off_and_who_passed(self):
        with RedisServer(acl=True) as redis:
            settings = {**SETTINGS, **redis.settings(), "smtpd_greylist_known_after": "2"}
            slow = {**settings, "smtpd_greylist_delay": "1h", "smtpd_greylist_window": "2h"}
            quick = {**settings, "smtpd_greylist_delay": "1s", "smtpd_greylist_window": "2h"}
            keys = lambda: redis.words("KEYS", "penstock:greylist:*")
            with Instance(slow) as one, Instance(quick) as two:
                self.assertRegex(self.rcpt(one.port, "a@x.example"), PUT_OFF)
                eventually(lambda: len(keys()) == 1, "the first try is told")
                self.assertLess(0, redis.words("TTL", keys()[0]))
                # Had the other host not heard of it, this would be a first try there. Time passes: the sleep is the
                # test.
                time.sleep(1.1)
                self.assertTrue(self.rcpt(two.port, "a@x.example").startswith("250"))
                eventually(lambda: len(keys()) == 2, "the pass is told, and the client's count")
                self.assertTrue(self.rcpt(one.port, "a@x.example").startswith("250"), "it passed elsewhere")
                # A second pass makes the client known to both, whatever it sends.
                self.assertRegex(self.rcpt(two.port, "b@x.example"), PUT_OFF)
                self.passes(two.port, "b@x.example")
                self.assertTrue(self.rcpt(one.port, "c@x.example").startswith("250"))
                self.assertEqual(redis.denied(), [])
                # Without the server each host goes on by itself, and nobody waits for it.
                redis.kill()
                one.wait_log(r"anvil\[\d+\]: warning: greylist: not shared for now")
                self.assertTrue(self.rcpt(one.port, "d@x.example").startswith("250"))
                self.assertRegex(self.rcpt(one.port, "d@x.example", source="127.0.9.1"), PUT_OFF)
                redis.start()
                eventually(lambda: one.log().count("greylist: shared through") == 2, "it is shared again")


if __name__ == "__main__":
    unittest.main()
