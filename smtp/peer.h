#pragma once
/// The server at the other end: its names, and the statuses that recipients get by what it says or leaves unsaid.
///
/// Pure; any thread.
/// Source:  RFC 3463, 3464; Postfix's texts for people's eyes.
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/mail/delivery_status.h"
#include "lib/mail/reply.h"

namespace pen::smtp {

/// What a reply is awaited to; names the time-out that applies and the words of messages.
enum class Step : std::uint8_t {
  greeting,
  ehlo,
  helo,
  lhlo,
  starttls,
  auth,
  rset,
  xforward,
  mail,
  rcpt,
  data,
  content,
  end_of_data,
  bdat,
  quit
};
/// "sending MAIL FROM", as after "lost connection with … while".
std::string_view doing(Step step);

/// Why the caller of the engine ends the connection.
enum class End : std::uint8_t {
  closed,  // the peer closed or reset the connection
  timed_out,
  content_error,  // the content could not be read: nothing sane can follow on this connection
  by_engine,      // ended() was true
};

struct Peer {
  std::string host;   // "mx.example.org"
  std::string shown;  // "mx.example.org[192.0.2.1]", or with a path

  /// By a refusal. command: what it answers, "MAIL FROM command"; empty: nothing that should be named.
  /// treat_552_as_452: RFC 5321 section 4.5.3.1.10.
  mail::DeliveryStatus said(const mail::Reply& reply, std::string_view command = {},
                            bool treat_552_as_452 = false) const;
  /// By a refusal of the connection: "refused to talk to me". It is as permanent as the reply.
  mail::DeliveryStatus refused_to_talk(const mail::Reply& reply) const;
  /// By an acceptance. The go-ahead after DATA (3xx) has no enhanced status code of its own (RFC 2034).
  mail::DeliveryStatus took(const mail::Reply& reply) const;
  /// Without an answer.
  mail::DeliveryStatus lost(End how, std::string_view doing_what) const;
};

/// "4.x.y" of "5.x.y".
std::string soft(std::string dsn);

}  // namespace pen::smtp
