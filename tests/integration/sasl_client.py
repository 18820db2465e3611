"""Mechanisms of SASL from the client's side, for tests: what they say, not what ours says.

Use:   replies = log_in(client, "SCRAM-SHA-256", "anna", "secret")     # of an SMTP client; the last one decides
"""
import base64
import hashlib
import hmac
import os
import re


def b64(data):
    return base64.b64encode(data if isinstance(data, bytes) else data.encode()).decode()


def plain(user, password):
    yield b64(f"\0{user}\0{password}")


def login(user, password):
    yield None
    yield b64(user)
    yield b64(password)


def cram_md5(user, password):
    challenge = yield None
    yield b64(user + " " + hmac.new(password.encode(), challenge, hashlib.md5).hexdigest())


def digest_md5(user, password, service="smtp", host="localhost"):
    challenge = yield None
    given = dict(re.findall(r'(\w+)="?([^",]*)"?', challenge.decode()))
    realm, nonce, cnonce, uri = given.get("realm", ""), given["nonce"], os.urandom(8).hex(), f"{service}/{host}"

    def digest(text):
        return hashlib.md5(text if isinstance(text, bytes) else text.encode()).hexdigest()
    secret = hashlib.md5(f"{user}:{realm}:{password}".encode()).digest()
    first = digest(secret + f":{nonce}:{cnonce}".encode())
    response = digest(f"{first}:{nonce}:00000001:{cnonce}:auth:" + digest(f"AUTHENTICATE:{uri}"))
    yield b64(f'username="{user}",realm="{realm}",nonce="{nonce}",cnonce="{cnonce}",nc=00000001,qop=auth,'
              f'digest-uri="{uri}",response={response}')
    yield ""  # the server has proved itself


def scram(name):
    def exchange(user, password):
        nonce = os.urandom(9).hex()
        bare = f"n={user},r={nonce}"
        first = yield b64("n,," + bare)
        given = dict(part.split("=", 1) for part in first.decode().split(","))
        salted = hashlib.pbkdf2_hmac(name, password.encode(), base64.b64decode(given["s"]), int(given["i"]))

        def mac(key, text):
            return hmac.new(key, text.encode(), name).digest()
        key = mac(salted, "Client Key")
        last = "c=biws,r=" + given["r"]
        signed = mac(hashlib.new(name, key).digest(), f"{bare},{first.decode()},{last}")
        yield b64(last + ",p=" + b64(bytes(a ^ b for a, b in zip(key, signed))))
        yield ""
    return exchange


MECHANISMS = {"PLAIN": plain, "LOGIN": login, "CRAM-MD5": cram_md5, "DIGEST-MD5": digest_md5,
              "SCRAM-SHA-1": scram("sha1"), "SCRAM-SHA-256": scram("sha256")}


def log_in(client, mechanism, user, password):
    """Carries an exchange out; returns all replies."""
    exchange = MECHANISMS[mechanism](user, password)
    first = next(exchange)
    replies = [client.command(f"AUTH {mechanism}" + ("" if first is None else " " + first))]
    while replies[-1].startswith("334"):
        try:
            response = exchange.send(base64.b64decode(replies[-1][4:]))
        except StopIteration:
            response = "*"
        replies.append(client.command(response))
    return replies
