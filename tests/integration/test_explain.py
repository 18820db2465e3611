"""penqueue --follow and penstock explain: what they say of messages in states that are known."""
import json
import os
import re
import subprocess
import threading

from event_stream import described, events_directory, files, wait_logged
from harness import *

SETTINGS = {"smtpd_peername_lookup": "no", "smtpd_error_sleep_time": "0", "minimal_backoff_time": "1000s",
            "maximal_backoff_time": "4000s"}


def queue_id(reply):
    return re.search(r"queued as (\w+)", reply)[1]


class Explain(Suite):
    def sent(self, mx, *recipients):
        with Client(mx.port) as client:
            return queue_id(client.send("ada@a.example", list(recipients), mail()))

    def explained(self, mx, message):
        text = mx.tool("penstock", "explain", message, check=True).stdout
        return json.loads(mx.tool("penstock", "explain", "--json", message, check=True).stdout), text

    def until_cause(self, mx, message, cause):
        def is_so():
            done = mx.tool("penstock", "explain", "--json", message)
            self.last = done.stdout + done.stderr
            return done.returncode == 0 and any(r["cause"] == cause for r in json.loads(done.stdout)["recipients"])
        eventually(is_so, lambda: f"{cause}, and not {self.last}\n{mx.log()[-3000:]}")
        return self.explained(mx, message)

    def test_a_host_that_puts_mail_off(self):
        with Peer() as peer:
            peer.replies["RCPT"] = lambda session, line: "450 4.7.1 Greylisted, see you"
            with Instance({**SETTINGS, **relay_to(peer, "b.example")}) as mx:
                message = self.sent(mx, "bob@b.example")
                story, text = self.until_cause(mx, message, "put_off_by_host")
                self.assertEqual(story["state"], "deferred")
                [one] = story["recipients"]
                self.assertIn("Greylisted, see you", one["said"])
                self.assertEqual(one["destination"], f"smtp:[127.0.0.1]:{peer.port}")
                queued = json.loads(mx.tool("penqueue", "-j", message, check=True).stdout)
                self.assertGreater(one["at"], queued["arrival_time"] + 900)
                self.assertEqual(story["next_try"], one["at"])
                self.assertEqual(story["returned_at"], queued["arrival_time"] + 432000)
                for words in ("It waits in the queue", "Greylisted, see you", "penqueue -i " + message,
                              f"127.0.0.1[127.0.0.1]:{peer.port}"):
                    self.assertIn(words, text)

    def test_a_host_that_is_closed(self):
        port = free_port()
        with Instance({**SETTINGS, "transport_maps": inline({"b.example": f"smtp:[127.0.0.1]:{port}"})}) as mx:
            story, text = self.until_cause(mx, self.sent(mx, "bob@b.example"), "host_failing")
            self.assertIn("Connection refused", story["recipients"][0]["why"])
            self.assertIn(f"do    pendest forget '[127.0.0.1]:{port}'", text)
            mx.tool("pendest", "show", f"[127.0.0.1]:{port}", check=True)

    def test_hold_release_and_a_message_that_is_gone(self):
        with Instance({**SETTINGS, "transport_maps": inline({"b.example": "discard:"}),
                       "smtpd_recipient_restrictions": "check_recipient_access inline:{bob@b.example=HOLD}, permit"}
                      ) as mx:
            message = self.sent(mx, "bob@b.example")
            story, text = self.until_cause(mx, message, "on_hold")
            self.assertEqual(story["state"], "hold")
            self.assertNotIn("next_try", story)
            self.assertIn("pensuper -H " + message, text)
            mx.tool("pensuper", "-H", message, check=True)
            mx.wait_empty_queue()
            gone = mx.tool("penstock", "explain", message)
            self.assertEqual(gone.returncode, 65)
            self.assertIn("no such message", gone.stderr)
            self.assertEqual(mx.tool("penstock", "explain").returncode, 64)

    def test_a_destination_that_is_suspended_by_hand(self):
        with Peer() as peer, Instance({**SETTINGS, **relay_to(peer, "b.example")}) as mx:
            mx.tool("pendest", "suspend", "127.0.0.1", "until noon", check=True)
            message = self.sent(mx, "bob@b.example")
            story, text = self.until_cause(mx, message, "suspended")
            self.assertIn("until noon", story["recipients"][0]["why"])
            self.assertIn("pendest resume '127.0.0.1'", text)

    def test_a_rate_delay(self):
        with Peer() as peer:
            with Instance({**SETTINGS, **relay_to(peer, "b.example"), "smtp_destination_rate_delay": "1000s"}) as mx:
                self.sent(mx, "first@b.example")
                peer.wait_messages(1)
                message = self.sent(mx, "second@b.example")
                story, text = self.until_cause(mx, message, "rate_limited")
                self.assertIn("1000 s", story["recipients"][0]["why"])
                self.assertIn("smtp_destination_rate_delay", text)

    def test_no_name_server(self):
        with Instance({**SETTINGS, "relay_domains": "b.example"}) as mx:
            story, _ = self.until_cause(mx, self.sent(mx, "bob@b.example"), "no_route")
            self.assertEqual(story["state"], "deferred")
            self.assertRegex(story["recipients"][0]["why"], "(?i)name service|not found|timed out|b.example")

    def test_one_that_is_being_delivered(self):
        answer = threading.Event()
        self.addCleanup(answer.set)

        def wait(session, line):
            answer.wait(60)

        with Peer() as peer:
            peer.replies["RCPT"] = wait
            with Instance({**SETTINGS, **relay_to(peer, "b.example")}) as mx:
                message = self.sent(mx, "bob@b.example")
                story, text = self.until_cause(mx, message, "delivering")
                self.assertEqual(story["state"], "active")
                self.assertIn("It is being worked on.", text)
                answer.set()
                peer.wait_messages(1)


