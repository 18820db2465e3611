"""smtpd_log_access_permit_actions: what permits is logged by the name of the action, and only what is named."""
from harness import *
from policy_server import PolicyServer

CLIENT = r"permit: RCPT from \S+\[127\.0\.0\.1\]: "


class PermitLog(Suite):
    def rcpt(self, mx, sender):
        with Client(mx.port) as client:
            client.expect(f"MAIL FROM:<{sender}>", "250")
            client.expect("RCPT TO:<postmaster@local.test.example>", "250")

    def test_relay_and_the_service_that_permits_are_named(self):
        tables = inline({"relay@x.example": "RELAY", "ok@x.example": "OK"})
        with PolicyServer(otherwise="RELAY") as policy, Instance(
                {"smtpd_sender_restrictions": f"check_sender_access {tables}",
                 "smtpd_data_restrictions": f"check_policy_service inet:127.0.0.1:{policy.port}",
                 "smtpd_log_access_permit_actions": "RELAY"}) as mx:
            self.rcpt(mx, "ok@x.example")
            self.rcpt(mx, "relay@x.example")
            mx.wait_log(CLIENT + r"action=RELAY for Sender address=relay@x\.example from inline:")
            self.assertNotIn("action=OK", mx.log())
            send(mx.port, "ok@x.example", ["postmaster@local.test.example"], mail())
            mx.wait_log(rf"\w+: permit: DATA from \S+\[127\.0\.0\.1\]: action=RELAY for Data command=DATA "
                        rf"from inet:127\.0\.0\.1:{policy.port}; from=<ok@x\.example> "
                        r"to=<postmaster@local\.test\.example> proto=ESMTP helo=<client\.example>")

    def test_named_actions_are_logged_with_what_they_are_about(self):
        senders = inline({"table@x.example": "ok", "later@x.example": "DEFER_IF_PERMIT", "drop@x.example": "DISCARD"})
        with Instance({"smtpd_sender_restrictions": f"check_sender_access {senders}, permit",
                       "smtpd_log_access_permit_actions": "!permit, static:all",
                       "smtpd_recipient_restrictions": "permit_auth_destination"}) as mx:
            self.rcpt(mx, "table@x.example")
            mx.wait_log(
                r"NOQUEUE: " + CLIENT + r"action=OK for Sender address=table@x\.example from inline:.*; "
                r"from=<table@x\.example> to=<postmaster@local\.test\.example> proto=ESMTP helo=<client\.example>"
            )
            mx.wait_log(CLIENT + r"action=permit_mynetworks for Client host=\S+\[127\.0\.0\.1\]; from=<table")
            mx.wait_log(CLIENT + r"action=permit_auth_destination for Recipient address=postmaster@\S+; from=<table")
            self.rcpt(mx, "drop@x.example")
            mx.wait_log(CLIENT + r"action=DISCARD for Sender address=drop@x\.example from inline:")
            with Client(mx.port) as client:
                client.expect("MAIL FROM:<later@x.example>", "250")
                client.expect("RCPT TO:<postmaster@local.test.example>", "450")
                client.quit()
            mx.wait_log(r"disconnect from .*rcpt=0/1")
            # What is deferred in the end is not logged as permitted.
            self.assertNotRegex(mx.log(), r"permit: .*from=<later@")
            self.assertNotIn("action=permit for", mx.log())


if __name__ == "__main__":
    unittest.main()
