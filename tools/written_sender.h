#pragma once
/// The sender that a host gets in place of a message's own, because the mail is forwarded (SRS): for tools that
/// explain.
///
/// Use:     const WrittenSender written(config);        // reads the secrets: before privileges are dropped
///          if (auto sender = written.of(from, recipient, transport); !sender.empty()) …
/// Errors:  problem(): the user cannot read the secrets, or a table; then nothing is known.
/// Rules:   those of trivial-rewrite's Router::route and of the queue manager's RouteRequests::forwarded.
/// Source:  docs/srs.md.
#include <memory>
#include <string>

#include "lib/config/config.h"
#include "lib/mail/envelope.h"
#include "lib/receive/resolve/resolve.h"

namespace pen::tools {

class WrittenSender {
 public:
  explicit WrittenSender(const config::Config& config);
  const std::string& problem() const { return problem_; }
  /// Whether mail for its original recipients gets one too (srs_forward).
  bool always() const;
  /// If the mail is forwarded; empty: it stays as it is.
  std::string of(const std::string& sender, const std::string& recipient, const std::string& transport);
  /// Of a message in the queue: whether it is forwarded too.
  std::string of(const mail::Envelope& envelope, const mail::Recipient& recipient, const std::string& transport);

 private:
  const config::Config& config_;
  std::shared_ptr<const resolve::Resolve> resolve_;  // nullptr: no sender is rewritten, or problem_
  std::string problem_;
};

}  // namespace pen::tools
