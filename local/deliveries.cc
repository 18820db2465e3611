#include "local/deliveries.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>

#include "lib/base/idn/fold.h"
#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "lib/send/mailbox/nursery.h"
#include "local/environment.h"

namespace pen::local {
namespace {

// nested forward files that one delivery follows; deeper ones are ignored
constexpr std::size_t kMaxFollowed = 10;

/// Whether mail may be delivered with the rights of this account: not root, nor one of the mail system.
bool unprivileged(const Rules& rules, uid_t uid) {
  return uid != 0 && std::ranges::find(rules.kept_uids, uid) == rules.kept_uids.end();
}
bool unprivileged(const Rules& rules, const mailbox::Identity& who) {
  return who.gid != 0 && unprivileged(rules, who.uid);
}

/// The account for commands and files that belong to no user; owner nullopt: default_privs.
Result<mailbox::Account> account_for(const Rules& rules, std::optional<uid_t> owner) {
  if (owner && unprivileged(rules, *owner)) {
    PEN_TRY_ASSIGN(auto found, mailbox::find_account(*owner));
    if (found && unprivileged(rules, found->identity)) return *std::move(found);
    return fail_errno(fmt::format("no account has uid {}, whose alias or include file it is", *owner), ENOENT);
  }
  PEN_TRY_ASSIGN(auto found, rules.account(rules.default_privs));
  if (!found || !unprivileged(rules, found->identity))
    return fail_errno(fmt::format("default_privs = {} is no unprivileged account", rules.default_privs), EPERM);
  return *std::move(found);
}

/// The account of a forward file's user, found by name: several accounts may have the same uid.
Result<mailbox::Account> account_named(const Rules& rules, const std::string& name) {
  PEN_TRY_ASSIGN(auto found, rules.account(name));
  if (found) return *std::move(found);
  return fail_errno(fmt::format("there is no account {} any more", name), ENOENT);
}

/// The user's account; nullopt: there is none.
Result<std::optional<mailbox::Account>> account_of(const Rules& rules, const std::string& base) {
  const bool odd = base.empty() || base.size() > 255 || base.find('/') != std::string::npos || base.starts_with('.') ||
                   base.find('\0') != std::string::npos;
  if (odd) return std::nullopt;
  return rules.account(base);
}

/// Reads an :include: file in a process that is given up at `until`, because the disk may hang. Without a reader the
/// file is named by the administrator's alias table and read as default_privs: its text appears in notices, and
/// anybody who can write in its directory may have made a link of that name.
Result<OwnedText> read_include(const Rules& rules, const std::string& path, std::optional<uid_t> reader,
                               const std::string& name, std::chrono::steady_clock::time_point until) {
  const auto left = std::chrono::ceil<seconds>(until - std::chrono::steady_clock::now());
  if (left <= seconds(0))
    return fail(LocalError::unreadable, fmt::format("{} after {} s for others", path, rules.include_time.count()));
  const bool administrators = !reader || *reader == 0;
  mailbox::Work work;
  work.read_path = path;
  if (!administrators) {
    PEN_TRY_ASSIGN(const auto account, name.empty() ? account_for(rules, reader) : account_named(rules, name));
    PEN_TRY_ASSIGN(work.become, mailbox::rights_for(account.identity));
    work.read_limit = mailbox::kMaxUserInclude;
  } else if (::geteuid() == 0 || mailbox::Nursery::instance()
                                     .becomes()) {  // an ordinary user's instance: its other files are that user's too
    PEN_TRY_ASSIGN(const auto account, account_for(rules, std::nullopt));
    PEN_TRY_ASSIGN(work.become, mailbox::rights_for(account.identity));
  }
  auto answer = mailbox::deliver_in_child(std::move(work), {}, left);
  if (!answer.file_found) return fail(LocalError::unreadable, path + ": " + answer.status.text);
  OwnedText out{std::move(answer.file_text), reader};
  if (administrators) {
    out.owner.reset();
    if (answer.file_owner != 0) out.owner = answer.file_owner;
  }
  return out;
}

/// The look-ups of one expansion in tables and files. shared must outlive the result.
Lookups lookups_of(const Shared& shared) {
  Lookups lookups;
  lookups.alias = [&shared](const std::string& name) -> Result<std::optional<OwnedText>> {
    PEN_TRY_ASSIGN(auto hit, shared.aliases.find(name));
    if (!hit) return std::nullopt;
    OwnedText out{std::move(hit->value), std::nullopt};
    if (const auto owner = hit->map->owner(); owner && *owner != 0) out.owner = *owner;
    return out;
  };
  const auto until = std::chrono::steady_clock::now() + shared.rules.include_time;
  lookups.include = [&shared, until](const std::string& path, std::optional<uid_t> reader, const std::string& account) {
    return read_include(shared.rules, path, reader, account, until);
  };
  lookups.ours = shared.rules.ours;
  return lookups;
}

/// $recipient_delimiter: the one in the address, else the first of the setting.
char delimiter_of(const mail::Extension& split, const Rules& rules) {
  if (split.delimiter != '\0') return split.delimiter;
  return rules.delimiters.empty() ? '\0' : rules.delimiters.front();
}

/// Splits "/a/b/" into the parent directory and the last name with its final /.
void aim_at(const std::string& path, mailbox::Target& target) {
  target.form = path.ends_with('/') ? mailbox::Form::maildir : mailbox::Form::mbox;
  const auto name_end = path.find_last_not_of('/');
  const auto slash = path.rfind('/', name_end);
  target.base = slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
  target.path = path.substr(slash + 1);
}

/// What the table says for the name, else the setting.
Result<std::string> said_of(const std::string& name, const map::MapList& maps, std::string_view setting,
                            const std::string& otherwise) {
  auto value = maps.lookup(name);
  if (!value) return std::unexpected(std::move(value).error().within(setting));
  return value->value_or(otherwise);
}

/// One user's delivery.
class ToUser {
 public:
  ToUser(const Shared& shared, const Delivery& task, const std::string& user, bool skip_forward)
      : shared_(shared),
        rules_(shared.rules),
        task_(task),
        skip_forward_(skip_forward),
        name_(idn::fold(mail::unquote_local(user))),
        split_(mail::split_extension(name_, rules_.delimiters)),
        base_(split_.user),
        box_(name_) {
    facts_.message = &task.message->envelope;
    as_user_ = task.recipient;
    as_user_.original = task.recipient.shown_original();
    as_user_.address = user_address(user, rules_, task.recipient.address);
    facts_.recipient = &as_user_;
    facts_.sender = task.sender;
    facts_.user = base_;
    facts_.extension = split_.extension;
    facts_.delimiter = delimiter_of(split_, rules_);
  }

