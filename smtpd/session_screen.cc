/// Tests of clients at a port of postscreen: before the greeting, and what the session itself shows afterwards
/// (docs/triage.md).
#include <fmt/format.h>
#include <sys/socket.h>

#include <array>

#include "lib/async/readiness.h"
#include "lib/base/log_as.h"
#include "lib/base/text.h"
#include "smtpd/list_vote.h"
#include "smtpd/session.h"

namespace pen::smtpd {

using triage::Action;
using triage::Test;

namespace {

constexpr const char* kName = "postscreen";  // in the log
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

WallTime Session::wall_now() const { return talk_.server.loop.clock().wall_now(); }

// A client in the tests costs the frames of this function and of early_tests(): what comes before and behind is out of
// line.
async::Task<Flow> Session::screen() {
  const Met met = co_await meet();
  if (met == Met::turned_away) co_return Flow::close;
  if (met == Met::tested && screened_->tests.early_due() && co_await early_tests() == Flow::close)
    co_return Flow::close;
  co_return co_await behind_tests(met);
}

async::Task<Flow> Session::behind_tests(Met met) {
  Screened& sc = *screened_;
  if (met == Met::not_by_ip) co_return Flow::go_on;
  if (met == Met::passes) co_return co_await let_through();
  if (sc.vetoed && !sc.doomed()) sc.doom = "450 4.3.2 Service currently unavailable";
  if (sc.doomed()) {
    talk_.reply("220 " + talk_.settings().smtpd_banner);
    co_await refuse_all();
    co_return Flow::close;
  }
  if (!sc.tests.any_due()) conclude();
  co_return co_await let_through();
}

async::Task<Session::Met> Session::meet() {
  Screener& screener = *talk_.server.screener;
  const Screening& rules = screener.screening();
  const auto& s = talk_.settings();
  const std::string key = triage::key_of(talk_.client.peer.address);
  if (key.empty()) co_return Met::not_by_ip;
  const auto own = talk_.own_end();
  screened_ = std::make_unique<Screened>(
      Screened{.screener = screener,
               .key = key,
               .shown = fmt::format("[{}]:{}", talk_.client.peer.address, talk_.client.peer.port),
               .began = talk_.server.loop.now(),
               .tests = {rules.rules, screener.cache().find(key), wall_now()},
               .seat = {screener, key},
               .place = {}});
  talk_.under_test = true;
  Screened& sc = *screened_;
  log::info_as(kName, "CONNECT from {} to [{}]:{}", sc.shown, own ? own->host : "unknown", own ? own->port : 0);

  const auto most = s.postscreen_client_connection_count_limit;
  if (most > 0 && screener.seats_of(key) > static_cast<std::size_t>(most)) {
    log::info_as(kName, "NOQUEUE: reject: CONNECT from {}: too many connections", sc.shown);
    (void)co_await turn_away("421 4.7.0 Error: too many connections");
    co_return Met::turned_away;
  }
  if (screener.waiting() >= static_cast<std::size_t>(s.postscreen_post_queue_limit)) {
    log::info_as(kName, "NOQUEUE: reject: CONNECT from {}: all server ports busy", sc.shown);
    (void)co_await turn_away("421 4.3.2 All server ports are busy");
    co_return Met::turned_away;
  }
  const auto access = co_await talk_.server.intake.tables.ask(
      [&] { return rules.access(talk_.client.peer.address, talk_.policy().mynetworks); });
  for (const auto& warning : access.warnings) log::warning("{}", warning);
  if (access.outcome == ScreenAccess::permit) {
    log::info_as(kName, "{} {}", rules.words.permitted, sc.shown);
    sc.concluded = true;
    co_return Met::passes;
  }
  if (access.outcome == ScreenAccess::reject) {
    log::info_as(kName, "{} {}", rules.words.denied, sc.shown);
    if (rules.denylist_action == Action::drop) {
      (void)co_await turn_away("521 5.3.2 Service currently unavailable");
      co_return Met::turned_away;
    }
    if (rules.denylist_action == Action::enforce) sc.doom = "550 5.3.2 Service currently unavailable";
  }
  if (sc.tests.any_due() && !sc.doomed() && screener.find_elsewhere) {
    if (const auto record = co_await screener.find_elsewhere(key)) {
      const triage::Tests theirs(rules.rules, record, wall_now());
      if (!theirs.any_due()) {
        sc.tests = theirs;
        screener.cache().put(key, *record);
        screener.on_change();
      }
    }
  }
  if (!sc.tests.any_due() && !sc.doomed()) {
    log::info_as(kName, "PASS OLD {}", sc.shown);
    ++screener.counts.known;
    sc.concluded = true;
    co_return Met::passes;
  }
  const std::string here = own && !own->is_unix() ? triage::key_of(own->host) : std::string();
  Result<bool> passes_here = true;
  if (!here.empty())
    passes_here =
        co_await talk_.server.intake.tables.ask([&] { return rules.allowlist_interfaces.matches_address(here); });
  if (!passes_here) log::warning("postscreen_allowlist_interfaces: {}", passes_here.error().message());
  if (passes_here == false) {
    log::info_as(kName, "{} {}", rules.words.vetoed, sc.shown);
    sc.vetoed = true;
  }
  if (screener.seats() > static_cast<std::size_t>(s.postscreen_pre_queue_limit)) {
    log::info_as(kName, "reject: connect from {}: all screening ports busy", sc.shown);
    (void)co_await turn_away("421 4.3.2 All screening ports are busy");
    co_return Met::turned_away;
  }
  ++screener.counts.tested;
  co_return Met::tested;
}

async::Task<Flow> Session::let_through() {
  Screened& sc = *screened_;
  sc.seat.leave();
  auto place = co_await sc.screener.enter(talk_.until());
  if (!place) {
    talk_.reply("421 4.3.2 All server ports are busy");
    co_return Flow::close;
  }
  sc.place = *std::move(place);
  sc.let_through = true;
  talk_.under_test = false;
  talk_.take_place();
  sc.began = talk_.server.loop.now();
  co_return Flow::go_on;
}

async::Task<bool> Session::tease() {
  talk_.reply("220-" + talk_.settings().postscreen_greet_banner);
  co_return (co_await talk_.stream.flush(talk_.until())).has_value();
}

async::Task<Flow> Session::talked_early() {
  Screened& sc = *screened_;
  const Early early = look_for_input(talk_.stream.fd());
  log::info_as(kName, "PREGREET {} after {} from {}: {}", early.bytes, short_time(talk_.server.loop.now() - sc.began),
               sc.shown, early.text);
  co_return co_await act(Test::pregreet, kProtocolError);
}

async::Task<Flow> Session::early_tests() {
  Screened& sc = *screened_;
  const auto& s = talk_.settings();
  if (sc.tests.due(Test::pregreet) && !s.postscreen_greet_banner.empty() && !co_await tease())
    co_return hung_up("tests before SMTP handshake");
  const SteadyTime end = sc.began + s.postscreen_greet_wait;
  async::Cancel told;  // a wait ends because the lists have answered, or the server stops
  const Screener::Waiting waits(sc.screener, told);
  std::unique_ptr<ListVote> vote;
  if (sc.tests.due(Test::dnsbl))
    vote = std::make_unique<ListVote>(talk_.server.loop, talk_.server.lists, sc.rules(), talk_.client.peer.address,
                                      async::Until{.deadline = std::min(end, sc.began + s.postscreen_dnsbl_timeout)},
                                      told);
  async::Readiness readiness(talk_.server.loop, talk_.stream.fd());
  bool listens = true;  // the client may hang up, or talk too early
  for (;;) {
    if (talk_.server.stopping()) co_return closes();
    if (listens) {
      const ssize_t bytes = early_bytes(talk_.stream.fd());
      if (bytes == 0) co_return hung_up("tests before SMTP handshake");
      listens = bytes < 0;
      if (!listens && sc.tests.due(Test::pregreet) && co_await talked_early() == Flow::close) co_return Flow::close;
    }
    if (vote && vote->complete() && sc.tests.due(Test::dnsbl) && co_await judge_lists(*vote) == Flow::close)
      co_return Flow::close;
    if (!sc.tests.early_due() || talk_.server.loop.now() >= end) break;
    const async::Until wait{.deadline = end, .cancel = &told};
    if (listens)
      (void)co_await readiness.readable(wait);
    else
      (void)co_await talk_.server.loop.sleep(end - talk_.server.loop.now(), wait);
    told.reset();
  }
  sc.tests.pass(Test::pregreet, wall_now());
  if (vote && sc.tests.due(Test::dnsbl) && co_await judge_lists(*vote) == Flow::close) co_return Flow::close;
  co_return Flow::go_on;
}

Flow Session::closes() {
  talk_.reply(fmt::format("421 4.3.2 {} Service closing transmission channel", talk_.settings().myhostname));
  return Flow::close;
}

async::Task<Flow> Session::judge_lists(const ListVote& vote) {
  Screened& sc = *screened_;
  const ListVote::Result result = vote.result();
  const bool fails = result.score >= sc.rules().rules.threshold;
  if (fails) log::info_as(kName, "DNSBL rank {} for {}", result.score, sc.shown);
  if (!fails) {
    (void)sc.tests.judge_lists(result.score, result.ttl, wall_now());
    co_return Flow::go_on;
  }
  std::string name = result.blamed;
  if (!sc.rules().dnsbl_reply.empty()) {
    const map::Value shown =
        co_await talk_.server.intake.tables.ask([&] { return sc.rules().dnsbl_reply.lookup(result.blamed); });
    if (!shown) log::warning("postscreen_dnsbl_reply_map: {}", shown.error().message());
    if (shown && *shown) name = **shown;
  }
  co_return co_await act(Test::dnsbl, fmt::format("5.7.1 Service unavailable; client [{}] blocked using {}",
                                                  talk_.client.peer.address, name));
}

async::Task<Flow> Session::act(Test test, std::string_view text, std::string_view dropped_with) {
  Screened& sc = *screened_;
  const std::string words(text);
  switch (sc.tests.fail(test, wall_now())) {
    case Action::ignore:
      break;
    case Action::enforce:
      sc.doom = "550 " + words;
      break;
    case Action::drop:
      co_return co_await turn_away(dropped_with.empty() ? "521 " + words : std::string(dropped_with));
  }
  co_return Flow::go_on;
}

async::Task<Flow> Session::turn_away(std::string text) {
  ++screened_->screener.counts.refused;
  screened_->concluded = true;
  const std::string footer = co_await screen_footer(text);
  // To close a socket with unread input resets the connection, and the client might lose the reply.
  (void)talk_.stream.poll_input();
  talk_.reply(text, footer, screened_->rules().expansion_filter);
  co_return Flow::close;
}

async::Task<std::string> Session::screen_footer(std::string text) {
  const map::MapList& maps = screened_->rules().reject_footer_maps;
  // The setting is read as it is written, so that its default stands for the other one by its name.
  const auto& s = talk_.settings();
  const std::string& usual =
      s.postscreen_reject_footer == "$smtpd_reject_footer" ? s.smtpd_reject_footer : s.postscreen_reject_footer;
  if (maps.empty()) co_return usual;
  const map::Value found = co_await talk_.server.intake.tables.ask([&] { return maps.lookup(text); });
  if (!found) log::warning("postscreen_reject_footer_maps: {}", found.error().message());
  co_return found && *found ? **found : usual;
}

Flow Session::hung_up(std::string_view where) {
  log::info_as(kName, "HANGUP after {} from {} in {}", short_time(talk_.server.loop.now() - screened_->began),
               screened_->shown, where);
  return Flow::close;
}

void Session::conclude() {
  Screened& sc = *screened_;
  if (std::exchange(sc.concluded, true) || sc.vetoed || sc.doomed()) return;
  if (sc.tests.passed()) {
    log::info_as(kName, "PASS {} {}", sc.tests.is_new() ? "NEW" : "OLD", sc.shown);
    ++sc.screener.counts.passed;
  }
  if (const auto record = sc.tests.learnt()) sc.screener.learn(sc.key, *record);
}

void Session::end_screening() {
  if (!screened_) return;
  conclude();
  if (!screened_->let_through || screened_->doomed() || screened_->tests.failed())
    log::info_as(kName, "DISCONNECT {}", screened_->shown);
}

bool Session::watches(Test test) const {
  return screened_ && !talk_.client.login && !screened_->doomed() && screened_->tests.due(test);
}

void Session::behaved_well() {
  if (!screened_ || screened_->concluded || talk_.client.login) return;
  for (const Test test : triage::kAllTests)
    if (!triage::is_early(test)) screened_->tests.pass(test, wall_now());
  conclude();
}

async::Task<Flow> Session::misbehaved(Test test, std::string_view about, std::string_view text) {
  Screened& sc = *screened_;
  std::string_view word = "BARE NEWLINE", dropped_with;
  if (test == Test::pipelining) word = "COMMAND PIPELINING";
  if (test == Test::non_smtp) {
    word = "NON-SMTP COMMAND";
    dropped_with = "521 5.7.0 Error: I can break rules, too. Goodbye.";
  }
  log::info_as(kName, "{} from {} after {}{}{}", word, sc.shown, escaped(about), text.empty() ? "" : ": ",
               escaped(text));
  co_return co_await act(test, kProtocolError, dropped_with);
}

}  // namespace pen::smtpd
