#include "local/expand.h"

#include <algorithm>
#include <map>
#include <set>

#include "lib/base/text.h"
#include "lib/mail/address.h"

namespace pen::local {
namespace {

enum class Place { alias, forward, include };
bool among(const Places& places, Place place) {
  switch (place) {
    case Place::alias:
      return places.alias;
    case Place::forward:
      return places.forward;
    case Place::include:
      return places.include;
  }
  return false;
}

/// What holds for the destinations of one alias or file.
struct Context {
  Place place = Place::alias;
  std::optional<uid_t> owner;
  std::string sender;
  std::string extension;  // with its delimiter: what no alias was found for
};

class Walk {
 public:
  Walk(const ExpandRules& rules, const Lookups& lookups) : rules_(rules), lookups_(lookups) {}

  /// A local name: alias with its extension, alias without, else a user.
  Result<void> name(const std::string& local, const Context& outer) {
    const std::string key = to_lower(mail::unquote_local(local));
    if (path_.size() >= kMaxDepth) return fail(LocalError::loop, key);
    const auto split = mail::split_extension(key, rules_.delimiters);
    for (const std::string& candidate : {key, std::string(split.user)}) {
      const bool whole = candidate == key;
      if (!whole && split.delimiter == '\0') break;
      if (std::ranges::find(path_, candidate) != path_.end()) {
        add({Direct::Kind::mailbox, candidate, {}, outer.sender});
        return {};
      }
      PEN_TRY_ASSIGN(auto value, lookups_.alias(candidate));
      if (!value) continue;
      out_.aliased = true;
      Context inner{Place::alias, value->owner, outer.sender, {}};
      if (!whole) inner.extension = key.substr(split.user.size());
      PEN_TRY(owner_alias(candidate, inner));
      path_.push_back(candidate);
      PEN_TRY_ASSIGN(const auto targets, parse_targets(value->text));
      PEN_TRY(all(targets, inner));
      path_.pop_back();
      return {};
    }
    if (seen_users_.insert(key).second) users_.emplace_back(local, outer.sender);
    return {};
  }

  Result<void> forward_file(const ForwardFile& file) {
    own_ = to_lower(file.user);
    PEN_TRY_ASSIGN(const auto targets, parse_target_file(file.text));
    return all(targets, {Place::forward, file.uid, {}, file.extension});
  }

  Expansion finish() {
    const bool alone = out_.forwards.empty() && out_.direct.size() + users_.size() == 1;
    if (alone && !users_.empty()) {
      std::tie(out_.only_mailbox, out_.sender) = users_.front();
    } else if (alone && out_.direct.front().kind == Direct::Kind::mailbox) {
      out_.only_mailbox = out_.direct.front().text;
      out_.sender = out_.direct.front().sender;
      out_.direct.clear();
    } else {
      for (const auto& [user, sender] : users_) forward(user + "@" + rules_.domain, sender);
    }
    return std::move(out_);
  }

 private:
  Result<void> owner_alias(const std::string& name, Context& inner) {
    PEN_TRY_ASSIGN(const auto owner, lookups_.alias("owner-" + name));
    if (!owner) {
      if (rules_.reset_owner) inner.sender.clear();
      return {};
    }
    inner.sender = "owner-" + name + "@" + rules_.domain;
    if (!rules_.expand_owner) return {};
    PEN_TRY_ASSIGN(const auto targets, parse_targets(owner->text));
    if (targets.size() != 1 || targets.front().kind != AliasTarget::Kind::address) return {};
    inner.sender = targets.front().text;
    if (!mail::has_domain(inner.sender)) inner.sender += "@" + rules_.domain;
    return {};
  }

  Result<void> all(const std::vector<AliasTarget>& targets, const Context& context) {
    for (const auto& t : targets) PEN_TRY(one(t, context));
    return {};
  }

