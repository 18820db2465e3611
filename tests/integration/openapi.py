"""conf/penapi-openapi.json, and whether what penapi answers is as it says.

Every schema there is closed: a field that is not described fails the test in which it came."""
import json
import os
import re

import jsonschema

from instance import TOP


class Description:
    def __init__(self):
        with open(os.path.join(TOP, "conf", "penapi-openapi.json"), encoding="utf-8") as file:
            self.document = json.load(file)
        self.answered = set()  # (method, pattern, status) of what was compared

    def operations(self):
        """(method, pattern, operation) of each."""
        for pattern, methods in self.document["paths"].items():
            for method, operation in methods.items():
                yield method.upper(), pattern, operation

    def find(self, method, path):
        """The operation of a request; (None, None): there is no such one. A whole word wins over {…}."""
        path = path.partition("?")[0]
        found = [(pattern, operation) for m, pattern, operation in self.operations()
                 if m == method and re.fullmatch(re.sub(r"\\{\w+\\}", "[^/]*", re.escape(pattern)), path)]
        return min(found, key=lambda one: one[0].count("{"), default=(None, None))

    def validate(self, schema, value):
        """schema: itself, or the name of one of the components."""
        if isinstance(schema, str):
            schema = {"$ref": "#/components/schemas/" + schema}
        root = {"components": self.document["components"], "allOf": [schema]}
        problems = sorted(jsonschema.Draft4Validator(root).iter_errors(value), key=lambda e: list(e.path))
        if problems:
            told = "\n".join(f"{list(e.path)}: {e.message[:300]}" for e in problems[:5])
            raise AssertionError(f"not as described:\n{told}\n{json.dumps(value)[:2000]}")

    def check(self, method, path, status, kind, text):
        """Compares an answer. What there is no route for is answered by an Error too."""
        pattern, operation = self.find(method, path)
        if operation is None:
            if status < 400:
                raise AssertionError(f"{method} {path} is answered by {status} and not described")
            return self.validate("Error", json.loads(text))
        kind = kind.partition(";")[0]
        answers = operation["responses"]
        answer = answers.get(str(status))
        if answer is None and status < 400:
            raise AssertionError(f"{method} {pattern}: {status} is not described")
        content = (answer or answers["default"])["content"]
        if answer is not None and kind not in content:
            raise AssertionError(f"{method} {pattern}: {kind}, not {list(content)}")
        self.answered.add((method, pattern, str(status) if answer else "default"))
        if kind == "application/json":
            self.validate(content[kind]["schema"], json.loads(text))
