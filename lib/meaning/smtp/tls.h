#pragma once
/// The client's TLS: how to do a handshake with a destination, and whether its result is good enough.
///
/// Use:     ClientTls tls(settings, clock);                           // one per process
///          tls.preload();                                             // with privileges
///          tls.watch();                                               // without: later differences count as changes
///          auto plan = tls.plan(destination);                         // before connecting: it may be impossible
///          auto info = co_await tls::connect(stream, plan->context, plan->options, until);
///          if (auto no = refusal(destination, *info)) …               // only STARTTLS was sent so far
/// Keys:    with use_keys() the certificates of the settings are those of the key process, from its list on. Without
///          it destinations that demand TLS wait, others get TLS without a certificate of ours.
/// Files:   preload() reads the certificates, keys and authorities of the settings with root's rights. All files are
///          read again when they change; if a new one cannot be read or used, the old ones stay in use, with a
///          warning.
/// Memory:  sessions of at most kSessions destinations, contexts of at most kContexts sets of trust anchors.
/// Thread:  the loop's.
/// Source:  Postfix TLS_README "SMTP client"; RFC 3207, RFC 6125 (names), RFC 6066 (SNI).
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/mail/delivery_status.h"
#include "lib/meaning/smtp/settings.h"
#include "lib/net/tls/session.h"
#include "lib/suite/ipc/destination.h"
#include "lib/suite/ipc/tls_report.h"
#include "lib/trust/key_client/client.h"

namespace pen::smtp {

struct TlsPlan {
  std::shared_ptr<const tls::Context> context;
  tls::ConnectOptions options;
  /// The authorities of an MTA-STS policy in testing mode cannot be read, so the certificate cannot be judged.
  bool blind = false;
};

class ClientTls {
 public:
  static constexpr std::size_t kSessions = 5000;  // a few kilobytes each
  static constexpr std::size_t kContexts = 100;

  /// The clock must outlive this object.
  ClientTls(TlsSettings settings, const Clock& clock);
  ~ClientTls();
  /// Errors: unreadable or inconsistent files, unknown protocols or ciphers: problems of our configuration.
  Result<TlsPlan> plan(const ipc::Destination& destination);

  /// Reads the files that the settings name, if any. Problems with them, or with the settings, are logged, and
  /// returned by plan() later.
  void preload();
  /// Before preload(): the key process holds the keys.
  void keys_elsewhere() { keys_elsewhere_ = true; }
  /// Whether the settings name certificates, and the key process is to be asked.
  bool needs_keys() const;
  void use_keys(std::shared_ptr<keys::Client> client);
  /// The same for a caller that only wants the problems: one sentence each.
  std::vector<std::string> problems();
  /// Takes the files' present state (seen with other rights, from another root) as that of the files read before.
  void watch();

 private:
  struct Opened {
    std::shared_ptr<const tls::Context> context;
    std::vector<std::string> files, seen;
  };
  Result<std::shared_ptr<const tls::Context>> context(const ipc::TlsPolicy& policy);
  std::vector<tls::CertificateFiles> pairs() const;
  /// The files that the key process reads for us.
  std::vector<std::string> their_files() const;
  /// Our certificates, as the key process holds them.
  Result<std::vector<tls::RemoteCertificate>> remote() const;
  tls::ContextOptions context_options(const ipc::TlsPolicy& policy) const;
  /// The cipher list of a grade without the excluded ciphers. Errors: unknown grade.
  Result<std::string> ciphers_of(const std::string& grade, std::vector<std::string> excluded) const;

  TlsSettings settings_;
  std::shared_ptr<tls::SessionCache> sessions_;  // nullptr: none are kept
  std::map<std::string, Opened> contexts_;       // by trust anchors
  bool keys_elsewhere_ = false;
  std::shared_ptr<keys::Client> client_;
  std::vector<std::string> their_seen_;
};

/// Why the peer's proof is not enough for the destination's level; nullopt: it is enough.
std::optional<mail::DeliveryStatus> refusal(const ipc::Destination& destination, const tls::SessionInfo& info);
/// Whether an MTA-STS policy, also in testing mode, demands more than the peer has proved.
bool falls_short_of_sts(const ipc::Destination& destination, const tls::SessionInfo& info);
/// The kind of a refusal, for reports.
ipc::tls_report::ResultType refused_as(const ipc::Destination& destination, const tls::SessionInfo& info);
/// The recipients' status after a failed handshake.
mail::DeliveryStatus handshake_failure(const ipc::Destination& destination, const Error& error);

}  // namespace pen::smtp
