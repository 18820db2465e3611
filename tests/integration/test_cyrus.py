"""AUTH by Cyrus SASL: the program cyrus decides, with sasldb, a real saslauthd, and beside Postfix."""
import glob
import os
import re
import shutil
import signal
import socket
import subprocess
import time

import peers
from harness import *
from instance import mail_owner
from sasl_client import MECHANISMS, b64, log_in, plain
from test_confinement import status_of

ANNA, SECRET = "anna", "secret one"
REALM = "mx.test.example"
os.environ["PATH"] += ":/usr/sbin"


def unavailable():
    if not shutil.which("saslpasswd2") or not shutil.which("saslauthd"):
        return "needs sasl2-bin"
    return None if glob.glob("/usr/lib/*/sasl2/libscram.so") else "needs libsasl2-modules"


def sasldb(path, logins=((ANNA, REALM, SECRET),)):
    for user, realm, password in logins:
        subprocess.run(["saslpasswd2", "-p", "-c", "-f", path, "-u", realm, user], input=password, text=True,
                       check=True, capture_output=True)
    if os.geteuid() == 0:
        shutil.chown(path, "root", "sasl")
    os.chmod(path, 0o640)  # as Debian has it
    return path


class Saslauthd:
    """saslauthd with a socket of its own. It asks a sasldb, which stands in the place of the machine's for it alone."""

    def __init__(self, directory, database):
        self.directory, self.database, self.process = directory, database, None
        os.makedirs(directory, exist_ok=True)
        shutil.chown(directory, "root", "sasl")
        os.chmod(directory, 0o710)
        self.start()

    def start(self):
        self.begin('mount --bind "$1" /etc/sasldb2; exec saslauthd -a sasldb -n 2 -d -m "$2"', self.database)

    def begin(self, script, stands_in):
        self.process = subprocess.Popen(["unshare", "-m", "--propagation", "private", "sh", "-ec", script, "sh",
                                         stands_in, self.directory], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, start_new_session=True)
        eventually(lambda: os.path.exists(self.socket), "saslauthd listens")

    @property
    def socket(self):
        return os.path.join(self.directory, "mux")

    def signal(self, number):
        os.killpg(self.process.pid, number)

    def stop(self):
        if self.process:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGKILL)
            self.process.wait()
            self.process = None
            for name in os.listdir(self.directory):
                os.unlink(os.path.join(self.directory, name))


class ByPam(Saslauthd):
    """The same, and it asks PAM: pam_unix, with accounts that stand in the place of the machine's."""

    def __init__(self, directory, accounts):
        etc = directory + "-etc"
        shutil.copytree("/etc/pam.d", os.path.join(etc, "pam.d"))
        with open(os.path.join(etc, "pam.d", "smtp"), "w") as service:
            service.write("auth required pam_unix.so\naccount required pam_unix.so\n")
        for name, extra in (("passwd", ":x:{n}:{n}::/nonexistent:/bin/false"),
                            ("shadow", ":{hash}:19000:::::{end}:")):
            shutil.copy("/etc/" + name, etc)
            with open(os.path.join(etc, name), "a") as file:
                for n, (user, password, end) in enumerate(accounts, 4000):
                    hashed = subprocess.run(["openssl", "passwd", "-6", "-stdin"], input=password, text=True,
                                            capture_output=True, check=True).stdout.strip()
                    file.write(user + extra.format(n=n, hash=hashed, end=end) + "\n")
        super().__init__(directory, etc)

    def start(self):
        self.begin('for name in pam.d passwd shadow; do mount --bind "$1/$name" /etc/$name; done; '
                   'exec saslauthd -a pam -n 2 -d -m "$2"', self.database)


def settings(**more):
    return {"smtpd_sasl_auth_enable": "yes", "mynetworks": "192.0.2.1/32", "myhostname": REALM,
            "smtpd_relay_restrictions": "permit_sasl_authenticated, reject_unauth_destination",
            "smtpd_error_sleep_time": "0", "smtpd_hard_error_limit": "1000", "smtpd_soft_error_limit": "1000",
            "local_transport": "discard:", "relay_domains": "", "transport_maps": inline({"out.example": "discard:"}),
            **more}


