#pragma once
/// What a client may do, by the lists of hosts that it is in. mynetworks is in Peer::trusted.
///
/// Use:     standing = co_await Standing::look_up(server, policy, settings, client.peer);
/// Errors:  a list that cannot be read gives the safe answer, and a line in the log where that can matter.
/// Thread:  the loop's.
#include <memory>

#include "lib/base/async/task.h"
#include "smtpd/client.h"
#include "smtpd/server.h"

namespace pen::smtpd {

struct Standing {
  bool may_xclient = false;                                // smtpd_authorized_xclient_hosts
  bool may_xforward = false;                               // smtpd_authorized_xforward_hosts
  bool may_verp = false;                                   // smtpd_authorized_verp_clients
  bool unlimited = false;                                  // smtpd_client_event_limit_exceptions
  bool no_auth = true;                                     // smtpd_sasl_exceptions_networks
  bool local = false;                                      // local_header_rewrite_clients, its addresses and tables
  bool forbid_bare_newline = true;                         // smtpd_forbid_bare_newline and its exclusions
  bool any_end_of_data = false;                            // the same: LF.LF ends a message of this client
  std::unique_ptr<DiscardedKeywords> discarded = nullptr;  // of this client; nullptr: as for all

  /// When the client's name and address are known. Finds out whether the peer is trusted, too. The settings and the
  /// policy must live until then.
  [[gnu::noinline]] static async::Task<Standing> look_up(Server& server, const Policy& policy,
                                                         const config::Settings& settings, Peer& peer);
};

}  // namespace pen::smtpd
