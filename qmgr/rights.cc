#include "qmgr/rights.h"

#include <pwd.h>
#include <unistd.h>

#include "lib/base/log.h"
#include "lib/base/text.h"

namespace pen::qmgr {

namespace {
Result<map::MatchList> users(const char* setting, const std::vector<std::string>& value,
                             const map::OpenOptions& options) {
  auto list = map::MatchList::open(map::MatchList::Kind::string, join(value),
                                   {.parent_domains = false, .open = options.of(setting)});
  if (!list) return fail(std::move(list).error().within(setting));
  return list;
}

bool everyone(const std::vector<std::string>& value) { return value == std::vector<std::string>{"static:anyone"}; }

std::string name_of(uid_t uid) {
  std::vector<char> memory(16384);
  passwd entry{};
  passwd* found = nullptr;
  ::getpwuid_r(uid, &entry, memory.data(), memory.size(), &found);
  return found != nullptr ? found->pw_name : "unknown";
}

bool permitted(const map::MatchList& list, const char* setting, const std::string& name) {
  const auto yes = list.matches(name);
  if (!yes) log::warning("{}: {}", setting, yes.error().message());
  return yes && *yes;
}
}  // namespace

Result<Rights> Rights::open(const std::vector<std::string>& mailq_users, const std::vector<std::string>& flush_users,
                            const map::OpenOptions& options) {
  Rights r;
  r.everyone_lists_ = everyone(mailq_users);
  r.everyone_flushes_ = everyone(flush_users);
  PEN_TRY_ASSIGN(r.list_, users("authorized_mailq_users", mailq_users, options));
  PEN_TRY_ASSIGN(r.flush_, users("authorized_flush_users", flush_users, options));
  return r;
}

Right Rights::of(uid_t uid) const {
  if (open_to_all()) return {false, true, true};
  const std::string name = name_of(uid);
  return {false, everyone_lists_ || permitted(list_, "authorized_mailq_users", name),
          everyone_flushes_ || permitted(flush_, "authorized_flush_users", name)};
}

}  // namespace pen::qmgr