class ByCyrus(Suite):
    def prepared(self, options, application="smtpd", **more):
        """An instance that is not started: options go into etc/sasl."""
        mx = Instance(settings(**more), start=False)
        self.addCleanup(mx.close)
        self.set_options(mx, options, application)
        return mx

    @staticmethod
    def set_options(mx, options, application="smtpd"):
        os.makedirs(os.path.join(mx.etc, "sasl"), exist_ok=True)
        path = os.path.join(mx.etc, "sasl", application + ".conf")
        with open(path, "w") as out:
            out.write("".join(f"{name}: {value}\n" for name, value in options.items()))
        os.chmod(path, 0o600)  # root reads it: a password of a database may stand in it
        return path

    def client(self, mx, **more):
        client = Client(mx.port, **more)
        self.addCleanup(client.close)
        return client

    def with_sasldb(self, **more):
        options = {"pwcheck_method": "auxprop", "auxprop_plugin": "sasldb", **more.pop("options", {})}
        mx = self.prepared({}, **more)
        options["sasldb_path"] = sasldb(os.path.join(mx.dir, "sasldb2"),
                                        ((ANNA, REALM, SECRET), ("berta", "other.example", "secret two")))
        self.set_options(mx, options)
        mx.start()
        return mx

    @staticmethod
    def cyrus_pid(mx):
        pids = mx.pids().get("cyrus")
        return pids[0] if pids else None


class ByTable(ByCyrus):
    """smtpd_sasl_type = table: users and the hashes of their passwords."""
    # Of SECRET, made by crypt(3): yescrypt, sha512-crypt, bcrypt.
    YESCRYPT = "$y$j9T$F5Jx5fExrKuPp53xLKQ..1$T8PAR3GwRk5TQ8IaYojE5eiAVJWvnSgzaQOt32sdyB9"
    SHA512 = ("$6$saltsalt$"
              "cfOpWsok.BgSC4jfs0gXuKd/y.dLuVk93KqxpeBEJDawE1Q48nccIkVs/EGje2aQsGhrznmcFWU5h3brXpY6W0")
    BCRYPT = "$2b$05$abcdefghijklmnopqrstuu8Qmxw9ewZdqeJgdmaKFE3TQffaFYXMq"

    def with_users(self, text, kind="texthash", **more):
        mx = Instance(settings(smtpd_sasl_type="table", **more), start=False)
        self.addCleanup(mx.close)
        self.users = mx.write("users", text)
        os.chmod(self.users, 0o600)  # root's alone
        mx.set(smtpd_sasl_path=f"{kind}:{self.users}")
        return mx

    def replies(self, mx, mechanism, user, password):
        with Client(mx.port) as client:
            return log_in(client, mechanism, user, password)[-1]

    def test_users_log_in_by_their_hashes(self):
        mx = self.with_users(f"anna {self.YESCRYPT}\nberta@out.example {{SHA512-CRYPT}}{self.SHA512}\n"
                             f"carl {self.BCRYPT}\nlocked !{self.SHA512}\n")
        mx.start()
        client = self.client(mx)
        self.assertIn("AUTH PLAIN LOGIN", client.features)
        for mechanism in ("PLAIN", "LOGIN"):
            for user in ("anna", "Berta@out.example", "carl"):
                with self.subTest((mechanism, user)):
                    client = self.client(mx)
                    self.assertRegex(log_in(client, mechanism, user, "guess")[-1],
                                     "^535 5.7.8 Error: authentication failed: authentication failure$")
                    self.assertRegex(log_in(client, mechanism, user, SECRET)[-1], "^235 2.7.0")
                    client.send("x@out.example", ["y@out.example"], mail())
                    mx.wait_log(rf"sasl_method={mechanism}, sasl_username={user.lower()}\n")
            for user in ("nobody", "locked", "berta", ""):
                self.assertRegex(self.replies(mx, mechanism, user, SECRET),
                                 "^535 5.7.8 Error: authentication failed: authentication failure$")
        mx.wait_log("SASL PLAIN authentication failed: authentication failure, sasl_username=nobody")
        self.assertNotIn(SECRET, mx.log())
        self.assertNotIn("is no hash", mx.log())
        # A table that changes is read anew, one that cannot be read locks nobody out.
        text = mx.write("users.new", f"dora {self.SHA512}\n")
        os.chmod(text, 0o600)
        os.replace(text, self.users)
        eventually(lambda: self.replies(mx, "PLAIN", "dora", SECRET).startswith("235 "), lambda: mx.log())
        self.assertRegex(self.replies(mx, "PLAIN", "anna", SECRET), "^535 ")
        os.rename(self.users, text)
        eventually(lambda: self.replies(mx, "LOGIN", "dora", SECRET).startswith("454 4.7.0"), lambda: mx.log())
        mx.wait_log(r"cyrus\[\d+\]: warning: SASL authentication problem: .*users")
        os.rename(text, self.users)
        eventually(lambda: self.replies(mx, "LOGIN", "dora", SECRET).startswith("235 "), lambda: mx.log())

    def test_a_table_that_is_made_of_a_text_and_a_realm(self):
        mx = self.with_users(f"anna@{REALM} {self.SHA512}\n", "hash", smtpd_sasl_local_domain=REALM)
        self.assertIn("users.lmdb: made", mx.tool("penmap", "--all").stdout)
        self.assertEqual(os.stat(self.users + ".lmdb").st_mode & 0o777, 0o600)
        mx.start()
        self.assertRegex(self.replies(mx, "PLAIN", ANNA, SECRET), "^235 ")
        self.assertRegex(self.replies(mx, "PLAIN", ANNA + "@" + REALM, SECRET), "^235 ")
        self.assertRegex(self.replies(mx, "PLAIN", ANNA + "@other.example", SECRET), "^535 ")

    def test_check_says_what_is_wrong_with_the_table(self):
        mx = self.with_users(f"anna {self.SHA512}\nberta !\n")
        self.assertNotIn("sasl", mx.tool("penstock", "check").stdout)
        mx.write("users", f"anna {self.SHA512}\n\nberta secret\n")
        os.chmod(self.users, 0o644)
        said = mx.tool("penstock", "check").stdout
        self.assertRegex(said, r"users:3: .*the value of berta is no hash of crypt\(3\)")
        self.assertRegex(said, r"everybody can read \S+/users, which holds hashes of passwords")
        self.assertNotIn("secret", said)
        os.unlink(self.users)
        self.assertRegex(mx.tool("penstock", "check").stdout, r"users: .*No such file.*: nobody can log in")
        mx.set(smtpd_sasl_path="smtpd")
        self.assertRegex(mx.tool("penstock", "check").stdout, r"smtpd_sasl_path: .*nobody can log in")
        mx.set_services({"cyrus": None})
        self.assertRegex(mx.tool("penstock", "check").stdout,
                         "smtpd_sasl_type is table and master.cf has no service with the program cyrus")


