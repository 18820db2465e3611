"""Tables in databases beside real servers: the answers of penmap and of Postfix's postmap to the same table files; a
server that dies, hangs and returns under a running smtpd; wrong passwords."""
import os
import signal
import time
import unittest

import peers
from client import Client
from database_servers import Mariadb, Memcached, Postgres, Redis, Slapd
from instance import Instance, missing
from waiting import eventually

ROWS = [("key", "value"), ("two", "a"), ("two", "b"), ("null", None), ("empty", ""), ("jo@x.org", "jo@y.net"),
        ("o'brien@x.org", "apostrophe"), ("back\\slash@x.org", "backslash"), ('"quo ted"@x.org', "quoted"),
        ("star*@x.org", "star"), ("paren)(@x.org", "parentheses"), ("%s@x.org", "percent"), ("a_b@x.org", "underscore"),
        ("jo", "local"), ("x.org", "domain"), ("org", "top"), ("@x.org", "any"), ("a@b@x.org", "two ats"),
        ("jürgen@x.org", "umlaut"), ("semi;colon@x.org", "semicolon"), ("#hash@x.org", "hash"),
        ("comma,@x.org", "comma"), ("dash--@x.org", "dashes"), ("amp&pipe|@x.org", "operators")]
KEYS = [k for k, _ in ROWS] + [
    "KEY", "Jo@X.org", "absent", "absent@x.org", "jo@other.org", "' OR '1'='1", "\\' OR 1=1 -- ", "*", "k*", "*)(uid=*",
    "key)(description=*", "jo@", "user@sub.x.org", "jo@org", "a@.org", "a@x..org", "a@x.org.", "%u@%d", "%%", "\\",
    "\\\\'",
    "$name@x.org", "`ls`@x.org", "a@b.c.d.e.f.g.h.i.j.k", "\x7f@x.org", "key'; DROP TABLE t; --", "né@x.org", "x" * 400,
    "flat", "nested", "url", "loop"]
SQL = [{"query": "SELECT v FROM t WHERE k = '%s'"}, {"query": "SELECT k, v FROM t WHERE k = '%u'"},
       {"query": "SELECT v FROM t WHERE k = '%d'"}, {"query": "SELECT v FROM t WHERE k = '%2.%1' OR k = '%1'"},
       {"query": "SELECT v FROM t WHERE k = '%U' OR k = '%S' OR k = '%D'"},
       {"query": "SELECT '%%', v FROM t WHERE k = '%s'"},
       {"query": "SELECT v FROM t WHERE k = '%s'", "result_format": "<%u|%d|%S>"},
       {"query": "SELECT v FROM t WHERE k = '%s'", "result_format": "%s@%D"},
       {"query": "SELECT v FROM t WHERE k = '%s'", "domain": "x.org, y.net"},
       {"table": "t", "select_field": "v", "where_field": "k", "additional_conditions": "AND v <> 'a'"}]
PLAIN = SQL[0]
LDAP = [{"query_filter": "(uid=%s)"}, {"query_filter": "(uid=%u)"}, {"query_filter": "(|(uid=%d)(uid=%1))"},
        {"query_filter": "(uid=%s)", "result_format": "<%u|%d|%S>"}, {"query_filter": "(uid=%s)", "domain": "x.org"},
        {"query_filter": "(uid=%s)", "search_base": "dc=%u,dc=x"}]
GROUPS = {"query_filter": "(cn=%s)", "special_result_attribute": "member, labeledURI"}
LDAP += [GROUPS, {**GROUPS, "leaf_result_attribute": "sn"}, {**GROUPS, "terminal_result_attribute": "cn"},
         {**GROUPS, "recursion_limit": "1"}, {**GROUPS, "expansion_limit": "3"}, {**GROUPS, "size_limit": "1"},
         {"query_filter": "(objectClass=*)", "size_limit": "2"}, {"query_filter": "(cn=%s)", "scope": "one"},
         {"query_filter": "(uid=%s)", "result_attribute": "sn, uid"}]


class Postmap(peers.Peer):
    """Debian's Postfix with its database modules; only its postmap is run."""

    package = "postfix-databases"
    peers.PACKAGES[package] = ["postfix", "postfix-mysql", "postfix-pgsql", "postfix-ldap", "postfix-sqlite"]

    def start(self):
        self.write("etc/postfix/main.cf", "compatibility_level = 3.6\nmyhostname = peer.example\n"
                   "shlib_directory = /usr/lib/postfix\nmail_owner = postfix\nsetgid_group = postdrop\n")
        self.write("etc/postfix/dynamicmaps.cf", "".join(
            f"{t} postfix-{t}.so dict_{t}_open\n" for t in ("mysql", "pgsql", "ldap", "sqlite")))

    def ask(self, table, keys):
        kind, path = table.split(":", 1)
        with open(path) as f:
            self.write("etc/t.cf", f.read())
        self.write("etc/keys", "".join(k + "\n" for k in keys))
        return self.run("sh", "-c", f"postmap -q - {kind}:/etc/t.cf </etc/keys")