  Outcome operator()(const UserTables& tables) {
    auto found = account_of(rules_, base_);
    if (!found) return settled(deferred("4.3.0", found.error().message()));
    const auto& way = tables.transport;
    if (!way) return settled(deferred("4.3.0", way.error().message()));
    if (!*found) return way->empty() ? Outcome{.unknown = true} : pass_once(*way);
    account_ = **std::move(found);
    const bool root = !unprivileged(rules_, account_.identity);
    if (root) {
      auto stand_in = account_for(rules_, std::nullopt);
      if (!stand_in)
        return settled(deferred("4.3.5", fmt::format("mail for {} needs an alias, or an unprivileged account: {}",
                                                     base_, stand_in.error().message())));
      account_.identity = stand_in->identity;
    }
    facts_.account = root ? nullptr : &account_;
    auto become = mailbox::rights_for(account_.identity);
    if (!become)
      return settled(deferred("4.3.5", fmt::format("mailbox of user \"{}\": {}", base_, become.error().context())));
    work_.become = *std::move(become);
    if (rules_.require_home) work_.home = account_.home;
    if (!skip_forward_ && !root && task_.followed.size() < kMaxFollowed) work_.forward_files = forward_files();
    if (!way->empty() && work_.forward_files.empty()) return pass_once(*way);
    if (way->empty()) {
      const auto& command = tables.command;
      if (!command) return settled(deferred("4.3.0", command.error().message()));
      box_ = command->empty() ? account_.name : name_;
      if (command->empty())
        aim();
      else
        run(*command);
    }
    const bool again = task_.tour->boxes.contains(box_);
    if (again && work_.forward_files.empty()) return settled(done_before());
    work_.only_look = again || !way->empty() || probe();
    return child(*way);
  }

  Outcome unknown(const Result<std::string>& way) const {
    if (!way) return settled(deferred("4.3.0", way.error().message()));
    if (!way->empty()) return pass(*way);
    Outcome out;
    if (!rules_.luser_relay.empty() && !skip_forward_)
      out.relay_to = in_form(mailbox::expand_macros(rules_.luser_relay, delivery_values(facts_)));
    if (!out.relay_to.empty()) return out;
    if (name_ == "mailer-daemon") {  // what answers a notice must not be answered by one
      out.status = mail::make_status(mail::Action::delivered, "2.0.0", "discarded");
      out.warning = "required alias not found: mailer-daemon";
      return out;
    }
    out.status = failed("5.1.1", fmt::format("unknown user: \"{}\"", name_));
    return out;
  }

