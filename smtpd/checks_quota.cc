/// check_sender_quota: how much a login and an envelope sender may send (docs/quotas.md).
#include <fmt/format.h>

#include <algorithm>

#include "lib/base/idn/domain.h"
#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "smtpd/restrictions.h"

namespace pen::smtpd::restrictions {
namespace {

using ipc::sender_memory::QuotaLimit;
using ipc::sender_memory::QuotaUser;

constexpr std::string_view kLogin = "login:", kSender = "sender:", kDomain = "domain:";
// A name that no address or login of sense has is not counted, by anvil neither.
constexpr std::size_t kMostName = 400;

struct Named {
  std::string_view name;
  std::uint32_t QuotaUser::* limit;
};
constexpr Named kLimits[] = {{"messages_per_hour", &QuotaUser::messages_per_hour},
                             {"messages_per_day", &QuotaUser::messages_per_day},
                             {"recipients_per_hour", &QuotaUser::recipients_per_hour},
                             {"recipients_per_day", &QuotaUser::recipients_per_day}};

bool limited(const QuotaUser& user) {
  return std::ranges::any_of(kLimits, [&](const Named& n) { return user.*n.limit != 0; });
}

/// Takes the limits of a table's result. False: it is malformed.
bool take_limits(std::string_view text, QuotaUser& user) {
  for (const auto& word : split_list(text)) {
    if (iequals(word, "unlimited")) {
      for (const Named& n : kLimits) user.*n.limit = 0;
      continue;
    }
    const auto equals = word.find('=');
    const auto named = std::ranges::find_if(kLimits, [&](const Named& n) { return n.name == word.substr(0, equals); });
    const auto value = equals == word.npos ? std::nullopt : parse_unsigned(std::string_view(word).substr(equals + 1));
    if (named == std::end(kLimits) || !value || *value > 1'000'000'000) return false;
    user.*named->limit = static_cast<std::uint32_t>(*value);
  }
  return true;
}

std::string in_words(QuotaLimit exceeded, const QuotaUser& user) {
  switch (exceeded) {
    case QuotaLimit::messages_per_hour:
      return fmt::format("{} messages per hour", user.messages_per_hour);
    case QuotaLimit::messages_per_day:
      return fmt::format("{} messages per day", user.messages_per_day);
    case QuotaLimit::recipients_per_hour:
      return fmt::format("{} recipients per hour", user.recipients_per_hour);
    case QuotaLimit::recipients_per_day:
      return fmt::format("{} recipients per day", user.recipients_per_day);
    case QuotaLimit::none:
      break;
  }
  return "none";
}

std::uint32_t limit(int setting) { return static_cast<std::uint32_t>(setting); }

/// The senders with their limits: the login and the sender address, as far as they have any. Errors: smtpd_quota_maps.
[[gnu::noinline]] async::Task<Result<std::vector<QuotaUser>>> quota_users(Evaluation& e) {
  const auto& s = e.policy.settings;
  std::vector<QuotaUser> users;
  if (e.subject.client->login)
    users.push_back({.name = std::string(kLogin) + e.subject.client->login->username,
                     .messages_per_hour = limit(s.smtpd_quota_login_messages_per_hour),
                     .messages_per_day = limit(s.smtpd_quota_login_messages_per_day),
                     .recipients_per_hour = limit(s.smtpd_quota_login_recipients_per_hour),
                     .recipients_per_day = limit(s.smtpd_quota_login_recipients_per_day)});
  if (e.subject.sender && !e.subject.sender->empty())  // notices have no sender, and no quota
    users.push_back({.name = std::string(kSender) + idn::address_key(*e.subject.sender),
                     .messages_per_hour = limit(s.smtpd_quota_sender_messages_per_hour),
                     .messages_per_day = limit(s.smtpd_quota_sender_messages_per_day),
                     .recipients_per_hour = limit(s.smtpd_quota_sender_recipients_per_hour),
                     .recipients_per_day = limit(s.smtpd_quota_sender_recipients_per_day)});
  // All senders of a domain together, where the table has limits for it.
  if (const std::string domain(mail::domain_part(e.subject.sender.value_or(""))); !domain.empty())
    users.push_back({.name = fmt::format("{}@{}", kDomain, idn::ascii_domain(domain).value_or(to_lower(domain)))});
  if (!e.policy.quotas.empty())
    for (QuotaUser& user : users) {
      const std::string key = user.name.substr(user.name.find(':') + 1);
      auto found = co_await e.tools.tables.ask([&e, &key] { return e.policy.quotas.lookup(key); });
      if (!found) co_return std::unexpected(std::move(found).error());
      if (*found && !take_limits(**found, user))
        co_return pen::fail(map::MapError::syntax, fmt::format("{}: \"{}\"", key, printable(**found, 100)));
    }
  std::erase_if(users, [](const QuotaUser& user) { return !limited(user) || user.name.size() > kMostName; });
  co_return users;
}

}  // namespace

async::Task<Answer> check_sender_quota(Evaluation& e, const Restriction&, const Name&) {
  if (!e.subject.sender || !e.tools.memory) co_return Answer::dunno;
  auto users = co_await quota_users(e);
  if (!users) {
    log::warning("smtpd_quota_maps: {}", users.error().message());
    co_return e.table_problem(*e.subject.sender);
  }
  if (users->empty()) co_return Answer::dunno;
  // Content comes: the message counts now, once. Before that a recipient beyond the limit is refused.
  const bool counts = e.after_content || std::string_view(e.subject.where) == "DATA";
  const auto recipients = static_cast<std::uint32_t>(e.subject.recipient_count);
  sessions::SenderMemory::QuotaQuestion question;
  question.look = !counts || e.warn;
  question.messages = 1;
  question.recipients = counts ? recipients : recipients + 1;
  question.users = *users;
  const auto answer = co_await e.tools.memory->quota(
      std::move(question), {.deadline = e.tools.loop.now() + e.policy.settings.smtpd_timeout});
  if (!answer || answer->exceeded == QuotaLimit::none || answer->user >= users->size()) co_return Answer::dunno;
  const QuotaUser& user = (*users)[answer->user];
  const bool login = user.name.starts_with(kLogin), domain = user.name.starts_with(kDomain);
  const Name name = login    ? Name{user.name.substr(kLogin.size()), "SASL login name"}
                    : domain ? Name{user.name.substr(kDomain.size()), "Sender domain"}
                             : e.sender_label();
  co_return e.refuse(
      e.policy.settings.smtpd_quota_reject_code, "4.7.1", name,
      fmt::format("quota of {} exceeded, try again in {} seconds", in_words(answer->exceeded, user), answer->wait));
}

}  // namespace pen::smtpd::restrictions