class Case(unittest.TestCase):
    server = None

    @classmethod
    def setUpClass(cls):
        if missing() or cls.server.missing():
            raise unittest.SkipTest(missing() or cls.server.missing())
        cls.db = cls.enterClassContext(cls.server(ROWS))

    def setUp(self):
        self.instance = Instance(start=False)
        self.addCleanup(self.instance.close)

    def penmap(self, table, keys):
        return self.instance.tool("penmap", "-q", "-", table, stdin="".join(k + "\n" for k in keys))


class Failures:
    """What a running smtpd does when the server fails."""

    def start_smtpd(self, **parameters):
        self.instance.set(virtual_mailbox_maps="proxy:" + self.db.cf(**{**self.queries[0], **parameters}))
        self.instance.start()

    def client(self):
        client = Client(self.instance.port)
        self.addCleanup(client.close)
        client.expect("MAIL FROM:<a@example.org>", "250")
        client.expect("RCPT TO:<jo@virtual.test.example>", "550")
        return client

    def test_a_server_that_dies_means_later_until_it_is_back(self):
        self.start_smtpd()
        client = self.client()
        self.db.kill()
        try:
            client.expect("RCPT TO:<jo@virtual.test.example>", "451")
        finally:
            self.db.start()
        client.expect("RCPT TO:<jo@virtual.test.example>", "550")

    def test_a_server_that_hangs_costs_one_time_out_for_all_sessions(self):
        self.start_smtpd()
        clients = [self.client() for _ in range(30)]
        self.db.signal(signal.SIGSTOP)
        try:
            began = time.monotonic()
            for i, client in enumerate(clients):
                client.raw(f"RCPT TO:<user{i}@virtual.test.example>\r\n".encode())
            for client in clients:
                self.assertTrue(client.reply().startswith("451"))
            self.assertLess(time.monotonic() - began, 55, "more than one time-out of 30 s")
        finally:
            self.db.signal(signal.SIGCONT)
        clients[0].expect("RCPT TO:<jo@virtual.test.example>", "550")


class Answers(Failures):
    """What every server that Postfix knows has to show."""

    keys = KEYS
    as_37 = {}  # what Postfix 3.7 has fixed, and newer ones let the file say

    def test_answers_are_those_of_postmap(self):
        if peers.unavailable():
            self.skipTest(peers.unavailable())
        with Postmap(0) as postmap:
            for parameters in self.queries:
                with self.subTest(parameters):
                    table = self.db.cf(**{**self.as_37, **parameters})
                    if not self.compare(postmap, table, self.keys):  # an error ends the run, and hides what came before
                        for key in self.keys[-5:]:
                            self.compare(postmap, table, [key])

    def compare(self, postmap, table, keys):
        """False: both had to give up."""
        theirs, ours = postmap.ask(table, keys), self.penmap(table, keys)
        if "postmap: fatal:" in theirs.stdout:
            self.assertEqual(ours.returncode, 75, (keys, theirs.stdout, ours.stdout, ours.stderr))
            return False
        wanted = [line for line in theirs.stdout.split("\n") if not line.startswith("postmap: warning:")]
        self.assertEqual(ours.stdout.split("\n"), wanted, ours.stderr)
        self.assertEqual(ours.returncode, theirs.returncode)
        return True

    def test_a_wrong_password_and_a_wrong_query_are_errors(self):
        for parameters in (self.wrong_login, self.wrong_query):
            with self.subTest(parameters):
                done = self.penmap(self.db.cf(**{**self.queries[0], **parameters}), ["key"])
                self.assertEqual((done.returncode, done.stdout), (75, ""), done.stderr)
                self.assertIn("table unavailable", done.stderr)

    def test_keys_beyond_ascii_are_found(self):
        self.assertEqual(self.penmap(self.db.cf(**self.queries[0]), ["jürgen@x.org"]).stdout, "jürgen@x.org\tumlaut\n")

    def test_more_values_than_expansion_limit_are_an_error(self):
        done = self.penmap(self.db.cf(**self.queries[0], expansion_limit="1"), ["key", "two"])
        self.assertEqual((done.returncode, done.stdout), (75, "key\tvalue\n"), done.stderr)


