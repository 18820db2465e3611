"""Mail handed in by HTTP: what arrives, what is refused how, keys that are used twice over kills and reloads, and
clients that mean no good."""
import base64
import contextlib
import email
import email.policy
import hashlib
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import threading
import time
import urllib.parse

import test_dkim
from harness import *
from test_penapi import DESCRIPTION, UNIX, Unix, nobody, port_of

SHOP, ANY, ORDERS = "shop-token-0123456789abcdef0123456", "any-token-0123456789abcdef0123456", "0123456789abcdef-orders"
PATH = "/api/v1/messages"
SENDER = "info@shop.example"
BOX = "ada@virtual.test.example"


def token_file(directory):
    path = os.path.join(directory, "submission_tokens")
    with open(path, "w") as out:
        for login, token, senders in (("shop", SHOP, f"{SENDER} @news.shop.example"), ("any", ANY, "")):
            out.write(f"{login} {hashlib.sha256(token.encode()).hexdigest()} {senders}\n")
    os.chmod(path, 0o640)
    if os.geteuid() == 0:
        shutil.chown(path, "root")
    return path


def service(**more):
    """The line of conf/master.cf, with further options."""
    with open(os.path.join(TOP, "conf", "master.cf")) as file:
        text = file.read()
    line, options = re.search(r"^#handin (.*)\n((?:#  -o .*\n)+)", text, re.M).groups()
    words = [w.removeprefix("#  ") for w in options.splitlines()]
    words += [f"-o {{ {name} = {value} }}" for name, value in more.items()]
    return {"handin": " ".join([line.replace("1000", "100"), *words])}


def letter(to=BOX, **more):
    return {"from": f"Shop <{SENDER}>", "to": to, "subject": "one", "text": "hello\n", **more}


class Answer:
    def __init__(self, response, text):
        self.status, self.headers, self.text = response.status, response.headers, text
        self.json = json.loads(text)

    def __repr__(self):
        return f"{self.status} {self.text}"


class Http(Suite):
    """Fixture: an instance with penapi that takes mail."""
    settings, options = {}, {}

    def make(self, settings=None, options=None, **more):
        self.port = free_port()
        with contextlib.ExitStack() as stack:
            mx = stack.enter_context(Instance(
                {"penapi_submission_service": "handin", "smtpd_sasl_token_file": token_file(self.folder()),
                 "smtpd_peername_lookup": "no", "virtual_mailbox_maps": inline({BOX: "ada/"}),
                 "smtpd_sasl_type": "dovecot", "smtpd_error_sleep_time": "0", **(settings or {})},
                {UNIX[0]: UNIX[1] + " -o penapi_submission_map=", **dict([port_of(self.port)]),
                 **service(**(options or {}))}, **more))
            self.addCleanup(stack.pop_all().close)
        self.mx, self.box = mx, mx.virtual_box("ada")
        return mx

    def connection(self, local=False):
        if local:
            return Unix(self.mx.path("spool", "public", "penapi"))
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def post(self, body, token=SHOP, key=None, kind="application/json", path=PATH, local=False, headers=None):
        client = self.connection(local)
        try:
            fields = {"Content-Type": kind, **(headers or {})}
            if token:
                fields["Authorization"] = "Bearer " + token
            if key:
                fields["Idempotency-Key"] = key
            client.request("POST", path, json.dumps(body) if isinstance(body, dict) else body, fields)
            response = client.getresponse()
            answer = Answer(response, response.read().decode())
            DESCRIPTION.check("POST", path, answer.status, answer.headers["Content-Type"], answer.text)
            return answer
        finally:
            client.close()

    def accepted(self, body, **more):
        answer = self.post(body, **more)
        self.assertEqual(answer.status, 202, f"{answer}\n{self.mx.log()[-3000:]}")
        return answer

    def refused(self, status, body, says="", **more):
        answer = self.post(body, **more)
        self.assertEqual(answer.status, status, answer)
        if says:
            self.assertRegex(answer.text, says)
        return answer


