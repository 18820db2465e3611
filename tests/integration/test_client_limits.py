"""smtpd_client_*_limit: counted in anvil, for all processes of a service."""
from harness import *

# The limits are for strangers, so clients on loopback are strangers here.
STRANGERS = {"mynetworks": "192.0.2.1/32", "relay_domains": "", "smtpd_error_sleep_time": "0"}
RCPT = "RCPT TO:<nobody@elsewhere.example>"


class ClientLimits(Suite):
    def codes(self, port, *lines):
        """Returns the codes of the greeting and of each reply."""
        try:
            with Client(port, ehlo=False) as client:
                return [220] + [int(client.command(line)[:3]) for line in lines]
        except Refused as refused:
            return [int(refused.reply[:3])]

    def test_rates_are_per_service_and_in_the_statistics(self):
        other = free_port()
        with Instance({**STRANGERS, "smtpd_client_message_rate_limit": "3", "smtpd_client_recipient_rate_limit": "2",
                       "anvil_status_update_time": "1s"},
                      {f"127.0.0.1:{other}": "inet n - n - - smtpd"}) as mx:
            mail_from = ["EHLO x", "MAIL FROM:<a@x.example>", "RSET"]
            for _ in range(3):
                self.assertEqual(self.codes(mx.port, *mail_from), [220, 250, 250, 250])
            self.assertEqual(self.codes(mx.port, *mail_from)[2], 450)
            self.assertEqual(
                self.codes(other, *mail_from, "MAIL FROM:<a@x.example>", RCPT, RCPT, RCPT),
                [220, 250, 250, 250, 250, 454, 454, 450],
            )
            mx.wait_log(
                rf"Message delivery request rate limit exceeded: 4 from \S+\[127\.0\.0\.1\] for service {mx.port}"
            )
            mx.wait_log(rf"statistics: max message rate 4/60s for \({mx.port}:127\.0\.0\.1\) at \w{{3}} [ \d]\d \d\d:")
            mx.wait_log(rf"statistics: max recipient rate 3/60s for \(127\.0\.0\.1:{other}:127\.0\.0\.1\) at ")

    def test_sessions_are_counted_over_a_killed_anvil_and_a_reload(self):
        with Instance({**STRANGERS, "smtpd_client_connection_count_limit": "2"}) as mx:
            def refused():
                return self.codes(mx.port) == [421]

            with Client(mx.port), Client(mx.port) as second:
                self.assertTrue(refused())
                mx.kill("anvil")
                self.assertTrue(refused())
                mx.reload()  # new clients get another smtpd, the two stay with theirs
                eventually(lambda: len(mx.pids()["smtpd"]) == 2, "two smtpd processes")
                eventually(refused, "the new smtpd counts the sessions of the old")
                second.quit()
                eventually(lambda: self.codes(mx.port) == [220], "one has ended")

    def test_nobody_is_refused_for_the_absence_of_anvil(self):
        with Instance({**STRANGERS, "smtpd_client_message_rate_limit": "1", "smtpd_client_connection_count_limit": "2"},
                      {"anvil": None}) as mx:
            for _ in range(3):
                self.assertEqual(self.codes(mx.port, "EHLO x", "MAIL FROM:<a@x.example>"), [220, 250, 250])
            with Client(mx.port), Client(mx.port):
                self.assertEqual(self.codes(mx.port), [421])


if __name__ == "__main__":
    unittest.main()
