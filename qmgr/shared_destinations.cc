#include "qmgr/shared_destinations.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "qmgr/manager.h"

namespace pen::qmgr {

using redis::RedisError;
using redis::Reply;

namespace {

constexpr std::size_t kMaxPlainKey = 200;                           // longer ones are cut, and told apart by a hash
constexpr milliseconds kFactsKeptFor = std::chrono::hours(24 * 7);  // as DestDb keeps what is not used
constexpr std::chrono::hours kFewerFor{1};                          // hosts that restart are missed for less

std::vector<std::vector<std::string>> greeting(const SharedDestinations::Options& o) {
  const auto text = [](std::string_view script) { return std::string(script); };
  std::vector<std::vector<std::string>> words{
      {"SCRIPT", "LOAD", text(destdb::kLeaseScript)},
      {"SCRIPT", "LOAD", text(destdb::kFactsScript)},
      {"SCRIPT", "LOAD", text(destdb::kHostScript)},
      // Writes: a server that cannot be written is of no use.
      {"EVAL", text(destdb::kHostScript), "1", o.prefix + "hosts", o.instance, std::to_string(o.lease.count())}};
  for (auto& more : ClusterRates::scripts()) words.push_back(std::move(more));
  return words;
}

/// Of a cluster, which has at least this host and no more than anybody runs.
std::uint32_t hosts_in(std::uint64_t said) {
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(said, 1, 10'000));
}

}  // namespace

SharedDestinations::SharedDestinations(async::Loop& loop, Options options, destdb::DestDb& own)
    : loop_(loop),
      options_(std::move(options)),
      own_(own),
      sharing_({.lease = options_.lease}),
      client_(loop, options_.client,
              {.greeting = greeting(options_),
               .up = [this](const std::vector<Reply>& greeted) { went_up(greeted); },
               .down = [this](const Error& why) { went_down(why); }}),
      rates_(client_, {.name = [this](const std::string& key) { return name_of('r', key); },
                       .give_up = [this](Error why) { client_.give_up(std::move(why)); },
                       .wake = [this] { wake(); }}) {}

SharedDestinations::~SharedDestinations() = default;

void SharedDestinations::start(Manager& manager) {
  manager_ = &manager;
  if (const auto noted = own_.notes().find(kHostsNote); noted != own_.notes().end()) {
    noted_hosts_ = hosts_in(parse_unsigned(noted->second).value_or(1));
    rates_.rates().set_hosts(noted_hosts_);
  }
  since_ = loop_.clock().wall_now();
  why_down_ = "not reached yet";
  client_.start();
}

void SharedDestinations::went_up(const std::vector<Reply>& greeted) {
  constexpr std::size_t kOwn = 4;
  const bool whole = greeted.size() == kOwn + ClusterRates::kScripts;
  const auto lease = whole ? redis::script_name(greeted[0]) : std::nullopt;
  const auto facts = lease ? redis::script_name(greeted[1]) : std::nullopt;
  const auto host = facts ? redis::script_name(greeted[2]) : std::nullopt;
  const auto hosts = host ? number_reply(greeted[3]) : std::nullopt;
  if (!hosts || !rates_.went_up(std::span(greeted).subspan(kOwn), hosts_in(*hosts), loop_.clock().now())) {
    client_.give_up(Error(RedisError::malformed, "SCRIPT LOAD"));
    return;
  }
  lease_script_ = *lease;
  facts_script_ = *facts;
  host_script_ = *host;
  heard_hosts(*hosts);
  const WallTime now = loop_.clock().wall_now();
  if (ever_up_ || !why_down_.empty()) {
    log::info("destination database: shared through {}{}", client_.server().text(),
              ever_up_ ? fmt::format(" again, after {} s", std::chrono::round<seconds>(now - since_).count())
                       : fmt::format(" as {}, {} hosts", options_.instance, hosts_));
  }
  ever_up_ = true;
  since_ = now;
  why_down_.clear();
  alive_again_ = loop_.now() + options_.lease / 3;
  set_time();
  sharing_.up();
  wake();
}

void SharedDestinations::went_down(const Error& why) {
  if (leaving_) return;
  since_ = loop_.clock().wall_now();
  why_down_ = why.message();
  log::warning(
      "destination database: {}; until it is back this host goes by its own knowledge, and the "
      "concurrency limits of destinations hold for it alone",
      why_down_);
  alive_again_ = kNever;
  set_time();
  sharing_.down();
  rates_.rates().down();
  wake();
}

bool SharedDestinations::shares(std::string_view address) const {
  if (address.empty()) return false;
  const auto excepted = options_.unshared.matches_address(address);
  return excepted && !*excepted;
}

void SharedDestinations::put(std::string_view key, const destdb::Facts& facts) {
  own_.put(key, facts);
  set_time();
  const bool own_trouble =
      facts.failures > 0 && facts.trouble == static_cast<std::uint8_t>(ipc::delivery::Trouble::local);
  sharing_.changed(key, facts, own_trouble);
  wake();
}

void SharedDestinations::doubted(std::string_view key, std::string_view address, const destdb::Facts& facts) {
  if (!sharing_.is_up() || !shares(address)) return;
  set_time();
  sharing_.doubted(key, facts);
  wake();
}

bool SharedDestinations::ask_share(ConnectionNumber connection, const std::string& key, std::uint32_t limit,
                                   const std::string& address) {
  if (leaving_ || !shares(address)) return false;
  const auto known = own_.find(key);
  set_time();
  sharing_.want(connection, key, limit, known ? &*known : nullptr);
  wake();
  return true;
}

void SharedDestinations::gone(ConnectionNumber connection) {
  set_time();
  sharing_.gone(connection);
  wake();
}

void SharedDestinations::forgotten(const std::string& key) {
  set_time();
  sharing_.forgotten(key);
  wake();
}

void SharedDestinations::wake() {
  if (woken_) return;
  woken_ = true;
  loop_.post([this] {
    woken_ = false;
    run();
  });
}

void SharedDestinations::run() {
  set_time();
  rates_.rates().set_time(loop_.clock().now());
  sharing_.tick();
  if (alive_again_ <= loop_.clock().now()) say_that_we_live();
  auto effects = sharing_.take_effects();
  for (auto& effect : effects) carry_out(effect);
  if (!leaving_)  // nothing is said after the farewell
    for (const auto& request : sharing_.take_requests()) send(request);
  if (!leaving_) rates_.run(loop_.clock().now());
  for (const auto& effect : rates_.rates().take_effects()) carry_out(effect);
  const SteadyTime at = std::min({sharing_.next_wake(), rates_.rates().next_wake(), alive_again_});
  if (at == timer_at_) return;
  timer_at_ = at;
  timer_.reset();
  if (at == kNever) return;
  timer_ = loop_.call_at(at, [this] {
    timer_at_ = kNever;
    wake();
  });
}

void SharedDestinations::carry_out(destdb::ClusterSharing::Effect& effect) {
  auto event = manager_->event();
  if (const auto* open = std::get_if<destdb::ClusterSharing::Open>(&effect)) {
    event->connections.share_answer(open->connection, true);
  } else if (const auto* refuse = std::get_if<destdb::ClusterSharing::Refuse>(&effect)) {
    event->connections.share_answer(refuse->connection, false);
  } else if (const auto* heard = std::get_if<destdb::ClusterSharing::Elsewhere>(&effect)) {
    event->scheduler.elsewhere(heard->key, heard->connections);
  } else if (const auto* learned = std::get_if<destdb::ClusterSharing::Learned>(&effect)) {
    own_.put(learned->key, learned->facts);
    event->scheduler.learned(learned->key, learned->facts);
  } else if (const auto* again = std::get_if<destdb::ClusterSharing::LookAgain>(&effect)) {
    event->scheduler.look_again(again->key);
  } else if (const auto* back = std::get_if<destdb::ClusterSharing::GiveBack>(&effect)) {
    event->scheduler.give_back(back->key, back->keep);
  }
}

void SharedDestinations::carry_out(const shaping::SharedRates::Effect& effect) {
  auto event = manager_->event();
  if (const auto* ready = std::get_if<shaping::SharedRates::Ready>(&effect))
    event->scheduler.rate_ready(ready->key);
  else if (const auto* heard = std::get_if<shaping::SharedRates::Heard>(&effect))
    event->scheduler.rate_heard(heard->key, heard->learned, heard->age);
}

std::string SharedDestinations::name_of(char kind, const std::string& key) const {
  std::string name = options_.prefix + kind + ":";
  if (key.size() <= kMaxPlainKey) return name + key;
  const XXH128_hash_t h = XXH3_128bits(key.data(), key.size());
  return name + key.substr(0, kMaxPlainKey) + fmt::format("#{:016x}{:016x}", h.high64, h.low64);
}

template <class Take>
void SharedDestinations::take(Result<Reply> reply, std::string_view what, Take&& taken) {
  if (!reply) return;  // the server is gone: went_down() comes
  if (reply->kind == Reply::Kind::error) {
    client_.give_up(Error(RedisError::refused, std::string(what) + ": " + printable(reply->text, 200)));
    return;
  }
  set_time();
  if (!taken(*reply)) client_.give_up(Error(RedisError::malformed, std::string(what)));
  wake();
}

void SharedDestinations::send(const destdb::ClusterSharing::Request& request) {
  std::visit([this](const auto& r) { send(r); }, request);
}

void SharedDestinations::send(const destdb::ClusterSharing::AskLease& ask) {
  const bool sent = client_.send(
      {"EVALSHA", lease_script_, "2", name_of('l', ask.key), name_of('f', ask.key), options_.instance,
       std::to_string(ask.held), std::to_string(ask.wanted), std::to_string(ask.limit),
       std::to_string(options_.lease.count()), std::to_string(destdb::kPatience.count()), std::to_string(ask.version)},
      [this, id = ask.id, wanted = ask.wanted](Result<Reply> reply) {
        take(std::move(reply), "lease", [&](const Reply& r) {
          const auto answer = lease_reply(r, wanted);
          if (answer) sharing_.answered(id, answer->lease, answer->facts);
          return answer.has_value();
        });
      });
  // More under way than a server that keeps up would ever have.
  if (!sent) client_.give_up(Error(RedisError::no_answer));
}

void SharedDestinations::send(const destdb::ClusterSharing::TellFacts& tell) {
  std::vector<std::string> words{"EVALSHA", facts_script_, "1", name_of('f', tell.key),
                                 std::to_string(kFactsKeptFor.count())};
  for (const auto& [name, bytes] : tell.groups) {
    words.push_back(name);
    words.push_back(bytes);
  }
  const bool sent = client_.send(words, [this, id = tell.id](Result<Reply> reply) {
    take(std::move(reply), "facts", [&](const Reply& r) {
      const auto version = number_reply(r);
      if (version) sharing_.answered(id, *version);
      return version.has_value();
    });
  });
  if (!sent) client_.give_up(Error(RedisError::no_answer));
}

void SharedDestinations::say_that_we_live() {
  alive_again_ = loop_.clock().now() + options_.lease / 3;
  (void)client_.send({"EVALSHA", host_script_, "1", options_.prefix + "hosts", options_.instance,
                      std::to_string(options_.lease.count())},
                     [this](Result<Reply> reply) {
                       take(std::move(reply), "hosts", [&](const Reply& r) {
                         const auto hosts = number_reply(r);
                         if (hosts) {
                           heard_hosts(*hosts);
                           rates_.rates().set_hosts(hosts_in(*hosts));
                         }
                         return hosts.has_value();
                       });
                     });
}

void SharedDestinations::heard_hosts(std::uint64_t hosts) {
  hosts_ = hosts;
  const std::uint32_t n = hosts_in(hosts);
  const SteadyTime now = loop_.clock().now();
  if (n >= noted_hosts_) fewer_since_ = kNever;
  if (n < noted_hosts_ && fewer_since_ == kNever) fewer_since_ = now;
  if (n == noted_hosts_ || (n < noted_hosts_ && now < fewer_since_ + kFewerFor)) return;
  noted_hosts_ = n;
  fewer_since_ = kNever;
  own_.note(kHostsNote, std::to_string(n));
}

async::Task<void> SharedDestinations::leave(SteadyTime until) {
  leaving_ = true;
  alive_again_ = kNever;
  if (!client_.is_up()) co_return;
  // What is still open is closed with its programs.
  auto left = std::make_shared<async::Event>(loop_);
  for (const std::string& key : sharing_.held_keys()) {
    (void)client_.send({"HDEL", name_of('l', key), options_.instance}, {});
  }
  const bool sent = client_.send({"EVALSHA", host_script_, "1", options_.prefix + "hosts", options_.instance, "0"},
                                 [left](Result<Reply>) { left->set(); });
  if (sent) (void)co_await left->wait({.deadline = until});
}

ipc::destinations::Backend SharedDestinations::backend() const {
  ipc::destinations::Backend b;
  b.name = "redis";
  b.server = client_.server().text();
  b.up = client_.is_up();
  b.since = since_;
  b.why = why_down_;
  b.hosts = hosts_;
  b.instance = options_.instance;
  return b;
}

void SharedDestinations::describe(ipc::destinations::Entry& entry) const {
  const auto elsewhere = sharing_.elsewhere(entry.key);
  entry.shared = elsewhere.has_value();
  entry.elsewhere = elsewhere.value_or(0);
}

}  // namespace pen::qmgr
