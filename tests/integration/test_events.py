"""penevents: what is told of a known run, files, readers, web servers that fail, and that mail never waits for it."""
import csv
import glob
import gzip
import json
import os
import re
import shutil
import signal
import socket
import tempfile
import time

from certificates import Authority
from event_stream import Reader, WebServer, events_directory, files, logged, wait_logged
from harness import *
from peer import server_context
from test_auth_server import FakeDovecot, plain
from test_penapi import TOKEN, UNIX, Api, token_file


def of(events, kind):
    return [e for e in events if e["type"] == kind]


def prepared(settings=None, services=None):
    """An instance that is not started, with files for events."""
    mx = Instance(settings, services, start=False)
    mx.set(**files(mx))
    return mx


def send_all(mx, count, prefix="n", to="u@virtual.test.example"):
    for i in range(count):
        send(mx.port, f"{prefix}{i}@client.example", [to], mail(f"{prefix}{i}"))


VIRTUAL = {"virtual_mailbox_maps": inline({"u@virtual.test.example": "u/"}), "smtpd_error_sleep_time": "0"}


class Run(Suite):
    def test_a_known_run_is_told_as_the_log_has_it(self):
        """Two deliveries, one deferral, one bounce with its notice, a refused recipient, a wrong password, an order."""
        def answer(session, line):
            if "later@" in str(line):
                return "450 4.2.0 later"
            return "550 5.1.1 no \"such\" user" if "never@" in str(line) else None

        def refuse(peer, line):
            if line.startswith("AUTH"):
                peer.sendall(f"FAIL\t{line.split(chr(9))[1]}\tuser=anna\n".encode())
        dovecot = FakeDovecot(refuse)
        with Peer() as good:
            good.replies["RCPT"] = answer
            mx = prepared({**relay_to(good), **VIRTUAL, "smtpd_sasl_auth_enable": "yes", "smtpd_sasl_type": "dovecot",
                           "smtpd_sasl_path": f"inet:127.0.0.1:{dovecot.port}"})
            mx.start()
            with mx:
                for to in ("u@virtual.test.example", "ok@rcpt.example", "later@rcpt.example", "never@rcpt.example"):
                    send(mx.port, "u@virtual.test.example", [to], mail(to))
                with Client(mx.port) as c:
                    self.assertEqual(c.command("AUTH PLAIN " + plain("anna", "wrong"))[:3], "535")
                    c.command("MAIL FROM:<x@example.org>")
                    self.assertEqual(c.command("RCPT TO:<nobody@virtual.test.example>")[:3], "550")
                    c.quit()
                found = wait_logged(mx, lambda e: len(of(e, "delivered")) >= 3 and of(e, "deferred") and
                                    of(e, "bounced") and of(e, "auth_failed") and of(e, "rejected"), "the run")
                later = of(found, "deferred")[0]
                mx.tool("pensuper", "-d", later["queue_id"], check=True)
                found = wait_logged(mx, lambda e: of(e, "order") and len(of(e, "removed")) >= 4, "the order")
                log = mx.log()

                ids = [e["id"] for e in found]
                self.assertEqual(ids, sorted(set(ids)))
                for e in found:
                    self.assertEqual(list(e)[:3], ["id", "time", "type"])
                    self.assertRegex(e["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
                    self.assertEqual(e["host"], "mx.test.example")
                # Each line of a delivery, and each event of one, is the other's.
                lines = re.findall(r"\]: (\w+): to=<(.*?)>.*?, relay=(.*?),.* dsn=(.*?), status=(\w+) ", log)
                told = [(e["queue_id"], e["to"], e["relay"], e["dsn"], e["status"])
                        for e in found if e["type"] in ("delivered", "deferred", "bounced")]
                self.assertEqual(sorted(told), sorted(lines))
                self.assertEqual(sorted(e["queue_id"] for e in of(found, "received")),
                                 sorted(set(re.findall(r"\]: (\w+): from=<.*\(queue active\)", log))))
                self.assertEqual(sorted([e["queue_id"] for e in of(found, "removed")] + [later["queue_id"]]),
                                 sorted(re.findall(r"qmgr\[\d+\]: (\w+): removed", log)))

                received = of(found, "received")[0]
                self.assertEqual((received["client_address"], received["from"], received["nrcpt"], received["proto"]),
                                 ("127.0.0.1", "u@virtual.test.example", 1, "ESMTP"))
                self.assertIn(f"message-id={received['message_id']}", log)
                self.assertEqual((later["final"], later["relay_address"], later["relay_port"], later["reply_code"]),
                                 (False, "127.0.0.1", good.port, 450))
                bounced = of(found, "bounced")[0]
                self.assertEqual((bounced["final"], bounced["dsn"], bounced["reply_code"]), (True, "5.1.1", 550))
                self.assertIn('no "such" user', bounced["reply"])
                self.assertEqual(set(bounced["delays"]),
                                 {"before_queue_manager", "queue_manager", "connection_setup", "transmission"})
                rejected, = of(found, "rejected")
                self.assertEqual((rejected["stage"], rejected["to"], rejected["from"], rejected["reply_code"],
                                  rejected["dsn"]),
                                 ("RCPT", "nobody@virtual.test.example", "x@example.org", 550, "5.1.1"))
                failed, = of(found, "auth_failed")
                # What happened in one session has its name, and nothing else has.
                self.assertEqual(failed["session"], rejected["session"])
                self.assertRegex(failed["session"], r"^\d+-\d+$")
                self.assertEqual(failed["session"].split("-")[0], str(failed["pid"]))
                by_smtp = [e["session"] for e in of(found, "received") if e.get("client_address")]
                self.assertEqual((len(by_smtp), len({*by_smtp, failed["session"]})), (4, 5))
                self.assertNotIn("session", [e for e in of(found, "received") if not e.get("client_address")][0])
                self.assertEqual({e["attempt"] for e in of(found, "delivered") + of(found, "bounced")}, {1})
                self.assertEqual(later["session"].split("-")[0], str(later["pid"]))
                self.assertEqual((failed["sasl_method"], failed["sasl_username"], failed["client_address"]),
                                 ("PLAIN", "anna", "127.0.0.1"))
                order, = of(found, "order")
                self.assertEqual((order["queue_id"], order["action"]), (later["queue_id"], "removed"))
                self.assertTrue({"smtpd", "qmgr"} <= {e["program"] for e in of(found, "started")})

                with open(os.path.join(events_directory(mx), "accounting.csv"), newline="") as text:
                    rows = list(csv.DictReader(text))
                self.assertEqual(sorted(r["type"] for r in rows), ["b", "d", "d", "d", "t"])
                put_off, = [r for r in rows if r["type"] == "t"]
                self.assertEqual((put_off["rcpt"], put_off["dsnAction"], put_off["dsnStatus"], put_off["dsnDiag"][:3]),
                                 ("later@rcpt.example", "delayed", "4.2.0", "hos"))
                lost, = [r for r in rows if r["type"] == "b"]
                self.assertEqual((lost["rcpt"], lost["dsnStatus"], lost["bounceCat"], lost["queue"]),
                                 ("never@rcpt.example", "5.1.1", "bad-mailbox", "rcpt.example"))
                mx.stop()
                stopped = {e["program"] for e in of(logged(mx), "stopped")}
                self.assertTrue({"smtpd", "qmgr", "penevents"} <= stopped, stopped)
        dovecot.close()

    def test_each_recipient_of_a_message_that_expires_has_its_end_and_a_row(self):
        with Peer() as peer:
            peer.replies["RCPT"] = "450 4.2.0 later"
            mx = prepared(relay_to(peer))
            mx.start()
            with mx:
                to = [f"r{i}@rcpt.example" for i in range(3)]
                send(mx.port, "a@client.example", to, mail("old"))
                found = wait_logged(mx, lambda e: len(of(e, "deferred")) >= 3, "the deferrals")
                id = of(found, "deferred")[0]["queue_id"]
                mx.tool("pensuper", "-e", id, check=True)
                found = wait_logged(mx, lambda e: len(of(e, "bounced")) >= 3 and
                                    id in [r["queue_id"] for r in of(e, "removed")], "the end")
                ends = [e for e in of(found, "bounced") if e["queue_id"] == id]
                self.assertEqual(sorted(e["to"] for e in ends), to)
                for e in ends:
                    self.assertEqual((e["final"], e["dsn"], e["status"], e["reason"], e["reply_code"]),
                                     (True, "4.4.7", "force-expired", "message expired before it could be delivered",
                                      450))
                self.assertEqual(len(of(found, "expired")), 1)
                with open(os.path.join(events_directory(mx), "accounting.csv"), newline="") as text:
                    rows = [r for r in csv.DictReader(text) if r["type"] == "b"]
                self.assertEqual(sorted((r["rcpt"], r["dsnStatus"], r["bounceCat"], r["dsnAction"]) for r in rows),
                                 [(r, "4.4.7", "message-expired", "failed") for r in to])

    def test_orders_say_who_gave_them(self):
        with Peer() as peer:
            peer.replies["RCPT"] = "450 4.2.0 later"
            mx = prepared({**relay_to(peer), "penapi_token_file": token_file(self.folder())}, dict([UNIX]))
            mx.start()
            with mx:
                to = [f"r{i}@rcpt.example" for i in range(60)]
                send(mx.port, "a@client.example", to, mail("many"))
                found = wait_logged(mx, lambda e: of(e, "received") and len(of(e, "deferred")) >= 60, "deferrals")
                received, = of(found, "received")
                self.assertEqual((received["recipients"], received["nrcpt"]), (to[:50], 60))
                id = received["queue_id"]
                api = Api(mx)
                suspend = "/api/v1/destinations/x.example/suspend"
                self.assertEqual(api.ask(suspend, "POST", {"reason": "work"}, TOKEN)[0], 200)
                mx.tool("pendest", "resume", "x.example", check=True)
                self.assertEqual(api.ask("/api/v1/queue/flush", "POST", {"ids": [id]}, TOKEN)[0], 200)
                mx.tool("penqueue", "-f", check=True)
                wait_logged(mx, lambda e: len(of(e, "order")) >= 4, "four orders")
                eventually(lambda: api.get("/api/v1/queue?state=deferred")["messages"], "it is at rest", 60)
                self.assertEqual(api.ask("/api/v1/queue/hold", "POST", {"ids": [id]}, TOKEN)[0], 200)
                mx.tool("pensuper", "-d", id, check=True)
                found = wait_logged(mx, lambda e: len(of(e, "order")) >= 6, "six orders")
                orders = of(found, "order")
                by_api, by_tool = rf"^penapi, token of line \d+, uid {os.geteuid()}$", rf"^uid {os.geteuid()}$"
                for event, action, by in zip(orders, ("suspended", "resumed", "flush", "flush", "placed on hold",
                                                      "removed"), (by_api, by_tool) * 3):
                    self.assertEqual(event["action"], action, orders)
                    self.assertRegex(event["by"], by)
                self.assertEqual((orders[0]["destination"], orders[0]["reason"]), ("x.example", "work"))
                self.assertEqual([e.get("queue_id") for e in orders], [None, None, id, None, id, id])

    def test_tries_are_numbered_over_restarts_and_a_connection_has_one_name(self):
        answers = {}
        with Peer() as good:
            good.replies["RCPT"] = lambda session, line: answers.get("now")
            mx = prepared({**relay_to(good), "minimal_backoff_time": "1d", "maximal_backoff_time": "1d"})
            mx.start()
            with mx:
                answers["now"] = "450 4.2.1 later"
                send(mx.port, "a@client.example", ["one@rcpt.example", "two@rcpt.example"], mail("x"))

                def tried(n):
                    wait_logged(mx, lambda e: len(of(e, "deferred")) == 2 * n, f"{n} tries")
                    eventually(lambda: [json.loads(line)["queue_name"] for line in
                                        mx.tool("penqueue", "-j").stdout.splitlines()] == ["deferred"], "it waits")
                tried(1)
                mx.tool("penqueue", "-f", check=True)
                tried(2)
                self.assertEqual(mx.kill("qmgr"), 1)
                eventually(lambda: mx.pids().get("qmgr"), "a new qmgr")
                answers["now"] = None
                eventually(lambda: mx.tool("penqueue", "-f").returncode == 0 and mx.queue() == [],
                           lambda: f"an empty queue\n{mx.log()}")
                found = wait_logged(mx, lambda e: len(of(e, "delivered")) == 2, "delivered")
                self.assertEqual([e["attempt"] for e in of(found, "deferred")], [1, 1, 2, 2])
                self.assertEqual([e["attempt"] for e in of(found, "delivered")], [3, 3])
                for kind in ("deferred", "delivered"):
                    for first, second in zip(of(found, kind)[::2], of(found, kind)[1::2]):
                        self.assertEqual(first["session"], second["session"])
                self.assertNotEqual(of(found, "deferred")[0]["session"], of(found, "delivered")[0]["session"])

    def test_types_are_chosen_and_nobody_is_told_without_a_consumer(self):
        mx = prepared({**VIRTUAL, "event_log_types": "delivered, removed"})
        mx.set(event_accounting_file="")
        mx.start()
        with mx:
            send_all(mx, 2)
            found = wait_logged(mx, lambda e: len(of(e, "removed")) == len(of(e, "delivered")) == 2, "both")
            self.assertEqual({e["type"] for e in found}, {"delivered", "removed"})
            before = len(found)
            mx.set(event_log_file="")
            mx.reload_whole()
            send_all(mx, 1, "later")
            mx.wait_log(r"from=<later0@client\.example>")
            eventually(lambda: len(re.findall(r"status=sent", mx.log())) == 3, mx.log)
            self.assertEqual(len(logged(mx)), before)

    def test_without_the_line_in_master_cf_mail_flows_and_the_log_says_what_is_missing(self):
        mx = prepared(VIRTUAL, {"events": None})
        mx.start()
        with mx:
            send_all(mx, 1)
            mx.wait_log("status=sent")
            mx.wait_log(r'master\.cf needs the line "events unix - - n - 1 penevents"')


class Files(Suite):
    def test_files_are_renamed_compressed_and_removed_and_a_moved_one_is_begun_anew(self):
        mx = prepared({**VIRTUAL, "event_log_rotate_size": "4000", "event_log_rotate_time": "1h",
                       "event_log_keep": "3"})
        mx.start()
        with mx:
            def old(ending=""):
                return sorted(n for n in os.listdir(events_directory(mx))
                              if re.fullmatch(r"events\.json\.[\d-]+" + ending, n))
            sent = 0

            def three_compressed():
                nonlocal sent
                send_all(mx, 1, f"m{sent}-")
                sent += 1
                return len(old(r"\.gz")) == 3 and sent > 12
            eventually(three_compressed, lambda: f"{os.listdir(events_directory(mx))}\n{mx.log()}")
            eventually(lambda: not old() and len(old(r"\.gz")) == 3, lambda: str(os.listdir(events_directory(mx))))
            last = 0
            for name in sorted(old(r"\.gz"), key=lambda name: name.removesuffix(".gz")):
                with gzip.open(os.path.join(events_directory(mx), name)) as text:
                    ids = [json.loads(line)["id"] for line in text]
                self.assertEqual(ids, sorted(ids))
                self.assertGreater(ids[0], last)
                last = ids[-1]
            path = os.path.join(events_directory(mx), "events.json")
            os.rename(path, path + ".mine")
            mx.tool("penstock", "logrotate", check=True)
            eventually(lambda: os.path.exists(path), mx.log)
            send_all(mx, 1, "after")
            wait_logged(mx, lambda e: any(x.get("from") == "after0@client.example" for x in e), "the new file")


    def test_the_service_may_have_another_name_and_renamed_files_may_stay_plain(self):
        mx = prepared({**VIRTUAL, "event_service_name": "told", "event_log_compress": "no",
                       "event_log_rotate_size": "2000"}, {"events": None, "told": "unix - - n - 1 penevents"})
        mx.start()
        with mx:
            send_all(mx, 6)
            eventually(lambda: any(re.fullmatch(r"events\.json\.[\d-]+", n) for n in os.listdir(events_directory(mx))),
                       lambda: f"{os.listdir(events_directory(mx))}\n{mx.log()}")
            self.assertFalse([n for n in os.listdir(events_directory(mx)) if n.endswith(".gz")])


class Stream(Suite):
    def setUp(self):
        super().setUp()
        self.mx = prepared({**VIRTUAL, "event_recent_limit": "2500", "event_subscriber_limit": "3",
                            "smtpd_error_sleep_time": "0s"})
        self.mx.start()
        self.addCleanup(self.mx.__exit__, None, None, None)

    def test_readers_get_the_recent_events_then_live_ones_as_they_asked(self):
        mx = self.mx
        send_all(mx, 2)
        wait_logged(mx, lambda e: len(of(e, "removed")) == 2, "two messages")
        with Reader(mx) as everything, Reader(mx, {"types": ["delivered"]}) as some:
            seen = everything.until(lambda e: e["type"] == "removed")
            seen += everything.until(lambda e: e["type"] == "removed")
            self.assertEqual([e["id"] for e in seen], [e["id"] for e in logged(mx)][:len(seen)])
            some.until(lambda e: e["from"] == "n1@client.example")
            send_all(mx, 1, "live")
            live = some.until(lambda e: e["from"] == "live0@client.example")
            self.assertEqual({e["type"] for e in live}, {"delivered"})
            seen += everything.until(lambda e: e.get("from") == "live0@client.example" and e["type"] == "delivered")
            one = of(seen, "received")[0]
        with Reader(mx, {"queue_id": one["queue_id"]}) as story:
            # smtp tells of the delivery, and qmgr of the end: either may be heard first.
            told = [story.next()["type"] for _ in range(3)]
            self.assertEqual([told[0], *sorted(told[1:])], ["received", "delivered", "removed"])
        with Reader(mx, {"types": ["removed"]}) as half:
            half.sock.shutdown(socket.SHUT_WR)
            half.until(lambda e: e["queue_id"] == one["queue_id"])
            send_all(mx, 1, "half")
            half.next()
        with Reader(mx, {"since": live[-1]["id"], "types": ["received", "delivered"]}) as since:
            send_all(mx, 1, "since")
            first = since.until(lambda e: e["from"] == "since0@client.example")
            self.assertTrue(all(e["id"] > live[-1]["id"] for e in first))

    def test_what_is_no_request_and_too_many_readers_are_told_so(self):
        mx = self.mx
        for request in (b"{", b'{"types":["nothing"]}', b"x" * 9000):
            with Reader(mx, request) as reader:
                self.assertIn("error", reader.next())
                self.assertIsNone(reader.next())
        with Reader(mx, {}) as a, Reader(mx, {}) as b, Reader(mx, {}) as c:
            for reader in (a, b, c):
                reader.next()
            with Reader(mx, {}) as fourth:
                self.assertIn("event_subscriber_limit", fourth.next()["error"])

        def free_again():
            with Reader(mx, {}) as reader:
                return "error" not in reader.next()
        eventually(free_again, "the places of readers that have gone", 20)

    def test_a_slow_reader_is_disconnected_and_others_are_not(self):
        mx = self.mx
        with Reader(mx, {}, buffer=4096) as slow:
            slow.next()
            sent = 0

            def too_slow():
                nonlocal sent
                with Client(mx.port) as c:  # refused recipients: each is an event
                    c.command("MAIL FROM:<x@example.org>")
                    for _ in range(15):
                        c.command(f"RCPT TO:<{'x' * 600}@virtual.test.example>")
                        sent += 1
                return "too slow" in mx.log()
            eventually(too_slow, lambda: f"{sent} events\n{mx.log()}", 300)
            with Reader(mx, {"types": ["started"]}) as other:
                send_all(mx, 1)
        wait_logged(mx, lambda e: any(x["type"] == "delivered" for x in e), "mail flows")


class WithTls(Suite):
    def test_a_delivery_says_how_it_was_encrypted(self):
        certificate = Authority(self.folder()).issue("mx.test.example")
        for peer in (Peer(), Peer(("PIPELINING", "STARTTLS"), tls=server_context(certificate))):
            with peer:
                mx = prepared({**relay_to(peer), "smtp_tls_security_level": "may"})
                mx.start()
                with mx:
                    send(mx.port, "a@client.example", ["b@rcpt.example"], mail())
                    found = wait_logged(mx, lambda e: of(e, "delivered"), "a delivery")
                    done, = of(found, "delivered")
                    facts = lambda e: {k: v for k, v in e.items() if k.startswith("tls_")}
                    sessions = of(found, "tls")
                    self.assertEqual(facts(done), facts(sessions[0]) if sessions else {})
                    if sessions:
                        self.assertEqual(done["tls_protocol"], "TLSv1.3")


class Web(Suite):
    SECRET = b"a secret of this test"

    def prepared(self, *servers, **more):
        mx = prepared({**VIRTUAL, "event_webhook_minimal_backoff": "1s", "event_webhook_maximal_backoff": "1s",
                       "event_webhook_batch_limit": "7", **more})
        secret = mx.write("secret", self.SECRET.decode() + "\n")
        os.chmod(secret, 0o600)
        mx.set(event_webhooks=", ".join(s.url for s in servers), event_webhook_secret_file=secret)
        return mx

    def wait_all(self, mx, server):
        """Waits until the server has every event that the log has; returns its ids."""
        def all_there():
            return {e["id"] for e in logged(mx)} <= {e["id"] for e in server.events()}
        eventually(all_there, lambda: f"{len(server.events())} of {len(logged(mx))}\n{mx.log()}", 60)
        self.assertEqual(server.problems, [])
        return [e["id"] for e in server.events()]

    def test_each_event_arrives_through_failures_and_deaths_and_nobody_waits_for_a_server_that_hangs(self):
        failing = {"now": False}
        with WebServer(self.SECRET, lambda n: 503 if failing["now"] else 200) as flaky, \
                WebServer(self.SECRET, lambda n: None) as hanging:
            mx = self.prepared(hanging, flaky, event_webhook_timeout="2s")
            mx.start()
            with mx:
                send_all(mx, 5)
                wait_logged(mx, lambda e: len(of(e, "removed")) == 5, "mail")
                self.wait_all(mx, flaky)
                eventually(lambda: hanging.batches >= 2, "the other one is asked again after event_webhook_timeout")
                failing["now"] = True
                asked = flaky.batches
                send_all(mx, 5, "failing")
                wait_logged(mx, lambda e: len(of(e, "removed")) == 10, "mail while it fails")
                eventually(lambda: flaky.batches >= asked + 2, mx.log)
                mx.wait_log(r"penevents\[\d+\]: warning: .*events are not taken, and wait: status 503")
                mx.kill("penevents")
                send_all(mx, 5, "dead")
                wait_logged(mx, lambda e: len(of(e, "removed")) == 15, "mail while it was dead")
                failing["now"] = False
                self.wait_all(mx, flaky)
                # The one that hung gets everything too, as soon as it answers.
                hanging.answer = lambda n: 200
                hanging.released.set()
                ids = self.wait_all(mx, hanging)
                self.assertEqual(len(ids), len(set(ids)))

    def test_a_batch_waits_until_it_is_full_and_a_certificate_is_checked(self):
        directory = tempfile.mkdtemp(prefix="pen-test-")
        self.addCleanup(shutil.rmtree, directory)
        authority, unknown = Authority(directory), Authority(directory + "/other", "Other CA")
        with WebServer(self.SECRET, certificate=authority.issue("localhost")) as known, \
                WebServer(self.SECRET, certificate=unknown.issue("localhost")) as other:
            mx = self.prepared(known, other, event_webhook_batch_delay="1h", event_webhook_types="removed")
            os.chmod(directory, 0o755)
            mx.set(event_webhook_tls_CAfile=authority.pem)
            mx.start()
            with mx:
                send_all(mx, 9)
                wait_logged(mx, lambda e: len(of(e, "removed")) == 9, "mail")
                eventually(lambda: known.events(), mx.log)
                self.assertEqual(len(known.events()), 7)
                mx.wait_log(r"penevents\[\d+\]: warning: https://localhost.*: events are not taken.*certif")
                self.assertEqual(other.events(), [])

    def test_a_server_that_is_away_for_too_long_loses_the_oldest_events_and_their_number_is_told(self):
        down = WebServer(self.SECRET)
        url, port = down.url, down.server.server_port
        mx = self.prepared(down, event_webhook_backlog_limit="65536", event_webhook_types="rejected, dropped")
        mx.set(event_webhooks=url.replace("://", "://anna:hunter2@"))
        down.close()
        mx.start()
        with mx:
            def enough():
                with Client(mx.port) as c:
                    c.command("MAIL FROM:<x@example.org>")
                    for _ in range(15):
                        c.command(f"RCPT TO:<{'x' * 200}@virtual.test.example>")
                return of(logged(mx), "dropped")
            dropped = eventually(enough, mx.log, 120)
            self.assertIn(url, dropped[0]["reason"])
            self.assertGreater(dropped[0]["count"], 10)
            # What lets somebody in there is told nowhere.
            self.assertNotIn("hunter2", json.dumps(logged(mx)) + mx.log())
            mx.wait_log(re.escape(url) + r": \d+ events are dropped")
            self.assertLess(port, 65536)


    def test_a_piece_of_what_waits_that_is_damaged_is_passed_over_and_told(self):
        answer = {"now": 503}
        with WebServer(self.SECRET, lambda n: answer["now"]) as server:
            mx = self.prepared(server)
            mx.start()
            with mx:
                send_all(mx, 3)
                wait_logged(mx, lambda e: len(of(e, "removed")) == 3, "mail")
                eventually(lambda: server.batches, mx.log)
                mx.stop()
                path, = glob.glob(mx.path("data") + "/**/events-0*", recursive=True)
                with open(path, "r+b") as segment:
                    size = os.path.getsize(path)
                    segment.write(b"x" * size)
                # The next one is whole.
                with open(f"{path[:-20]}{int(path[-20:]) + size:020}", "w") as following:
                    following.write('{"id":1,"type":"removed"}\n')
                os.chmod(following.name, 0o600)
                shutil.chown(following.name, os.stat(path).st_uid, os.stat(path).st_gid)
                answer["now"] = 200
                mx.start()
                mx.wait_log(re.escape(server.url) + ": at least 1 events are dropped: ")
                dropped = of(wait_logged(mx, lambda e: of(e, "dropped"), "the loss"), "dropped")
                self.assertIn(server.url, dropped[0]["reason"])
                eventually(lambda: {1, dropped[0]["id"]} <= {e["id"] for e in server.events()}, mx.log)

    def test_what_is_told_of_a_last_piece_that_cannot_be_read_can_be_read(self):
        answer = {"now": 503}
        with WebServer(self.SECRET, lambda n: answer["now"]) as server:
            mx = self.prepared(server)
            mx.start()
            with mx:
                send_all(mx, 3)
                wait_logged(mx, lambda e: len(of(e, "removed")) == 3, "mail")
                eventually(lambda: server.batches, mx.log)
                path, = glob.glob(mx.path("data") + "/**/events-0*", recursive=True)
                os.rename(path, path + ".away")  # the file stays open for what is written
                os.mkdir(path)
                answer["now"] = 200
                mx.wait_log(re.escape(server.url) + ": at least 1 events are dropped: ")
                dropped = of(wait_logged(mx, lambda e: of(e, "dropped"), "the loss"), "dropped")
                eventually(lambda: dropped[0]["id"] in {e["id"] for e in server.events()}, mx.log)
                self.assertEqual(len(of(logged(mx), "dropped")), 1)


class Stopped(Suite):
    def test_mail_never_waits_for_a_penevents_that_does_not_read(self):
        mx = prepared(VIRTUAL)
        mx.start()
        with mx:
            send_all(mx, 1)
            wait_logged(mx, lambda e: of(e, "removed"), "one message")
            pid, = mx.pids()["penevents"]
            with suspended(pid):
                def refuse_much():
                    for _ in range(20):
                        with Client(mx.port) as c:
                            c.command("MAIL FROM:<x@example.org>")
                            for _ in range(15):
                                c.command(f"RCPT TO:<{'x' * 200}@virtual.test.example>")
                refuse_much()
                send_all(mx, 20, "stopped")
                eventually(lambda: len(re.findall("status=sent", mx.log())) == 21, mx.log)
            found = wait_logged(mx, lambda e: len(of(e, "removed")) == 21, "told afterwards")
            self.assertEqual(len(of(found, "rejected")), 300)

    def test_what_a_dead_penevents_has_not_written_is_told_to_the_next_one(self):
        mx = prepared(VIRTUAL)
        mx.start()
        with mx:
            send_all(mx, 1)
            wait_logged(mx, lambda e: of(e, "removed"), "one message")
            pid, = mx.pids()["penevents"]
            os.kill(pid, signal.SIGSTOP)
            send_all(mx, 5, "underway")
            eventually(lambda: len(re.findall("status=sent", mx.log())) == 6, mx.log)
            time.sleep(0.3)  # programs gather for 100 ms, and nothing says when what they told lies in the socket
            os.kill(pid, signal.SIGKILL)
            found = wait_logged(mx, lambda e: len(of(e, "removed")) == 6, "they are told again")
            for kind in ("received", "delivered", "removed"):
                self.assertEqual(len({e["queue_id"] for e in of(found, kind)}), 6, kind)


if __name__ == "__main__":
    unittest.main()
