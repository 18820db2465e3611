"""PostgreSQL, MariaDB, slapd, redis, memcached and a server with MongoDB's protocol for tests: each a private server in
a scratch directory, on a port of its own.

Use:   with Postgres(ROWS) as server: … server.cf(query=…) … server.kill(); server.start()
Rows are (k, v) pairs of a table t, whose columns have these names; a directory has entries with uid k and mail v.
Servers that refuse to run as root run as the account nobody.
"""
import contextlib
import glob
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile

from certificates import Authority
from waiting import answers, eventually, free_port

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Server:
    program = ""
    forgets = False  # its data is in memory only: it is filled again at each start

    def __init__(self, rows):
        self.rows = rows
        self.dir = tempfile.mkdtemp(prefix="pen-database-")
        os.chmod(self.dir, 0o755)
        self.data = os.path.join(self.dir, "data")
        os.makedirs(self.data, 0o700)
        self.port = free_port()
        self.process = None
        self.log = open(os.path.join(self.dir, "log"), "ab")
        if os.geteuid() == 0:
            account = pwd.getpwnam("nobody")
            self.ids = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
            for path in (self.dir, self.data):
                os.chown(path, account.pw_uid, account.pw_gid)
        else:
            self.ids = {}

    @classmethod
    def missing(cls):
        return None if shutil.which(cls.program) else f"no {cls.program}: scripts/install-dependencies --databases"

    def __enter__(self):
        self.prepare()
        self.start()
        self.fill()
        return self

    def __exit__(self, *_):
        self.kill()
        self.log.close()
        shutil.rmtree(self.dir)

    def run(self, *command, text=None):
        done = subprocess.run(command, input=text, capture_output=True, text=True, env=self.environment(), cwd=self.dir,
                              **self.ids)
        if done.returncode != 0:
            raise AssertionError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
        return done.stdout

    def environment(self):
        return {"PATH": os.environ["PATH"], "HOME": self.dir, "LC_ALL": "C.UTF-8"}

    def start(self):
        again = self.process is not None
        self.process = subprocess.Popen(self.command(), stdout=self.log, stderr=self.log, env=self.environment(),
                                        cwd=self.dir, start_new_session=True, **self.ids)
        eventually(lambda: answers(self.port), lambda: f"{self.program}: {self.tail()}", 60)
        eventually(self.is_ready, lambda: f"{self.program}: {self.tail()}", 60)
        if again and self.forgets:
            self.fill()

    def is_ready(self):
        return True

    def tail(self):
        with open(self.log.name, errors="replace") as f:
            return f.read()[-2000:]

    def processes(self):
        """The server and its children, each of which may lead a session of its own."""
        return [self.process.pid, *self.children()]

    def children(self):
        for stat in glob.glob("/proc/[0-9]*/stat"):
            try:
                with open(stat) as f:
                    parent = f.read().rsplit(")", 1)[1].split()[1]
            except OSError:
                continue
            if int(parent) == self.process.pid:
                yield int(stat.split("/")[2])

    def kill(self):
        if self.process and self.process.poll() is None:
            for pid in self.processes():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.wait()

    def write(self, name, text):
        path = os.path.join(self.dir, name)
        with open(path, "w") as f:
            f.write(text)
        os.chmod(path, 0o644)
        return path

    def cf(self, name="t.cf", **parameters):
        """Writes a table file; returns type:path."""
        lines = {**self.login(), **parameters}
        return f"{self.type}:" + self.write(name, "".join(f"{k} = {v}\n" for k, v in lines.items()))


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


class Postgres(Server):
    type, bin = "pgsql", "/usr/lib/postgresql/15/bin"
    program = bin + "/postgres"

    def prepare(self):
        password = self.write("password", "secret\n")
        self.run(self.bin + "/initdb", "-D", self.data, "-U", "mail", "-E", "UTF8", "--auth=scram-sha-256",
                 "--pwfile", password, "-N")

    def command(self):
        return [self.program, "-D", self.data, "-p", str(self.port), "-c", "listen_addresses=127.0.0.1", "-c",
                f"unix_socket_directories={self.dir}", "-c", "fsync=off", "-c", "max_connections=40"]

    def environment(self):
        return {**super().environment(), "PGPASSWORD": "secret"}

    def sql(self, text):
        return self.run(self.bin + "/psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", "mail", "-d", "postgres",
                        "-qAt", "-v", "ON_ERROR_STOP=1", text=text)

    def is_ready(self):
        try:
            return bool(self.sql("SELECT 1"))
        except AssertionError:
            return False

    def fill(self):
        values = ", ".join(f"({quoted(k)}, {'NULL' if v is None else quoted(v)})" for k, v in self.rows)
        self.sql(f"CREATE TABLE t (k TEXT, v TEXT); INSERT INTO t VALUES {values};")

    def login(self):
        return {"hosts": f"inet:127.0.0.1:{self.port}", "user": "mail", "password": "secret", "dbname": "postgres"}

    def connections(self):
        return int(self.sql("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'penstock'"))

    sleep = "SELECT pg_sleep(200)::text FROM t WHERE k = '%s'"  # for the rows that are found


