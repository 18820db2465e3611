"""*_delivery_status_filter: what the log, the sender and the queue see of a changed status code and text."""
import email
import email.policy

from harness import *


class StatusFilter(Suite):
    def notice(self, back, number=1):
        whole = email.message_from_bytes(back.wait_messages(number)[number - 1].content, policy=email.policy.default)
        text, status, _ = whole.iter_parts()
        return text.get_content(), status.get_payload()[1]

    def instance(self, back, hops, setting, rules, **settings):
        """An instance whose setting has a table with these patterns."""
        hops = {"sender.example": f"smtp:[127.0.0.1]:{back.port}", **hops}
        mx = Instance({"relay_domains": ", ".join(hops), "transport_maps": inline(hops), "minimal_backoff_time": "1h",
                       "maximal_backoff_time": "1h", **settings}, start=False)
        mx.set(**{setting: "pcre:" + mx.write("filter", "".join(f"{rule}\n" for rule in rules))})
        mx.start()
        return mx

    def test_smtp_replaces_what_hosts_say(self):
        with Peer() as back, Peer() as far:
            far.replies["RCPT"] = lambda session, line: (
                "450 4.2.2 full" if "full@" in line else "550 5.1.1 busy" if "busy@" in line else None
            )
            rules = (
                r"/^4(\.2\.2 .*)/ 5$1 (for good)",
                r"/^5\.1\.1 (.*busy.*)/ 4.1.1 wait: $1",
                r"/^2\S+ 250/ 2.0.0 it is there",
                r"/Connection refused/ 5.4.1 nobody there",
            )
            port = free_port()
            hops = {"rcpt.example": f"smtp:[127.0.0.1]:{far.port}", "gone.example": f"smtp:[127.0.0.1]:{port}"}
            with self.instance(back, hops, "smtp_delivery_status_filter", rules) as mx:
                send(mx.port, "ada@sender.example", ["full@rcpt.example"], mail("one"))
                text, status = self.notice(back)
                self.assertEqual((status["Status"], status["Action"]), ("5.2.2", "failed"))
                self.assertIn("450 4.2.2 full", status["Diagnostic-Code"])  # the host's own words
                self.assertIn("(for good)", " ".join(text.split()))
                send(mx.port, "ada@sender.example", ["busy@rcpt.example"], mail("two"))
                mx.wait_log(r"to=<busy@rcpt\.example>.*dsn=4\.1\.1, status=deferred \(wait: ")
                send(mx.port, "ada@sender.example", ["ben@rcpt.example"], mail("three"), rcpt="NOTIFY=SUCCESS")
                mx.wait_log(r"to=<ben@rcpt\.example>.*dsn=2\.0\.0, status=sent \(it is there\)")
                # A host that cannot be reached gets another text, but its mail still waits.
                send(mx.port, "ada@sender.example", ["ben@gone.example"], mail("four"))
                mx.wait_log(r"to=<ben@gone\.example>.*dsn=4\.4\.1, status=deferred \(nobody there\)")

    def test_nothing_is_given_up_while_another_host_may_have_room(self):
        with Peer() as back, Peer() as far, Dns(
            {
                ("two.example", "MX"): [(10, "a.two.example"), (20, "b.two.example")],
                ("a.two.example", "A"): ["127.0.0.1"],
                ("b.two.example", "A"): ["127.0.0.2"],
                ("one.example", "MX"): [(10, "a.two.example")],
            }
        ) as dns:
            far.replies["RCPT"] = lambda session, line: "450 4.2.2 full" if "ben@" in line else None
            hops = {d: f"smtp:{d}:{far.port}" for d in ("one.example", "two.example")}
            with self.instance(back, hops, "smtp_delivery_status_filter", (r"/^4(\.2\.2 .*)/ 5$1 (for good)",),
                               **dns.settings()) as mx:
                send(mx.port, "ada@sender.example", ["ben@two.example"], mail("one"))
                mx.wait_log(r": host a\.two\.example\S+ said: 450 4\.2\.2 full \(in reply to RCPT TO command\)\n")
                mx.wait_log(r"to=<ben@two\.example>.*dsn=4\.4\.1, status=deferred \(connect to b\.two\.example")
                send(mx.port, "ada@sender.example", ["ben@one.example"], mail("two"))
                mx.wait_log(r"to=<ben@one\.example>.*dsn=5\.2\.2, status=bounced \(host a\.two\.example.*\(for good\)")

    def test_success_and_failure_are_never_exchanged(self):
        with Peer() as back, Peer() as far:
            far.replies["RCPT"] = lambda session, line: "550 5.1.1 nobody" if "no@" in line else None
            hops = {"rcpt.example": f"smtp:[127.0.0.1]:{far.port}"}
            with self.instance(
                back, hops, "default_delivery_status_filter", ("/^5/ 2.0.0 sent", "/^2/ 5.0.0 lost")
            ) as mx:
                send(mx.port, "ada@sender.example", ["no@rcpt.example", "yes@rcpt.example"], mail("one"))
                mx.wait_log(r"to=<no@rcpt\.example>.*dsn=5\.1\.1, status=bounced \(host ")
                mx.wait_log(r"to=<yes@rcpt\.example>.*dsn=2\S+, status=sent \(250 ")
                mx.wait_log(r'delivery_status_filter: "2\.0\.0 sent" cannot stand for "5\.1\.1 host ')
                self.assertEqual(len(far.wait_messages(1)), 1)

    def test_local_agents_have_filters_of_their_own(self):
        with Peer() as back:
            rules = (r"/^2\S+ delivered to .*/ 2.1.5 delivered", r"/^5(\.1\.1 unknown) user/ 4$1 so far")
            with self.instance(back, {}, "virtual_delivery_status_filter", rules, smtpd_reject_unlisted_recipient="no",
                               virtual_mailbox_maps=inline({"ada@virtual.test.example": "ada/"})) as mx:
                send(mx.port, "ada@sender.example", ["ada@virtual.test.example"], mail("one"))
                mx.wait_log(r"to=<ada@virtual\.test\.example>.*dsn=2\.1\.5, status=sent \(delivered\)")
                send(mx.port, "ada@sender.example", ["who@virtual.test.example"], mail("two"))
                mx.wait_log(r"to=<who@virtual\.test\.example>.*dsn=4\.1\.1, status=deferred \(unknown so far\)")


if __name__ == "__main__":
    unittest.main()