class History(Suite):
    def test_what_became_of_mail_is_told_by_message_and_by_address(self):
        with Peer() as peer:
            peer.replies["RCPT"] = lambda session, line: "550 5.1.1 nobody" if "<no" in line else "250 ok"
            with Instance({**SETTINGS, **relay_to(peer, "b.example")}) as mx:
                refused = mx.tool("penstock", "history", "4jYBDz5JQyzy2qdhL")
                self.assertEqual((refused.returncode, refused.stdout), (69, ""))
                self.assertIn("set event_log_file", refused.stderr)
                mx.set(**files(mx))
                mx.reload()
                with Client(mx.port) as client:
                    message = queue_id(client.send("ada@a.example", ["bob@b.example"], mail()))
                    wait_logged(mx, lambda events: any(e["type"] == "removed" for e in events), "the first is gone")
                    # The file is renamed as logrotate(8) does it, and what follows is in the next one.
                    path = os.path.join(events_directory(mx), "events.json")
                    os.rename(path, path + ".1")
                    subprocess.run(["gzip", path + ".1"], check=True)
                    client.send("ada@a.example", ["no@b.example"], mail())
                wait_logged(mx, lambda events: any(e["type"] == "bounced" for e in events), "the second failed")
                told = mx.tool("penstock", "history", message, check=True).stdout
                self.assertRegex(told, rf"\A{message}  from <ada@a\.example>, \d+ bytes\n  \S+ \S+  received from ")
                self.assertRegex(told, r"\n  \S+ \S+  delivered to <bob@b\.example>, by .*: 250 ")
                self.assertRegex(told, r"\n  \S+ \S+  has left the queue\n\Z")
                gone = mx.tool("penstock", "explain", message, check=True)
                self.assertEqual(gone.stdout, told)
                self.assertIn("no such message in the queue", gone.stderr)
                lines = mx.tool("penstock", "history", "--json", "<ADA@a.example>", check=True).stdout.splitlines()
                events = [described(line) for line in lines]
                self.assertEqual([e["type"] for e in events if e.get("from") == "ada@a.example"],
                                 ["received", "delivered", "received", "bounced"])
                last = mx.tool("penstock", "history", "-n", "1", "no@b.example", check=True)
                self.assertIn("cannot be delivered to <no@b.example>", last.stdout)
                self.assertIn("there are older events", last.stderr)
                self.assertEqual(mx.tool("penstock", "history", "nobody@b.example").returncode, 65)
                self.assertEqual(mx.tool("penstock", "history", "no address").returncode, 64)


