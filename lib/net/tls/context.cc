#include "lib/net/tls/context.h"

#include <openssl/conf.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <span>

#include "lib/base/text.h"
#include "lib/net/tls/error.h"
#include "lib/net/tls/openssl.h"

namespace pen::tls {
namespace {

// For a peer's certificate chain; real chains have three or four certificates of 2 kB.
constexpr long kMaxCertificateList = 100 * 1024;

struct Option {
  std::string_view name;
  std::uint64_t bits;
};
/// What is in SSL_OP_ALL. The others that Postfix names have no effect in this OpenSSL: to disable them is nothing.
constexpr std::array kWorkarounds = {
    Option{"CRYPTOPRO_TLSEXT_BUG", SSL_OP_CRYPTOPRO_TLSEXT_BUG},
    Option{"DONT_INSERT_EMPTY_FRAGMENTS", SSL_OP_DONT_INSERT_EMPTY_FRAGMENTS},
    Option{"LEGACY_SERVER_CONNECT", SSL_OP_LEGACY_SERVER_CONNECT},
    Option{"TLSEXT_PADDING", SSL_OP_TLSEXT_PADDING},
    Option{"MICROSOFT_BIG_SSLV3_BUFFER", 0},
    Option{"MICROSOFT_SESS_ID_BUG", 0},
    Option{"MSIE_SSLV2_RSA_PADDING", 0},
    Option{"CVE-2005-2969", 0},
    Option{"NETSCAPE_CHALLENGE_BUG", 0},
    Option{"NETSCAPE_REUSE_CIPHER_CHANGE_BUG", 0},
    Option{"CVE-2010-4180", 0},
    Option{"SSLEAY_080_CLIENT_DH_BUG", 0},
    Option{"SSLREF2_REUSE_CERT_TYPE_BUG", 0},
    Option{"TLS_BLOCK_PADDING_BUG", 0},
    Option{"TLS_D5_BUG", 0},
    Option{"TLS_ROLLBACK_BUG", 0},
};
constexpr std::array kOptions = {
    Option{"NO_TICKET", SSL_OP_NO_TICKET},
    Option{"NO_COMPRESSION", SSL_OP_NO_COMPRESSION},
    Option{"NO_RENEGOTIATION", SSL_OP_NO_RENEGOTIATION},
    Option{"NO_SESSION_RESUMPTION_ON_RENEGOTIATION", SSL_OP_NO_SESSION_RESUMPTION_ON_RENEGOTIATION},
    Option{"PRIORITIZE_CHACHA", SSL_OP_PRIORITIZE_CHACHA},
    Option{"ENABLE_MIDDLEBOX_COMPAT", SSL_OP_ENABLE_MIDDLEBOX_COMPAT},
    Option{"LEGACY_SERVER_CONNECT", SSL_OP_LEGACY_SERVER_CONNECT},
    Option{"CRYPTOPRO_TLSEXT_BUG", SSL_OP_CRYPTOPRO_TLSEXT_BUG},
    Option{"TLSEXT_PADDING", SSL_OP_TLSEXT_PADDING},
    Option{"NO_ANTI_REPLAY", SSL_OP_NO_ANTI_REPLAY},
    Option{"ENABLE_KTLS", SSL_OP_ENABLE_KTLS},
    Option{"CIPHER_SERVER_PREFERENCE", SSL_OP_CIPHER_SERVER_PREFERENCE},
    Option{"NO_ENCRYPT_THEN_MAC", SSL_OP_NO_ENCRYPT_THEN_MAC},
};

/// nullopt: there is no such option.
std::optional<std::uint64_t> bits_of(std::string_view word, std::span<const Option> options) {
  for (const Option& o : options)
    if (iequals(o.name, word)) return o.bits;
  if (!istarts_with(word, "0x")) return std::nullopt;
  std::uint64_t bits = 0;
  const auto [end, error] = std::from_chars(word.data() + 2, word.data() + word.size(), bits, 16);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return bits;
}

std::uint64_t exclusions(const Protocols& p) {
  std::uint64_t bits = SSL_OP_NO_SSLv3;
  if (!p.permits(TLS1_VERSION)) bits |= SSL_OP_NO_TLSv1;
  if (!p.permits(TLS1_1_VERSION)) bits |= SSL_OP_NO_TLSv1_1;
  if (!p.permits(TLS1_2_VERSION)) bits |= SSL_OP_NO_TLSv1_2;
  if (!p.permits(TLS1_3_VERSION)) bits |= SSL_OP_NO_TLSv1_3;
  return bits;
}
constexpr std::uint64_t kVersions = SSL_OP_NO_TLSv1 | SSL_OP_NO_TLSv1_1 | SSL_OP_NO_TLSv1_2 | SSL_OP_NO_TLSv1_3;

constexpr unsigned long kMarksGroups = 0x30500000;  // the version of OpenSSL since which a list has * before a group

/// The groups known to this OpenSSL, in the given order.
std::string known_groups(SSL_CTX* ctx, const std::vector<std::string>& groups) {
  std::vector<std::string> known;
  for (const auto& group : groups)
    if (SSL_CTX_set1_groups_list(ctx, group.c_str()) == 1) known.push_back(group);
  ERR_clear_error();
  return groups_list(known, OpenSSL_version_num() >= kMarksGroups);
}

/// Accepts any certificate for now, so that the handshake continues; facts.cc reports what is wrong with it.
int note_certificate(int, X509_STORE_CTX*) { return 1; }

/// Judges a client's certificate that is made out for servers, and not for clients, as that of a server.
int verify_for_either_use(X509_STORE_CTX* store, void*) {
  if (X509* certificate = X509_STORE_CTX_get0_cert(store)) {
    const bool restricted = (X509_get_extension_flags(certificate) & EXFLAG_XKUSAGE) != 0;
    const std::uint32_t uses = restricted ? X509_get_extended_key_usage(certificate) : 0;
    if ((uses & XKU_SSL_SERVER) != 0 && (uses & XKU_SSL_CLIENT) == 0) {
      X509_VERIFY_PARAM* how = X509_STORE_CTX_get0_param(store);
      X509_VERIFY_PARAM_set_purpose(how, X509_PURPOSE_SSL_SERVER);
      X509_VERIFY_PARAM_set_trust(how, X509_TRUST_SSL_SERVER);
    }
  }
  return X509_verify_cert(store);
}

}  // namespace

Result<void> configure_library(const std::string& file, const std::string& name) {
  const bool usual_file = file.empty() || iequals(file, "default");
  if (usual_file && name.empty()) return {};  // OpenSSL does that by itself when it is first used
  if (iequals(file, "none")) {
    OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
    return {};
  }
  if (!usual_file && file.front() != '/')
    return fail(TlsError::setup, "tls_config_file = " + file + ": default, none, or a file with its whole path");
  std::unique_ptr<OPENSSL_INIT_SETTINGS, decltype(&OPENSSL_INIT_free)> how(OPENSSL_INIT_new(), OPENSSL_INIT_free);
  if (!how) return setup_failure("OpenSSL");
  // Faults of the system's file are passed over, as OpenSSL does; those of a file that is named here are not.
  unsigned long flags = CONF_MFLAGS_DEFAULT_SECTION;
  flags |= usual_file ? CONF_MFLAGS_IGNORE_MISSING_FILE | CONF_MFLAGS_IGNORE_RETURN_CODES : 0;
  OPENSSL_INIT_set_config_file_flags(how.get(), flags);
  if (!usual_file) OPENSSL_INIT_set_config_filename(how.get(), file.c_str());
  if (!name.empty()) OPENSSL_INIT_set_config_appname(how.get(), name.c_str());
  ERR_clear_error();
  if (OPENSSL_init_ssl(OPENSSL_INIT_LOAD_CONFIG, how.get()) != 1) return setup_failure("tls_config_file = " + file);
  return {};
}

// Only the exclusions restrict versions, no bounds are set. A bound would also override what the system's OpenSSL
// configuration file sets for contexts without bounds.
void apply(const Protocols& p, SSL_CTX* ctx) {
  SSL_CTX_set_min_proto_version(ctx, 0);
  SSL_CTX_set_max_proto_version(ctx, 0);
  SSL_CTX_clear_options(ctx, kVersions);
  SSL_CTX_set_options(ctx, exclusions(p));
}
void apply(const Protocols& p, SSL* ssl) {
  SSL_set_min_proto_version(ssl, 0);
  SSL_set_max_proto_version(ssl, 0);
  SSL_clear_options(ssl, kVersions);
  SSL_set_options(ssl, exclusions(p));
}

Result<void> Context::Impl::open() {
  ERR_clear_error();
  const bool server = options.role == Role::server;
  ctx.reset(SSL_CTX_new(server ? TLS_server_method() : TLS_client_method()));
  if (!ctx) return setup_failure("OpenSSL");
  SSL_CTX_set_options(ctx.get(),
                      SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_ALL);
  SSL_CTX_clear_options(ctx.get(), SSL_OP_ALLOW_CLIENT_RENEGOTIATION);
  for (const auto& item : options.ssl_options)
    for (const std::string_view word : split(item)) {
      const auto bits = bits_of(word, kOptions);
      if (!bits) warnings.push_back("tls_ssl_options: unknown option " + std::string(word));
      SSL_CTX_set_options(ctx.get(), bits.value_or(0));
    }
  for (const auto& item : options.disabled_workarounds)
    for (const std::string_view word : split(item)) {
      const auto bits = bits_of(word, kWorkarounds);
      if (!bits) warnings.push_back("tls_disable_workarounds: unknown name " + std::string(word));
      SSL_CTX_clear_options(ctx.get(), bits.value_or(0) & SSL_OP_ALL);
    }
  // After a partial write the stream may have moved the rest of its text before it calls again.
  SSL_CTX_set_mode(ctx.get(),
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_read_ahead(ctx.get(), 1);  // a record's head and body in one system call
  SSL_CTX_set_max_cert_list(ctx.get(), kMaxCertificateList);
  apply(options.protocols, ctx.get());

  const std::string ciphers = options.ciphers + (server && options.keys_elsewhere ? ":!kRSA" : "");
  if (SSL_CTX_set_cipher_list(ctx.get(), ciphers.c_str()) != 1)
    return setup_failure("cipher list \"" + options.ciphers + "\"");
  if (const std::string known = known_groups(ctx.get(), options.groups); !known.empty()) {
    SSL_CTX_set1_groups_list(ctx.get(), known.c_str());
  } else if (!options.groups.empty()) {
    warnings.push_back("tls_eecdh_auto_curves: none of these is known: " + join(options.groups));
    SSL_CTX_set1_groups_list(ctx.get(), "X25519:P-256");
  }
  if (!EVP_get_digestbyname(options.digest.c_str()))
    return fail(TlsError::setup, std::string(options.role == Role::server ? "smtpd" : "smtp") +
                                     "_tls_fingerprint_digest: digest \"" + options.digest + "\" is not known");
  PEN_TRY(load_certificates());
  PEN_TRY(load_authorities());
  SSL_CTX_set_verify_depth(ctx.get(), options.verify_depth);
  if (server) {
    PEN_TRY(set_server());
  } else {
    set_client();
  }
  ERR_clear_error();
  return {};
}

Result<void> Context::Impl::use_dh_parameters() {
  const BioPtr bio(BIO_new_mem_buf(options.dh_parameters.data(), static_cast<int>(options.dh_parameters.size())));
  KeyPtr key(bio ? PEM_read_bio_Parameters(bio.get(), nullptr) : nullptr);
  if (!key) return setup_failure("smtpd_tls_dh1024_param_file");
  if (EVP_PKEY_is_a(key.get(), "DH") != 1 && EVP_PKEY_is_a(key.get(), "DHX") != 1)
    return fail(TlsError::setup, "smtpd_tls_dh1024_param_file: these are no parameters of Diffie-Hellman");
  if (SSL_CTX_set0_tmp_dh_pkey(ctx.get(), key.get()) != 1) return setup_failure("smtpd_tls_dh1024_param_file");
  (void)key.release();  // the context's
  return {};
}

Result<void> Context::Impl::set_server() {
  SSL_CTX* c = ctx.get();
  if (options.pairs.empty() && options.chain_files.empty() && options.remote.empty() && !options.find_chain &&
      !options.ask_chain)
    return fail(TlsError::setup, "a server needs a certificate");
  using Ask = ContextOptions::ClientCertificate;
  int verify = SSL_VERIFY_NONE;
  if (options.client_certificate != Ask::unasked) verify = SSL_VERIFY_PEER | SSL_VERIFY_CLIENT_ONCE;
  if (options.client_certificate == Ask::required) verify |= SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
  SSL_CTX_set_verify(c, verify, note_certificate);
  if (options.trust_server_certificates) SSL_CTX_set_cert_verify_callback(c, verify_for_either_use, nullptr);
  if (options.prefer_own_ciphers) SSL_CTX_set_options(c, SSL_OP_CIPHER_SERVER_PREFERENCE);
  const auto given = options.dh_parameters.empty() ? Result<void>() : use_dh_parameters();
  if (!given) warnings.push_back(given.error().message() + ": OpenSSL chooses others");
  if (!given || options.dh_parameters.empty()) SSL_CTX_set_dh_auto(c, 1);
  // OpenSSL keeps only what no ticket holds.
  SSL_CTX_set_session_cache_mode(c, options.kept_sessions == 0 ? SSL_SESS_CACHE_OFF : SSL_SESS_CACHE_SERVER);
  if (options.kept_sessions != 0) SSL_CTX_sess_set_cache_size(c, static_cast<long>(options.kept_sessions));
  SSL_CTX_set_timeout(c, static_cast<long>(options.session_lifetime.count()));
  unsigned char scope[EVP_MAX_MD_SIZE];  // a hash, because the name may be longer than OpenSSL permits
  unsigned size = 0;
  EVP_Digest(options.session_scope.data(), options.session_scope.size(), scope, &size, EVP_sha256(), nullptr);
  SSL_CTX_set_session_id_context(c, scope, size);
  if (options.tickets) {
    SSL_CTX_set_num_tickets(c, 1);  // a mail client opens one connection at a time
  } else {
    SSL_CTX_set_options(c, SSL_OP_NO_TICKET);
    SSL_CTX_set_num_tickets(c, 0);
  }
  install_server_callbacks(*this);
  return {};
}

void Context::Impl::set_client() {
  SSL_CTX* c = ctx.get();
  SSL_CTX_set_verify(c, SSL_VERIFY_PEER, note_certificate);
  SSL_CTX_dane_enable(c);
  SSL_CTX_dane_set_flags(c, DANE_FLAG_NO_DANE_EE_NAMECHECKS);  // RFC 7672 section 3.1.1
  if (options.sessions) {
    SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(c, keep_new_session);
  } else {
    SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
  }
}

Context::Context(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Context::~Context() = default;
const ContextOptions& Context::options() const { return impl_->options; }
const std::vector<std::string>& Context::warnings() const { return impl_->warnings; }

Result<std::shared_ptr<const Context>> Context::open(ContextOptions options) {
  auto impl = std::make_unique<Impl>();
  impl->options = std::move(options);
  PEN_TRY(impl->open());
  return std::shared_ptr<const Context>(new Context(std::move(impl)));
}

}  // namespace pen::tls
