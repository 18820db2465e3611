/// What follows from a reply that complains of something (shaping.h).
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "lib/base/text.h"
#include "lib/mail/stated_delay.h"
#include "lib/queue/shaping/repeated.h"
#include "qmgr/scheduler/cluster.h"
#include "qmgr/scheduler/destination.h"
#include "qmgr/scheduler/shaping.h"

namespace pen::qmgr::scheduler {

using shaping::Class;
using shaping::Rule;
using shaping::Scope;
using Mode = ShapingOptions::Mode;

namespace {
// A peer's words are kept and logged only so long.
constexpr std::size_t kMaxReason = 200;
constexpr std::size_t kMaxResting = 10'000, kMaxTold = 10'000;

/// What a rule does, for the log.
std::string of_rule(const Rule& rule, std::string_view words) {
  return fmt::format("rule {} ({} of {}): {}", rule.name, shaping::word(rule.cls), shaping::word(rule.scope),
                     printable(words, kMaxReason));
}
}  // namespace

bool Shaping::tell_again(const std::string& what) {
  const auto at = told_.find(what);
  if (at != told_.end() && at->second + kTellAgain > clock_.now) return false;
  if (at == told_.end() && told_.size() >= kMaxTold) told_.erase(told_.begin());
  told_[what] = clock_.now;
  return true;
}

Gate* Shaping::gate_for(const Cluster& c, Scope scope, const Message* message, std::string_view source) {
  Group& g = *c.group;
  if (scope == Scope::provider) return &g.all;
  if (shaping::of_domain(scope) && message != nullptr) {
    const bool signs = scope == Scope::signing_domain;
    Sender* const s = signs ? signer_of(*message) : message->sender;
    if (Flow* const f = flow_of(s, g)) {
      Flow::Side& side = signs ? f->signs : f->sends;
      return side.gate ? side.gate.get() : &make_gate(*f, side, *s);
    }
  }
  return &source_gate(g, source);
}

std::optional<ComplaintVerdict> Shaping::complained(const Cluster& cluster, Destination& from, const Message* message,
                                                    std::string_view source, const MailAddresses& of,
                                                    const mail::DeliveryStatus& status, const Ceilings& ceilings) {
  if (!on() || options_.shaping->mode == Mode::no || cluster.group == nullptr) return std::nullopt;
  const std::string_view words = mail::peers_words(status);
  if (words.empty()) return std::nullopt;
  const shaping::Reply reply = shaping::own_words(words, std::array{of.recipient, of.original, of.sender});
  const Rule* const rule = options_.shaping->rules.classify(cluster.group->provider, reply);
  if (rule == nullptr || rule->cls == Class::none) return std::nullopt;
  const Sender* const sender = message == nullptr                     ? nullptr
                               : rule->scope == Scope::signing_domain ? signer_of(*message)
                                                                      : message->sender;
  const std::string who = sender == nullptr || sender->domain.empty() ? "mail without a sender" : sender->domain;
  if (rule->cls == Class::configuration) {
    if (tell_again(who + ' ' + rule->name))
      tell(true, fmt::format("shaping: {} complains of how {} is set up, which no rate mends: {}", cluster.group->name,
                             who, of_rule(*rule, words)));
    return ComplaintVerdict{rule->cls, false};
  }
  // At a close with nothing in hand the sender is not known; where there was one, the result of its mail said so.
  if (shaping::of_domain(rule->scope) && sender == nullptr) return std::nullopt;
  const std::optional<seconds> stated = mail::stated_delay(reply.words);
  const std::optional<seconds> pause = stated ? stated : rule->pause;
  const bool refused = status.action == mail::Action::failed;
  if (options_.shaping->mode == Mode::observe) {
    if (tell_again(cluster.group->name + ' ' + who + ' ' + rule->name))
      tell(false, fmt::format("shaping = observe: {} to {} would go slower{}: {}", who, cluster.group->name,
                              refused ? ", and wait instead of going back" : "", of_rule(*rule, words)));
    return ComplaintVerdict{rule->cls, false};
  }
  Gate* const g = gate_for(cluster, rule->scope, message, source);
  ComplaintVerdict verdict{rule->cls, refused};
  switch (rule->cls) {
    case Class::rate:
    case Class::reputation:
    case Class::block:
      complained_of_rate(*g, *rule, words, pause,
                         g->delivered.count(clock_.now) * (together(*g) != nullptr ? hosts() : 1),
                         rule->cls != Class::block);
      verdict.rests = true;
      if (rule->cls == Class::block && rule->scope == Scope::source)
        verdict.blocked = std::chrono::ceil<seconds>(g->learned.held_until - clock_.wall);
      break;
    case Class::connections:
      complained_of_connections(cluster, from, source, *rule, pause, ceilings);
      break;
    case Class::recipient: {
      if (of.recipient.empty()) break;
      if (resting_recipients_.size() >= kMaxResting) resting_recipients_.erase(resting_recipients_.begin());
      resting_recipients_[to_lower(of.recipient)] = clock_.now + pause.value_or(options_.shaping->pace.pause);
      break;
    }
    case Class::messages:  // ceilings.h learns that from the close
    case Class::none:
    case Class::configuration:
      break;
  }
  return verdict;
}

void Shaping::tell_rules(const Cluster& cluster, HandJob& job) const {
  job.shaped = options_.shaping->mode == Mode::yes && cluster.group != nullptr;
  if (job.shaped && cluster.group->provider != nullptr) job.provider = cluster.group->provider->name;
}

void Shaping::complained_of_rate(Gate& g, const Rule& rule, std::string_view words, std::optional<seconds> pause,
                                 std::uint64_t last_minute, bool slows) {
  const auto& pace = options_.shaping->pace;
  const bool resting = shaping::held(g.learned, clock_.wall);
  const shaping::Rate before = g.bucket.rate();
  g.learned.reason = printable(words, kMaxReason);
  g.learned.rule = rule.name;
  if (slows) {
    shaping::complain(g.learned, pace, clock_.wall, {last_minute, std::exchange(g.took, false)}, pause);
  } else {
    g.learned.block = g.learned.reason;
    shaping::hold(g.learned, pace, clock_.wall, pause);
  }
  learned_changed(g);
  keep(g);
  g.rose = clock_.now;
  g.since_rise = 0;
  if (g.waiting > 0) set_waking(g);
  if (resting) return;  // of what was under way: it is reported already
  const auto rest = std::chrono::ceil<seconds>(g.learned.held_until - clock_.wall);
  if (slows)
    tell(false, fmt::format("shaping: {} rests for {} s, then gets {}{}: {}", shown(g), rest.count(),
                            shaping::to_string(g.bucket.rate()),
                            before.limits() ? " (was " + shaping::to_string(before) + ")" : "", of_rule(rule, words)));
  else
    tell(true, fmt::format("shaping: {} takes nothing: its mail waits for {} s: {}", shown(g), rest.count(),
                           of_rule(rule, words)));
}

bool Shaping::of_one_that_left(Group& g) const {
  // The receiver may still count a connection that we have closed when the next one comes. This excuses once in a
  // while: connections that end after each message would excuse everything.
  constexpr seconds kLeaves{2}, kTogether{1}, kAgain{60};
  if (g.left == SteadyTime{} || clock_.now - g.left > kLeaves) return false;
  if (g.excused != SteadyTime{} && clock_.now - g.excused < kAgain) return clock_.now - g.excused <= kTogether;
  g.excused = clock_.now;
  return true;
}

void Shaping::complained_of_connections(const Cluster& c, Destination& from, std::string_view source, const Rule& rule,
                                        std::optional<seconds> pause, const Ceilings& ceilings) {
  if (rule.scope == Scope::host || from.provider == nullptr) {
    if (from.holding > 1) ceilings.refused_one_more(from);
    return;
  }
  Gate& g = source_gate(*c.group, source);
  shaping::Learned& l = g.learned;
  const std::uint32_t has = std::max(from.provider->holding, 1U);
  if (l.connections > 0 && has <= l.connections && of_one_that_left(*from.provider)) return;
  // Connections that were being opened at the same time are refused for the same reason.
  if (l.connections == 0 || clock_.wall >= l.connections_until || has <= l.connections) {
    const std::uint32_t bears = l.connections > 0 && has > l.connections ? l.connections : std::max(1U, has - 1);
    if (bears != l.connections)
      tell(false, fmt::format("shaping: {} gets at most {} connections: {}", shown(g), bears, of_rule(rule, "")));
    l.connections = bears;
    l.connections_until = clock_.wall + std::max(pause.value_or(seconds(0)), options_.ceiling_time);
    l.rule = rule.name;
    keep(g);
  }
}

seconds Shaping::recipient_rests(std::string_view recipient) {
  if (resting_recipients_.empty()) return seconds(0);
  const auto at = resting_recipients_.find(to_lower(recipient));
  if (at == resting_recipients_.end() || at->second <= clock_.now) return seconds(0);
  return std::chrono::ceil<seconds>(at->second - clock_.now);
}

mail::DeliveryStatus Shaping::resting_recipient(seconds rest) {
  return mail::make_status(
      mail::Action::deferred, "4.2.1",
      fmt::format("the recipient's host finds that too much comes for him: try again in {} seconds", rest.count()));
}

}  // namespace pen::qmgr::scheduler
