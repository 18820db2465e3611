"""What somebody meets who makes an instance and starts it: no setting but those of penstock init."""
import os
import pwd

from harness import *


def a_user():
    """A user of this host with a mailbox of his own: this one, or one that a system has."""
    return pwd.getpwuid(os.geteuid()).pw_name if os.geteuid() else "daemon"


class FirstSteps(Suite):
    def test_a_fresh_instance_knows_local_users_and_postmaster_at_once(self):
        with Instance(start=False) as mx:
            fresh = os.path.join(mx.dir, "fresh")
            port = free_port()
            mx.tool("penstock", "init", fresh, "--port", str(port), check=True)
            self.assertTrue(os.path.exists(os.path.join(fresh, "etc", "aliases.lmdb")))
            mx.etc = os.path.join(fresh, "etc")
            mx.root = fresh
            mx.port = port
            mx.set(daemon_directory=LIBEXEC, myhostname="mx.test.example", mydestination="local.test.example")
            mx.start()
            self.assertNotIn("warning", mx.log())
            with Client(port) as client:
                client.expect("MAIL FROM:<ada@sender.example>", "250")
                for who in ("postmaster", "postmaster@local.test.example", f"{a_user()}@local.test.example",
                            "Abuse@local.test.example"):
                    client.expect(f"RCPT TO:<{who}>", "250")
                client.expect("RCPT TO:<nosuchuser@local.test.example>", "550")

    def test_a_missing_alias_table_says_what_to_do(self):
        with Instance({"alias_maps": "lmdb:$config_directory/nowhere", "local_recipient_maps": "$alias_maps"}) as mx:
            mx.wait_log(r"smtpd\[\d+\]: warning: .*nowhere\.lmdb.*penalias")
            with Client(mx.port) as client:
                client.expect("MAIL FROM:<ada@sender.example>", "250")
                client.expect("RCPT TO:<ada@local.test.example>", "451")


if __name__ == "__main__":
    unittest.main()
