#include "local/expand.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "lib/base/idn/domain.h"
#include "lib/base/idn/fold.h"
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

/// Properties of the destinations of one alias or file.
struct Context {
  Place place = Place::alias;
  std::optional<uid_t> owner;
  std::string account;  // the forward file's user; "": an alias
  std::string sender;
  std::string extension;  // with its delimiter: the part that no alias was found for
};

class Walk {
 public:
  Walk(const ExpandRules& rules, const Lookups& lookups) : rules_(rules), lookups_(lookups) {}

  /// Expands a local name: alias with its extension, alias without, else a user. domain: as written after the name.
  Result<void> name(const std::string& local, const std::string& domain, const Context& outer) {
    const std::string key = idn::fold(mail::unquote_local(local));
    if (path_.size() >= kMaxDepth) return fail(LocalError::loop, key);
    const auto split = mail::split_extension(key, rules_.delimiters);
    for (const std::string& candidate : {key, std::string(split.user)}) {
      const bool whole = candidate == key;
      if (!whole && split.delimiter == '\0') break;
      if (std::ranges::find(path_, candidate) != path_.end()) {
        // In its own alias a name is the user; further round, of an alias, nobody can be meant.
        const bool user = candidate == path_.back() || candidate == home_;
        add({user ? Direct::Kind::user : Direct::Kind::loop, user ? key : candidate, {}, outer.sender});
        return {};
      }
      PEN_TRY_ASSIGN(auto value, lookups_.alias(candidate));
      if (!value) continue;
      out_.aliased = true;
      Context inner{Place::alias, value->owner, {}, outer.sender, {}};
      if (!whole) inner.extension = key.substr(split.user.size());
      PEN_TRY(owner_alias(candidate, inner));
      visited_.insert(candidate);
      const bool only_home = only_home_;
      only_home_ = only_home || been_.contains(candidate);
      path_.push_back(candidate);
      PEN_TRY_ASSIGN(const auto targets, parse_targets(value->text, left()));
      value.reset();  // frees the memory while nested files are read
      PEN_TRY(all(targets, inner));
      path_.pop_back();
      only_home_ = only_home;
      return {};
    }
    if (only_home_) return {};
    if (seen_users_.insert(key).second) users_.push_back({local, domain, outer.sender});
    return {};
  }

  /// Error: name() found nothing but an :include: file within itself.
  Result<void> found_any() const {
    const bool any = !users_.empty() || !out_.direct.empty() || !out_.forwards.empty() || out_.discard;
    if (!any && !circle_.empty()) return fail(LocalError::loop, circle_);
    return {};
  }

  /// See list_owner().
  Result<std::string> owner_of(const std::string& local) {
    const std::string key = idn::fold(mail::unquote_local(local));
    const auto split = mail::split_extension(key, rules_.delimiters);
    Context context;
    for (const std::string& candidate : {key, std::string(split.user)})
      if (context.sender.empty()) PEN_TRY(owner_alias(candidate, context));
    return context.sender;
  }

  Result<void> forward_file(const ForwardFile& file) {
    own_ = idn::fold(file.user);
    for (const auto& address : file.been) addresses_been_.insert(idn::fold(address));
    PEN_TRY_ASSIGN(const auto targets, parse_target_file(file.text, left()));
    return all(targets, {Place::forward, file.uid, file.user, {}, file.extension});
  }

  Expansion finish() {
    const bool alone = out_.forwards.empty() && out_.direct.size() + users_.size() == 1;
    if (alone && !users_.empty() && !elsewhere(users_.front())) {
      out_.only_user = users_.front().name;
      out_.sender = users_.front().sender;
    } else if (alone && users_.empty() && out_.direct.front().kind == Direct::Kind::user) {
      out_.only_user = out_.direct.front().text;
      out_.sender = out_.direct.front().sender;
      out_.direct.clear();
    } else {
      for (const auto& user : users_) forward(user.name + "@" + user.domain, user.sender);
    }
    return std::move(out_);
  }

 private:
  struct User {
    std::string name, domain, sender;
  };

  /// True: an alias names a user, and the mail of that user is, or may be, routed elsewhere. It is sent on and routed
  /// then. The name being expanded has been routed already.
  bool elsewhere(const User& user) const {
    if (!out_.aliased || !lookups_.ours) return false;
    const auto here = ours(user.name + "@" + user.domain);
    return !here || !*here;
  }

