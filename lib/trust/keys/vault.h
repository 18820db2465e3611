#pragma once
/// Holds private keys and uses them. Checks for every request which program asks, for which use, and on how many bytes.
///
/// Use:     Vault vault;
///          vault.put("/etc/ssl/mx.pem", Use::server, {.key = pem, .certificates = pem});   // again: renewed
///          ipc::keys::FromKeys answer = vault.answer(Use::server, request);
/// Threads: auto begun = vault.begin(Use::server, request);       // the answer, or an operation that takes its time
///          if (auto* operation = std::get_if<Operation>(&begun)) answer = operation->run();  // in any thread
/// Renewal: what put() refuses changes nothing: the pair that was there serves on. The pair before the current one
///          serves too, for programs that have not heard of the new one yet, until the next renewal or forget().
/// Uses:    a key that was put in for one use is unknown to all others. The same key may be put in for several.
/// Errors:  of put(): no key, no certificate, a key of another certificate, a weak or unsupported key, no room.
/// Bounds:  kMostNames. A request costs at most one operation with a key of 8192 bits.
/// Thread:  one; Operation::run() any. No I/O.
/// Source:  docs/keys.md.
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "lib/base/result.h"
#include "lib/suite/ipc/keys.h"

namespace pen::keys {

enum class KeyError { no_key = 1, no_certificate, mismatch, weak, unsupported, too_many };
std::string_view error_module(KeyError);
std::string_view describe(KeyError);

enum class Use : std::uint8_t { server, client, dkim };
inline constexpr std::size_t kUses = 3;

/// As they stand in files, in PEM. DKIM has no certificates.
struct Pair {
  std::string_view key, certificates;
};

/// A request that may be answered, and the key that it needs: all that is left is to reckon.
class Operation {
 public:
  /// At most one operation with the key. Any thread; several at a time with the same key.
  ipc::keys::Done run() const;
  /// With an RSA key it takes 0.3 ms (2048 bits) to 20 ms (8192), with others 0.03 ms.
  bool slow() const;

 private:
  friend class Vault;
  struct Key;
  std::shared_ptr<const Key> key_;
  std::uint64_t request_ = 0;
  ipc::keys::Scheme scheme_{};
  std::optional<std::uint16_t> decrypted_version_;  // nullopt: it signs
  std::string data_;
};

class Vault {
 public:
  static constexpr std::size_t kMostNames = 10000;  // for each use

  Vault();
  ~Vault();
  Vault(Vault&&) noexcept;
  Vault& operator=(Vault&&) noexcept;

  /// Returns the key's id.
  Result<std::string> put(const std::string& name, Use use, const Pair& pair);
  /// Both pairs of a name that the settings no longer have.
  void forget(const std::string& name, Use use);
  std::size_t names(Use use) const;
  /// What list shows of one name.
  std::optional<ipc::keys::Held> look_up(Use use, const std::string& name) const;

  /// What one request gets, for the use that its connection was opened for. Find is not known here: nothing is found.
  ipc::keys::FromKeys answer(Use use, const ipc::keys::ToKeys& request) const;
  /// The same up to the work with a key: what is refused, and lists, are answered at once. The operation keeps its key.
  std::variant<ipc::keys::FromKeys, Operation> begin(Use use, const ipc::keys::ToKeys& request) const;

 private:
  using Key = Operation::Key;
  struct Named {
    std::shared_ptr<const Key> current, before;
  };
  struct Keys {
    std::map<std::string, Named> by_name;
    std::map<std::string, std::weak_ptr<const Key>, std::less<>> by_id;
  };
  /// After a key went away: another name may have the same one.
  static void index(Keys& keys);
  static ipc::keys::Held held(const std::string& name, const Key& key);
  std::shared_ptr<const Key> find(Use use, std::string_view id) const;
  ipc::keys::FromKeys list(Use use, const ipc::keys::List& wanted) const;
  std::variant<ipc::keys::FromKeys, Operation> sign(Use use, const ipc::keys::Sign& wanted) const;
  std::variant<ipc::keys::FromKeys, Operation> decrypt(Use use, const ipc::keys::Decrypt& wanted) const;
  std::array<Keys, kUses> keys_;
};

}  // namespace pen::keys