class Mariadb(Server):
    type, program = "mysql", "mariadbd"

    def prepare(self):
        self.socket = os.path.join(self.dir, "s")
        self.run("mariadb-install-db", "--no-defaults", f"--datadir={self.data}",
                 "--auth-root-authentication-method=normal", "--skip-test-db")

    def command(self):
        return ["mariadbd", "--no-defaults", f"--datadir={self.data}", f"--socket={self.socket}", f"--port={self.port}",
                "--bind-address=127.0.0.1", f"--pid-file={self.dir}/pid", "--skip-name-resolve"]

    def sql(self, text):
        return self.run("mariadb", "--no-defaults", "-uroot", f"--socket={self.socket}",
                        "--default-character-set=utf8mb4", "-N", "-B", text=text)

    def is_ready(self):
        try:
            return bool(self.sql("SELECT 1"))
        except AssertionError:
            return False

    def fill(self):
        values = ", ".join("(" + ", ".join("NULL" if x is None else quoted(x.replace("\\", "\\\\")) for x in row) + ")"
                           for row in self.rows)
        self.sql("CREATE DATABASE d CHARACTER SET utf8mb4 COLLATE utf8mb4_bin; USE d; "
                 "CREATE USER mail@'127.0.0.1' IDENTIFIED BY 'secret'; GRANT ALL ON d.* TO mail@'127.0.0.1';"
                 f"CREATE TABLE t (k VARCHAR(500), v TEXT); INSERT INTO t VALUES {values};"
                 "CREATE PROCEDURE p(x VARCHAR(500)) SELECT v FROM t WHERE k = x;")

    def login(self):
        return {"hosts": f"inet:127.0.0.1:{self.port}", "user": "mail", "password": "secret", "dbname": "d"}

    def connections(self):
        return int(self.sql("SELECT count(*) FROM information_schema.processlist WHERE user = 'mail'"))

    sleep = "SELECT sleep(200) FROM t WHERE k = '%s'"


class Slapd(Server):
    type, program = "ldap", "/usr/sbin/slapd"
    groups = {"flat": ["employeeNumber=0,dc=x", "employeeNumber=1,dc=x", "cn=missing,dc=x"],
              "nested": ["cn=flat,dc=x", "employeeNumber=5,dc=x"],
              "url": ["employeeNumber=0,dc=x", "ldap:///dc=x?description?sub?(uid=jo)"],
              "loop": ["cn=loop,dc=x"]}

    def prepare(self):
        self.conf = self.write("slapd.conf", "".join([
            "".join(f"include /etc/ldap/schema/{name}.schema\n" for name in ("core", "cosine", "inetorgperson")),
            "modulepath /usr/lib/ldap\nmoduleload back_mdb\ndatabase mdb\nsuffix dc=x\nrootdn cn=mail,dc=x\n"
            f"rootpw secret\ndirectory {self.data}\nmaxsize 10485760\n"]))

    def command(self):
        return [self.program, "-d", "0", "-f", self.conf, "-h", f"ldap://127.0.0.1:{self.port}"]

    def fill(self):
        import base64

        def line(name, value):
            return f"{name}:: {base64.b64encode(value.encode()).decode()}\n"
        entries = {}
        for k, v in self.rows:
            if k:
                entries.setdefault(k.lower(), (k, []))[1].append(v)
        text = "dn: dc=x\nobjectClass: dcObject\nobjectClass: organization\ndc: x\no: x\n\n"
        for i, (k, values) in enumerate(entries.values()):
            text += f"dn: employeeNumber={i},dc=x\nobjectClass: inetOrgPerson\ncn: c\nsn: s\nemployeeNumber: {i}\n"
            text += line("uid", k) + "".join(line("description", v) for v in values if v) + "\n"
        for name, members in self.groups.items():
            text += f"dn: cn={name},dc=x\nobjectClass: groupOfNames\nobjectClass: labeledURIObject\ncn: {name}\n"
            text += "".join(line("member" if not m.startswith("ldap:") else "labeledURI", m) for m in members) + "\n"
        self.run("ldapadd", "-x", "-H", f"ldap://127.0.0.1:{self.port}", "-D", "cn=mail,dc=x", "-w", "secret",
                 text=text)

    def login(self):
        return {"server_host": f"ldap://127.0.0.1:{self.port}", "version": "3", "bind": "yes",
                "bind_dn": "cn=mail,dc=x", "bind_pw": "secret", "search_base": "dc=x",
                "result_attribute": "description"}


