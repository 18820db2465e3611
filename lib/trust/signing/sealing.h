#pragma once
/// The key that seals with ARC, and how: arc_seal_key, in the tables of DKIM's keys.
///
/// Use:     auto sealing = Sealing::open(settings, clock, remote_keys);     // nullptr: nothing is sealed
///          auto with = sealing->key();
/// Files:   as those of Signing: read again when they change.
/// Errors:  a table or a key that cannot be read now, or a name that the table does not have. The mail must wait, as
///          mail that is to be signed does.
/// Thread:  as Signing.
/// Source:  docs/arc.md.
#include <memory>
#include <optional>
#include <string>

#include "lib/trust/dkim/arc.h"
#include "lib/trust/signing/signing.h"

namespace pen::signing {

class Sealing {
 public:
  static Result<std::shared_ptr<const Sealing>> open(const config::Settings& s, const Clock& clock = system_clock(),
                                                     std::shared_ptr<RemoteKeys> elsewhere = nullptr);
  Result<dkim::SignWith> key() const;
  const dkim::SigningForm& form() const { return form_; }
  /// For the log at start: why the key cannot be had, where this process reads it itself. Empty: it can.
  std::string warning() const;
  /// Whether that key is one of the key process, and a signature by it.
  bool remote(const dkim::SigningKey& key) const { return keys_->remote(key); }
  async::Task<Result<std::string>> sign(const dkim::SigningKey& key, std::string digest, async::Until until) const {
    return keys_->sign(key, std::move(digest), until);
  }

 private:
  std::string name_;
  std::shared_ptr<const Signing> keys_;
  bool elsewhere_ = false;
  dkim::SigningForm form_;
};

/// A message that is to be sealed, as it was found to be.
struct ToSeal {
  std::shared_ptr<const Sealing> sealing;
  std::string results;  // the value of Authentication-Results:, folded, without its last CRLF
  dkim::ArcVerdict verdict = dkim::ArcVerdict::none;
  std::string chain;  // dkim::ArcPlace::text: with another one it is not sealed
};

}  // namespace pen::signing
