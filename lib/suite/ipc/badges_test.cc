#include "lib/suite/ipc/badges.h"

#include <sys/stat.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include "lib/base/async/listener.h"
#include "lib/base/async/testing/run.h"
#include "lib/suite/ipc/channel.h"
#include "lib/suite/ipc/clients.h"
#include "lib/testing/scratch.h"

namespace pen::ipc {
namespace {

std::string badge(char c) { return std::string(kBadgeSize, c); }

/// A server in this process. Root may everything, so clients have another account where the test runs as root.
struct Host {
  static constexpr uid_t kMail = 12345;
  async::Loop loop;
  pen::testing::ScratchDir dir;
  std::string path = dir.file("socket");
  async::Listener listener{loop, async::listen_on(async::SocketAddress::unix(path)).value(), 10};
  uid_t mail = ::geteuid() == 0 ? kMail : ::geteuid();
  Badges mine{.program = "",
              .demanded = true,
              .worn = {},
              .known = {{"smtpd", badge('s')}, {"penapi", badge('p')}, {"qmgr", badge('q')}}};

  Host() { BOOST_REQUIRE(::chmod(dir.path().c_str(), 0755) == 0 && ::chmod(path.c_str(), 0666) == 0); }
  ~Host() { wear({}); }

  /// As async::testing::run(), for many short waits.
  template <class T>
  T run(async::Task<T> task) {
    std::optional<T> out;
    loop.spawn("test", async::testing::store_result(std::move(task), &out));
    for (int i = 0; !out && i < 100'000; ++i) loop.run_once(milliseconds(1));
    BOOST_REQUIRE(out.has_value());
    return *std::move(out);
  }

  /// A client that says this, and what the server makes of it.
  Result<Opening> greeted(const std::string& conversation, const std::string& program, const std::string& shown,
                          std::optional<uid_t> uid = std::nullopt, std::optional<uid_t> queue_owner = std::nullopt) {
    wear(mine);
    const uid_t account = uid.value_or(mail);
    const bool changes = account != ::geteuid();
    BOOST_REQUIRE(!changes || ::seteuid(account) == 0);
    auto client = run(async::connect(loop, async::SocketAddress::unix(path))).value();
    BOOST_REQUIRE(!changes || ::seteuid(0) == 0);
    Hello hello = own_hello(conversation);
    hello.program = program;
    hello.badge = shown;
    BOOST_REQUIRE(encode_frame<HelloMessage>(client.compose(), hello, 0, kMaxHello));
    auto accepted = run(listener.accept()).value();
    const AllowedPeers peers{.everyone = true, .mail_owner = mail, .queue_owner = queue_owner.value_or(mail)};
    return run(greet(std::move(accepted.stream), peers, {.deadline = loop.now() + seconds(20)}));
  }
};

BOOST_FIXTURE_TEST_SUITE(badges_of_programs, Host)

BOOST_AUTO_TEST_CASE(who_shows_its_badge_is_known_and_holds_what_the_table_gives_it) {
  const auto opening = greeted("enqueue", "smtpd", badge('s'));
  BOOST_REQUIRE(opening.has_value());
  BOOST_TEST(opening->program == "smtpd");
  BOOST_TEST(!opening->stranger);
  BOOST_TEST(greeted("route", "smtpd", badge('s')).error().is(IpcError::not_for_program));
  BOOST_TEST(greeted("trace", "smtpd", badge('s')).error().is(IpcError::not_for_program));
  BOOST_TEST(greeted("no such", "smtpd", badge('s')).error().is(IpcError::not_for_program));
  BOOST_TEST(greeted("route", "qmgr", badge('q')).has_value());
}

BOOST_AUTO_TEST_CASE(nobody_is_let_in_as_another) {
  for (const std::string& shown :
       {badge('s'), badge('x'), badge('p') + "p", badge('p').substr(1), std::string("p"), badge('\0')})
    BOOST_TEST(greeted("queue", "penapi", shown).error().is(IpcError::wrong_badge));
  BOOST_TEST(greeted("enqueue", "", badge('s')).error().is(IpcError::wrong_badge));
  BOOST_TEST(greeted("enqueue", "bounce", badge('s')).error().is(IpcError::wrong_badge));  // which has none here
  const auto refused = greeted("enqueue", "penapi\n", badge('s')).error();
  BOOST_TEST(refused.message().contains("as penapi?, conversation \"enqueue\""), refused.message());
}

BOOST_AUTO_TEST_CASE(who_shows_none_is_a_stranger) {
  BOOST_TEST(greeted("enqueue", "", "").error().is(IpcError::no_badge));
  BOOST_TEST(greeted("enqueue", "smtpd", "").error().is(IpcError::no_badge));
  const auto opening = greeted("queue", "", "");  // which users have, too
  BOOST_REQUIRE(opening.has_value());
  BOOST_TEST(opening->stranger);
  BOOST_TEST(opening->program == "");
}

BOOST_AUTO_TEST_CASE(where_none_is_demanded_all_are_let_in_and_who_shows_one_is_held_to_the_table) {
  mine.demanded = false;
  BOOST_TEST(greeted("enqueue", "", "").value().program == "");
  BOOST_TEST(greeted("enqueue", "smtpd", badge('s')).value().program == "smtpd");
  BOOST_TEST(greeted("route", "smtpd", badge('s')).error().is(IpcError::not_for_program));
  BOOST_TEST(greeted("enqueue", "smtpd", badge('x')).error().is(IpcError::wrong_badge));
  mine.known.clear();  // as of a program that master gave none
  BOOST_TEST(greeted("enqueue", "smtpd", badge('x')).has_value());
}

BOOST_AUTO_TEST_CASE(an_account_of_its_own_is_the_queue_managers_badge) {
  if (::geteuid() != 0) return;
  const uid_t queue = kMail + 1;
  BOOST_TEST(greeted("route", "", "", queue, queue).value().program == "qmgr");
  BOOST_TEST(greeted("enqueue", "", "", queue, queue).error().is(IpcError::not_for_program));
  BOOST_TEST(greeted("route", "", "", kMail, kMail).error().is(IpcError::no_badge));
  BOOST_TEST(!greeted("queue", "", "", queue, kMail).value().stranger);  // a user
  BOOST_TEST(greeted("trace", "", "", 0).has_value());                   // root
}

BOOST_AUTO_TEST_CASE(a_client_shows_its_badge_at_that_socket_and_asks_for_nothing_that_it_may_not) {
  const auto connect = [&](std::string_view conversation) {
    return run(connect_channel<clients::FromAnvil, clients::ToAnvil>(loop, path, conversation,
                                                                     {.deadline = loop.now() + milliseconds(1)}));
  };
  for (const bool worn : {true, false}) {
    Badges of_client{.program = "smtpd", .demanded = true, .worn = {{dir.file("other"), badge('o')}}, .known = {}};
    if (worn) of_client.worn.push_back({path, badge('s')});
    wear(of_client);
    BOOST_TEST(connect(clients::kName).error().is(async::WaitError::timed_out));  // nobody answers here
    auto accepted = run(listener.accept()).value();
    const auto bytes = run(accepted.stream.read_some(1000)).value();
    BOOST_TEST(bytes.contains(badge('s')) == worn);
    BOOST_TEST(!bytes.contains(badge('o')));
    BOOST_TEST(connect("tls_report").error().is(IpcError::not_for_program));
    BOOST_TEST(connect("delivery").error().is(IpcError::not_for_program));
  }
}

BOOST_AUTO_TEST_CASE(what_is_handed_over_is_read_once_or_twice_and_not_when_it_was_cut) {
  mine.worn = {{"/spool/public/qmgr", badge('w')}};
  const Fd memory = to_memory(mine).value();
  for (int i = 0; i < 2; ++i) {
    const auto read = from_memory(memory.get());
    BOOST_REQUIRE(read.has_value());
    BOOST_TEST(read->for_socket("/spool/public/qmgr") == badge('w'));
    BOOST_TEST(read->for_socket("/spool/public/qmg") == "");
    BOOST_TEST(read->shows("penapi", badge('p')));
    BOOST_TEST(read->demanded);
  }
  BOOST_REQUIRE(::ftruncate(memory.get(), 10) == 0);
  BOOST_TEST(from_memory(memory.get()).error().is_errno(EBADMSG));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::ipc