  Result<void> owner_alias(const std::string& name, Context& inner) {
    if (!rules_.owner_special) return {};
    PEN_TRY_ASSIGN(const auto owner, lookups_.alias("owner-" + name));
    if (!owner) {
      if (rules_.reset_owner) inner.sender.clear();
      return {};
    }
    inner.sender = "owner-" + name + "@" + rules_.domain;
    if (!rules_.expand_owner) return {};
    PEN_TRY_ASSIGN(const auto targets, parse_targets(owner->text, rules_.limit));
    if (targets.size() != 1 || targets.front().kind != AliasTarget::Kind::address) return {};
    inner.sender = targets.front().text;
    if (!mail::has_domain(inner.sender)) inner.sender += "@" + rules_.domain;
    return {};
  }

  /// How many more destinations are allowed.
  std::size_t left() const { return rules_.limit - std::min(count_, rules_.limit); }

  Result<void> all(const std::vector<AliasTarget>& targets, const Context& context) {
    count_ += targets.size();  // all at once: they are kept while nested ones are read
    for (const auto& t : targets) PEN_TRY(one(t, context));
    return {};
  }

  Result<void> one(const AliasTarget& t, const Context& context) {
    using Kind = AliasTarget::Kind;
    switch (t.kind) {
      case Kind::mailbox:
        add({Direct::Kind::mailbox, idn::fold(extended(t.text, context)), {}, context.sender});
        return {};
      case Kind::command:
        if (among(rules_.commands, context.place))
          add({Direct::Kind::command, t.text, context.owner, context.sender, context.account});
        else
          add({Direct::Kind::refused, "mail to commands is not allowed here", {}, context.sender});
        return {};
      case Kind::file:
        if (t.text == "/dev/null")
          out_.discard = out_.discard || !only_home_;
        else if (among(rules_.files, context.place))
          add({Direct::Kind::file, t.text, context.owner, context.sender, context.account});
        else
          add({Direct::Kind::refused, "mail to files is not allowed here", {}, context.sender});
        return {};
      case Kind::include:
        return include(t.text, context);
      case Kind::address:
        return address(t.text, context);
    }
    return {};
  }

  Result<void> include(const std::string& path, const Context& context) {
    if (!path.starts_with('/')) return fail(LocalError::untrusted, ":include:" + path + " needs an absolute path");
    if (open_.size() >= kMaxDepth) return fail(LocalError::loop, path);
    if (std::ranges::find(open_, path) != open_.end()) {  // what else is in it gets the mail
      circle_ = path;
      return {};
    }
    Context inner = context;
    inner.place = Place::include;
    PEN_TRY_ASSIGN(const auto targets, read(path, inner));
    open_.push_back(path);
    PEN_TRY(all(targets, inner));
    open_.pop_back();
    return {};
  }

  /// Reads an :include: file with the rights that apply to it.
  Result<std::vector<AliasTarget>> read(const std::string& path, Context& context) {
    if (++files_ > kMaxFiles) return fail(LocalError::too_many, ":include: files");
    PEN_TRY_ASSIGN(const auto file, lookups_.include(path, context.owner, context.account));
    bytes_ += file.text.size();
    if (bytes_ > kMaxFileBytes) return fail(LocalError::too_many, "bytes of :include: files, with " + path);
    if (!context.owner) context.owner = file.owner;
    return parse_target_file(file.text, left());
  }

  /// The local part with the extension that its alias or file was found without, where that is passed on.
  std::string extended(const std::string& local, const Context& context) const {
    if (context.extension.empty() || !among(rules_.propagate, context.place)) return local;
    return mail::quote_local(mail::unquote_local(local) + context.extension);
  }

  Result<void> address(const std::string& text, const Context& context) {
    std::string domain(mail::domain_part(text));
    const std::string local(mail::local_part(text));
    PEN_TRY_ASSIGN(const bool here, is_here(text));
    if (domain.empty()) domain = rules_.domain;
    const std::string user = extended(local, context);
    if (here && own_.empty()) return name(user, domain, context);
    bool followed = false;
    if (here) {
      PEN_TRY_ASSIGN(followed, follow_home(user, domain, context));
    }
    if (!followed) forward(user + "@" + domain, context.sender);
    return {};
  }

  Result<bool> ours(const std::string& address) const {
    if (!lookups_.ours) return false;
    return lookups_.ours(address);
  }
  /// True: the address is a local name.
  Result<bool> is_here(const std::string& address) const {
    const auto domain = mail::domain_part(address);
    if (domain.empty() || idn::same_domain(domain, rules_.domain)) return true;
    return ours(address);
  }

  /// Walks from one name, for follow_home. Errors: a look-up that may succeed later. False: the name leads into a
  /// loop, which its own delivery will report.
  Result<bool> attempt(Walk& trial, const std::string& local, const std::string& domain, const std::string& sender) {
    if (tried_ > rules_.limit) return fail(LocalError::too_many);
    trial.files_ = files_;
    trial.bytes_ = bytes_;
    auto done = trial.name(local, domain, {Place::alias, {}, {}, sender, {}});
    files_ = trial.files_;
    bytes_ = trial.bytes_;
    tried_ += 1 + trial.count_;
    if (!done && !done.error().is(LocalError::loop)) return std::unexpected(std::move(done).error());
    return done.has_value();
  }

