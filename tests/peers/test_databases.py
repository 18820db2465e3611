"""Tables in databases beside real servers: the answers of penmap and of Postfix's postmap to the same table files; a
server that dies, hangs and returns under a running smtpd; wrong passwords."""
import os
import shutil
import socket
import tempfile
import time
import unittest

import peers
from certificates import Authority
from client import Client
from database_servers import GuardedSlapd, Mariadb, Memcached, Mongodb, Postgres, Redis, Slapd
from instance import Instance, missing
from suspended import suspended
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
        with suspended(*self.db.processes()):
            began = time.monotonic()
            for i, client in enumerate(clients):
                client.raw(f"RCPT TO:<user{i}@virtual.test.example>\r\n".encode())
            for client in clients:
                self.assertEqual(client.reply()[:3], "451")
            self.assertLess(time.monotonic() - began, 55, "more than one time-out of 30 s")
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

    def test_by_tls_only_the_server_that_is_named_is_believed(self):
        tls = {"query": "GET mail:%s", "tls": "yes", "hosts": f"inet:127.0.0.1:{self.db.tls_port}",
               "tls_CAfile": self.db.authority.pem, "tls_server_name": "redis.test.example"}
        self.check(tls, {"key": "value", "absent": None})
        stranger = Authority(os.path.join(self.db.dir, "stranger"))
        for wrong, word in (({"tls_server_name": "other.test.example"}, "certificate: hostname mismatch"),
                            ({"tls_CAfile": stranger.pem}, "certificate: "), ({"tls": "no"}, "(closed|reset by peer)"),
                            ({"hosts": f"inet:127.0.0.1:{self.db.port}"}, "(TLS handshake|timed out)"),
                            ({"tls_server_name": ""}, "set tls_server_name"),
                            ({"hosts": f"unix:{self.db.dir}/s"}, "Unix socket")):
            with self.subTest(wrong):
                done = self.penmap(self.db.cf(**{**tls, **wrong}), ["key"])
                self.assertEqual(done.stdout, "")
                self.assertNotIn(done.returncode, (0, 1), done.stderr)
                self.assertRegex(done.stderr, f"(?i){word}")
        own = self.db.authority.issue("client.test.example")
        self.check({**tls, "tls_cert_file": own.pem, "tls_key_file": own.key}, {"key": "value"})

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


