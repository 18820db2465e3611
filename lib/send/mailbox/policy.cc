#include "lib/send/mailbox/policy.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "lib/base/text.h"
#include "lib/send/mailbox/accounts.h"
#include "lib/send/mailbox/confine.h"

namespace pen::mailbox {
namespace {

using Service = Policy::Service;
using Kind = Request::Kind;

bool keeps(const auto& list, auto id) { return std::ranges::find(list, id) != list.end(); }

std::optional<std::string> refused_ids(const Policy& policy, uid_t uid, gid_t gid) {
  if (uid == 0 || gid == 0) return fmt::format("uid {} and gid {}: nothing is done as root", uid, gid);
  if (keeps(policy.kept_uids, uid)) return fmt::format("uid {} is an account of the mail system", uid);
  if (keeps(policy.kept_gids, gid))
    return fmt::format("gid {} is a group of the mail system, or opens what is this host's", gid);
  return std::nullopt;
}

bool names_nobody(const Request& request) { return request.uid == 0 && request.gid == 0 && request.name.empty(); }

std::optional<std::string> refused_mailbox(const Policy& policy, const Request& request) {
  if (request.kind == Kind::postman)
    return names_nobody(request) ? std::nullopt : std::optional<std::string>("a postman is nobody in particular");
  if (!request.name.empty()) return "mailboxes have no names of accounts";
  if (auto no = refused_ids(policy, request.uid, request.gid)) return no;
  if (request.uid < policy.round.lowest) return fmt::format("uid {} is below virtual_minimum_uid", request.uid);
  return std::nullopt;
}

std::optional<std::string> refused_command(const Policy& policy, const Request& request) {
  if (!names_nobody(request)) return "the account of this service's command stands in master.cf";
  return refused_ids(policy, policy.account.uid, policy.account.gid);
}

std::optional<std::string> refused_user(const Policy& policy, const Request& request) {
  if (request.name.empty()) return "no account is named";
  if (request.uid == 0 || request.gid == 0)
    return fmt::format("uid {} and gid {}: nothing is done as root", request.uid, request.gid);
  if (keeps(policy.kept_uids, request.uid)) return fmt::format("{} is an account of the mail system", request.name);
  return std::nullopt;
}

/// What stands around the macros of a word of master.cf. An odd word has less around it than it could.
struct Written {
  explicit Written(std::string_view word) : text(word) {
    const auto first = word.find('$');
    macros = first != std::string_view::npos;
    if (!macros) return;
    before = word.substr(0, first);
    std::string_view rest = word.substr(word.rfind('$') + 1);
    if (const auto end = rest.find_last_of("})"); end != std::string_view::npos)
      after = rest.substr(end + 1);
    else
      after = rest.substr(static_cast<std::size_t>(std::ranges::find_if_not(rest, in_name) - rest.begin()));
    static constexpr std::array kAddresses = {"sender", "recipient", "original_recipient", "user", "mailbox"};
    std::string_view name = word.substr(first + 1);
    if (before.empty() && !name.empty() && (name.front() == '{' || name.front() == '(')) name.remove_prefix(1);
    name = name.substr(0, static_cast<std::size_t>(std::ranges::find_if_not(name, in_name) - name.begin()));
    address = before.empty() && std::ranges::find(kAddresses, name) != kAddresses.end();
  }
  static bool in_name(char c) { return ascii_alnum(c) || c == '_'; }
  bool allows(const std::string& word, bool minus) const {
    if (!macros) return word == text;
    if (address && !minus && word.starts_with('-')) return false;
    return word.size() >= before.size() + after.size() && word.starts_with(before) && word.ends_with(after);
  }
  std::string_view text, before, after;
  bool macros = false;
  bool address = false;  // begins with one
};

std::optional<std::string> objection_to_storing(const Policy& policy, const Work& work) {
  if (work.command || !work.read_path.empty() || !work.forward_files.empty())
    return "a mailbox of this service is stored into, and nothing else";
  if (work.target.base != policy.round.base || work.target.follow_links ||
      ("/" + work.target.path + "/").contains("/../"))
    return "the mailbox is not below virtual_mailbox_base";
  return std::nullopt;
}

std::optional<std::string> objection_to_command(const Policy& policy, const Work& work) {
  if (!work.command || !work.read_path.empty() || !work.forward_files.empty())
    return "this service has a command, and nothing else";
  const Command& command = *work.command;
  const bool same = command.line.empty() && command.shell.empty() && command.environment == policy.environment &&
                    command.directory == policy.directory &&
                    fits(command.argv, policy.argv, policy.may_begin_with_minus);
  if (!same) return "it is not the command of this service in master.cf";
  return std::nullopt;
}

}  // namespace

bool may_send(std::string_view program, Service service) {
  switch (service) {
    case Service::mailboxes:
      return program == "virtual";
    case Service::command:
      return program == "pipe";
    case Service::users:
      return program == "local";
    case Service::connections:
      return program == "spawn";
    case Service::own:  // of an instance that is not root's
      return program == "virtual" || program == "pipe" || program == "local" || program == "spawn";
    case Service::any:
    case Service::tables:
      return false;
  }
  return false;
}

std::optional<std::string> refusal(const Policy& policy, const Request& request) {
  if (request.kind == Kind::postman && policy.service != Service::mailboxes && policy.service != Service::any)
    return "this service has no postmen";
  const bool connects = request.kind == Kind::connection;
  const bool commands = policy.service == Service::connections || policy.service == Service::own;
  if (connects && (!commands || policy.at_once == 0)) return "this service has no command for connections";
  switch (policy.service) {
    case Service::own:
      if (!names_nobody(request)) return "this mail system is not root's";
      return std::nullopt;
    case Service::mailboxes:
      return refused_mailbox(policy, request);
    case Service::command:
      return refused_command(policy, request);
    case Service::connections:
      if (!connects) return "this service has a command for connections, and nothing else";
      return refused_command(policy, request);
    case Service::users:
      return refused_user(policy, request);
    case Service::any:
      if (request.kind == Kind::worker && request.uid == 0) return "nothing is done as root";
      return std::nullopt;
    case Service::tables:
      return "this program may ask for its tables, and nothing else";
  }
  return "there is no such service";
}

Result<std::optional<Identity>> account_of(const Policy& policy, const Request& request) {
  if (policy.service == Service::own) return std::nullopt;
  if (policy.service == Service::command || policy.service == Service::connections) return policy.account;
  if (request.name.empty()) {
    Identity who{.uid = request.uid, .gid = request.gid, .groups = {}, .name = {}};
    if (policy.service == Service::any) who.groups = {who.gid};
    return who;
  }
  PEN_TRY_ASSIGN(auto found, find_account(request.name));
  if (!found || found->identity.uid != request.uid)
    return fail_errno(fmt::format("account {} has not the uid {}", request.name, request.uid), EPERM);
  Identity who = std::move(found->identity);
  if (who.gid == 0) return fail_errno(fmt::format("account {} has root's group", request.name), EPERM);
  // The user keeps its other groups, except those by which it could reach what root or the mail system keeps.
  std::erase_if(who.groups, [&](gid_t group) { return group == 0 || keeps(policy.kept_gids, group); });
  if (keeps(policy.kept_gids, who.gid))
    return fail_errno(fmt::format("account {} has a group of the mail system", request.name), EPERM);
  if (request.gid != who.gid) {
    const bool spool = policy.service == Service::any || (policy.spool_group && request.gid == *policy.spool_group);
    if (!spool) return fail_errno(fmt::format("account {} has not the group {}", request.name, request.gid), EPERM);
    who.gid = request.gid;
  }
  return who;
}

std::optional<std::string> objection(const Policy& policy, const Work& work) {
  switch (policy.service) {
    case Service::mailboxes:
      return objection_to_storing(policy, work);
    case Service::command:
      return objection_to_command(policy, work);
    case Service::connections:
    case Service::tables:
      return "this service has no deliveries";
    case Service::own:
    case Service::users:
    case Service::any:
      return std::nullopt;
  }
  return "there is no such service";
}

bool fits(const std::vector<std::string>& words, const std::vector<std::string>& written, bool minus) {
  // reached[n]: the first n words can come from what is written so far.
  std::vector<bool> reached(words.size() + 1);
  reached[0] = true;
  for (const std::string& text : written) {
    const Written word(text);
    std::vector<bool> next(words.size() + 1);
    for (std::size_t n = 0; n < words.size(); ++n) {
      const bool from_here = reached[n] || (word.macros && next[n]);
      next[n + 1] = from_here && word.allows(words[n], minus);
    }
    reached = std::move(next);
  }
  return reached[words.size()];
}

}  // namespace pen::mailbox
