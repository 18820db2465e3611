"""The status page of penapi in a real browser: every view, orders, texts of strangers, and penapi that comes and goes.

PEN_PICTURES=DIR also keeps pictures of the views (docs/images). PEN_DEEP: how many messages wait in the deep queue."""
import json
import os
import sys
import tempfile
import time
import urllib.request

from harness import *
from test_penapi import TOKEN, Api, nobody, port_of, token_file

os.environ.setdefault("PEN_BUILD", os.path.dirname(BIN))
sys.path.append(os.path.join(TOP, "bench"))
import deep  # noqa: E402

sys.path.append("/usr/lib/python3/dist-packages")  # of Debian's own Python: python3-selenium
try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ImportError:
    webdriver = None

CHROMIUM, DRIVER = "/usr/bin/chromium", "/usr/bin/chromedriver"
VIEWS = ("overview", "queue", "destinations", "events", "system")
EVIL = "<img src=x onerror=alert(1)>"


@unittest.skipUnless(webdriver and os.path.exists(CHROMIUM) and os.path.exists(DRIVER),
                     "needs chromium, chromium-driver and python3-selenium")
class StatusPage(Suite):
    def browser(self, width=1280, height=900, dark=False):
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--lang=en",
                         f"--window-size={width},{height}", *(["--force-dark-mode"] if dark else [])):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        browser = webdriver.Chrome(service=Service(DRIVER), options=options)
        self.addCleanup(browser.quit)
        return browser

    def instance(self, **settings):
        port = free_port()
        mx = Instance({"penapi_history_interval": "1s", **settings}, dict([port_of(port)]))
        self.addCleanup(mx.close)
        return mx, f"http://127.0.0.1:{port}/"

    @staticmethod
    def held(mx):
        """Recipients of messages on hold."""
        messages = [json.loads(line) for line in mx.tool("penqueue", "-j").stdout.splitlines()]
        return [r["address"] for m in messages if m["queue_name"] == "hold" for r in m["recipients"]]

    @staticmethod
    def text(browser):
        return browser.find_element(By.TAG_NAME, "body").text

    def shows(self, browser, text):
        eventually(lambda: text in self.text(browser), lambda: f"{text!r} in:\n{self.text(browser)}", 60)

    def open(self, browser, url, view):
        browser.get("about:blank")
        browser.get(f"{url}#{view}")

    def no_complaints(self, browser):
        """Neither scripts that failed, nor what the content security policy has forbidden."""
        self.assertEqual([e for e in browser.get_log("browser") if e["level"] == "SEVERE"], [])

    def test_every_view_wide_narrow_and_dark(self):
        mx, url = self.instance(default_transport=nobody(), event_log_file="$data_directory/events/events.json")
        for n in range(5):
            send(mx.port, "a@local.test.example", [f"b{n}@other.example"], mail())
        mx.wait_log("status=deferred")
        pictures = os.environ.get("PEN_PICTURES")
        for name, browser in (("wide", self.browser()), ("narrow", self.browser(420, 900, dark=True))):
            for view, says in zip(VIEWS, ("waiting for another try", "Connection refused", "failing", "deferred",
                                          "Services")):
                with self.subTest(name=name, view=view):
                    self.open(browser, url, view)
                    self.shows(browser, says)
                    current = browser.find_element(By.CSS_SELECTOR, "nav a[aria-current=page]")
                    self.assertEqual(current.text.lower(), view)
                    # Nothing is wider than the window but what scrolls by itself.
                    self.assertLessEqual(browser.execute_script("return document.documentElement.scrollWidth"),
                                         browser.execute_script("return window.innerWidth"))
                    if view == "overview":
                        eventually(lambda: browser.find_elements(By.CSS_SELECTOR, "svg.plot"), "plots", 60)
                    if pictures:
                        browser.save_screenshot(os.path.join(pictures, f"status-page-{view}-{name}.png"))
            self.no_complaints(browser)
        self.assertIn("all is well", self.text(browser))

    def test_texts_of_strangers_stay_texts(self):
        with Peer() as peer:
            peer.replies["GREETING"] = lambda session, line: f"421 4.2.0 {EVIL} later"
            mx, url = self.instance(**relay_to(peer, "other.example"),
                                    event_log_file="$data_directory/events/events.json")
            send(mx.port, "a@local.test.example", [f'"{EVIL}"@other.example'], mail())
            mx.wait_log("status=deferred")
            browser = self.browser()
            for view in ("queue", "destinations", "events"):
                self.open(browser, url, view)
                self.shows(browser, EVIL)
                self.assertEqual(browser.find_elements(By.CSS_SELECTOR, "main img, main script"), [])
            self.open(browser, url, "queue")
            eventually(lambda: browser.find_elements(By.CSS_SELECTOR, "td a.code"), "the message", 60)
            browser.find_element(By.CSS_SELECTOR, "td a.code").click()
            self.shows(browser, "Its story")
            self.shows(browser, EVIL)
            # As penstock explain has it.
            self.shows(browser, "It waits in the queue, and is tried again")
            self.shows(browser, "cannot be used")
            self.open(browser, url, "queue/%E0%A4%A")  # a malformed link
            self.shows(browser, "Queue")
            self.no_complaints(browser)

    def test_an_order_is_shown_asked_and_given(self):
        directory = self.folder()
        mx, url = self.instance(default_transport=nobody(), penapi_token_file=token_file(directory))
        send(mx.port, "a@local.test.example", ["b@other.example", "c@other.example"], mail())
        send(mx.port, "a@local.test.example", ["d@more.example"], mail())
        eventually(lambda: len(mx.queue()) == 2, "two messages")
        browser = self.browser()
        self.open(browser, url, "queue")
        self.shows(browser, "d@more.example")
        browser.find_element(By.NAME, "domain").send_keys("more.example")
        button = lambda text: next(b for b in browser.find_elements(By.CSS_SELECTOR, "button") if b.text == text)
        button("Hold").click()
        # Without a token it is asked for; a wrong one does nothing.
        field = eventually(lambda: browser.find_elements(By.ID, "token-field"), "the question for the token")[0]
        field.send_keys("a-wrong-token-123" + Keys.ENTER)
        self.shows(browser, "this needs a token")
        button("Cancel").click()
        button("Hold").click()
        field = eventually(lambda: browser.find_elements(By.ID, "token-field"), "the question for the token")[0]
        field.send_keys(TOKEN + Keys.ENTER)
        self.shows(browser, "1 message would be concerned.")
        self.assertEqual(self.held(mx), [], "nothing is done yet")
        dialog = browser.find_element(By.ID, "dialog")
        next(b for b in dialog.find_elements(By.TAG_NAME, "button") if b.text == "Hold").click()
        self.shows(browser, "Done: 1.")
        eventually(lambda: self.held(mx) == ["d@more.example"], "the chosen one is on hold")
        self.assertNotIn(TOKEN, browser.execute_script("return document.documentElement.outerHTML"))

    def press(self, browser, *keys):
        for key in keys:
            browser.switch_to.active_element.send_keys(key)

    def tab_to(self, browser, text):
        """Goes on with the tabulator key until something with that text has the focus."""
        passed = []
        for _ in range(60):
            self.press(browser, Keys.TAB)
            here = browser.switch_to.active_element
            passed.append(here.text)
            if here.text == text:
                return here
        self.fail(f"{text!r} cannot be reached: {passed}")

    def test_all_is_reached_by_keyboard(self):
        mx, url = self.instance(default_transport=nobody(), penapi_token_file=token_file(self.folder()))
        send(mx.port, "a@local.test.example", ["b@other.example"], mail())
        mx.wait_log("status=deferred")
        browser = self.browser()
        view = lambda: browser.find_element(By.CSS_SELECTOR, "nav a[aria-current=page]").text
        self.open(browser, url, "queue")
        self.shows(browser, "b@other.example")
        self.press(browser, Keys.TAB)
        self.assertEqual(browser.switch_to.active_element.text, "To the content")
        self.press(browser, Keys.ENTER)
        self.assertEqual((browser.switch_to.active_element.get_attribute("id"), view()), ("main", "Queue"))
        # An order, up to its question, and no further.
        self.tab_to(browser, "Hold")
        self.press(browser, Keys.ENTER)
        eventually(lambda: browser.switch_to.active_element.get_attribute("id") == "token-field", "the question", 60)
        self.press(browser, TOKEN, Keys.ENTER)
        self.shows(browser, "1 message would be concerned.")
        self.assertEqual(browser.switch_to.active_element.text, "Cancel")
        self.press(browser, Keys.ESCAPE)
        eventually(lambda: not browser.find_elements(By.CSS_SELECTOR, "dialog[open]"), "no question", 60)
        self.assertEqual((browser.switch_to.active_element.text, self.held(mx)), ("Hold", []))
        self.press(browser, Keys.ENTER)
        self.shows(browser, "1 message would be concerned.")
        dialog = browser.find_element(By.ID, "dialog")
        self.press(browser, Keys.TAB)
        self.assertEqual(browser.switch_to.active_element, dialog.find_element(By.CSS_SELECTOR, "button.danger"))
        self.press(browser, Keys.ENTER)
        eventually(lambda: self.held(mx) == ["b@other.example"], "it is on hold")
        self.press(browser, Keys.ESCAPE)
        # Another view.
        browser.execute_script("document.activeElement.blur()")
        self.tab_to(browser, "Destinations")
        self.press(browser, Keys.ENTER)
        eventually(lambda: view() == "Destinations", "the view", 60)
        self.assertEqual(browser.switch_to.active_element.get_attribute("id"), "main")
        self.no_complaints(browser)

    def test_what_has_the_focus_is_not_drawn_anew(self):
        mx, url = self.instance(default_transport=nobody(), event_log_file="$data_directory/events/events.json",
                                session_classes="127.0.0.0/8 100 100")
        send(mx.port, "a@local.test.example", ["b@other.example"], mail())
        mx.wait_log("status=deferred")
        api = Api(mx, int(url.rstrip("/").rsplit(":")[-1]))
        id = api.get("/api/v1/queue")["messages"][0]["queue_id"]
        browser = self.browser()
        # What gets the focus, and for how long it is held: over some redraws.
        for view, what, seconds in (("overview", "[aria-label='Session classes']", 5),
                                    ("overview", "[aria-label='Destinations'] a", 12),
                                    ("system", "[aria-label='Disks']", 5),
                                    ("events", "main li a.code", 4),
                                    ("queue/" + id, "main li a.code", 4)):
            with self.subTest(view=view, what=what):
                self.open(browser, url, view)
                eventually(lambda: browser.find_elements(By.CSS_SELECTOR, what), lambda: self.text(browser), 60)
                browser.execute_script("window.held = document.querySelector(arguments[0]); held.focus()", what)
                told = lambda: browser.execute_script("return document.querySelectorAll('main li').length")
                before, end = told(), time.monotonic() + seconds
                while time.monotonic() < end:
                    if view == "events" or "/" in view:
                        mx.tool("penqueue", "-f")
                    self.assertTrue(browser.execute_script(
                        "return document.activeElement === window.held && window.held.isConnected"))
                    time.sleep(0.5)
                if before:  # what waited is drawn when the focus has gone
                    browser.execute_script("document.activeElement.blur()")
                    eventually(lambda: told() > before, "what has come meanwhile", 60)

    # The ground of the page, and the contrast of each edge to what is around it (WCAG 2.2, 1.4.11).
    COLOURS = r"""
        const of = (text) => text.match(/[\d.]+/g).map(Number);
        const linear = (x) => (x <= .03928 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4);
        const light = (c) => c.slice(0, 3).reduce((sum, x, i) => sum + linear(x / 255) * [.2126, .7152, .0722][i], 0);
        const ground = (e) => {
          const c = of(getComputedStyle(e).backgroundColor);
          return c.length < 4 || c[3] > 0 ? c : ground(e.parentElement);
        };
        const contrast = (a, b) => {
          const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
          return (x + .05) / (y + .05);
        };
        const all = [...document.querySelectorAll("input, select, button")];
        const shown = all.filter((e) => e.offsetParent && !e.disabled);
        return [of(getComputedStyle(document.body).backgroundColor), shown.map((e) =>
          [e.outerHTML, contrast(of(getComputedStyle(e).borderTopColor), ground(e.parentElement))])];"""

    def test_both_schemes_differ_and_what_is_pressed_has_an_edge(self):
        mx, url = self.instance()
        grounds = []
        for dark in (False, True):
            browser = self.browser()
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
                {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})
            for view in ("overview", "queue", "events"):
                self.open(browser, url, view)
                self.shows(browser, {"overview": "Last hour", "queue": "Try now", "events": "Last events"}[view])
                ground, edges = browser.execute_script(self.COLOURS)
                self.assertTrue(edges)
                self.assertEqual([e for e in edges if e[1] < 3], [])
            grounds.append(sum(ground[:3]))
        self.assertGreater(grounds[0], 600)
        self.assertLess(grounds[1], 150)

    def test_no_script_but_the_page_s_own_is_run(self):
        mx, url = self.instance()
        browser = self.browser()
        self.open(browser, url, "overview")
        self.shows(browser, "all is well")
        with urllib.request.urlopen(url) as answer:
            policy = dict(part.strip().split(" ", 1) for part in answer.headers["Content-Security-Policy"].split(";"))
        self.assertEqual((policy["default-src"], policy["script-src"], policy["frame-ancestors"]),
                         ("'none'", "'self'", "'none'"))
        browser.execute_script("""
            window.ran = false; window.refused = [];
            document.addEventListener("securitypolicyviolation", (e) => window.refused.push(e.effectiveDirective));
            const script = document.createElement("script");
            script.textContent = "window.ran = true";
            document.body.append(script);""")
        eventually(lambda: browser.execute_script("return window.refused.length"), "the refusal", 60)
        self.assertEqual(browser.execute_script("return [window.ran, window.refused[0]]"), [False, "script-src-elem"])

    def test_screen_readers_are_told_what_each_thing_is(self):
        mx, url = self.instance(default_transport=nobody(), event_log_file="$data_directory/events/events.json")
        send(mx.port, "a@local.test.example", ["b@other.example"], mail())
        mx.wait_log("status=deferred")
        browser = self.browser()
        named = {"button", "link", "textbox", "combobox", "searchbox", "checkbox", "image", "img", "region", "meter",
                 "navigation", "group", "columnheader", "heading", "dialog"}
        for view, says in zip(VIEWS, ("waiting for another try", "b@other.example", "failing", "deferred", "Services")):
            with self.subTest(view=view):
                self.open(browser, url, view)
                self.shows(browser, says)
                if view == "overview":
                    eventually(lambda: browser.find_elements(By.CSS_SELECTOR, "svg.plot"), "plots", 60)
                tree = browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
                seen = [(n["role"]["value"], n.get("name", {}).get("value", "").strip()) for n in tree
                        if not n["ignored"] and n["role"]["value"] in named]
                self.assertEqual([s for s in seen if not s[1]], [], "things without a name")
                self.assertTrue({"link", "heading", "navigation"} <= {role for role, _ in seen}, seen)
                regions = [name for role, name in seen if role == "region"]
                self.assertEqual(sorted(regions), sorted(set(regions)), "two regions have one name")
                self.assertNotIn("table", regions)
                if view == "overview":
                    images = [name for role, name in seen if role in ("image", "img")]
                    self.assertTrue(any(n.startswith("Messages per second; at the end: ") for n in images), seen)

    def test_the_page_says_when_penapi_is_gone_and_goes_on_after_it(self):
        mx, url = self.instance()
        browser = self.browser()
        self.open(browser, url, "overview")
        self.shows(browser, "all is well")
        mx.stop()
        self.shows(browser, "no connection to penapi")
        mx.start()
        self.shows(browser, "all is well")

    def test_beside_a_deep_queue_every_view_answers_soon_and_in_little_memory(self):
        depth = int(os.environ.get("PEN_DEEP", "1000000"))
        if not os.path.exists(deep.bench("queue_fill")):
            self.skipTest("bench/queue_fill is not built")
        sink = deep.Sink()
        self.addCleanup(sink.stop)
        mx = deep.Deep(depth, sink, tempfile.gettempdir(), settings={"penapi_history_interval": "1s"})
        self.addCleanup(mx.close)
        port = free_port()
        name, line = port_of(port)
        with open(os.path.join(mx.etc, "master.cf"), "a") as out:
            out.write(f"{name} {line}\n")
        mx.start()
        url, api = f"http://127.0.0.1:{port}/", Api(mx, port)
        browser = self.browser()
        longest = {}

        def view(path, seconds):
            began = time.monotonic()
            content = api.get(path)
            longest[path] = max(longest.get(path, 0), time.monotonic() - began)
            self.assertLess(longest[path], seconds, path)
            return content
        # The survey, which goes through all of it, is not waited for.
        self.open(browser, url, "overview")
        self.shows(browser, "all is well")
        self.open(browser, url, "queue")
        self.shows(browser, "far.example")
        self.assertEqual(len(browser.find_elements(By.CSS_SELECTOR, "td a.code")), 100)
        next(b for b in browser.find_elements(By.CSS_SELECTOR, "button") if b.text == "Next").click()
        eventually(lambda: "offset=100" in str(browser.execute_script(
            "return performance.getEntriesByType('resource').map((e) => e.name)")), "the next page", 60)
        # A choice that fits nothing would mean to look at every message.
        browser.find_element(By.NAME, "recipient").send_keys("nobody@nowhere.example" + Keys.ENTER)
        eventually(lambda: "No message" in self.text(browser), lambda: self.text(browser), 60)
        for path, seconds in (("/api/v1/queue?limit=100", 20), ("/api/v1/overview", 20), 
                              ("/api/v1/queue?recipient=nobody@nowhere.example", 40), ("/metrics", 20)):
            view(path, seconds)
        eventually(lambda: view("/api/v1/overview", 20).get("queue", {}).get("deferred", {}).get("messages") == depth,
                   "the survey", 300)
        self.open(browser, url, "overview")
        self.shows(browser, f"{depth:,}")
        self.no_complaints(browser)
        for program, most in (("penapi", 64), ("qmgr", 200)):
            for pid in mx.pids()[program]:
                with open(f"/proc/{pid}/smaps_rollup") as lines:
                    used = sum(int(line.split()[1]) for line in lines if line.startswith("Anonymous:")) / 1024
                self.assertLess(used, most, f"MiB of {program}; {longest}")

    def test_settings_of_the_page(self):
        mx, url = self.instance(penapi_status_page="no")
        browser = self.browser()
        browser.get(url)
        self.shows(browser, "penapi_status_page is off")
        mx.set(penapi_status_page="yes", penapi_history_map="", penapi_stream_limit="0")
        mx.reload()
        eventually(lambda: (browser.get(url), "no connection to penapi" in self.text(browser))[1], "no stream", 60)


if __name__ == "__main__":
    unittest.main()