class Follow(Suite):
    def follow(self, mx, *words):
        process = subprocess.Popen([os.path.join(BIN, "penqueue"), "-c", mx.etc, "--follow", *words],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        limit = threading.Timer(120, process.kill)  # what waits for a line in vain then sees the end
        limit.start()
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(limit.cancel)
        return process

    def deferred(self, mx, client, recipient, sender=""):
        """Sends a message, and waits until it waits."""
        message = queue_id(client.send(sender, [recipient], mail()))
        eventually(lambda: any(m["queue_id"] == message and m["queue_name"] == "deferred" for m in mx.queue()),
                   lambda: f"{message} waits: {mx.queue()}")
        return message

    def until(self, process, pattern):
        """Reads lines up to one that fits, which the test's time limit bounds. Returns them."""
        lines = []
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            if re.search(pattern, line):
                return lines
        self.fail(f"it ended before {pattern}: {lines}")

    def test_from_the_first_deferral_to_the_delivery(self):
        with Peer() as peer:
            peer.replies["RCPT"] = ["450 4.7.1 not yet"]
            with Instance({**SETTINGS, **relay_to(peer, "b.example")}) as mx:
                with Client(mx.port) as client:
                    message = self.deferred(mx, client, "bob@b.example", "ada@a.example")
                process = self.follow(mx, message)
                first = self.until(process, "waits for <bob@b.example>")
                self.assertRegex(first[0], rf"^[-\d]+ [:\d]+ {message} is in the queue, deferred: from "
                                           r"<ada@a.example>, \d+ bytes, 1 left, next try .* \(in \d+ s\)$")
                self.assertIn("450 4.7.1 not yet", first[-1])
                mx.tool("penqueue", "-i", message, check=True)
                rest = self.until(process, "has left the queue")
                self.assertEqual(process.wait(60), 0)
                text = "\n".join(rest)
                for pattern in ("is being worked on$",
                                rf"is handed to smtp:\[127.0.0.1\]:{peer.port}: <bob@b.example>$",
                                "delivered to <bob@b.example>: .*250"):
                    self.assertRegex(text, re.compile(pattern, re.M))
                self.assertEqual(self.follow(mx, message).wait(60), 65)

    def test_a_bounce_a_deletion_and_each_attempt_as_json(self):
        with Peer() as peer:
            peer.replies["RCPT"] = lambda session, line: "550 5.1.1 nobody" if "<no" in line else "450 4.7.1 later"
            with Instance({**SETTINGS, **relay_to(peer, "b.example"), "soft_bounce": "no"}) as mx:
                everything = self.follow(mx, "-j")
                with Client(mx.port) as client:
                    message = self.deferred(mx, client, "later@b.example")
                    one = self.follow(mx, message)
                    self.until(one, "waits for <later@b.example>")
                    mx.tool("pensuper", "-h", message, check=True)
                    self.until(one, "is put on hold")
                    mx.tool("pensuper", "-d", message, check=True)
                    self.until(one, "was deleted by an order")
                    self.assertEqual(one.wait(60), 2)
                    bounced = queue_id(client.send("", ["no@b.example"], mail()))
                events = [json.loads(line) for line in self.until(everything, rf'"removed".*{bounced}')]
                steps = [e["event"] for e in events if e["queue_id"] == bounced]
                self.assertEqual(steps, ["active", "handed", "failed", "removed"])
                [failed] = [e for e in events if e["queue_id"] == bounced and e["event"] == "failed"]
                self.assertEqual((failed["recipients"], failed["count"]), (["no@b.example"], 1))
                self.assertIn("550 5.1.1 nobody", failed["text"])

    def test_the_status_says_that_some_were_returned(self):
        with Peer() as peer:
            peer.replies["RCPT"] = ["450 4.7.1 later", "550 5.1.1 nobody"]
            with Instance({**SETTINGS, **relay_to(peer, "b.example")}) as mx:
                with Client(mx.port) as client:
                    message = self.deferred(mx, client, "no@b.example")
                process = self.follow(mx, message)
                self.until(process, "waits for")
                mx.tool("penqueue", "-i", message, check=True)
                self.until(process, "cannot be delivered to <no@b.example>")
                self.until(process, "has left the queue")
                self.assertEqual(process.wait(60), 1)

    def test_a_queue_manager_that_was_killed_is_followed_on(self):
        with Peer() as peer:
            peer.replies["RCPT"] = ["450 4.7.1 later"]
            with Instance({**SETTINGS, **relay_to(peer, "b.example")}) as mx:
                with Client(mx.port) as client:
                    message = self.deferred(mx, client, "bob@b.example", "ada@a.example")
                process = self.follow(mx, message)
                self.until(process, "is in the queue, deferred")
                mx.kill("qmgr")
                self.until(process, "is in the queue")
                mx.tool("penqueue", "-i", message, check=True)
                self.until(process, "has left the queue")
                self.assertEqual(process.wait(60), 0)

    def test_without_a_mail_system_it_says_so(self):
        with Instance(SETTINGS) as mx:
            self.assertEqual(mx.tool("penqueue", "--follow", "4jYBDz5JQyzy2qdhL").returncode, 65)
            self.assertEqual(mx.tool("penqueue", "--follow", "-p").returncode, 64)
            mx.stop()
            self.assertEqual(mx.tool("penqueue", "--follow").returncode, 69)


if __name__ == "__main__":
    unittest.main()
