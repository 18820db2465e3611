#include "qmgr/route_requests.h"

#include <algorithm>

#include "lib/base/log.h"
#include "lib/base/metrics/metrics.h"
#include "lib/base/text.h"
#include "lib/mail/expanded.h"
#include "lib/suite/suppression/words.h"
#include "qmgr/egress.h"

namespace pen::qmgr {

namespace {
/// Of an address that begins with "-".
mail::DeliveryStatus bad_syntax() { return mail::make_status(mail::Action::failed, "5.1.3", "bad address syntax"); }

/// "transport:nexthop" of a message that is not routed by its recipients; empty: it is.
std::string transport_of(const mail::Envelope& e, const std::string& default_filter_nexthop) {
  // `transport` is set for refused messages (error:) and for mail that has passed the filter.
  // Probes skip filters: a filter could only answer for itself.
  if (!e.transport.empty() || e.filter.empty() || mail::is_probe(e.purpose)) return e.transport;
  const auto colon = e.filter.find(':');
  const bool has_nexthop = colon != std::string::npos && !trim(std::string_view(e.filter).substr(colon + 1)).empty();
  return has_nexthop ? e.filter : e.filter.substr(0, colon) + ":" + default_filter_nexthop;
}
}  // namespace

bool RouteRequests::may_be_option(std::string_view recipient) const {
  return !around_.options.allow_minus && recipient.starts_with('-');
}

void RouteRequests::unroutable(Active& m, std::uint32_t ordinal, mail::DeliveryStatus status) {
  around_.scheduler.unroutable(m.number, ordinal);
  rounds_.log_undelivered(m, {ordinal}, status);
  rounds_.soften(m, status, around_.options.soft_bounce);
  if (status.action == mail::Action::failed) {
    rounds_.done(m, {ordinal}, status);
  } else {
    rounds_.deferred(m, {ordinal}, status);
  }
}

void RouteRequests::send(Active& m, std::uint32_t ordinal, ipc::route::Resolved& answer, Sharing sharing) {
  if (around_.options.egress) {
    auto assigned = around_.options.egress->assign(m.envelope(), ordinal, answer, around_.now());
    if (assigned.waits) return unroutable(m, ordinal, *std::move(assigned.waits));
    if (assigned.later) {
      uncounted_.push_back({{m.number, ordinal}, std::move(answer), sharing});
      return around_.ports.write_counts();
    }
  }
  around_.scheduler.routed(m.number, ordinal, answer, sharing);
}

void RouteRequests::counts_written() {
  for (Standing& waits : std::exchange(uncounted_, {}))
    send(active_.at(waits.of.message), waits.of.ordinal, waits.route, waits.sharing);
}

void RouteRequests::take(Active& m, std::uint32_t ordinal, ipc::route::Resolved& answer, Sharing sharing) {
  const auto& asks = around_.options.suppression;
  const mail::Envelope& e = m.envelope();
  // Notices have no sender, and probes ask what a host says. A filter gets mail for users of this host as well.
  if (!asks || e.sender.empty() || mail::is_probe(e.purpose) || !e.transport.empty() || !e.filter.empty() ||
      !asks(answer.transport))
    return send(m, ordinal, answer, sharing);
  const std::uint64_t request = next_request_++;
  ipc::suppression::Ask question{
      .request = request, .tenant = e.tenant, .sender = e.sender, .recipient = e.recipients[ordinal].address};
  standings_.emplace(request, Standing{{m.number, ordinal}, std::move(answer), sharing});
  around_.ports.ask_suppression(question);
}

void RouteRequests::suppression_answer(const ipc::suppression::Answer& answer) {
  const auto it = standings_.find(answer.request);
  if (it == standings_.end()) return;
  Standing asked = std::move(it->second);
  standings_.erase(it);
  Active& m = active_.at(asked.of.message);
  switch (answer.standing) {
    case ipc::suppression::Standing::free:
    case ipc::suppression::Standing::unknown:  // the edge has said so
      return send(m, asked.of.ordinal, asked.route, asked.sharing);
    case ipc::suppression::Standing::undecided:
      return unroutable(m, asked.of.ordinal,
                        mail::make_status(mail::Action::deferred, "4.3.0", "a table of exempt senders cannot be read"));
    case ipc::suppression::Standing::listed:
      metrics::suppression_stopped.add(metrics::StoppedAt::queue);
      return unroutable(m, asked.of.ordinal,
                        mail::make_status(mail::Action::failed, "5.7.1",
                                          "recipient is on the suppression list: " +
                                              std::string(suppression::in_words(answer.reason))));
  }
}

bool RouteRequests::forwarded(const mail::Envelope& envelope, const mail::Recipient& recipient) const {
  using Rewrites = ManagerOptions::Rewrites;
  if (envelope.sender.empty() || !envelope.verp.empty() || mail::is_probe(envelope.purpose)) return false;
  if (around_.options.rewrites == Rewrites::all) return true;
  // Copies (always_bcc and its kin) go where nobody addressed them to.
  return !iequals(recipient.shown_original(), recipient.address) || (recipient.notify & mail::notify::kCopy) != 0;
}

void RouteRequests::ask(const RouteRecipient& a) {
  Active& m = active_.at(a.message);
  if (may_be_option(m.envelope().recipients[a.ordinal].address)) return unroutable(m, a.ordinal, bad_syntax());
  const std::string way = transport_of(m.envelope(), around_.options.default_filter_nexthop);
  // What is known of a domain holds for mail that asks nothing special of TLS, and has no way of its own.
  const bool verification = m.envelope().purpose == mail::Purpose::verification;  // has settings of its own
  const bool sent_on = around_.options.rewrites != ManagerOptions::Rewrites::none && way.empty() &&
                       forwarded(m.envelope(), m.envelope().recipients[a.ordinal]);
  if (!verification && !sent_on && known_ < kKnown && m.envelope().requiretls == mail::RequireTls::unspecified &&
      way.empty())
    if (const auto* known = cache_.find(m.envelope().recipients[a.ordinal].address, around_.clock.now())) {
      ++known_;
      const Sharing sharing = m.envelope().verp.empty() ? Sharing::all : Sharing::alone;
      if (around_.options.egress == nullptr && !around_.options.suppression)
        return around_.scheduler.routed(a.message, a.ordinal, *known, sharing);
      ipc::route::Resolved own = *known;
      return take(m, a.ordinal, own, sharing);
    }
  const std::uint64_t request = next_request_++;
  asked_[request] = {a.message, a.ordinal};
  around_.ports.route({.request = request,
                       .recipient = m.envelope().recipients[a.ordinal].address,
                       .sender = m.envelope().sender,
                       .requiretls = m.envelope().requiretls,
                       .transport = way,
                       .flushed = around_.scheduler.deferral_overridden(a.message),
                       .verification = verification,
                       .forwarded = sent_on});
}

std::uint64_t RouteRequests::look_up(const std::string& recipient, const std::string& sender, LookedUp then,
                                     const std::string& tenant) {
  const std::uint64_t request = next_request_++;
  if (around_.options.egress)
    then = [this, sender, tenant, then = std::move(then)](ipc::route::Routed* routed) {
      auto* resolved = routed == nullptr ? nullptr : std::get_if<ipc::route::Resolved>(&routed->answer);
      if (resolved != nullptr)
        if (auto wait = around_.options.egress->show(tenant, sender, *resolved, around_.now()))
          routed->answer = ipc::route::Unroutable{*std::move(wait)};
      then(routed);
    };
  looked_up_[request] = std::move(then);
  around_.ports.route({.request = request, .recipient = recipient, .sender = sender, .flushed = true});
  return request;
}

void RouteRequests::routed(ipc::route::Routed& answer) {
  if (const auto tool = looked_up_.find(answer.request); tool != looked_up_.end()) {
    const LookedUp then = std::move(tool->second);
    looked_up_.erase(tool);
    then(&answer);
    return;
  }
  const auto it = asked_.find(answer.request);
  if (it == asked_.end()) return;  // asked again meanwhile
  const auto [number, ordinal] = it->second;
  asked_.erase(it);
  deaths_.erase({number, ordinal});
  Active& m = active_.at(number);
  if (auto* resolved = std::get_if<ipc::route::Resolved>(&answer.answer)) {
    if (may_be_option(resolved->recipient)) return unroutable(m, ordinal, bad_syntax());
    if (!resolved->recipient.empty() && resolved->recipient != m.envelope().recipients[ordinal].address) {
      m.rare().rewritten[ordinal] = resolved->recipient;
    }
    if (resolved->recipient.empty()) resolved->recipient = m.envelope().recipients[ordinal].address;
    if (m.envelope().purpose != mail::Purpose::verification)
      cache_.add(m.envelope().recipients[ordinal].address, *resolved, around_.clock.now());
    Sharing sharing = m.envelope().verp.empty() ? Sharing::all : Sharing::alone;
    if (!resolved->sender.empty()) {
      // The same for all of the message but for the day, and a day more or less does no harm.
      m.rare().rewritten_sender = std::move(resolved->sender);
      sharing = Sharing::rewritten;
    }
    return take(m, ordinal, *resolved, sharing);
  }
  unroutable(m, ordinal, std::get<ipc::route::Unroutable>(answer.answer).status);
}

void RouteRequests::lost(std::uint64_t last_sent) {
  cache_.clear();
  while (!looked_up_.empty() && looked_up_.begin()->first <= last_sent) {
    const LookedUp then = std::move(looked_up_.begin()->second);
    looked_up_.erase(looked_up_.begin());
    then(nullptr);
  }
  std::vector<std::pair<std::uint64_t, Asked>> lost;
  for (const auto& asked : asked_) {
    if (asked.first <= last_sent) lost.emplace_back(asked);
  }
  std::sort(lost.begin(), lost.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& asked : lost) asked_.erase(asked.first);
  for (const auto& [request, asked] : lost) {
    const std::uint8_t deaths = ++deaths_[{asked.message, asked.ordinal}];
    if (deaths >= kDeathsHeld)
      give_up(asked, deaths);
    else
      around_.scheduler.route_lost(asked.message, asked.ordinal, deaths >= kDeathsAlone);
  }
}

void RouteRequests::give_up(const Asked& asked, std::uint8_t deaths) {
  deaths_.erase({asked.message, asked.ordinal});
  Active& m = active_.at(asked.message);
  log::error("{}: looking up <{}> ended trivial-rewrite {} times; it is asked no more", m.id(),
             m.envelope().recipients[asked.ordinal].address, deaths);
  around_.scheduler.unroutable(asked.message, asked.ordinal);
  if (mail::is_probe(m.envelope().purpose)) {
    const auto status = mail::make_status(mail::Action::deferred, "4.3.0", "given up: the look-up ends its program");
    rounds_.log_undelivered(m, {asked.ordinal}, status);
    rounds_.deferred(m, {asked.ordinal}, status);
    return;
  }
  rounds_.deferred(m, {asked.ordinal},
                   mail::make_status(mail::Action::deferred, "4.3.0", "held: look-up ends its program"));
  rounds_.end_by_order(m, Active::Order::hold);
}

}  // namespace pen::qmgr
