#pragma once
/// The client's TLS: what a handshake with a destination is done with, and whether what it proved is enough.
///
/// Use:     ClientTls tls(settings, clock);                           // one per process
///          tls.preload();                                             // with privileges
///          tls.watch();                                               // without: what it sees from here on is a
///                                                                     change
///          auto plan = tls.plan(destination);                         // before connecting: it may be impossible
///          auto info = co_await tls::connect(stream, plan->context, plan->options, until);
///          if (auto no = refusal(destination, *info)) …               // nothing but STARTTLS has been said yet
/// Files:   certificates, keys and authorities of the settings are read by preload(), with root's rights, and all files
///          again when they change; what cannot be read or used then leaves the old ones in use, with a warning.
/// Memory:  sessions of at most kSessions destinations, contexts of at most kContexts sets of trust anchors.
/// Thread:  the loop's.
/// Source:  Postfix TLS_README "SMTP client"; RFC 3207, RFC 6125 (names), RFC 6066 (SNI).
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/ipc/destination.h"
#include "lib/ipc/tls_report.h"
#include "lib/mail/delivery_status.h"
#include "lib/net/tls/session.h"
#include "lib/smtp/settings.h"

namespace pen::smtp {

struct TlsPlan {
  std::shared_ptr<const tls::Context> context;
  tls::ConnectOptions options;
  /// The authorities of an MTA-STS policy in testing cannot be read: what the certificate lacks is not known.
  bool blind = false;
};

class ClientTls {
 public:
  static constexpr std::size_t kSessions = 5000;  // a few kilobytes each
  static constexpr std::size_t kContexts = 100;

  /// The clock must outlive the object.
  ClientTls(TlsSettings settings, const Clock& clock);
  ~ClientTls();
  /// Errors: files that cannot be read or do not fit together, protocols or ciphers that do not exist: ours to mend.
  Result<TlsPlan> plan(const ipc::Destination& destination);

  /// Reads the files that the settings name, if any. What is wrong with them, or with the settings, is logged, and is
  /// plan()'s error later.
  void preload();
  /// The same for who only wants to know: one sentence each.
  std::vector<std::string> problems();
  /// Takes the files as they are seen now (by other rights, from another root) for those that were read.
  void watch();

 private:
  struct Opened {
    std::shared_ptr<const tls::Context> context;
    std::vector<std::string> files, seen;
  };
  Result<std::shared_ptr<const tls::Context>> context(const ipc::TlsPolicy& policy);
  tls::ContextOptions context_options(const ipc::TlsPolicy& policy) const;
  /// What a cipher grade comes to, less what is excluded. Errors: no such grade.
  Result<std::string> ciphers_of(const std::string& grade, std::vector<std::string> excluded) const;

  TlsSettings settings_;
  std::shared_ptr<tls::SessionCache> sessions_;
  std::map<std::string, Opened> contexts_;  // by trust anchors
};

/// Why what the peer has shown is not enough for the destination's level; nullopt: it is.
std::optional<mail::DeliveryStatus> refusal(const ipc::Destination& destination, const tls::SessionInfo& info);
/// Whether an MTA-STS policy, also one in testing, wants more than the peer has shown.
bool falls_short_of_sts(const ipc::Destination& destination, const tls::SessionInfo& info);
/// The kind of a refusal, for reports.
ipc::tls_report::ResultType refused_as(const ipc::Destination& destination, const tls::SessionInfo& info);
/// For a handshake that failed: what the recipients' status says.
mail::DeliveryStatus handshake_failure(const ipc::Destination& destination, const Error& error);

}  // namespace pen::smtp
