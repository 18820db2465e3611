"""Every route of penapi, compared with its OpenAPI description: answers, errors, parameters, bodies. The comparison
itself is in Api.ask(), for all tests that ask."""
import json
import os
import re
import subprocess
import unittest

import event_stream
import test_http_submission
from harness import *
from instance import TOP
from openapi import Description
from test_penapi import DESCRIPTION, TOKEN, UNIX, Api, nobody, port_of, token_file


def open_schemas(schema, where=""):
    """The places of objects that may have fields which are not described."""
    if isinstance(schema, dict):
        more = schema.get("additionalProperties")
        if schema.get("type") == "object" and more not in (False, {"type": "string"}):
            yield where
        for name, part in schema.items():
            yield from open_schemas(part, f"{where}/{name}")
    if isinstance(schema, list):
        for i, part in enumerate(schema):
            yield from open_schemas(part, f"{where}/{i}")


class Schemas(unittest.TestCase):
    def test_every_object_is_closed(self):
        self.assertEqual(list(open_schemas(DESCRIPTION.document)), [])

    def test_what_is_not_described_is_found(self):
        """The comparison finds a field too many, one that is missing, and one of another type."""
        well = {"ready": True, "accepting": True, "recovered": True}
        check = lambda answer, status=200: Description().check("GET", "/readyz", status, "application/json",
                                                               json.dumps(answer))
        check(well)
        check({**well, "problem": "x"}, 503)
        for bad in ({**well, "more": 1}, {"ready": True}, {**well, "ready": "yes"}, {"error": "x"}):
            with self.assertRaises(AssertionError):
                check(bad)
        with self.assertRaises(AssertionError):
            check(well, 404)  # an error is an Error
        with self.assertRaises(AssertionError):
            Description().check("GET", "/api/v1/nothing", 200, "application/json", "{}")


