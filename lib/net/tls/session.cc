#include "lib/net/tls/session.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "lib/net/tls/facts.h"
#include "lib/net/tls/transport.h"

namespace pen::tls {
namespace {

using async::Stream;
using async::Task;
using async::Until;

/// The TLS error that stands for a failed wait for the handshake.
Error handshake_error(Error e) {
  if (e.code().category() == std::generic_category()) {
    if (e.is_errno(EPROTO)) return Error(TlsError::handshake, e.context());
    return Error(TlsError::disconnected, {}, e.is_errno(ECONNRESET) ? 0 : e.sys_errno());
  }
  if (e.is(async::WaitError::closed)) return TlsError::disconnected;
  return e;
}

Result<void> prepare(TlsTransport& transport, const ConnectOptions& options) {
  SSL* ssl = transport.ssl();
  const ContextOptions& shared = transport.context().options();
  ERR_clear_error();
  if (options.protocols) apply(*options.protocols, ssl);
  if (!options.ciphers.empty() && SSL_set_cipher_list(ssl, options.ciphers.c_str()) != 1)
    return setup_failure("cipher list \"" + options.ciphers + "\"");
  if (!options.tlsa.empty()) {
    if (SSL_dane_enable(ssl, options.tlsa_base.c_str()) != 1) return setup_failure("DANE");
    SSL_dane_set_flags(ssl, DANE_FLAG_NO_DANE_EE_NAMECHECKS);
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    int usable = 0;
    for (const Tlsa& t : options.tlsa) {
      usable += SSL_dane_tlsa_add(ssl, t.usage, t.selector, t.matching,
                                  reinterpret_cast<const unsigned char*>(t.data.data()), t.data.size()) > 0;
    }
    ERR_clear_error();
    if (usable == 0) return fail(TlsError::setup, "none of the TLSA records is usable");
    for (const auto& name : options.names) SSL_add1_host(ssl, name.c_str());
  }
  // After SSL_dane_enable(), which sets a server name of its own.
  if (!options.server_name.empty() && SSL_set_tlsext_host_name(ssl, options.server_name.c_str()) != 1)
    return setup_failure("server name \"" + options.server_name + "\"");
  transport.session_key = options.session_key;
  if (shared.sessions && !options.session_key.empty()) {
    if (const auto kept = shared.sessions->find(options.session_key)) {
      const auto* at = reinterpret_cast<const unsigned char*>(kept->data());
      const SessionPtr session(d2i_SSL_SESSION(nullptr, &at, static_cast<long>(kept->size())));
      if (!session || SSL_set_session(ssl, session.get()) != 1) shared.sessions->forget(options.session_key);
    }
  }
  ERR_clear_error();
  return {};
}

}  // namespace

Task<Result<SessionInfo>> accept(Stream& stream, std::shared_ptr<const Context> context, Until until) {
  PEN_CO_TRY_ASSIGN(auto made, TlsTransport::make(std::move(context), stream.fd()));
  const TlsTransport& transport = *made;
  stream.start_transport(std::move(made));
  if (auto done = co_await stream.handshake(until); !done) co_return fail(handshake_error(std::move(done).error()));
  co_return server_facts(transport.ssl(), transport.context().options());
}

Task<Result<SessionInfo>> connect(Stream& stream, std::shared_ptr<const Context> context, ConnectOptions options,
                                  Until until) {
  const auto cache = context->options().sessions;
  PEN_CO_TRY_ASSIGN(auto made, TlsTransport::make(std::move(context), stream.fd()));
  PEN_CO_TRY(prepare(*made, options));
  const TlsTransport& transport = *made;
  stream.start_transport(std::move(made));
  if (auto done = co_await stream.handshake(until); !done) {
    // Whatever went wrong, the resumed session may be the reason.
    if (cache && !options.session_key.empty()) cache->forget(options.session_key);
    co_return fail(handshake_error(std::move(done).error()));
  }
  co_return client_facts(transport.ssl(), transport.context().options(), options);
}

}  // namespace pen::tls
