/// check_sender_quota: how much a login and an envelope sender may send (docs/quotas.md).
#include <fmt/format.h>

#include <algorithm>

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/idn/domain.h"
#include "lib/mail/address.h"
#include "smtpd/checks.h"

namespace pen::smtpd {
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

}  // namespace

async::Task<Result<std::vector<QuotaUser>>> Checks::quota_users() {
  const auto& s = policy_.settings;
  std::vector<QuotaUser> users;
  if (subject_.client->login)
    users.push_back({.name = std::string(kLogin) + subject_.client->login->username,
                     .messages_per_hour = limit(s.smtpd_quota_login_messages_per_hour),
                     .messages_per_day = limit(s.smtpd_quota_login_messages_per_day),
                     .recipients_per_hour = limit(s.smtpd_quota_login_recipients_per_hour),
                     .recipients_per_day = limit(s.smtpd_quota_login_recipients_per_day)});
  if (subject_.sender && !subject_.sender->empty())  // notices have no sender, and no quota
    users.push_back({.name = std::string(kSender) + idn::address_key(*subject_.sender),
                     .messages_per_hour = limit(s.smtpd_quota_sender_messages_per_hour),
                     .messages_per_day = limit(s.smtpd_quota_sender_messages_per_day),
                     .recipients_per_hour = limit(s.smtpd_quota_sender_recipients_per_hour),
                     .recipients_per_day = limit(s.smtpd_quota_sender_recipients_per_day)});
  // All senders of a domain together, where the table has limits for it.
  if (const std::string domain(mail::domain_part(subject_.sender.value_or(""))); !domain.empty())
    users.push_back({.name = fmt::format("{}@{}", kDomain, idn::ascii_domain(domain).value_or(to_lower(domain)))});
  if (!policy_.quotas.empty())
    for (QuotaUser& user : users) {
      const std::string key = user.name.substr(user.name.find(':') + 1);
      auto found = co_await tools_.tables.ask([this, &key] { return policy_.quotas.lookup(key); });
      if (!found) co_return std::unexpected(std::move(found).error());
      if (*found && !take_limits(**found, user))
        co_return pen::fail(map::MapError::syntax, fmt::format("{}: \"{}\"", key, printable(**found, 100)));
    }
  std::erase_if(users, [](const QuotaUser& user) { return !limited(user) || user.name.size() > kMostName; });
  co_return users;
}

async::Task<Checks::Answer> Checks::check_sender_quota(const Restriction&, const Name&) {
  if (!subject_.sender || !tools_.memory) co_return Answer::dunno;
  auto users = co_await quota_users();
  if (!users) {
    log::warning("smtpd_quota_maps: {}", users.error().message());
    co_return table_problem(*subject_.sender);
  }
  if (users->empty()) co_return Answer::dunno;
  // Content comes: the message counts now, once. Before that a recipient beyond the limit is refused.
  const bool counts = after_content_ || std::string_view(subject_.where) == "DATA";
  const auto recipients = static_cast<std::uint32_t>(subject_.recipient_count);
  sessions::SenderMemory::QuotaQuestion question;
  question.look = !counts || warn_;
  question.messages = 1;
  question.recipients = counts ? recipients : recipients + 1;
  question.users = *users;
  const auto answer = co_await tools_.memory->quota(std::move(question),
                                                    {.deadline = tools_.loop.now() + policy_.settings.smtpd_timeout});
  if (!answer || answer->exceeded == QuotaLimit::none || answer->user >= users->size()) co_return Answer::dunno;
  const QuotaUser& user = (*users)[answer->user];
  const bool login = user.name.starts_with(kLogin), domain = user.name.starts_with(kDomain);
  const Name name = login    ? Name{user.name.substr(kLogin.size()), "SASL login name"}
                    : domain ? Name{user.name.substr(kDomain.size()), "Sender domain"}
                             : sender_label();
  co_return refuse(
      policy_.settings.smtpd_quota_reject_code, "4.7.1", name,
      fmt::format("quota of {} exceeded, try again in {} seconds", in_words(answer->exceeded, user), answer->wait));
}

}  // namespace pen::smtpd
