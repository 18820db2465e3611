#include "smtpd/screened.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <utility>

#include "lib/base/async/readiness.h"
#include "lib/base/log_as.h"
#include "lib/base/text.h"

namespace pen::smtpd {

using triage::Action;
using triage::Test;

namespace {

constexpr std::string_view kProtocolError = "5.5.1 Protocol error";

/// What a client said that should have waited. bytes: -1: nothing yet; 0: it has hung up.
struct Early {
  ssize_t bytes = -1;
  std::string text;
};
[[gnu::noinline]] Early look_for_input(int fd) {
  std::array<char, 1024> ahead;
  const ssize_t seen = ::recv(fd, ahead.data(), ahead.size(), MSG_PEEK | MSG_DONTWAIT);
  if (seen > 0) return {seen, escaped(std::string_view(ahead.data(), static_cast<std::size_t>(seen)))};
  const bool nothing = seen < 0 && (errno == EAGAIN || errno == EINTR);
  return {nothing ? -1 : 0, {}};
}
/// The same without the text: what a waiting client's frame has room for, all of them have.
[[gnu::noinline]] ssize_t early_bytes(int fd) { return look_for_input(fd).bytes; }

}  // namespace

std::unique_ptr<Screened> Screened::begin(Conversation& talk) {
  std::string key = triage::key_of(talk.client.peer.address);
  return key.empty() ? nullptr : std::unique_ptr<Screened>(new Screened(talk, std::move(key)));
}

Screened::Screened(Conversation& talk, std::string key)
    : talk_(talk),
      key_(std::move(key)),
      shown(fmt::format("[{}]:{}", talk.client.peer.address, talk.client.peer.port)),
      began(talk.server.loop.now()),
      tests(rules().rules, screener().cache().find(key_), wall_now()),
      seat_(screener(), key_) {}

// A client in the tests costs the frames of this function and of early_tests(): what comes before and behind is out of
// line.
async::Task<Flow> Screened::test() {
  const Met met = co_await meet();
  if (met == Met::turned_away) co_return Flow::close;
  if (met == Met::tested && tests.early_due() && co_await early_tests() == Flow::close) co_return Flow::close;
  co_return co_await behind_tests(met);
}

async::Task<Flow> Screened::behind_tests(Met met) {
  if (met == Met::passes) co_return co_await let_through();
  if (vetoed_ && !doomed()) doom = "450 4.3.2 Service currently unavailable";
  if (doomed()) {
    talk_.reply("220 " + talk_.settings().smtpd_banner);
    co_return Flow::go_on;
  }
  if (!tests.any_due()) conclude();
  co_return co_await let_through();
}

async::Task<Screened::Met> Screened::meet() {
  Screener& screener = *talk_.server.screener;
  const Screening& rules = screener.screening();
  const auto& s = talk_.settings();  // of the service: the tests begin below
  const auto own = talk_.own_end();
  talk_.under_test = true;
  log::info_as(kName, "CONNECT from {} to [{}]:{}", shown, own ? own->host : "unknown", own ? own->port : 0);

  const auto most = s.postscreen_client_connection_count_limit;
  if (most > 0 && screener.seats_of(key_) > static_cast<std::size_t>(most)) {
    log::info_as(kName, "NOQUEUE: reject: CONNECT from {}: too many connections", shown);
    (void)co_await turn_away("421 4.7.0 Error: too many connections");
    co_return Met::turned_away;
  }
  if (screener.waiting() >= static_cast<std::size_t>(s.postscreen_post_queue_limit)) {
    log::info_as(kName, "NOQUEUE: reject: CONNECT from {}: all server ports busy", shown);
    (void)co_await turn_away("421 4.3.2 All server ports are busy");
    co_return Met::turned_away;
  }
  const auto access = co_await talk_.server.intake.tables.ask(
      [&] { return rules.access(talk_.client.peer.address, talk_.policy().mynetworks); });
  for (const auto& warning : access.warnings) log::warning("{}", warning);
  if (access.outcome == ScreenAccess::permit) {
    log::info_as(kName, "{} {}", rules.words.permitted, shown);
    concluded_ = true;
    co_return Met::passes;
  }
  if (access.outcome == ScreenAccess::reject) {
    log::info_as(kName, "{} {}", rules.words.denied, shown);
    if (rules.denylist_action == Action::drop) {
      (void)co_await turn_away("521 5.3.2 Service currently unavailable");
      co_return Met::turned_away;
    }
    if (rules.denylist_action == Action::enforce) doom = "550 5.3.2 Service currently unavailable";
  }
  if (tests.any_due() && !doomed() && screener.find_elsewhere) {
    if (const auto record = co_await screener.find_elsewhere(key_)) {
      const triage::Tests theirs(rules.rules, record, wall_now());
      if (!theirs.any_due()) {
        tests = theirs;
        screener.cache().put(key_, *record);
        screener.on_change();
      }
    }
  }
  if (!tests.any_due() && !doomed()) {
    log::info_as(kName, "PASS OLD {}", shown);
    ++screener.counts.known;
    concluded_ = true;
    co_return Met::passes;
  }
  const std::string here = own && !own->is_unix() ? triage::key_of(own->host) : std::string();
  Result<bool> passes_here = true;
  if (!here.empty())
    passes_here =
        co_await talk_.server.intake.tables.ask([&] { return rules.allowlist_interfaces.matches_address(here); });
  if (!passes_here) log::warning("postscreen_allowlist_interfaces: {}", passes_here.error().message());
  if (passes_here == false) {
    log::info_as(kName, "{} {}", rules.words.vetoed, shown);
    vetoed_ = true;
  }
  if (screener.seats() > static_cast<std::size_t>(s.postscreen_pre_queue_limit)) {
    log::info_as(kName, "reject: connect from {}: all screening ports busy", shown);
    (void)co_await turn_away("421 4.3.2 All screening ports are busy");
    co_return Met::turned_away;
  }
  ++screener.counts.tested;
  co_return Met::tested;
}

async::Task<Flow> Screened::let_through() {
  seat_.leave();
  auto place = co_await screener().enter(talk_.until());
  if (!place) {
    talk_.reply("421 4.3.2 All server ports are busy");
    co_return Flow::close;
  }
  place_ = *std::move(place);
  talk_.under_test = false;
  talk_.take_place();
  began = talk_.server.loop.now();
  co_return Flow::go_on;
}

async::Task<bool> Screened::tease() {
  talk_.reply("220-" + talk_.settings().postscreen_greet_banner);
  co_return (co_await talk_.stream.flush(talk_.until())).has_value();
}

async::Task<Flow> Screened::talked_early() {
  const Early early = look_for_input(talk_.stream.fd());
  log::info_as(kName, "PREGREET {} after {} from {}: {}", early.bytes, short_time(talk_.server.loop.now() - began),
               shown, early.text);
  co_return co_await act(Test::pregreet, kProtocolError);
}

async::Task<Flow> Screened::early_tests() {
  const auto& s = talk_.settings();
  if (tests.due(Test::pregreet) && !s.postscreen_greet_banner.empty() && !co_await tease())
    co_return hung_up("tests before SMTP handshake");
  const SteadyTime end = began + s.postscreen_greet_wait;
  async::Cancel told;  // a wait ends because the lists have answered, or the server stops
  const Screener::Waiting waits(screener(), told);
  std::unique_ptr<ListVote> vote;
  if (tests.due(Test::dnsbl))
    vote =
        std::make_unique<ListVote>(talk_.server.loop, talk_.server.lists, rules(), talk_.client.peer.address,
                                   async::Until{.deadline = std::min(end, began + s.postscreen_dnsbl_timeout)}, told);
  async::Readiness readiness(talk_.server.loop, talk_.stream.fd());
  bool listens = true;  // the client may hang up, or talk too early
  for (;;) {
    if (talk_.server.stopping()) co_return closes();
    if (listens) {
      const ssize_t bytes = early_bytes(talk_.stream.fd());
      if (bytes == 0) co_return hung_up("tests before SMTP handshake");
      listens = bytes < 0;
      if (!listens && tests.due(Test::pregreet) && co_await talked_early() == Flow::close) co_return Flow::close;
    }
    if (vote && vote->complete() && tests.due(Test::dnsbl) && co_await judge_lists(*vote) == Flow::close)
      co_return Flow::close;
    if (!tests.early_due() || talk_.server.loop.now() >= end) break;
    const async::Until wait{.deadline = end, .cancel = &told};
    if (listens)
      (void)co_await readiness.readable(wait);
    else
      (void)co_await talk_.server.loop.sleep(end - talk_.server.loop.now(), wait);
    told.reset();
  }
  tests.pass(Test::pregreet, wall_now());
  if (vote && tests.due(Test::dnsbl) && co_await judge_lists(*vote) == Flow::close) co_return Flow::close;
  co_return Flow::go_on;
}

Flow Screened::closes() {
  talk_.reply(fmt::format("421 4.3.2 {} Service closing transmission channel", talk_.settings().myhostname));
  return Flow::close;
}

async::Task<Flow> Screened::judge_lists(const ListVote& vote) {
  const ListVote::Result result = vote.result();
  const bool fails = result.score >= rules().rules.threshold;
  if (fails) log::info_as(kName, "DNSBL rank {} for {}", result.score, shown);
  if (!fails) {
    (void)tests.judge_lists(result.score, result.ttl, wall_now());
    co_return Flow::go_on;
  }
  std::string name = result.blamed;
  if (!rules().dnsbl_reply.empty()) {
    const map::Value named =
        co_await talk_.server.intake.tables.ask([&] { return rules().dnsbl_reply.lookup(result.blamed); });
    if (!named) log::warning("postscreen_dnsbl_reply_map: {}", named.error().message());
    if (named && *named) name = **named;
  }
  co_return co_await act(Test::dnsbl, fmt::format("5.7.1 Service unavailable; client [{}] blocked using {}",
                                                  talk_.client.peer.address, name));
}

async::Task<Flow> Screened::act(Test test, std::string_view text, std::string_view dropped_with) {
  const std::string words(text);
  switch (tests.fail(test, wall_now())) {
    case Action::ignore:
      break;
    case Action::enforce:
      doom = "550 " + words;
      break;
    case Action::drop:
      co_return co_await turn_away(dropped_with.empty() ? "521 " + words : std::string(dropped_with));
  }
  co_return Flow::go_on;
}

async::Task<Flow> Screened::turn_away(std::string text) {
  ++screener().counts.refused;
  concluded_ = true;
  const std::string below = co_await footer(text);
  // To close a socket with unread input resets the connection, and the client might lose the reply.
  (void)talk_.stream.poll_input();
  talk_.reply(text, below, rules().expansion_filter);
  co_return Flow::close;
}

async::Task<std::string> Screened::footer(std::string text) {
  const map::MapList& maps = rules().reject_footer_maps;
  // The setting is read as it is written, so that its default stands for the other one by its name.
  const auto& s = talk_.settings();
  const std::string& usual =
      s.postscreen_reject_footer == "$smtpd_reject_footer" ? s.smtpd_reject_footer : s.postscreen_reject_footer;
  if (maps.empty()) co_return usual;
  const map::Value found = co_await talk_.server.intake.tables.ask([&] { return maps.lookup(text); });
  if (!found) log::warning("postscreen_reject_footer_maps: {}", found.error().message());
  co_return found && *found ? **found : usual;
}

Flow Screened::hung_up(std::string_view where) {
  log::info_as(kName, "HANGUP after {} from {} in {}", short_time(talk_.server.loop.now() - began), shown, where);
  return Flow::close;
}

void Screened::conclude() {
  if (std::exchange(concluded_, true) || vetoed_ || doomed()) return;
  if (tests.passed()) {
    log::info_as(kName, "PASS {} {}", tests.is_new() ? "NEW" : "OLD", shown);
    ++screener().counts.passed;
  }
  if (const auto record = tests.learnt()) screener().learn(key_, *record);
}

void Screened::end() {
  conclude();
  if (talk_.under_test || doomed() || tests.failed()) log::info_as(kName, "DISCONNECT {}", shown);
}

bool Screened::watches(Test test) const { return !talk_.client.login && !doomed() && tests.due(test); }

void Screened::behaved_well() {
  if (concluded_ || talk_.client.login) return;
  for (const Test test : triage::kAllTests)
    if (!triage::is_early(test)) tests.pass(test, wall_now());
  conclude();
}

async::Task<Flow> Screened::misbehaved(Test test, std::string_view about, std::string_view text) {
  std::string_view word = "BARE NEWLINE", dropped_with;
  if (test == Test::pipelining) word = "COMMAND PIPELINING";
  if (test == Test::non_smtp) {
    word = "NON-SMTP COMMAND";
    dropped_with = "521 5.7.0 Error: I can break rules, too. Goodbye.";
  }
  log::info_as(kName, "{} from {} after {}{}{}", word, shown, escaped(about), text.empty() ? "" : ": ", escaped(text));
  co_return co_await act(test, kProtocolError, dropped_with);
}

void Screened::doom_transaction() {
  if (talk_.transaction) sender = talk_.subject().sender;
  talk_.reset_transaction();
  last = talk_.last_command;
}

}  // namespace pen::smtpd
