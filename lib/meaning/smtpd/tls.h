#pragma once
/// TLS of the SMTP server as configured: its level, and its certificates, which are read again when they change.
///
/// Use:     auto tls = ServerTls::open(config, clock);     // before privileges are dropped: keys belong to root
///          tls->watch();                                  // after: later differences count as changes
///          if (auto context = co_await tls->current(until)) …tls::accept(stream, context, until);   // each handshake
/// Keys:    those of the key process where config::key_socket() says so: then tls->keys_elsewhere(), and use_keys()
///          gives it the client. Until its first list there is no context.
/// Level:   tls_level(config), for the policy: which level, wrapper mode.
/// Reload:  current() checks the files' facts, some microseconds beside a handshake's hundreds. If new files do not
///          work, the old ones stay in use, with a warning, until the files change again.
/// Errors:  problems with files and settings are warnings here: TLS is then not available, and at level may mail still
///          comes in.
/// Thread:  the loop's.
#include <memory>
#include <string>
#include <vector>

#include "lib/config/config.h"
#include "lib/map/map.h"
#include "lib/net/tls/context.h"
#include "lib/trust/key_client/client.h"

namespace pen::smtpd {

enum class TlsLevel : std::uint8_t { none, may, encrypt };

struct TlsMode {
  TlsLevel level = TlsLevel::none;
  bool wrapper = false;  // from the first byte
  std::string warning;   // an unknown level
};
TlsMode tls_mode(const config::Config& config);

/// Facts of its handshake that a session keeps.
struct SecureClient {
  std::string trace;  // comment lines for Received:, joined by CRLF and tab; empty: none
  bool certificate = false;
  bool trusted = false;
  std::string fingerprint, key_fingerprint;  // of the client's certificate, if there is one
  std::string subject, issuer;               // common names of that certificate
  std::string protocol, cipher, server_name;
  int used_bits = 0;
};

class ServerTls {
 public:
  /// nullptr: level "none".
  static std::shared_ptr<ServerTls> open(const config::Config& config, const Clock& clock);

  /// Problems with files and settings, one sentence each, for a caller that only wants these: makes no ticket keys.
  static std::vector<std::string> problems(const config::Config& config);

  void watch();
  /// Whether EHLO may offer STARTTLS. Looks at the files only if there is no usable context so far.
  bool available() { return context_ || context(); }
  /// nullptr: not available now; the log has the reason.
  std::shared_ptr<const tls::Context> context();
  /// The same, and waits a moment for the key process where files have changed.
  async::Task<std::shared_ptr<const tls::Context>> current(async::Until until);
  bool keys_elsewhere() const { return keys_elsewhere_; }
  void use_keys(std::shared_ptr<keys::Client> client);
  /// Returns and clears warnings for the log, once at start.
  std::vector<std::string> take_warnings();
  /// Why processes cannot share session tickets; empty: they can.
  const std::string& ticket_problem();

 private:
  ServerTls() = default;
  void load();
  void open_context();
  void take_keys();
  /// Reads smtpd_tls_dh1024_param_file where it has changed.
  void read_dh_parameters();
  /// Facts of files, by which a change is noticed.
  static std::vector<std::string> look(const std::vector<std::string>& files);

  tls::ContextOptions options_;
  std::vector<std::string> files_, seen_;  // all that a context is made from
  std::string dh_file_;
  std::vector<std::string> dh_seen_;
  std::shared_ptr<const tls::Context> context_;
  std::vector<std::string> warnings_;
  bool usable_settings_ = true;

  // Where the key process has the keys: what of it is ours.
  bool keys_elsewhere_ = false;
  std::vector<tls::CertificateFiles> pairs_;
  std::vector<std::string> chain_files_;
  std::shared_ptr<keys::Client> client_;
  std::string sni_maps_;
};

}  // namespace pen::smtpd