class Messages(Http):
    def test_json_arrives_as_the_message_that_it_describes(self):
        self.make()
        logo, pdf = bytes(range(256)), b"%PDF" * 1000
        answer = self.accepted(letter(
            [f"Ada Löv <{BOX}>"], bcc=["ada+copy@virtual.test.example"], recipients=[BOX], subject="Grüße aus Köln",
            text="Grüße\n.\nlast", html='<img src="cid:logo">', reply_to="r@shop.example",
            headers={"X-Order": "4711", "List-Unsubscribe": "<https://shop.example/u>"},
            attachments=[{"name": "logo.png", "type": "image/png", "cid": "logo",
                          "content": base64.b64encode(logo).decode()},
                         {"name": "Rechnung für Ada.pdf", "type": "application/pdf",
                          "content": base64.b64encode(pdf).decode()}]))
        recipient, = answer.json["recipients"]
        self.assertEqual((recipient["address"], recipient["status"]), (BOX, "accepted"))
        self.assertEqual(recipient["reply"]["code"], 250)
        raw, = self.box.wait()
        got = email.message_from_bytes(raw, policy=email.policy.default)
        self.assertEqual(got["Subject"], "Grüße aus Köln")
        self.assertEqual(got["To"].addresses[0].display_name, "Ada Löv")
        self.assertEqual((got["From"].addresses[0].addr_spec, got["X-Order"]), (SENDER, "4711"))
        self.assertEqual(got["Message-ID"], answer.json["message_id"])
        self.assertIsNone(got["Bcc"])
        self.assertEqual(got["Return-Path"], f"<{SENDER}>")
        self.assertEqual(got.get_body(("plain",)).get_content().replace("\r\n", "\n"), "Grüße\n.\nlast\n")
        self.assertIn("cid:logo", got.get_body(("html",)).get_content())
        files = {part.get_filename(): part.get_content() for part in got.walk() if part.get_filename()}
        self.assertEqual(files, {"logo.png": logo, "Rechnung für Ada.pdf": pdf})
        id = answer.json["queue_id"]
        self.mx.wait_log(rf"{id}: client=\S*\[127\.0\.0\.1\], sasl_method=OAUTHBEARER, sasl_username=shop")
        self.mx.wait_log(rf"{id}: handed in by HTTP: 1 of 1 recipients")

    def test_a_whole_message_goes_as_it_is_with_the_envelope_of_the_query(self):
        self.make()
        content = b"From: x@elsewhere.example\nTo: undisclosed:;\nSubject: raw\n\nGr\xc3\xbc\xc3\x9fe\n.\n..\nend"
        query = urllib.parse.urlencode({"from": "a@news.shop.example", "to": f"{BOX}, {BOX}"})
        self.accepted(content, kind="message/rfc822", path=f"{PATH}?{query}")
        raw, = self.box.wait()
        self.assertTrue(raw.replace(b"\r\n", b"\n").endswith(b"\n\nGr\xc3\xbc\xc3\x9fe\n.\n..\nend\n"), raw)
        self.assertIn(b"Message-Id:", raw.title())  # smtpd completes the header, as for logins
        self.refused(422, content, "to", kind="message/rfc822", path=PATH + "?from=a@news.shop.example")
        self.refused(422, content, "more", kind="message/rfc822", path=f"{PATH}?{query}&more=1")
        self.refused(415, content, kind="text/plain", path=f"{PATH}?{query}")

    def test_a_client_at_the_unix_socket_is_served_too_and_the_page_s_command_works(self):
        mx = self.make()
        self.accepted(letter(), local=True)
        self.refused(400, letter(), "penapi_submission_map", key="one", local=True)
        with open(os.path.join(TOP, "docs", "http-submission.md"), encoding="utf-8") as page:
            text = page.read()
        made, = re.findall(r"(?m)^    (TOKEN=(?:.*\n)+?.*penstock reload)$", text)
        made = re.sub(r"(?m)^    ", "", made)
        tokens = os.path.join(mx.etc, "made_tokens")
        made = made.replace("/etc/penstock/submission_tokens", tokens).replace("penstock reload", "true")
        command, = re.findall(r"(?m)^    (curl (?:.*\\\n)*.*)$", text)
        command = command.replace("127.0.0.1:8025", f"127.0.0.1:{self.port}").replace("jo@example.org", BOX)
        token = subprocess.run(["bash", "-c", made + "; echo $TOKEN"], capture_output=True, text=True, check=True)
        mx.set(smtpd_sasl_token_file=tokens)
        mx.reload_whole()
        done = subprocess.run(["bash", "-c", command.replace("curl", "curl -sS", 1)], capture_output=True, text=True,
                              env={**os.environ, "TOKEN": token.stdout.strip()}, timeout=60)
        self.assertIn("recipients", json.loads(done.stdout), f"{done}\n{mx.log()[-5000:]}")
        self.assertEqual(json.loads(done.stdout)["recipients"][0]["status"], "accepted", done)
        self.box.wait(2)

    def test_what_is_handed_in_is_signed_as_submitted_mail_is(self):
        keys = test_dkim.Keys(self.folder())
        with Peer() as peer:
            self.make({**relay_to(peer), **keys.settings()})
            self.accepted(letter("b@rcpt.example", **{"from": test_dkim.FROM}, html="<p>x</p>"), token=ANY)
            peer.wait_messages(1)
            self.assertEqual(keys.verify(peer.messages[0].content), ["pass", "pass"])

    def test_addresses_beyond_ascii(self):
        with Peer() as peer:
            self.make(relay_to(peer, "xn--bcher-kva.example"))
            answer = self.accepted(letter("Jö <jo@bücher.example>"))
            self.assertEqual(answer.json["recipients"][0]["address"], "jo@xn--bcher-kva.example")
            peer.wait_messages(1)
            self.assertIn("jo@xn--bcher-kva.example", str(peer.messages[0].recipients))
            self.assertTrue(peer.messages[0].content.isascii())


