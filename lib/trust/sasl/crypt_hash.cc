#include "lib/trust/sasl/crypt_hash.h"

#include <crypt.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "lib/base/check.h"
#include "lib/base/text.h"

namespace pen::sasl {
namespace {

constexpr std::array<std::string_view, 6> kSchemes = {"CRYPT",     "SHA512-CRYPT", "SHA256-CRYPT",
                                                      "BLF-CRYPT", "MD5-CRYPT",    "DES-CRYPT"};
constexpr std::size_t kOldLength = 13;

bool is_salt_character(char c) { return ascii_alnum(c) || c == '.' || c == '/'; }

/// Without showing by its time how much is alike.
bool equal(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned different = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    different |= static_cast<unsigned>(static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]));
  return different == 0;
}

}  // namespace

bool CryptHash::locked(std::string_view value) { return value.starts_with('!') || value.starts_with('*'); }

std::optional<CryptHash> CryptHash::parse(std::string_view value) {
  bool old = false;
  if (value.starts_with('{')) {
    const auto end = value.find('}');
    if (end == value.npos) return std::nullopt;
    const std::string_view scheme = value.substr(1, end - 1);
    if (std::ranges::none_of(kSchemes, [&](std::string_view known) { return iequals(known, scheme); }))
      return std::nullopt;
    old = iequals(scheme, "CRYPT") || iequals(scheme, "DES-CRYPT");
    value.remove_prefix(end + 1);
  }
  if (value.contains('\0') || value.size() >= CRYPT_OUTPUT_SIZE) return std::nullopt;
  const bool modern = value.starts_with('$') && value.size() > 4 && value.find('$', 1) != value.npos;
  if (!modern && !(old && value.size() == kOldLength && std::ranges::all_of(value, is_salt_character)))
    return std::nullopt;
  std::string hash(value);
  if (::crypt_checksalt(hash.c_str()) == CRYPT_SALT_INVALID) return std::nullopt;
  return CryptHash(std::move(hash));
}

bool CryptHash::is_of(const std::string& password) const {
  if (password.size() > kMaxPassword || password.contains('\0')) return false;
  const auto work = std::make_unique<crypt_data>();
  std::memset(work.get(), 0, sizeof *work);
  const char* made = ::crypt_r(password.c_str(), hash_.c_str(), work.get());
  const bool same = made != nullptr && *made != '*' && equal(made, hash_);
  ::explicit_bzero(work.get(), sizeof *work);
  return same;
}

CryptHash nobodys_hash() {
  auto hash = CryptHash::parse("$y$j9T$nobodysnobodysnobody..$0000000000000000000000000000000000000000000");
  PEN_CHECK(hash.has_value(), "a hash of yescrypt");
  return *std::move(hash);
}

}  // namespace pen::sasl
