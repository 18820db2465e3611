#include "virtual/agent.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/text.h"
#include "lib/send/mailbox/accounts.h"
#include "lib/send/mailbox/confine.h"
#include "lib/send/mailbox/content.h"

namespace pen::virtuals {
namespace {

std::unexpected<mail::DeliveryStatus> deferred(std::string dsn, std::string text) {
  return std::unexpected(mail::make_status(mail::Action::deferred, std::move(dsn), std::move(text)));
}

std::expected<unsigned, mail::DeliveryStatus> number(const Rules& rules, const map::MapList& maps,
                                                     std::string_view setting, const std::string& address) {
  auto hit = map::find_address(maps, address, {.bare_user = false, .at_domain = true, .delimiters = rules.delimiters});
  if (!hit) return deferred("4.3.0", fmt::format("{}: {}", setting, hit.error().message()));
  if (!*hit) return deferred("4.3.5", fmt::format("recipient {}: not found in {}", address, setting));
  const auto value = parse_unsigned(trim((*hit)->value));
  if (!value || *value > 0x7fffffff)
    return deferred("4.3.5", fmt::format("recipient {}: bad value in {}: {}", address, setting, (*hit)->value));
  return static_cast<unsigned>(*value);
}

}  // namespace

std::expected<Place, mail::DeliveryStatus> find_place(const Rules& rules, const std::string& address) {
  const std::string key = to_lower(address);
  auto hit =
      map::find_address(rules.mailboxes, key, {.bare_user = false, .at_domain = true, .delimiters = rules.delimiters});
  if (!hit) return deferred("4.3.0", "virtual_mailbox_maps: " + hit.error().message());
  if (!*hit)
    return std::unexpected(
        mail::make_status(mail::Action::failed, "5.1.1", fmt::format("unknown user: \"{}\"", address)));
  if (!rules.base.starts_with('/')) return deferred("4.3.5", "virtual_mailbox_base is not set");
  const auto uid = number(rules, rules.uids, "virtual_uid_maps", key);
  if (!uid) return std::unexpected(uid.error());
  const auto gid = number(rules, rules.gids, "virtual_gid_maps", key);
  if (!gid) return std::unexpected(gid.error());
  if (*uid < rules.minimum_uid)
    return deferred("4.3.5", fmt::format("recipient {}: uid {} is below virtual_minimum_uid", address, *uid));
  if (*uid == 0 || *gid == 0) return deferred("4.3.5", fmt::format("recipient {}: no delivery as root", address));
  if (std::ranges::find(rules.kept_uids, *uid) != rules.kept_uids.end() ||
      std::ranges::find(rules.kept_gids, *gid) != rules.kept_gids.end())
    return deferred("4.3.5",
                    fmt::format("recipient {}: no delivery with uid {} and gid {}: they are of the mail system, "
                                "or open what is this host's",
                                address, *uid, *gid));
  Place place;
  const std::string path(trim((*hit)->value));
  if (path.empty() || ("/" + path + "/").contains("/../"))
    return deferred("4.3.5", fmt::format("recipient {}: bad value in virtual_mailbox_maps: {}: it must "
                                         "lead to a place below virtual_mailbox_base",
                                         address, path));
  place.target.form = path.ends_with('/') ? mailbox::Form::maildir : mailbox::Form::mbox;
  place.target.base = rules.base;
  place.target.path = path;
  place.target.size_limit = rules.mailbox_limit;
  place.target.lock = rules.lock;
  place.target.any_owner = !rules.strict_ownership;
  place.identity.uid = *uid;
  place.identity.gid = *gid;
  return place;
}

mailbox::Round round_of(const Rules& rules) {
  return {.base = rules.base, .lowest = rules.minimum_uid, .kept_uids = rules.kept_uids, .kept_gids = rules.kept_gids};
}

Agent::Agent(async::Loop& loop, async::HandlerPool& pool, Rules rules, Random& random)
    : tables_(loop),
      pool_(pool),
      rules_(std::make_shared<const Rules>(std::move(rules))),
      clock_(loop.clock()),
      random_(random) {}

async::Task<mail::DeliveryStatus> Agent::deliver(std::shared_ptr<const delivery::Incoming> message,
                                                 mail::Recipient recipient) {
  if (mailbox::was_delivered_to(message->header, recipient.address))
    co_return mail::make_status(mail::Action::failed, "5.4.6", "mail forwarding loop for " + recipient.address);
  mailbox::Work work;
  work.message.sender = message->envelope.sender;
  work.message.now = clock_.wall_now();
  work.message.hostname = rules_->myhostname;
  work.message.unique = ++count_;
  work.message.random = random_.next();
  work.message.fields =
      mailbox::prepended_fields(message->envelope.sender, recipient.shown_original(), recipient.address);
  auto found = co_await tables_.ask([&] { return find_place(*rules_, recipient.address); });
  if (!found) co_return std::move(found).error();
  auto run = [rules = rules_, message, place = std::make_shared<Place>(*std::move(found)), work]() mutable {
    auto become = mailbox::rights_for(place->identity);
    if (!become) return mail::make_status(mail::Action::deferred, "4.3.5", become.error().context());
    work.become = *std::move(become);
    auto round = round_of(*rules);
    if (work.become && mailbox::is_within(round, *work.become)) work.round = std::move(round);
    work.only_look = mail::is_probe(message->envelope.purpose);
    work.target = std::move(place->target);
    return mailbox::deliver_in_child(std::move(work), message->body, rules->time_limit, message->ending.get()).status;
  };
  co_return co_await pool_.run(std::move(run));
}

}  // namespace pen::virtuals
