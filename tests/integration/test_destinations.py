"""Shows and orders destinations with pendest, and checks the effect on the wire."""
import json
import subprocess
import time

from harness import *

SOON = {"minimal_backoff_time": "1s", "maximal_backoff_time": "4s", "queue_run_delay": "1s"}


class Destinations(Suite):
    def pendest(self, mx, *words, status=0):
        done = mx.tool("pendest", *words)
        self.assertEqual(done.returncode, status, f"pendest {words}: {done.stdout}{done.stderr}")
        return done

    def lines(self, mx, *words):
        return [json.loads(line) for line in self.pendest(mx, "--json", *words).stdout.splitlines()]

    def test_a_suspended_domain_waits_with_its_reason_over_a_kill_until_it_is_resumed(self):
        with Peer() as peer, Instance({**relay_to(peer, "rcpt.example", "other.example"), **SOON}) as mx:
            self.pendest(mx, "suspend", "rcpt.example", "moving", "house")
            send(mx.port, "ada@sender.example", ["a@rcpt.example", "b@other.example"], mail())
            self.assertEqual(peer.wait_messages(1)[0].recipients, ["b@other.example"])
            mx.wait_log(r"to=<a@rcpt\.example>, relay=none, .*dsn=4\.3\.2, status=deferred "
                        r"\(delivery to rcpt\.example is suspended: moving house\)")
            waiting = eventually(lambda: [e for e in mx.queue() if e["queue_name"] == "deferred"], "deferred")
            self.assertIn("moving house", waiting[0]["recipients"][0]["delay_reason"])
            self.assertIn("moving house", mx.tool("penqueue", "-p", check=True).stdout)
            explained = self.lines(mx, "explain", "a@rcpt.example")[0]
            self.assertEqual((explained["decision"], explained["nexthop"]), ("suspended", f"[127.0.0.1]:{peer.port}"))
            self.assertIn("moving house", explained["suspended"])
            # The order was on disk before pendest ended.
            mx.kill("qmgr")
            mx.flush()
            suspended = [e for e in self.lines(mx, "list") if e["type"] == "suspension"]
            self.assertEqual([(e["name"], e["reason"]) for e in suspended], [("rcpt.example", "moving house")])
            self.assertEqual(len(peer.messages), 1)
            self.pendest(mx, "resume", "rcpt.example")
            self.assertEqual(peer.wait_messages(2, seconds=60)[1].recipients, ["a@rcpt.example"])
            mx.wait_empty_queue()
            self.pendest(mx, "resume", "rcpt.example", status=65)

    def test_a_suspended_host_is_passed_over_for_the_next_preference(self):
        port = free_port()
        with Peer(host="127.0.0.11", port=port) as first, Peer(host="127.0.0.12", port=port) as second, \
                Dns({("multi.example", "MX"): [(10, "mx1.multi.example"), (20, "mx2.multi.example")],
                     ("mx1.multi.example", "A"): ["127.0.0.11"], ("mx2.multi.example", "A"): ["127.0.0.12"]}) as dns:
            with Instance({**dns.settings(), "smtp_tcp_port": str(port), **SOON}) as mx:
                send(mx.port, "ada@sender.example", ["a@multi.example"], mail())
                first.wait_messages(1)
                self.pendest(mx, "suspend", "127.0.0.11")
                explained = self.lines(mx, "explain", "a@multi.example")[0]
                states = {h["destination"]: (h["level"], h["state"], h["chosen"]) for h in explained["hosts"]}
                self.assertEqual(states, {f"mx1.multi.example[127.0.0.11]:{port}": (1, "suspended", False),
                                          f"mx2.multi.example[127.0.0.12]:{port}": (2, "unused", True)})
                self.assertEqual(explained["decision"], "unused")
                send(mx.port, "ada@sender.example", ["b@multi.example"], mail())
                second.wait_messages(1)
                self.pendest(mx, "suspend", "mx2.multi.example", "both")
                send(mx.port, "ada@sender.example", ["c@multi.example"], mail())
                mx.wait_log(r"to=<c@multi\.example>, .*status=deferred \(delivery to 127\.0\.0\.11 is suspended\)")
                self.pendest(mx, "resume", "127.0.0.11")
                first.wait_messages(2, seconds=60)
                mx.wait_empty_queue()

    def test_defer_destinations_holds_mail_until_its_table_says_otherwise(self):
        with Peer() as peer, Instance({**relay_to(peer, "rcpt.example", "other.example"), **SOON}, start=False) as mx:
            listed = mx.write("listed", "rcpt.example x\n")
            mx.set(defer_destinations=f"texthash:{listed}")
            mx.start()
            send(mx.port, "ada@sender.example", ["a@rcpt.example", "b@other.example"], mail())
            self.assertEqual(peer.wait_messages(1)[0].recipients, ["b@other.example"])
            mx.wait_log(r"to=<a@rcpt\.example>, .*dsn=4\.3\.2, status=deferred "
                        r"\(delivery to rcpt\.example is suspended by defer_destinations\)")
            mx.flush()  # does not override the suspension
            mx.wait_log(r"(?s)(suspended by defer_destinations.*){2}")
            self.assertEqual(self.lines(mx, "explain", "a@rcpt.example")[0]["decision"], "suspended")
            mx.write("listed", "nobody.example x\n")
            self.assertEqual(peer.wait_messages(2, seconds=60)[1].recipients, ["a@rcpt.example"])

    def test_defer_transports_holds_mail_until_it_is_flushed(self):
        with Peer() as peer, Instance({**relay_to(peer), **SOON, "minimal_backoff_time": "300s",
                                       "maximal_backoff_time": "300s", "defer_transports": "smtp"}) as mx:
            for name in ("a", "b", "c"):
                send(mx.port, "ada@sender.example", [f"{name}@rcpt.example"], mail())
            mx.wait_log(r"(?s)(dsn=4\.3\.2, status=deferred \(deferred transport\).*){3}")
            eventually(lambda: [e["queue_name"] for e in mx.queue()] == ["deferred"] * 3, "deferred")
            first = mx.queue()[0]
            mx.tool("penqueue", "-i", first["queue_id"], check=True)
            self.assertEqual(peer.wait_messages(1)[0].recipients, [first["recipients"][0]["address"]])
            mx.flush()
            peer.wait_messages(3)
            mx.wait_empty_queue()

    def test_a_rate_delay_keeps_deliveries_to_one_destination_apart_and_no_other(self):
        with Peer() as peer, Peer() as other:
            settings = relay_to(peer)
            settings["relay_domains"] += ", fast.example"
            settings["transport_maps"] = inline({"rcpt.example": f"slow:[127.0.0.1]:{peer.port}",
                                                 "fast.example": f"smtp:[127.0.0.1]:{other.port}"})
            with Instance({**settings, "slow_destination_rate_delay": "1s", "slow_destination_recipient_limit": "2"},
                          {"slow": "unix - - n - - smtp"}) as mx:
                begins = []
                peer.replies["MAIL"] = lambda session, line: begins.append(time.monotonic())
                send(mx.port, "ada@sender.example", [f"u{i}@rcpt.example" for i in range(6)], mail())
                send(mx.port, "ada@sender.example", [f"u{i}@fast.example" for i in range(3)], mail())
                other.wait_messages(1)
                explained = eventually(lambda: [e for e in self.lines(mx, "explain", "x@rcpt.example")
                                                if "rate_delay_left_ms" in e["hosts"][0]], "pausing")[0]
                self.assertEqual(explained["destination_rate_delay_ms"], 1000)
                got = peer.wait_messages(3)
                self.assertEqual(sorted(len(m.recipients) for m in got), [2, 2, 2])
                mx.wait_empty_queue()
                for before, after in zip(begins, begins[1:]):
                    self.assertGreaterEqual(after - before, 0.99)

    def test_a_host_that_says_when_to_come_back_is_believed_and_so_is_greylisting(self):
        with Peer() as peer, Peer() as grey:
            settings = relay_to(peer)
            settings["relay_domains"] += ", grey.example"
            settings["transport_maps"] = inline({"rcpt.example": f"smtp:[127.0.0.1]:{peer.port}",
                                                 "grey.example": f"smtp:[127.0.0.1]:{grey.port}"})
            peer.replies["GREETING"] = ["421 4.7.0 Too many connections, try again in 10 minutes"]
            grey.replies["RCPT"] = lambda session, line: "450 4.2.0 Greylisted, try again in 50 minutes"
            with Instance(settings) as mx:
                began = time.time()
                send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail())
                send(mx.port, "ada@sender.example", ["b@grey.example"], mail())
                mx.wait_log(r"(?s)(status=deferred.*){2}")
                shown = self.lines(mx, "show", f"[127.0.0.1]:{peer.port}")[0]
                self.assertEqual(shown["trouble"], "greeting 4xx")
                self.assertGreaterEqual(shown["next_retry"], began + 599)
                self.assertLessEqual(shown["next_retry"], time.time() + 661)
                waits = eventually(
                    lambda: [e for e in mx.queue() if e["queue_name"] == "deferred"][1:] and mx.queue(), "two"
                )
                due = {e["recipients"][0]["address"]: e["next_try"] - began for e in waits}
                self.assertGreaterEqual(due["a@rcpt.example"], 595)
                self.assertGreaterEqual(due["b@grey.example"], 2995)
                self.assertLessEqual(due["b@grey.example"], 4100)

    def test_a_failing_host_is_shown_with_its_next_try_and_forgotten_on_demand(self):
        peer = Peer()
        settings = relay_to(peer)
        port = peer.port
        peer.close()
        settings.update({"minimal_backoff_time": "100s"})
        with Instance(settings) as mx:
            send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail())
            mx.wait_log("status=deferred")
            shown = self.lines(mx, "show", "127.0.0.1")[0]
            self.assertEqual(
                (shown["state"], shown["failures"], shown["trouble"]), ("failing", 1, "connection refused")
            )
            self.assertIn("refused", shown["reason"])
            self.assertIn("next try", self.pendest(mx, "show", f"[127.0.0.1]:{port}").stdout)
            self.assertIn("refused", self.pendest(mx, "list").stdout)
            text = self.pendest(mx, "explain", "a@rcpt.example").stdout
            self.assertRegex(text, r"failing .*1 failures, next try in \d+ s")
            self.assertRegex(text, r"decision +rule 4: ")
            self.pendest(mx, "forget", "127.0.0.1")
            self.assertEqual(self.lines(mx, "explain", "a@rcpt.example")[0]["decision"], "unused")
            with Peer(port=port) as up:
                send(mx.port, "ada@sender.example", ["b@rcpt.example"], mail())
                self.assertEqual(up.wait_messages(1)[0].recipients, ["b@rcpt.example"])

    def test_what_is_on_disk_is_shown_and_ordered_while_the_system_is_down(self):
        with Peer() as peer, Instance({**relay_to(peer), **SOON}) as mx:
            send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail())
            peer.wait_messages(1)
            mx.wait_empty_queue()
            eventually(lambda: subprocess.run(["grep", "-aq", f":{peer.port}", mx.path("data", "destdb", "data.mdb")])
                       .returncode == 0, "written")
            mx.stop()
            eventually(lambda: not mx.pids(), "stopped")
            done = self.pendest(mx, "list")
            self.assertIn(f"[127.0.0.1]:{peer.port}", done.stdout)
            self.assertIn("not running", done.stderr)
            self.assertIn("not running", self.pendest(mx, "suspend", "127.0.0.1", "before the start").stderr)
            shown = self.pendest(mx, "show", "127.0.0.1").stdout
            self.assertIn("suspended by hand", shown)
            explained = self.pendest(mx, "explain", "a@rcpt.example")
            self.assertRegex(explained.stdout, r"transport +smtp\nnext hop +\[127\.0\.0\.1\]")
            self.assertIn("before the start", explained.stdout)
            self.assertIn("not running", explained.stderr)
            mx.start()
            send(mx.port, "ada@sender.example", ["b@rcpt.example"], mail())
            mx.wait_log(r"to=<b@rcpt\.example>, .*suspended: before the start")
            self.assertEqual(len(peer.messages), 1)

    def test_a_damaged_file_is_set_aside_and_mail_flows(self):
        with Peer() as peer, Instance(relay_to(peer), start=False) as mx:
            mx.start()
            send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail())
            peer.wait_messages(1)
            mx.stop()
            eventually(lambda: not mx.pids(), "stopped")
            with open(mx.path("data", "destdb", "data.mdb"), "r+b") as file:
                file.write(b"no database" * 1000)
            done = mx.tool("pendest", "list")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("damaged", done.stderr)
            mx.start()
            send(mx.port, "ada@sender.example", ["b@rcpt.example"], mail())
            peer.wait_messages(2)
            mx.wait_log(r"warning: .*set aside as")

    def test_wrong_words_are_told(self):
        with Instance(start=False) as mx:
            for words in ((), ("nonsense",), ("show",), ("suspend", "user@domain.example"),
                          ("list", "more"), ("resume", "a.example", "b.example"), ("suspend", "a b")):
                done = mx.tool("pendest", *words)
                self.assertEqual(done.returncode, 64, words)
                self.assertTrue(done.stderr, words)
            # It could be a destination, and nothing is known of one.
            self.assertEqual(mx.tool("pendest", "explain", "nobody").returncode, 65)
            self.assertEqual(mx.tool("pendest", "suspend", "a.example").returncode, 69)  # the suite has never run
            self.assertIn("usage:", mx.tool("pendest", "--help").stdout)
            self.assertIn("Penstock", mx.tool("pendest", "--version").stdout)


if __name__ == "__main__":
    unittest.main()
