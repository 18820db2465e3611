#include "local/expand.h"

#include <algorithm>
#include <set>

#include "lib/base/text.h"
#include "lib/mail/address.h"

namespace pen::local {
namespace {

class Walk {
 public:
  Walk(const ExpandRules& rules, const Lookups* lookups) : rules_(rules), lookups_(lookups) {}

  /// A local name: alias with its extension, alias without, else a user.
  Result<void> name(const std::string& local) {
    const std::string key = to_lower(mail::unquote_local(local));
    if (path_.size() >= kMaxDepth) return fail(LocalError::loop, key);
    const auto split = mail::split_extension(key, rules_.delimiters);
    for (const std::string& candidate : {key, std::string(split.user)}) {
      if (std::ranges::find(path_, candidate) != path_.end()) {
        add(out_.mailboxes, candidate);
        return {};
      }
      if (candidate != key && split.delimiter == '\0') break;
      PEN_TRY_ASSIGN(const auto value, lookups_->alias(candidate));
      if (!value) {
        if (split.delimiter == '\0') break;
        continue;
      }
      out_.aliased = true;
      if (out_.owner.empty()) {
        PEN_TRY_ASSIGN(const auto owner, lookups_->alias("owner-" + candidate));
        if (owner) out_.owner = "owner-" + candidate + "@" + rules_.domain;
      }
      path_.push_back(candidate);
      PEN_TRY_ASSIGN(const auto targets, parse_targets(*value));
      PEN_TRY(all(targets, true));
      path_.pop_back();
      return {};
    }
    add(users_, local);
    return {};
  }

  Result<void> all(const std::vector<AliasTarget>& targets, bool may_include) {
    for (const auto& t : targets) PEN_TRY(one(t, may_include));
    return {};
  }

  /// `own`: a name that means the mailbox (forward files). Empty: none.
  void own_name(const std::string& user) { own_ = to_lower(user); }

  Result<Expansion> finish() {
    if (out_.mailboxes.empty() && out_.forwards.empty() && users_.size() == 1) {
      out_.only_mailbox = users_.front();
    } else if (out_.mailboxes.size() == 1 && out_.forwards.empty() && users_.empty()) {
      out_.only_mailbox = out_.mailboxes.front();
      out_.mailboxes.clear();
    } else {
      for (const auto& user : users_) add(out_.forwards, user + "@" + rules_.domain);
    }
    return std::move(out_);
  }

 private:
  Result<void> one(const AliasTarget& t, bool may_include) {
    using Kind = AliasTarget::Kind;
    if (++count_ > kMaxTargets) return fail(LocalError::too_many);
    switch (t.kind) {
      case Kind::mailbox:
        add(out_.mailboxes, to_lower(t.text));
        return {};
      case Kind::command:
        return fail(LocalError::not_supported,
                    "delivery to a command (|" + printable(t.text, 60) + ")");
      case Kind::file:
        if (t.text != "/dev/null")
          return fail(LocalError::not_supported,
                      "delivery to a file (" + printable(t.text, 60) + ")");
        out_.discard = true;
        return {};
      case Kind::include: {
        if (!may_include || lookups_ == nullptr)
          return fail(LocalError::not_supported, ":include: in a forward or include file");
        PEN_TRY_ASSIGN(const std::string text, lookups_->include(t.text));
        PEN_TRY_ASSIGN(const auto targets, parse_target_file(text));
        return all(targets, false);
      }
      case Kind::address:
        break;
    }
    const auto domain = mail::domain_part(t.text);
    if (!domain.empty() && !iequals(domain, rules_.domain)) {
      add(out_.forwards, t.text);
      return {};
    }
    const std::string local(mail::local_part(t.text));
    if (!own_.empty() && to_lower(mail::unquote_local(local)) == own_) {
      add(out_.mailboxes, own_);
      return {};
    }
    if (lookups_ != nullptr) return name(local);
    add(out_.forwards, local + "@" + rules_.domain);
    return {};
  }

  /// Once each, case of ASCII letters apart.
  void add(std::vector<std::string>& list, const std::string& item) {
    if (seen_.insert({&list, to_lower(item)}).second) list.push_back(item);
  }

  const ExpandRules& rules_;
  const Lookups* lookups_;
  Expansion out_;
  std::vector<std::string> users_, path_;
  std::set<std::pair<const void*, std::string>> seen_;
  std::string own_;
  std::size_t count_ = 0;
};

}  // namespace

Result<Expansion> expand(const std::string& name, const ExpandRules& rules,
                         const Lookups& lookups) {
  Walk walk(rules, &lookups);
  PEN_TRY(walk.name(name));
  return walk.finish();
}

Result<Expansion> expand_forward(std::string_view text, const std::string& user,
                                 const ExpandRules& rules) {
  Walk walk(rules, nullptr);
  walk.own_name(user);
  PEN_TRY_ASSIGN(const auto targets, parse_target_file(text));
  PEN_TRY(walk.all(targets, false));
  auto done = walk.finish();
  if (done) done->aliased = true;
  return done;
}

}  // namespace pen::local
