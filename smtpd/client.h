#pragma once
/// What a session knows of its client: who it is, what it said of itself, how it is connected.
///
/// Use:     the Session owns one ClientFacts and changes it (EHLO, STARTTLS, AUTH, XCLIENT, XFORWARD); a Transaction,
///          Checks and ClientLimits look at it.
/// Thread:  the loop's.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "lib/mail/envelope.h"
#include "lib/smtpd/auth.h"
#include "lib/smtpd/tls.h"
#include "smtpd/names.h"

namespace pen::smtpd {

/// The address of a client of which no more is known than that it came from somewhere.
inline constexpr std::string_view kUnknownAddress = "unknown";

/// The client of a session, as far as known.
struct Peer {
  std::string name = "unknown", reverse_name = "unknown";
  std::string address;  // numeric; as XCLIENT may have it, kUnknownAddress
  std::uint16_t port = 0;
  NameState name_state = NameState::missing, reverse_state = NameState::missing;
  /// In mynetworks; nullopt: a table could not be read.
  std::optional<bool> trusted = false;
  bool own_address = false;  // connects from one of this host's own addresses
  bool show_port = false;    // smtpd_client_port_logging
  std::string shown() const {
    std::string text = name + "[" + address + "]";
    if (show_port) text += ":" + std::to_string(port);
    return text;
  }
};

/// What XFORWARD has told, for one message.
struct Forwarded {
  mail::Client client;
  std::string ident;          // the queue id at the sender's; empty: none
  std::optional<bool> local;  // SOURCE
};

struct ClientFacts {
  Peer peer;
  std::string helo;                      // empty: none given
  bool esmtp = false;                    // it said EHLO
  bool improper_pipelining = false;      // it did not wait where it had to
  std::unique_ptr<Login> login;          // nullptr: nobody
  std::unique_ptr<SecureClient> tls;     // nullptr: clear text
  std::unique_ptr<Forwarded> forwarded;  // nullptr: nothing was told

  bool secured() const { return tls != nullptr; }
  /// For the log.
  const char* protocol() const { return esmtp ? "ESMTP" : "SMTP"; }
};

}  // namespace pen::smtpd
