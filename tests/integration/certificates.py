"""Certificates made on the spot with the openssl command, so that none in the tree expires.

Use:     ca = Authority(directory)
         cert = ca.issue("mx.test.example")      # cert.pem (with the chain), cert.key: paths
"""
import os
import subprocess


def openssl(*arguments, stdin=None):
    done = subprocess.run(["openssl", *arguments], capture_output=True, input=stdin, timeout=60)
    if done.returncode != 0:
        raise AssertionError(f"openssl {' '.join(arguments)}: {done.stderr.decode()}")
    return done.stdout.decode()


class Certificate:
    def __init__(self, stem):
        self.pem, self.key = stem + ".pem", stem + ".key"

    def fingerprint(self, digest="sha256"):
        return openssl("x509", "-in", self.pem, "-noout", "-fingerprint", f"-{digest}").strip().split("=")[1]

    def text(self):
        """A key, a certificate and its chain."""
        with open(self.key) as key, open(self.pem) as pem:
            return key.read() + pem.read()


class Authority:
    def __init__(self, directory, name="Test CA"):
        self.directory, self.count = directory, 0
        os.makedirs(directory, exist_ok=True)
        self.own = Certificate(os.path.join(directory, "ca"))
        self._make(self.own, name, "-addext", "basicConstraints=critical,CA:TRUE")
        self.pem = self.own.pem

    def _make(self, certificate, name, *more, kind="ec"):
        key = ["ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"] if kind == "ec" else ["rsa:2048"]
        openssl("req", "-x509", "-newkey", *key, "-nodes", "-days", "60", "-subj", f"/CN={name}", "-keyout",
                certificate.key, "-out", certificate.pem, *more)

    def issue(self, name, *others, kind="ec", stem=None):
        """Issues a new certificate for these names; `stem` begins the names of its files, if given."""
        self.count += 1
        made = Certificate(os.path.join(self.directory, stem or f"{name}.{self.count}"))
        self._make(
            made,
            name,
            "-CA",
            self.own.pem,
            "-CAkey",
            self.own.key,
            "-addext",
            "basicConstraints=critical,CA:FALSE",
            "-addext",
            "subjectAltName=" + ",".join(f"DNS:{n}" for n in (name, *others)),
            kind=kind,
        )
        with open(made.pem, "a") as out, open(self.own.pem) as own:
            out.write(own.read())
        os.chmod(made.key, 0o600)
        return made

    def issue_odd(self, name, expired=True, names=True, chain=False):
        """A certificate, expired since yesterday or with a common name only; chain: followed by the authority's own."""
        self.count += 1
        made = Certificate(os.path.join(self.directory, f"odd.{name}.{self.count}"))
        extension = ["-addext", f"subjectAltName=DNS:{name}"] if names else []
        request = openssl(
            "req",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-keyout",
            made.key,
            "-subj",
            f"/CN={name}",
            *extension,
        )
        with open(made.pem, "w") as out:
            out.write(
                openssl(
                    "x509",
                    "-req",
                    "-CA",
                    self.own.pem,
                    "-CAkey",
                    self.own.key,
                    "-days",
                    "-1" if expired else "60",
                    "-copy_extensions",
                    "copy",
                    stdin=request.encode(),
                )
            )
            if chain:
                with open(self.own.pem) as own:
                    out.write(own.read())
        return made
