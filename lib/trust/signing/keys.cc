#include "lib/trust/signing/keys.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <mutex>

#include "lib/base/fd.h"
#include "lib/map/file_map.h"

namespace pen::signing {
namespace {

// Names may hold the sender's domain, of which there can be many.
constexpr std::size_t kMostFiles = 10000;

using Key = const dkim::PrivateKey;

enum class KeyFileError { loose = 1, unreadable, weak };
std::string_view error_module(KeyFileError) { return "dkim key file"; }
std::string_view describe(KeyFileError e) {
  switch (e) {
    case KeyFileError::loose:
      return "may be read or written by others: chmod 600, and give it to the account mail_owner";
    case KeyFileError::unreadable:
      return "cannot be read: it must be there, and belong to the account mail_owner (chown, chmod 600)";
    case KeyFileError::weak:
      return "fewer than 1024 bits, which nobody accepts: make a new one with pendkim generate";
  }
  return "unknown";
}

Result<std::shared_ptr<Key>> load(const std::string& path, bool safe) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) return fail(KeyFileError::unreadable, path, errno);
  struct stat s{};
  if (::fstat(fd.get(), &s) != 0) return fail(KeyFileError::unreadable, path, errno);
  if (!S_ISREG(s.st_mode)) return fail(KeyFileError::unreadable, path);
  if (safe && (s.st_mode & (S_IROTH | S_IWOTH | S_IWGRP)) != 0) return fail(KeyFileError::loose, path);
  auto text = map::read_table_file(fd.get(), path);
  if (!text) return fail(std::move(text).error());
  auto key = dkim::PrivateKey::parse(*text);
  if (!key) return fail(std::move(key).error().within(path));
  if ((*key)->algorithm() == dkim::Algorithm::rsa_sha256 && (*key)->bits() < dkim::kLeastBits)
    return fail(KeyFileError::weak, path);
  return *std::move(key);
}
Result<std::shared_ptr<Key>> load_safe(const std::string& path) { return load(path, true); }
Result<std::shared_ptr<Key>> load_any(const std::string& path) { return load(path, false); }

class FileKeys final : public SigningKeys {
 public:
  FileKeys(bool safe, const Clock& clock) : safe_(safe), clock_(clock) {}
  Result<std::shared_ptr<Key>> key(const std::string& file) override {
    const std::lock_guard lock(mutex_);
    auto found = files_.find(file);
    if (found == files_.end()) {
      if (files_.size() >= kMostFiles) files_.clear();
      auto reloading = std::make_unique<map::Reloading<Key>>(file, clock_, safe_ ? load_safe : load_any);
      found = files_.emplace(file, std::move(reloading)).first;
    }
    auto key = found->second->current();
    if (!key && key.error().is(map::MapError::unreadable))
      return fail(KeyFileError::unreadable, file, key.error().sys_errno());
    return key;
  }

 private:
  bool safe_;
  const Clock& clock_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<map::Reloading<Key>>> files_;
};

}  // namespace

std::unique_ptr<SigningKeys> file_keys(bool safe, const Clock& clock) {
  return std::make_unique<FileKeys>(safe, clock);
}

}  // namespace pen::signing