class Refusals(Http):
    def test_each_recipient_has_its_answer(self):
        self.make(options={"smtpd_recipient_restrictions":
                           "check_recipient_access " + inline({"never@virtual.test.example": "550 5.1.1 never",
                                                               "later@virtual.test.example": "450 4.2.0 later",
                                                               "rate@virtual.test.example": "450 4.7.1 slowly"})})
        ada, never, later, rate = BOX, *(f"{n}@virtual.test.example" for n in ("never", "later", "rate"))
        answer = self.accepted(letter([ada, never], cc=later))
        self.assertEqual([(r["address"], r["status"], r["reply"]["enhanced"]) for r in answer.json["recipients"]],
                         [(ada, "accepted", "2.1.5"), (never, "refused", "5.1.1"), (later, "put_off", "4.2.0")])
        self.box.wait()
        refused = self.refused(422, letter(never), "5.1.1")
        self.assertEqual(refused.json["recipients"][0]["status"], "refused")
        self.assertTrue(self.refused(503, letter([never, later])).headers["Retry-After"])
        self.assertTrue(self.refused(503, letter(later), "4.2.0").headers["Retry-After"])
        self.assertTrue(self.refused(429, letter(rate), "4.7.1").headers["Retry-After"])
        self.assertEqual(len(self.box.messages()), 1)

    def test_many_refused_recipients_do_not_keep_the_good_one_from_its_mail(self):
        settings = {"smtpd_hard_error_limit": "20", "smtpd_error_sleep_time": "1s"}
        self.make(settings, {"smtpd_recipient_restrictions": "check_recipient_access " + inline({BOX: "permit"})
                             + " reject"})
        answer = self.accepted(letter([f"{n}@virtual.test.example" for n in range(25)] + [BOX]))
        self.assertEqual([r["status"] for r in answer.json["recipients"]], 25 * ["refused"] + ["accepted"])
        self.box.wait()

    def test_a_token_is_needed_and_is_for_its_senders(self):
        mx = self.make({"penapi_token_file": self.orders()})
        for token in (None, "wrong-token-0123456789abcdef012345", SHOP + "x", SHOP[:-1], "x", ORDERS, "a b"):
            self.refused(401, letter(), "token", token=token)
        mx.wait_log(r"\[127\.0\.0\.1\]: SASL OAUTHBEARER authentication failed: a wrong token")
        self.refused(401, letter(), headers={"Authorization": "Basic " + SHOP}, token=None)
        self.refused(422, letter(**{"from": "boss@shop.example"}), "not for the token of shop")
        self.refused(422, letter(envelope_from=""), "5.7.1")
        self.refused(422, letter(envelope_from="x@shop.example.evil.example"), "5.7.1")
        self.accepted(letter(**{"from": "any@news.shop.example"}))
        self.accepted(letter(envelope_from="INFO@Shop.Example"))
        self.accepted(letter(envelope_from=""), token=ANY)
        # The other way round it is no token for orders.
        client = self.connection()
        client.request("POST", "/api/v1/queue/flush", '{"all": true}', {"Authorization": "Bearer " + SHOP})
        self.assertEqual(client.getresponse().status, 401)
        client.close()

    def orders(self):
        path = os.path.join(self.folder(), "orders")
        with open(path, "w") as out:
            out.write(ORDERS + "\n")
        os.chmod(path, 0o600)
        return path

    def test_restrictions_on_logins_and_quotas_hold(self):
        self.make({"smtpd_sender_login_maps": inline({SENDER: "shop", "free@news.shop.example": "other"})},
                  {"smtpd_sender_restrictions": "reject_sender_login_mismatch",
                   "smtpd_data_restrictions": "check_sender_quota", "smtpd_quota_login_messages_per_hour": "2"})
        self.refused(422, letter(**{"from": "free@news.shop.example"}), "not owned by user shop")
        self.accepted(letter())
        self.accepted(letter())
        answer = self.refused(429, letter(), "quota of 2 messages per hour")
        self.assertTrue(answer.headers["Retry-After"])

    def test_limits_of_clients_go_by_the_client_s_address(self):
        mx = self.make(options={"smtpd_client_event_limit_exceptions": "", "smtpd_client_message_rate_limit": "2"})
        self.accepted(letter())
        self.accepted(letter())
        self.refused(429, letter(), "too much mail from 127.0.0.1")
        mx.wait_log(r"Message delivery request rate limit exceeded: 3 from \S*\[127\.0\.0\.1\]")

    def test_it_is_off_by_default_and_says_when_smtpd_is_not_there_or_not_set_up(self):
        self.make({"penapi_submission_service": ""})
        self.refused(403, letter(), "penapi_submission_service")
        self.mx.set(penapi_submission_service="nobody")
        self.mx.reload_whole()
        self.assertTrue(self.refused(503, letter()).headers["Retry-After"])

    def test_what_main_cf_says_for_other_services_does_not_shut_this_one(self):
        mx = self.make({"smtpd_discard_ehlo_keywords": "chunking, pipelining, size",
                        "smtpd_sasl_security_options": "noanonymous, noplaintext",
                        "smtpd_sasl_mechanism_filter": "plain, login", "smtpd_tls_auth_only": "yes",
                        "smtpd_sasl_exceptions_networks": "127.0.0.0/8"})
        self.accepted(letter())
        mx.set_services(service(smtpd_sasl_exceptions_networks="127.0.0.0/8"))
        mx.reload_whole()
        self.refused(503, letter(), "AUTH OAUTHBEARER")
        mx.set_services(service(smtpd_discard_ehlo_keywords="chunking"))
        mx.reload_whole()
        self.refused(503, letter(), "CHUNKING")
        mx.wait_log(r"penapi_submission_service: .*does not offer CHUNKING")

    def test_a_token_file_that_others_can_read_is_not_the_client_s_fault(self):
        path = token_file(self.folder())
        os.chmod(path, 0o644)
        mx = self.make({"smtpd_sasl_token_file": path})
        self.refused(503, letter(), "454|4.7.0")
        mx.wait_log(r"smtpd_sasl_token_file: .*chmod o-rwx")
        os.chmod(path, 0o640)
        mx.reload_whole()
        self.accepted(letter())