class GuardedSlapd(Slapd):
    """With StartTLS, LDAP over TLS (tls_port) and SASL; who has not logged in is told nothing. `elsewhere`: the URL of
    another server, to which ou=elsewhere refers."""

    def __init__(self, rows, certificate, elsewhere):
        super().__init__(rows)
        self.certificate, self.elsewhere, self.tls_port = certificate, elsewhere, free_port()

    def prepare(self):
        super().prepare()
        with open(self.certificate.key) as key, open(self.certificate.pem) as pem:
            files = self.write("key.pem", key.read()), self.write("cert.pem", pem.read())
        with open(self.conf) as text:
            before, database, after = text.read().partition("database mdb\n")
        self.write("slapd.conf", f"{before}TLSCertificateKeyFile {files[0]}\nTLSCertificateFile {files[1]}\n"
                   "sasl-auxprops slapd\nauthz-regexp uid=([^,]*),.*cn=auth cn=$1,dc=x\n"
                   "password-hash {CLEARTEXT}\n"
                   f"{database}{after}access to attrs=userPassword by anonymous auth by * none\n"
                   "access to * by users read by * auth\n")

    def command(self):
        return [*super().command()[:-1], f"ldap://127.0.0.1:{self.port} ldaps://127.0.0.1:{self.tls_port}"]

    def fill(self):
        super().fill()
        self.run("ldapadd", "-x", "-H", f"ldap://127.0.0.1:{self.port}", "-D", "cn=mail,dc=x", "-w", "secret", text=(
            "dn: cn=reader,dc=x\nobjectClass: person\ncn: reader\nsn: r\nuserPassword: word\n\n"
            "dn: ou=elsewhere,dc=x\nobjectClass: referral\nobjectClass: extensibleObject\nou: elsewhere\n"
            f"ref: {self.elsewhere}\n"))


class Redis(Server):
    """Keys are mail:K; those of several values are lists, list:K. The default user has a password, and so has mail.
    At tls_port it speaks TLS, with a certificate for redis.test.example of `authority`."""

    type, program, forgets = "redis", "redis-server", True

    def prepare(self):
        self.tls_port = free_port()
        self.authority = Authority(os.path.join(self.dir, "authority"))
        certificate = self.authority.issue("redis.test.example")
        with open(certificate.key) as key, open(certificate.pem) as pem:  # the server is not root
            files = self.write("key.pem", key.read()), self.write("cert.pem", pem.read())
        with open(self.authority.pem) as pem:
            trusted = self.write("ca.pem", pem.read())
        self.conf = self.write("redis.conf", f"port {self.port}\nbind 127.0.0.1\nsave \"\"\nrequirepass secret\n"
                               f"unixsocket {self.dir}/s\nunixsocketperm 777\ndir {self.dir}\n"
                               f"tls-port {self.tls_port}\ntls-cert-file {files[1]}\n"
                               f"tls-key-file {files[0]}\ntls-ca-cert-file {trusted}\n"
                               "tls-auth-clients no\n"
                               "user mail on >word ~mail:* +get\n")

    def command(self):
        return [self.program, self.conf]

    def calls(self, text):
        return self.run("redis-cli", "--no-auth-warning", "-a", "secret", "-p", str(self.port), text=text)

    def fill(self):
        lines = []
        for k, v in self.rows:
            if v is not None:
                key, value = (json.dumps(x, ensure_ascii=False) for x in (k.lower(), v))
                lines.append(f"SET \"mail:{key[1:]} {value}\nRPUSH \"list:{key[1:]} {value}\nHSET hash {key} {value}\n"
                             f"SADD set {key}\n")
        self.calls("".join(lines) + "SELECT 3\nSET mail:key third\n")

    def login(self):
        return {"hosts": f"inet:127.0.0.1:{self.port}", "password": "secret"}

    def connections(self):
        return self.calls("CLIENT LIST TYPE normal\n").count(" cmd=") - 1


