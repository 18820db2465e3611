#pragma once
/// What is found out about a client at its arrival, before its name is known.
///
/// Use:     const bool known = !proxied || co_await ask_proxy(talk, limits);   co_await ask_lists_about_address(talk);
/// Thread:  the loop's. The arguments live until the end.
#include "lib/base/async/task.h"
#include "smtpd/client_limits.h"
#include "smtpd/conversation.h"

namespace pen::smtpd {

/// smtpd_upstream_proxy_protocol: takes the addresses of the session from the proxy's header. False: there is none.
[[gnu::noinline]] async::Task<bool> ask_proxy(Conversation& talk, ClientLimits& limits);
/// Asks the DNS lists of clients' addresses, unless the client is trusted.
[[gnu::noinline]] async::Task<void> ask_lists_about_address(Conversation& talk);

}  // namespace pen::smtpd