class Keys(Http):
    """Idempotency-Key."""

    def test_the_first_answer_comes_again_and_the_message_once(self):
        mx = self.make({"penapi_idempotency_time": "60s"})
        first = self.accepted(letter(), key='"one"')
        self.assertIsNone(first.headers["Idempotent-Replayed"])
        box = self.box.wait()
        for restart in (lambda: None, mx.reload_whole, lambda: mx.kill("penapi"),
                        lambda: (mx.stop(), mx.start())):
            restart()
            again = self.again(key="one")
            self.assertEqual((again.text, again.headers["Idempotent-Replayed"]), (first.text, "true"))
        self.refused(422, letter(subject="two"), "another one", key="one")
        other = self.accepted(letter(), key="one", token=ANY)  # a key is its token's
        self.assertNotEqual(other.json["queue_id"], first.json["queue_id"])
        self.box.wait(2)
        self.assertEqual(len(box), 1)
        for bad in ("x" * 256, 'a"b'):
            self.refused(400, letter(), "Idempotency-Key", key=bad)

    def again(self, **more):
        """A program that has just been replaced may hang up."""
        def once():
            try:
                answer = self.post(letter(), **more)
            except (OSError, http.client.HTTPException):
                return None
            return None if answer.status == 503 else answer
        answer = None

        def asked():
            nonlocal answer
            answer = once()
            return answer
        eventually(asked, lambda: f"an answer\n{self.mx.log()[-3000:]}")
        self.assertEqual(answer.status, 202, answer)
        return answer

    def test_refusals_for_good_are_kept_and_others_are_not(self):
        self.make(options={"smtpd_recipient_restrictions": "check_recipient_access " + inline(
            {"never@virtual.test.example": "550 5.1.1 never", "later@virtual.test.example": "450 4.2.0 later"})})
        for to, status in (("never", 422), ("later", 503)):
            first = self.refused(status, letter(f"{to}@virtual.test.example"), key=to)
            again = self.refused(status, letter(f"{to}@virtual.test.example"), key=to)
            self.assertEqual(again.headers["Idempotent-Replayed"], "true" if status == 422 else None)
            self.assertEqual(first.json, again.json)

    @contextlib.contextmanager
    def waiting_for_qmgr(self, key):
        """A request whose message qmgr has not taken yet; what it was answered stands in `got` behind the block."""
        got = []

        def ask():
            try:
                got.append(self.post(letter("b@later.example"), key=key))
            except (OSError, http.client.HTTPException) as error:
                got.append(error)
        before = self.mx.log_size()
        with suspended(*self.mx.pids()["qmgr"]):
            thread = threading.Thread(target=ask)
            thread.start()
            eventually(lambda: re.search(r": message-id=", self.mx.log()[before:]), "the message is at its end")
            yield got
        thread.join()

    def test_the_same_key_at_the_same_time_is_a_conflict(self):
        self.make({"default_transport": nobody()})
        with self.waiting_for_qmgr("one") as got:
            self.refused(409, letter("b@later.example"), key="one")
        self.assertEqual(got[0].status, 202, got)

    def test_a_kill_between_the_queue_and_the_answer_makes_no_second_message(self):
        """penapi dies when smtpd has the whole message, and before qmgr has answered."""
        mx = self.make({"default_transport": nobody()})
        with self.waiting_for_qmgr("one") as got:
            mx.kill("penapi")
        self.assertIsInstance(got[0], Exception)
        eventually(lambda: len(mx.queue()) == 1, "the message is queued")
        queued, = mx.queue()
        answer = None

        def asked():
            nonlocal answer
            with contextlib.suppress(OSError, http.client.HTTPException):
                answer = self.post(letter("b@later.example"), key="one")
            return answer is not None and answer.status != 503
        eventually(asked, lambda: f"an answer\n{mx.log()[-3000:]}")
        self.assertEqual((answer.status, answer.headers["Idempotent-Replayed"]), (202, "true"))
        self.assertEqual(answer.json["queue_id"], queued["queue_id"])
        self.assertEqual(len(mx.queue()), 1)

    def test_a_kill_of_smtpd_before_the_queue_has_answered_makes_no_second_message(self):
        """smtpd dies with the message on its way to qmgr: the client hears 503, and asks again before qmgr goes on."""
        mx = self.make({"default_transport": nobody()})
        answers = []

        def ask_again():
            while not answers or answers[-1].status == 503:
                answers.append(self.post(letter("b@later.example"), key="one"))
        again = threading.Thread(target=ask_again)
        with self.waiting_for_qmgr("one") as got:
            # The end of the message is logged before it is handed in: one more is, behind it.
            with Client(mx.port) as c:
                c.command("MAIL FROM:<c@client.example>")
                c.command("RCPT TO:<b@later.example>")
            mx.kill("smtpd")
            eventually(lambda: got, "an answer")
            before = mx.log_size()
            again.start()
            eventually(lambda: re.search(r"smtpd\[\d+\]: connect from ", mx.log()[before:]), "the next request", 60)
        self.assertEqual(got[0].status, 503, got)
        self.assertIn("same Idempotency-Key", got[0].text)
        again.join()
        self.assertEqual(answers[-1].status, 202, answers)
        eventually(lambda: [m["queue_id"] for m in mx.queue()] == [answers[-1].json["queue_id"]], lambda: mx.queue())

    def test_a_full_memory_of_keys_takes_no_more_and_forgets_none(self):
        self.make({"penapi_idempotency_limit": "65536"})
        first = self.accepted(letter(), key="0")
        for number in range(1, 100):
            answer = self.post(letter(), key=str(number))
            if answer.status == 503:
                break
            self.assertEqual(answer.status, 202)
        self.assertEqual(answer.status, 503)
        self.assertIn("penapi_idempotency_limit", answer.text)
        self.assertEqual(self.accepted(letter(), key="0").json, first.json)
        self.accepted(letter(), key="0", token=ANY)  # another token has a quarter of its own
        self.accepted(letter())

    def test_without_a_file_no_key_is_taken(self):
        self.make({"penapi_submission_map": ""})
        self.refused(400, letter(), "penapi_submission_map", key="one")
        self.accepted(letter())


