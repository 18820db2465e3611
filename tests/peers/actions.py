"""A filter made with Debian's python3-milter, so with libmilter: does what the message's sender asks for.
  python3 actions.py PORT
A sender a-ACTION-STAGE@… has ACTION (reject, tempfail, discard, accept, reply) done at STAGE (mail, rcpt, data, header,
eoh, body, eom), a-EDIT-eom@… the edit.
"""
import sys

import Milter

ACTIONS = {"reject": Milter.REJECT, "tempfail": Milter.TEMPFAIL, "discard": Milter.DISCARD, "accept": Milter.ACCEPT}


class Script(Milter.Base):
    def at(self, stage):
        if stage != self.stage:
            return Milter.CONTINUE
        if self.action == "reply":
            self.setreply("550", "5.7.9", "refused at " + stage, "by libmilter")
            return Milter.REJECT
        return ACTIONS.get(self.action, Milter.CONTINUE)

    def envfrom(self, sender, *parameters):
        words = sender.strip("<>").partition("@")[0].split("-")
        self.action, self.stage = words[1:3] if len(words) == 3 else ("", "")
        return self.at("mail")

    def envrcpt(self, recipient, *parameters):
        return self.at("rcpt")

    def data(self):
        return self.at("data")

    def header(self, name, value):
        return self.at("header")

    def eoh(self):
        return self.at("eoh")

    def body(self, block):
        return self.at("body")

    def eom(self):
        if self.action == "add":
            self.addheader("X-Added", "one\n\tfolded")
            self.addheader("X-First", "at the top", 0)
        elif self.action == "change":
            self.chgheader("Subject", 1, "changed")
            self.chgheader("Date", 1, "")
        elif self.action == "recipients":
            self.addrcpt("<c@there.example>")
            self.delrcpt("<b@there.example>")
        elif self.action == "sender":
            self.chgfrom("<other@sender.example>")
        elif self.action == "body":
            self.replacebody(b"another body\r\n" * 10000)
        elif self.action == "progress":
            for _ in range(3):
                self.progress()
        return self.at("eom")


Milter.factory = Script
Milter.set_flags(Milter.ADDHDRS + Milter.CHGHDRS + Milter.CHGBODY + Milter.ADDRCPT + Milter.DELRCPT + Milter.CHGFROM)
Milter.runmilter("actions", f"inet:{sys.argv[1]}@127.0.0.1", 60)
