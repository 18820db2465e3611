#pragma once
/// Where private keys come from.
///
/// Use:     auto keys = file_keys(require_safe, clock);   auto key = keys->key("/etc/dkim/example.org.private");
/// Files:   read once, and again when they change (looked at once a second at most). A file that others may read, or
///          that its group may write, is refused, with advice.
/// Errors:  for the log: the file, what is wrong, what to do. The mail must wait.
/// Thread:  any.
#include <memory>
#include <string>

#include "lib/base/result.h"
#include "lib/base/time.h"
#include "lib/trust/dkim/key.h"

namespace pen::signing {

/// Narrow, so that the keys can live in another process.
class SigningKeys {
 public:
  virtual ~SigningKeys() = default;
  virtual Result<std::shared_ptr<const dkim::PrivateKey>> key(const std::string& file) = 0;
};

/// safe: refuse files with loose rights.
std::unique_ptr<SigningKeys> file_keys(bool safe, const Clock& clock);

}  // namespace pen::signing