class Hostile(Http):
    def test_no_field_of_a_request_adds_a_line_or_a_command(self):
        self.make()
        for bad in ("\r\nX-Evil: 1", "\nX-Evil: 1", "\rX-Evil: 1", "\x00", "\r\n\r\nbody", "\r\n.\r\nRSET"):
            for change in (lambda b: {"from": SENDER + b}, lambda b: {"from": f"A{b} <{SENDER}>"},
                           lambda b: {"to": [BOX + b]}, lambda b: {"to": f"A{b} <{BOX}>"}, lambda b: {"cc": [BOX + b]},
                           lambda b: {"bcc": [BOX + b]}, lambda b: {"recipients": [BOX + b]},
                           lambda b: {"reply_to": BOX + b}, lambda b: {"envelope_from": SENDER + b},
                           lambda b: {"subject": "a" + b}, lambda b: {"headers": {"X-A": "a" + b}},
                           lambda b: {"headers": {"X-A" + b: "a"}}, lambda b: {"headers": {"Message-ID": f"<a@b{b}>"}},
                           lambda b: {"attachments": [{"content": "", "name": "a" + b}]},
                           lambda b: {"attachments": [{"content": "", "type": "a/b" + b}]},
                           lambda b: {"attachments": [{"content": "", "cid": "a" + b}]},
                           lambda b: {"attachments": [{"content": "AAAA" + b}]}):
                self.refused(422, letter(**change(bad)))
        # In the text it is text.
        self.accepted(letter(text="a\r\n.\r\nMAIL FROM:<x@y.example>\r\n\r\n--=_m\r\n", subject="A: B"))
        raw, = self.box.wait()
        self.assertIn(b"MAIL FROM:<x@y.example>", raw)
        self.assertEqual(len(fields(split(raw, b"\n")[0], b"\n")), len(set(f.split(b":")[0] for f in fields(
            split(raw, b"\n")[0], b"\n"))))

    def test_bodies_of_odd_shape(self):
        self.make()
        for body, status in ((b"", 400), (b"{", 400), (b"\xff", 400), (b"[" * 100_000, 422),
                             (b'{"a":' * 100_000, 422), (b'{"to":' + b"[" * 100_000, 422), (b"{}", 422),
                             (json.dumps(letter(more="x")).encode(), 422), (b"null", 422),
                             (json.dumps(letter(to=[])).encode(), 422),
                             (json.dumps(letter(to=["a@b.example"] * 10_001)).encode(), 422)):
            self.refused(status, body)
        self.refused(400, letter(), path=PATH + "?from=a")
        self.accepted(letter())

    def test_what_is_too_large_is_refused_before_it_is_read(self):
        mx = self.make({"message_size_limit": "1000000", "penapi_submission_memory": "4m"})
        answer = self.refused(413, b"x" * 100_000_000)
        self.assertTrue(answer.json["error"])
        # What fits into the request and not into a message: smtpd says so.
        big = base64.b64encode(b"\0" * 740_000).decode()
        self.assertEqual(self.refused(413, letter(attachments=[{"content": big}])).json["reply"]["enhanced"], "5.3.4")
        pid, = mx.pids()["penapi"][:1]
        with open(f"/proc/{pid}/status") as status:
            peak = int(re.search(r"VmHWM:\s+(\d+)", status.read())[1])
        self.assertLess(peak, 100_000, "kB of memory")
        self.accepted(letter())

    def test_slow_clients_get_408_and_others_wait_for_their_memory(self):
        self.make({"penapi_timeout": "2s", "penapi_submission_memory": "1m"})
        self.refused(413, b"x" * 300_000)
        slow = socket.create_connection(("127.0.0.1", self.port))
        self.addCleanup(slow.close)
        slow.sendall((f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {SHOP}\r\n"
                      "Content-Type: application/json\r\nContent-Length: 200000\r\n"
                      "Expect: 100-continue\r\n\r\n").encode())
        self.assertIn(b"100 Continue", slow.recv(1000))  # from here on the memory is its
        begun = time.monotonic()
        large = self.post(letter(text="x" * 199_000))
        self.assertIn(large.status, (202, 503), large)
        if large.status == 503:
            self.assertIn("penapi_submission_memory", large.text)
        self.assertGreater(time.monotonic() - begun, 1.0)
        self.assertIn(b" 408 ", slow.recv(1000))
        self.accepted(letter(text="x" * 199_000))

    def test_a_stranger_takes_no_memory(self):
        self.make()
        with socket.create_connection(("127.0.0.1", self.port)) as stranger:
            stranger.sendall((f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {SHOP}x\r\n"
                              "Content-Type: application/json\r\nContent-Length: 9000000\r\n\r\n").encode())
            self.assertIn(b" 401 ", stranger.recv(1000))  # not a byte of the body was sent


class BySmtp(Http):
    """smtpd_sasl_type = token at a port for mail clients."""

    def test_a_token_logs_in_by_smtp_too(self):
        port = free_port()
        mx = self.make()
        mx.set_services({f"127.0.0.1:{port}": "inet n - n - - smtpd -o smtpd_sasl_auth_enable=yes "
                                              "-o smtpd_sasl_type=token"})
        mx.reload_whole()
        say = lambda token: base64.b64encode(f"n,,\x01auth=Bearer {token}\x01\x01".encode()).decode()
        eventually(lambda: answers(port), "the new service")
        with Client(port) as client:
            self.assertIn("AUTH OAUTHBEARER", client.features)
            client.expect("AUTH OAUTHBEARER " + say(SHOP + "x"), "334")
            client.expect("AQ==", "535")
            client.expect("AUTH OAUTHBEARER " + say(SHOP), "235")
            client.expect("MAIL FROM:<boss@shop.example>", "553")
            client.send(SENDER, [BOX], mail())
            client.quit()
        self.box.wait()


if __name__ == "__main__":
    unittest.main()
