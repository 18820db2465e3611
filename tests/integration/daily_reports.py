"""Asks tlsrpt and dmarcrpt to send their reports, and reads them."""
import email
import email.policy
import gzip
import socket

from queue_client import QueueClient, VERSION, text, varint


class DailyReports(QueueClient):
    """Speaks the conversation tls_report or dmarc_report (of lib/suite/ipc) with that program."""

    def __init__(self, mx, program, conversation):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(60)
        self.socket.connect(mx.path("spool", "private", program))
        self._send(varint(0), varint(0x4E455021) + text(conversation) + varint(VERSION))
        self._frame()

    def send(self):
        """Has what is due sent. Returns how many reports that were."""
        self._send(varint(1), varint(7))
        answer = self._frame()
        assert (answer.varint(), answer.varint()) == (0, 7)
        return answer.varint()


def send_reports(mx, program, conversation):
    """Has what is due sent. Returns how many reports that were."""
    with DailyReports(mx, program, conversation) as reports:
        return reports.send()


def attached(message):
    """The report in a message, as text."""
    whole = email.message_from_bytes(message.content, policy=email.policy.default)
    return gzip.decompress(list(whole.iter_parts())[1].get_content())
