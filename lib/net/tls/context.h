#pragma once
/// What many TLS sessions share: certificates, trust anchors, versions, ciphers. For a server or for a client.
///
/// Use:     ContextOptions options; options.role = Role::server; options.pairs = {{cert_file, key_file}}; …
///          PEN_TRY_ASSIGN(auto context, Context::open(std::move(options)));     // std::shared_ptr<const Context>
///          co_await tls::accept(stream, context, {}, until);                     // session.h
/// Reload:  open a new context and give it to new sessions; running sessions keep theirs.
/// Errors:  TlsError::setup and unreadable, with the file and the reason.
/// Thread:  the loop's. Immutable, apart from OpenSSL's reference counts; only open() reads files.
/// Source:  Postfix TLS_README for the meaning of everything that has a setting there.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/time.h"
#include "lib/net/tls/protocols.h"
#include "lib/net/tls/remote_signer.h"
#include "lib/net/tls/tickets.h"

namespace pen::tls {

enum class Role : std::uint8_t { server, client };

/// A certificate with its chain to the issuer, and its key; PEM. An empty key_file: the key is in cert_file.
struct CertificateFiles {
  std::string cert_file, key_file;
};

/// Where a client keeps its sessions for resumption. `session` is a secret of a few kilobytes. Called in the loop's
/// thread; put() may be called during any read of a stream (TLS 1.3 tickets), long after the handshake.
class SessionCache {
 public:
  virtual ~SessionCache() = default;
  virtual std::optional<std::string> find(const std::string& key) = 0;
  virtual void put(const std::string& key, std::string session) = 0;
  virtual void forget(const std::string& key) = 0;
};

/// A cache for one process: the most recent `most` keys, each for `lifetime`.
std::shared_ptr<SessionCache> memory_session_cache(std::size_t most, seconds lifetime, const Clock& clock);

struct ContextOptions {
  Role role = Role::server;
  /// Of pairs of several kinds (RSA, ECDSA, …) OpenSSL takes the one that suits the peer. A client needs none.
  std::vector<CertificateFiles> pairs;
  /// Alternative to pairs: files with key, certificate and chain, in this order, once or several times. What belongs
  /// together may stand in one file or in neighbouring ones.
  std::vector<std::string> chain_files;
  /// In place of both: certificates whose keys another program holds (remote_signer.h). Servers offer no cipher suites
  /// with RSA key exchange then, because those decrypt with the key.
  bool keys_elsewhere = false;
  std::vector<RemoteCertificate> remote;
  std::string ca_file, ca_path;  // trusted authorities; both empty: none
  bool default_ca = false;       // trust the system's authorities too
  /// More trusted certificates, of authorities or of servers themselves: a chain may end in any of them.
  std::vector<std::string> trust_anchor_files;
  Protocols protocols;
  std::string ciphers = "aNULL:-aNULL:HIGH:MEDIUM:+RC4:@STRENGTH";  // OpenSSL list, up to TLS 1.2
  std::vector<std::string> groups = {"X25519MLKEM768", "X25519", "X448", "prime256v1", "secp521r1", "secp384r1"};
  std::string digest = "sha256";   // of fingerprints
  bool legacy_key_digest = false;  // that of a key leaves out the algorithm, as Postfix 2.9.0 to 2.9.5 did
  int verify_depth = 9;
  std::vector<std::string> disabled_workarounds;  // tls_disable_workarounds: names of SSL_OP_…, or 0x…
  std::vector<std::string> ssl_options;           // names of SSL_OP_… as in tls_ssl_options: NO_TICKET, 0x…

  // server
  enum class ClientCertificate : std::uint8_t { unasked, asked, required };
  ClientCertificate client_certificate = ClientCertificate::unasked;
  bool prefer_own_ciphers = false;  // tls_preempt_cipherlist
  /// PEM: the parameters of Diffie-Hellman up to TLS 1.2. Empty: OpenSSL chooses those that fit the key, and also, with
  /// a warning, if these cannot be used.
  std::string dh_parameters;
  bool trust_server_certificates = false;  // of clients: tls_trust_server_ccerts
  /// Null: no session tickets, and so no resumption.
  std::shared_ptr<TicketKeys> tickets;
  seconds session_lifetime{3600};
  /// How many sessions are kept in memory, for clients that take no tickets. 0: none. They end with the context.
  std::size_t kept_sessions = 0;
  /// Sessions are resumed only by contexts of the same name.
  std::string session_scope = "penstock";
  /// Of a client that says which protocols it speaks (ALPN, RFC 7301) one of these is demanded, so that a browser that
  /// was led here by somebody between gets no connection. Empty: what clients say does not count.
  std::vector<std::string> application_protocols;
  /// PEM of key, certificate and chain for the name that the client asked for; nullopt: the default certificate.
  /// Called during the handshake, so it must not block long. Error: the handshake is refused.
  std::function<Result<std::optional<std::string>>(std::string_view name)> find_chain;
  /// The same where keys are elsewhere. nullptr: the default certificate. The handshake rests until it is answered.
  std::function<std::shared_ptr<PendingChain>(std::string_view name)> ask_chain;

  // client
  std::shared_ptr<SessionCache> sessions;  // null: each handshake is a full one
  bool wildcard_matches_several_labels = true;
};

/// Reads OpenSSL's configuration as tls_config_file and tls_config_name say: "default", "none" or a file, and the name
/// of the section ("": openssl_conf). Once per process, before anything else uses OpenSSL. Error: setup.
Result<void> configure_library(const std::string& file, const std::string& name);

/// Reads a whole PEM file of at most 4 MiB. Error: unreadable, with the errno.
Result<std::string> read_file(const std::string& path);

class Context {
 public:
  static Result<std::shared_ptr<const Context>> open(ContextOptions options);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const ContextOptions& options() const;
  /// Problems that are not fatal but worth a log line: a list that names nothing, an option that does not exist.
  const std::vector<std::string>& warnings() const;

  struct Impl;
  Impl& impl() const { return *impl_; }

 private:
  explicit Context(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace pen::tls
