#pragma once
/// The tests of one session's client, from its connection until it has passed or is gone (docs/triage.md): those before
/// the greeting, and what the session itself shows afterwards. A client that failed is turned away, or has a
/// RefusedSession. A port that is not screened has no such object.
///
/// Use:     auto screened = Screened::begin(talk);                     // nullptr: the client does not come by IP
///          if (screened && co_await screened->test() == Flow::close) … it has its reply …
///          if (screened->doomed()) co_await RefusedSession::serve(talk, *screened);
///          if (screened->watches(Test::non_smtp)) co_await screened->misbehaved(Test::non_smtp, …);
///          screened->behaved_well();   screened->end();
/// Thread:  the loop's. The Conversation and the server's Screener outlive it.
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "lib/receive/triage/tests.h"
#include "smtpd/conversation.h"
#include "smtpd/list_vote.h"
#include "smtpd/screener.h"

namespace pen::smtpd {

class Screened {
 public:
  /// The program's name in the log, as Postfix has it.
  static constexpr const char* kName = "postscreen";

  static std::unique_ptr<Screened> begin(Conversation& talk);

  /// Tests the client before it is served. close: it has its reply. A client that is doomed has its greeting.
  [[gnu::noinline]] async::Task<Flow> test();
  /// Whether the session is watched for this.
  bool watches(triage::Test test) const;
  /// The client did what it came for, and failed no test.
  void behaved_well();
  /// It failed one. about: the last command; text: what it said.
  [[gnu::noinline]] async::Task<Flow> misbehaved(triage::Test test, std::string_view about, std::string_view text);
  /// Turns what is under way into a refused session.
  void doom_transaction();
  bool doomed() const { return !doom.empty(); }
  /// The session ends.
  void end();

  const Screening& rules() const { return screener().screening(); }
  [[gnu::noinline]] async::Task<std::string> footer(std::string reply);
  [[gnu::noinline]] Flow hung_up(std::string_view where);

 private:
  Screened(Conversation& talk, std::string key);

  enum class Met : std::uint8_t { turned_away, passes, tested };
  /// What comes before the tests.
  [[gnu::noinline]] async::Task<Met> meet();
  [[gnu::noinline]] async::Task<Flow> early_tests();
  /// What comes behind them.
  [[gnu::noinline]] async::Task<Flow> behind_tests(Met met);
  /// The first half of the greeting. False: the client has gone.
  [[gnu::noinline]] async::Task<bool> tease();
  [[gnu::noinline]] async::Task<Flow> talked_early();
  [[gnu::noinline]] Flow closes();
  [[gnu::noinline]] async::Task<Flow> judge_lists(const ListVote& vote);
  /// Does what the settings say about a failed test. text: of the reply, without its code.
  [[gnu::noinline]] async::Task<Flow> act(triage::Test test, std::string_view text, std::string_view dropped_with = {});
  /// The last reply of a session that was never served.
  [[gnu::noinline]] async::Task<Flow> turn_away(std::string text);
  /// Waits for a place among the sessions that are served.
  [[gnu::noinline]] async::Task<Flow> let_through();
  /// All tests have ended: their result is kept.
  void conclude();

  Screener& screener() const { return *talk_.server.screener; }
  WallTime wall_now() const { return talk_.server.loop.clock().wall_now(); }

  Conversation& talk_;
  const std::string key_;  // in the cache

 public:
  const std::string shown;  // "[address]:port", for the log
  SteadyTime began;         // of the tests, later of the session after them
  triage::Tests tests;
  bool saw_mail = false;  // the client has begun a transaction

  // Of a refused session, which has no transaction, filters or policy.
  std::string doom;                   // its recipients are refused with it; empty: they are not
  std::optional<std::string> sender;  // of the MAIL command
  std::string last = "CONNECT";       // command, for the log
  int commands = 0;

 private:
  Screener::Seat seat_;     // until it is let through
  Screener::Place place_;   // from then on
  bool vetoed_ = false;     // connected where no client can pass for good
  bool concluded_ = false;  // what was learnt is in the cache
};

}  // namespace pen::smtpd