  /// Finds all aliases that the message has passed: those of the addresses in Delivered-To, and nested ones.
  Result<void> find_been() {
    for (const auto& address : std::exchange(addresses_been_, {})) {
      PEN_TRY_ASSIGN(const bool here, is_here(address));
      if (!here) continue;
      Walk walked(rules_, lookups_);
      PEN_TRY(attempt(walked, std::string(mail::local_part(address)), rules_.domain, {}));
      been_.merge(walked.visited_);
    }
    return {};
  }

  /// In a forward file: takes in the destinations of a local name if the file's user is among them. False: the user
  /// is not, the name is sent on.
  Result<bool> follow_home(const std::string& local, const std::string& domain, const Context& context) {
    if (!followed_.insert(idn::fold(local + "@" + domain)).second) return true;
    PEN_TRY(find_been());
    Walk trial(rules_, lookups_);
    trial.path_ = {own_};
    trial.home_ = own_;
    trial.been_.swap(been_);
    PEN_TRY_ASSIGN(const bool done, attempt(trial, local, domain, context.sender));
    been_.swap(trial.been_);
    const auto home = [&](const Direct& d) { return trial.is_home(d); };
    if (!done || std::ranges::none_of(trial.out_.direct, home)) return false;
    for (auto& direct : trial.out_.direct) add(std::move(direct));
    for (const auto& group : trial.out_.forwards)
      for (const auto& to : group.to) forward(to, group.sender);
    for (const auto& user : trial.users_) forward(user.name + "@" + user.domain, user.sender);
    out_.discard = out_.discard || trial.out_.discard;
    if (trial.out_.aliased) out_.through.push_back(local + "@" + domain);
    been_.merge(trial.visited_);
    return true;
  }

  /// True: d is the user of the forward file of this walk.
  bool is_home(const Direct& d) const {
    return (d.kind == Direct::Kind::user || d.kind == Direct::Kind::mailbox) &&
           mail::split_extension(d.text, rules_.delimiters).user == path_.front();
  }

  /// Adds a destination, unless it is there with the same rights.
  void add(Direct direct) {
    if (only_home_ && !is_home(direct)) return;
    if (seen_direct_.insert({direct.kind, direct.text, direct.owner, direct.account}).second)
      out_.direct.push_back(std::move(direct));
  }
  /// Adds an address, unless it is there; in whatever case.
  void forward(const std::string& address, const std::string& sender) {
    if (only_home_ || !seen_forwards_.insert(idn::fold(address)).second) return;
    auto group = std::ranges::find(out_.forwards, sender, &Group::sender);
    if (group == out_.forwards.end()) group = out_.forwards.insert(group, {sender, {}});
    group->to.push_back(address);
  }

  const ExpandRules& rules_;
  const Lookups& lookups_;
  Expansion out_;
  std::vector<User> users_;
  std::vector<std::string> path_;
  std::string circle_;  // an :include: file that was found within itself
  std::string home_;    // in a walk from a forward file: its user
  std::set<std::string> seen_users_, seen_forwards_, followed_;
  std::set<std::tuple<Direct::Kind, std::string, std::optional<uid_t>, std::string>> seen_direct_;
  std::set<std::string> visited_;         // aliases
  std::set<std::string> been_;            // aliases that the message has been through before
  std::set<std::string> addresses_been_;  // not expanded into been_ yet
  bool only_home_ = false;                // inside an alias of been_: only the user at the root of path_ counts
  std::string own_;                       // the user of this forward file; empty: an alias
  std::vector<std::string> open_;         // nested :include: files
  std::size_t count_ = 0;                 // destinations
  std::size_t files_ = 0, bytes_ = 0;     // :include: files read
  std::size_t tried_ = 0;                 // names examined by follow_home
};

}  // namespace

Result<Expansion> expand(const std::string& name, const ExpandRules& rules, const Lookups& lookups) {
  Walk walk(rules, lookups);
  PEN_TRY(walk.name(name, rules.domain, {}));
  PEN_TRY(walk.found_any());
  return walk.finish();
}

Result<std::string> list_owner(const std::string& name, const ExpandRules& rules, const Lookups& lookups) {
  return Walk(rules, lookups).owner_of(name);
}

Result<Expansion> expand_forward(const ForwardFile& file, const ExpandRules& rules, const Lookups& lookups) {
  Walk walk(rules, lookups);
  PEN_TRY(walk.forward_file(file));
  auto done = walk.finish();
  done.aliased = true;
  return done;
}

}  // namespace pen::local
