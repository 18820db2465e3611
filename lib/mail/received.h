#pragma once
/// Builds the Received: field, the trace that every message gets first.
///
/// Source:  RFC 5321 section 4.4, RFC 3848 (with protocol types), RFC 6531 (UTF8SMTP…), RFC 6710 (PRIORITY); the
///          layout is Postfix's.
#include <string>
#include <string_view>

#include "lib/base/time.h"
#include "lib/mail/envelope.h"

namespace pen::mail {

struct ReceivedField {
  const Client& client;
  std::string_view myhostname, mail_name;
  std::string_view queue_id;        // empty: the message is in no queue
  std::string_view only_recipient;  // external form; empty: no "for" clause (several recipients)
  bool smtputf8 = false;
  WallTime when{};
  bool show_login = false;  // name client.sasl_username, if there is one
  // Complete comments about the session's TLS; further lines begin with CRLF and tab. Empty: none.
  std::string_view tls = {};
  // "from userid 1000" for local submission
  std::string_view submitted_by = {};
  std::int8_t priority = 0;  // of MT-PRIORITY; 0: not said
  bool hide_client = false;  // smtpd_hide_client_session: only what RFC 5322 needs
};

/// The field's lines joined by CRLF, without one at the end. Bytes chosen by a peer cannot break the line. Local
/// submission (client.address empty) has no from clause.
std::string received_field(const ReceivedField& f);

}  // namespace pen::mail
