#pragma once
/// TLS as the settings of the SMTP server have it: how much of it, and the certificates, taken anew when they change.
///
/// Use:     auto tls = ServerTls::open(config, clock);     // before privileges are dropped: keys belong to root
///          tls->watch();                                  // after: what it sees from here on counts as a change
///          if (auto context = tls->context()) co_await tls::accept(stream, context, until);     // for each handshake
/// Level:   tls_level(config) for the policy: which level, wrapper mode.
/// Reload:  context() looks at the files' facts, some microseconds beside a handshake's hundreds. New ones that do not
///          work leave the old ones in use, with a warning, until they change again.
/// Errors:  what is wrong with files and settings is a warning here: TLS is not available then, mail at level may is.
/// Thread:  the loop's.
#include <memory>
#include <string>
#include <vector>

#include "lib/config/config.h"
#include "lib/map/map.h"
#include "lib/net/tls/context.h"

namespace pen::smtpd {

enum class TlsLevel : std::uint8_t { none, may, encrypt };

struct TlsMode {
  TlsLevel level = TlsLevel::none;
  bool wrapper = false;  // from the first byte
  std::string warning;   // a level that is none
};
TlsMode tls_mode(const config::Config& config);

/// What a session keeps of its handshake.
struct SecureClient {
  std::string trace;  // comment lines for Received:, joined by CRLF and tab; empty: none wanted
  bool certificate = false;
  bool trusted = false;
  std::string fingerprint, key_fingerprint;  // of the certificate, if there is one
};

class ServerTls {
 public:
  /// nullptr at level none.
  static std::shared_ptr<ServerTls> open(const config::Config& config, const Clock& clock);

  /// What is wrong with files and settings, one sentence each, for who only wants to know: no keys of tickets are made.
  static std::vector<std::string> problems(const config::Config& config);

  void watch();
  /// Whether EHLO may offer it. Looks at the files only where there is nothing to use so far.
  bool available() { return context_ || context(); }
  /// nullptr: not available now; the log says why.
  std::shared_ptr<const tls::Context> context();
  /// To be logged once at start. Emptied.
  std::vector<std::string> take_warnings();
  /// Why session tickets cannot be shared between processes; empty: they are.
  const std::string& ticket_problem();

 private:
  ServerTls() = default;
  void load();
  /// Facts of all files that a context is made of.
  std::vector<std::string> look() const;

  tls::ContextOptions options_;
  std::vector<std::string> files_, seen_;
  std::shared_ptr<const tls::Context> context_;
  std::vector<std::string> warnings_;
  bool usable_settings_ = true;
};

}  // namespace pen::smtpd