class TestMongodb(Failures, Case):
    server, queries = Mongodb, [{"query_filter": '{"k": "%s"}'}]
    boxes = {"collection": "boxes", "query_filter": '{"user": "%s"}', "result_attribute": "to"}

    def ask(self, keys, **parameters):
        return self.penmap(self.db.cf(**{**self.queries[0], **parameters}), keys)

    def check(self, parameters, wanted):
        done = self.ask(list(wanted), **parameters)
        self.assertEqual(done.stdout, "".join(f"{k}\t{v}\n" for k, v in wanted.items() if v is not None), done.stderr)
        self.assertIn(done.returncode, (0, 1))

    def refused(self, says, status=75, **parameters):
        done = self.ask(["key"], **parameters)
        self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
        self.assertRegex(done.stderr, says)
        self.assertNotIn("secret", done.stderr)

    def test_every_key_is_found_as_it_is(self):
        rows = {k: v for k, v in ROWS if v}
        rows["two"] = "a,b"
        self.check({}, {**rows, "KEY": "value", "Jo@X.org": "jo@y.net", "absent": None, "null": None, "empty": None})

    def test_keys_beyond_ascii_are_found(self):
        self.check({}, {"jürgen@x.org": "umlaut", "jürgen@x.net": None})

    def test_no_key_changes_the_query(self):
        keys = [*KEYS, '"', '"}', '", "$where": "1', '\\", "k": {"$ne": "', '{"$ne": null}', "\\u0022", '$k', "$ne",
                "\x01\x02", "null", "true", "1"]
        wanted = [k.lower() for k in keys]
        before = len(self.db.filters())
        done = self.ask(keys, query_filter='{"$or": [{"k": "%s"}, {"gone": {"$in": ["%s"]}}], "none": {"$ne": 1}}')
        self.assertIn(done.returncode, (0, 1), done.stderr)
        self.assertEqual(done.stdout.count("\n"), len([k for k in keys if dict(ROWS).get(k.lower())]))
        self.assertEqual(self.db.filters()[before:], [
            {"$or": [{"k": k}, {"gone": {"$in": [k]}}], "none": {"$ne": 1}} for k in wanted if k])

    def test_parts_formats_and_domains(self):
        self.check({"query_filter": '{"k": "%u"}'}, {"jo@x.org": "local", "key": "value"})
        self.check({"query_filter": '{"k": {"$in": ["%d", "%1"]}}'}, {"a@x.org": "domain,top", "key": None})
        self.check({"result_format": "<%u|%d|%S>"}, {"jo@x.org": "<jo|y.net|jo@x.org>", "key": None})
        self.check({"domain": "x.org"}, {"jo@x.org": "jo@y.net", "key": None})

    def test_fields_arrays_and_documents_of_every_kind(self):
        self.check(self.boxes, {"several": "a@x.org,b@y.net", "many": ",".join(f"m{i}@x.org" for i in range(5))})
        self.check({**self.boxes, "result_attribute": "more, n"}, {"several": "c@x.org,d@x.org,7"})
        self.check({**self.boxes, "result_attribute": "to real none yes big text"}, {"odd": "5000000000,t"})
        self.check({**self.boxes, "result_attribute": "", "projection": '{"to": 1, "n": 1}'},
                   {"several": "a@x.org,b@y.net,7"})
        self.check({**self.boxes, "result_attribute": "", "projection": '{"to": 0, "more": 0}'},
                   {"several": "several,7"})
        both = {**self.boxes, "query_filter": '{"$or": [{"user": "%s"}, {"alias.address": "%s"}], "active": 1}'}
        self.check(both, {"two@x.org": "box", "alias": "box", "three@x.org": None, "closed": None})

    def test_more_values_than_expansion_limit_are_an_error(self):
        self.check({**self.boxes, "expansion_limit": "5"}, {"many": "m0@x.org,m1@x.org,m2@x.org,m3@x.org,m4@x.org"})
        done = self.ask(["many"], **self.boxes, expansion_limit="4")
        self.assertEqual((done.returncode, done.stdout), (75, ""), done.stderr)

    def test_what_the_server_refuses_is_an_error(self):
        self.refused("Authentication failed", uri=self.db.uri("mail:wrong@"))
        self.refused("requires authentication", uri=self.db.uri(""))
        self.refused("unknown operator: .nothing", query_filter='{"k": "%s", "v": {"$nothing": 1}}')
        self.refused("uri: ", uri="mongo://mail:secret@127.0.0.1/")
        self.refused("query_filter: ", query_filter='{"k": "%s"')
        self.refused("projection: ", result_attribute="", projection="{")
        self.check({}, {"key": "value"})

    def test_what_a_file_cannot_say_is_told(self):
        for wrong, says in (({"query_filter": '{"k": %s}'}, "between double quotes"),
                            ({"query_filter": '{"k": {"$regex": "^%s"}}'}, "below .regex"),
                            ({"projection": '{"v": 1}'}, "exactly one of"),
                            ({"result_attribute": ""}, "exactly one of"),
                            ({"uri": ""}, "uri is missing"), ({"collection": ""}, "collection is missing")):
            with self.subTest(wrong):
                self.refused(says, **wrong)

    def test_by_tls_only_the_server_that_is_trusted_is_believed(self):
        tls = f"&tls=true&tlsCAFile={self.db.trusted}"
        host = f"localhost:{self.db.tls_port}"
        self.check({"uri": self.db.uri(host=host, options=tls)}, {"key": "value", "absent": None})
        stranger = Authority(os.path.join(self.db.dir, "stranger"))
        self.refused("TLS|certificate", uri=self.db.uri(host=host, options=f"&tls=true&tlsCAFile={stranger.pem}"))
        self.refused("TLS|certificate", uri=self.db.uri(host=f"127.0.0.1:{self.db.tls_port}", options=tls))

    def test_a_slow_query_is_ended_by_the_server_and_means_later(self):
        began = time.monotonic()
        self.refused("takes too long", collection="slow")
        self.assertLess(time.monotonic() - began, 30)

    def test_nothing_is_left_in_shared_memory(self):
        self.check({}, {"key": "value"})
        self.assertEqual([name for name in os.listdir("/dev/shm") if name.startswith("mongoc-")], [])


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
        with suspended(*self.db.processes()):
            began = time.monotonic()
            done = self.penmap(table, ["fresh"] * 5)
            self.assertEqual(done.stdout, "fresh\tthere\n" * 5, done.stderr)
            self.assertLess(time.monotonic() - began, 20, "more than one time-out")

    def test_settings_that_name_mailboxes_may_not_have_it(self):
        self.instance.set(virtual_mailbox_maps=self.db.cf())
        said = self.instance.tool("penstock", "check")
        self.assertIn("not allowed in this setting", said.stdout + said.stderr)


class TestSlapd(Answers, Case):
    server, queries = Slapd, LDAP
    wrong_login, wrong_query = {"bind_pw": "wrong"}, {"search_base": "dc=nothing"}


