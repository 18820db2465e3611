#pragma once
/// What one client may do in a time unit, and how many sessions it may have: the smtpd_client_*_limit settings and
/// session classes.
///
/// Use:     ClientLimits limits(server, settings, client.peer);    // limits.exempt(…) once the client is known
///          if (co_await limits.too_often(Event::message, s.smtpd_client_message_rate_limit)) … refuse …
/// Counts:  anvil counts over all processes (docs/smtpd.md), and only events that have a limit. Going beyond a limit
///          is logged here.
/// Thread:  the loop's. The peer must outlive it.
#include <optional>
#include <string>

#include "lib/suite/sessions/client_counts.h"
#include "lib/suite/sessions/holder.h"
#include "smtpd/client.h"
#include "smtpd/server.h"

namespace pen::smtpd {

class ClientLimits {
 public:
  using Event = sessions::ClientCounts::Event;
  /// The client is counted by the address that it has now.
  ClientLimits(Server& server, const config::Settings& settings, const Peer& peer);

  /// The peer has another address now: what is counted from now on is its.
  void peer_changed();
  /// Switches the limits off. A client that may use XCLIENT is exempt: it speaks for many clients, which would share
  /// the count of its one address.
  void exempt(bool yes) { exempt_ = yes; }
  /// Counts the event. True: that is more than `limit` (0: no limit).
  [[gnu::noinline]] async::Task<bool> too_often(Event event, int limit);
  /// Counts the session for the lifetime of this object. True: that is one too many.
  [[gnu::noinline]] async::Task<bool> too_many_connections();
  /// How many sessions the client had when this one was counted, with it; 0: it was not.
  std::uint32_t connections() const { return connections_; }
  /// True: the client has used up its full TLS handshakes. Counts nothing, logs nothing.
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
  std::uint32_t connections_ = 0;
  bool exempt_ = false;
};

}  // namespace pen::smtpd
