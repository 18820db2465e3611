#pragma once
/// Reads from a finished handshake what was agreed on and what the peer's certificate states. Internal to lib/net/tls.
#include "lib/net/tls/openssl.h"
#include "lib/net/tls/session.h"

namespace pen::tls {

SessionInfo server_facts(SSL* ssl, const ContextOptions& context);
SessionInfo client_facts(SSL* ssl, const ContextOptions& context, const ConnectOptions& asked);

}  // namespace pen::tls