@unittest.skipIf(unavailable(), unavailable())
class WithSasldb(ByCyrus):
    def test_every_mechanism_logs_in_and_refuses(self):
        mx = self.with_sasldb()
        offered = next(f for f in self.client(mx).features if f.startswith("AUTH ")).split()[1:]
        self.assertTrue(set(MECHANISMS) <= set(offered), offered)
        self.assertNotIn("ANONYMOUS", offered)  # smtpd_sasl_security_options = noanonymous
        for mechanism in MECHANISMS:
            with self.subTest(mechanism):
                client = self.client(mx)
                self.assertRegex(log_in(client, mechanism, ANNA, "guess")[-1],
                                 "^535 5.7.8 Error: authentication failed: authentication failure$")
                self.assertRegex(log_in(client, mechanism, "nobody", "guess")[-1], "^535 5.7.8 ")
                self.assertRegex(log_in(client, mechanism, ANNA, SECRET)[-1], "^235 2.7.0")
                client.send("x@out.example", ["y@out.example"], mail())
                mx.wait_log(rf"sasl_method={mechanism}, sasl_username={ANNA}\n")
        self.assertRegex(mx.log(), r"warning: \S+\[127.0.0.1\]: SASL PLAIN authentication failed: authentication "
                                   r"failure, sasl_username=")
        self.assertNotIn(SECRET, mx.log())
        self.assertNotIn(b64(SECRET), mx.log())
        self.assertNotIn("guess", mx.log())
        self.assertNotIn("must not make", mx.log())

    def test_options_and_lists_choose_what_is_offered(self):
        def offered(mx):
            with Client(mx.port) as client:
                return {f for f in client.features if f.startswith("AUTH")}
        mx = self.with_sasldb(options={"mech_list": "PLAIN CRAM-MD5 LOGIN"}, broken_sasl_auth_clients="yes")
        self.assertEqual(offered(mx), {"AUTH PLAIN CRAM-MD5 LOGIN", "AUTH=PLAIN CRAM-MD5 LOGIN"})
        for change, left in (({"smtpd_sasl_security_options": "noanonymous, noplaintext"}, {"AUTH CRAM-MD5"}),
                             ({"smtpd_sasl_mechanism_filter": "!cram-md5, static:rest"}, {"AUTH PLAIN LOGIN"}),
                             ({"smtpd_sasl_exceptions_networks": "127.0.0.0/8"}, set())):
            mx.set(**{"broken_sasl_auth_clients": "no", "smtpd_sasl_security_options": "noanonymous",
                      "smtpd_sasl_mechanism_filter": "!external, static:rest", **change})
            mx.reload_whole()
            self.assertEqual(offered(mx), left)

    def test_the_realm_is_where_names_are_looked_up_and_each_service_has_its_own(self):
        mx = self.with_sasldb(smtpd_sasl_local_domain="other.example")
        for mechanism, user, password, code in (
                ("PLAIN", "berta", "secret two", "235"), ("CRAM-MD5", "berta", "secret two", "235"),
                ("PLAIN", ANNA, SECRET, "535"), ("PLAIN", f"{ANNA}@{REALM}", SECRET, "235")):
            with self.subTest(user=user, mechanism=mechanism), Client(mx.port) as client:
                self.assertRegex(log_in(client, mechanism, user, password)[-1], f"^{code}")
        with Client(mx.port) as client:
            log_in(client, "LOGIN", "berta", "secret two")
            client.send("x@out.example", ["y@out.example"], mail())
        mx.wait_log("sasl_method=LOGIN, sasl_username=berta@other.example\n")
        other = free_port()
        more = sasldb(os.path.join(mx.dir, "more"), (("carl", REALM, "three"),))
        self.set_options(mx, {"pwcheck_method": "auxprop", "auxprop_plugin": "sasldb", "mech_list": "LOGIN",
                              "sasldb_path": more}, "other")
        mx.set_services({f"127.0.0.1:{other}": "inet n - n - - smtpd -o smtpd_sasl_path=other "
                                               "-o smtpd_sasl_local_domain="})
        mx.reload_whole()
        with Client(other) as client:
            self.assertIn("AUTH LOGIN", client.features)
            self.assertRegex(log_in(client, "LOGIN", "berta@other.example", "secret two")[-1], "^535")
            self.assertRegex(log_in(client, "LOGIN", "carl", "three")[-1], "^235")
        self.assertRegex(log_in(self.client(mx), "PLAIN", "berta", "secret two")[-1], "^235")

    def test_what_is_given_up_or_is_no_response_ends_the_exchange_alone(self):
        mx = self.with_sasldb()
        other = self.client(mx)
        other.expect("AUTH LOGIN", "334")
        client = self.client(mx)
        for mechanism in ("PLAIN", "LOGIN", "CRAM-MD5", "DIGEST-MD5"):
            client.expect("AUTH " + mechanism, "334")
            client.expect("*", "501 5.7.0")
        client.expect("AUTH PLAIN", "334")
        client.expect("dGhpcyBpcyBubyBnb29k!", "501 5.5.2")
        client.expect("AUTH CRAM-MD5", "334")
        client.expect(b64("nonsense"), "535 5.7.8")
        client.expect("AUTH NOSUCH", "535 5.7.8 Error: authentication failed: Invalid authentication mechanism")
        client.expect("AUTH PLAIN =", "535")  # an empty response (RFC 4954 section 4)
        left = self.client(mx)
        left.expect("AUTH LOGIN", "334")
        left.close()
        # Longer than Dovecot would bear, and longer than smtpd does.
        client.expect("AUTH PLAIN", "334")
        client.expect(plain_of("x" * 8000, "y"), "535")
        client.expect("AUTH PLAIN", "334")
        client.expect("A" * 12292, "500 5.5.6")
        mx.ask_status("cyrus")
        mx.wait_log(r"cyrus\[\d+\]: .*under way: 1, threads at work: 0")  # the other's
        other.expect(b64(ANNA), "334")
        other.expect(b64(SECRET), "235")

    def test_killed_in_the_middle_it_comes_back(self):
        mx = self.with_sasldb()
        client = self.client(mx)
        client.expect("AUTH LOGIN", "334")
        before = self.cyrus_pid(mx)
        os.kill(before, signal.SIGKILL)
        client.expect(b64(ANNA), "454 4.7.0")
        self.assertTrue(client.has("AUTH"))
        eventually(lambda: log_in(client, "PLAIN", ANNA, SECRET)[-1].startswith("235"), "a log-in by the next one")
        self.assertNotEqual(self.cyrus_pid(mx), before)

    def test_a_reload_takes_new_options_and_sessions_go_on(self):
        mx = self.with_sasldb()
        client = self.client(mx)
        client.expect("AUTH LOGIN", "334")
        self.set_options(mx, {"pwcheck_method": "auxprop", "auxprop_plugin": "sasldb", "mech_list": "PLAIN",
                              "sasldb_path": os.path.join(mx.dir, "sasldb2")})
        mx.reload()
        eventually(lambda: "AUTH PLAIN" in self.client(mx).features, "the new options hold")
        client.expect(b64(ANNA), "334")
        client.expect(b64(SECRET), "235")

    @unittest.skipIf(os.geteuid() != 0, "needs root")
    def test_the_group_alone_opens_sasldb_and_no_other_program_has_it(self):
        import grp
        mx = self.with_sasldb()
        self.assertRegex(log_in(self.client(mx), "PLAIN", ANNA, SECRET)[-1], "^235")
        group = str(grp.getgrnam("sasl").gr_gid)
        groups = {program: status_of(pids[0])["Groups"].split() for program, pids in mx.pids().items()
                  if program not in ("keeper", "master", "become")}
        self.assertIn(group, groups["cyrus"])
        self.assertEqual([p for p, of in groups.items() if group in of], ["cyrus"])
        with open(f"/proc/{mx.pids()['smtpd'][0]}/maps") as loaded:
            self.assertNotIn("libsasl2", loaded.read())

    def test_what_is_closed_to_it_is_told_and_is_no_wrong_password(self):
        mx = self.with_sasldb(options={"mech_list": "PLAIN CRAM-MD5"})
        path = os.path.join(mx.dir, "sasldb2")
        os.chmod(path, 0o600)
        if os.geteuid() == 0:
            shutil.chown(path, "root", "root")
            self.assertRegex(mx.tool("penstock", "check").stdout,
                             r"sasldb at \S+ cannot be used by .*: Permission denied")
        mx.reload_whole()
        client = self.client(mx)
        if os.geteuid() == 0:
            reply = log_in(client, "PLAIN", ANNA, SECRET)[-1]
            self.assertRegex(mx.log(), r"cyrus\[\d+\]: .*sasldb, \S+: Permission denied: who is in it cannot log in")
            self.assertRegex(reply, "^(454|535)")  # the library says "user not found", as in Postfix