 private:
  /// Of what names from outside make of an address: quoted where it must be.
  static std::string in_form(std::string address) {
    return address.contains('"') ? address : mail::to_external(address);
  }
  static Outcome settled(mail::DeliveryStatus status) { return {.status = std::move(status)}; }
  static Outcome pass(std::string way) { return {.pass_to = std::move(way)}; }
  Outcome pass_once(std::string way) const {
    return task_.tour->boxes.insert(box_).second ? pass(std::move(way)) : settled(done_before());
  }
  static mail::DeliveryStatus done_before() {
    return mail::make_status(mail::Action::delivered, "2.0.0", "delivered there already");
  }

  bool probe() const { return mail::is_probe(task_.message->envelope.purpose); }

  void run(std::string line);
  void aim();

  /// True: the extension would let a stranger choose a file. Forward files are then looked for without it.
  bool path_like_extension() const { return split_.extension.find('/') != std::string_view::npos; }

  /// forward_path, expanded.
  std::vector<std::string> forward_files() {
    std::vector<std::string> files;
    if (account_.home.empty()) return files;
    CommandFacts facts = facts_;
    mail::Recipient plain = as_user_;
    if (path_like_extension()) {
      plain.address = user_address(mail::quote_local(base_), rules_, task_.recipient.address);
      facts.recipient = &plain;
      facts.extension.clear();
      facts.delimiter = delimiter_of({}, rules_);
    }
    const auto& followed = task_.followed;
    for (const auto& path : rules_.forward_paths) {
      auto expanded = mailbox::expand_values(path, delivery_values(facts), rules_.forward_filter);
      // The path needs a value that does not exist: $extension.
      if (expanded.undefined) continue;
      // This file led here: it exists, and would come before the rest.
      if (std::ranges::find(followed, expanded.text) != followed.end()) break;
      if (!expanded.text.starts_with('/')) continue;
      if (std::ranges::find(expanded.used, "extension") != expanded.used.end()) extension_files_.insert(expanded.text);
      files.push_back(std::move(expanded.text));
    }
    return files;
  }

  Outcome child(const std::string& way) {
    const bool only_look = work_.only_look;
    auto answer = mailbox::deliver_in_child(std::move(work_), task_.message->body, rules_.time_limit,
                                            task_.message->ending.get());
    if (!answer.file_found) {
      const bool looked = only_look && answer.status.action == mail::Action::delivered;
      const bool again = task_.tour->boxes.contains(box_);
      if (way.empty() ? looked || !only_look : !only_look) task_.tour->boxes.insert(box_);
      Outcome out = looked && !way.empty() ? pass_once(way)
                    : looked && again      ? settled(done_before())
                                           : settled(std::move(answer.status));
      if (!answer.file_ignored.empty()) out.warning = "forward file not obeyed: " + answer.file_ignored;
      return out;
    }
    if (!task_.tour->files.insert(answer.file_path).second) return settled(done_before());
    ForwardFile file{std::move(answer.file_text), account_.name, account_.identity.uid, {}};
    file.been.push_back(task_.recipient.address);
    for (const auto address : mailbox::delivered_to(task_.message->header)) file.been.emplace_back(address);
    if (split_.delimiter != '\0' && !path_like_extension() && !extension_files_.contains(answer.file_path))
      file.extension = name_.substr(split_.user.size());
    auto expansion = expand_forward(file, expansion_rules(rules_, task_.recipient.address), lookups_of(shared_));
    if (!expansion)
      return settled(expansion_trouble(std::move(expansion).error().within("forward file of " + account_.name)));
    const bool nothing =
        !expansion->only_user && expansion->direct.empty() && expansion->forwards.empty() && !expansion->discard;
    if (nothing)  // but comments: to the mailbox, whatever other forward files there are
      expansion->direct.push_back({Direct::Kind::mailbox, mail::quote_local(name_), {}, {}});
    return {.forward = *std::move(expansion), .forward_file = std::move(answer.file_path)};
  }

