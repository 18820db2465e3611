#include "local/agent.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "lib/async/fd.h"
#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "lib/mailbox/content.h"
#include "local/macros.h"

namespace pen::local {
namespace {

constexpr std::size_t kMaxInclude = 1024 * 1024;

mail::DeliveryStatus deferred(std::string dsn, std::string text) {
  return mail::make_status(mail::Action::deferred, std::move(dsn), std::move(text));
}
mail::DeliveryStatus failed(std::string dsn, std::string text) {
  return mail::make_status(mail::Action::failed, std::move(dsn), std::move(text));
}

/// An expansion that did not come about.
mail::DeliveryStatus trouble(const Error& e) {
  if (e.is(LocalError::loop)) return failed("5.4.6", "alias database loop: " + e.message());
  if (e.is(LocalError::not_supported)) return deferred("4.3.5", e.message());
  return deferred("4.3.0", "aliases: " + e.message());
}

/// An :include: file: named by the administrator's alias table, so it only has to be safe from others.
Result<std::string> read_include(const std::string& path) {
  if (!path.starts_with('/'))
    return fail(LocalError::untrusted, ":include: needs an absolute path");
  async::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return fail_errno(path);
  struct stat st{};
  if (::fstat(fd.get(), &st) != 0) return fail_errno(path);
  if (!S_ISREG(st.st_mode) || (st.st_mode & S_IWOTH)) return fail(LocalError::untrusted, path);
  if (static_cast<std::size_t>(st.st_size) > kMaxInclude) return fail(LocalError::too_large, path);
  std::string text(static_cast<std::size_t>(st.st_size), '\0');
  std::size_t got = 0;
  while (got < text.size()) {
    const auto n = ::pread(fd.get(), text.data() + got, text.size() - got, static_cast<off_t>(got));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno(path);
    if (n == 0) break;
    got += static_cast<std::size_t>(n);
  }
  text.resize(got);
  return text;
}

/// The group that may make files in a shared spool directory, where that is how it is arranged (Debian: 2775
/// root:mail).
std::optional<gid_t> spool_group(const std::string& directory) {
  struct stat st{};
  if (::stat(directory.c_str(), &st) != 0) return std::nullopt;  // the delivery itself will say so
  if ((st.st_mode & S_IWGRP) && !(st.st_mode & S_IWOTH)) return st.st_gid;
  return std::nullopt;
}

/// How far the delivery to a user came on the pool's thread; the rest is the loop's.
struct UserOutcome {
  std::optional<mail::DeliveryStatus> status;  // it is settled
  std::string relay_to;                        // no such user: luser_relay, expanded
  std::string account, forward_text;  // the user's forward file was found, and this is in it
};

/// The user's account; nullopt: there is none.
Result<std::optional<mailbox::Account>> account_of(const std::string& base) {
  const bool odd = base.empty() || base.size() > 255 || base.find('/') != std::string::npos ||
                   base.starts_with('.') || base.find('\0') != std::string::npos;
  if (odd) return std::nullopt;
  return mailbox::find_account(base);
}

UserOutcome unknown_user(const Rules& rules, const mail::Recipient& recipient,
                         const std::string& name, const mail::Extension& split, bool may_relay) {
  UserOutcome out;
  if (rules.luser_relay.empty() || !may_relay)
    out.status = failed("5.1.1", fmt::format("unknown user: \"{}\"", name));
  else
    out.relay_to = expand_macros(
        rules.luser_relay,
        {{"user", std::string(split.user)},
         {"local", std::string(mail::local_part(recipient.address))},
         {"extension", std::string(split.extension)},
         {"domain", std::string(mail::domain_part(recipient.address))},
         {"recipient", recipient.address},
         {"recipient_delimiter", split.delimiter ? std::string(1, split.delimiter) : ""}});
  return out;
}

/// The user's mailbox, by home_mailbox or mail_spool_directory. After work.become.
void aim(const Rules& rules, const mailbox::Account& account, mailbox::Work& work) {
  work.target.size_limit = rules.mailbox_size_limit;
  work.target.lock = rules.lock;
  const std::string& where =
      rules.home_mailbox.empty() ? rules.mail_spool_directory : rules.home_mailbox;
  work.target.form = where.ends_with('/') ? mailbox::Form::maildir : mailbox::Form::mbox;
  if (!rules.home_mailbox.empty()) {
    work.target.base = account.home;
    work.target.path = rules.home_mailbox;
    work.target.follow_links = true;
  } else {
    work.target.base = rules.mail_spool_directory;
    work.target.path = account.name;
    if (const auto gid = spool_group(work.target.base); gid && work.become) work.become->gid = *gid;
  }
}

/// forward_path for a user, expanded.
std::vector<std::string> forward_files(const Rules& rules, const mailbox::Account& account,
                                       const mail::Extension& split) {
  std::vector<std::string> files;
  if (account.home.empty() || split.extension.find('/') != std::string_view::npos) return files;
  for (const auto& path : rules.forward_paths) {
    // A path with ${extension} says nothing when there is none.
    if (split.extension.empty() && path.find("extension") != std::string::npos) continue;
    auto expanded = expand_macros(path, {{"home", account.home},
                                         {"user", account.name},
                                         {"extension", std::string(split.extension)},
                                         {"recipient_delimiter", std::string(1, split.delimiter)}});
    if (expanded.starts_with('/')) files.push_back(std::move(expanded));
  }
  return files;
}

/// Delivers to one user as far as that goes without the loop; blocks. work: the message is filled in.
UserOutcome deliver_to(const Rules& rules, const mailbox::Incoming& message,
                       const mail::Recipient& recipient, const std::string& user, bool skip_forward,
                       mailbox::Work work) {
  UserOutcome out;
  const std::string name = to_lower(mail::unquote_local(user));
  const auto split = mail::split_extension(name, rules.delimiters);
  const std::string base(split.user);
  auto found = account_of(base);
  if (!found) {
    out.status = deferred("4.3.0", found.error().message());
    return out;
  }
  if (!*found) return unknown_user(rules, recipient, name, split, !skip_forward);
  mailbox::Account account = **std::move(found);
  out.account = account.name;
  if (account.identity.uid == 0) {
    auto stand_in = mailbox::find_account(rules.default_privs);
    if (!stand_in || !*stand_in || (*stand_in)->identity.uid == 0) {
      out.status =
          deferred("4.3.5", "mail for root needs an alias, or an unprivileged default_privs");
      return out;
    }
    account.identity = (*stand_in)->identity;
    skip_forward = true;
  }
  auto become = mailbox::rights_for(account.identity);
  if (!become) {
    out.status = deferred(
        "4.3.5", fmt::format("mailbox of user \"{}\": {}", base, become.error().context()));
    return out;
  }
  work.become = *std::move(become);
  aim(rules, account, work);
  if (!skip_forward) work.forward_files = forward_files(rules, account, split);
  auto answer = mailbox::deliver_in_child(std::move(work), message.body, rules.time_limit);
  if (answer.forward_found)
    out.forward_text = std::move(answer.forward_text);
  else
    out.status = std::move(answer.status);
  return out;
}

}  // namespace

/// What look-ups on other threads use.
struct Agent::Shared {
  Rules rules;
  map::MapList aliases;
};

struct Agent::Plan {
  Expansion expansion;
  std::optional<mail::DeliveryStatus> trouble;
};

Agent::Agent(async::HandlerPool& pool, mailbox::Requeue& requeue, Rules rules, map::MapList aliases,
             const Clock& clock, Random& random)
    : pool_(pool),
      requeue_(requeue),
      shared_(std::make_shared<const Shared>(Shared{std::move(rules), std::move(aliases)})),
      clock_(clock),
      random_(random) {}

async::Task<mail::DeliveryStatus> Agent::deliver(std::shared_ptr<const mailbox::Incoming> message,
                                                 mail::Recipient recipient) {
  if (mailbox::was_delivered_to(message->header, recipient.address))
    co_return failed("5.4.6", "mail forwarding loop for " + recipient.address);
  auto work = [shared = shared_, address = recipient.address] {
    Plan plan;
    ExpandRules rules;
    rules.delimiters = shared->rules.delimiters;
    rules.domain = mail::domain_part(address);
    if (rules.domain.empty()) rules.domain = shared->rules.myorigin;
    Lookups lookups;
    lookups.alias = [&](const std::string& name) { return shared->aliases.lookup(name); };
    lookups.include = read_include;
    auto expansion = expand(std::string(mail::local_part(address)), rules, lookups);
    if (expansion)
      plan.expansion = *std::move(expansion);
    else
      plan.trouble = trouble(expansion.error());
    return plan;
  };
  Plan plan = co_await pool_.run(std::move(work));
  co_return co_await carry_out(std::move(message), std::move(recipient), std::move(plan), false);
}

async::Task<mail::DeliveryStatus> Agent::carry_out(std::shared_ptr<const mailbox::Incoming> message,
                                                   mail::Recipient recipient, Plan plan,
                                                   bool from_forward) {
  if (plan.trouble) co_return *plan.trouble;
  Expansion& e = plan.expansion;
  const std::string owner = message->envelope.sender.empty() ? std::string() : e.owner;
  if (e.only_mailbox)
    co_return co_await to_user(message, recipient, *e.only_mailbox, owner, from_forward);
  if (e.mailboxes.empty() && e.forwards.empty())
    co_return e.discard
        ? mail::make_status(mail::Action::delivered, "2.0.0", "delivered to file: /dev/null")
        : failed("5.3.5", "the alias has no destinations");
  mail::DeliveryStatus last;
  for (const auto& user : e.mailboxes) {
    last = co_await to_user(message, recipient, user, owner, true);
    if (last.action != mail::Action::delivered) co_return last;
  }
  if (e.forwards.empty()) co_return last;
  co_return co_await send_on(message, recipient, std::move(e.forwards), owner);
}

async::Task<mail::DeliveryStatus> Agent::to_user(std::shared_ptr<const mailbox::Incoming> message,
                                                 mail::Recipient recipient, std::string user,
                                                 std::string owner, bool skip_forward) {
  mailbox::Work work;
  work.message.sender = owner.empty() ? message->envelope.sender : owner;
  work.message.now = clock_.wall_now();
  work.message.hostname = shared_->rules.myhostname;
  work.message.unique = ++count_;
  work.message.random = random_.next();
  work.message.fields =
      mailbox::prepended_fields(work.message.sender, recipient.shown_original(),
                                shared_->rules.mark_files ? recipient.address : std::string());
  auto run = [shared = shared_, message, recipient, user = std::move(user), skip_forward,
              work = std::move(work)]() mutable {
    return deliver_to(shared->rules, *message, recipient, user, skip_forward, std::move(work));
  };
  UserOutcome out = co_await pool_.run(std::move(run));
  if (out.status) co_return *std::move(out.status);
  if (!out.relay_to.empty()) {
    if (!mail::has_domain(out.relay_to)) out.relay_to += "@" + shared_->rules.myorigin;
    co_return co_await send_on(message, recipient, {std::move(out.relay_to)}, owner);
  }
  ExpandRules rules;
  rules.delimiters = shared_->rules.delimiters;
  rules.domain = mail::domain_part(recipient.address);
  if (rules.domain.empty()) rules.domain = shared_->rules.myorigin;
  Plan plan;
  auto expansion = expand_forward(out.forward_text, out.account, rules);
  if (!expansion)
    co_return trouble(std::move(expansion).error().within("forward file of " + out.account));
  plan.expansion = *std::move(expansion);
  if (plan.expansion.only_mailbox == std::nullopt && plan.expansion.mailboxes.empty() &&
      plan.expansion.forwards.empty() && !plan.expansion.discard)
    plan.expansion.only_mailbox = out.account;  // nothing but comments
  plan.expansion.owner = owner;
  co_return co_await carry_out(message, recipient, std::move(plan), true);
}

async::Task<mail::DeliveryStatus> Agent::send_on(std::shared_ptr<const mailbox::Incoming> message,
                                                 mail::Recipient recipient,
                                                 std::vector<std::string> to, std::string owner) {
  mailbox::Successor next;
  const mail::Envelope& old = message->envelope;
  next.envelope.sender = owner.empty() ? old.sender : owner;
  next.envelope.envid = old.envid;
  next.envelope.ret = old.ret;
  next.envelope.body_type = old.body_type;
  next.envelope.smtputf8 = old.smtputf8;
  next.envelope.requiretls = old.requiretls;
  next.envelope.client.protocol = "local";
  for (auto& address : to) {
    mail::Recipient r;
    r.address = std::move(address);
    r.original = recipient.shown_original();
    r.orcpt = recipient.orcpt;
    // The success notice is due now, as "expanded"; failures and delays are the new recipients' (RFC 3461 5.2.7).
    r.notify = recipient.notify;
    if (r.notify & mail::notify::kSuccess) {
      r.notify = static_cast<std::uint8_t>(r.notify & ~mail::notify::kSuccess);
      if (r.notify == 0) r.notify = mail::notify::kNever;
    }
    next.envelope.recipients.push_back(std::move(r));
  }
  if (shared_->rules.mark_forwards)
    next.fields = fmt::format("Delivered-To: {}\r\n", mailbox::field_safe(recipient.address));
  auto id = co_await requeue_.requeue(message, std::move(next));
  if (!id) co_return deferred("4.3.0", "cannot forward: " + id.error().message());
  co_return mail::make_status(mail::Action::expanded, "2.0.0", "forwarded as " + *id);
}

}  // namespace pen::local
