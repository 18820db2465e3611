#include "lib/receive/submission/rights.h"

#include <fmt/format.h>
#include <pwd.h>

#include "lib/base/text.h"

namespace pen::submission {

Result<Rights> Rights::open(const Settings& settings) {
  Rights out;
  auto users = map::MatchList::open(map::MatchList::Kind::string, settings.users,
                                    {.open = {.setting = "authorized_submit_users"}});
  if (!users) return std::unexpected(std::move(users).error().within("authorized_submit_users"));
  out.users_ = *std::move(users);
  auto maps = map::MapList::open(settings.login_senders,
                                 {.default_type = settings.table_type, .setting = "local_login_sender_maps"});
  if (!maps) return std::unexpected(std::move(maps).error().within("local_login_sender_maps"));
  out.senders_ = {.maps = *std::move(maps), .null_pattern = settings.null_pattern, .delimiters = settings.delimiters};
  return out;
}

Result<std::string> Rights::refuses_user(uid_t uid) const {
  if (uid == 0) return std::string();
  const passwd* account = ::getpwuid(uid);
  const std::string login = account != nullptr ? account->pw_name : "unknown";  // as Postfix
  auto permitted = users_.matches(login);
  if (!permitted) return std::unexpected(std::move(permitted).error().within("authorized_submit_users"));
  if (*permitted) return std::string();
  return fmt::format("user {}({}) is not permitted to submit mail (authorized_submit_users)", login, uid);
}

Result<std::string> Rights::refuses_sender(uid_t uid, std::string_view sender) const {
  const std::string login = login_name(uid);
  auto permitted = senders_.permit(login, sender);
  if (!permitted) return std::unexpected(std::move(permitted).error().within("local_login_sender_maps"));
  if (*permitted) return std::string();
  return fmt::format("user {} may not submit mail with sender <{}> (local_login_sender_maps)", login,
                     printable(sender));
}

}  // namespace pen::submission