class Mongodb(Server):
    """tests/peers/mongodb_server.py: documents {"k": key, "v": value} in d.t, one for each row; in d.boxes documents of
    other shapes. At tls_port it speaks TLS, with a certificate for localhost of `authority`."""

    type, program = "mongodb", "/usr/bin/python3"
    boxes = [
        {"user": "several", "to": ["a@x.org", "b@y.net"], "more": ["c@x.org", ["d@x.org"]], "n": 7},
        {"user": "odd", "to": {"inside": "x"}, "real": 1.5, "none": None, "yes": True, "big": 5000000000, "text": "t"},
        *[{"user": "many", "to": f"m{i}@x.org"} for i in range(5)],
        {"user": "alias", "alias": [{"address": "one@x.org"}, {"address": "two@x.org"}], "to": "box", "active": 1},
        {"user": "closed", "alias": [{"address": "three@x.org"}], "to": "box", "active": 0}]

    @classmethod
    def missing(cls):
        return None if subprocess.run([cls.program, "-c", "import bson"], capture_output=True).returncode == 0 else \
            "no python3-bson: scripts/install-dependencies --databases"

    def prepare(self):
        self.tls_port = free_port()
        self.authority = Authority(os.path.join(self.dir, "authority"))
        certificate = self.authority.issue("localhost")
        with open(certificate.key) as key, open(certificate.pem) as pem:  # the server is not root
            self.files = self.write("key.pem", key.read()), self.write("cert.pem", pem.read())
        with open(self.authority.pem) as pem:
            self.trusted = self.write("ca.pem", pem.read())
        self.data_file = self.write("rows.json", json.dumps({
            "d.t": [{"_id": i, "k": k.lower(), "v": v} for i, (k, v) in enumerate(self.rows)], "d.boxes": self.boxes}))
        os.chmod(self.write("rows.json.log", ""), 0o666)

    def fill(self):
        pass

    def command(self):
        return [self.program, os.path.join(TOP, "tests/peers/mongodb_server.py"), str(self.port), self.data_file,
                str(self.tls_port), self.files[1], self.files[0]]

    def uri(self, login="mail:secret@", host=None, options=""):
        return f"mongodb://{login}{host or f'127.0.0.1:{self.port}'}/?authSource=admin{options}"

    def login(self):
        return {"uri": self.uri(), "dbname": "d", "collection": "t", "result_attribute": "v"}

    def filters(self):
        """What was asked so far."""
        with open(self.data_file + ".log") as log:
            return [json.loads(line) for line in log]


class Memcached(Server):
    """Debian's, unpacked and not installed."""

    type, forgets = "memcache", True
    root = os.path.join(os.environ.get("PEN_PEERS", os.path.join(TOP, "var", "peers")), "memcached")
    program = os.path.join(root, "usr/bin/memcached")

    def __init__(self, rows):
        super().__init__(rows)
        self.ids = {}  # memcached leaves root by itself

    @classmethod
    def missing(cls):
        return None if os.path.exists(cls.program) else "memcached is not unpacked: ./check does it, as root"

    def environment(self):
        return {**super().environment(), "LD_LIBRARY_PATH": ":".join(glob.glob(self.root + "/usr/lib/*-linux-gnu"))}

    def prepare(self):
        pass

    def command(self):
        return [self.program, "-l", "127.0.0.1", "-p", str(self.port), "-U", "0", "-u", "nobody"]

    def store(self, key, value):
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            connection.sendall(b"set %s 0 0 %d\r\n%s\r\n" % (key.encode(), len(value.encode()), value.encode()))
            if connection.recv(100) != b"STORED\r\n":
                raise AssertionError(f"memcached did not take {key}")

    def get(self, key):
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            connection.sendall(f"get {key}\r\n".encode())
            reply = b""
            while not reply.endswith(b"END\r\n"):
                reply += connection.recv(4096)
            return reply.decode()

    def fill(self):
        for k, v in self.rows:
            if k and v is not None and " " not in k:
                self.store(k.lower(), v)

    def login(self):
        return {"memcache": f"inet:127.0.0.1:{self.port}"}
