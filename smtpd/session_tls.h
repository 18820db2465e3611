#pragma once
/// TLS below a session: after STARTTLS, or from the first byte on.
///
/// Use:     co_return co_await start_tls(talk, limits, co_await server.tls->current(until));
///          co_await wrap(talk, limits);
/// Result:  ClientFacts::tls. close: the session has ended, with its reply if one was possible.
/// Source:  RFC 3207, RFC 8314; Postfix smtpd(8) for texts and settings.
/// Thread:  the loop's. The arguments live until the end.
#include <memory>

#include "smtpd/client_limits.h"
#include "smtpd/conversation.h"

namespace pen::smtpd {

/// Does the handshake, then forgets what the client said before it.
[[gnu::noinline]] async::Task<Flow> start_tls(Conversation& talk, ClientLimits& limits,
                                              std::shared_ptr<const tls::Context> context);
/// Wrapper mode: the handshake comes before the greeting.
[[gnu::noinline]] async::Task<Flow> wrap(Conversation& talk, ClientLimits& limits);

}  // namespace pen::smtpd
