"""Real receivers that do not take everything at once: postgrey, and a Postfix that counts what one client sends. All
mail arrives, and they refuse little; a Postfix that sends the same beside it is the measure."""
import re

import peers
from harness import *
from policy_server import Postgrey

SOON = {"minimal_backoff_time": "2s", "maximal_backoff_time": "4s", "queue_run_delay": "2s"}
ANVIL = """smtpd_client_event_limit_exceptions =
smtpd_client_message_rate_limit = 30
smtpd_client_connection_count_limit = 3
smtpd_error_sleep_time = 0
"""
MESSAGES = 60


class Receiver(peers.Postfix):
    """Takes mail of all of 127.0.0.1 and hands it on to a sink."""

    def __init__(self, sink, settings):
        super().__init__(free_port(), relay_port=sink.port, settings=settings)

    def refusals(self):
        log = self.log()
        return {"connections": len(re.findall("Connection concurrency limit exceeded", log)),
                "messages": len(re.findall("Message delivery request rate limit exceeded", log))}


@unittest.skipIf(peers.unavailable(), peers.unavailable())
class TestReceivers(Suite):
    def test_postgrey_sees_each_message_twice(self):
        with Postgrey(free_port()) as grey, Peer() as sink, Receiver(
                sink, f"smtpd_recipient_restrictions = check_policy_service inet:127.0.0.1:{grey.port}\n") as far, \
                Instance({**SOON, "relayhost": f"[127.0.0.1]:{far.port}", "shaping": "yes"}) as mx:
            for n in range(20):
                send(mx.port, f"a{n}@example.org", [f"b{n}@far.example"], mail())
            arrived = sink.wait_messages(20, 60)
            self.assertEqual(len({m.recipients[0] for m in arrived}), 20)
            for message in arrived:
                self.assertRegex(message.content, rb"X-Greylist: delayed [0-9]+ seconds by postgrey")
            # One refusal for each: what comes again comes when it may.
            self.assertEqual(len(re.findall(r"reject: RCPT .* 450 4\.2\.0 .*Greylisted", far.log())), 20)
            self.assertNotIn("shaping: ", mx.log())  # it is no complaint

    def flood(self, port):
        with Client(port) as client:
            for n in range(MESSAGES):
                client.send("a@example.org", [f"b{n}@far.example"], mail())

    def test_a_postfix_that_counts_refuses_less_than_what_postfix_sends(self):
        with Peer() as our_sink, Peer() as their_sink, Receiver(our_sink, ANVIL) as ours, \
                Receiver(their_sink, ANVIL) as theirs, \
                Instance({**SOON, "relayhost": f"[127.0.0.1]:{ours.port}", "shaping": "yes",
                          "shaping_pause_time": "5s"}) as mx, \
                peers.Postfix(free_port(), relay_port=theirs.port, settings="".join(
                    f"{name} = {value}\n" for name, value in SOON.items())) as sender:
            self.flood(mx.port)
            self.flood(sender.port)
            for sink in our_sink, their_sink:
                arrived = [m.recipients[0] for m in sink.wait_messages(MESSAGES, 300)]
                self.assertEqual(sorted(arrived), sorted(f"b{n}@far.example" for n in range(MESSAGES)))
            refused, beside = (sum(far.refusals().values()) for far in (ours, theirs))
            self.assertLessEqual(refused, min(30, beside / 5), (ours.refusals(), theirs.refusals()))


if __name__ == "__main__":
    unittest.main()