def plain_of(user, password):
    return next(plain(user, password))


@unittest.skipIf(unavailable() or peers.unavailable(), unavailable() or peers.unavailable())
class WithSaslauthd(ByCyrus):
    def with_saslauthd(self, **more):
        mx = self.prepared({}, **more)
        database = sasldb(os.path.join(mx.dir, "sasldb2"),  # saslauthd looks names without a realm up under its host
                          ((ANNA, REALM, SECRET), (ANNA, socket.gethostname(), SECRET)))
        daemon = Saslauthd(os.path.join(mx.dir, "saslauthd"), database)
        self.addCleanup(daemon.stop)
        self.set_options(mx, {"pwcheck_method": "saslauthd", "mech_list": "PLAIN LOGIN CRAM-MD5",
                              "saslauthd_path": daemon.socket, "auxprop_plugin": "sasldb", "sasldb_path": database})
        return mx, daemon

    def test_passwords_are_checked_and_one_that_is_killed_is_no_wrong_password(self):
        mx, daemon = self.with_saslauthd()
        self.assertNotIn("saslauthd", mx.tool("penstock", "check").stdout)
        mx.start()
        client = self.client(mx)
        self.assertRegex(log_in(client, "PLAIN", ANNA, "guess")[-1], "^535 5.7.8")
        self.assertRegex(log_in(client, "LOGIN", ANNA, "guess")[-1], "^535 5.7.8")
        self.assertRegex(log_in(self.client(mx), "PLAIN", ANNA, SECRET)[-1], "^235")
        self.assertRegex(log_in(self.client(mx), "LOGIN", f"{ANNA}@{REALM}", SECRET)[-1], "^235")
        daemon.stop()
        said = mx.log().count("authentication failed")
        self.assertRegex(log_in(client, "PLAIN", ANNA, SECRET)[-1], "^454 4.7.0")
        self.assertRegex(log_in(client, "CRAM-MD5", ANNA, SECRET)[-1], "^235")  # it needs none
        mx.wait_log(r"cyrus\[\d+\]: warning: SASL authentication problem: cannot connect to saslauthd server")
        self.assertEqual(mx.log().count("authentication failed"), said)
        self.assertRegex(mx.tool("penstock", "check").stdout, "the socket of saslauthd is not at .*: start saslauthd")
        daemon.start()
        self.assertRegex(log_in(self.client(mx), "PLAIN", ANNA, SECRET)[-1], "^235")
        self.assertNotIn(SECRET, mx.log())

    def test_pam_decides_by_its_accounts(self):
        mx = self.prepared({})
        daemon = ByPam(os.path.join(mx.dir, "saslauthd"), ((ANNA, SECRET, ""), ("berta", "secret two", "1")))
        self.addCleanup(daemon.stop)
        self.set_options(mx, {"pwcheck_method": "saslauthd", "mech_list": "PLAIN LOGIN",
                              "saslauthd_path": daemon.socket})
        mx.start()
        for mechanism in ("PLAIN", "LOGIN"):
            client = self.client(mx)
            self.assertRegex(log_in(client, mechanism, ANNA, "guess")[-1], "^535 5.7.8")
            self.assertRegex(log_in(client, mechanism, "nobody-here", SECRET)[-1], "^535 5.7.8")
            self.assertRegex(log_in(client, mechanism, "berta", "secret two")[-1], "^535 5.7.8")  # it has expired
            self.assertRegex(log_in(client, mechanism, ANNA, SECRET)[-1], "^235")
            client.send("x@out.example", ["y@out.example"], mail())
            mx.wait_log(rf"sasl_method={mechanism}, sasl_username={ANNA}\n")
        self.assertNotIn(SECRET, mx.log())

    def test_one_that_hangs_holds_up_nobody_else_and_not_for_long(self):
        mx, daemon = self.with_saslauthd(cyrus_sasl_step_timeout="3s", cyrus_sasl_thread_limit="2")
        mx.start()
        self.assertRegex(log_in(self.client(mx), "PLAIN", ANNA, SECRET)[-1], "^235")
        daemon.signal(signal.SIGSTOP)
        hung = [self.client(mx) for _ in range(6)]  # more than there are threads
        begun = time.monotonic()
        for client in hung:
            client.raw(f"AUTH PLAIN {plain_of(ANNA, SECRET)}\r\n".encode())
        time.sleep(0.5)
        for _ in range(5):
            self.assertRegex(log_in(self.client(mx), "CRAM-MD5", ANNA, SECRET)[-1], "^235")
        send_and_go = self.client(mx)
        send_and_go.expect("NOOP", "250")
        self.assertLess(time.monotonic() - begun, 2.5)
        for client in hung:
            self.assertRegex(client.reply(), "^454 4.7.0")
        self.assertGreater(time.monotonic() - begun, 2.5)
        self.assertLess(time.monotonic() - begun, 10)
        daemon.signal(signal.SIGCONT)
        eventually(lambda: log_in(self.client(mx), "PLAIN", ANNA, SECRET)[-1].startswith("235"), "it goes on")


