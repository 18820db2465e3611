#pragma once
/// Which envelope senders a user of this host may submit mail with.
///
/// Use:     LoginSenders senders{.maps = …, .delimiters = "+"};
///          Result<bool> may = senders.permit(login_name(uid), "jo+list@example.org");
/// Table:   login name → patterns, separated by blanks and commas: an address (the sender's extension is ignored),
///          @domain, null_pattern for the null sender, "*" for any. Case does not matter. A sender without a domain
///          but with '%' or '!' stands for an address elsewhere, and must be listed exactly.
/// Errors:  of the tables: it is then unknown whether the sender is permitted.
/// Source:  Postfix local_login_sender_maps, empty_address_local_login_sender_maps_lookup_key.
#include <sys/types.h>

#include <string>
#include <string_view>

#include "lib/map/map.h"

namespace pen::submission {

struct LoginSenders {
  map::MapList maps;
  std::string null_pattern = "<>";
  std::string delimiters = {};  // recipient_delimiter

  /// sender: in external form. A login without an entry is permitted no sender.
  Result<bool> permit(std::string_view login, std::string_view sender) const;
};

/// The name of the account; "uid:1000" for one without a name.
std::string login_name(uid_t uid);

}  // namespace pen::submission