class Sql(Answers):
    def test_few_connections_serve_many_sessions(self):
        self.start_smtpd()
        clients = [self.client() for _ in range(30)]
        for i, client in enumerate(clients):
            client.raw(f"RCPT TO:<user{i}@virtual.test.example>\r\n".encode())
        for client in clients:
            self.assertTrue(client.reply().startswith("550"))
        self.assertLessEqual(self.db.connections(), 3 * 8)  # smtpd, trivial-rewrite and virtual have a pool each

    def test_a_slow_query_holds_up_no_other_table_and_is_ended(self):
        slow = self.db.cf("slow.cf", query=self.db.sleep)
        self.instance.set(smtpd_sender_restrictions=f"check_sender_access {slow}")
        self.start_smtpd()
        waiting, quick = Client(self.instance.port), self.client_of("<>")
        self.addCleanup(waiting.close)
        waiting.expect("MAIL FROM:<key>", "250")
        waiting.raw(b"RCPT TO:<jo@virtual.test.example>\r\n")
        quick.expect("RCPT TO:<jo@virtual.test.example>", "550")
        self.assertTrue(waiting.reply().startswith("451"))
        eventually(lambda: self.db.connections() < 20, "the server has ended the query")

    def client_of(self, sender):
        client = Client(self.instance.port)
        self.addCleanup(client.close)
        client.expect(f"MAIL FROM:{sender}", "250")
        return client

    def test_the_next_host_is_asked_at_once(self):
        done = self.penmap(self.db.cf(**PLAIN, hosts=f"inet:127.0.0.1:1 inet:127.0.0.1:{self.db.port}"), ["key"] * 20)
        self.assertEqual(done.stdout, "key\tvalue\n" * 20, done.stderr)


class TestPostgres(Sql, Case):
    server, queries = Postgres, SQL + [{"select_function": "upper"}]
    wrong_login, wrong_query = {"password": "wrong"}, {"query": "SELECT no_such FROM t WHERE k = '%s'"}
    as_37 = {"encoding": "LATIN1"}

    def test_a_copy_and_two_statements_are_errors(self):
        for query in ("COPY t TO STDOUT", "SELECT v FROM t WHERE k = '%s'; DELETE FROM t"):
            done = self.penmap(self.db.cf(query=query), ["key"])
            self.assertEqual((done.returncode, done.stdout), (75, ""), done.stderr)
        self.assertEqual(self.penmap(self.db.cf(**PLAIN), ["key"]).stdout, "key\tvalue\n")

    def test_sockets_and_addresses_of_all_forms(self):
        for host in (f"127.0.0.1:{self.db.port}", f"unix:{self.db.dir}/.s.PGSQL.{self.db.port}",
                     f"postgresql://mail:secret@127.0.0.1:{self.db.port}/postgres"):
            done = self.penmap(self.db.cf(**PLAIN, hosts=host), ["key"])
            self.assertEqual(done.stdout, "key\tvalue\n", done.stderr)


class TestMariadb(Sql, Case):
    server, queries = Mariadb, SQL + [{"query": "CALL p('%s')"}]
    wrong_login, wrong_query = {"password": "wrong"}, {"query": "SELECT no_such FROM t WHERE k = '%s'"}

    def test_two_statements_and_files_of_the_client_are_errors(self):
        for query in ("SELECT v FROM t WHERE k = '%s'; DELETE FROM t",
                      "LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE t"):
            done = self.penmap(self.db.cf(query=query), ["key"])
            self.assertEqual((done.returncode, done.stdout), (75, ""), done.stderr)
        self.assertEqual(self.penmap(self.db.cf(**PLAIN), ["key"]).stdout, "key\tvalue\n")

    def test_a_query_without_result_set_is_an_error_unless_allowed(self):
        done = self.penmap(self.db.cf(query="SET @x = '%s'"), ["key"])
        self.assertEqual(done.returncode, 75, done.stderr)
        done = self.penmap(self.db.cf(query="SET @x = '%s'", require_result_set="no"), ["key"])
        self.assertEqual(done.returncode, 1, done.stderr)


