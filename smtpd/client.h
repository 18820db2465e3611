#pragma once
/// What a session knows of its client: name and address, what the client said, how it is connected.
///
/// Use:     the Session owns one ClientFacts and changes it (EHLO, STARTTLS, AUTH, XCLIENT, XFORWARD). A Transaction,
///          Checks and ClientLimits read it.
/// Thread:  the loop's.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/async/socket.h"
#include "lib/mail/envelope.h"
#include "lib/meaning/smtpd/auth.h"
#include "lib/meaning/smtpd/tls.h"
#include "smtpd/names.h"

namespace pen::smtpd {

/// The address of a client that has no known address.
inline constexpr std::string_view kUnknownAddress = "unknown";

/// The client of a session, as far as known.
struct Peer {
  std::string name = "unknown", reverse_name = "unknown";
  std::string address;  // numeric, or kUnknownAddress from XCLIENT
  std::uint16_t port = 0;
  NameState name_state = NameState::missing, reverse_state = NameState::missing;
  NameState forward_state = NameState::missing;  // ok: the reverse name has an address, not necessarily this one
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

/// What XFORWARD said about one message.
struct Forwarded {
  mail::Client client;
  std::string ident;          // the queue id at the sending host; empty: none
  std::optional<bool> local;  // SOURCE
};

struct ClientFacts {
  Peer peer;
  std::string helo;                      // empty: none given
  bool esmtp = false;                    // the client said EHLO
  bool improper_pipelining = false;      // the client did not wait for a reply where it must
  std::uint32_t connections = 0;         // its sessions now, this one included; 0: they are not counted
  std::unique_ptr<Login> login;          // nullptr: not logged in
  std::unique_ptr<SecureClient> tls;     // nullptr: clear text
  std::unique_ptr<Forwarded> forwarded;  // nullptr: no XFORWARD
  int socket = -1;                       // of the connection
  std::uint64_t session = 0;             // events::next_session(); 0: none
  /// The address and port of this host that XCLIENT said the client had reached; nullptr: those of the socket.
  std::unique_ptr<async::SocketAddress> reached;

  bool secured() const { return tls != nullptr; }
  /// For the log.
  const char* protocol() const { return esmtp ? "ESMTP" : "SMTP"; }
};

}  // namespace pen::smtpd
