#include "local/agent.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "lib/base/codec.h"
#include "lib/base/idn/fold.h"
#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "lib/mail/logged.h"
#include "lib/send/mailbox/content.h"

namespace pen::local {
namespace {

constexpr std::size_t kMaxShown = 5;      // destinations in one log line
constexpr std::size_t kMaxReason = 1000;  // of a failure, in the notice to a list's owner
constexpr std::size_t kMaxShownAddress = 320;

/// Combines the results of a recipient's destinations: deferred before failed before sent.
mail::DeliveryStatus all_of(const std::vector<mail::DeliveryStatus>& each) {
  const auto rank = [](const mail::DeliveryStatus& s) {
    if (s.action == mail::Action::deferred) return 0;
    if (s.action == mail::Action::failed) return 1;
    return s.action == mail::Action::expanded ? 2 : 3;
  };
  mail::DeliveryStatus worst = *std::ranges::min_element(each, {}, rank);
  if (each.size() == 1 || rank(worst) < 2) return worst;
  worst.text.clear();
  for (std::size_t i = 0; i < each.size() && i < kMaxShown; ++i) worst.text += (i == 0 ? "" : "; ") + each[i].text;
  if (each.size() > kMaxShown) worst.text += fmt::format("; and {} more", each.size() - kMaxShown);
  return worst;
}

/// The status for a lost conversation: the next queue manager sends the message again.
mail::DeliveryStatus over() { return deferred("4.3.0", "the conversation with the queue manager has ended"); }

/// The user or alias that a recipient names, without extension.
std::string name_of(const mail::Recipient& recipient, const Rules& rules) {
  return account_name(std::string(mail::local_part(recipient.address)), rules);
}

/// The answer to a probe; the new addresses' results would need probes of their own.
mail::DeliveryStatus would_send_on(const Group& group, const std::string& transport) {
  std::string text = transport.empty() ? "forwards to" : "passes to " + transport + ":";
  for (std::size_t i = 0; i < group.to.size() && i < kMaxShown; ++i) text += (i == 0 ? " " : ", ") + group.to[i];
  if (group.to.size() > kMaxShown) text += fmt::format(", and {} more", group.to.size() - kMaxShown);
  return mail::make_status(mail::Action::delivered, "2.0.0", std::move(text));
}

/// One destination of a recipient of a message, as the key of Progress. It holds all that distinguishes destinations,
/// each field with its length: equal keys are the same place, reached the same way with the same rights.
struct Step {
  std::string queue_id, address, original, orcpt;
  std::vector<std::string> followed;
  bool direct = false;  // else a group, identified by its sender: an expansion has one group per sender
  std::uint8_t kind = 0;
  std::string text, account, sender;
  std::optional<std::uint32_t> owner = {};
  PEN_FIELDS(queue_id, address, original, orcpt, followed, direct, kind, text, account, sender, owner)
};

/// Merges the groups that have the same sender.
std::vector<Group> one_for_each_sender(std::vector<Group> groups) {
  std::vector<Group> out;
  for (auto& group : groups) {
    const auto same = std::ranges::find(out, group.sender, &Group::sender);
    if (same == out.end())
      out.push_back(std::move(group));
    else
      std::ranges::move(group.to, std::back_inserter(same->to));
  }
  return out;
}

/// A message to be sent on, still without recipients. sender: the owner of the list; "": the message's own.
Successor successor_of(const delivery::Incoming& message, const std::string& sender) {
  Successor next;
  const mail::Envelope& old = message.envelope;
  // A notice that cannot be delivered must not cause another.
  next.envelope.sender = sender.empty() || old.sender.empty() ? old.sender : sender;
  if (sender.empty()) {
    next.envelope.envid = old.envid;
    next.envelope.ret = old.ret;
  }
  next.envelope.body_type = old.body_type;
  next.envelope.smtputf8 = old.smtputf8;
  next.envelope.requiretls = old.requiretls;
  next.envelope.tenant = old.tenant;
  next.envelope.priority = old.priority;
  next.envelope.signer = old.signer;
  next.envelope.client.protocol = "local";
  return next;
}

}  // namespace

Agent::Agent(async::Loop& loop, async::HandlerPool& lookups, async::HandlerPool& deliveries, Requeue& requeue,
             Rules rules, map::MapList aliases, Random& random)
    : loop_(loop),
      tables_(loop),
      lookups_(lookups),
      deliveries_(deliveries),
      requeue_(requeue),
      shared_(std::make_shared<const Shared>(Shared{std::move(rules), std::move(aliases)})),
      random_(random),
      turns_(loop, shared_->rules.share),
      lookup_turns_(loop, shared_->rules.share) {}

async::Task<bool> Agent::take_turn(std::string who) {
  co_return co_await turns_.take(std::move(who), {.deadline = loop_.now() + shared_->rules.patience});
}

mail::DeliveryStatus Agent::no_turn(const std::string& who) const {
  return deferred("4.3.0",
                  fmt::format("{} deliveries for \"{}\" are not ended yet", shared_->rules.share, printable(who, 100)));
}

async::Task<mail::DeliveryStatus> Agent::deliver(Message message, mail::Recipient recipient) {
  if (mailbox::was_delivered_to(message->header, recipient.address)) {
    auto look = [shared = shared_, address = recipient.address] { return owner_of(*shared, address); };
    auto owner = co_await tables_.ask_in(lookups_, std::move(look));
    if (!owner) co_return expansion_trouble(owner.error());
    auto loop = failed("5.4.6", "mail forwarding loop for " + recipient.address);
    co_return co_await tell_owner(message, std::move(recipient), *std::move(owner), std::move(loop));
  }
  auto work = [shared = shared_, address = recipient.address] { return expand_name(*shared, address); };
  // An alias with an :include: file that hangs leaves threads for others.
  const std::string name = name_of(recipient, shared_->rules);
  if (!co_await lookup_turns_.take(name, {.deadline = loop_.now() + shared_->rules.patience}))
    co_return deferred(
        "4.3.0", fmt::format("{} look-ups of \"{}\" are not ended yet", shared_->rules.share, printable(name, 100)));
  auto expansion = co_await tables_.ask_in(lookups_, std::move(work));
  lookup_turns_.give(name);
  if (!expansion) co_return expansion_trouble(expansion.error());
  co_return co_await carry_out(std::move(message), std::move(recipient), *std::move(expansion),
                               Way{{}, std::make_shared<Tour>()});
}

async::Task<mail::DeliveryStatus> Agent::carry_out(Message message, mail::Recipient recipient, Expansion expansion,
                                                   Way way) {
  Expansion& e = expansion;
  if (e.only_user) co_return co_await to_user(message, recipient, *e.only_user, e.sender, false, std::move(way));
  way.tour->destinations += e.direct.size();
  if (way.tour->destinations > shared_->rules.expansion.limit)
    co_return expansion_trouble(fail(LocalError::too_many).error());
  e.forwards = one_for_each_sender(std::move(e.forwards));
  Step step;
  step.queue_id = message->envelope.queue_id;
  step.address = recipient.address;
  step.original = recipient.original;
  step.orcpt = recipient.orcpt;
  step.followed = way.followed;
  const Step group_step = step;
  std::vector<std::string> keys;
  std::vector<mail::DeliveryStatus> each;
  for (const auto& direct : e.direct) {
    step.direct = true;
    step.kind = static_cast<std::uint8_t>(direct.kind);
    step.text = direct.text;
    step.account = direct.account;
    step.sender = direct.sender;
    step.owner = direct.owner;
    keys.push_back(encode(step));
    const auto* before = progress_.find(keys.back());
    each.push_back(before != nullptr ? *before : co_await one(message, recipient, direct, way));
  }
  for (auto& group : e.forwards) {
    step = group_step;
    step.sender = group.sender;
    keys.push_back(encode(step));
    const auto* before = progress_.find(keys.back());
    each.push_back(before != nullptr ? *before : co_await send_on(message, recipient, std::move(group), e.through, {}));
  }
  if (each.empty())
    co_return e.discard ? mail::make_status(mail::Action::delivered, "2.0.0", "delivered to file: /dev/null")
                        // An :include: file is empty for a moment while a script rewrites it.
                        : deferred("4.3.0", "the alias has no destinations");
  auto status = all_of(each);
  const auto comes_again = [soft = message->soft_refusals](const mail::DeliveryStatus& s) {
    return s.action == mail::Action::deferred || (soft && s.action == mail::Action::failed);
  };
  // A probe has delivered nothing.
  if (comes_again(status) && !mail::is_probe(message->envelope.purpose))
    for (std::size_t i = 0; i < each.size(); ++i)
      if (!comes_again(each[i])) progress_.remember(std::move(keys[i]), std::move(each[i]));
  co_return status;
}

Delivery Agent::delivery(const Message& message, const mail::Recipient& recipient, const std::string& sender) {
  Delivery out{.message = message,
               .recipient = recipient,
               .sender = message->envelope.sender,
               .now = loop_.clock().wall_now(),
               .unique = ++count_,
               .random = random_.next()};
  if (!sender.empty()) {
    if (!out.sender.empty()) out.sender = sender;
    out.recipient.original.clear();
    out.recipient.orcpt.clear();
  }
  return out;
}

async::Task<mail::DeliveryStatus> Agent::tell_owner(Message message, mail::Recipient recipient, std::string owner,
                                                    mail::DeliveryStatus status) {
  if (status.action != mail::Action::failed || owner.empty() || message->soft_refusals ||
      message->envelope.sender.empty() || mail::is_probe(message->envelope.purpose))
    co_return status;
  // The failure is a message to the owner that is bound to fail in the queue: its notice is as safe as any.
  Successor next = successor_of(*message, owner);
  const std::string reason = printable(status.text, kMaxReason);
  next.envelope.transport = fmt::format("error:{} {}", status.dsn, reason);
  mail::Recipient told;
  told.address = recipient.address;
  next.envelope.recipients.push_back(std::move(told));
  if (message->over()) co_return over();
  auto id = co_await requeue_.requeue(message, std::move(next));
  if (!id) co_return deferred("4.3.0", "cannot tell the list's owner: " + id.error().message());
  // The poster need not learn of the owner and the list's commands.
  log::info("{}: to=<{}>, failed, {} is told by {}: {}", message->envelope.queue_id,
            printable(mail::logged(recipient.address), kMaxShownAddress),
            printable(mail::logged(owner), kMaxShownAddress), *id, reason);
  co_return mail::make_status(mail::Action::delivered, "2.0.0", "delivered to the list");
}

async::Task<mail::DeliveryStatus> Agent::one(Message message, mail::Recipient recipient, Direct direct, Way way) {
  if (direct.kind == Direct::Kind::user || direct.kind == Direct::Kind::mailbox) {
    const bool skip_forward = direct.kind == Direct::Kind::mailbox;
    co_return co_await to_user(message, recipient, direct.text, direct.sender, skip_forward, std::move(way));
  }
  auto run = [shared = shared_, delivery = delivery(message, recipient, direct.sender), direct] {
    return deliver_directly(*shared, delivery, direct);
  };
  const std::string who = direct.account.empty() ? name_of(recipient, shared_->rules) : direct.account;
  if (!co_await take_turn(who)) co_return no_turn(who);
  auto status = co_await deliveries_.run(std::move(run));
  turns_.give(who);
  co_return co_await tell_owner(message, recipient, direct.sender, std::move(status));
}

async::Task<mail::DeliveryStatus> Agent::to_user(Message message, mail::Recipient recipient, std::string user,
                                                 std::string sender, bool skip_forward, Way way) {
  Delivery task = delivery(message, recipient, sender);
  task.followed = way.followed;
  task.tour = way.tour;
  const auto look = [shared = shared_, user] { return tables_for(*shared, user); };
  const auto tables = std::make_shared<const UserTables>(co_await tables_.ask(look));
  auto run = [shared = shared_, task, user, skip_forward, tables] {
    return deliver_to_user(*shared, task, user, skip_forward, *tables);
  };
  const std::string account = account_name(user, shared_->rules);
  if (!co_await take_turn(account)) co_return no_turn(account);
  Outcome out = co_await deliveries_.run(std::move(run));
  turns_.give(account);
  if (out.unknown) {
    const auto ask_fallback = [shared = shared_, user] { return fallback_for(*shared, user); };
    out = to_unknown_user(*shared_, task, user, skip_forward, co_await tables_.ask(ask_fallback));
  }
  if (!out.warning.empty()) log::warning("{}: {}", message->envelope.queue_id, out.warning);
  if (out.status) co_return co_await tell_owner(message, recipient, sender, *std::move(out.status));
  if (!out.relay_to.empty()) {
    if (!mail::has_domain(out.relay_to)) out.relay_to += "@" + shared_->rules.myorigin;
    Group group{sender, {std::move(out.relay_to)}};
    co_return co_await send_on(message, recipient, std::move(group), {}, {});
  }
  if (!out.pass_to.empty()) {
    // Aliases are already expanded: the transport must learn which mailbox is meant.
    Group group{sender, {user_address(user, shared_->rules, recipient.address)}};
    co_return co_await send_on(message, recipient, std::move(group), {}, std::move(out.pass_to));
  }
  // The owner of the list that led to the user gets the failures, unless a list further on has its own owner.
  const auto keep = [&](std::string& own) {
    if (own.empty()) own = sender;
  };
  keep(out.forward->sender);
  for (auto& direct : out.forward->direct) keep(direct.sender);
  for (auto& group : out.forward->forwards) keep(group.sender);
  way.followed.push_back(std::move(out.forward_file));
  co_return co_await carry_out(message, recipient, *std::move(out.forward), std::move(way));
}

async::Task<mail::DeliveryStatus> Agent::send_on(Message message, mail::Recipient recipient, Group group,
                                                 std::vector<std::string> through, std::string transport) {
  if (mail::is_probe(message->envelope.purpose)) co_return would_send_on(group, transport);
  Successor next = successor_of(*message, group.sender);
  const bool list = !group.sender.empty();
  const bool passed = !transport.empty();
  next.envelope.transport = transport;
  for (auto& address : group.to) {
    mail::Recipient r;
    r.address = std::move(address);
    if (!list) {
      r.original = recipient.shown_original();
      r.orcpt = recipient.orcpt;
      r.notify = recipient.notify;
    }
    // The success notice ("expanded") is due now; failures and delays belong to the new recipients (RFC 3461 5.2.7).
    if (!passed && (r.notify & mail::notify::kSuccess)) {
      r.notify = static_cast<std::uint8_t>(r.notify & ~mail::notify::kSuccess);
      if (r.notify == 0) r.notify = mail::notify::kNever;
    }
    next.envelope.recipients.push_back(std::move(r));
  }
  through.insert(through.begin(), recipient.address);
  if (shared_->rules.mark_forwards && !passed)
    for (const auto& address : through)
      next.fields += fmt::format("Delivered-To: {}\r\n", mailbox::field_safe(idn::fold(address)));  // as Postfix
  if (message->over()) co_return over();
  auto id = co_await requeue_.requeue(message, std::move(next));
  if (!id) co_return deferred("4.3.0", "cannot forward: " + id.error().message());
  const auto text = passed ? fmt::format("passed to {} as {}", transport, *id) : fmt::format("forwarded as {}", *id);
  const auto action = list ? mail::Action::delivered : passed ? mail::Action::transferred : mail::Action::expanded;
  co_return mail::make_status(action, "2.0.0", text);
}

}  // namespace pen::local