  Result<void> one(const AliasTarget& t, const Context& context) {
    using Kind = AliasTarget::Kind;
    if (++count_ > kMaxTargets) return fail(LocalError::too_many);
    switch (t.kind) {
      case Kind::mailbox:
        add({Direct::Kind::mailbox, to_lower(t.text), {}, context.sender});
        return {};
      case Kind::command:
        if (among(rules_.commands, context.place))
          add({Direct::Kind::command, t.text, context.owner, context.sender});
        else
          add({Direct::Kind::refused, "mail to commands is not allowed here", {}, {}});
        return {};
      case Kind::file:
        if (t.text == "/dev/null")
          out_.discard = true;
        else if (among(rules_.files, context.place))
          add({Direct::Kind::file, t.text, context.owner, context.sender});
        else
          add({Direct::Kind::refused, "mail to files is not allowed here", {}, {}});
        return {};
      case Kind::include:
        return include(t.text, context);
      case Kind::address:
        return address(t.text, context);
    }
    return {};
  }

  Result<void> include(const std::string& path, const Context& context) {
    if (!path.starts_with('/'))
      return fail(LocalError::untrusted, ":include:" + path + " needs an absolute path");
    if (files_ >= kMaxDepth) return fail(LocalError::loop, path);
    if (++read_ > kMaxFiles) return fail(LocalError::too_many, ":include: files");
    PEN_TRY_ASSIGN(const auto file, lookups_.include(path, context.owner));
    PEN_TRY_ASSIGN(const auto targets, parse_target_file(file.text));
    Context inner = context;
    inner.place = Place::include;
    if (!inner.owner) inner.owner = file.owner;
    ++files_;
    PEN_TRY(all(targets, inner));
    --files_;
    return {};
  }

  Result<void> address(const std::string& text, const Context& context) {
    const auto domain = mail::domain_part(text);
    const std::string local(mail::local_part(text));
    const bool elsewhere = !domain.empty() && !iequals(domain, rules_.domain);
    if (!elsewhere && !own_.empty() && to_lower(mail::unquote_local(local)) == own_) {
      add({Direct::Kind::mailbox, own_, {}, context.sender});
      return {};
    }
    std::string user = local;
    if (!context.extension.empty() && among(rules_.propagate, context.place))
      user = mail::quote_local(mail::unquote_local(local) + context.extension);
    if (elsewhere)
      forward(user + "@" + std::string(domain), context.sender);
    else if (lookups_.alias)
      return name(user, context);
    else
      forward(user + "@" + rules_.domain, context.sender);
    return {};
  }

  void add(Direct direct) {
    if (seen_direct_.insert({direct.kind, direct.text}).second)
      out_.direct.push_back(std::move(direct));
  }
  /// Once each, case of ASCII letters apart.
  void forward(const std::string& address, const std::string& sender) {
    if (!seen_forwards_.insert(to_lower(address)).second) return;
    auto group = std::ranges::find(out_.forwards, sender, &Group::sender);
    if (group == out_.forwards.end()) group = out_.forwards.insert(group, {sender, {}});
    group->to.push_back(address);
  }

  const ExpandRules& rules_;
  const Lookups& lookups_;
  Expansion out_;
  std::vector<std::pair<std::string, std::string>> users_;  // name, sender
  std::vector<std::string> path_;
  std::set<std::string> seen_users_, seen_forwards_;
  std::set<std::pair<Direct::Kind, std::string>> seen_direct_;
  std::string own_;  // a name that means the mailbox (forward files); empty: none
  std::size_t count_ = 0, files_ = 0, read_ = 0;  // files_: within one another
};

}  // namespace

Result<Expansion> expand(const std::string& name, const ExpandRules& rules,
                         const Lookups& lookups) {
  Walk walk(rules, lookups);
  PEN_TRY(walk.name(name, {}));
  return walk.finish();
}

Result<Expansion> expand_forward(const ForwardFile& file, const ExpandRules& rules,
                                 const Lookups& lookups) {
  Walk walk(rules, lookups);
  PEN_TRY(walk.forward_file(file));
  auto done = walk.finish();
  done.aliased = true;
  return done;
}

}  // namespace pen::local