  const Shared& shared_;
  const Rules& rules_;
  const Delivery& task_;
  bool skip_forward_;
  std::string name_;
  mail::Extension split_;  // of name_
  std::string base_;
  std::string box_;                        // the key of the mailbox in Tour
  std::set<std::string> extension_files_;  // forward files with the extension in their names
  mailbox::Account account_;
  mail::Recipient as_user_;  // the recipient with the address that the aliases led to
  CommandFacts facts_;
  mailbox::Work work_;
};

mailbox::Message message_of(const Rules& rules, const Delivery& task, bool mark) {
  mailbox::Message m;
  m.sender = task.sender;
  m.now = task.now;
  m.hostname = rules.myhostname;
  m.unique = task.unique;
  m.random = task.random;
  m.fields = mailbox::prepended_fields(task.sender, task.recipient.shown_original(),
                                       mark ? task.recipient.address : std::string());
  return m;
}

/// The command of an alias, a forward file or mailbox_command.
mailbox::Command command_of(const Rules& rules, const CommandFacts& facts, std::string line) {
  mailbox::Command command;
  command.line = std::move(line);
  command.shell = rules.shell;
  command.environment = command_environment(facts, rules.exported, rules.command_filter);
  const auto directory = mailbox::expand_macros(rules.directory, delivery_values(facts), rules.directory_filter);
  command.directory = directory.empty() ? rules.start_directory : directory;
  command.from_line = true;
  return command;
}

void ToUser::run(std::string line) {
  work_.message = message_of(rules_, task_, rules_.mark_commands);
  work_.command = command_of(rules_, facts_, std::move(line));
}

/// Sets the target to the user's mailbox, by home_mailbox or mail_spool_directory. Call it after work_.become is set.
void ToUser::aim() {
  mailbox::Target& target = work_.target;
  work_.message = message_of(rules_, task_, rules_.mark_files);
  target.size_limit = rules_.mailbox_size_limit;
  target.lock = rules_.lock;
  target.any_owner = !rules_.strict_ownership;
  // As in Postfix: a Maildir of the spool comes before a file in the home directory.
  const bool home = !rules_.home_mailbox.empty() &&
                    (rules_.home_mailbox.ends_with('/') || !rules_.mail_spool_directory.ends_with('/'));
  const std::string& where = home ? rules_.home_mailbox : rules_.mail_spool_directory;
  target.form = where.ends_with('/') ? mailbox::Form::maildir : mailbox::Form::mbox;
  if (home) {
    target.base = account_.home;
    target.path = rules_.home_mailbox;
    target.follow_links = true;
  } else {
    target.base = rules_.mail_spool_directory;
    target.path = account_.name;
    if (const auto gid = spool_group(target.base); gid && work_.become) work_.become->gid = *gid;
  }
}

}  // namespace

std::optional<gid_t> spool_group(const std::string& directory) {
  struct stat st{};
  if (::stat(directory.c_str(), &st) != 0) return std::nullopt;  // the delivery will report it
  // Root's group opens more than a mailbox.
  if ((st.st_mode & S_IWGRP) && !(st.st_mode & S_IWOTH) && st.st_gid != 0) return st.st_gid;
  return std::nullopt;
}

void aim_below_home(const std::string& home, const std::string& path, mailbox::Target& target) {
  if ((path + "/").contains("/../")) return;
  const auto name = path.find_first_not_of('/', 1);
  target.base = home;
  target.path = name == std::string::npos ? "" : path.substr(name);
  target.follow_links = true;
}

mail::DeliveryStatus deferred(std::string dsn, std::string text) {
  return mail::make_status(mail::Action::deferred, std::move(dsn), std::move(text));
}
mail::DeliveryStatus failed(std::string dsn, std::string text) {
  return mail::make_status(mail::Action::failed, std::move(dsn), std::move(text));
}

mail::DeliveryStatus expansion_trouble(const Error& e) {
  if (e.is(LocalError::loop)) return failed("5.4.6", "alias database loop: " + e.message());
  return deferred("4.3.0", "aliases: " + e.message());
}

ExpandRules expansion_rules(const Rules& rules, const std::string& address) {
  ExpandRules out = rules.expansion;
  out.delimiters = rules.delimiters;
  out.domain = mail::domain_part(address);
  if (out.domain.empty()) out.domain = rules.myorigin;
  return out;
}

std::string user_address(const std::string& user, const Rules& rules, const std::string& recipient) {
  const bool own = mail::has_domain(recipient) &&
                   account_name(user, rules) == account_name(std::string(mail::local_part(recipient)), rules);
  std::string out = mail::quote_local(mail::unquote_local(user)) + "@";
  out += own ? mail::domain_part(recipient) : std::string_view(rules.myorigin);
  return out;
}

std::string account_name(const std::string& user, const Rules& rules) {
  const std::string name = idn::fold(mail::unquote_local(user));
  return std::string(mail::split_extension(name, rules.delimiters).user);
}

Result<Expansion> expand_name(const Shared& shared, const std::string& address) {
  return expand(std::string(mail::local_part(address)), expansion_rules(shared.rules, address), lookups_of(shared));
}

Result<std::string> owner_of(const Shared& shared, const std::string& address) {
  return list_owner(std::string(mail::local_part(address)), expansion_rules(shared.rules, address), lookups_of(shared));
}

UserTables tables_for(const Shared& shared, const std::string& user) {
  const Rules& rules = shared.rules;
  const std::string name = account_name(user, rules);
  UserTables out{said_of(name, rules.mailbox_transports, "mailbox_transport_maps", rules.mailbox_transport), {}};
  if (out.transport && out.transport->empty())
    out.command = said_of(name, rules.mailbox_commands, "mailbox_command_maps", rules.mailbox_command);
  return out;
}

Result<std::string> fallback_for(const Shared& shared, const std::string& user) {
  const Rules& rules = shared.rules;
  return said_of(account_name(user, rules), rules.fallback_transports, "fallback_transport_maps",
                 rules.fallback_transport);
}

Outcome deliver_to_user(const Shared& shared, const Delivery& task, const std::string& user, bool skip_forward,
                        const UserTables& tables) {
  return ToUser(shared, task, user, skip_forward)(tables);
}

Outcome to_unknown_user(const Shared& shared, const Delivery& task, const std::string& user, bool skip_forward,
                        const Result<std::string>& fallback) {
  return ToUser(shared, task, user, skip_forward).unknown(fallback);
}

mail::DeliveryStatus deliver_directly(const Shared& shared, const Delivery& task, const Direct& direct) {
  const Rules& rules = shared.rules;
  if (direct.kind == Direct::Kind::refused) return failed("5.7.1", direct.text);
  if (direct.kind == Direct::Kind::loop) return failed("5.4.6", "alias database loop for " + direct.text);
  const auto account = direct.account.empty() ? account_for(rules, direct.owner) : account_named(rules, direct.account);
  if (!account) return deferred("4.3.5", fmt::format("{}: {}", printable(direct.text, 100), account.error().message()));
  auto become = mailbox::rights_for(account->identity);
  if (!become) return deferred("4.3.5", fmt::format("{}: {}", printable(direct.text, 100), become.error().context()));
  mailbox::Work work;
  work.become = *std::move(become);
  work.only_look = mail::is_probe(task.message->envelope.purpose);
  if (direct.kind == Direct::Kind::command) {
    const std::string local = idn::fold(mail::unquote_local(mail::local_part(task.recipient.address)));
    const auto split = mail::split_extension(local, rules.delimiters);
    CommandFacts facts;
    facts.message = &task.message->envelope;
    facts.recipient = &task.recipient;
    facts.sender = task.sender;
    facts.user = split.user;
    facts.extension = split.extension;
    facts.delimiter = delimiter_of(split, rules);
    // The name is the user of the forward file, else the alias.
    if (!direct.account.empty()) facts.user = account->name;
    facts.account = direct.owner ? &*account : nullptr;
    work.message = message_of(rules, task, rules.mark_commands);
    work.command = command_of(rules, facts, direct.text);
  } else {
    work.message = message_of(rules, task, rules.mark_files);
    std::string path = direct.text;
    if (path.starts_with('~')) {
      const bool somebodys = direct.owner && *direct.owner != 0 && account->home.starts_with('/');
      if (!path.starts_with("~/") || !somebodys)
        return failed("5.3.5", fmt::format("{}: {}", printable(path, 100),
                                           somebodys ? "only ~/ is a home directory here" : "nobody's home directory"));
      path.replace(0, 1, account->home == "/" ? "" : account->home);
    }
    aim_at(path, work.target);
    if (path != direct.text) aim_below_home(account->home, direct.text, work.target);
    work.target.lock = rules.lock;
    work.target.size_limit = rules.mailbox_size_limit;
    work.target.any_owner = true;
    work.target.shown = "file: " + printable(path, 200);
  }
  return mailbox::deliver_in_child(std::move(work), task.message->body, rules.time_limit, task.message->ending.get())
      .status;
}

}  // namespace pen::local
