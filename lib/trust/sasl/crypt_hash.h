#pragma once
/// Hashes of passwords as crypt(3) makes them, alone or as Dovecot's passwd-files have them.
///
/// Use:     auto hash = CryptHash::parse("{SHA512-CRYPT}$6$…");
///          if (!hash) … no such hash …;  else if (hash->is_of(password)) …
/// Forms:   $y$…, $gy$…, $7$…, $2b$… (bcrypt), $6$…, $5$…, $1$…; the same behind {CRYPT}, {SHA512-CRYPT},
///          {SHA256-CRYPT}, {BLF-CRYPT} or {MD5-CRYPT}, in any case; behind {CRYPT} and {DES-CRYPT} also the 13
///          characters of old crypt().
/// Locked:  a value that begins with ! or * is no password's.
/// Blocks:  is_of() calculates, for as long as the hash asks for: tens of milliseconds. Thread: any.
/// Bounds:  kMaxPassword.
#include <optional>
#include <string>
#include <string_view>

namespace pen::sasl {

class CryptHash {
 public:
  static constexpr std::size_t kMaxPassword = 511;  // of libcrypt
  /// nullopt: it is no such hash, this host's libcrypt does not know its kind, or it is locked.
  static std::optional<CryptHash> parse(std::string_view value);
  static bool locked(std::string_view value);
  /// False also where the password is longer than kMaxPassword or has a NUL in it.
  bool is_of(const std::string& password) const;
  const std::string& text() const { return hash_; }

 private:
  explicit CryptHash(std::string hash) : hash_(std::move(hash)) {}
  std::string hash_;
};

/// What takes as long as a hash that people make today (yescrypt with Debian's cost), and is nobody's password.
CryptHash nobodys_hash();

}  // namespace pen::sasl
