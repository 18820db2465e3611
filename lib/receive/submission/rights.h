#pragma once
/// Which users of this host may submit mail, how much and with which envelope senders.
///
/// Use:     PEN_TRY_ASSIGN(auto rights, Rights::open({.users = "!nobody, static:anyone", …}));
///          auto why = rights.refuses_user(uid);              // Result: a table may fail
///          if (why && why->empty()) …                        // the user may
/// Asked:   by pendrop, in front of its caller, and by pickup of the owner of each file, since pendrop runs under the
///          caller's hands. Look-ups block.
/// Source:  Postfix authorized_submit_users, local_login_sender_maps.
#include <sys/types.h>

#include <string>
#include <string_view>

#include "lib/map/match_list.h"
#include "lib/receive/submission/login_senders.h"

namespace pen::submission {

class Rights {
 public:
  struct Settings {
    std::string users = "static:anyone";     // authorized_submit_users
    std::string login_senders = "static:*";  // local_login_sender_maps
    std::string null_pattern = "<>";         // empty_address_local_login_sender_maps_lookup_key
    std::string delimiters = {};             // recipient_delimiter
    std::string table_type = {};             // default_database_type
    bool operator==(const Settings&) const = default;
    /// As shipped: every user may submit with every sender, and nobody needs to be asked.
    bool everybody() const { return users == Settings{}.users && login_senders == Settings{}.login_senders; }
  };
  /// Errors: those of tables, with the setting's name.
  static Result<Rights> open(const Settings& settings);

  /// Why the user may submit nothing, "" when he may. root always may. Errors: a table cannot be asked now.
  Result<std::string> refuses_user(uid_t uid) const;
  /// Why the user may not use the sender (external form), "" when he may. Errors: as above.
  Result<std::string> refuses_sender(uid_t uid, std::string_view sender) const;

 private:
  map::MatchList users_;
  LoginSenders senders_;
};

}  // namespace pen::submission