@unittest.skipIf(unavailable() or peers.unavailable(), unavailable() or peers.unavailable())
class BesidePostfix(ByCyrus):
    """The same options, the same commands: what clients see. One thing differs, for Dovecot as well: Postfix says the
    reason behind 454."""

    def test_clients_see_the_same(self):
        logins = [(ANNA, realm, SECRET) for realm in (REALM, "local.example")]
        for realm in ("", "local.example"):
            with self.subTest(realm=realm):
                port = free_port()
                postfix = peers.Postfix(
                    port, settings=f"smtpd_sasl_auth_enable = yes\nmyhostname = {REALM}\nsmtpd_error_sleep_time = 0\n"
                                   "smtpd_hard_error_limit = 1000\nsmtpd_soft_error_limit = 1000\n"
                                   f"smtpd_sasl_local_domain = {realm}\ncyrus_sasl_config_path = /etc/postfix/sasl\n")
                database = sasldb(os.path.join(postfix.dir, "lib", "sasldb2"), logins)
                os.chmod(database, 0o644)
                mx = self.prepared({}, smtpd_sasl_local_domain=realm)
                options = "pwcheck_method: auxprop\nauxprop_plugin: sasldb\nsasldb_path: %s\n"
                self.write_options(os.path.join(mx.etc, "sasl", "smtpd.conf"), options % database)
                self.write_later(postfix, options % "/var/lib/sasldb2")
                with postfix:
                    mx.start()
                    self.compare(postfix.port, mx.port)

    @staticmethod
    def write_options(path, text):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as out:
            out.write(text)

    def write_later(self, postfix, text):
        """Postfix's directory is made when it starts; smtpd reads the options with its first client."""
        start = postfix.start

        def begin():
            start()
            self.write_options(os.path.join(postfix.dir, "etc/postfix/sasl/smtpd.conf"), text)
        postfix.start = begin

    def compare(self, theirs, ours):
        def shown(reply):
            # Challenges hold random bytes.
            return "334" if reply[:3] == "334" else re.sub("(^454 .*failure: ).*", r"\1", reply)

        def session(port):
            seen = []
            with Client(port) as client:
                line = next((f for f in client.features if f.startswith("AUTH ")), "")
                seen.append(("EHLO", sorted(line.split())))
            for mechanism in MECHANISMS:
                for user, password in ((ANNA, SECRET), (ANNA, "guess"), ("nobody", "guess"),
                                       (f"{ANNA}@{REALM}", SECRET), ("", ""), (ANNA, "")):
                    with Client(port) as client:
                        replies = log_in(client, mechanism, user, password)
                        seen.append((mechanism, user, password, [shown(r) for r in replies]))
            with Client(port) as client:
                for line in ("AUTH", "AUTH PLAIN x y", "AUTH PLAIN", "*", "AUTH LOGIN", "*",
                             "AUTH CRAM-MD5", b64("nonsense"),
                             "AUTH LOGIN " + b64(ANNA), b64(SECRET), "AUTH PLAIN"):
                    seen.append((line, shown(client.command(line))))
            return seen
        self.maxDiff = None
        self.assertEqual(session(theirs), session(ours))


