#include "lib/queue/views/story.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/base/date.h"
#include "lib/base/text.h"
#include "lib/queue/views/limits.h"

namespace pen::views {

using ipc::destinations::Class;
using ipc::destinations::Explained;
using ipc::destinations::Limit;
using ipc::destinations::Rule;
using ipc::queue::Entry;
using ipc::queue::EntryRecipient;
using ipc::queue::Place;

namespace {

std::string long_time(seconds time) {
  const auto n = time.count();
  if (n < 120) return fmt::format("{} s", n);
  if (n < 7200) return fmt::format("{} min", n / 60);
  if (n < 172'800) return fmt::format("{} h {} min", n / 3600, n / 60 % 60);
  return fmt::format("{} days {} h", n / 86'400, n / 3600 % 24);
}

std::string at_time(WallTime then, WallTime now) {
  const auto left = std::chrono::ceil<seconds>(then - now);
  return left.count() > 0 ? fmt::format("at {} (in {})", local_text(then), long_time(left)) : "now";
}

/// Everything that is known of one recipient.
struct Case {
  const Entry& message;
  const EntryRecipient& recipient;
  const Route* route;  // nullptr: not asked
  WallTime now;
  RecipientStory& story;
};

void orders_for_host(const Case& c, const Seen& host) {
  c.story.orders.push_back("pendest show '" + order_name(host.entry.shown) + "'    everything known of the host");
}

/// The name that `pendest resume` takes, out of "delivery to NAME is suspended…".
std::string suspended_name(const std::string& text) {
  constexpr std::string_view kLead = "delivery to ", kEnd = " is suspended";
  const auto end = text.find(kEnd);
  if (!text.starts_with(kLead) || end == std::string::npos) return {};
  return text.substr(kLead.size(), end - kLead.size());
}

void suspended(const Case& c, const std::string& why) {
  c.story.cause = Cause::suspended;
  c.story.why = "Mail waits by order or by a setting: " + why + ".";
  c.story.next = "Nothing is sent there before that ends; then the message's next try delivers it.";
  c.story.at.reset();
  if (const std::string name = suspended_name(why); !name.empty())
    c.story.orders.push_back("pendest resume '" + name + "'    if it was suspended by hand");
  c.story.orders.emplace_back("penconf defer_destinations    if a setting names it");
}

/// No host can be tried now, or each has failed and is due.
bool failing(const Case& c) {
  const auto& hosts = c.route->hosts;
  const bool all = !hosts.empty() && std::ranges::all_of(hosts, [](const Seen& d) { return d.facts.failures > 0; });
  if (!all) return false;
  const Seen& first = *std::ranges::min_element(hosts, {}, [](const Seen& d) { return d.facts.next_retry; });
  std::string names;
  for (const Seen& d : hosts) {
    if (!names.empty()) names += ", ";
    names += fmt::format("{} ({} failures in a row: {})", d.entry.shown, d.facts.failures,
                         d.facts.reason.empty() ? trouble_word(d.facts.trouble) : std::string_view(d.facts.reason));
  }
  c.story.cause = Cause::host_failing;
  c.story.why = fmt::format("{} cannot be used: {}.", hosts.size() == 1 ? "Its host" : "None of its hosts", names);
  const WallTime host = std::max(first.facts.next_retry, c.now);
  c.story.at = c.story.at ? std::max(*c.story.at, host) : host;
  c.story.next = fmt::format("{} may be tried again {}; one message goes first, the others follow if it is taken.",
                             first.entry.shown, at_time(first.facts.next_retry, c.now));
  orders_for_host(c, first);
  c.story.orders.push_back("pendest forget '" + order_name(first.entry.shown) +
                           "'    forgive it, so that the next try is at once");
  c.story.orders.push_back("penstock doctor --probe '" + first.entry.shown.substr(0, first.entry.shown.find('[')) +
                           "'    is it reached from here?");
  return true;
}

void orders_for_limit(const Case& c, const Limit& l) {
  const std::string& group = l.group;
  if (!group.empty()) {
    c.story.orders.push_back("pendest show '" + group + "'    the limit, and what complained");
    if (l.complaints > 0 || l.held.count() > 0)
      c.story.orders.push_back("pendest forget '" + group + "'    forget what was learned of it");
    if (!l.ordered.empty()) c.story.orders.push_back("pendest rate '" + group + "' none    end the order");
  }
  if (group.empty() && !l.name.empty()) c.story.orders.push_back("pendest show '" + l.name + "'    the limit");
  if (!l.set.empty() || (l.connections > 0 && l.complaints == 0))
    c.story.orders.push_back("penconf delivery_limit_maps " + c.route->explained.transport +
                             "_destination_rate_limit default_destination_rate_limit    what is set");
}

/// A limit lets nothing through, or others wait at it already.
bool limited(const Case& c, bool rests) {
  const Explained& e = c.route->explained;
  const auto& hosts = c.route->hosts;
  const auto [l, quota] = limit_that_holds(
      e.limits, e.quotas, {c.message.sender, hosts.empty() ? std::string() : hosts.front().entry.source});
  if (l == nullptr || (l->held.count() > 0 || quota != nullptr) != rests) return false;
  RecipientStory& s = c.story;
  s.cause = Cause::limited;
  const std::string subject = limit_subject(*l), bounds = limit_bounds(*l);
  if (quota != nullptr) {
    const WallTime then = c.now + std::chrono::duration_cast<microseconds>(quota->opens);
    s.why = fmt::format("{} gets {}, and has had all of {}.", subject, bounds, quota->rate);
    s.next = fmt::format("The next may be sent there {}{}.", at_time(then, c.now),
                         l->waiting > 0 ? "; those that wait take turns" : "");
    s.at = s.at ? std::max(*s.at, then) : then;
  } else if (rests) {
    const WallTime then = c.now + std::chrono::duration_cast<microseconds>(l->held);
    s.why = fmt::format("{} rests after a complaint: nothing is sent there{}.", subject,
                        l->rule.empty() ? "" : ", by rule " + l->rule);
    s.next = fmt::format("It may be sent again {}{}.", at_time(then, c.now), bounds.empty() ? "" : ", " + bounds);
    s.at = s.at ? std::max(*s.at, then) : then;
  } else {
    s.why = fmt::format("{} gets {}, and {} {} for that.", subject, bounds.empty() ? "so much only" : bounds,
                        l->waiting, l->waiting == 1 ? "job waits" : "jobs wait");
    s.next = s.at ? "It is offered again " + at_time(*s.at, c.now) + ", and takes its turn then."
                  : "It is sent when its turn comes: senders take turns.";
    if (!l->rule.empty()) s.why += " The limit was learned from a complaint, by rule " + l->rule + ".";
  }
  if (!l->reason.empty() && quota == nullptr) s.why += " The complaint was: " + l->reason;
  orders_for_limit(c, *l);
  return true;
}

bool held_up(const Case& c) {
  const Explained& e = c.route->explained;
  for (const Seen& d : c.route->hosts) {
    if (d.entry.in_line) {
      c.story.cause = Cause::class_full;
      c.story.why = fmt::format("All sessions of class {} are in use, and {} stands in line for one.",
                                d.entry.session_class, d.entry.shown);
      c.story.next = "It is sent when a session of that class ends.";
      c.story.orders.emplace_back("penstock status    the classes with their counts");
      return true;
    }
    if (d.entry.paused.count() > 0) {
      const WallTime then = c.now + std::chrono::duration_cast<microseconds>(d.entry.paused);
      c.story.cause = Cause::rate_limited;
      c.story.why = fmt::format("The rate delay of {} is {:g} s between two deliveries, and others come first.",
                                e.transport, static_cast<double>(e.rate_delay.count()) / 1000);
      c.story.next = "The next delivery to " + d.entry.shown + " is allowed " + at_time(then, c.now) + ".";
      c.story.at = c.story.at ? std::max(*c.story.at, then) : then;
      c.story.orders.push_back("penconf " + e.transport + "_destination_rate_delay default_destination_rate_delay");
      return true;
    }
  }
  if (limited(c, false)) return true;
  if (e.rule != Rule::wait && e.rule != Rule::ride) return false;
  c.story.cause = Cause::busy;
  std::string used;
  for (const Seen& d : c.route->hosts)
    used += fmt::format("{}{}: {} connections with {} jobs, limit {}", used.empty() ? "" : "; ", d.entry.shown,
                        d.entry.connections, d.entry.in_hand + d.entry.waiting, d.entry.limit);
  c.story.why = fmt::format("As many connections as may be are in use{}{}.", used.empty() ? "" : ": ", used);
  c.story.next = "It is sent over the next one that has room.";
  c.story.orders.push_back("penconf " + e.transport + "_destination_concurrency_limit    and maxproc in master.cf");
  return true;
}

void with_route(const Case& c) {
  const Explained& e = c.route->explained;
  RecipientStory& s = c.story;
  if (e.rule == Rule::unroutable && e.text.starts_with("no source of pool ")) {  // qmgr/egress.cc
    s.cause = Cause::no_source;
    s.why = "No source may send it now: " + e.text + ".";
    s.next = s.at ? "It is offered again " + at_time(*s.at, c.now) + "." : "It is put off until one may.";
    s.orders.emplace_back("pendest sources    blocks, rests and warm-up of each");
    return;
  }
  if (e.rule == Rule::unroutable) {
    s.cause = Cause::no_route;
    s.why = "Nobody can say where it goes: " + e.status + (e.status.empty() ? "" : " ") + e.text + ".";
    s.next = e.status.starts_with('5') ? "At its next try it is returned to the sender."
                                       : "It is asked for again at the message's next try.";
    s.orders.emplace_back("penstock doctor    do the name servers answer?");
    s.orders.emplace_back("penconf transport_maps relayhost    if it should go another way");
    return;
  }
  s.destination = e.transport + ":" + e.nexthop;
  if (!e.suspended.empty()) return suspended(c, e.suspended);
  if (!e.transport_up) {
    s.cause = Cause::program_down;
    s.why = "The program of transport " + e.transport + " cannot be reached.";
    s.next = "It is sent as soon as the program runs again.";
    s.orders.emplace_back("penstock status    and the log: why does it not run?");
    return;
  }
  const auto& hosts = c.route->hosts;
  const auto kept = std::ranges::find_if(hosts, [](const Seen& d) { return !d.entry.suspended.empty(); });
  if (e.rule == Rule::nothing && kept != hosts.end() &&
      std::ranges::none_of(hosts, [](const Seen& d) { return d.entry.suspended.empty() && d.facts.failures == 0; }))
    return suspended(c, kept->entry.suspended);
  if (limited(c, true) || failing(c) || held_up(c)) return;
  const auto chosen = std::ranges::find_if(hosts, [](const Seen& d) { return d.entry.chosen; });
  const std::string to = chosen == hosts.end() ? s.destination : chosen->entry.shown;
  if (c.message.place != Place::deferred) {
    s.cause = Cause::delivering;
    s.why = "Nothing holds it up: it is with the delivery program, or comes to it in a moment.";
    s.next = "It goes to " + to + ".";
    return;
  }
  s.next = s.at ? "It is offered again " + at_time(*s.at, c.now) + ", to " + to + "." : "It is offered to " + to + ".";
  if (c.recipient.delay_reason.empty() && c.message.share_waits > 0 && c.message.tenant.empty()) {
    s.cause = Cause::waits_for_share;
    s.why = fmt::format(
        "Mail that is as little urgent has its share of the active set, and {} such messages wait for "
        "room there.",
        c.message.share_waits);
    s.next = "It is begun when one of them is through, at the latest " + at_time(*s.at, c.now) + ".";
    s.orders.emplace_back("penconf message_priority");
    return;
  }
  if (c.recipient.delay_reason.empty() && c.message.share_waits > 0) {
    s.cause = Cause::waits_for_share;
    s.why = fmt::format("Its tenant has its share of the active set, and {} of its messages wait for room there.",
                        c.message.share_waits);
    s.next = "It is begun when one of its tenant's messages is through, at the latest " + at_time(*s.at, c.now) + ".";
    s.orders.emplace_back("penconf tenant_active_share");
    return;
  }
  if (c.recipient.delay_reason.empty()) {
    s.cause = Cause::next_try;
    s.why = "Nothing was said against it; it waits for the message's next try.";
    return;
  }
  s.cause = Cause::put_off_by_host;
  s.why = "At the last try it was put off; the destination itself can be used.";
  if (chosen != hosts.end()) orders_for_host(c, *chosen);
}

void judge(const Case& c) {
  RecipientStory& s = c.story;
  s.address = c.recipient.address;
  s.said = c.recipient.delay_reason;
  switch (c.message.place) {
    case Place::hold:
      s.cause = Cause::on_hold;
      s.why = "The message is on hold.";
      s.next = "Nothing happens before it is released.";
      return;
    case Place::maildrop:
      s.cause = Cause::maildrop;
      s.why = "The message was submitted here, and is not taken into the queue yet.";
      s.next = "pickup takes it in a moment.";
      return;
    case Place::deferred:
      s.at = c.message.next_try;
      if (c.message.release > c.now) {
        s.cause = Cause::waits_for_time;
        s.at = c.message.release;
        s.why = "Its sender asked for it to be sent later (docs/priorities.md).";
        s.next = "It is sent " + at_time(*s.at, c.now) + ", and not by a flush of the queue.";
        s.orders.emplace_back("penqueue -i " + c.message.queue_id + "    sends it now");
        return;
      }
      break;
    case Place::incoming:
    case Place::active:
      break;
  }
  if (c.route != nullptr && c.route->unknown.empty()) return with_route(c);
  s.cause = c.message.place != Place::deferred ? Cause::delivering
            : s.said.empty()                   ? Cause::unknown
                                               : Cause::put_off_by_host;
  s.why =
      c.route == nullptr ? "Its destination was not asked for." : "Its destination is not known: " + c.route->unknown;
  if (s.at) s.next = "It is tried again " + at_time(*s.at, c.now) + ".";
}

std::string where(const Entry& m, WallTime now) {
  std::string text;
  switch (m.place) {
    case Place::hold:
      text = "It is on hold, until an administrator releases it.";
      break;
    case Place::maildrop:
      text = "It was submitted on this host, and waits for pickup.";
      break;
    case Place::deferred:
      text = "It waits in the queue, and is tried again " + at_time(m.next_try, now) + ".";
      break;
    case Place::incoming:
    case Place::active:
      text = "It is being worked on.";
      break;
  }
  if (m.forced_expire) text += " By an order it goes back to its sender after that try.";
  if (!m.fault.empty()) text += " It is damaged: " + m.fault + ".";
  return text;
}

void message_orders(const Entry& m, Story& story) {
  const auto& id = m.queue_id;
  if (m.place == Place::maildrop) return;
  if (m.place == Place::hold)
    story.orders.push_back("pensuper -H " + id + "    release it");
  else if (m.place == Place::deferred)
    story.orders.push_back("penqueue -i " + id + "    try it now");
  if (m.place != Place::hold) story.orders.push_back("pensuper -h " + id + "    put it on hold");
  story.orders.push_back("pensuper -f " + id + "    return it to its sender after one more try");
  story.orders.push_back("pensuper -d " + id + "    delete it");
  story.orders.push_back("pencat -q " + id + "    look at it");
  story.orders.push_back("penqueue --follow " + id + "    watch it go");
}

}  // namespace

std::string_view cause_word(Cause cause) {
  static constexpr std::string_view kWords[] = {
      "on_hold",         "maildrop",       "delivering",      "no_route",     "no_source",  "suspended",
      "program_down",    "host_failing",   "limited",         "rate_limited", "class_full", "busy",
      "waits_for_share", "waits_for_time", "put_off_by_host", "next_try",     "returned",   "unknown"};
  const auto i = static_cast<std::size_t>(cause);
  return i < std::size(kWords) ? kWords[i] : "unknown";
}

Story tell(const Entry& m, const std::map<std::string, Route>& routes, Lifetimes lifetimes, WallTime now,
           std::size_t most) {
  Story story;
  story.queue_id = m.queue_id;
  story.place = m.place;
  story.where = where(m, now);
  if (m.place == Place::deferred) story.next_try = m.next_try;
  if (m.place != Place::hold && m.place != Place::maildrop)
    story.ends = m.arrival + (m.sender.empty() ? lifetimes.notice : lifetimes.message);
  for (const EntryRecipient& r : m.recipients) {
    if (story.recipients.size() >= most) break;
    const auto route = routes.find(r.address);
    judge({m, r, route == routes.end() ? nullptr : &route->second, now, story.recipients.emplace_back()});
  }
  for (const auto& r : m.bounced) {
    if (story.recipients.size() >= most) break;
    story.recipients.push_back({.address = r.address,
                                .cause = Cause::returned,
                                .why = "It could not be delivered.",
                                .said = r.reason,
                                .destination = {},
                                .sender = {},
                                .at = {},
                                .next = "The sender is told of it.",
                                .orders = {}});
  }
  story.left_out = m.recipients.size() + m.bounced.size() - story.recipients.size();
  message_orders(m, story);
  return story;
}

std::string text_of(const Story& story, WallTime now) {
  std::string out = story.queue_id + "\n  " + printable(story.where, 2000) + "\n";
  if (story.ends)
    out += fmt::format("  What is left of it then goes back to its sender {}.\n", at_time(*story.ends, now));
  for (const RecipientStory& r : story.recipients) {
    out += "\n<" + printable(r.address, 1000) + ">";
    if (!r.destination.empty()) out += "  by " + printable(r.destination, 500);
    if (!r.sender.empty()) out += "\n  from  " + printable(r.sender, 1000) + " (SRS: it is forwarded)";
    out += "\n  why   " + printable(r.why, 2000) + "\n";
    if (!r.said.empty()) out += "  said  " + printable(r.said, 2000) + "\n";
    if (!r.next.empty()) out += "  next  " + printable(r.next, 2000) + "\n";
    for (const std::string& order : r.orders) out += "  do    " + printable(order, 500) + "\n";
  }
  if (story.left_out > 0) out += fmt::format("\nand {} more recipients\n", story.left_out);
  if (!story.orders.empty()) out += "\n";
  for (const std::string& order : story.orders) out += "do      " + printable(order, 500) + "\n";
  return out;
}

nlohmann::ordered_json to_json(const Story& story) {
  nlohmann::ordered_json j = {
      {"queue_id", story.queue_id}, {"state", ipc::queue::name_of(story.place)}, {"where", story.where}};
  if (story.next_try) j["next_try"] = unix_seconds(*story.next_try);
  if (story.ends) j["returned_at"] = unix_seconds(*story.ends);
  auto& recipients = j["recipients"] = nlohmann::ordered_json::array();
  for (const RecipientStory& r : story.recipients) {
    nlohmann::ordered_json one = {{"address", r.address}, {"cause", cause_word(r.cause)}, {"why", r.why}};
    if (!r.said.empty()) one["said"] = r.said;
    if (!r.destination.empty()) one["destination"] = r.destination;
    if (!r.sender.empty()) one["rewritten_sender"] = r.sender;
    if (r.at) one["at"] = unix_seconds(*r.at);
    if (!r.next.empty()) one["next"] = r.next;
    if (!r.orders.empty()) one["orders"] = r.orders;
    recipients.push_back(std::move(one));
  }
  if (story.left_out > 0) j["recipients_left_out"] = story.left_out;
  j["orders"] = story.orders;
  return j;
}

}  // namespace pen::views