class TestRedis(Failures, Case):
    server, queries = Redis, [{"query": "GET mail:%s"}]

    def check(self, parameters, wanted):
        done = self.penmap(self.db.cf(**parameters), list(wanted))
        self.assertEqual(done.stdout, "".join(f"{k}\t{v}\n" for k, v in wanted.items() if v is not None), done.stderr)
        self.assertIn(done.returncode, (0, 1))

    def test_every_key_is_found_as_it_is(self):
        rows = {k: v for k, v in ROWS if v}
        rows["two"] = "b"  # the last one set
        self.check({"query": "GET mail:%s"}, {**rows, "KEY": "value", "absent": None, "' OR 1": None, "null": None,
                                             "empty": None})
        for quoted in ("HGET hash %s", "HGET hash '%s'", 'HGET hash "%s"', "HMGET hash %s nothing"):
            self.check({"query": quoted}, rows)

    def test_lists_and_sets_and_formats(self):
        self.check({"query": "LRANGE list:%s 0 -1"}, {"two": "a,b", "key": "value", "absent": None})
        self.check({"query": "MGET mail:%u mail:%d"}, {"jo@x.org": "local,domain", "absent": None})
        self.check({"query": "SISMEMBER set %s"}, {"key": "1", "absent": None})
        self.check({"query": "GET mail:%s", "result_format": "<%u|%d|%S>"}, {"jo@x.org": "<jo|y.net|jo@x.org>"})
        self.check({"query": "GET mail:%s", "domain": "x.org"}, {"jo@x.org": "jo@y.net", "key": None})
        self.check({"query": "GET mail:%s", "db": "3"}, {"key": "third"})
        self.check({"query": "GET mail:%s", "username": "mail", "password": "word"}, {"key": "value"})
        self.check({"query": "GET mail:%s", "hosts": f"unix:{self.db.dir}/s"}, {"key": "value"})
        self.check({"query": "GET mail:%s", "hosts": "127.0.0.1", "port": self.db.port}, {"key": "value"})

    def test_what_the_server_refuses_is_an_error(self):
        for parameters in ({"password": "wrong"}, {"password": ""}, {"query": "GET list:%s"}, {"db": "99"},
                           {"username": "mail", "password": "word", "query": "HGET hash %s"},
                           {"query": "LRANGE list:two 0 -1", "expansion_limit": "1"}, {"query": "SET x %s"}):
            with self.subTest(parameters):
                done = self.penmap(self.db.cf(**{"query": "GET mail:%s", **parameters}), ["key"])
                self.assertNotIn(done.returncode, (0, 1), done.stderr)
                self.assertEqual(done.stdout, "")

    def test_the_next_host_is_asked_at_once(self):
        hosts = f"inet:127.0.0.1:1 inet:127.0.0.1:{self.db.port}"
        began = time.monotonic()
        done = self.penmap(self.db.cf(query="GET mail:%s", hosts=hosts), ["key"] * 20)
        self.assertEqual(done.stdout, "key\tvalue\n" * 20, done.stderr)
        self.assertLess(time.monotonic() - began, 10)

    def test_few_connections_serve_many_sessions(self):
        self.start_smtpd()
        clients = [self.client() for _ in range(30)]
        for i, client in enumerate(clients):
            client.raw(f"RCPT TO:<user{i}@virtual.test.example>\r\n".encode())
        for client in clients:
            self.assertTrue(client.reply().startswith("550"))
        self.assertLessEqual(self.db.connections(), 3 * 8)


class TestMemcached(Answers, Case):
    server = Memcached
    queries = [{}, {"key_format": "%u"}, {"key_format": "%d"}, {"key_format": "%2.%1"}, {"key_format": "%%%s"},
               {"domain": "x.org, y.net"}, {"data_size_limit": "4"}, {"line_size_limit": "12"},
               {"backup": "inline:{absent=there, jo=other, a@b.c=d}", "ttl": "60", "flags": "3"}]
    # Postfix asks for a key that is too long, gets CLIENT_ERROR, and gives up; here it is not there.
    keys = [k for k in KEYS if len(k) <= 250]
    test_a_wrong_password_and_a_wrong_query_are_errors = test_more_values_than_expansion_limit_are_an_error = None

    def start_smtpd(self, **parameters):
        """Not for mailboxes: any process of the host can write into memcached."""
        table = self.db.cf(**{"retry_pause": "0", **parameters})
        self.instance.set(virtual_mailbox_domains="", relay_domains="virtual.test.example",
                          relay_recipient_maps="proxy:" + table)
        self.instance.start()

    def test_the_backup_fills_the_cache_and_stands_in_for_it(self):
        table = self.db.cf(backup="inline:{ fresh = there }", key_format="b:%s", ttl="60", timeout="1")
        self.assertEqual(self.penmap(table, ["fresh", "none"]).stdout, "fresh\tthere\n")
        self.assertIn("there", self.db.get("b:fresh"))
        self.assertNotIn("VALUE", self.db.get("b:none"))
        self.db.signal(signal.SIGSTOP)
        try:
            began = time.monotonic()
            done = self.penmap(table, ["fresh"] * 5)
            self.assertEqual(done.stdout, "fresh\tthere\n" * 5, done.stderr)
            self.assertLess(time.monotonic() - began, 20, "more than one time-out")
        finally:
            self.db.signal(signal.SIGCONT)

    def test_settings_that_name_mailboxes_may_not_have_it(self):
        self.instance.set(virtual_mailbox_maps=self.db.cf())
        said = self.instance.tool("penstock", "check")
        self.assertIn("not allowed in this setting", said.stdout + said.stderr)


class TestSlapd(Answers, Case):
    server, queries = Slapd, LDAP
    wrong_login, wrong_query = {"bind_pw": "wrong"}, {"search_base": "dc=nothing"}


del Case


if __name__ == "__main__":
    unittest.main()
