"""A queue manager that hangs, and a master that does: each tool and each route of penapi says so soon."""
import json
import time
from concurrent.futures import ThreadPoolExecutor

from harness import *
from test_penapi import TOKEN, UNIX, Api, token_file

ID = "4jYBDz5JQyzy2qdhL"
# A command, and what it says; each ends with 69.
TOOLS = (
    (("penqueue", "-p"), r"the queue manager has not answered for 10 s"),
    (("penqueue", "-j"), r"the queue manager has not answered for 10 s"),
    (("penqueue", "-f"), r"the queue manager has not answered for 10 s"),
    (("penqueue", "--follow", ID), r"the queue manager has not answered for 10 s"),
    (("penshape",), r"the queue manager has not answered for 10 s"),
    (("pencat", "-q", ID), r"the queue manager has not answered for 10 s"),
    (("pensuper", "-h", ID), r"the queue manager has not answered for 10 s"),
    (("penstock", "flush"), r"the queue manager has not answered for 10 s"),
    (("penstock", "explain", ID), r"the queue manager has not answered for 10 s"),
    (("pendest", "list"), r"the queue manager has not answered for 10 s"),
    (("pendest", "show", "mx.example"), r"the queue manager has not answered for 10 s"),
    (("pendest", "explain", "a@mx.example"), r"the queue manager has not answered for 10 s"),
    (("pendest", "suspend", "mx.example"), r"the queue manager has not answered for 10 s"),
    (("pentop", "--once", "-d", "1"), r"no answer: .*timed out"),
)
# Requests, and the status and a word of their answers.
READS = "its greeting: Connection timed out"
NOTHING = "nothing was done: " + READS
ROUTES = (
    ("GET", "/api/v1/trouble", None, 503, READS),
    ("GET", "/api/v1/queue", None, 503, READS),
    ("GET", "/api/v1/queue/" + ID, None, 503, READS),
    ("GET", "/api/v1/destinations", None, 503, READS),
    ("GET", "/api/v1/destinations/mx.example", None, 503, READS),
    ("GET", "/api/v1/explain?recipient=a%40mx.example", None, 503, READS),
    ("GET", "/readyz", None, 503, READS),
    ("DELETE", "/api/v1/queue/" + ID, None, 503, NOTHING),
    *(("POST", "/api/v1/queue/" + verb, {"all": True}, 503, NOTHING)
      for verb in ("hold", "release", "delete", "expire", "flush")),
    ("POST", "/api/v1/destinations/mx.example/suspend", None, 503, NOTHING),
    ("POST", "/api/v1/destinations/mx.example/resume", None, 503, NOTHING),
    ("GET", "/api/v1/overview", None, 200, READS),  # "up": false, and why
    ("GET", "/metrics", None, 200, "\npenstock_up 0\n"),
    ("GET", "/healthz", None, 503, "the queue manager does not answer: " + READS),
    # These ask it nothing.
    ("GET", "/api/v1/services", None, 200, "qmgr"),
    ("GET", "/api/v1/history", None, 200, "columns"), ("GET", "/api/v1/events", None, 200, "connected"),
    ("GET", "/api/v1/sessions", None, 200, "classes"), ("GET", "/api/v1/settings", None, 200, "myhostname"),
)


class Hung(Suite):
    def setUp(self):
        self.mx = Instance({"penapi_token_file": token_file(self.folder())}, dict([UNIX]))
        self.enterContext(self.mx)

    def stop(self, pid):
        suspend(pid)
        self.addCleanup(resume, pid)

    def health(self):
        done = self.mx.tool("penstock", "health")
        return done.returncode, done.stdout + done.stderr

    def test_a_queue_manager_that_hangs_is_told_by_every_tool_and_route(self):
        api = Api(self.mx)
        self.assertTrue(api.get("/readyz")["ready"])
        self.assertEqual(self.health(), (0, ""))
        pid, = self.mx.pids()["qmgr"]
        self.stop(pid)

        # What it said a moment ago is shown for a second.
        eventually(lambda: api.ask("/readyz")[0] == 503, "penapi notices it", 60)

        def tool(row):
            words, said = row
            done = self.mx.tool(*words)
            return words, done.returncode, done.stdout + done.stderr

        def route(row):
            method, path, body, _, _ = row
            return api.ask(path, method, body, TOKEN)
        with ThreadPoolExecutor(len(TOOLS) + len(ROUTES) + 1) as pool:
            well = pool.submit(self.health)
            tools, routes = pool.map(tool, TOOLS), pool.map(route, ROUTES)
            for (words, said), (_, status, text) in zip(TOOLS, tools):
                with self.subTest(" ".join(words)):
                    self.assertEqual(status, 69, text)
                    self.assertRegex(text, said)
                    self.assertNotIn("not running", text)
            for (method, path, _, status, said), (got, content) in zip(ROUTES, routes):
                with self.subTest(f"{method} {path}"):
                    text = content if isinstance(content, str) else json.dumps(content)
                    self.assertEqual(got, status, text[-500:])
                    self.assertTrue(said in text, text[-500:])
            status, text = well.result()
            self.assertEqual(status, 75, text)
            self.assertRegex(text, "(?m)^penstock: the queue manager does not answer: .*timed out$")
        resume(pid)
        eventually(lambda: api.ask("/readyz")[0] == 200, "qmgr again")
        self.assertEqual(self.health(), (0, ""))
        done = self.mx.tool("pendest", "list")
        self.assertNotIn("mx.example", done.stdout, "nothing was suspended behind its back")

    def test_health_checks_answer_within_a_second_whatever_hangs(self):
        api = Api(self.mx)
        for path in ("/healthz", "/readyz"):
            self.assertEqual(api.ask(path)[0], 200)
        pids = {"master": [self.mx.status()["master"]], **self.mx.pids()}
        for program in ("qmgr", "anvil", "master"):
            with self.subTest(program):
                pid, = pids[program]
                suspend(pid)
                try:
                    if program == "qmgr":
                        eventually(lambda: api.ask("/readyz")[0] == 503, "penapi notices it", 60)
                    for path in ("/healthz", "/readyz"):
                        # The quickest of three: this machine may be slow, and what waits for a program is so each time.
                        times = []
                        for _ in range(3):
                            begin = time.monotonic()
                            status, _ = api.ask(path)
                            times.append(time.monotonic() - begin)
                            self.assertEqual(status, 503 if program == "qmgr" else 200)
                            time.sleep(1.1)  # what is known counts for a second
                        self.assertLess(min(times), 1.5, f"{path}: {times}")
                finally:
                    resume(pid)
                eventually(lambda: api.ask("/readyz")[0] == 200, f"{program} again")

    def test_health_finds_a_master_that_hangs_while_its_programs_go_on(self):
        self.assertEqual(self.health(), (0, ""))
        pid = self.mx.status()["master"]
        self.stop(pid)
        status, text = self.health()
        self.assertEqual(status, 75, text)
        self.assertRegex(text, rf"(?m)^penstock: master pid {pid} does not answer: it is stopped or hangs; ")
        send(self.mx.port, "a@local.test.example", ["postmaster@local.test.example"], mail("its programs go on"))
        resume(pid)
        self.assertEqual(self.health(), (0, ""))
        self.assertGreater(self.mx.status()["asked"], 0)


if __name__ == "__main__":
    unittest.main()