class Routes(Suite):
    """One instance in which there is something of everything."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.port = free_port()
        cls.mx = Instance({"default_transport": nobody(),
                           "penapi_token_file": token_file(cls.folder()), "penapi_history_interval": "1s",
                           "session_classes": "192.0.2.0/24 20 10", "tenant_identity": "sender_domain",
                           "default_destination_rate_limit": "600/m,20000/h", "event_recent_limit": "1000",
                           "suppression_list": "yes",
                           "penapi_submission_service": "handin",
                           "smtpd_sasl_token_file": test_http_submission.token_file(cls.folder())},
                          {**dict([UNIX, port_of(cls.port)]), **test_http_submission.service()}, start=False)
        cls.addClassCleanup(cls.mx.close)
        cls.mx.set(**event_stream.files(cls.mx))
        cls.mx.start()
        cls.api = Api(cls.mx)
        for to in (["a@later.example", "b@later.example"], ["c@other.example"], ["d@later.example"]):
            send(cls.mx.port, "s@local.test.example", to, mail(to[0]))
        eventually(lambda: len(cls.messages("deferred")) == 3, lambda: f"three wait\n{cls.mx.log()}")

    @classmethod
    def messages(cls, state):
        return cls.api.get("/api/v1/queue?state=" + state)["messages"]

    def order(self, path, body=None, status=200, method="POST"):
        got, content = self.api.ask(path, method, body, TOKEN)
        self.assertEqual(got, status, content)
        return content

    def test_every_route_answers_as_described(self):
        ids = sorted(m["queue_id"] for m in self.messages("deferred"))
        self.order("/api/v1/destinations/mx.example/suspend", {"reason": "work there"})
        self.assertEqual(self.order("/api/v1/queue/hold", {"ids": ids[:1]})["count"], 1)
        held, = self.messages("hold")
        self.assertTrue(held["recipients"][0]["delay_reason"])
        self.assertEqual(held["tenant"], "local.test.example")
        eventually(lambda: self.api.get("/api/v1/history")["points"], "a point of the history")
        eventually(lambda: self.api.get("/api/v1/events?types=deferred")["events"], "events")
        self.assertEqual(self.api.ask("/api/v1/events?types=deferred,bounces")[0], 400)
        eventually(lambda: "queue" in self.api.get("/api/v1/overview"), "the queue in the overview")
        eventually(lambda: {d["type"] for d in self.api.get("/api/v1/destinations")["destinations"]} ==
                   {"destination", "suspension"}, "destinations of both kinds")
        failing = [d for d in self.api.get("/api/v1/trouble")["destinations"] if d["type"] == "destination"]
        self.assertTrue(failing[0]["reason"])
        self.api.get("/api/v1/destinations/mx.example")
        told = self.api.get("/api/v1/explain?recipient=a%40later.example&sender=s%40local.test.example")
        self.assertTrue(told["hosts"] and told["limits"], told)
        self.assertTrue(self.api.get("/api/v1/sessions")["classes"])
        self.api.get("/api/v1/queue/" + ids[0])
        for id, cause in ((held["queue_id"], "on_hold"), (ids[1], None)):
            story = self.api.get(f"/api/v1/messages/{id}/explain")
            by_tool = json.loads(self.mx.tool("penstock", "explain", "--json", id, check=True).stdout)
            self.assertEqual((story["state"], story["where"]), (by_tool["state"], by_tool["where"]))
            self.assertEqual([r["address"] for r in story["recipients"]], [r["address"] for r in by_tool["recipients"]])
            self.assertTrue(all(r["why"] and r["cause"] in (cause, r["cause"]) for r in story["recipients"]), story)
        self.assertEqual(self.api.ask("/api/v1/messages/4jYBDz5JQyzy2qdhL/explain")[0], 404)
        for path in ("/", "/page.css", "/page.js", "/icon.svg", "/metrics", "/metrics?compat=postfix", "/healthz",
                     "/readyz", "/api/v1/services", "/api/v1/settings"):
            self.api.get(path)
        for verb in ("release", "flush", "expire", "delete"):
            self.order("/api/v1/queue/" + verb, {"filter": {"domain": "other.example"}, "dry_run": True})
        self.order("/api/v1/queue/release", {"ids": ids[:1]})
        self.order("/api/v1/queue/flush", {"filter": {"domain": "nobody.example"}})
        self.order("/api/v1/queue/expire", {"filter": {"domain": "other.example"}})
        self.order("/api/v1/queue/delete", {"filter": {"domain": "nobody.example"}})
        self.order("/api/v1/queue/" + ids[2], method="DELETE")
        self.order("/api/v1/destinations/mx.example/resume")
        self.order("/api/v1/suppressed", {"address": "gone@nobody.example", "reason": "complaint", "text": "a letter"})
        self.assertEqual(len(self.api.get("/api/v1/suppressed")["addresses"]), 1)
        self.api.get("/api/v1/suppressed/gone%40nobody.example")
        self.order("/api/v1/suppressed/gone%40nobody.example", method="DELETE")
        # A stream does not end, and is compared by its messages.
        status, taken = self.api.ask("/api/v1/messages", "POST", test_http_submission.letter("f@later.example"),
                                     test_http_submission.SHOP, {"Content-Type": "application/json"})
        self.assertEqual(status, 202, taken)
        overview, event = self.streamed()
        DESCRIPTION.validate("Overview", overview)
        DESCRIPTION.validate("Event", event)
        DESCRIPTION.answered.add(("GET", "/api/v1/stream", "200"))

        with self.subTest("errors"):
            for method, pattern, operation in DESCRIPTION.operations():
                path = pattern.replace("{id}", "no!id").replace("{name}", "no%20name")
                if "{" in pattern:
                    self.assertEqual(self.api.ask(path, method, token=TOKEN)[0], 400, (method, path))
                elif "security" in operation:
                    self.assertEqual(self.api.ask(path, method, token="wrong")[0], 401, (method, path))
                else:
                    self.assertEqual(self.api.ask(path, "PUT")[0], 405)
        with self.subTest("all were asked"):
            missing = {(method, pattern) for method, pattern, _ in DESCRIPTION.operations()
                       if not DESCRIPTION.answered & {(method, pattern, "200"), (method, pattern, "202")}}
            self.assertEqual(missing, set())

    def streamed(self):
        """The first overview and the first event of the stream."""
        client = self.api.connection()
        self.addCleanup(client.close)
        client.request("GET", "/api/v1/stream")
        answer = client.getresponse()
        self.assertEqual((answer.status, answer.headers["Content-Type"]), (200, "text/event-stream"))
        found, kind = {}, None
        while len(found) < 2:
            line = answer.readline().decode()
            self.assertTrue(line, "the stream ended")
            if line.startswith("event: "):
                kind = line.split()[1]
                if kind == "overview" and found:
                    continue
            elif line.startswith("data: "):
                if kind == "overview" and kind not in found:  # now it is there, and what happens is told
                    send(self.mx.port, "s@local.test.example", ["e@later.example"], mail("streamed"))
                found.setdefault(kind, json.loads(line[len("data: "):]))
        return found["overview"], found["event"]

    def test_parameters_are_those_that_are_described(self):
        samples = {"sender": "s@local.test.example", "recipient": "a@later.example", "domain": "later.example",
                   "tenant": "local.test.example", "reply": "refused", "state": "deferred,hold", "queue_id": "ABC",
                   "types": "deferred,bounced", "text": "x", "after": "a@later.example",
                   "after_tenant": "local.test.example"}
        for method, pattern, operation in DESCRIPTION.operations():
            query = [p for p in operation.get("parameters", ()) if p["in"] == "query"]
            # The query of the first belongs to a body (test_http_submission), the others want a listed address
            # (test_suppression).
            if not query or pattern == "/api/v1/messages" or "{address}" in pattern:
                continue
            with self.subTest(f"{method} {pattern}"):
                self.assertEqual(method, "GET")
                always = "".join(f"&{p['name']}={samples[p['name']]}" for p in query if p["required"])
                for p in query:
                    schema, name = p["schema"], p["name"]
                    others = always.replace(f"&{name}={samples.get(name)}", "")
                    good = ([str(schema["minimum"]), str(schema.get("maximum", 100))]
                            if schema["type"] == "integer" else schema.get("enum", [samples.get(name)]))
                    for value in good:
                        self.assertEqual(self.api.ask(f"{pattern}?{name}={value}{others}")[0], 200, (name, value))
                    bad = ["x"] if schema["type"] == "integer" or "enum" in schema else []
                    if "maximum" in schema:
                        bad.append(str(schema["maximum"] + 1))
                    for value in bad:
                        self.assertEqual(self.api.ask(f"{pattern}?{name}={value}{others}")[0], 400, (name, value))
                    if p["required"]:
                        self.assertEqual(self.api.ask(f"{pattern}?{others[1:]}")[0], 400, name)
                self.assertEqual(self.api.ask(f"{pattern}?nonsense=1{always}")[0], 400)

    def test_bodies_are_those_that_are_described(self):
        order = DESCRIPTION.document["components"]["schemas"]["Order"]
        sample = {"ids": ["4jYBDz5JQyzy2qdhL"], "all": True, "dry_run": True,
                  "filter": {"sender": "@x.example", "recipient": "a@x.example", "domain": "x.example", "older": 1,
                             "tenant": "x.example", "reply": "x", "state": "hold"}}
        self.assertEqual(set(order["properties"]), set(sample))
        self.assertEqual(set(order["properties"]["filter"]["properties"]), set(sample["filter"]))
        path = "/api/v1/queue/hold"
        for name in sample["filter"]:
            body = {"filter": {name: sample["filter"][name]}, "dry_run": True}
            DESCRIPTION.validate("Order", body)
            self.order(path, body)
        for bad in ({"filter": {"nonsense": "x"}}, {"filter": {}}, {"all": True, "more": 1}, {}, {"ids": []},
                    {"all": "yes"}, {"ids": ["A"] * 1001}):
            with self.assertRaises(AssertionError):
                DESCRIPTION.validate("Order", bad)
            self.order(path, bad, 400)
        self.order("/api/v1/destinations/mx.example/suspend", {"reason": "x", "more": 1}, 400)
        self.order("/api/v1/destinations/mx.example/suspend", {"reason": "x" * 501}, 400)

    def test_the_commands_of_the_page_are_taken_by_curl_and_penapi(self):
        with open(os.path.join(TOP, "docs", "api.md"), encoding="utf-8") as page:
            commands = re.findall(r"(?m)^    (curl (?:.*\\\n)*.*)$", page.read())
        self.assertEqual(len(commands), 3, commands)
        for command in commands:
            here = (command.replace("/var/spool/penstock/public/penapi", self.mx.path("spool", "public", "penapi"))
                    .replace("127.0.0.1:8025", f"127.0.0.1:{self.port}"))
            told = "curl -sS -w '%{stderr}%{http_code} %{content_type}'"
            done = subprocess.run(["sh", "-c", here.replace("curl", told, 1)], capture_output=True,
                                  text=True, timeout=60, env={**os.environ, "TOKEN": TOKEN})
            self.assertEqual(done.returncode, 0, f"{here}\n{done.stderr}")
            status, kind = done.stderr.split(" ", 1)
            self.assertEqual(status, "200", f"{here}\n{done.stdout}")
            path = re.search(r"http://[^/]+(/\S+)", here)[1]
            DESCRIPTION.check("POST" if " -d " in here else "GET", path, 200, kind, done.stdout)


if __name__ == "__main__":
    unittest.main()
