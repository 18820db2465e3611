#pragma once
/// What one client may do in a time unit, and how many sessions it may have: the smtpd_client_*_limit settings and
/// session classes.
///
/// Use:     ClientLimits limits(server, settings, client.peer);    // limits.exempt(…) once it is known who that is
///          if (co_await limits.too_often(Event::message, s.smtpd_client_message_rate_limit)) … refuse …
/// Counts:  anvil's, over all processes (docs/smtpd.md); a thing is counted only where it has a limit. Whatever is
///          above a limit has been logged.
/// Thread:  the loop's. The peer must outlive it.
#include <optional>
#include <string>

#include "lib/sessions/client_counts.h"
#include "lib/sessions/holder.h"
#include "smtpd/client.h"
#include "smtpd/server.h"

namespace pen::smtpd {

class ClientLimits {
 public:
  using Event = sessions::ClientCounts::Event;
  /// The client is counted by the address that it has now.
  ClientLimits(Server& server, const config::Settings& settings, const Peer& peer);

  /// The settings are not for this client. A client that may say XCLIENT is one: it speaks for many, which would share
  /// the count of the one address that connects.
  void exempt(bool yes) { exempt_ = yes; }
  /// Counts it; true: it is more than `limit` (0: none).
  [[gnu::noinline]] async::Task<bool> too_often(Event event, int limit);
  /// Counts the session as long as this lives; true: it is one too many.
  [[gnu::noinline]] async::Task<bool> too_many_connections();
  /// True: the client has had as many full TLS handshakes as it may. Counts nothing, logs nothing.
  [[gnu::noinline]] async::Task<bool> too_many_handshakes();
  /// A place in the client's session class, or a refusal.
  [[gnu::noinline]] async::Task<sessions::Holder::Entry> class_place();

 private:
  bool counted() const { return server_.clients && !exempt_; }
  bool over(Event event, std::uint32_t rate, int limit) const;

  Server& server_;
  const config::Settings& settings_;
  const Peer& peer_;
  std::string counted_as_;  // "service:address"
  std::optional<sessions::ClientCounts::Place> place_;
  bool exempt_ = false;
};

}  // namespace pen::smtpd
