#pragma once
/// smtpd_sasl_type = table: users and the hashes of their passwords in a table of this host's (docs/authentication.md).
///
/// Use:     PEN_TRY_ASSIGN(auto users, Users::open("texthash:/etc/penstock/users", "hash"));
///          Verdict verdict = users->check("anna", password);         // in a thread: it calculates for a while
/// Names:   are looked up in lower case. Realm: added to a name without @ by the caller.
/// Time:    an unknown or locked user, and one whose value is no hash, costs the same calculation as a wrong
///          password: by the hash that was found last, at first by the first one in the table's text. In a table with
///          hashes of several kinds these differ all the same.
/// Errors:  of a table that cannot be asked: temporary, with the reason.
/// Thread:  any.
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lib/map/map.h"
#include "lib/trust/sasl/crypt_hash.h"

namespace pen::cyrus {

class Users {
 public:
  struct Verdict {
    enum class Kind : std::uint8_t { good, wrong, temporary } kind = Kind::wrong;
    std::string note;  // for the log; "": nothing to say
  };
  /// table: "type:name", or several. default_type: default_database_type. Errors: those of map::MapList::open().
  static Result<std::shared_ptr<const Users>> open(const std::string& table, const std::string& default_type);
  Verdict check(const std::string& name, const std::string& password) const;
  /// What is wrong with the tables now.
  std::vector<std::string> problems() const;

 private:
  Users(std::string table, map::MapList maps, sasl::CryptHash usual)
      : table_(std::move(table)), maps_(std::move(maps)), usual_(std::move(usual)) {}

  std::string table_;
  map::MapList maps_;
  mutable std::mutex mutex_;
  mutable sasl::CryptHash usual_;
};

}  // namespace pen::cyrus