class TestGuardedSlapd(Case):
    """LDAP over TLS, StartTLS, SASL, referrals: the answers are those of postmap with the same file."""

    server = GuardedSlapd

    @classmethod
    def setUpClass(cls):
        if missing() or cls.server.missing():
            raise unittest.SkipTest(missing() or cls.server.missing())
        folder = tempfile.mkdtemp(prefix="pen-test-")
        cls.addClassCleanup(shutil.rmtree, folder, ignore_errors=True)
        os.chmod(folder, 0o755)
        cls.ca = Authority(folder)
        other = cls.enterClassContext(Slapd([("away", "found there"), ("key", "value too")]))
        certificate = cls.ca.issue("localhost", socket.gethostname(), socket.getfqdn())
        cls.db = cls.enterClassContext(cls.server(ROWS, certificate, f"ldap://127.0.0.1:{other.port}/dc=x??sub"))

    def ask(self, keys, **parameters):
        """What both say: (Postfix's output, ours)."""
        file = self.db.cf(**{"query_filter": "(uid=%s)", **parameters})
        ours = self.penmap(file, keys)
        if peers.unavailable():
            return None, ours
        with Postmap(0) as postmap:
            postmap.write("etc/hosts", "127.0.0.1 localhost\n")
            with open(self.ca.pem) as pem:
                postmap.write("etc/ca.pem", pem.read())
            kind, path = file.split(":", 1)
            with open(path) as text:
                changed = text.read().replace(self.ca.pem, "/etc/ca.pem")
            with open(path, "w") as out:
                out.write(changed)
            return postmap.ask(file, keys), ours

    def same(self, wanted, keys=("key", "absent"), **parameters):
        theirs, ours = self.ask(list(keys), **parameters)
        self.assertEqual(ours.stdout, wanted, ours.stderr)
        if theirs:
            said = [line for line in theirs.stdout.splitlines() if not line.startswith("postmap: warning:")]
            self.assertEqual(said, wanted.splitlines())

    def refused(self, **parameters):
        theirs, ours = self.ask(["key"], **parameters)
        self.assertEqual((ours.returncode, ours.stdout), (75, ""), ours.stderr)
        if theirs:
            self.assertIn("postmap: fatal:", theirs.stdout)

    def tls(self, **more):
        return {"version": "3", "tls_ca_cert_file": self.ca.pem, "tls_require_cert": "yes", "timeout": "5", **more}

    def test_who_has_not_logged_in_is_told_nothing(self):
        self.refused(bind="no")
        self.same("key\tvalue\n")

    def test_ldap_over_tls(self):
        # libldap replaces localhost by the host's own name before it compares.
        url = f"ldaps://localhost:{self.db.tls_port}"
        self.same("key\tvalue\n", server_host=url, **self.tls())
        self.refused(server_host=f"ldaps://127.0.0.1:{self.db.tls_port}", **self.tls())  # not in the certificate
        self.refused(server_host=url, **self.tls(tls_ca_cert_file=""))
        self.same("key\tvalue\n", server_host=url, **self.tls(tls_ca_cert_file="", tls_require_cert="no"))

    def test_start_tls(self):
        url = f"ldap://localhost:{self.db.port}"
        self.same("key\tvalue\n", server_host=url, start_tls="yes", **self.tls())
        self.refused(server_host=url, start_tls="yes", **self.tls(tls_ca_cert_file=""))

    def test_sasl(self):
        login = {"bind": "sasl", "bind_dn": "reader", "bind_pw": "word", "version": "3"}
        self.same("key\tvalue\n", **login, sasl_mechs="DIGEST-MD5")
        self.refused(**{**login, "bind_pw": "other"}, sasl_mechs="DIGEST-MD5")
        done = self.penmap(self.db.cf(query_filter="(uid=%s)", **login, sasl_mechs="SCRAM-SHA-256"), ["key"])
        self.assertEqual(done.stdout, "key\tvalue\n", done.stderr)

    def test_confined_programs_ask_over_tls_and_with_sasl(self):
        asked = {"query_filter": "(uid=%u)"}
        files = {
            "virtual_mailbox_maps": self.db.cf("ldaps.cf", **asked, **self.tls(),
                                               server_host=f"ldaps://localhost:{self.db.tls_port}"),
            "relay_recipient_maps": self.db.cf("start_tls.cf", **asked, **self.tls(), start_tls="yes",
                                               server_host=f"ldap://localhost:{self.db.port}"),
            "local_recipient_maps": self.db.cf("sasl.cf", **asked, bind="sasl", bind_dn="reader", bind_pw="word",
                                               version="3", sasl_mechs="SCRAM-SHA-256")}
        for setting, table in files.items():  # the passwords are root's, as everywhere
            file = os.path.join(self.instance.etc, os.path.basename(table))
            shutil.copy(table.split(":", 1)[1], file)
            os.chmod(file, 0o640)
            files[setting] = f"ldap:{file}"
        self.instance.set(relay_domains="relay.test.example", **files)
        self.instance.start()
        client = Client(self.instance.port)
        self.addCleanup(client.close)
        client.expect("MAIL FROM:<a@example.org>", "250")
        for domain in ("virtual", "relay", "local"):
            client.expect(f"RCPT TO:<jo@{domain}.test.example>", "250")
            client.expect(f"RCPT TO:<absent@{domain}.test.example>", "550")

    def test_referrals_are_followed_when_asked_for(self):
        self.same("key\tvalue,value too\naway\tfound there\n", ("key", "away"), version="3", chase_referrals="yes")
        self.same("key\tvalue\n", ("key", "away"), version="3", chase_referrals="no")


del Case


if __name__ == "__main__":
    unittest.main()
