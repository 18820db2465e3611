"""The demonstration's messages: (who it is for, what happens to it, the bytes)."""

HOME = b"""From: Anna <anna@home.example>\r
To: Ben <ben@home.example>\r
Subject: Lunch on Thursday?\r
Date: Mon, 16 Nov 2026 09:12:00 +0100\r
Message-ID: <lunch-1@home.example>\r
\r
Ben,\r
\r
the place by the weir opens again this week. Twelve?\r
..and bring the drawings.\r
.\r
That dot above stands alone on its line, and arrives so.\r
\r
Anna\r
"""

AWAY = """From: Anna <anna@home.example>\r
To: Office <office@away.example>\r
Subject: =?utf-8?q?Angebot_f=C3=BCr_das_Wehr?=\r
Date: Mon, 16 Nov 2026 09:20:00 +0100\r
Message-ID: <offer-1@home.example>\r
MIME-Version: 1.0\r
Content-Type: text/plain; charset=utf-8\r
Content-Transfer-Encoding: 8bit\r
\r
Guten Tag,\r
\r
die Zeichnung für das neue Wehr liegt bei: Gefälle 12 m, Druckrohr 40 m.\r
\r
Mit freundlichen Grüßen\r
Anna\r
""".encode()

UNKNOWN = b"""From: Anna <anna@home.example>\r
To: nobody@away.example\r
Subject: Are you there?\r
Date: Mon, 16 Nov 2026 09:30:00 +0100\r
Message-ID: <knock-1@home.example>\r
\r
Knock, knock.\r
"""

ALL = [
    ("anna@home.example", "ben@home.example", HOME, "a mailbox here (Maildir)"),
    ("anna@home.example", "office@away.example", AWAY, "another host, by SMTP"),
    ("anna@home.example", "nobody@away.example", UNKNOWN, "a user the other host does not know: it comes back"),
]