class Configured(ByCyrus):
    def test_without_the_service_smtpd_serves_without_auth_and_says_so(self):
        mx = self.prepared({})
        mx.set_services({"cyrus": None})
        said = mx.tool("penstock", "check").stdout
        self.assertRegex(said, 'nobody can log in, .*add the line "cyrus unix - - n - - cyrus"')
        mx.start()
        mx.wait_log("smtpd.*warning: .*nobody can log in")
        client = self.client(mx)
        self.assertFalse(client.has("AUTH"))
        client.expect("AUTH PLAIN", "503")

    @unittest.skipIf(unavailable(), unavailable())
    def test_options_are_found_in_the_first_directory_of_the_path_that_has_them(self):
        mx = self.prepared({"mech_list": "PLAIN"})
        away = os.path.join(mx.dir, "away")
        os.rename(os.path.join(mx.etc, "sasl"), away)
        for path, found in ((f"{mx.etc}/sasl:{away}", "AUTH PLAIN"), (f"{away}:{mx.etc}/sasl", "AUTH PLAIN"),
                            (f"{mx.etc}/sasl:{mx.dir}/other:{away}", "AUTH LOGIN")):
            with self.subTest(path):
                if found == "AUTH LOGIN":
                    os.mkdir(os.path.join(mx.dir, "other"))
                    with open(os.path.join(mx.dir, "other", "smtpd.conf"), "w") as out:
                        out.write("mech_list: LOGIN\n")
                mx.set(cyrus_sasl_config_path=path)
                self.assertNotIn("smtpd.conf", mx.tool("penstock", "check").stdout)
                mx.start()
                self.assertIn(found, self.client(mx).features)
                mx.stop()

    def test_the_check_names_what_is_missing(self):
        mx = self.prepared({"mech_list": "PLAIN GSS-SPNEGO OTP", "pwcheck_method": "saslauthd",
                            "saslauthd_path": "/nonexistent/mux"})
        said = mx.tool("penstock", "check").stdout
        self.assertRegex(said, r"smtpd.conf: mech_list OTP: its plugin is not installed: install libsasl2-modules-otp")
        self.assertRegex(said, r"the socket of saslauthd is not at /nonexistent/mux: start saslauthd")
        os.unlink(os.path.join(mx.etc, "sasl", "smtpd.conf"))
        self.assertRegex(mx.tool("penstock", "check").stdout, r"there is no \S+/etc/sasl/smtpd.conf, no ")
        self.set_options(mx, {"mech_list": ""})
        self.assertRegex(mx.tool("penstock", "check").stdout, r"line 1: .*nobody can log in")


if __name__ == "__main__":
    unittest.main()
